"""A private PgBouncer in front of a PostgreSQL."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
from pathlib import Path

from tests.support.servers.postgres import PostgresServer, environ, system_user
from tests.support.servers.private import HOST, PrivateServer, ServerError

_SETTINGS = """
[databases]
* = host={host} port={port}
[pgbouncer]
listen_addr = {host}
listen_port = {listen}
unix_socket_dir =
auth_type = trust
auth_file = {users}
pool_mode = {mode}
default_pool_size = {pool}
max_client_conn = 500
server_round_robin = 1
"""


class PgBouncer(PrivateServer):
    """A pooler with few connections to a server, each of them for one transaction of any client.

    with PgBouncer(server) as pooler:
        store = open_store(pooler.url())

    Connections are used in turn, so that what is set for a session is missed at once.
    """

    title = "PgBouncer"

    def __init__(self, server: PostgresServer, *, mode: str = "transaction", pool: int = 12) -> None:
        program = find_program()
        if program is None:
            raise ServerError(why_missing())
        super().__init__(None, 0)
        self._program, self._server, self._mode, self._pool = program, server, mode, pool

    def url(self, database: str = "app", *, direct: bool = False, **options: str) -> str:
        """Where clients connect; with `direct`, the URL also names the server itself."""
        given = {**options, **({"direct": f"{HOST}:{self._server.port}"} if direct else {})}
        query = "&".join(f"{name}={value}" for name, value in given.items())
        return self._server.url(database, port=self.port) + (f"?{query}" if query else "")

    def _prepare(self) -> None:
        users = self.folder / "users.txt"
        users.write_text(f'"{self._server.user}" ""\n')
        text = _SETTINGS.format(
            host=HOST, port=self._server.port, listen=self.port, users=users, mode=self._mode, pool=self._pool
        )
        (self.folder / "pgbouncer.ini").write_text(text)

    def _spawn(self) -> subprocess.Popen[bytes]:
        return self._run_logged([self._program, self.folder / "pgbouncer.ini"], environ(), user=system_user())

    def _answers(self) -> bool:
        try:
            socket.create_connection((HOST, self.port), 1.0).close()
        except OSError:
            return False
        return True

    def _request_stop(self) -> None:
        self._running_process().send_signal(signal.SIGTERM)


def find_program() -> Path | None:
    found = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")
    return Path(found) if found else None


def why_missing() -> str:
    """Why no PgBouncer can be started here, and what to do about it; empty if one can."""
    if find_program() is not None:
        return ""
    return "PgBouncer: found no `pgbouncer` on this machine; install it: apt-get install pgbouncer"
