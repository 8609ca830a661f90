"""The interpreter's office: a small HTTP server that can close for a while."""

from __future__ import annotations

import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

from examples.letters import translate

THINKING = 0.05
"""Seconds that a translation takes."""


class Office(ThreadingHTTPServer):
    """Answers `/?language=…&text=…` in English while it is open, and 503 while it is not."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Desk)
        self.open = True
        Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def end(self) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a caller that was killed before it had its answer."""


class _Desk(BaseHTTPRequestHandler):
    server: Office

    def do_GET(self) -> None:
        if not self.server.open:
            self.send_error(503, "Closed for lunch")
            return
        asked = parse_qs(urlsplit(self.path).query)
        answer = "open"
        if asked:
            time.sleep(THINKING)
            answer = translate(asked["language"][0], asked["text"][0])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the terminal belongs to the demo."""


def ask(url: str) -> str:
    """Ask the office; raises `HTTPError` when it is closed."""
    with urlopen(url, timeout=5) as answer:
        text: str = answer.read().decode()
        return text
