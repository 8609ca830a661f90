"""What a handler raises to say which kind of failure it met."""

from __future__ import annotations

from collections.abc import Iterable


class OnwardError(Exception):
    """Every error that Onward itself raises."""


class NotReady(OnwardError):
    """The event came before its document can be read; it is tried again shortly.

    `ids` names the documents that cannot be read yet. The others of the same event go on without them.
    """

    def __init__(self, message: str = "", ids: Iterable[str] = ()) -> None:
        self.ids = (ids,) if isinstance(ids, str) else tuple(ids)
        super().__init__(message)

    def __str__(self) -> str:
        return str(self.args[0]) or ("not readable yet: " + ", ".join(self.ids) if self.ids else "")


DocumentNotFoundError = NotReady


class Permanent(OnwardError):
    """Trying again cannot help; the event is given up at once."""


class Malformed(Permanent):
    """An event that cannot be decoded, is of an unknown type, or breaks its schema."""


class Unavailable(OnwardError):
    """A dependency is down or refuses us; the failure is its, not the document's.

    `retry_after` is what the dependency asked for, in seconds. `opens` opens its breaker at once, for
    failures that only a person can end, such as a refused key; `remedy` tells that person what to do.
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
        # Both in args, the rest in __dict__: so the error survives pickling between processes.
        super().__init__(dependency, message)
        self.dependency = dependency
        self.retry_after = retry_after
        self.opens = opens
        self.remedy = remedy

    def __str__(self) -> str:
        _, message = self.args
        return f"{self.dependency}: {message}" if message else f"{self.dependency} is unavailable"
