"""A private PostgreSQL can be killed and started again, and loses nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psycopg
import pytest

from tests.support.servers import PostgresServer, ServerError
from tests.support.servers.private import can_enter, descendants, is_alive

pytestmark = [pytest.mark.prove, pytest.mark.usefixtures("needs_postgres")]


def ended(spawn: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    process = spawn()
    process.wait()
    return process


def ask(url: str, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(query.encode()).fetchall()


def test_what_was_committed_survives_a_kill() -> None:
    with PostgresServer() as server:
        assert ask(server.url(), "SHOW fsync") == [("on",)], "as durable as in production"
        orders = server.create_database("orders")
        with psycopg.connect(orders) as connection:
            connection.execute("CREATE TABLE letters (id int)")
            connection.execute("INSERT INTO letters VALUES (7)")
        port, family = server.port, [server.pid, *descendants(server.pid)]

        server.kill()
        assert not any(map(is_alive, family)), "a killed server leaves no process behind"
        server.start()
        assert (ask(orders, "SELECT id FROM letters"), server.port) == ([(7,)], port)

        server.stop()
        server.start()
        assert ask(orders, "SELECT id FROM letters") == [(7,)]
        family = [server.pid, *descendants(server.pid)]

    assert not any(map(is_alive, family))
    assert not server.folder.exists(), "a folder that the server made itself goes with it"


def test_a_killed_server_can_be_asked_for_nothing(tmp_path: Path) -> None:
    server = PostgresServer(tmp_path / "never started")
    with pytest.raises(ServerError, match="is not running; start"):
        _ = server.pid
    server.close()


def test_a_folder_that_its_user_cannot_enter_is_replaced(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o700)
    server = PostgresServer(hidden / "postgres")
    if os.geteuid() == 0:
        assert can_enter(server.folder)
    else:
        assert server.folder == hidden / "postgres", "who need not change the user can enter"
    server.close()


def test_settings_are_as_told(postgres_server: PostgresServer) -> None:
    settings = ask(postgres_server.url(), "SELECT current_setting('max_connections'), current_setting('fsync')")
    assert settings == [("100", "off")]


def test_a_role_needs_its_password(postgres_server: PostgresServer) -> None:
    postgres_server.execute("CREATE ROLE clerk LOGIN PASSWORD 'stamp'")
    try:
        clerk = postgres_server.url(user="clerk", password="stamp")
        assert ask(clerk, "SELECT current_user::text") == [("clerk",)]
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            ask(postgres_server.url(user="clerk", password="guess"), "SELECT 1")
    finally:
        postgres_server.execute("DROP ROLE clerk")


def test_each_test_has_a_schema_of_its_own(postgres_server: PostgresServer, postgres_url: str) -> None:
    address, _, schema = postgres_url.partition("?schema=")
    assert address == postgres_server.url()
    assert ask(address, f"SELECT 1 FROM pg_namespace WHERE nspname = '{schema}'") == []


@pytest.mark.parametrize("at_once", (False, True))
def test_a_server_that_cannot_start_says_why(at_once: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    server = PostgresServer(options={"max_connections": "many"})
    try:
        if at_once:  # it has ended before anything else looks at it
            monkeypatch.setattr(server, "_spawn", partial(ended, server._spawn))
        with pytest.raises(ServerError, match=r'(?s)PostgreSQL ended before.*"max_connections": "many"'):
            server.start()
        assert not server.running
    finally:
        server.close()
