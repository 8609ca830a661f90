"""What kind of failure an exception is: may it pass, or is it final?"""

from __future__ import annotations

import errno
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import StrEnum
from functools import lru_cache
from typing import TypeAlias

from onward.retry.errors import Malformed, NotReady, Permanent, Unavailable


class Kind(StrEnum):
    """How a failure is treated."""

    NOT_READY = "not_ready"
    TRANSIENT = "transient"
    PERMANENT = "permanent"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class Classified:
    """The kind of a failure, and what it tells about the dependency that caused it."""

    kind: Kind
    unavailable: bool = False
    """It may be a dependency's fault: it was not reached, took too long, or said that it cannot."""
    dependency: str | None = None
    retry_after: float | None = None
    opens: bool = False
    rate_limited: bool = False
    remedy: str | None = None


Classifier: TypeAlias = Callable[[BaseException], Classified]

_NOT_READY = Classified(Kind.NOT_READY)
_TRANSIENT = Classified(Kind.TRANSIENT)
_UNAVAILABLE = Classified(Kind.TRANSIENT, unavailable=True)
_PERMANENT = Classified(Kind.PERMANENT)
_MALFORMED = Classified(Kind.MALFORMED)

# Programming errors and bad data come back the same however often they are tried.
_FINAL_TYPES = (
    Permanent,
    UnicodeDecodeError,
    TypeError,
    AttributeError,
    KeyError,
    AssertionError,
    NotImplementedError,
)
_UNREACHED_TYPES = (ConnectionError, TimeoutError)
# By name, so that no driver or validation library needs to be installed or imported.
_BY_NAME = {
    "ValidationError": _PERMANENT,
    "IntegrityError": _PERMANENT,
    "IntegrityConstraintViolationError": _PERMANENT,
    **dict.fromkeys(
        (
            *("OperationalError", "gaierror", "URLError", "TransportError", "TimeoutException"),
            *("ConnectionError", "Timeout", "ClientConnectionError", "APIConnectionError", "SSLError"),
        ),
        _UNAVAILABLE,
    ),
}
_UNREACHED_ERRNOS = frozenset({errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH})
_HTTP_NAMES = ("http", "statuserror", "responseerror")
_PASSING_STATUS = frozenset({408, 425, 429})


def classify(error: BaseException, *, now: float | None = None) -> Classified:
    """Decide by the table in the manual which kind of failure this is.

    Only the error itself is looked at, never its `__cause__`: whoever wraps an error has judged it. Of a
    group, all members count. `now` (Unix seconds) gives a Retry-After that is a date its meaning; without
    it such a date is ignored.
    """
    if isinstance(error, NotReady):
        return _NOT_READY
    if isinstance(error, Malformed):
        return _MALFORMED
    if isinstance(error, Unavailable):
        return Classified(
            Kind.TRANSIENT,
            unavailable=True,
            dependency=error.dependency,
            retry_after=error.retry_after,
            opens=error.opens,
            remedy=error.remedy,
        )
    if isinstance(error, BaseExceptionGroup):
        return _classify_group([classify(member, now=now) for member in error.exceptions])
    if isinstance(error, OSError) and error.errno in _UNREACHED_ERRNOS:
        return _UNAVAILABLE
    http, verdict = _judge_type(type(error))  # type: ignore[arg-type]  # mypy asks the instance for its hash
    if http and (status := _http_status(error)) is not None:
        return _classify_status(status, error, now)
    return verdict


@lru_cache(maxsize=512)
def _judge_type(kind: type[BaseException]) -> tuple[bool, Classified]:
    """Tell whether errors of this type may have an HTTP status, and what they are if they have none."""
    names = [cls.__name__ for cls in kind.__mro__]
    # Many exceptions have a `.code` or `.status` that means something else: SystemExit, gRPC, JSON errors.
    http = any(word in name.lower() for name in names for word in _HTTP_NAMES)
    for name in names:
        if (known := _BY_NAME.get(name)) is not None:
            return http, known
    if issubclass(kind, _FINAL_TYPES):
        return http, _PERMANENT
    return http, _UNAVAILABLE if issubclass(kind, _UNREACHED_TYPES) else _TRANSIENT


def _classify_group(members: list[Classified]) -> Classified:
    kinds = {member.kind for member in members}
    if kinds == {Kind.NOT_READY}:
        return _NOT_READY
    if kinds == {Kind.MALFORMED}:
        return _MALFORMED
    if kinds <= {Kind.PERMANENT, Kind.MALFORMED}:
        return _PERMANENT
    passing = [member for member in members if member.kind is Kind.TRANSIENT]
    dependencies = {member.dependency for member in passing}
    return Classified(
        Kind.TRANSIENT,
        unavailable=any(member.unavailable for member in passing),
        dependency=dependencies.pop() if len(dependencies) == 1 else None,
        retry_after=max((m.retry_after for m in passing if m.retry_after is not None), default=None),
        opens=any(member.opens for member in passing),
        rate_limited=bool(passing) and all(member.rate_limited for member in passing),
        remedy=next((member.remedy for member in passing if member.remedy), None),
    )


def _classify_status(status: int, error: BaseException, now: float | None) -> Classified:
    if status in (401, 403):
        return Classified(
            Kind.TRANSIENT,
            unavailable=True,
            opens=True,
            remedy=f"The server answered {status}: check the key or token, and what it is allowed to do.",
        )
    if 400 <= status < 500 and status not in _PASSING_STATUS:
        return _PERMANENT
    return Classified(
        Kind.TRANSIENT,
        unavailable=status >= 400,
        retry_after=_retry_after(error, now),
        rate_limited=status == 429,
    )


def _http_status(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    for owner, name in (
        (response, "status_code"),
        (response, "status"),
        (error, "status_code"),
        (error, "status"),
        (error, "code"),
    ):
        status = getattr(owner, name, None)
        if isinstance(status, int) and 100 <= status <= 599:
            return status
    return None


def _retry_after(error: BaseException, now: float | None) -> float | None:
    for owner in (getattr(error, "response", None), error):
        get = getattr(getattr(owner, "headers", None), "get", None)
        if not callable(get):
            continue
        value = get("Retry-After") or get("retry-after")
        if isinstance(value, bytes):
            value = value.decode("latin-1")
        if isinstance(value, str):
            return parse_retry_after(value, now=now)
    return None


def parse_retry_after(value: str, *, now: float | None = None) -> float | None:
    """Read a Retry-After header, seconds or a date, as seconds from now; None if it says nothing."""
    try:
        seconds = float(value)
    except ValueError:
        if now is None:
            return None
        try:
            when = parsedate_to_datetime(value)
            # "-0000" means UTC of unknown origin, and is parsed without a zone.
            seconds = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - now
        except (ValueError, OverflowError):
            return None
        return max(seconds, 0.0)
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
