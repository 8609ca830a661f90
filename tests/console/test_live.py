"""Live parts: made once for all who watch, looked at so seldom that who works does not notice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from onward.console import live
from onward.console.live import Live

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
