"""A web server for tests, on loopback, that behaves as badly as it is told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeAlias

Answer: TypeAlias = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Answers each path as the site says."""

    site: Site

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.site.requests.append((self.headers.get("Host", ""), path, dict(self.headers.items())))
        self.site.targets.append(self.path)
        try:
            self.site.answers.get(path, self.site.otherwise)(self)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client had enough

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        self.site.log.append((self.path, int(code)))

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def give(self, body: bytes, status: int = 200, **headers: str) -> None:
        """Send a whole answer; `Content_Type="text/html"` becomes a header."""
        self.send_response(status)
        headers.setdefault("Content_Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)


@dataclass
class Site:
    """What the server answers, and what it was asked."""

    port: int
    answers: dict[str, Answer] = field(default_factory=dict)
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    """The paths of the requests, with their queries."""
    log: list[tuple[str, int]] = field(default_factory=list)
    """The paths of the requests with the status of each response."""
    otherwise: Answer = lambda handler: handler.give(b"", 404)
    over: threading.Event = field(default_factory=threading.Event)
    """Set when the test is over: what would never answer ends then."""

    def url(self, path: str, host: str = "site.example") -> str:
        return f"http://{host}:{self.port}{path}"

    def page(self, path: str, body: bytes, status: int = 200, **headers: str) -> str:
        """Put something at a path, and give its URL."""
        self.answers[path] = lambda handler: handler.give(body, status, **headers)
        return self.url(path)

    def redirect(self, path: str, to: str, status: int = 302, **headers: str) -> str:
        return self.page(path, b"", status, Location=to, **headers)


@contextmanager
def serve() -> Iterator[Site]:
    """Run a server until the block ends."""

    class SiteHandler(Handler):
        site: Site

    server = ThreadingHTTPServer(("127.0.0.1", 0), SiteHandler)
    server.daemon_threads = True
    site = Site(server.server_address[1])
    SiteHandler.site = site
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        site.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
