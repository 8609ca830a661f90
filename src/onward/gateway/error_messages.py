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
    problem = ""
    try:
        parsed = URL(url)
    except ValueError as error:
        parsed, problem = URL(), f": {redact(str(error))}"
    if parsed.scheme not in _PORTS or not parsed.host:
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
