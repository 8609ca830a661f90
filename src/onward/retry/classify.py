"""The classification of errors: whether a failure may pass, and what it says about a dependency."""

from __future__ import annotations

import math
import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache

from onward.retry.errors import Classified, Kind, Malformed, NotReady, Permanent, Unavailable
from onward.retry.library_errors import (
    BAD_CERTIFICATE,
    BUSY,
    EXHAUSTED,
    KEY_REFUSED,
    NO_CREDIT,
    PERMANENT,
    PLAIN,
    RATE_LIMITED,
    UNAVAILABLE,
    UNREACHED,
    chain_of,
    classify_code,
    error_code,
    http_status,
    refused,
)

_NOT_READY = Classified(Kind.NOT_READY)
_MALFORMED = Classified(Kind.MALFORMED)

# A retry raises the same error again.
_PROGRAMMING_ERRORS = (TypeError, AttributeError, KeyError, AssertionError, NotImplementedError)
_PERMANENT_TYPES = (Permanent, UnicodeDecodeError, *_PROGRAMMING_ERRORS)
# By name, so that no driver or validation library needs to be installed or imported.
_BY_NAME: dict[str, Classified] = (
    dict.fromkeys(("ValidationError", "IntegrityError", "IntegrityConstraintViolationError"), PERMANENT)
    | dict.fromkeys(("OperationalError", "URLError", "TransportError", "TimeoutException"), UNAVAILABLE)
    | dict.fromkeys(("ConnectionError", "Timeout", "ClientConnectionError", "SSLError"), UNAVAILABLE)
    | dict.fromkeys(
        ("ServerDisconnectedError", "RemoteDisconnected", "IncompleteRead", "ClientPayloadError"), UNAVAILABLE
    )
    | dict.fromkeys(
        ("ProtocolError", "ChunkedEncodingError", "ConnectionClosedError", "StreamLostError"), UNAVAILABLE
    )
    | dict.fromkeys(
        ("SMTPServerDisconnected", "AutoReconnect", "ReadTimeoutError", "ServerTimeoutError"), UNAVAILABLE
    )
    | dict.fromkeys(("ConnectTimeoutError", "ServerSelectionTimeoutError", "ProxyError"), UNAVAILABLE)
    | dict.fromkeys(("gaierror", "ConnectionRefusedError", "ConnectError", "ClientConnectorError"), UNREACHED)
    | dict.fromkeys(("NewConnectionError", "NameResolutionError", "APIConnectionError"), UNREACHED)
    | dict.fromkeys(("EndpointConnectionError", "AMQPConnectionError", "NoBrokersAvailable"), UNREACHED)
    | dict.fromkeys(("SMTPAuthenticationError", "AuthenticationError", "PermissionDeniedError"), KEY_REFUSED)
    | dict.fromkeys(("NoCredentialsError", "PartialCredentialsError"), KEY_REFUSED)
    | dict.fromkeys(("SSLCertVerificationError",), BAD_CERTIFICATE)
    | dict.fromkeys(("RateLimitError", "TooManyRequests", "ThrottlingError"), RATE_LIMITED)
    | dict.fromkeys(("OutOfMemoryError",), BUSY)  # redis
    | dict.fromkeys(("PoolTimeout", "TooManyConnectionsError", "LockNotAvailable", "DeadlockDetected"), BUSY)
    | dict.fromkeys(("MemoryError",), EXHAUSTED)
)
_JUDGED = frozenset({"ProgrammingError", "DataError", "SyntaxError"})  # by their drivers: nothing is unavailable
_HTTP_NAMES = ("http", "statuserror", "responseerror", "apicallerror", "apierror")
_TRANSIENT_STATUSES = frozenset({408, 425, 429})
_OVERLOADED_STATUSES = frozenset({429, 529})
_LIMIT_WORDS = re.compile(r"(?:rate|daily|user|usage|request)[ _]?limit|quota", re.IGNORECASE)
_CREDIT_WORDS = ("insufficient_quota", "exceeded your current quota")


def classify(error: BaseException, *, now: float | None = None) -> Classified:
    """Return the kind of a failure, by the table in docs/reference/policies.md.

    An error that says nothing by itself, such as a `RuntimeError`, counts as what it was raised from if that is a
    dependency's failure. A permanent cause does not make it permanent: code that wraps an error has judged it.
    Of a group, all members count. `now` (Unix seconds) is needed for a Retry-After that is a date; without it such
    a date is ignored.
    """
    found = _classify_alone(error, now)
    if found != PLAIN or error_code(error) or type(error).__name__ in _JUDGED:
        return found
    for cause in chain_of(error):
        if cause is error:
            continue
        meaning = _classify_alone(cause, now)
        if meaning.kind is not Kind.TRANSIENT:
            return found
        if meaning != PLAIN:
            return meaning
    return found


def _classify_alone(error: BaseException, now: float | None) -> Classified:
    """Classify an error without what it was raised from."""
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
    http, by_type = _classify_type(type(error))  # type: ignore[arg-type]  # mypy asks the instance for its hash
    if by_type.kind is Kind.TRANSIENT and (code := error_code(error)):
        by_code = classify_code(code, _text(error))
        if by_code is not None:
            return by_code
        if code.startswith("aws ") and (status := _aws_status(error)) is not None:
            return _classify_status(status, error, now)
    if http and (status := http_status(error)) is not None:
        return _classify_status(status, error, now)
    if by_type is UNAVAILABLE and isinstance(reason := getattr(error, "reason", None), OSError):
        return _classify_alone(reason, now)  # urllib's URLError only wraps the OSError that is its reason
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
        return http, PERMANENT
    return http, UNAVAILABLE if issubclass(error_type, (ConnectionError, TimeoutError)) else PLAIN


def _classify_group(members: list[Classified]) -> Classified:
    kinds = {member.kind for member in members}
    if len(kinds) == 1 and Kind.TRANSIENT not in kinds:
        return Classified(kinds.pop())
    if kinds <= {Kind.PERMANENT, Kind.MALFORMED}:
        return PERMANENT
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
        refused=bool(transient) and all(member.refused for member in transient),
        capacity=bool(transient) and all(member.capacity for member in transient),
    )


def _classify_status(status: int, error: BaseException, now: float | None) -> Classified:
    text = _text(error).lower()
    if any(words in text for words in _CREDIT_WORDS) or status == 402:
        return NO_CREDIT
    if status == 403 and _LIMIT_WORDS.search(text):
        return RATE_LIMITED  # GitHub, Google and others answer so
    if status in (401, 403):
        # It may be about one page only: the breaker opens if the handler raises `Unavailable(…, opens=True)`.
        return refused(f"The server answered {status}: check the key or token, and what it is allowed to do.")
    if 400 <= status < 500 and status not in _TRANSIENT_STATUSES:
        return PERMANENT
    limited = (
        status in _OVERLOADED_STATUSES and "cluster_block_exception" not in text
    )  # Elasticsearch is read-only
    retry_after = _retry_after(error, now)
    return Classified(Kind.TRANSIENT, unavailable=status >= 400, retry_after=retry_after, rate_limited=limited)


def _aws_status(error: BaseException) -> int | None:
    about = getattr(error, "response", {}).get("ResponseMetadata")
    status = about.get("HTTPStatusCode") if isinstance(about, dict) else None
    return status if isinstance(status, int) and 100 <= status <= 599 else None


def _text(error: BaseException) -> str:
    try:
        return str(error)[:4000]
    except Exception:  # an exception's own __str__ may raise
        return ""


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
