"""A server that is down keeps its port: nobody else on the machine takes it meanwhile."""

from __future__ import annotations

import secrets
import socket

import pytest

from tests.support.servers import PostgresServer, Proxy
from tests.support.servers.private import HOST, accepts, free_port, hold_port, port_of


def test_a_held_port_is_taken_for_others_and_free_for_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    with hold_port() as held, socket.socket() as server:
        picks = iter([port_of(held) - 15_000, 1_234])
        monkeypatch.setattr(secrets, "randbelow", lambda _limit: next(picks))
        assert free_port() == 16_234, "the held one was passed over"

        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((HOST, port_of(held)))
        server.listen()
        assert accepts(port_of(held))


def test_a_proxy_that_refuses_keeps_its_port() -> None:
    with Proxy(free_port()) as proxy:
        proxy.refuse()
        assert not accepts(proxy.port)
        assert is_taken(proxy.port)
        proxy.heal()
        assert accepts(proxy.port)


@pytest.mark.usefixtures("needs_postgres")
def test_a_killed_server_keeps_its_port() -> None:
    with PostgresServer(fsync=False) as server:
        server.kill()
        assert is_taken(server.port)
        server.start()


def is_taken(port: int) -> bool:
    """Return whether one who looks for a free port would pass this one over."""
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return True
    return False
