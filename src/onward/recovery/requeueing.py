"""Putting dead letters back: at a bearable rate, and after a few of them have shown that it works."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice

from onward.model.documents import DocumentState, Status
from onward.model.ledger import DeadLetter, RowState
from onward.ports import Key, Store, StoreFull, StoreUnavailable
from onward.retry import Reason
from onward.retry.redact import redact

PAGE = 200
MOST_AT_ONCE = 50
"""Letters in one transaction."""
POLL_SECONDS = 0.5
PATIENCE_SECONDS = 15 * 60.0
NO_WORKER = "no worker is alive; start one: onward worker (with --app, for an app of your own)"
_SETTLED_WELL = (Status.PROCESSED, Status.DISCARDED)


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which dead letters are meant; what is not given does not matter."""

    service: str | None = None
    """An empty name: what was for no service."""
    fingerprint: str | None = None
    error_type: str | None = None
    since: float | None = None
    document: Key | None = None
    limit: int | None = None


def letters(store: Store, wanted: LetterFilter, *, archived: bool = False) -> Iterator[DeadLetter]:
    """The dead letters that match, oldest first, read page by page.

    Those given up after this began are left out: else what is put back and fails again would be met again.
    """
    begun, after, left = store.now(), 0, wanted.limit
    while left is None or left > 0:
        page = store.find_dead_letters(
            service=wanted.service,
            fingerprint=wanted.fingerprint,
            error_type=wanted.error_type,
            since=wanted.since,
            document=wanted.document,
            archived=archived,
            after=after,
            limit=PAGE if left is None else min(PAGE, left),
        )
        if not page:
            return
        after = page[-1].row
        known = [letter for letter in page if letter.timestamp <= begun]
        left = None if left is None else left - len(known)
        yield from known


