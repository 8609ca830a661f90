"""A connection to the broker, and its errors, with their cause and remedy, and without passwords.

Bytes from the broker are read here before the client library reads them. The library ends a connection when it
cannot decode the properties of one message, and then no message arrives: a program that writes its timestamps in
microseconds would stop every worker, because the broker delivers the message again after each reconnect. So
properties that cannot be decoded are removed here, and routing keys that are not UTF-8 are replaced. The library
also does not expose why the broker blocks or closes a connection; this is recorded here.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiormq
from aiormq import exceptions
from aiormq.connection import TransportFactory
from pamqp import commands, frame
from pamqp.common import FieldTable
from pamqp.constants import FRAME_END_CHAR
from pamqp.exceptions import PAMQPException
from yarl import URL

from onward.retry import OnwardError, redact

HEARTBEAT_SECONDS = 20
CLOSE_SECONDS = 1.0
_PORTS = {"amqp": 5672, "amqps": 5671}
_ENTITY = re.compile(r"for (queue|exchange) '([^']*)'")
_PREFIX = struct.Struct(">BHI")
_METHOD, _HEADER, _BODY, _HEARTBEAT = 1, 2, 3, 8
_DELIVER = struct.pack(">I", commands.Basic.Deliver.index)
_TAG_AND_FLAG = 9
_CONTENT = struct.Struct(">HHQ")
_NO_PROPERTIES = b"\0\0"
_FLAGS = struct.Struct(">H")
_RISKY = 1 << 13 | 1 << 6 | 1  # headers, a timestamp, and the mark of more flags
_CONNECTION = struct.pack(">H", commands.Connection.frame_id)  # the first bytes of the methods of this class


class BrokerError(OnwardError):
    """The broker cannot be used until a person changes something."""


class BrokerUnavailable(BrokerError):
    """The broker cannot be reached now; connecting again may succeed."""


def parse_url(url: str) -> URL:
    """Parse a broker's URL; raise `BrokerError` if it is not one."""
    form = (
        "use amqp://user:password@host:5672/vhost, or amqps:// with TLS; "
        "in a password write / ? # @ as %2F %3F %23 %40"
    )
    host, problem = None, ""
    try:
        parsed = URL(url)
        host = parsed.host  # raises for a name in Punycode that cannot be decoded
    except ValueError as error:
        parsed, problem = URL(), f": {redact(str(error))}"
    if parsed.scheme not in _PORTS or not host:
        raise BrokerError(f"{redact(url)} is not the URL of a RabbitMQ broker{problem}; {form}")
    return parsed if parsed.explicit_port else parsed.with_port(_PORTS[parsed.scheme])


def vhost_of(url: URL) -> str:
    return url.path[1:].replace("%2F", "/") or "/"


def where(url: URL) -> str:
    return f"RabbitMQ at {url.host}:{url.port}"


def named_in(text: str) -> tuple[str, str]:
    """Return the kind and name of the queue or exchange in a text of the broker; empty if there is none."""
    found = _ENTITY.search(text)
    return (found[1], found[2]) if found else ("", "")


def explain(error: BaseException, url: URL, close_reason: str = "") -> BrokerError:
    """Return the error as a `BrokerError`; as `BrokerUnavailable` if connecting again may succeed."""
    if isinstance(error, BrokerError):
        return error
    # The last argument is the text; some errors have a number before it.
    text = redact(str(error.args[-1]) if error.args else type(error).__name__)
    broker, user, vhost = where(url), url.user or "guest", vhost_of(url)
    allow = f"rabbitmqctl set_permissions -p {vhost} {user} '.*' '.*' '.*'"
    if isinstance(error, exceptions.ProbableAuthenticationError | exceptions.AuthenticationError):
        return BrokerError(
            f"{broker} refused to let user {user!r} in: wrong password, no such user, or guest from another "
            f"machine. Correct the URL, or on the broker: rabbitmqctl add_user {user} (or change_password {user})"
        )
    if "vhost" in close_reason and "NOT_ALLOWED" in close_reason:
        if "not found" in close_reason:
            return BrokerError(
                f"{broker} has no virtual host {vhost!r}; name another one at the end of the URL, or make it: "
                f"rabbitmqctl add_vhost {vhost}, then {allow}"
            )
        if "refused" in close_reason:
            return BrokerError(
                f"{broker} refused user {user!r} the virtual host {vhost!r}; name another one at the end of the "
                f"URL, or allow it: {allow}"
            )
        reason = redact(close_reason)
        return BrokerUnavailable(f"the virtual host {vhost!r} of {broker} is not available: {reason}")
    kind, name = named_in(text)
    if isinstance(error, exceptions.ChannelPreconditionFailed) and kind:
        wanted = "a durable topic exchange"
        delete = f"rabbitmqadmin -V {vhost} delete exchange name={name}"
        if kind == "queue":
            wanted = "a durable quorum queue"
            lost = "(the messages in it are lost: see first what they are)"
            delete = f"rabbitmqctl -p {vhost} delete_queue {name} {lost}"
        return BrokerError(
            f"{kind} {name!r} on {broker} exists, but is not {wanted} as Onward declares it: {text}. If nothing "
            f"else uses it, delete it, and it will be made again: {delete}"
        )
    if isinstance(error, exceptions.ChannelPreconditionFailed) and "message size" in text:
        return BrokerError(
            f"{broker} refused a message that is too large: {text}. Raise max_message_size on the broker"
        )
    if isinstance(error, exceptions.ChannelAccessRefused):
        return BrokerError(f"{broker} does not allow user {user!r} what Onward needs: {text}. Allow it: {allow}")
    if isinstance(error, exceptions.AMQPChannelError):
        return BrokerUnavailable(f"{broker} closed a channel: {text}")
    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
    return _explain_network(cause, redact(close_reason) or text, url)


