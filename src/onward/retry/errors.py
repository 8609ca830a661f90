"""The exceptions a handler raises to name the kind of its failure, and the classification of all others."""

from __future__ import annotations

import errno
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import StrEnum
from functools import lru_cache
from typing import TypeAlias


class OnwardError(Exception):
    """Every error that Onward itself raises."""


class NotReady(OnwardError):
    """The event came before its document can be read; it is retried soon.

    `ids` names the documents that cannot be read yet. The other documents of the event are not held up.
    """

    def __init__(self, message: str = "", ids: Iterable[str] = ()) -> None:
        self.ids = (ids,) if isinstance(ids, str) else tuple(ids)
        super().__init__(message)

    def __str__(self) -> str:
        return str(self.args[0]) or ("not readable yet: " + ", ".join(self.ids) if self.ids else "")


DocumentNotFoundError = NotReady


class Permanent(OnwardError):
    """A retry cannot help; the event becomes a dead letter at once."""


class Malformed(Permanent):
    """An event that cannot be decoded, is of an unknown type, or breaks its schema."""


class Unavailable(OnwardError):
    """A dependency is down or refuses the call; the document is not the cause.

    `retry_after` is the wait that the dependency asked for, in seconds. `opens` opens its breaker at once, for
    failures that only a person can end, such as a refused key; `remedy` says what that person has to do.
    """

    def __init__(
        self,
        dependency: str,
        message: str = "",
        *,
        retry_after: float | None = None,
        opens: bool = False,
        remedy: str | None = None,
    ) -> None:
        # Both in args, the rest in __dict__, so that the error can be pickled between processes.
        super().__init__(dependency, message)
        self.dependency = dependency
        self.retry_after = retry_after
        self.opens = opens
        self.remedy = remedy

    def __str__(self) -> str:
        _, message = self.args
        return f"{self.dependency}: {message}" if message else f"{self.dependency} is unavailable"


# -- classification


class Kind(StrEnum):
    """How a failure is treated."""

    NOT_READY = "not_ready"
    TRANSIENT = "transient"
    PERMANENT = "permanent"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class Classified:
    """The kind of a failure, and the dependency that caused it."""

    kind: Kind
    unavailable: bool = False
    """A dependency may be the cause: it was not reached, took too long, or returned an error of its own."""
    unreached: bool = False
    """The dependency was not reached at all: its connection was refused, its name not found."""
    dependency: str | None = None
    retry_after: float | None = None
    opens: bool = False
    rate_limited: bool = False
    remedy: str | None = None


Classifier: TypeAlias = Callable[[BaseException], Classified]

_NOT_READY = Classified(Kind.NOT_READY)
_TRANSIENT = Classified(Kind.TRANSIENT)
_UNAVAILABLE = Classified(Kind.TRANSIENT, unavailable=True)
_UNREACHED = Classified(Kind.TRANSIENT, unavailable=True, unreached=True)
_PERMANENT = Classified(Kind.PERMANENT)
_MALFORMED = Classified(Kind.MALFORMED)

# A retry raises the same error again.
_PROGRAMMING_ERRORS = (TypeError, AttributeError, KeyError, AssertionError, NotImplementedError)
_PERMANENT_TYPES = (Permanent, UnicodeDecodeError, *_PROGRAMMING_ERRORS)
# By name, so that no driver or validation library needs to be installed or imported.
_BY_NAME = (
    dict.fromkeys(("ValidationError", "IntegrityError", "IntegrityConstraintViolationError"), _PERMANENT)
    | dict.fromkeys(("OperationalError", "URLError", "TransportError", "TimeoutException"), _UNAVAILABLE)
    | dict.fromkeys(("ConnectionError", "Timeout", "ClientConnectionError", "SSLError"), _UNAVAILABLE)
    | dict.fromkeys(("gaierror", "ConnectionRefusedError", "ConnectError", "ClientConnectorError"), _UNREACHED)
    | dict.fromkeys(("NewConnectionError", "NameResolutionError", "APIConnectionError"), _UNREACHED)
)
_UNREACHED_ERRNOS = frozenset({errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH})
_HTTP_NAMES = ("http", "statuserror", "responseerror")
_TRANSIENT_STATUSES = frozenset({408, 425, 429})


