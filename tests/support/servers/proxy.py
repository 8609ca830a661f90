"""A network that can be cut."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tests.support.servers.private import HOST, hold_port, port_of

_CHUNK = 65_536
LOOP_TURNS_TO_CONNECT = 5
"""Turns of the event loop from accepting a socket to the first step of its `_connect`, and one more."""


class Proxy:
    """Stands between clients and a server on this machine, and breaks the network between them when told to.

    with Proxy(server.port) as proxy:
        store = open_store(server.url(port=proxy.port))
        proxy.cut()         # nothing arrives any more, and nobody is told
        proxy.heal()        # what was on its way arrives
        proxy.refuse()      # connections are closed, new ones refused
    """

    def __init__(self, target_port: int) -> None:
        self._held_port = hold_port()
        self.port = port_of(self._held_port)
        self._target_port = target_port
        self._flowing = asyncio.Event()
        self._listener: asyncio.Server | None = None
        self._ends: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="onward-proxy", daemon=True)
        self._thread.start()
        self.heal()

    def cut(self) -> None:
        """Lets nothing through any more; connections stay open, and new ones are taken, all of them silent."""
        self._call(self._flowing.clear)

    def refuse(self) -> None:
        """Closes all connections and refuses new ones."""
        asyncio.run_coroutine_threadsafe(self._close_all(), self._loop).result()

    def heal(self) -> None:
        """Makes the network whole again; what was held back by a cut arrives now."""
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result()

    def close(self) -> None:
        """Ends it and all connections through it."""
        if self._loop.is_closed():
            return
        self.refuse()
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._held_port.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, action: Callable[[], None]) -> None:
        """Runs on the proxy's loop, and returns when it is done."""

        async def run() -> None:
            action()

        asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    async def _open(self) -> None:
        self._flowing.set()
        if self._listener is None:
            self._listener = await asyncio.start_server(self._connect, HOST, self.port, reuse_address=True)

    async def _close_all(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            # A connection that is accepted while its listener is closed loses its socket unclosed (a fault of
            # asyncio): stop accepting, let those that are accepted become connections, then close.
            for accepting in listener.sockets:
                self._loop.remove_reader(accepting.fileno())
            for _ in range(LOOP_TURNS_TO_CONNECT):
                await asyncio.sleep(0)
            listener.close()
        for end in self._ends:
            end.transport.abort()
        for task in self._passing:
            task.cancel()

    async def _end(self) -> None:
        await asyncio.gather(*self._passing, return_exceptions=True)
        await asyncio.sleep(0)  # a transport that was aborted closes its socket in the next turn

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._passing.add(task)
        self._ends.add(writer)
        try:
            await self._flowing.wait()
            with contextlib.suppress(OSError):
                await self._join(reader, writer)
        except asyncio.CancelledError:
            pass  # refused or closed: the server's own callback would report it as an error
        finally:
            writer.transport.abort()
            self._ends.discard(writer)
            self._passing.discard(task)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(HOST, self._target_port)
        for end in (writer, server_writer):
            end.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ends.add(server_writer)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass_on(reader, server_writer))
                both.create_task(self._pass_on(server_reader, writer))
        except* OSError:
            pass  # either end was reset; closing the other one tells it
        finally:
            server_writer.transport.abort()
            self._ends.discard(server_writer)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            await self._flowing.wait()
            writer.write(data)
            await writer.drain()
        await self._flowing.wait()
        writer.write_eof()
