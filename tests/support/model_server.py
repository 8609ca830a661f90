"""A server that speaks the OpenAI protocol on loopback, and misbehaves when it is told to."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, cast

DIMENSIONS = 16


def vector(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """The vector of a text: always the same, different for each, not normalised."""
    bits = hashlib.shake_256(text.encode()).digest(dimensions)
    return [byte / 16 - 8 for byte in bits]


@dataclass(frozen=True, slots=True)
class Call:
    """A request as it came in."""

    path: str
    body: dict[str, Any]  # whatever was sent
    headers: Mapping[str, str]


@dataclass
class ModelServer:
    """Embeds and chats until told otherwise; every knob may be turned while it runs.

        with ModelServer() as server:
            embedder = HTTPEmbedder(server.url, "any-name")
            server.fail_share = 0.3     # from now on

    It answers each call for itself, so texts that were embedded before an outage stay in `embedded`.
    """

    reply: str | Callable[[list[dict[str, str]]], str] = "**It is about a test.** [1]"
    """What chat answers: a text, or a function of the messages sent."""
    fail_share: float = 0.0
    """The share of calls that fail with 500, drawn from `seed`."""
    seed: int = 0
    limited: int = 0
    """How many of the next calls are told to come back after `retry_after`."""
    retry_after: str = "7"
    key: str | None = None
    """The only key that is let in; others get 401."""
    poison: str | None = None
    """Texts with this word are refused with 400, and with them their batch."""
    status: int | None = None
    """Every call is answered with this status and `message`."""
    message: str = "out of order"
    raw: bytes | None = None
    """Every call is answered with 200 and this."""
    reset: bool = False
    """Connections are closed without an answer."""
    missing_vectors: int = 0
    """How many vectors too few come back (or too many, if negative)."""
    dimensions: int = DIMENSIONS
    shuffled: bool = False
    """Vectors come back in another order, with their `index`."""
    lists_models: bool = True
    relevance: Callable[[str, str], float] = lambda query, passage: 0.0
    """How well a passage fits a query, for calls of `/rerank`."""

    calls: list[Call] = field(default_factory=list)
    embedded: list[str] = field(default_factory=list)
    """Every text that got its vector, in order, as often as it did."""
    most_at_once: int = 0

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._random = random.Random(self.seed)
        self._server: _Listener | None = None
        self._thread: threading.Thread | None = None
        self._port = 0
        self._busy = 0
        self._flowing = threading.Event()
        self._flowing.set()
        self.arrived = threading.Semaphore(0)
        """Released once for each POST that came in; so that a test can wait for it."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()
        self.down()

    def up(self) -> None:
        """Listen, at the same address as before."""
        if self._server is None:
            self._server = _Listener(("127.0.0.1", self._port), _Handler)
            self._server.owner = self
            self._port = self._server.server_address[1]
            self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
            self._thread.start()

    def down(self) -> None:
        """Refuse connections, and cut those there are."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.cut()
            self._server.server_close()
            self._thread.join()
            self._server = self._thread = None

    def hang(self) -> None:
        """Take calls, and answer none before `release`."""
        self._flowing.clear()

    def release(self) -> None:
        self._flowing.set()

    def answer(self, call: Call) -> tuple[int, dict[str, str], bytes]:
        """Decide what a POST is answered with."""
        with self._lock:
            self.calls.append(call)
            self._busy += 1
            self.most_at_once = max(self.most_at_once, self._busy)
            unlucky = self._random.random() < self.fail_share
        self.arrived.release()
        try:
            self._flowing.wait()
            return self._judge(call, unlucky)
        finally:
            with self._lock:
                self._busy -= 1

    def refused(self, headers: Mapping[str, str]) -> tuple[int, dict[str, str], bytes] | None:
        """Decide whether anybody is let in at all."""
        if self.key is not None and headers.get("Authorization") != f"Bearer {self.key}":
            return _error(401, f"Incorrect API key provided: {headers.get('Authorization', '(none)')}")
        if self.status is not None:
            return _error(self.status, self.message)
        return None

    def _judge(self, call: Call, unlucky: bool) -> tuple[int, dict[str, str], bytes]:
        if (refused := self.refused(call.headers)) is not None:
            return refused
        with self._lock:
            limited = self.limited > 0
            self.limited -= limited
        if limited:
            status, headers, body = _error(429, "Rate limit reached")
            return status, headers | {"Retry-After": self.retry_after}, body
        if unlucky:
            return _error(500, "The server had an error")
        if self.raw is not None:
            return 200, {"Content-Type": "application/json"}, self.raw
        if call.path == "/v1/embeddings":
            return self._embed(cast("list[str]", call.body["input"]))
        if call.path == "/v1/chat/completions":
            return self._chat(cast("list[dict[str, str]]", call.body["messages"]))
        if call.path == "/v1/rerank":
            return self._rerank(call.body["query"], call.body["documents"])
        return _error(404, f"no such path: {call.path}")

    def _embed(self, texts: list[str]) -> tuple[int, dict[str, str], bytes]:
        for place, text in enumerate(texts):
            if self.poison is not None and self.poison in text:
                return _error(400, f"input[{place}] cannot be tokenized: {self.poison}")
        data = [{"index": i, "embedding": vector(text, self.dimensions)} for i, text in enumerate(texts)]
        if self.shuffled:
            self._random.shuffle(data)
        data = data[: len(data) - self.missing_vectors] if self.missing_vectors >= 0 else [*data, data[-1]]
        with self._lock:
            self.embedded += texts
        return _json(200, {"object": "list", "data": data, "usage": {"prompt_tokens": sum(map(len, texts))}})

    def _rerank(self, query: str, passages: list[str]) -> tuple[int, dict[str, str], bytes]:
        scores = [self.relevance(query, passage) for passage in passages]
        order = sorted(range(len(scores)), key=lambda place: -scores[place])
        return _json(200, {"results": [{"index": n, "relevance_score": scores[n]} for n in order]})

    def _chat(self, messages: list[dict[str, str]]) -> tuple[int, dict[str, str], bytes]:
        if self.poison is not None and any(self.poison in message["content"] for message in messages):
            return _error(400, f"the prompt cannot be used: {self.poison}")
        text = self.reply if isinstance(self.reply, str) else self.reply(messages)
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return _json(200, {"choices": [choice], "usage": {"prompt_tokens": 120, "completion_tokens": 30}})


def _json(status: int, answer: object) -> tuple[int, dict[str, str], bytes]:
    return status, {"Content-Type": "application/json"}, json.dumps(answer).encode()


def _error(status: int, message: str) -> tuple[int, dict[str, str], bytes]:
    return _json(status, {"error": {"message": message, "type": "test"}})


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    owner: ModelServer

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(address, handler)

    def process_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any) -> None:
        self._open.add(cast("socket.socket", request))
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        self._open.discard(cast("socket.socket", request))
        super().shutdown_request(request)

    def cut(self) -> None:
        for connection in list(self._open):
            with contextlib.suppress(OSError):  # already gone
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no error of the server's."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # so that connections are kept, as real servers do
    disable_nagle_algorithm = True
    server: _Listener

    def do_GET(self) -> None:
        owner = self.server.owner
        if owner.reset:
            self.close_connection = True
            return
        known = owner.lists_models and self.path == "/v1/models"
        answer = _json(200, {"data": [{"id": "any-name"}]}) if known else _error(404, "no such path")
        self._send(*(owner.refused(dict(self.headers.items())) or answer))

    def do_POST(self) -> None:
        owner = self.server.owner
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if owner.reset:
            self.close_connection = True
            return
        self._send(*owner.answer(Call(self.path, body, dict(self.headers.items()))))

    def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: what was asked is in `calls`."""
