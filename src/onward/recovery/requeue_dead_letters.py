"""Requeues dead letters: at a limited rate, and with a canary that is processed first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING

from onward.ledger.store_errors import StoreFull, StoreUnavailable
from onward.model.documents import DocumentKey, DocumentState, Status
from onward.model.events import Envelope, Event
from onward.model.failures import Failure
from onward.model.ledger import DeadLetter, RowState
from onward.retry import Malformed, OnwardError
from onward.retry.redact import redact
from onward.runtime.process_identity import alive_workers
from onward.runtime.publisher import ForeignMessage, read_foreign_event

if TYPE_CHECKING:
    from onward.ledger.store import Store

PAGE = 200
MOST_AT_ONCE = 50  # dead letters in one transaction
POLL_SECONDS = 0.5
PATIENCE_SECONDS = 15 * 60.0
NO_WORKER = "no worker is alive; start one: onward worker (with --app, for an app of your own)"
EventClasses = Callable[[], Iterable[type[Event]]]
_SETTLED_WELL = (Status.PROCESSED, Status.DISCARDED)


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Conditions on dead letters; None: any."""

    service: str | None = None  # an empty name: events for no service
    fingerprint: str | None = None
    error_type: str | None = None
    since: float | None = None
    document: DocumentKey | None = None
    limit: int | None = None


def matching_dead_letters(
    store: Store, wanted: DeadLetterFilter, *, archived: bool = False, begun: float | None = None
) -> Iterator[DeadLetter]:
    """Yield the dead letters that match, oldest first, page by page.

    Those that were given up after this began, or after `begun`, are left out: an event that is requeued and fails
    again would be yielded again.
    """
    conditions, after = asdict(wanted), 0
    begun = store.now() if begun is None else begun
    left: int | None = conditions.pop("limit")
    while left is None or left > 0:
        limit = PAGE if left is None else min(PAGE, left)
        page = store.find_dead_letters(**conditions, archived=archived, after=after, limit=limit)
        if not page:
            return
        after = page[-1].row
        earlier = [dead_letter for dead_letter in page if dead_letter.timestamp <= begun]
        left = None if left is None else left - len(earlier)
        yield from earlier


class Refused(OnwardError):
    """A dead letter cannot be requeued."""


class EventReader:
    """Decides whether dead letters can be requeued, and reads the bytes of those that were never read.

    `events` returns the known event classes. The data of other types that a service takes is checked by a worker.
    """

    def __init__(self, store: Store, events: EventClasses) -> None:
        self._store, self._events = store, events
        self._types = {subscription.service: subscription.event_type for subscription in store.subscriptions()}
        self._kinds: dict[str, type[Event] | None] = {}

    def refusal(self, dead_letter: DeadLetter) -> str:
        """Return why a dead letter cannot be requeued; empty: it can."""
        try:
            self.check(dead_letter)
        except OnwardError as error:
            return _reason(error)
        return ""

    def check(self, dead_letter: DeadLetter) -> Envelope | None:
        """Return the event of a dead letter that was never read, None for another one.

        Raise `Malformed` if it still cannot be read, and `Refused` for another reason why it cannot be requeued.
        """
        service = dead_letter.service_name
        if service and service not in self._types:
            raise Refused(
                f"its service {service!r} was retired; start it again, declare its successor with "
                f"was={service!r}, or purge the dead letter"
            )
        if not dead_letter.unread or dead_letter.raw is None:
            if not service:
                raise Refused("it was for no service, so no worker would ever take it; export it, or purge it")
            return None
        if not self._kinds:
            known = {kind.event_type: kind for kind in self._events()}
            self._kinds = {**dict.fromkeys(self._types.values()), **known}
        message = ForeignMessage(dead_letter.raw, dead_letter.idempotency_key, dead_letter.properties)
        envelope = read_foreign_event(self._kinds, message, self._store.now())
        if service and self._types[service] != envelope.event_type:
            raise Refused(f"its service {service!r} does not take {envelope.event_type}; export it, or purge it")
        return envelope


def _reason(error: OnwardError) -> str:
    return f"its bytes still cannot be read as an event: {error}" if isinstance(error, Malformed) else str(error)


@dataclass(frozen=True, slots=True)
class Refusal:
    row: int
    reason: str


class CanaryOutcome(StrEnum):
    NONE = "none"  # no canary was asked for, or there was nothing to try
    WAITING = "waiting"
    PASSED = "passed"
    FAILED = "failed"
    UNANSWERED = "unanswered"  # they were not settled in time


@dataclass(frozen=True, slots=True)
class CanaryFailure:
    row: int
    document: DocumentKey | None
    error: str