def _explain_network(error: BaseException, text: str, url: URL) -> BrokerError:
    broker, host = where(url), url.host
    match error:
        case ssl.SSLCertVerificationError():
            return BrokerError(
                f"the certificate of {broker} is not trusted: {error.verify_message}. Name the authority that "
                "signed it with ?cafile=… in the URL, or correct the host name"
            )
        case ssl.SSLError():
            return BrokerError(
                f"no TLS connection to {broker}: {text}. Is it the port for TLS (usually 5671), and are cafile, "
                "certfile and keyfile in the URL right?"
            )
        case socket.gaierror():
            return BrokerUnavailable(
                f"there is no host {host!r} (of the URL {redact(str(url))}): {text}. Correct the URL"
            )
        case ConnectionRefusedError():
            return BrokerUnavailable(
                f"nothing listens at {host}:{url.port}. Start RabbitMQ there, or correct host and port in the URL"
            )
        case FileNotFoundError() | PermissionError() | IsADirectoryError():
            return BrokerError(f"a certificate or key that {redact(str(url))} names cannot be read: {text}")
        case TimeoutError():
            return BrokerUnavailable(
                f"{broker} did not respond in time. Is the broker overloaded, or is there a firewall in between?"
            )
        case exceptions.ProtocolSyntaxError() | exceptions.IncompatibleProtocolError():
            return BrokerError(
                f"what listens at {broker} does not speak AMQP 0-9-1: {text}. RabbitMQ's port is usually 5672, "
                "with TLS 5671; 15672 is its management page"
            )
    return BrokerUnavailable(f"the connection to {broker} was lost: {text}")


# -- the connection


