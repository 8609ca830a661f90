"""The exchange rates: a small HTTP server that can go down."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.request import urlopen

RATES = {"EUR": 1.0, "GBP": 1.17, "NOK": 0.086, "SEK": 0.088, "USD": 0.92}


class Exchange(ThreadingHTTPServer):
    """Answers `/USD` with a rate while it is up, and 503 while it is not."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Counter)
        self.up = True
        Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def end(self) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a caller that went away."""


class _Counter(BaseHTTPRequestHandler):
    server: Exchange

    def do_GET(self) -> None:
        if not self.server.up:
            self.send_error(503, "Service Unavailable")
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(RATES.get(self.path.strip("/"), 1.0)).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the terminal belongs to the demo."""


def ask(url: str) -> float:
    """Ask for a rate; raises `HTTPError` when the exchange is down."""
    with urlopen(url, timeout=5) as answer:
        return float(answer.read())
