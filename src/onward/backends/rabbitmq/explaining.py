"""What is wrong between us and the broker, in words that say how to mend it; never with a password."""

from __future__ import annotations

import re
import socket
import ssl

from aiormq import exceptions
from yarl import URL

from onward.ports import StoreError
from onward.ports.wire import WireUnavailable
from onward.retry import redact

_PORTS = {"amqp": 5672, "amqps": 5671}
_ENTITY = re.compile(r"for (queue|exchange) '([^']*)'")


def check_url(url: str) -> URL:
    """The URL, read; raises `StoreError` if it is not one of a broker."""
    form = (
        "use amqp://user:password@host:5672/vhost, or amqps:// with TLS; "
        "in a password write / ? # @ as %2F %3F %23 %40"
    )
    try:
        read = URL(url)
        if read.scheme not in _PORTS or not read.host:
            raise StoreError(f"{redact(url)} is no URL of a RabbitMQ broker; {form}")
    except ValueError as error:
        raise StoreError(f"{redact(url)} is no URL of a RabbitMQ broker: {redact(str(error))}; {form}") from None
    return read if read.explicit_port else read.with_port(_PORTS[read.scheme])


def vhost_of(url: URL) -> str:
    """The virtual host that a URL names."""
    return url.path[1:].replace("%2F", "/") or "/"


def named_in(said: str) -> tuple[str, str]:
    """The kind and name of what the broker speaks about: a queue or an exchange; empty: neither."""
    found = _ENTITY.search(said)
    return (found[1], found[2]) if found else ("", "")


def too_old(version: tuple[int, ...], url: URL) -> StoreError:
    """For a broker without quorum queues."""
    found = ".".join(map(str, version))
    return StoreError(
        f"{_where(url)} is version {found}, which has no quorum queues; Onward needs 3.8 or later. Upgrade it"
    )


def blocked(reason: str, url: URL) -> WireUnavailable:
    """For a broker that takes no messages."""
    return WireUnavailable(
        f"{_where(url)} is blocked and takes no messages: {redact(reason)}. It is short of memory or disk space: "
        "see `rabbitmqctl status`; what is due waits in the ledger meanwhile"
    )


def missing(queue: str, url: URL) -> WireUnavailable:
    """For a queue that somebody deleted."""
    return WireUnavailable(f"queue {queue!r} is gone from {_where(url)}; it is being declared again")


def explain(error: BaseException, url: URL, farewell: str = "") -> StoreError:
    """The error as a `StoreError`: `WireUnavailable` if trying again may help without anybody doing anything."""
    if isinstance(error, StoreError):
        return error
    where, user = _where(url), url.user or "guest"
    said = redact(farewell or _words(error))
    if isinstance(error, exceptions.ProbableAuthenticationError | exceptions.AuthenticationError):
        return StoreError(
            f"{where} refused to let user {user!r} in: wrong password, no such user, or guest from another "
            f"machine. Correct the URL, or on the broker: rabbitmqctl add_user {user} (or change_password {user})"
        )
    if "vhost" in farewell and "NOT_ALLOWED" in farewell:
        return _explain_vhost(farewell, where, user, vhost_of(url))
    if isinstance(error, exceptions.AMQPChannelError):
        return _explain_channel(error, url)
    return _explain_network(error.__cause__ if isinstance(error.__cause__, OSError) else error, said, url)


def _explain_vhost(farewell: str, where: str, user: str, vhost: str) -> StoreError:
    if "not found" in farewell:
        return StoreError(
            f"{where} has no virtual host {vhost!r}; name another one at the end of the URL, or make it: "
            f"rabbitmqctl add_vhost {vhost}, then rabbitmqctl set_permissions -p {vhost} {user} '.*' '.*' '.*'"
        )
    if "refused" in farewell:
        return StoreError(
            f"{where} refused user {user!r} the virtual host {vhost!r}; name another one at the end of the URL, "
            f"or allow it: rabbitmqctl set_permissions -p {vhost} {user} '.*' '.*' '.*'"
        )
    return WireUnavailable(f"the virtual host {vhost!r} of {where} is not available: {redact(farewell)}")


def _explain_channel(error: exceptions.AMQPChannelError, url: URL) -> StoreError:
    where, said, vhost, user = _where(url), redact(_words(error)), vhost_of(url), url.user or "guest"
    kind, name = named_in(said)
    if isinstance(error, exceptions.ChannelPreconditionFailed) and kind:
        wanted = "a durable quorum queue" if kind == "queue" else "a durable topic exchange"
        delete = (
            f"rabbitmqctl -p {vhost} delete_queue {name} (the messages in it are lost: see first what they are)"
            if kind == "queue"
            else f"rabbitmqadmin -V {vhost} delete exchange name={name}"
        )
        return StoreError(
            f"{kind} {name!r} on {where} exists, but is not {wanted} as Onward declares it: {said}. If nothing "
            f"else uses it, delete it, and it will be made anew: {delete}"
        )
    if isinstance(error, exceptions.ChannelPreconditionFailed) and "message size" in said:
        return StoreError(
            f"{where} refused a message that is too large: {said}. Raise max_message_size on the broker"
        )
    if isinstance(error, exceptions.ChannelAccessRefused):
        return StoreError(
            f"{where} does not allow user {user!r} what Onward needs: {said}. Allow it: "
            f"rabbitmqctl set_permissions -p {vhost} {user} '.*' '.*' '.*'"
        )
    return WireUnavailable(f"{where} closed a channel: {said}")


def _explain_network(error: BaseException, said: str, url: URL) -> StoreError:
    where, host = _where(url), url.host
    match error:
        case ssl.SSLCertVerificationError():
            return StoreError(
                f"the certificate of {where} is not trusted: {error.verify_message}. Name the authority that "
                "signed it with ?cafile=… in the URL, or correct the host name"
            )
        case ssl.SSLError():
            return StoreError(
                f"no TLS connection to {where}: {said}. Is it the port for TLS (usually 5671), and are cafile, "
                "certfile and keyfile in the URL right?"
            )
        case socket.gaierror():
            return WireUnavailable(
                f"there is no host {host!r} (of the URL {redact(str(url))}): {said}. Correct the URL"
            )
        case ConnectionRefusedError():
            return WireUnavailable(
                f"nothing listens at {host}:{url.port}. Start RabbitMQ there, or correct host and port in the URL"
            )
        case FileNotFoundError() | PermissionError() | IsADirectoryError():
            return StoreError(f"a certificate or key that {redact(str(url))} names cannot be read: {said}")
        case TimeoutError():
            return WireUnavailable(
                f"{where} did not answer in time. Is the broker overloaded, or a firewall between?"
            )
        case exceptions.ProtocolSyntaxError() | exceptions.IncompatibleProtocolError():
            return StoreError(
                f"what listens at {where} does not speak AMQP 0-9-1: {said}. RabbitMQ's port is usually 5672, "
                "with TLS 5671; 15672 is its management page"
            )
    return WireUnavailable(f"the connection to {where} was lost: {said}")


def _where(url: URL) -> str:
    return f"RabbitMQ at {url.host}:{url.port}"


def _words(error: BaseException) -> str:
    # The last one is the text: before it, some errors carry a number.
    return str(error.args[-1]) if error.args else type(error).__name__
