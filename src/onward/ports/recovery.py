"""What recovery asks of a store: what is due again, what was given up, and who changed it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from onward.model.documents import DocumentState
from onward.model.failures import Failure
from onward.model.ledger import DeadLetter, FailedBatch
from onward.model.recovery import Action, FailureGroup, LedgerRow, LetterGroup, Scheduled

Key = tuple[str, str]
"""A document's collection and id."""


@dataclass(frozen=True, slots=True)
class QueueStanding:
    """What there is of one service in the ledger."""

    service: str
    waiting: int
    claimed: int
    dead: int
    oldest_due: float | None
    """Since when the oldest event that is due has been due."""
    oldest_unannounced: float | None
    """The same of those that no wire has been told of, where there is one."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a worker has claimed of one service's events."""

    worker: str
    service: str
    events: int
    documents: int
    """How many these events name; 0 for a service that finishes none."""
    until: float
    """When the first lease lapses, unless it is renewed."""
    examples: tuple[Key, ...]
    """The first document of each of a few of them."""


class Recovery(Protocol):
    """The part of a store that recovery and the operator's tools use."""

    # -- one of many

    def lead(self, role: str, holder: str, seconds: float) -> bool:
        """Become, or stay, the one who has a role for so long; False: somebody else has it."""
        ...

    def resign(self, role: str, holder: str) -> None: ...

    # -- the retry job

    def to_look_at(self, *, limit: int, collections: Sequence[str] | None = None) -> list[Key]:
        """Unfinished documents without a live row whose time has come, by priority, then age.

        With them those for which an operator has set a time that has come, whatever their status.
        Only of these collections, if given.
        """
        ...

    def states_of(self, keys: Sequence[Key]) -> list[DocumentState]:
        """The states of these documents, in that order, those that exist.

        In a transaction they stay as they are until it ends.
        """
        ...

    def look_later(self, looks: Sequence[tuple[Key, float]]) -> None:
        """When the retry job should look at these unfinished documents again."""
        ...

    def next_look(self, collections: Sequence[str] | None = None) -> float | None:
        """When the next document (of these collections) is to be looked at, or falls due by an operator's wish."""
        ...

    def give_up(self, keys: Sequence[Key]) -> int:
        """Documents have had all their rounds: they become `failed_max_retries`."""
        ...

    def revive(self, keys: Sequence[Key]) -> None:
        """Given up documents become `pending` again, because an operator wants them tried."""
        ...

    def loosen(self, *, after: int, limit: int) -> tuple[int, list[Key]]:
        """Free documents from ledger rows that are gone, in a slice of all documents.

        Answers where the next slice begins (0: at the beginning), and which documents they were.
        """
        ...

    def looked_at_later(self) -> dict[str, int]:
        """How many unfinished documents of each collection wait for their next round."""
        ...

    def stuck(self, *, before: float, max_rounds: Mapping[str, int], others: int) -> dict[str, int]:
        """How many unfinished documents of each collection need help.

        Those without a live row that nothing was heard of since `before`, and those that have had
        their rounds (`max_rounds` by collection, `others` for the rest).
        """
        ...

    # -- failed batches

    def due_batches(self) -> list[str]:
        """The failed batches whose time has come, the most overdue first."""
        ...

    def failed_batch(self, id: str) -> FailedBatch | None: ...

    def idle_items(self, batch: str, *, limit: int) -> list[Key]:
        """Items of a failed batch that were not tried since it fell due, nor are just now."""
        ...

    def claim_batch(self, id: str, *, retry_count: int, until: float) -> bool:
        """Move a due batch's next retry and count this one; False: somebody else was faster."""
        ...

    def hurry_batch(self, id: str, at: float) -> bool:
        """Set when a failed batch is retried next, without counting."""
        ...

    def next_batches(self) -> dict[str, float]:
        """When the next failed batch of each service falls due."""
        ...

    # -- totals

    def count(self, name: str, label: str, by: float = 1.0) -> None:
        """Add to a total that outlives processes."""
        ...

    def set_gauge(self, name: str, label: str, value: float) -> None:
        """Keep a last value that outlives processes."""
        ...

    def observe_total(self, name: str, value: float) -> None:
        """Add a value to a distribution that outlives the processes: its bucket, `sum` and `count`."""
        ...

    def totals(self) -> dict[str, dict[str, float]]:
        """All totals and last values, by name, then label."""
        ...

    # -- the operator: dead letters

    def find_dead_letters(
        self,
        *,
        service: str | None = None,
        fingerprint: str | None = None,
        error_type: str | None = None,
        since: float | None = None,
        document: Key | None = None,
        archived: bool = False,
        after: int = 0,
        limit: int = 100,
    ) -> list[DeadLetter]:
        """Dead letters, or archived ones, that match, oldest first; `after` goes on behind a row."""
        ...

    def letter_groups(self, *, archived: bool = False) -> list[LetterGroup]:
        """What is in the failed queues, counted by service and fingerprint."""
        ...

    def row_states(self, rows: Sequence[int]) -> dict[int, str]:
        """The state of these ledger rows; one that is not there any more was done."""
        ...

    def is_recovered(self, letter: DeadLetter) -> bool:
        """Whether all that a dead letter is about is processed, removed, or went on without it."""
        ...

    def archive_letters(self, rows: Sequence[int]) -> int:
        """Set dead letters aside for good; they are kept, but counted and shown no more."""
        ...

    def restore_letters(self, rows: Sequence[int]) -> int:
        """Bring archived dead letters back to their failed queue."""
        ...

    def purge_letters(self, rows: Sequence[int]) -> int:
        """Remove dead letters, archived or not, for ever; their documents stay as they are."""
        ...

    # -- the operator: documents

    def find_states(
        self,
        *,
        collection: str | None = None,
        status: str | None = None,
        source: str | None = None,
        fingerprint: str | None = None,
        before: float | None = None,
        after: Key = ("", ""),
        limit: int = 100,
    ) -> list[DocumentState]:
        """Documents that match, ordered by collection, then id; `before`: not changed since then."""
        ...

    def schedule(
        self, keys: Sequence[Key], at: float, *, reset: bool = False, priority: int | None = None
    ) -> dict[Key, Scheduled]:
        """Have documents tried again at a time, from the first round on if reset."""
        ...

    def unschedule(self, keys: Sequence[Key]) -> dict[Key, Scheduled]:
        """Take back what `schedule` has set, as far as it has not happened."""
        ...

    def remove_documents(self, keys: Sequence[Key]) -> int:
        """Remove documents with all that descended from them."""
        ...

    # -- the operator: failure groups and actions

    def failure_groups(
        self, *, service: str | None = None, since: float | None = None, limit: int = 1000
    ) -> list[FailureGroup]:
        """Failure groups, the last seen first."""
        ...

    def failure_group(self, fingerprint: str) -> FailureGroup | None: ...

    def report_failure(self, service: str, failure: Failure, *, collection: str | None = None) -> None:
        """Count a failure in its group that no event had: of other code, or reported from elsewhere."""
        ...

    def forget_group(self, fingerprint: str) -> bool:
        """Forget what was counted of a failure group; its documents and dead letters stay."""
        ...

    def versions(self) -> list[tuple[str, float, float]]:
        """Each version of the workers, since when and until when it was seen at work, oldest first."""
        ...

    def log_action(self, who: str, via: str, action: str, about: Mapping[str, Any], touched: int) -> None:
        """Keep what a person has changed."""
        ...

    def actions(self, *, limit: int = 100, before: int | None = None) -> list[Action]:
        """What people have changed, the latest first."""
        ...

    # -- telling a document's story

    def row(self, id: int) -> LedgerRow | None:
        """One ledger row, while it is kept."""
        ...

    def rows_naming(self, collection: str, id: str, *, limit: int = 20) -> list[LedgerRow]:
        """Settled events that named a document and are still kept, oldest first."""
        ...

    def children_counts(self, collection: str, id: str) -> dict[str, dict[str, int]]:
        """How many documents were made from this one, by collection, then status."""
        ...

    # -- telling what workers do

    def queues(self, services: Sequence[str]) -> list[QueueStanding]:
        """How much waits, is under way and was given up, by service."""
        ...

    def held(self, *, examples: int = 3) -> list[Held]:
        """What every worker has claimed, by worker, then service, with so many documents as examples."""
        ...
