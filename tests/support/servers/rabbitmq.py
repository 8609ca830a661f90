"""A private RabbitMQ."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from tests.support.servers.private import (
    HOST,
    START_SECONDS,
    PrivateServer,
    ServerError,
    accepts,
    kill_family,
    wait_until,
)

_GREETING = b"AMQP\x00\x00\x09\x01"
_METHOD_FRAME = b"\x01"
_SCRIPTS = ("/usr/lib/rabbitmq/bin", "/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin", "/opt/rabbitmq/sbin")

CALLS = 5
"""So often a broker is called again that does not answer."""


class RabbitServer(PrivateServer):
    """A private RabbitMQ, with its own data, ports and helper daemon; it takes about 10 s to start.

        with RabbitServer() as server:
            gateway = Gateway(server.create_vhost("orders"), enter, ["orders.paid"])
            server.kill()
            server.start()      # what was confirmed is still there

    `management=True` adds the HTTP API and the web page at `management_url`.
    """

    title = "RabbitMQ"

    def __init__(self, folder: Path | None = None, *, port: int = 0, management: bool = False) -> None:
        script = find_script()
        if script is None or why_missing():
            raise ServerError(why_missing())
        super().__init__(folder, port)
        self._script = script
        self._node = f"onward{self.port}@localhost"
        self._dist_port, self._epmd_port, self._management_port = (self._hold_port() for _ in range(3))
        self._management = management
        self._epmd: subprocess.Popen[bytes] | None = None
        self._pid_file = self.folder / "rabbitmq.pid"

    @property
    def pid(self) -> int:
        """The process to signal: the virtual machine, not the script that started it."""
        self._running_process()
        return int(self._pid_file.read_text())

    @property
    def management_url(self) -> str:
        if not self._management:
            raise ServerError("this RabbitMQ was started without its HTTP API; pass management=True")
        return f"http://{HOST}:{self._management_port}"

    def url(
        self, vhost: str = "/", *, user: str = "guest", password: str = "guest", port: int | None = None
    ) -> str:
        """Where clients connect; the port of a Proxy goes in its place."""
        login = f"{quote(user, safe='')}:{quote(password, safe='')}"
        return f"amqp://{login}@{HOST}:{port or self.port}/{quote(vhost, safe='')}"

    def create_vhost(self, name: str) -> str:
        """Makes an empty virtual host, and says where it is."""
        _check_plain(name)
        self.evaluate(
            f'ok = rabbit_vhost:add(<<"{name}">>, <<"guest">>), '
            "ok = rabbit_auth_backend_internal:set_permissions("
            f'<<"guest">>, <<"{name}">>, <<".*">>, <<".*">>, <<".*">>, <<"guest">>)'
        )
        return self.url(name)

    def delete_vhost(self, name: str) -> None:
        """Removes a virtual host with all its queues."""
        _check_plain(name)
        self.evaluate(f'ok = rabbit_vhost:delete(<<"{name}">>, <<"guest">>)')

    def settle(self) -> None:
        """Has the broker write down at once which queues there are.

        By itself it does so seconds late: a quorum queue declared right before a kill is there afterwards, but
        for ever without a leader. Call it where a test is about something else.
        """
        self.evaluate("[dets:sync(Table) || Table <- dets:all()]")

    def evaluate(self, expression: str) -> str:
        """Evaluates an Erlang expression inside the broker: what rabbitmqctl can do, a hundred times faster."""
        answer = self._call(expression)
        for _ in range(CALLS):
            # A busy broker may not shake hands in time; then nothing was evaluated.
            if "failed to connect" not in answer.stdout + answer.stderr:
                break
            answer = self._call(expression)
        match = re.fullmatch(r"\{ok, (.*)\}\s*", answer.stdout, re.DOTALL)
        if answer.returncode != 0 or match is None:
            raise ServerError(f"RabbitMQ cannot evaluate {expression}: {answer.stdout}{answer.stderr}")
        return match.group(1)

    def _call(self, expression: str) -> subprocess.CompletedProcess[str]:
        self._running_process()
        return subprocess.run(
            ["erl_call", "-address", f"localhost:{self._dist_port}", "-e"],
            input=f"{expression}.\n",
            env=self._environ(),
            capture_output=True,
            text=True,
            check=False,
        )

    def control(self, *arguments: str) -> str:
        """Runs rabbitmqctl on this broker, and returns what it prints; takes a second or two."""
        self._running_process()
        command: list[str | Path] = [
            self._script.with_name("rabbitmqctl"),
            "--quiet",
            "-n",
            self._node,
            *arguments,
        ]
        answer = subprocess.run(command, env=self._environ(), capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise ServerError(f"rabbitmqctl {' '.join(arguments)} failed: {answer.stdout}{answer.stderr}")
        return answer.stdout

    def _prepare(self) -> None:
        self._pid_file.unlink(missing_ok=True)
        (self.folder / "environment").touch()
        settings = [f"listeners.tcp.1 = {HOST}:{self.port}", "disk_free_limit.absolute = 50MB"]
        if self._management:
            settings += [f"management.tcp.ip = {HOST}", f"management.tcp.port = {self._management_port}"]
        (self.folder / "rabbitmq.conf").write_text("\n".join(settings) + "\n")
        (self.folder / "plugins").write_text("[rabbitmq_management].\n" if self._management else "[].\n")
        # Erlang nodes find each other through this daemon. Left to itself, the broker would start one that stays.
        self._epmd = self._run_logged(["epmd", "-port", str(self._epmd_port), "-address", HOST], self._environ())
        wait_until(lambda: accepts(self._epmd_port), START_SECONDS, f"epmd is silent on port {self._epmd_port}")

    def _spawn(self) -> subprocess.Popen[bytes]:
        return self._run_logged([self._script], self._environ())

    def _processes_to_kill(self, started: int) -> Sequence[int]:
        return [-started, *([self._epmd.pid] if self._epmd else [])]

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), timeout=1) as connection:
            connection.sendall(_GREETING)
            greeted = connection.recv(1) == _METHOD_FRAME
            return greeted and (not self._management or accepts(self._management_port))
        return False

    def _request_stop(self) -> None:
        self._running_process().terminate()  # the script passes it on

    def _clear_process(self) -> None:
        if self._epmd is not None:
            kill_family(self._epmd)
        self._epmd = None
        super()._clear_process()

    def _environ(self) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": str(self.folder),  # the cookie that lets nodes talk to each other is made there
            "RABBITMQ_NODENAME": self._node,
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "environment"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_PID_FILE": str(self._pid_file),
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": HOST,
        }


def find_script() -> Path | None:
    """The script that starts the broker as the user one is; the one on the PATH of Debian changes the user."""
    for pattern in _SCRIPTS:
        for folder in sorted(Path("/").glob(pattern.lstrip("/")), reverse=True):
            if (folder / "rabbitmq-server").is_file():
                return folder / "rabbitmq-server"
    on_path = shutil.which("rabbitmq-server")
    return Path(on_path) if on_path else None


def why_missing() -> str:
    """Why no RabbitMQ can be started here, and what to do about it; empty if one can."""
    absent = ["rabbitmq-server"] if find_script() is None else []
    absent += [name for name in ("epmd", "erl_call") if shutil.which(name) is None]
    if not absent:
        return ""
    return f"RabbitMQ: found no {', '.join(absent)} on this machine; install it: apt-get install rabbitmq-server"


def _check_plain(vhost: str) -> None:
    if not re.fullmatch(r"[\w.-]+", vhost):
        raise ServerError(f"{vhost!r} is no plain name for a virtual host; use letters, digits, '_', '.' and '-'")
