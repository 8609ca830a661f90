"""A network can be cut without anyone being told, closed, and made whole again."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.support.servers import Proxy

Network = Callable[[int], Proxy]
SILENCE = 0.2
"""Seconds of hearing nothing that count as silence; an echo takes less than a thousandth of it."""


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(1024):
            self.request.sendall(data)


@pytest.fixture
def echo() -> Iterator[int]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def call(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def say(line: socket.socket, words: bytes) -> bytes:
    line.sendall(words)
    return line.recv(1024)


def is_silent(line: socket.socket) -> bool:
    line.settimeout(SILENCE)
    try:
        line.recv(1024)
    except TimeoutError:
        return True
    finally:
        line.settimeout(10)
    return False


def test_words_pass_through(echo: int, network: Network) -> None:
    with call(network(echo).port) as line:
        assert say(line, b"hello") == b"hello"


def test_a_cut_is_silent_and_what_was_said_meanwhile_arrives_later(echo: int, network: Network) -> None:
    proxy = network(echo)
    with call(proxy.port) as old:
        assert say(old, b"before") == b"before"
        proxy.cut()
        old.sendall(b"old")
        with call(proxy.port) as new:  # taken, for all the caller can tell
            new.sendall(b"new")
            assert is_silent(old)
            assert is_silent(new)
            proxy.heal()
            assert (old.recv(1024), new.recv(1024)) == (b"old", b"new")


def test_a_refusing_network_closes_what_is_open_and_takes_nothing_new(echo: int, network: Network) -> None:
    proxy = network(echo)
    with call(proxy.port) as line:
        assert say(line, b"before") == b"before"
        proxy.refuse()
        assert line.recv(1024) == b""
    with pytest.raises(ConnectionRefusedError):
        call(proxy.port)

    proxy.heal()
    with call(proxy.port) as line:
        assert say(line, b"after") == b"after"


def test_hanging_up_reaches_the_other_end_even_if_late(echo: int, network: Network) -> None:
    proxy = network(echo)
    with call(proxy.port) as line:
        assert say(line, b"hello") == b"hello"
        proxy.cut()
        line.shutdown(socket.SHUT_WR)
        assert is_silent(line)
        proxy.heal()
        assert line.recv(1024) == b""


def test_a_server_that_is_down_is_a_closed_connection(network: Network) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    with call(network(port).port) as line:
        assert line.recv(1024) == b""
