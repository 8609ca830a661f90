"""Documents and ledger rows, as one transaction reads and changes them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from onward.model.documents import FINAL, Status
from onward.model.failures import Failure, Outcome, outcomes, read_history, remember
from onward.model.ledger import PARKED_DUE


@dataclass(slots=True)
class DocumentRecord:
    """A document's state. The fields come in the order in which statements read and write them."""

    doc: int
    status: str = Status.PENDING
    attempt_count: int = 0
    last_attempt_time: float | None = None
    last_error: str | None = None
    attempts: str | None = None
    priority: int = 0
    round: int = 0
    row: int | None = None
    size: int = 0
    fingerprint: str | None = None  # The fingerprint of its last error
    expires: float | None = None  # The time after which no try of its round begins
    retry_at: float | None = None
    revision: int = 1
    dead_letter: int | None = None
    failed_batch: str | None = None
    id: str = ""
    source: str | None = None
    parent: str | None = None
    joined: int = 0  # 1: it is or was a member of a join
    stored_status: str = ""  # The status in the database. The counts by status follow the difference to `status`

    @property
    def final(self) -> bool:
        return self.status in FINAL and not (self.untouched and self.status == Status.PROCESSED)

    @property
    def untouched(self) -> bool:
        """Whether no event has begun a round of it yet."""
        return self.round == 0 and self.row is None

    def fingerprints(self) -> set[str]:
        """Return the failure groups that it is or was in, as far as its history goes back."""
        kept = outcomes(read_history(self.attempts))
        found = {self.fingerprint, *(outcome.get("fingerprint") for outcome in kept)}
        return {fingerprint for fingerprint in found if isinstance(fingerprint, str)}

    def record(self, outcome: dict[str, Any]) -> None:
        """Add an outcome to its history."""
        self.attempts = json.dumps(remember(read_history(self.attempts), outcome))

    def record_failure(self, failure: Failure, outcome: Outcome, **more: Any) -> None:
        """Add a failed try to its history. It becomes the last error, unless it was given back."""
        about = failure.as_dict() | {"outcome": outcome, "round": self.round, **more}
        about.pop("traceback", None)
        self.record(about)
        if outcome is not Outcome.GIVEN_BACK:
            self.last_error = json.dumps(about)
            self.fingerprint = failure.fingerprint


@dataclass(slots=True)
class RowRecord:
    """A ledger row without its event, which stays in the database."""

    id: int
    service: str
    state: str
    key: str
    collection: str | None
    ids: list[tuple[str, int]]  # Its documents with their rounds; round 0: it did not exist when the event came
    round: int
    priority: int
    due: float
    tries: int
    not_ready: int
    given_back: int  # Failures that were not charged, because a dependency caused them
    openings: int  # How often its failures helped to open a breaker
    able: float
    deaths: int
    lapses: int
    started: int
    token: int
    worker: str | None
    batch: int | None
    cursor: str | None
    source: str | None
    generation: int
    reason: str | None
    settled_at: float | None
    fingerprint: str | None
    failed_at: float | None
    failed_trace: str | None
    expires: float | None
    serial_key: str | None  # Its service runs one row at a time with this key
    errors: str | None = None  # Its failures, after `read_errors`: they are long. None leaves the stored ones

    @property
    def is_parked(self) -> bool:
        """Whether it waits for its key, not for a due time."""
        return self.due >= PARKED_DUE

    def record(self, failure: dict[str, Any]) -> None:
        """Add a failure to its history. Only the last failure keeps its traceback."""
        history = read_history(self.errors)
        if "traceback" in failure:
            for earlier in outcomes(history):
                earlier.pop("traceback", None)
        self.errors = json.dumps(remember(history, failure))
        self.failed_at = failure["at"] if self.failed_at is None else self.failed_at
        trace = failure.get("trace", "")
        # A trace with a blank names the try itself; one without comes from an event that was never tried.
        if trace and (" " in trace or " " not in (self.failed_trace or "")):
            self.failed_trace = trace

    def stored(self) -> dict[str, Any]:
        """Return its columns; a statement takes those that it names."""
        columns = {name: getattr(self, name) for name in self.__slots__}
        return columns | {"state": str(self.state), "ids": json.dumps(self.ids)}
