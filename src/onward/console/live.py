"""Live parts of pages: each is rendered once for all its watchers, and sent only when it has changed."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from fastapi import Request
from starlette.responses import Response, StreamingResponse

from onward.console.problems import Problem
from onward.console.time_zone import viewer_zone
from onward.retry import redact_error

log = logging.getLogger("onward")

MIN_INTERVAL_SECONDS = 1.0  # between two renderings of a part
MAX_TIME_SHARE = 0.05  # of the time is spent on rendering: workers on the same machine come first
KEEP_ALIVE_SECONDS = 15.0  # after this time without changes, a comment keeps the connection open
MAX_WATCHERS = 2_000
MAX_CHANNELS = 200


@dataclass(slots=True, eq=False)
class Channel:
    """A live part of a page, and its watchers."""

    name: str
    html: str | None = None
    event: bytes = b""  # the message that is sent to all watchers
    number: int = 0
    due: float = 0.0  # when it is rendered next
    took: float = 0.0  # seconds that the last rendering took
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
        self._wanted = asyncio.Event()  # a part that nobody watched before is rendered at once
        self._closed = asyncio.Event()

    def close(self) -> None:
        """End all streams, before the server stops."""
        self._closed.set()
        for one in self._channels.values():
            one.changed.set()

    @property
    def watchers(self) -> int:
        return sum(one.watchers for one in self._channels.values())

    @property
    def idle(self) -> bool:
        """Return whether nothing is rendered, as nobody watches."""
        return self._task is None

    def is_full(self, name: str) -> bool:
        """Return whether no more watchers of this part are accepted."""
        return self.watchers >= MAX_WATCHERS or (
            name not in self._channels and len(self._channels) >= MAX_CHANNELS
        )

    async def watch(self, name: str) -> AsyncIterator[bytes]:
        """Yield server-sent events: the part now, and again whenever it changes."""
        if (channel := self._channels.get(name)) is None:
            channel = self._channels[name] = Channel(name)
            self._wanted.set()
        channel.watchers += 1
        if self._task is None:
            self._task = asyncio.create_task(self._refresh_all())
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
            channel.watchers -= 1
            if not channel.watchers:
                del self._channels[name]
                if not self._channels and self._task is not None:
                    self._wanted.set()  # nothing is left to be rendered: the task ends

    async def _refresh_all(self) -> None:
        try:
            while self._channels and not self._closed.is_set():
                self._wanted.clear()
                now = time.monotonic()
                for channel in list(self._channels.values()):
                    if channel.due <= now:
                        await self._refresh(channel)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wanted.wait(), MIN_INTERVAL_SECONDS)
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
            channel.event = f"id: {channel.number}\nevent: part\ndata: {json.dumps(html)}\n\n".encode()
            changed, channel.changed = channel.changed, asyncio.Event()
            changed.set()

    def _rendered(self, channel: Channel) -> str:
        began = self._clock()
        try:
            return self._render(channel.name)
        finally:
            channel.took = self._clock() - began


def event_stream(
    request: Request,
    name: str,
    refusal: tuple[str, str],
    convert: Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]] = lambda stream: stream,
) -> Response:
    """Stream a live part; if the server has too many watchers, refuse with this title and detail."""
    live: Live = request.app.state.live
    name = f"{viewer_zone().name}\n{name}"  # what is rendered for one zone is sent to its watchers alone
    if live.is_full(name):  # not in the stream: when that begins, the response status has been sent
        raise Problem(503, *refusal, headers={"retry-after": "30"})
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(convert(live.watch(name)), media_type="text/event-stream", headers=headers)
