"""The programs without Onward in `examples/other_programs` run, and the how-to quotes them as they are."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from aio_pika.exceptions import DeliveryError

from examples.other_programs import consumer, producer
from tests.docs.test_examples import ROOT, blocks

PAGE = ROOT / "docs" / "how-to" / "other-programs.md"


@pytest.mark.parametrize("name", ("consumer.py", "producer.py"))
def test_the_page_quotes_the_program(name: str) -> None:
    assert (ROOT / "examples" / "other_programs" / name).read_text() in blocks(PAGE, "python")


def test_an_event_that_is_published_twice_is_used_once(
    rabbit_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[bool] = []
    all_came = asyncio.Event()
    handle = consumer.handle

    def recorded(database: sqlite3.Connection, event: dict[str, Any]) -> bool:
        used.append(handle(database, event))
        if len(used) == 3:
            all_came.set()
        return used[-1]

    monkeypatch.setattr(consumer, "handle", recorded)
    event, other = (producer.envelope("PhotoTaken", {"photo_id": name}) for name in ("dunes", "beach"))
    file = str(tmp_path / "reports.db")

    async def exchange() -> None:
        consuming = asyncio.create_task(consumer.consume(rabbit_url, "photo.*", file=file))
        try:
            for one in (event, event, other):
                await publish_when_bound(one)
            await asyncio.wait({asyncio.create_task(all_came.wait()), consuming}, return_when="FIRST_COMPLETED")
        finally:
            consuming.cancel()
            await asyncio.wait({consuming})

    async def publish_when_bound(event: dict[str, Any]) -> None:
        """Publish as its docstring says: again, until it does not raise."""
        while True:
            try:
                return await producer.publish(rabbit_url, "photo.taken", event)
            except DeliveryError:
                await asyncio.sleep(0)

    asyncio.run(exchange())
    assert used == [True, False, True]
    with sqlite3.connect(file) as database:
        found = database.execute("SELECT * FROM reports").fetchall()
    database.close()
    assert found == [("PhotoTaken", '{"photo_id": "dunes"}'), ("PhotoTaken", '{"photo_id": "beach"}')]