def classify(error: BaseException, *, now: float | None = None) -> Classified:
    """Return the kind of a failure, by the table in docs/reference/policies.md.

    Only the error itself counts, never its `__cause__`: code that wraps an error has judged it. Of a group,
    all members count. `now` (Unix seconds) is needed for a Retry-After that is a date; without it such a
    date is ignored.
    """
    if isinstance(error, NotReady):
        return _NOT_READY
    if isinstance(error, Malformed):
        return _MALFORMED
    if isinstance(error, Unavailable):
        return Classified(
            Kind.TRANSIENT,
            unavailable=True,
            unreached=True,
            dependency=error.dependency,
            retry_after=error.retry_after,
            opens=error.opens,
            remedy=error.remedy,
        )
    if isinstance(error, BaseExceptionGroup):
        return _classify_group([classify(member, now=now) for member in error.exceptions])
    if isinstance(error, OSError) and error.errno in _UNREACHED_ERRNOS:
        return _UNREACHED
    http, by_type = _classify_type(type(error))  # type: ignore[arg-type]  # mypy asks the instance for its hash
    if http and (status := _http_status(error)) is not None:
        return _classify_status(status, error, now)
    if by_type is _UNAVAILABLE and isinstance(reason := getattr(error, "reason", None), OSError):
        return classify(reason, now=now)  # urllib's URLError only wraps the OSError that is its reason
    return by_type


@lru_cache(maxsize=512)
def _classify_type(error_type: type[BaseException]) -> tuple[bool, Classified]:
    """Return whether errors of this type may have an HTTP status, and their kind if they have none."""
    names = [cls.__name__ for cls in error_type.__mro__]
    # Many exceptions have a `.code` or `.status` that means something else: SystemExit, gRPC, JSON errors.
    http = any(word in name.lower() for name in names for word in _HTTP_NAMES)
    for name in names:
        if (kind := _BY_NAME.get(name)) is not None:
            return http, kind
    if issubclass(error_type, _PERMANENT_TYPES):
        return http, _PERMANENT
    return http, _UNAVAILABLE if issubclass(error_type, (ConnectionError, TimeoutError)) else _TRANSIENT


def _classify_group(members: list[Classified]) -> Classified:
    kinds = {member.kind for member in members}
    if len(kinds) == 1 and Kind.TRANSIENT not in kinds:
        return Classified(kinds.pop())
    if kinds <= {Kind.PERMANENT, Kind.MALFORMED}:
        return _PERMANENT
    transient = [member for member in members if member.kind is Kind.TRANSIENT]
    dependencies = {member.dependency for member in transient}
    return Classified(
        Kind.TRANSIENT,
        unavailable=any(member.unavailable for member in transient),
        unreached=bool(transient) and all(member.unreached for member in transient),
        dependency=dependencies.pop() if len(dependencies) == 1 else None,
        retry_after=max((m.retry_after for m in transient if m.retry_after is not None), default=None),
        opens=any(member.opens for member in transient),
        rate_limited=bool(transient) and all(member.rate_limited for member in transient),
        remedy=next((member.remedy for member in transient if member.remedy), None),
    )


def _classify_status(status: int, error: BaseException, now: float | None) -> Classified:
    if status in (401, 403):
        # It may be about one page only: the breaker opens if the handler raises `Unavailable(…, opens=True)`.
        remedy = f"The server answered {status}: check the key or token, and what it is allowed to do."
        return Classified(Kind.TRANSIENT, unavailable=True, remedy=remedy)
    if 400 <= status < 500 and status not in _TRANSIENT_STATUSES:
        return _PERMANENT
    return Classified(
        Kind.TRANSIENT, unavailable=status >= 400, retry_after=_retry_after(error, now), rate_limited=status == 429
    )


def _http_status(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    for owner, names in ((response, ("status_code", "status")), (error, ("status_code", "status", "code"))):
        for name in names:
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
    """Return a Retry-After header, seconds or a date, as seconds from now; None if it is neither."""
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
