"""Live parts of pages: each is made once, however many watch it, and sent only when it has changed."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from onward.retry import redact_error

log = logging.getLogger("onward")

EVERY = 1.0
"""Seconds between two looks, at least."""
SHARE = 0.05
"""Looking takes at most this part of the time: who works comes first."""
ALIVE_EVERY = 15.0
"""Seconds after which a stream that has nothing to say shows that it is there."""
MOST_WATCHERS = 2_000
MOST_CHANNELS = 200


class TooMany(Exception):
    """There are as many watchers as one process can have."""


@dataclass(slots=True, eq=False)
class Channel:
    """A part of a page that somebody watches."""

    name: str
    html: str | None = None
    event: bytes = b""
    """What is sent of it: made once, however many watch."""
    number: int = 0
    due: float = 0.0
    """When it is looked at next."""
    took: float = 0.0
    """Seconds of the last look."""
    watchers: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Live:
    """Looks at what is watched again and again, in one task and off the loop."""

    def __init__(self, render: Callable[[str], str], clock: Callable[[], float] = time.thread_time) -> None:
        """`render` makes the part of this name; it is called in a thread, one at a time.

        `clock` tells what that costs: usually the processor's time, for a machine that is busy is slow as well.
        """
        self._render = render
        self._clock = clock
        self._channels: dict[str, Channel] = {}
        self._task: asyncio.Task[None] | None = None
        self._closed = asyncio.Event()

    @property
    def watchers(self) -> int:
        return sum(one.watchers for one in self._channels.values())

    def close(self) -> None:
        """End all streams: the server wants to stop."""
        self._closed.set()
        for one in self._channels.values():
            one.changed.set()

    def watch(self, name: str) -> AsyncIterator[bytes]:
        """Server-sent events: the part as it is, and as it becomes."""
        # Here, not in the stream: by the time that begins, an answer has been promised.
        if self._is_full(name):
            raise TooMany
        return self._watch(name)

    async def _watch(self, name: str) -> AsyncIterator[bytes]:
        channel = self._join(name)
        seen = 0
        try:
            yield b"retry: 3000\n\n"
            while not self._closed.is_set():
                if channel.number > seen:
                    seen = channel.number
                    yield channel.event
                    continue
                try:
                    await asyncio.wait_for(channel.changed.wait(), ALIVE_EVERY)
                except TimeoutError:
                    yield b": still there\n\n"
        finally:
            self._leave(channel)

    def _is_full(self, name: str) -> bool:
        one_more = name not in self._channels
        return self.watchers >= MOST_WATCHERS or (one_more and len(self._channels) >= MOST_CHANNELS)

    def _join(self, name: str) -> Channel:
        channel = self._channels.setdefault(name, Channel(name))
        channel.watchers += 1
        if self._task is None:
            self._task = asyncio.create_task(self._look())
        return channel

    def _leave(self, channel: Channel) -> None:
        channel.watchers -= 1
        if not channel.watchers:
            self._channels.pop(channel.name, None)

    async def _look(self) -> None:
        try:
            while self._channels and not self._closed.is_set():
                now = time.monotonic()
                for channel in list(self._channels.values()):
                    if channel.due <= now:
                        await self._look_at(channel)
                await asyncio.sleep(EVERY)
        finally:
            self._task = None
            if self._channels and not self._closed.is_set():  # somebody came while it ended
                self._task = asyncio.create_task(self._look())

    async def _look_at(self, channel: Channel) -> None:
        before = channel.took
        try:
            html = await asyncio.to_thread(self._made, channel)
        except Exception as error:
            # The store may be away; the page stays as it was, and the next look may be better.
            log.debug("%s is not shown anew: %s", channel.name, redact_error(f"{type(error).__name__}: {error}"))
            return
        finally:
            # One slow look may be a hiccup, as the first one is. All parts together have their share of the time,
            # and one that takes long does not hold up the others.
            pause = min(before, channel.took) * len(self._channels) / SHARE
            channel.due = time.monotonic() + max(EVERY / 2, pause)
        if html != channel.html:
            channel.html = html
            channel.number += 1
            channel.event = _event(channel.number, html)
            changed, channel.changed = channel.changed, asyncio.Event()
            changed.set()

    def _made(self, channel: Channel) -> str:
        began = self._clock()
        try:
            return self._render(channel.name)
        finally:
            channel.took = self._clock() - began


def _event(number: int, html: str) -> bytes:
    return f"id: {number}\nevent: part\ndata: {json.dumps(html)}\n\n".encode()
