"""The console is there, and what is not there is said."""

from __future__ import annotations

import signal
from contextlib import closing
from pathlib import Path

from onward.console.server import _Server, build
from tests.support.console_client import Site, pipeline


def test_the_overview_is_served(library: Site) -> None:
    assert "<h1>Overview</h1>" in library.page("/")


def test_what_is_not_there_is_said_to_people_and_to_programs(library: Site) -> None:
    assert "There is no such page" in library.page("/nothing", 404)
    answer = library.client.get("/v3/nothing")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert answer.json()["title"] == "Not found"


def test_a_live_part_is_sent_at_once(library: Site) -> None:
    with library.client.stream("GET", "/live/overview") as stream:
        lines = (line for line in stream.iter_lines() if line.startswith("data:"))
        assert "1 document failed" in next(lines)


def test_a_second_ctrl_c_ends_at_once_whatever_comes_after_it(tmp_path: Path) -> None:
    with closing(pipeline(tmp_path)) as app:
        server = _Server(build(app))
    server.handle_exit(signal.SIGINT, None)
    assert (server.should_exit, server.force_exit) == (True, False)
    for number in (signal.SIGINT, signal.SIGTERM):
        server.handle_exit(number, None)
        assert server.force_exit