@dataclass(slots=True)
class Canary:
    """The dead letters that were requeued first."""

    rows: list[int] = field(default_factory=list)
    outcome: CanaryOutcome = CanaryOutcome.NONE
    failures: list[CanaryFailure] = field(default_factory=list)
    message: str = ""


@dataclass(slots=True)
class RequeueResult:
    requeued: int = 0
    skipped_recovered: int = 0  # they have recovered meanwhile, or are being tried already
    refused: list[Refusal] = field(default_factory=list)
    unreadable: int = 0  # how many of the refused still cannot be read as events
    canary: Canary = field(default_factory=Canary)
    left_untouched: int = 0

    @property
    def handled(self) -> int:
        return self.requeued + self.skipped_recovered + len(self.refused)


@dataclass
class Requeue:
    """One run that requeues dead letters; `result` is correct after every dead letter, however the run ends.

    Requeued dead letters have left the failed queue: a second run continues with the rest. `waiting` gets how
    many of the canary are done, how many there are, and the probable reason why it waits.
    """

    store: Store
    dead_letters: Iterable[DeadLetter]
    _: KW_ONLY
    sleep: Callable[[float], None]
    events: EventClasses = tuple  # to read again what could not be read
    rate: float | None = None
    canary: int = 0
    patience: float = PATIENCE_SECONDS
    report: Callable[[RequeueResult], None] = lambda result: None
    waiting: Callable[[int, int, str], None] = lambda done, total, hint: None
    result: RequeueResult = field(default_factory=RequeueResult)

    def __post_init__(self) -> None:
        if self.rate is not None and not self.rate > 0:
            raise ValueError(f"rate must be more than 0 dead letters a second, not {self.rate}")
        self._at_once = MOST_AT_ONCE if self.rate is None else max(1, int(min(MOST_AT_ONCE, self.rate / 4)))
        self._turn = self.store.now()
        self._left = iter(self.dead_letters)

    def run(self) -> RequeueResult:
        """Requeue the canary, wait for it, then requeue the rest."""
        if self.canary > 0 and not self._canary_passes():
            self.result.left_untouched = sum(1 for _ in self._left)
            self.report(self.result)
            return self.result
        while batch := list(islice(self._left, self._at_once)):
            self.wait_for_turn()
            self.put_back(batch)
        return self.result

    def wait_for_turn(self) -> None:
        pause = self._turn - self.store.now()
        if pause > 0:
            self.sleep(pause)

    def put_back(self, batch: Sequence[DeadLetter]) -> list[DeadLetter]:
        """Requeue dead letters, in one transaction unless one of them fails; return those that were requeued."""
        reader = EventReader(self.store, self.events)
        sound: list[tuple[DeadLetter, Envelope | None]] = []
        for dead_letter in batch:
            try:
                sound.append((dead_letter, reader.check(dead_letter)))
            except OnwardError as error:
                self.result.refused.append(Refusal(dead_letter.row, _reason(error)))
                if isinstance(error, Malformed):
                    self.result.unreadable += 1
                    self.store.record_unread(dead_letter.row, Failure.of(error, at=self.store.now(), service=""))
        return self._put_back_sound(sound)

    def _put_back_sound(self, sound: Sequence[tuple[DeadLetter, Envelope | None]]) -> list[DeadLetter]:
        try:
            returned = self.store.atomically(lambda: [self._put_back_one(*one) for one in sound])
        except (StoreUnavailable, StoreFull):
            raise
        except Exception as error:  # one bad dead letter never stops the others
            if len(sound) > 1:
                return [requeued for one in sound for requeued in self._put_back_sound([one])]
            reason = redact(f"{type(error).__name__}: {error}")
            self.result.refused += [Refusal(one.row, reason) for one, _ in sound]
            returned = []
        requeued = [dead_letter for dead_letter in returned if dead_letter is not None]
        self.result.requeued += len(requeued)
        self.result.skipped_recovered += len(returned) - len(requeued)
        self.delay_turn(len(requeued))
        self.report(self.result)
        return requeued

    def delay_turn(self, count: int) -> None:
        """Wait for as long as the rate demands after putting back `count` of them."""
        if self.rate is not None:
            self._turn = max(self._turn, self.store.now()) + count / self.rate

    def _put_back_one(self, dead_letter: DeadLetter, event: Envelope | None) -> DeadLetter | None:
        """Requeue a dead letter; for a canary, return it with only the documents that are requeued with it."""
        row = dead_letter.row
        if event is not None:
            entered = self.store.enter_unread(row, event)
            if not entered:
                return dead_letter if entered is not None else None  # it was merged with an event that waits
            keys = tuple(key for _, documents in entered for key in documents)
            return replace(dead_letter, row=entered[0][0], documents=keys)
        if self._canary_wanted:
            # Afterwards it is not known any more which documents were requeued with it.
            others = {
                (state.collection, state.id)
                for state in self.store.states_of(dead_letter.documents)
                if state.row is not None or (state.dead_letter != row and state.round > 0)
            }
            own = tuple(key for key in dead_letter.documents if key not in others)
            dead_letter = replace(dead_letter, documents=own)
        return dead_letter if self.store.requeue(row) else None

    # -- the canary

    @property
    def _canary_wanted(self) -> bool:
        return len(self.result.canary.rows) < self.canary

    def _canary_passes(self) -> bool:
        canary, watched = self.result.canary, list[DeadLetter]()
        while self._canary_wanted and (dead_letter := next(self._left, None)) is not None:
            self.wait_for_turn()
            for requeued in self.put_back([dead_letter]):
                if requeued.documents or self.store.row_states([requeued.row])[requeued.row] != RowState.DONE:
                    watched.append(requeued)
                    canary.rows.append(requeued.row)
                # else it was merged with an event that waited already, and cannot be watched on its own
        if not watched:
            return True
        canary.outcome = CanaryOutcome.WAITING
        self._watch(watched)
        return canary.outcome is CanaryOutcome.PASSED

    def _watch(self, watched: list[DeadLetter]) -> None:
        canary, store = self.result.canary, self.store
        total, last_progress, progressed_at = len(watched), "", store.now()
        while True:
            rows = store.row_states([dead_letter.row for dead_letter in watched])
            found = store.states_of([key for dead_letter in watched for key in dead_letter.documents])
            states = {(state.collection, state.id): state for state in found}
            canary.failures = [failure for one in watched if (failure := self._failure(one, rows, states))]
            if canary.failures:
                canary.outcome = CanaryOutcome.FAILED
                canary.message = f"{len(canary.failures)} of {total} failed again: {canary.failures[0].error}"
                return
            watched = [
                dead_letter
                for dead_letter in watched
                if rows[dead_letter.row] in (RowState.WAITING, RowState.CLAIMED)
                or any(states[key].row is not None for key in dead_letter.documents if key in states)
            ]
            if not watched:
                canary.outcome = CanaryOutcome.PASSED
                return
            now = store.now()
            # Each try changes the documents, so that a slow canary is not mistaken for one without a worker.
            progress = repr((rows, [(state.row, state.round, state.attempts.get("total")) for state in found]))
            if progress != last_progress:
                last_progress, progressed_at = progress, now
            hint = self._hint(watched)
            if now - progressed_at >= self.patience:
                canary.outcome = CanaryOutcome.UNANSWERED
                silence = f"{len(watched)} of {total} made no progress for {self.patience:.0f} s"
                canary.message = f"{silence}: {hint}" if hint else silence
                return
            self.waiting(total - len(watched), total, hint)
            self.sleep(POLL_SECONDS)

    def _failure(
        self, watched: DeadLetter, rows: dict[int, str], states: Mapping[DocumentKey, DocumentState]
    ) -> CanaryFailure | None:
        for key in watched.documents:
            state = states.get(key)
            if state is None or state.row is not None or state.round == 0 or state.status in _SETTLED_WELL:
                continue
            last = state.last_error or {"error_type": "", "message": "it was left unfinished"}
            return CanaryFailure(watched.row, key, _error(last.get("error_type", ""), last.get("message", "")))
        if rows[watched.row] not in (RowState.DEAD, RowState.ARCHIVED):
            return None
        dead_letters = self.store.find_dead_letters(after=watched.row - 1, limit=1)
        own = next((dead_letter for dead_letter in dead_letters if dead_letter.row == watched.row), None)
        error = "" if own is None else _error(own.error_type, own.last_error)
        return CanaryFailure(watched.row, None, error or "it was given up again")

    def _hint(self, watched: Sequence[DeadLetter]) -> str:
        services = {dead_letter.service_name for dead_letter in watched}
        subscriptions = [one for one in self.store.subscriptions() if one.service in services]
        needs = {name for subscription in subscriptions for name in subscription.needs}
        for breaker in self.store.breakers():
            if breaker.open and breaker.dependency in needs:
                return redact(f"{breaker.dependency} is down: {breaker.reason}")
        return "" if alive_workers(self.store) else NO_WORKER


def _error(error_type: str, message: str) -> str:
    return redact(f"{error_type}: {message}" if error_type else message)
