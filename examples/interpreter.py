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


class Office:
    """Answers `/?language=…&text=…` in English while it is open; refuses connections while it is closed."""

    def __init__(self) -> None:
        self._server: _Server | None = None
        self._port = 0
        self.open()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def is_open(self) -> bool:
        return self._server is not None

    def open(self) -> None:
        self._server = _Server(("127.0.0.1", self._port), _Desk)
        self._port = self._server.server_address[1]
        Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a caller that was killed before it had its answer."""


class _Desk(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
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
    """Ask the office; raises `URLError` when nobody is there."""
    with urlopen(url, timeout=5) as answer:
        text: str = answer.read().decode()
        return text
