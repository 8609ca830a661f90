"""Where errors are reported to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from onward.model.failures import Failure


class ErrorReporter(Protocol):
    """Takes failures, from any thread; it never waits and never raises."""

    def report(
        self,
        failure: Failure,
        *,
        service: str = "",
        collection: str | None = None,
        documents: Sequence[str] = (),
        counted: bool = False,
    ) -> None:
        """Report a failure of a service, with the documents it is about.

        `counted`: it is in its failure group already, as every failure of an event is.
        """
        ...

    def close(self, timeout: float) -> None:
        """Let go of it; what still waits is delivered first, as far as that takes no longer than this."""
        ...
