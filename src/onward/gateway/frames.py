"""Bytes from the broker, read before the client library reads them.

The library ends a connection when it cannot decode the properties of one message, and then no message arrives: a
program that writes its timestamps in microseconds would stop every worker, because the broker delivers the message
again after each reconnect. So properties that cannot be decoded are removed here, and routing keys that are not
UTF-8 are replaced. The library also does not expose why the broker blocks or closes a connection; this is recorded
here.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

from aiormq.connection import TransportFactory
from aiormq.exceptions import AMQPConnectionError, ProtocolSyntaxError
from pamqp import commands, frame
from pamqp.constants import FRAME_END_CHAR
from pamqp.exceptions import PAMQPException
from yarl import URL

_PREFIX = struct.Struct(">BHI")
_METHOD, _HEADER, _BODY, _HEARTBEAT = 1, 2, 3, 8
_DELIVER = struct.pack(">I", commands.Basic.Deliver.index)
_TAG_AND_FLAG = 9
_CONTENT = struct.Struct(">HHQ")
_NO_PROPERTIES = b"\0\0"
_RECORDED: dict[
    bytes, type[commands.Connection.Close | commands.Connection.Blocked | commands.Connection.Unblocked]
]
_RECORDED = {
    struct.pack(">I", kind.index): kind
    for kind in (commands.Connection.Close, commands.Connection.Blocked, commands.Connection.Unblocked)
}


class FrameReader(asyncio.StreamReader):
    """Reads whole frames and returns their bytes in the portions that are requested."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_blocked: Callable[[str], None]) -> None:
        super().__init__(loop=loop)
        self.close_reason = ""
        """The text with which the broker closed the connection; empty: it did not."""
        self._on_blocked = on_blocked
        self._frame = b""
        self._position = 0

    async def readexactly(self, n: int) -> bytes:
        if self._position == len(self._frame):
            self._frame, self._position = await self._read_frame(), 0
        portion = self._frame[self._position : self._position + n]
        self._position += n
        return portion

    def at_eof(self) -> bool:
        return self._position >= len(self._frame) and super().at_eof()

    async def _read_frame(self) -> bytes:
        prefix = await super().readexactly(_PREFIX.size)
        kind, channel, size = _PREFIX.unpack(prefix)
        if kind not in (_METHOD, _HEADER, _BODY, _HEARTBEAT):
            # The library would read it as the length of a frame, and wait for that many bytes.
            raise ProtocolSyntaxError(f"it responds with {prefix!r}")
        rest = await super().readexactly(size + 1)
        if kind == _HEADER:
            return _readable_header(prefix + rest)
        if kind == _METHOD and rest[:4] == _DELIVER:
            return _readable_delivery(prefix + rest)
        if kind == _METHOD and channel == 0 and rest[:4] in _RECORDED:
            self._record(prefix + rest)
        return prefix + rest

    def _record(self, data: bytes) -> None:
        try:
            _, _, method = frame.unmarshal(data)
        except PAMQPException:
            return
        match method:
            case commands.Connection.Close():
                self.close_reason = f"{method.reply_text} ({method.reply_code})"
            case commands.Connection.Blocked():
                self._on_blocked(method.reason or "no reason given")
            case commands.Connection.Unblocked():
                self._on_blocked("")


def _readable_delivery(data: bytes) -> bytes:
    at = _PREFIX.size + len(_DELIVER)
    at += 1 + data[at] + _TAG_AND_FLAG
    names = data[at:-1]
    if names.isascii():
        return data
    middle = 1 + names[0]
    exchange, key = names[1:middle], names[middle + 1 :]
    try:
        exchange.decode(), key.decode()
    except UnicodeDecodeError:
        readable = (bytes(byte if byte < 128 else ord("?") for byte in name) for name in (exchange, key))
        return data[:at] + b"".join(bytes([len(name)]) + name for name in readable) + FRAME_END_CHAR
    return data


def _readable_header(data: bytes) -> bytes:
    try:
        frame.unmarshal(data)
    except Exception:  # any error of the library would end the connection
        channel = _PREFIX.unpack_from(data)[1]
        content = data[_PREFIX.size : _PREFIX.size + _CONTENT.size] + _NO_PROPERTIES
        return _PREFIX.pack(_HEADER, channel, len(content)) + content + FRAME_END_CHAR
    return data


class Transport(TransportFactory):
    """Connects as the client library does, with or without TLS, through a `FrameReader`."""

    def __init__(self, on_blocked: Callable[[str], None]) -> None:
        self._on_blocked = on_blocked
        self._reader: FrameReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    @property
    def close_reason(self) -> str:
        """The text with which the broker closed the connection; empty: it did not."""
        return self._reader.close_reason if self._reader else ""

    async def create(self, url: URL, **kwargs: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        loop = asyncio.get_running_loop()
        provider = kwargs.pop("ssl_context_provider")
        context = await provider.get_context() if url.scheme == "amqps" else None
        reader = FrameReader(loop, self._on_blocked)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        if url.host is None or url.port is None:
            raise ValueError("the URL has no host or no port")
        try:
            transport, _ = await loop.create_connection(
                lambda: protocol, url.host, url.port, ssl=context, **kwargs
            )
        except OSError as error:
            raise AMQPConnectionError(*error.args) from error
        self._reader, self._writer = reader, asyncio.StreamWriter(transport, protocol, reader, loop)
        return reader, self._writer

    def abort(self) -> None:
        """Drop the connection without telling the broker."""
        if self._writer is not None:
            self._writer.transport.abort()
