"""The HTTP server of a worker: `/metrics`, `/healthz` and `/readyz`."""

from __future__ import annotations

import errno
import json
import logging
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from onward.observe.process_health import Health
from onward.retry import OnwardError

log = logging.getLogger("onward")

MAX_PORTS = 20
"""How many ports are tried, from the one that is set: several workers may run on a machine."""
CLIENT_SECONDS = 10.0

Page = Callable[[str], tuple[int, str, bytes]]
"""Returns status, content type and body for the `Accept` header of a request."""


class AddressUnavailable(OnwardError):
    """The address for metrics and health cannot be used."""


class MonitoringServer:
    """Serves metrics and health in a thread."""

    def __init__(self, address: str, metrics: Page, health: Health) -> None:
        """`address` is a host and a port; if the port is in use, one of the next ones is taken."""
        host, _, port = address.rpartition(":")
        pages = {
            "/metrics": metrics,
            "/healthz": _health_page(health.alive),
            "/readyz": _health_page(health.ready),
        }
        self._server = _bind(host.strip("[]"), int(port), _handler(pages))
        self.moved = address if int(port) not in (0, self._server.server_address[1]) else ""
        """The address that was set, if another one had to be taken."""
        self._thread = threading.Thread(target=self._server.serve_forever, name="onward-metrics", daemon=True)

    @property
    def url(self) -> str:
        host, port = str(self._server.server_address[0]), self._server.server_address[1]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    # Else two processes could listen on one port, and each would get some of the requests.
    allow_reuse_port = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a client of the monitoring address disconnected")


class _Server6(_Server):
    address_family = socket.AF_INET6


def _bind(host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> _Server:
    kind = _Server6 if ":" in host else _Server
    problem: OSError | None = None
    for number in range(port, min(port + MAX_PORTS, 65536)) if port else (0,):
        try:
            return kind((host, number), handler)
        except OSError as error:
            problem = error
            if error.errno != errno.EADDRINUSE:
                break
    raise AddressUnavailable(
        f"metrics and health cannot be served at {host}:{port}: {problem}. Set ONWARD_METRICS_ADDRESS to an "
        "address of this machine, or to off"
    )


def text_page(status: int, text: str) -> Page:
    """Return a page with a fixed text."""
    return lambda _: (status, "text/plain; charset=utf-8", f"{text}\n".encode())


def _health_page(check: Callable[[], tuple[bool, dict[str, str]]]) -> Page:
    def page(_: str) -> tuple[int, str, bytes]:
        healthy, checks = check()
        body = json.dumps({"status": "ok" if healthy else "not ok", "checks": checks}, indent=1)
        return 200 if healthy else 503, "application/json", f"{body}\n".encode()

    return page


def _handler(pages: dict[str, Page]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version = "onward"
        sys_version = ""
        timeout = CLIENT_SECONDS

        def do_GET(self) -> None:  # the server's own name
            missing = text_page(404, f"there is {' '.join(pages)}")
            page = pages.get(self.path.partition("?")[0], missing)
            try:
                self._respond(*page(self.headers.get("Accept", "")))
            except OSError:
                raise
            except Exception:
                log.exception("the request for %s failed", self.path[:100])
                self._respond(*text_page(500, "the request failed; see the log")(""))

        do_HEAD = do_GET  # noqa: N815

        def _respond(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            log.debug("monitoring address: " + format, *args)

    return Handler
