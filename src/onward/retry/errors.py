"""The exceptions a handler raises to name the kind of its failure, and the result of classifying any error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
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
    refused: bool = False
    """The dependency was reached and refuses us: a key, a certificate, an account without credit."""
    capacity: bool = False
    """Something that is shared has run out: memory, file handles, disk space, connections, locks."""


Classifier: TypeAlias = Callable[[BaseException], Classified]
