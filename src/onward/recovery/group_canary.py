"""Puts a failure group back in growing steps: each goes only if the one before was processed.

What a step is about to put back is stored before it is put back. So a canary that was interrupted goes on in
another process, and puts nothing back twice. Nothing is waited for inside a transaction.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any

from onward.model.documents import DocumentKey, DocumentState, Status
from onward.model.ledger import DeadLetter, RowState
from onward.recovery.requeue_dead_letters import (
    NO_WORKER,
    PAGE,
    PATIENCE_SECONDS,
    POLL_SECONDS,
    EventClasses,
    EventReader,
    Refusal,
    Requeue,
)
from onward.retry.redact import redact
from onward.runtime.process_identity import alive_workers

if TYPE_CHECKING:
    from onward.ledger.store import Store

STEPS = (1, 5, 50)
MAX_AT_ONCE = 50  # Put back at once after the last step; with a rate, as many as fall to a quarter of a second
_SETTLED_WELL = (Status.PROCESSED, Status.DISCARDED)
_DEAD = (RowState.DEAD, RowState.ARCHIVED)


@dataclass(frozen=True, slots=True)
class CanaryItem:
    """A dead letter with its documents, or a document without a dead letter."""

    row: int | None
    documents: tuple[DocumentKey, ...]
    outcomes: int = 0  # Of a document without a dead letter: the number in its history when it was chosen


@dataclass(frozen=True, slots=True)
class FailedItem:
    item: CanaryItem
    document: DocumentKey | None
    error: str
    group: str  # The failure group that it is in now


@dataclass(frozen=True, slots=True)
class CanaryCursor:
    """How far a canary has come. It is stored as JSON."""

    step: int = 0
    items: tuple[CanaryItem, ...] = ()  # Of the present step; empty: it has not begun
    after_row: int = 0  # Dead letters up to here, and documents up to `after_key`, were chosen before
    after_key: DocumentKey = ("", "")
    put_back: int = 0
    processed: int = 0
    failed: int = 0  # At most the share that may fail, or the canary has ended

    @classmethod
    def read(cls, stored: dict[str, Any] | None) -> CanaryCursor:
        if not stored:
            return cls()
        items = [
            CanaryItem(one["row"], tuple((name, id) for name, id in one["documents"]), one["outcomes"])
            for one in stored["items"]
        ]
        name, id = stored["after_key"]
        return cls(**{**stored, "items": tuple(items), "after_key": (name, id)})


class CanaryEnd(StrEnum):
    DONE = "done"
    FAILED = "failed"  # too many of a step failed again
    UNANSWERED = "unanswered"  # nothing happened to the items of a step for a long time


@dataclass
class GroupCanary:
    """One run of a canary; `cursor` is correct at any moment.

    `checkpoint` stores the cursor. `report` gets what the canary is doing just now; it may raise to stop it.
    """

    store: Store
    group: str
    begun: float  # When it was first begun: what failed later is left alone
    _: KW_ONLY
    sleep: Callable[[float], None]
    checkpoint: Callable[[dict[str, Any]], None]
    report: Callable[[GroupCanary, str], None] = lambda canary, hint: None
    events: EventClasses = tuple
    steps: Sequence[int] = STEPS
    share: float = 1.0  # A step has gone well if at least this share of it was processed
    rate: float | None = None
    patience: float = PATIENCE_SECONDS
    cursor: CanaryCursor = field(default_factory=CanaryCursor)
    failures: list[FailedItem] = field(default_factory=list)
    refused: dict[int, Refusal] = field(default_factory=dict)  # By row
    message: str = ""
    settled: int = 0  # Items of the present step

    def __post_init__(self) -> None:
        # The limit on the canary of the requeue is ours: it only makes it find the documents of each dead letter.
        self._recent: list[CanaryItem] = []  # The last that were put back after the steps, and are not processed
        self._requeue = Requeue(
            self.store, (), sleep=self.sleep, events=self.events, rate=self.rate, canary=sys.maxsize
        )

    def run(self) -> CanaryEnd:
        """Go on from the cursor until everything is put back, or a step does not go well."""
        if self.cursor.items:
            self._put_back_rest_of_step()
            if (end := self._watch_step()) is not None:
                return end
        while True:
            is_step = self.cursor.step < len(self.steps)
            chosen = self._choose(self.steps[self.cursor.step] if is_step else self._at_once())
            if not chosen.items:
                return CanaryEnd.DONE
            self._save(chosen)
            self._put_back(chosen.items)
            if (end := self._watch_step() if is_step else self._look_at_recent()) is not None:
                return end

    @property
    def left(self) -> int:
        """Count what was not put back."""
        return sum(1 for _ in self._candidates(self.cursor))

    def _save(self, cursor: CanaryCursor) -> None:
        self.cursor = cursor
        self.checkpoint(asdict(cursor))

    def _at_once(self) -> int:
        return MAX_AT_ONCE if self.rate is None else max(1, int(min(MAX_AT_ONCE, self.rate / 4)))

    # -- choosing

    def _choose(self, most: int) -> CanaryCursor:
        """Return the cursor with the next items, which are not put back yet."""
        chosen = list(islice(self._candidates(self.cursor), most))
        items = tuple(item for item, _ in chosen)
        cursor = chosen[-1][1] if chosen else self.cursor
        return replace(cursor, items=items, put_back=cursor.put_back + len(items))

    def _candidates(self, cursor: CanaryCursor) -> Iterator[tuple[CanaryItem, CanaryCursor]]:
        """Yield what can be put back behind the cursor, each with the cursor behind it."""
        reader = EventReader(self.store, self.events)
        for letter in self._dead_letters(cursor.after_row):
            if reason := reader.refusal(letter):
                self.refused[letter.row] = Refusal(letter.row, reason)
            elif not self.store.is_recovered(letter):
                cursor = replace(cursor, after_row=letter.row)
                yield CanaryItem(letter.row, self._own_documents(letter)), cursor
        after = cursor.after_key
        while page := self.store.find_states(fingerprint=self.group, after=after, limit=PAGE):
            dead = [state.dead_letter for state in page if state.dead_letter is not None]
            rows = self.store.row_states(dead)
            for state in page:
                after = (state.collection, state.id)
                has_letter = state.dead_letter is not None and rows[state.dead_letter] == RowState.DEAD
                tried = (state.last_attempt_time or 0.0) > self.begun
                if state.status not in _SETTLED_WELL and not has_letter and not tried:
                    cursor = replace(cursor, after_key=after)
                    yield CanaryItem(None, (after,), _outcomes(state)), cursor

    def _dead_letters(self, after: int) -> Iterator[DeadLetter]:
        while page := self.store.find_dead_letters(fingerprint=self.group, after=after, limit=PAGE):
            after = page[-1].row
            yield from (letter for letter in page if letter.timestamp <= self.begun)

    def _own_documents(self, letter: DeadLetter) -> tuple[DocumentKey, ...]:
        """Return the documents that go back with a dead letter, not those with another event or dead letter."""
        states = self.store.states_of(letter.documents)
        others = {
            (state.collection, state.id)
            for state in states
            if state.row is not None or (state.dead_letter != letter.row and state.round > 0)
        }
        return tuple(key for key in letter.documents if key not in others)

    # -- putting back

    def _put_back(self, items: Sequence[CanaryItem]) -> None:
        """Put items of the step back; those that cannot be put back leave it."""
        kept: dict[CanaryItem, CanaryItem | None] = {item: item for item in self.cursor.items}
        for item in items:
            self._requeue.wait_for_turn()
            kept[item] = self._put_back_one(item)
            self.report(self, "")
        watched = tuple(item for item in kept.values() if item is not None)
        lost = len(kept) - len(watched)
        self._save(replace(self.cursor, items=watched, put_back=self.cursor.put_back - lost))

    def _put_back_one(self, item: CanaryItem) -> CanaryItem | None:
        """Return the item with the row and documents that are tried now."""
        if item.row is None:
            self.store.schedule(item.documents, self.store.now())
            self._requeue.delay_turn(1)
            return item
        letters = [one for one in self.store.find_dead_letters(after=item.row - 1, limit=1) if one.row == item.row]
        returned = self._requeue.put_back(letters)
        self.refused |= {refusal.row: refusal for refusal in self._requeue.result.refused}
        return replace(item, row=returned[0].row, documents=returned[0].documents) if returned else None

    def _put_back_rest_of_step(self) -> None:
        """Put back what was chosen before an interruption, and was not put back."""
        rows = self.store.row_states([item.row for item in self.cursor.items if item.row is not None])
        untouched = {letter.row for letter in self._dead_letters(0) if letter.row in rows}
        states = _by_key(self.store.states_of([key for item in self.cursor.items for key in item.documents]))
        left = [
            item
            for item in self.cursor.items
            if (
                item.row in untouched if item.row is not None else _is_untried(states.get(item.documents[0]), item)
            )
        ]
        if left:
            self._put_back(left)

    # -- watching

    def _watch_step(self) -> CanaryEnd | None:
        """Wait until the items of the step are settled; return None if enough of them were processed."""
        last_progress, progressed_at = "", self.store.now()
        while True:
            items = self.cursor.items
            waiting, self.failures, progress = self._look(items)
            self.settled = len(items) - waiting
            if self._is_too_much(len(self.failures), len(items)):
                return self._fail(len(items))
            if not waiting:
                failed = self.cursor.failed + len(self.failures)
                processed = self.cursor.processed + len(items) - len(self.failures)
                step = self.cursor.step + 1
                self._save(replace(self.cursor, step=step, items=(), processed=processed, failed=failed))
                self.settled = 0
                return None
            now = self.store.now()
            if progress != last_progress:
                last_progress, progressed_at = progress, now
            hint = self._hint()
            if now - progressed_at >= self.patience:
                silence = f"{waiting} of {len(items)} made no progress for {self.patience:.0f} s"
                self.message = f"{silence}: {hint}" if hint else silence
                return CanaryEnd.UNANSWERED
            self.report(self, hint)
            self.sleep(POLL_SECONDS)

    def _look_at_recent(self) -> CanaryEnd | None:
        """Look at what was put back after the steps, without waiting for it."""
        self._recent = [*self._recent, *self.cursor.items][-PAGE:]
        _, self.failures, _ = self._look(self._recent)
        if self._is_too_much(len(self.failures), len(self._recent)):
            return self._fail(len(self._recent))
        self._save(replace(self.cursor, items=()))
        return None

    def _is_too_much(self, failed: int, total: int) -> bool:
        return failed > total - self.share * total + 1e-9

    def _fail(self, total: int) -> CanaryEnd:
        first = self.failures[0]
        again = "failed again" if first.group == self.group else f"failed in another way (group {first.group[:8]})"
        self.message = f"{len(self.failures)} of {total} {again}: {first.error}"
        # Continued after a fix, this step begins anew, with others.
        self._save(replace(self.cursor, items=(), failed=self.cursor.failed + len(self.failures)))
        return CanaryEnd.FAILED

    def _look(self, items: Sequence[CanaryItem]) -> tuple[int, list[FailedItem], str]:
        """Return how many items are not settled, those that failed, and what changes with every try."""
        rows = self.store.row_states([item.row for item in items if item.row is not None])
        states = _by_key(self.store.states_of([key for item in items for key in item.documents]))
        waiting, failures = 0, list[FailedItem]()
        for item in items:
            failure = self._failure(item, rows, states)
            if failure is not None:
                failures.append(failure)
            elif _is_waiting(item, rows, states):
                waiting += 1
        tries = [(one.row, one.round, one.status, _outcomes(one)) for one in states.values()]
        return waiting, failures, repr((rows, tries))

    def _failure(
        self, item: CanaryItem, rows: dict[int, str], states: dict[DocumentKey, DocumentState]
    ) -> FailedItem | None:
        for key in item.documents:
            state = states.get(key)
            if state is None or state.row is not None or state.status in _SETTLED_WELL or state.round == 0:
                continue
            if item.row is None and _is_untried(state, item):
                continue
            last = state.last_error or {"message": "it was left unfinished"}
            return FailedItem(item, key, _error(last), str(last.get("fingerprint", "")))
        if item.row is None or rows[item.row] not in _DEAD:
            return None
        found = self.store.find_dead_letters(after=item.row - 1, limit=1)
        own = [letter for letter in found if letter.row == item.row]
        last = own[0].errors[-1] if own and own[0].errors else {"message": "it was given up again"}
        return FailedItem(item, None, _error(last), own[0].fingerprint if own else "")

    def _hint(self) -> str:
        """Return the probable reason why nothing happens."""
        group = self.store.failure_group(self.group)
        needs = {
            name
            for one in self.store.subscriptions()
            if group and one.service == group.service
            for name in one.needs
        }
        for breaker in self.store.breakers():
            if breaker.open and breaker.dependency in needs:
                return redact(f"{breaker.dependency} is down: {breaker.reason}")
        return "" if alive_workers(self.store) else NO_WORKER


def _by_key(states: Sequence[DocumentState]) -> dict[DocumentKey, DocumentState]:
    return {(state.collection, state.id): state for state in states}


def _outcomes(state: DocumentState) -> int:
    return int(state.attempts.get("total", 0))


def _is_untried(state: DocumentState | None, item: CanaryItem) -> bool:
    """Return whether a document without a dead letter was not tried since its item was chosen."""
    if state is None or state.status in _SETTLED_WELL:
        return False
    return _outcomes(state) <= item.outcomes


def _is_waiting(item: CanaryItem, rows: dict[int, str], states: dict[DocumentKey, DocumentState]) -> bool:
    if item.row is not None and rows[item.row] in (RowState.WAITING, RowState.CLAIMED):
        return True
    found = [state for key in item.documents if (state := states.get(key)) is not None]
    return any(state.row is not None or (item.row is None and _is_untried(state, item)) for state in found)


def _error(error: dict[str, Any]) -> str:
    kind, message = error.get("error_type", ""), error.get("message", "")
    return redact(f"{kind}: {message}" if kind else message)