class _FrameReader(asyncio.StreamReader):
    """Reads whole frames and returns their bytes in the portions that are requested."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_blocked: Callable[[str], None]) -> None:
        super().__init__(loop=loop)
        self.close_reason = ""  # the text with which the broker closed the connection; empty: it did not
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
            raise exceptions.ProtocolSyntaxError(f"it responds with {prefix!r}")
        rest = await super().readexactly(size + 1)
        if kind == _HEADER:
            return _readable_header(prefix + rest)
        if kind == _METHOD and rest[:4] == _DELIVER:
            return _readable_delivery(prefix + rest)
        if kind == _METHOD and channel == 0 and rest[:2] == _CONNECTION:
            with suppress(PAMQPException):
                match frame.unmarshal(prefix + rest)[2]:
                    case commands.Connection.Close() as method:
                        self.close_reason = f"{method.reply_text} ({method.reply_code})"
                    case commands.Connection.Blocked() as method:
                        self._on_blocked(method.reason or "no reason given")
                    case commands.Connection.Unblocked():
                        self._on_blocked("")
        return prefix + rest


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
    (flags,) = _FLAGS.unpack_from(data, _PREFIX.size + _CONTENT.size)
    if not flags & _RISKY and data[_PREFIX.size + _CONTENT.size + _FLAGS.size : -1].isascii():
        return data  # texts and numbers, which can be decoded
    try:
        frame.unmarshal(data)
    except Exception:  # any error of the library would end the connection
        channel = _PREFIX.unpack_from(data)[1]
        content = data[_PREFIX.size : _PREFIX.size + _CONTENT.size] + _NO_PROPERTIES
        return _PREFIX.pack(_HEADER, channel, len(content)) + content + FRAME_END_CHAR
    return data


class _Connection(aiormq.Connection):
    # The protocol allows two missed heartbeats; the library allows three.
    HEARTBEAT_GRACE_MULTIPLIER = 2


class BrokerConnection(TransportFactory):
    """A connection, and what the broker reported about it."""

    def __init__(self, url: str, name: str, *, on_ended: Callable[[str], None]) -> None:
        """`on_ended` is called with the reason when the connection, or a channel of `channel()`, ends."""
        self.url = parse_url(url)
        self.blocked = ""  # why the broker accepts no messages on this connection; empty: it does
        self.blocking = asyncio.Event()
        self._name = name
        self._on_ended = on_ended
        self._connection: _Connection | None = None
        self._reader: _FrameReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        """Connect; raise `BrokerError` with the remedy."""
        url = self.url if "heartbeat" in self.url.query else self.url.update_query(heartbeat=HEARTBEAT_SECONDS)
        properties: FieldTable = {"product": "Onward", "connection_name": self._name}
        connection = _Connection(url, transport_factory=self, client_properties=properties)
        try:
            await connection.connect()
        except Exception as error:
            raise self.explain(error) from error
        self._connection = connection
        connection.closing.add_done_callback(lambda closing: self._on_ended(self.end_reason(closing)))

    async def create(self, url: URL, **kwargs: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect as the client library does, with or without TLS, through a `_FrameReader`."""
        loop = asyncio.get_running_loop()
        provider = kwargs.pop("ssl_context_provider")
        context = await provider.get_context() if url.scheme == "amqps" else None
        reader = _FrameReader(loop, self._set_blocked)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        if url.host is None or url.port is None:
            raise ValueError("the URL has no host or no port")
        try:
            transport, _ = await loop.create_connection(
                lambda: protocol, url.host, url.port, ssl=context, **kwargs
            )
        except OSError as error:
            raise exceptions.AMQPConnectionError(*error.args) from error
        self._reader, self._writer = reader, asyncio.StreamWriter(transport, protocol, reader, loop)
        return reader, self._writer

    @property
    def version(self) -> tuple[int, ...]:
        """The broker's version; empty if it does not report one, or is not RabbitMQ."""
        properties = self._connection.server_properties if self._connection else {}
        if properties.get("product") != "RabbitMQ":
            return ()
        return tuple(int(part) for part in re.findall(r"\d+", str(properties.get("version", "")))[:3])

    async def channel(self) -> aiormq.Channel:
        """Open a channel whose end is reported to `on_ended`."""
        channel = await self._open_channel()
        channel.closing.add_done_callback(lambda closing: self._on_ended(self.end_reason(closing)))
        return channel

    @asynccontextmanager
    async def short_channel(self) -> AsyncIterator[aiormq.Channel]:
        """Open a channel for a few requests; the broker closes a channel when it refuses a request."""
        channel = await self._open_channel()
        try:
            yield channel
        finally:
            with suppress(Exception):
                await channel.close(timeout=CLOSE_SECONDS)

    async def _open_channel(self) -> aiormq.Channel:
        if self._connection is None:
            raise RuntimeError("a channel was requested before the connection was opened")
        try:
            # Frames that were read and not processed are not limited here: prefetch limits them.
            channel = await self._connection.channel(frame_buffer_size=0)
        except RuntimeError as error:  # the library raises it for a closed connection
            raise self.explain(ConnectionResetError(*error.args)) from error
        except exceptions.AMQPError as error:
            raise self.explain(error) from error
        assert isinstance(channel, aiormq.Channel)
        return channel

    def explain(self, error: BaseException) -> BrokerError:
        return explain(error, self.url, self._reader.close_reason if self._reader else "")

    async def close(self) -> None:
        """Close the connection; drop it if the broker does not respond at once."""
        if self._connection is not None:
            with suppress(Exception):
                await asyncio.wait_for(self._connection.close(), CLOSE_SECONDS)
        if self._writer is not None:
            self._writer.transport.abort()

    def end_reason(self, closing: asyncio.Future[Any]) -> str:
        """Return why a connection, a channel or a task that used them ended."""
        error = None if closing.cancelled() else closing.exception()
        return str(self.explain(error)) if error else "the connection was closed"

    def _set_blocked(self, reason: str) -> None:
        self.blocked = reason
        if reason:
            self.blocking.set()
        else:
            self.blocking.clear()
