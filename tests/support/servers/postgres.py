"""A private PostgreSQL."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from tests.support.servers.private import HOST, PrivateServer, ServerError, can_enter

# Roles that a test makes log in with a password, as in production; only the owner of the server needs none.
_HBA = "host all,replication {user} 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
_DEFAULTS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",  # their paths may not be long
    "dynamic_shared_memory_type": "mmap",  # so that a killed server leaves nothing outside of its folder
}
_FAST = {"fsync": "off", "full_page_writes": "off"}


class PostgresServer(PrivateServer):
    """A private PostgreSQL, as durable as in production.

        with PostgresServer() as server:
            store = open_store(server.url())
            server.kill()
            server.start()      # nothing is lost

    `fsync=False` makes it faster; it then survives the death of its processes, but not of its machine. `options`
    are settings as in postgresql.conf. The folder is replaced by a temporary one where the system's user for
    PostgreSQL, which root has to become, cannot get to it.
    """

    title = "PostgreSQL"

    def __init__(
        self,
        folder: Path | None = None,
        *,
        port: int = 0,
        options: Mapping[str, str] | None = None,
        user: str = "app",
        fsync: bool = True,
    ) -> None:
        found = find_binaries()
        if found is None:
            raise ServerError(why_missing())
        self._system_user = system_user()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            if self._system_user and not can_enter(folder):
                folder = None
        super().__init__(folder, port)
        self.user = user
        self._binaries = found
        self._data = self.folder / "data"
        self._settings = {**_DEFAULTS, **({} if fsync else _FAST), **(options or {})}

    def url(
        self,
        database: str = "app",
        *,
        user: str | None = None,
        password: str | None = None,
        port: int | None = None,
    ) -> str:
        """Where clients connect; the port of a Proxy goes in its place."""
        login = quote(user or self.user, safe="")
        if password is not None:
            login += ":" + quote(password, safe="")
        return f"postgresql://{login}@{HOST}:{port or self.port}/{quote(database, safe='')}"

    @property
    def major_version(self) -> int:
        return int(self._data.joinpath("PG_VERSION").read_text().strip().partition(".")[0])

    def create_database(self, name: str) -> str:
        """Makes an empty database, and says where it is."""
        self.execute(f'CREATE DATABASE "{_plain(name)}"')
        return self.url(name)

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Runs one statement as the owner of the server, outside of a transaction."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement.encode())

    def execute_offline(self, statement: str) -> None:
        """Runs one statement while the server is down, as when nothing else can be done."""
        # Recovers first, as a start does; commits do not wait for a standby in this mode.
        self._run("postgres", "--single", "postgres", words=f"{statement}\n".encode())

    def _prepare(self) -> None:
        if (self._data / "PG_VERSION").exists():
            return
        self._data.mkdir(mode=0o700, exist_ok=True)
        if self._system_user:
            shutil.chown(self._data, self._system_user, self._system_user)
        self._run("initdb", "-U", self.user, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
        (self._data / "pg_hba.conf").write_text(_HBA.format(user=_plain(self.user)))
        self._run("postgres", "--single", "-F", "postgres", words=b"CREATE DATABASE app\n")

    def standby(self) -> PostgresServer:
        """Return a streaming standby of this server, not yet started."""
        return _Standby(self)

    def wait_for_standby(self) -> None:
        """Wait until a commit here is on the standby when it returns."""
        self.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.execute("SELECT pg_reload_conf()")

    def promote(self) -> None:
        """Make a standby a primary; return when it takes writes."""
        self.execute("SELECT pg_promote()")

    def _run(self, program: str, *arguments: str, words: bytes = b"") -> None:
        """Runs one of PostgreSQL's programs on the data to its end."""
        process = self._run_logged(
            [self._binaries / program, *arguments],
            {**environ(), "PGDATA": str(self._data)},
            user=self._system_user,
            stdin=subprocess.PIPE,
        )
        process.communicate(words)
        if process.returncode != 0:
            raise ServerError(f"{program} failed; {self._log_tail()}")

    def _spawn(self) -> subprocess.Popen[bytes]:
        settings = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        command: list[str | Path] = [
            self._binaries / "postgres",
            "-D",
            self._data,
            "-p",
            str(self.port),
            *settings,
        ]
        return self._run_logged(command, environ(), user=self._system_user)

    def _answers(self) -> bool:
        # A connection alone says nothing: a server that recovers takes it, and then sends it away.
        command: list[str | Path] = [
            self._binaries / "pg_isready",
            "-q",
            "-h",
            HOST,
            "-p",
            str(self.port),
            "-t",
            "1",
        ]
        return subprocess.run(command, env=environ(), check=False).returncode == 0

    def _request_stop(self) -> None:
        self._running_process().send_signal(signal.SIGINT)  # "fast": does not wait for clients to leave


class _Standby(PostgresServer):
    """A copy that follows another server."""

    title = "a standby of PostgreSQL"

    def __init__(self, primary: PostgresServer) -> None:
        super().__init__(user=primary.user, fsync=primary._settings.get("fsync") != "off")
        self._primary = primary

    def _prepare(self) -> None:
        if (self._data / "PG_VERSION").exists():
            return
        self._data.mkdir(mode=0o700)
        if self._system_user:
            shutil.chown(self._data, self._system_user, self._system_user)
        options = ("-R", "-X", "stream", "--checkpoint=fast", "--no-sync")
        self._run("pg_basebackup", "-D", str(self._data), "-d", self._primary.url("postgres"), *options)


def find_binaries() -> Path | None:
    """The folder of the newest PostgreSQL that can be started here."""
    places = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True)]
    if pg_config := shutil.which("pg_config"):
        named = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False).stdout.strip()
        places = [Path(named), *places]
    if on_path := shutil.which("postgres"):
        places.append(Path(on_path).resolve().parent)
    needed = ("initdb", "postgres", "pg_isready")
    return next((place for place in places if all((place / name).is_file() for name in needed)), None)


def why_missing() -> str:
    """Why no PostgreSQL can be started here, and what to do about it; empty if one can."""
    if find_binaries() is not None:
        return ""
    return "PostgreSQL: found no `initdb` and `postgres` on this machine; install them: apt-get install postgresql"


def _version(binaries: Path) -> float:
    match = re.match(r"\d+(\.\d+)?", binaries.parent.name)
    return float(match.group()) if match else 0


def system_user() -> str | None:
    """Whom to become: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _plain(name: str) -> str:
    if not re.fullmatch(r"\w+", name):
        raise ServerError(f"{name!r} is no plain name; use letters, digits and _")
    return name


def environ() -> dict[str, str]:
    # None of the caller's PG… variables, which would change what is started and asked.
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
