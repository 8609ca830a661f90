"""Live parts of pages: each is rendered once for all its watchers, and sent only when it has changed."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from onward.retry import redact_error

log = logging.getLogger("onward")

MIN_INTERVAL_SECONDS = 1.0
"""The shortest time between two renderings of a part."""
MAX_TIME_SHARE = 0.05
"""Rendering takes at most this share of the time: workers on the same machine come first."""
KEEP_ALIVE_SECONDS = 15.0
"""A stream without changes sends a comment after this time, so that the connection stays open."""
MAX_WATCHERS = 2_000
MAX_CHANNELS = 200


class TooManyWatchers(Exception):
    """The server has as many watchers as it accepts."""


@dataclass(slots=True, eq=False)
class Channel:
    """A live part of a page, and its watchers."""

    name: str
    html: str | None = None
    event: bytes = b""
    """The message that is sent to all watchers."""
    number: int = 0
    due: float = 0.0
    """When it is rendered next."""
    took: float = 0.0
    """Seconds that the last rendering took."""
    watchers: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Live:
    """Renders what is watched again and again, in one task and in a thread."""

    def __init__(self, render: Callable[[str], str], clock: Callable[[], float] = time.thread_time) -> None:
        """`render` renders the part of this name; it is called in a thread, one call at a time.

        `clock` measures the cost of that: usually processor time, because wall time also grows on a busy machine.
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
        """End all streams, before the server stops."""
        self._closed.set()
        for one in self._channels.values():
            one.changed.set()

    def watch(self, name: str) -> AsyncIterator[bytes]:
        """Return server-sent events: the part now, and again whenever it changes."""
        # Not in the stream: when that begins, the response status has been sent.
        if self._is_full(name):
            raise TooManyWatchers
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
                    await asyncio.wait_for(channel.changed.wait(), KEEP_ALIVE_SECONDS)
                except TimeoutError:
                    yield b": still there\n\n"
        finally:
            self._leave(channel)

    def _is_full(self, name: str) -> bool:
        one_more = name not in self._channels
        return self.watchers >= MAX_WATCHERS or (one_more and len(self._channels) >= MAX_CHANNELS)

    def _join(self, name: str) -> Channel:
        channel = self._channels.setdefault(name, Channel(name))
        channel.watchers += 1
        if self._task is None:
            self._task = asyncio.create_task(self._refresh_all())
        return channel

    def _leave(self, channel: Channel) -> None:
        channel.watchers -= 1
        if not channel.watchers:
            self._channels.pop(channel.name, None)

    async def _refresh_all(self) -> None:
        try:
            while self._channels and not self._closed.is_set():
                now = time.monotonic()
                for channel in list(self._channels.values()):
                    if channel.due <= now:
                        await self._refresh(channel)
                await asyncio.sleep(MIN_INTERVAL_SECONDS)
        finally:
            self._task = None
            if self._channels and not self._closed.is_set():  # a watcher joined while it ended
                self._task = asyncio.create_task(self._refresh_all())

    async def _refresh(self, channel: Channel) -> None:
        before = channel.took
        try:
            html = await asyncio.to_thread(self._rendered, channel)
        except Exception as error:
            # The store may be unreachable; the page stays as it is, and the next rendering may succeed.
            log.debug("%s was not rendered: %s", channel.name, redact_error(f"{type(error).__name__}: {error}"))
            return
        finally:
            # One slow rendering may be an exception, as the first one is, so the faster of the last two counts.
            # All parts share the allowed time, and a slow part does not delay the others.
            pause = min(before, channel.took) * len(self._channels) / MAX_TIME_SHARE
            channel.due = time.monotonic() + max(MIN_INTERVAL_SECONDS / 2, pause)
        if html != channel.html:
            channel.html = html
            channel.number += 1
            channel.event = _event(channel.number, html)
            changed, channel.changed = channel.changed, asyncio.Event()
            changed.set()

    def _rendered(self, channel: Channel) -> str:
        began = self._clock()
        try:
            return self._render(channel.name)
        finally:
            channel.took = self._clock() - began


def _event(number: int, html: str) -> bytes:
    return f"id: {number}\nevent: part\ndata: {json.dumps(html)}\n\n".encode()
