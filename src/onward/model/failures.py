"""The stored form of an error, chosen field by field, without secrets."""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Collection
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from onward.model.fingerprints import MAX_MESSAGE, fingerprint, library_of, message_of, place_of, storable
from onward.retry.classify import classify
from onward.retry.errors import Classified, Kind
from onward.retry.library_errors import (
    PLAIN,
    chain_of,
    classify_code,
    error_code,
    http_status,
    is_rejection,
    meaning_of,
    names_missing_schema,
    status_in,
)
from onward.retry.redact import redact_error

MAX_TRACEBACK = 8_000
KEPT_OUTCOMES = 20  # Outcomes of a document that are kept: the first and the last ones; the total is counted


# By name, as drivers and HTTP libraries have errors of their own for this.
_TIMEOUTS = ("timeout", "deadlineexceeded")
_TIMED_OUT = re.compile(r"\btime[d -]?out\b|deadline exceeded|took too long", re.IGNORECASE)
_FORMAT = re.compile("BadGzip|BadZip|Decode|Encoding|Format|Parse|Syntax|Unidentified|Validation")
_CONNECTING = re.compile(
    r"connect call failed|connect(?:ion)? timed? ?out|timed out while connecting|\[errno (?:110|60)\]"
    r"|failed to establish a new connection|failed to resolve|name or service not known|nodename nor servname"
    r"|no route to host|network is unreachable|connection refused",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed try, as it is stored, logged and shown."""

    at: float
    error_type: str
    message: str
    fingerprint: str
    worker: str = ""
    version: str = ""
    traceback: str = ""
    dependency: str | None = None
    # `not_ready`, `transient`, `permanent`, `rejected`, `malformed`, `unavailable`, `unreached`, `refused`,
    # `rate_limited`, `timeout`, `capacity`, `crash`
    kind: str = ""
    place: str = ""  # The innermost frame of user code, as `module:function`
    context: str = ""  # The JSON object that was reported with an error of other code
    trace: str = ""  # Its place in a trace, as two `traceparent`s: the parent span of the try, then the try itself
    library: str = ""  # The package that the error came from, if it is not the standard library's or the user's

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value not in ("", None)}

    @classmethod
    def of(
        cls,
        error: BaseException,
        *,
        at: float,
        service: str,
        worker: str = "",
        version: str = "",
        classified: Classified | None = None,
        trace: str = "",
        context: str = "",
        values: Collection[str] = (),
    ) -> Failure:
        """Describe an error without its secrets and without the memory it holds on to.

        `values` are those of the call, such as ids, names and paths: they do not make another failure group.
        """
        # Cut first, as looking for secrets takes a while; but further on: a secret cut in two is not recognised.
        message = redact_error(message_of(error)[: 10 * MAX_MESSAGE])[:MAX_MESSAGE]
        lines = storable("".join(traceback.format_exception(error, limit=-20))) if error.__traceback__ else ""
        return cls(
            at=at,
            error_type=type(error).__name__,
            message=message,
            fingerprint=fingerprint(service, error, message, values),
            worker=worker,
            version=version,
            traceback=redact_error(lines[-10 * MAX_TRACEBACK :])[-MAX_TRACEBACK:],
            dependency=getattr(error, "dependency", None),
            kind=kind_of(error, classify(error) if classified is None else classified),
            place=place_of(error),
            trace=trace,
            context=context,
            library=library_of(error),
        )


def kind_of(error: BaseException, classified: Classified) -> str:
    """Return the kind of a failure, for its diagnosis; the words of a message count where its type says little."""
    if classified.kind in (Kind.NOT_READY, Kind.MALFORMED):
        return str(classified.kind)
    if any(is_rejection(one, http_status(one)) for one in chain_of(error)) and not classified.unavailable:
        return "rejected"
    if classified.kind is not Kind.TRANSIENT:
        return str(classified.kind)
    # An error about the form of something that was read may have any words.
    texts = [message_of(one) for one in chain_of(error) if not names_a_format(type(one).__name__)]
    meaning = classified
    told = classified.rate_limited or classified.refused or classified.capacity
    if any(names_missing_schema(text) for text in texts) and not told:
        return str(classified.kind)
    if not told and (classified.dependency or not _has_meaning(error)):
        meaning = next((found for text in texts if (found := meaning_of(text)) != PLAIN), classified)
    for name in ("rate_limited", "refused", "capacity"):
        if getattr(meaning, name):
            return name
    names = [cls.__name__.lower() for one in chain_of(error) for cls in type(one).__mro__]
    if any("connecttimeout" in name for name in names) or any(_CONNECTING.search(text) for text in texts):
        return "unreached"  # nobody answered: a server that is slow accepts connections
    if any(word in name for name in names for word in _TIMEOUTS) or (
        meaning.unavailable and not meaning.unreached and any(_TIMED_OUT.search(text) for text in texts)
    ):
        return "timeout"
    if (classified.unreached and classified.dependency is None) or (
        meaning.unreached and not classified.unavailable
    ):
        return "unreached"
    statuses = [status for text in texts if (status := status_in(text)) is not None]
    if meaning.unavailable or any(status >= 500 for status in statuses):
        return "unavailable"
    return str(classified.kind)


def names_a_format(error_type: str) -> bool:
    """Return whether an error is about the form of something that was read."""
    return _FORMAT.search(error_type) is not None


def _has_meaning(error: BaseException) -> bool:
    """Return whether a code of its library says what an error means."""
    return bool(code := error_code(error)) and classify_code(code, "") is not None


SUCCEEDED = "succeeded"  # In an outcome: how much its service had finished until then


class Outcome(StrEnum):
    """The outcome of a try, as the history of a document stores it."""

    RETRIED = "retried"
    GIVEN_BACK = "given_back"  # a dependency made it fail: kept, but not charged
    GAVE_UP = "gave_up"
    SET_ASIDE = "set_aside"
    PROCESSED = "processed"
    GAVE_UP_FOR_GOOD = "gave_up_for_good"  # no try: the retry job found that no round is left
    EXPIRED = "expired"  # no try: its deadline passed
    CANCELLED = "cancelled"  # no try: somebody has cancelled it; `by` says who


# Outcomes that are stored in the history without a try.
NO_TRY = frozenset({Outcome.GAVE_UP_FOR_GOOD, Outcome.EXPIRED, Outcome.CANCELLED})


def remember(history: dict[str, Any] | None, outcome: dict[str, Any]) -> dict[str, Any]:
    """Add an outcome to a bounded history: the first, the last ones and the total."""
    if not history:
        return {"total": 1, "first": outcome, "last": []}
    last = [*history["last"], outcome][-(KEPT_OUTCOMES - 1) :]
    return {"total": history["total"] + 1, "first": history["first"], "last": last}


def read_history(text: str | None) -> dict[str, Any] | None:
    """Read a stored history; return None for what other programs wrote there."""
    try:
        found = json.loads(text) if text else None
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    shapes = {"total": int, "first": dict, "last": list}
    return found if all(isinstance(found.get(name), shape) for name, shape in shapes.items()) else None


def outcomes(history: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the kept outcomes of a history in order, including the first."""
    return [history["first"], *history["last"]] if history else []
