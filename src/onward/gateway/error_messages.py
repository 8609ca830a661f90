"""Errors of the broker, with their cause and remedy, and without passwords."""

from __future__ import annotations

import re
import socket
import ssl

from aiormq import exceptions
from yarl import URL

from onward.retry import OnwardError, redact

_PORTS = {"amqp": 5672, "amqps": 5671}
_ENTITY = re.compile(r"for (queue|exchange) '([^']*)'")


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
    try:
        parsed = URL(url)
        if parsed.scheme not in _PORTS or not parsed.host:
            raise BrokerError(f"{redact(url)} is not the URL of a RabbitMQ broker; {form}")
    except ValueError as error:
        raise BrokerError(
            f"{redact(url)} is not the URL of a RabbitMQ broker: {redact(str(error))}; {form}"
        ) from None
    return parsed if parsed.explicit_port else parsed.with_port(_PORTS[parsed.scheme])


def vhost_of(url: URL) -> str:
    """Return the virtual host that a URL names."""
    return url.path[1:].replace("%2F", "/") or "/"


def named_in(text: str) -> tuple[str, str]:
    """Return the kind and name of the queue or exchange in a text of the broker; empty if there is none."""
    found = _ENTITY.search(text)
    return (found[1], found[2]) if found else ("", "")


def too_old(version: tuple[int, ...], url: URL) -> BrokerError:
    """Return the error for a broker without quorum queues."""
    found = ".".join(map(str, version))
    return BrokerError(
        f"{_where(url)} is version {found}, which has no quorum queues; Onward needs 3.8 or later. Upgrade it"
    )


def deleted_queue(queue: str, url: URL) -> BrokerUnavailable:
    """Return the error for a queue that was deleted."""
    return BrokerUnavailable(f"queue {queue!r} is gone from {_where(url)}; it is being declared again")


def explain(error: BaseException, url: URL, close_reason: str = "") -> BrokerError:
    """Return the error as a `BrokerError`; as `BrokerUnavailable` if connecting again may succeed."""
    if isinstance(error, BrokerError):
        return error
    where, user = _where(url), url.user or "guest"
    text = redact(close_reason or _text(error))
    if isinstance(error, exceptions.ProbableAuthenticationError | exceptions.AuthenticationError):
        return BrokerError(
            f"{where} refused to let user {user!r} in: wrong password, no such user, or guest from another "
            f"machine. Correct the URL, or on the broker: rabbitmqctl add_user {user} (or change_password {user})"
        )
    if "vhost" in close_reason and "NOT_ALLOWED" in close_reason:
        return _explain_vhost(close_reason, where, user, vhost_of(url))
    if isinstance(error, exceptions.AMQPChannelError):
        return _explain_channel(error, url)
    return _explain_network(error.__cause__ if isinstance(error.__cause__, OSError) else error, text, url)


def _explain_vhost(close_reason: str, where: str, user: str, vhost: str) -> BrokerError:
    if "not found" in close_reason:
        return BrokerError(
            f"{where} has no virtual host {vhost!r}; name another one at the end of the URL, or make it: "
            f"rabbitmqctl add_vhost {vhost}, then rabbitmqctl set_permissions -p {vhost} {user} '.*' '.*' '.*'"
        )
    if "refused" in close_reason:
        return BrokerError(
            f"{where} refused user {user!r} the virtual host {vhost!r}; name another one at the end of the URL, "
            f"or allow it: rabbitmqctl set_permissions -p {vhost} {user} '.*' '.*' '.*'"
        )
    return BrokerUnavailable(f"the virtual host {vhost!r} of {where} is not available: {redact(close_reason)}")


def _explain_channel(error: exceptions.AMQPChannelError, url: URL) -> BrokerError:
    where, text, vhost, user = _where(url), redact(_text(error)), vhost_of(url), url.user or "guest"
    kind, name = named_in(text)
    if isinstance(error, exceptions.ChannelPreconditionFailed) and kind:
        wanted = "a durable quorum queue" if kind == "queue" else "a durable topic exchange"
        delete = (
            f"rabbitmqctl -p {vhost} delete_queue {name} (the messages in it are lost: see first what they are)"
            if kind == "queue"
            else f"rabbitmqadmin -V {vhost} delete exchange name={name}"
        )
        return BrokerError(
            f"{kind} {name!r} on {where} exists, but is not {wanted} as Onward declares it: {text}. If nothing "
            f"else uses it, delete it, and it will be made again: {delete}"
        )
    if isinstance(error, exceptions.ChannelPreconditionFailed) and "message size" in text:
        return BrokerError(
            f"{where} refused a message that is too large: {text}. Raise max_message_size on the broker"
        )
    if isinstance(error, exceptions.ChannelAccessRefused):
        return BrokerError(
            f"{where} does not allow user {user!r} what Onward needs: {text}. Allow it: "
            f"rabbitmqctl set_permissions -p {vhost} {user} '.*' '.*' '.*'"
        )
    return BrokerUnavailable(f"{where} closed a channel: {text}")


def _explain_network(error: BaseException, text: str, url: URL) -> BrokerError:
    where, host = _where(url), url.host
    match error:
        case ssl.SSLCertVerificationError():
            return BrokerError(
                f"the certificate of {where} is not trusted: {error.verify_message}. Name the authority that "
                "signed it with ?cafile=… in the URL, or correct the host name"
            )
        case ssl.SSLError():
            return BrokerError(
                f"no TLS connection to {where}: {text}. Is it the port for TLS (usually 5671), and are cafile, "
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
                f"{where} did not respond in time. Is the broker overloaded, or is there a firewall in between?"
            )
        case exceptions.ProtocolSyntaxError() | exceptions.IncompatibleProtocolError():
            return BrokerError(
                f"what listens at {where} does not speak AMQP 0-9-1: {text}. RabbitMQ's port is usually 5672, "
                "with TLS 5671; 15672 is its management page"
            )
    return BrokerUnavailable(f"the connection to {where} was lost: {text}")


def _where(url: URL) -> str:
    return f"RabbitMQ at {url.host}:{url.port}"


def _text(error: BaseException) -> str:
    # The last argument is the text; some errors have a number before it.
    return str(error.args[-1]) if error.args else type(error).__name__
