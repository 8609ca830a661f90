"""A worker without work asks the database once in a while, by one query, however many services it has."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from onward import App, Settings, Work
from tests.postgres.stage import Opener, eventually
from tests.support.store_pages import Noticed

SERVICES = 12


def test_one_query_serves_all_services(
    opened: Opener, postgres_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(store=opened(postgres_store_url), settings=Settings())

    async def listen(event: Noticed, work: Work) -> None:
        raise AssertionError("nothing was published")

    for number in range(SERVICES):
        app.service(f"listening-{number}", on=Noticed)(listen)
    engine = app.engine()
    asked: list[str] = []
    database: Any = app.store.db

    def recording(name: str) -> None:
        ask = getattr(database, name)

        def record(statement: str, *values: Any) -> Any:
            asked.append(statement)
            return ask(statement, *values)

        monkeypatch.setattr(database, name, record)

    for name in ("read", "read_unlocked", "fetch", "run", "send", "bulk"):
        recording(name)
    thread = threading.Thread(target=engine.run)
    thread.start()
    try:
        eventually(lambda: _idle_part(asked).count("pulse") >= 3, "it rests, and asks now and then")
    finally:
        engine.drain()
        thread.join()
    found = _idle_part(asked)
    # Once a minute it tidies up, and three times a minute it renews its lease: that is all.
    others = [one for one in found if one != "pulse"]
    assert not {"due_rows", "priorities", "lapsed", "breakers"} & set(others)


def _idle_part(asked: Sequence[str]) -> list[str]:
    """Return what was asked for from the second pulse on: before, it has looked for due rows of each service."""
    places = [place for place, name in enumerate(asked) if name == "pulse"]
    if len(places) < 2:
        return []
    ends = [place for place, name in enumerate(asked) if name == "unregister_worker"]
    return list(asked[places[1] : ends[0] if ends else None])
