"""An HTTP server of the examples that can be closed for a while."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.request import urlopen


class Counter(ThreadingHTTPServer):
    """Responds while it is open, and with 503 while it is closed; a subclass makes the response."""

    closed = "Service Unavailable"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Clerk)
        self.open = True
        Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def reply(self, path: str) -> str:
        raise NotImplementedError

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def end(self) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Do not log clients that were killed before the response."""


class _Clerk(BaseHTTPRequestHandler):
    server: Counter

    def do_GET(self) -> None:
        if not self.server.open:
            self.send_error(503, self.server.closed)
            return
        answer = self.server.reply(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the terminal belongs to the demo."""


def ask(url: str) -> str:
    """Ask at a counter; raises `HTTPError` when it is closed."""
    with urlopen(url, timeout=5) as answer:
        text: str = answer.read().decode()
        return text
