"""What happens to a document next, and why, in one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from onward.model.breaker import Breaker
from onward.model.documents import FINAL, DocumentState, Status
from onward.model.ledger import SUSPECT_DEATHS, FailedBatch, RowState
from onward.model.recovery import LedgerRow
from onward.ports import Store
from onward.recovery.deciding import Decision, Next, Rules, decide
from onward.recovery.phrasing import TimeInWords, at_time, command, lasting, ordinal, plural
from onward.retry.redact import redact

LONGEST_ERROR = 160
UNTYPEABLE = "its id has characters that nobody can type; choose it with --group or --collection"


@dataclass(frozen=True, slots=True)
class Outlook:
    """What happens to a document next: a word for it, a sentence, the time, and what a person can type."""

    kind: str
    text: str
    at: float | None = None
    """When that is, if it has a time."""
    command: str = ""
    about: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "text": self.text, "command": self.command, **self.about}


class Outlooks:
    """Tells what happens next to documents of a store; what they share is read once."""

    def __init__(
        self,
        store: Store,
        rules: Rules | None = None,
        *,
        worker: str = "onward worker",
        in_words: TimeInWords = at_time,
    ) -> None:
        self.store = store
        self.rules = rules or Rules()
        self.worker = worker
        """What starts a worker for this store."""
        self.in_words = in_words
        """Writes a point in time for whoever reads the sentence."""
        self.now = store.now()
        self._breakers = {one.dependency: one for one in store.breakers()}
        self._subscriptions = store.subscriptions()
        self._workers: set[str] | None = None
        self._batches: dict[str, FailedBatch | None] = {}
        self._rows: dict[int, LedgerRow | None] = {}

    def of(self, state: DocumentState, *, holdup: str = "") -> Outlook:
        """What happens next; `holdup` says in words what else has to be finished first."""
        if (row := self._row(state.row)) is not None:
            if row.state == RowState.CLAIMED:
                return self._claimed(row)
            if row.state == RowState.WAITING:
                return self._waiting(state, row)
        if state.status in FINAL:
            return self._ended(state)
        if (down := self.down(self._needs(collection=state.collection))) is not None:
            return self._outage(down)
        if holdup:
            return Outlook("incomplete", f"not complete: {holdup}")
        if state.retry_at is None and (batch := self._batch(state.failed_batch)) is not None:
            return self._set_aside(batch)
        return self._by_the_retry_job(state)

    # -- a live row

    def _claimed(self, row: LedgerRow) -> Outlook:
        worker = process_of(row.worker or "")
        about = {"worker": row.worker, "service": row.service, "try": row.tries + 1}
        left = (row.lease or self.now) - self.now
        if left <= 0:
            text = f"a worker ({worker}) had it and is silent for {lasting(-left)}: it is given to another one"
            return Outlook("silent", text, about=about)
        silent = "" if (row.worker or "") in self._alive() else ", which has not been heard of lately"
        text = f"a worker ({worker}) has it now{silent}: {row.service}, try {row.tries + 1}"
        return Outlook("working", f"{text}; its lease lasts {lasting(left)} more", about=about)

    def _waiting(self, state: DocumentState, row: LedgerRow) -> Outlook:
        about = {"service": row.service, "round": row.round, "tries": row.tries, "deaths": row.deaths}
        if (down := self.down(self._needs(service=row.service))) is not None:
            return self._outage(down)
        error = _error(state) if row.tries else ""
        if row.due > self.now:
            text = f"tried again in {lasting(row.due - self.now)}"
            if row.not_ready:
                text += f": a document of its event could not be read yet ({plural(row.not_ready, 'time')})"
            elif error:
                text += f": try {row.tries} of round {row.round} failed with {error}"
            elif not row.tries:
                text = f"begins in {lasting(row.due - self.now)}: its event is due then"
            return Outlook("due", text, row.due, about=about)
        waits = f"due since {self._told(row.due)} for {row.service}"
        if row.deaths >= SUSPECT_DEATHS:
            waits += f" (runs alone: {row.deaths} workers died at it)"
        if not self._alive():
            return Outlook("no_worker", f"{waits}, but no worker runs; start one", row.due, self.worker, about)
        return Outlook("due", f"{waits}: the next free worker takes it", row.due, about=about)

    def _outage(self, down: Breaker) -> Outlook:
        about = {"dependency": down.dependency}
        if not down.open and down.paused_until is not None:
            until = self._told(down.paused_until)
            text = f"waiting for {down.dependency}, which asked for a pause until {until}"
            return Outlook("outage", text, down.paused_until, about=about)
        since = f" since {self._told(down.opened_at)}" if down.opened_at is not None else ""
        if down.by_hand:
            text = f"waiting for {down.dependency}, which an operator has taken out of use{since}"
            return Outlook("outage", text, None, "onward breakers", about)
        asked = ""
        if down.next_probe is not None:
            asked = f" (asked again in {lasting(down.next_probe - self.now)})"
        text = f"waiting for {down.dependency}, which is down{since}{asked}"
        if down.remedy:
            text += f": {down.remedy}"
        return Outlook("outage", text, down.next_probe, about=about)

    # -- no live row

    def _ended(self, state: DocumentState) -> Outlook:
        if state.retry_at is not None:
            return self._by_the_retry_job(state)
        if state.status == Status.PROCESSED:
            return Outlook("processed", "nothing: it is processed")
        if state.status == Status.DISCARDED:
            return _typed("discarded", "nothing: an operator gave it up for good", "put it back", state)
        error = _error(state)
        if state.status == Status.FAILED_MAX_RETRIES:
            last = f", the last with {error}" if error else ""
            text = f"given up after {plural(rounds_of(state), 'round')}{last}"
            return _typed("given_up", text, "put it back", state)
        return _typed("failed", f"failed for good: {error or 'no error is kept'}", "after a fix", state)

    def _set_aside(self, batch: FailedBatch) -> Outlook:
        nth = ordinal(batch.retry_count + 1)
        about = {"batch": batch.id, "retry": batch.retry_count + 1}
        if batch.retry_after <= self.now:
            text = f"set aside: its batch {batch.id[:8]} is due for its {nth} retry"
        else:
            when = self._told(batch.retry_after)
            text = f"set aside: its batch {batch.id[:8]} is retried at {when} ({nth} retry)"
        if self.rules.ladder.failed_batch.persistent(batch.retry_count):
            text += "; it keeps failing and needs a person"
            return Outlook("set_aside", text, batch.retry_after, "onward batches list", about)
        return Outlook("set_aside", text, batch.retry_after, about=about)

    def _by_the_retry_job(self, state: DocumentState) -> Outlook:
        decision = decide(state, self.rules, self.now)
        about = {"problems": list(decision.problems)} if decision.problems else {}
        if state.retry_at is not None and decision.next in (Next.DUE, Next.LATER):
            now = ", which is now" if decision.next is Next.DUE else ""
            text = f"scheduled by an operator for {self._told(decision.at)}{now}"
            return Outlook("scheduled", text, decision.at, about=about)
        if decision.next is Next.EXHAUSTED:
            return Outlook("exhausted", f"about to be given up: {decision.why}", decision.at, about=about)
        if decision.next is Next.ODD:
            odd = "; ".join(decision.problems)
            return _typed("odd", f"nothing: {odd}", "begin anew", state, "onward retry --reset", about)
        if decision.next is Next.NOT_NOW:
            return Outlook("not_now", f"not now: {decision.why}", about=about)
        return Outlook("due", self._round(state, decision), decision.at, about=about)

    def _round(self, state: DocumentState, decision: Decision) -> str:
        when = "due now" if decision.next is Next.DUE else f"due in {lasting(decision.at - self.now)}"
        text = f"{when}: {decision.why}"
        if decision.why.endswith(" failed"):
            if error := _error(state):
                text += f" with {error}"
            text += f"; backoff {lasting(self.rules.backoff(rounds_of(state)))}"
        return f"{text}. The retry job begins the next one" if decision.next is Next.DUE else text

    # -- what is shared

    def _told(self, at: float) -> str:
        return self.in_words(at, self.now)

    def down(self, needs: Iterable[str]) -> Breaker | None:
        """The first of these dependencies that lets nothing through just now."""
        for name in needs:
            one = self._breakers.get(name)
            if one is not None and (one.open or (one.paused_until or 0.0) > self.now):
                return one
        return None

    def _needs(self, *, service: str | None = None, collection: str | None = None) -> list[str]:
        return [
            name
            for one in self._subscriptions
            if (one.service == service if service is not None else one.finishes == collection)
            for name in one.needs
        ]

    def _row(self, id: int | None) -> LedgerRow | None:
        if id is None:
            return None
        if id not in self._rows:
            self._rows[id] = self.store.row(id)
        return self._rows[id]

    def _batch(self, id: str | None) -> FailedBatch | None:
        if id is None:
            return None
        if id not in self._batches:
            self._batches[id] = self.store.failed_batch(id)
        return self._batches[id]

    def _alive(self) -> set[str]:
        if self._workers is None:
            self._workers = {one["worker"] for one in self.store.workers()}
        return self._workers


def _typed(
    kind: str,
    text: str,
    then: str,
    state: DocumentState,
    verb: str = "onward retry",
    about: dict[str, Any] | None = None,
) -> Outlook:
    """What a person can do about a document, with the command that does it, if its id can be typed."""
    typed = command(verb, f"{state.collection}/{state.id}")
    return Outlook(kind, f"{text}; {then if typed else UNTYPEABLE}", None, typed, about or {})


def process_of(worker: str) -> str:
    """A worker's host and process: the rest of its name says nothing to a person."""
    return ":".join(worker.split(":")[:2])


def describe_error(error: object) -> str:
    """A kept error on one line, as its type and message; others may have written anything in its place."""
    if not error:
        return ""
    if isinstance(error, Mapping):
        text = ": ".join(str(error[part]) for part in ("error_type", "message") if error.get(part))
    else:
        text = str(error)
    return " ".join(redact(text).split())


def _error(state: DocumentState) -> str:
    text = describe_error(state.last_error)
    return text if len(text) <= LONGEST_ERROR else text[: LONGEST_ERROR - 1] + "…"


def rounds_of(state: DocumentState) -> int:
    """How many rounds a document has had; others may have written anything in its place."""
    count: object = state.attempt_count
    return count if isinstance(count, int) else 0