def refusal(letter: DeadLetter) -> str:
    """Why a dead letter cannot go back, if it cannot."""
    if not letter.service_name:
        return "it was for no service, so nobody would ever take it; export it, or purge it"
    if letter.abandoned_reason == Reason.MALFORMED and letter.raw and not letter.original_event["data"]:
        return "its bytes could not be read as an event; export it, publish it anew, then purge it"
    return ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A dead letter that could not be put back, and why."""

    row: int
    reason: str


class CanaryOutcome(StrEnum):
    """What the first letters have shown."""

    NONE = "none"
    """No canary was asked for, or there was nothing to try."""
    WAITING = "waiting"
    PASSED = "passed"
    FAILED = "failed"
    UNANSWERED = "unanswered"
    """They were not settled in time."""


@dataclass(frozen=True, slots=True)
class CanaryFailure:
    """A letter that failed again, and how."""

    row: int
    document: Key | None
    error: str


@dataclass(slots=True)
class Canary:
    """The letters that went first."""

    rows: list[int] = field(default_factory=list)
    outcome: CanaryOutcome = CanaryOutcome.NONE
    failures: list[CanaryFailure] = field(default_factory=list)
    message: str = ""


@dataclass(slots=True)
class Requeued:
    """What became of a run, so far."""

    requeued: int = 0
    skipped_recovered: int = 0
    """They have recovered meanwhile, or are being tried already."""
    refused: list[Refusal] = field(default_factory=list)
    canary: Canary = field(default_factory=Canary)
    left_untouched: int = 0

    @property
    def handled(self) -> int:
        return self.requeued + self.skipped_recovered + len(self.refused)


@dataclass(frozen=True, slots=True)
class Waiting:
    """How the canary stands."""

    done: int
    of: int
    hint: str = ""
    """What it may be waiting for."""


@dataclass(frozen=True, slots=True)
class _Watched:
    row: int
    service: str
    documents: tuple[Key, ...]


class Requeue:
    """One run that puts dead letters back; `result` is right after every letter, however the run ends.

    What was put back is out of the failed queue: the same run again goes on with the rest.
    """

    def __init__(
        self,
        store: Store,
        letters: Iterable[DeadLetter],
        *,
        sleep: Callable[[float], None],
        rate: float | None = None,
        canary: int = 0,
        patience: float = PATIENCE_SECONDS,
        report: Callable[[Requeued], None] = lambda result: None,
        waiting: Callable[[Waiting], None] = lambda waiting: None,
    ) -> None:
        if rate is not None and not rate > 0:
            raise ValueError(f"rate must be more than 0 letters a second, not {rate}")
        self.result = Requeued()
        self._store = store
        self._letters = iter(letters)
        self._sleep = sleep
        self._rate = rate
        self._at_once = MOST_AT_ONCE if rate is None else max(1, int(min(MOST_AT_ONCE, rate / 4)))
        self._canary = canary
        self._patience = patience
        self._report = report
        self._waiting = waiting
        self._turn = store.now()

    def run(self) -> Requeued:
        """Put back the canary, wait for it, then the rest."""
        if self._canary > 0 and not self._canary_passes():
            self.result.left_untouched = sum(1 for _ in self._letters)
            self._report(self.result)
            return self.result
        while batch := list(islice(self._letters, self._at_once)):
            self._wait_for_turn()
            self._put_back(batch)
        return self.result

    def _wait_for_turn(self) -> None:
        pause = self._turn - self._store.now()
        if pause > 0:
            self._sleep(pause)

    def _put_back(self, batch: Sequence[DeadLetter]) -> list[_Watched]:
        """Put letters back, in one transaction if none of them objects; answer what to watch."""
        refused = [Refusal(one.row, reason) for one in batch if (reason := refusal(one))]
        sound = [one for one in batch if not refusal(one)]
        try:
            returned = self._store.atomically(lambda: [self._put_back_one(one) for one in sound])
        except (StoreUnavailable, StoreFull):
            raise
        except Exception as error:  # one bad letter never stops the others
            if len(sound) > 1:
                self.result.refused += refused
                return [watched for one in sound for watched in self._put_back([one])]
            refused += [Refusal(one.row, redact(f"{type(error).__name__}: {error}")) for one in sound]
            returned = []
        watched = [one for one in returned if one is not None]
        self.result.requeued += len(watched)
        self.result.skipped_recovered += len(returned) - len(watched)
        self.result.refused += refused
        if self._rate is not None:
            self._turn = max(self._turn, self._store.now()) + len(watched) / self._rate
        self._report(self.result)
        return watched

    def _put_back_one(self, letter: DeadLetter) -> _Watched | None:
        if not self._canary_wanted:
            return _Watched(letter.row, letter.service_name, ()) if self._store.requeue(letter.row) else None
        # Which documents go back with it is known only before.
        states = {(one.collection, one.id): one for one in self._store.states_of(letter.documents)}
        own = [key for key in letter.documents if key not in states or _goes_back(states[key], letter.row)]
        if not self._store.requeue(letter.row):
            return None
        return _Watched(letter.row, letter.service_name, tuple(own))

    # -- the canary

    @property
    def _canary_wanted(self) -> bool:
        return len(self.result.canary.rows) < self._canary

    def _canary_passes(self) -> bool:
        canary, watched = self.result.canary, list[_Watched]()
        while self._canary_wanted and (letter := next(self._letters, None)) is not None:
            self._wait_for_turn()
            for one in self._put_back([letter]):
                if one.documents or self._store.row_states([one.row])[one.row] != RowState.DONE:
                    watched.append(one)
                    canary.rows.append(one.row)
                # else it was taken in by an event that waited already, and cannot be told from it
        if not watched:
            return True
        canary.outcome = CanaryOutcome.WAITING
        self._watch(watched)
        return canary.outcome is CanaryOutcome.PASSED

    def _watch(self, watched: list[_Watched]) -> None:
        canary = self.result.canary
        total, before, heard = len(watched), "", self._store.now()
        while True:
            rows = self._store.row_states([one.row for one in watched])
            states = {(one.collection, one.id): one for one in self._states(watched)}
            canary.failures = [found for one in watched if (found := self._failure(one, rows, states))]
            if canary.failures:
                canary.outcome = CanaryOutcome.FAILED
                first = canary.failures[0]
                canary.message = f"{len(canary.failures)} of {total} failed again: {first.error}"
                return
            watched = [one for one in watched if _under_way(one, rows, states)]
            if not watched:
                canary.outcome = CanaryOutcome.PASSED
                return
            now = self._store.now()
            # Each try leaves its mark on the documents: a slow canary is not a silent one.
            standing = repr((rows, [(one.row, one.round, one.attempts.get("total")) for one in states.values()]))
            if standing != before:
                before, heard = standing, now
            hint = self._hint(watched)
            if now - heard >= self._patience:
                canary.outcome = CanaryOutcome.UNANSWERED
                silence = f"nothing was heard of {len(watched)} of {total} for {self._patience:.0f} s"
                canary.message = f"{silence}: {hint}" if hint else silence
                return
            self._waiting(Waiting(total - len(watched), total, hint))
            self._sleep(POLL_SECONDS)

    def _states(self, watched: Sequence[_Watched]) -> list[DocumentState]:
        return self._store.states_of([key for one in watched for key in one.documents])

    def _failure(
        self, one: _Watched, rows: dict[int, str], states: dict[Key, DocumentState]
    ) -> CanaryFailure | None:
        for key in one.documents:
            state = states.get(key)
            if state is None or state.row is not None or state.round == 0 or state.status in _SETTLED_WELL:
                continue
            last = state.last_error or {"error_type": "", "message": "it was left unfinished"}
            return CanaryFailure(one.row, key, _error(last.get("error_type", ""), last.get("message", "")))
        if rows[one.row] not in (RowState.DEAD, RowState.ARCHIVED):
            return None
        found = self._store.find_dead_letters(after=one.row - 1, limit=1)
        error = _error(found[0].error_type, found[0].last_error) if found and found[0].row == one.row else ""
        return CanaryFailure(one.row, None, error or "it was given up again")

    def _hint(self, watched: Sequence[_Watched]) -> str:
        services = {one.service for one in watched}
        needs = {name for one in self._store.subscriptions() if one.service in services for name in one.needs}
        down = [one for one in self._store.breakers() if one.open and one.dependency in needs]
        if down:
            return redact(f"{down[0].dependency} is down: {down[0].reason}")
        return "" if self._store.workers() else NO_WORKER


def _goes_back(state: DocumentState, row: int) -> bool:
    return state.row is None and (state.dead_letter == row or state.round == 0)


def _under_way(one: _Watched, rows: dict[int, str], states: dict[Key, DocumentState]) -> bool:
    carried = any(state.row is not None for key in one.documents if (state := states.get(key)))
    return carried or rows[one.row] in (RowState.WAITING, RowState.CLAIMED)


def _error(error_type: str, message: str) -> str:
    return redact(f"{error_type}: {message}" if error_type else message)
