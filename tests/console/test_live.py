"""Live parts: made once for all who watch, looked at so seldom that who works does not notice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack

import pytest

from onward.console import live
from onward.console.live import Live
from tests.support.console_client import Site
from tests.support.servers.private import wait_until

VIEWERS = 200


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MIN_INTERVAL_SECONDS", 0.001)


class Looks:
    """A part that is different at every look, and what a look costs on a clock that only looks advance."""

    def __init__(self, cost: Callable[[str], float] = lambda name: 0.0) -> None:
        self.made: dict[str, int] = {}
        self.spent = 0.0
        self._cost = cost

    def render(self, name: str) -> str:
        self.made[name] = self.made.get(name, 0) + 1
        self.spent += self._cost(name)
        return f"{name} {self.made[name]}"

    def clock(self) -> float:
        return self.spent


async def _part(stream: AsyncIterator[bytes]) -> bytes:
    while b"event: part" not in (sent := await anext(stream)):
        pass
    return sent


async def _leave(*streams: AsyncIterator[bytes]) -> None:
    for one in streams:
        await one.aclose()  # type: ignore[attr-defined]


def test_all_viewers_are_sent_the_same_bytes_of_one_look() -> None:
    looks = Looks(lambda name: 1e6)

    async def watch() -> set[bytes]:
        parts = Live(looks.render, looks.clock)
        streams = [parts.watch("overview") for _ in range(VIEWERS)]
        sent = await asyncio.gather(*(_part(one) for one in streams))
        await _leave(*streams)
        return {bytes(one) for one in sent}

    found = asyncio.run(watch())
    assert len(found) <= looks.made["overview"] <= 2, "the second look has shown that looks are dear"


def test_a_viewer_who_reads_late_gets_only_what_is_now() -> None:
    looks = Looks()

    async def watch() -> tuple[bytes, bytes]:
        parts = Live(looks.render, looks.clock)
        slow, quick = parts.watch("overview"), parts.watch("overview")
        first = last = await _part(slow)
        for _ in range(20):
            last = await _part(quick)
        second = await _part(slow)
        assert number(second) >= number(last) > number(first) + 10
        await _leave(slow, quick)
        return first, second

    def number(sent: bytes) -> int:
        return int(sent.partition(b"id: ")[2].partition(b"\n")[0])

    asyncio.run(watch())


def test_a_part_that_takes_long_does_not_hold_up_the_others() -> None:
    looks = Looks(lambda name: 1e6 if name == "slow" else 0.0)

    async def watch() -> None:
        parts = Live(looks.render, looks.clock)
        slow, quick = parts.watch("slow"), parts.watch("quick")
        await asyncio.gather(_part(slow), _part(quick))
        for _ in range(20):
            await _part(quick)
        await _leave(slow, quick)

    asyncio.run(watch())
    assert looks.made["slow"] <= 2
    assert looks.made["quick"] >= 20


def test_a_part_that_nobody_watched_is_rendered_at_once_although_others_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "MIN_INTERVAL_SECONDS", 3_600.0)
    looks = Looks()

    async def watch() -> None:
        parts = Live(looks.render, looks.clock)
        first = parts.watch("overview")
        await _part(first)
        second = parts.watch("workers")
        await _part(second)
        await _leave(first, second)

    asyncio.run(asyncio.wait_for(watch(), 60))


def test_a_stream_that_the_browser_closes_is_forgotten_at_once(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Neither a rendering nor a sign of life touches the connection: only its end can be noticed.
    monkeypatch.setattr(live, "MIN_INTERVAL_SECONDS", 3_600.0)
    monkeypatch.setattr(live, "KEEP_ALIVE_SECONDS", 3_600.0)
    kept: list[Iterator[str]] = []
    with ExitStack() as tabs:
        for _ in range(5):
            lines = tabs.enter_context(site.client.stream("GET", "/live/workers")).iter_lines()
            kept.append(lines)  # when they are forgotten, the stream ends
            while not next(lines).startswith("data:"):
                pass
        assert site.live.watchers == 5
    wait_until(lambda: site.live.watchers == 0, 30, "closed streams are still watched")
    wait_until(lambda: site.live.idle, 30, "parts are still rendered for nobody")
