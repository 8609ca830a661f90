"""Schedules: each tick is published once, whichever of the processes is first."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

from onward.model.documents import Document
from onward.model.events import Event
from onward.runtime.publish_options import NO_OPTIONS
from onward.runtime.publisher import new_documents, publish
from onward.runtime.registry import Registry
from onward.runtime.service import RegistrationError
from onward.runtime.ticks import Ticks, read_ticks

if TYPE_CHECKING:
    from onward.ledger.store import Store

log = logging.getLogger("onward")

Missed = Literal["last", "all", "none"]
"""Which ticks are made up for that fell into a time when no process ran."""

MAX_MISSED_TICKS = 1_000  # Of a schedule with missed="all", the latest
ON_TIME_SECONDS = 60.0  # With missed="none", a tick that is later than this is left out
OTHER_APP_SECONDS = 60.0  # How often it is checked whether a store has become one of this app
FAILED_TICK_SECONDS = 10.0  # A schedule that cannot be published is tried again after this time
MAX_CLOCK_STEP_SECONDS = 86_400.0  # A state that is further in the future comes from a clock that was wrong


class ScheduleState(Document, collection="onward_schedules"):
    """What is stored of a schedule; its id is the schedule's name."""

    definition: str
    timezone: str
    missed: str
    handled_until: datetime  # Ticks up to this moment were published, or left out
    last_tick: datetime | None = None  # The last one that was published
    next_tick: datetime | None = None


@dataclass(frozen=True, slots=True)
class DeclaredSchedule:
    """A schedule of an app, and what it does with its ticks."""

    name: str
    ticks: Ticks
    timezone: str
    missed: Missed
    publish: Callable[[Store, Sequence[datetime]], None]
    """Publishes for these ticks, in the transaction that stores that they are handled."""

    def is_as_in(self, state: ScheduleState) -> bool:
        """Return whether a stored state was written for the same ticks."""
        return (state.definition, state.timezone) == (str(self.ticks), self.timezone)

    def due(self, after: float, now: float) -> list[float]:
        """Return the ticks to publish, of those after a moment and not after now."""
        found = self.ticks.latest(after, now, MAX_MISSED_TICKS if self.missed == "all" else 1)
        if len(found) == MAX_MISSED_TICKS:
            log.warning("schedule %r: only the last %d missed ticks are made up for", self.name, MAX_MISSED_TICKS)
        return [tick for tick in found if self.missed != "none" or now - tick <= ON_TIME_SECONDS]


def new_schedule(
    registry: Registry,
    name: str,
    schedule: object,
    timezone: str,
    missed: Missed,
    publish: Callable[[Store, Sequence[datetime]], None],
) -> DeclaredSchedule:
    """Return a schedule that can be added to a registry, or raise `RegistrationError` with the remedy."""
    if missed not in get_args(Missed):
        raise RegistrationError(
            f"schedule {name!r} is declared with missed={missed!r:.100}; give 'last' (the latest missed run), "
            f"'all' (at most {MAX_MISSED_TICKS:,}) or 'none'"
        )
    ticks = read_ticks(schedule, timezone, of=f"schedule {name!r}")
    registry.check_schedule(name)
    return DeclaredSchedule(name, ticks, timezone, missed, publish)


def publish_events(
    make: Callable[[datetime], Event | Iterable[Event] | None], store: Store, ticks: Sequence[datetime]
) -> None:
    """Publish the events that a function makes of ticks."""
    made = [make(tick) for tick in ticks]
    events = [
        event for one in made if one is not None for event in ([one] if isinstance(one, Event) else list(one))
    ]
    if events:
        publish(store, events, [], NO_OPTIONS)


@dataclass(slots=True)
class Ticker:
    """Publishes the ticks of an app's schedules when they fall due; every process may have one."""

    open_store: Callable[[], Store]
    registry: Registry
    now: float = 0.0  # By the store's clock, when it was last asked
    _at_home: bool = False  # The store is one of this app
    _began: dict[str, float] = field(default_factory=dict)  # When this process saw each schedule first
    _next: dict[str, float] = field(default_factory=dict)

    def next_moment(self) -> float | None:
        """Return when the next schedule falls due; None if there is none. It asks no database."""
        return min((self._next.get(name, 0.0) for name in self.registry.schedules), default=None)

    def run_due(self) -> int:
        """Publish all ticks that are due; return how many. One schedule that fails does not stop the others."""
        if not self.registry.schedules:
            return 0
        store = self.open_store()
        now = store.now()
        if now + MAX_CLOCK_STEP_SECONDS < self.now:  # the clock was wrong, and was set
            self._began.clear()
            self._next.clear()
        self.now = now
        due = [one for one in self.registry.schedules.values() if self._next.get(one.name, 0.0) <= now]
        if not due:
            return 0
        if not self._is_at_home(store):
            self._next |= dict.fromkeys(self.registry.schedules, now + OTHER_APP_SECONDS)
            return 0
        known = {state.id: state for state in store.get_many(ScheduleState, [one.name for one in due])}
        published, problem = 0, None
        for one in due:
            state = known.get(one.name)
            if state is not None and one.is_as_in(state) and _is_believable(state, now):
                self._began.setdefault(one.name, now)
                following = one.ticks.after(state.handled_until.timestamp())
                if following is None or following > now:  # another process was first
                    self._next[one.name] = float("inf") if following is None else following
                    continue
            try:
                published += store.atomically(partial(self._publish, store, one))
            except Exception as error:
                self._next[one.name] = now + FAILED_TICK_SECONDS
                problem = problem or error
        if problem is not None:
            raise problem
        return published

    def _is_at_home(self, store: Store) -> bool:
        """Return whether services of this app take events from the store; else it is that of another app.

        An app without services publishes for others, whatever its store is.
        """
        if not self._at_home:
            own = self.registry.services
            self._at_home = not own or any(one.service in own for one in store.subscriptions())
        return self._at_home

    def _publish(self, store: Store, one: DeclaredSchedule) -> int:
        """Publish what is due of a schedule and store that it is handled, in one transaction."""
        store.states_of([(ScheduleState.collection, one.name)])  # locks it
        before, now = store.get(ScheduleState, one.name), store.now()
        began = self._began.setdefault(one.name, now)
        after = now
        if before is not None:
            after = before.handled_until.timestamp()
            if not one.is_as_in(before):
                # It was changed, or a process of another release has it: ticks from before this process began
                # are not this definition's.
                after = max(after, began)
            if not _is_believable(before, now):
                after = now
        ticks = [datetime.fromtimestamp(tick, one.ticks.zone) for tick in one.due(after, now)]
        if ticks:
            one.publish(store, ticks)
        next_tick = one.ticks.after(now)
        state = ScheduleState(
            id=one.name,
            definition=str(one.ticks),
            timezone=one.timezone,
            missed=one.missed,
            handled_until=_utc(max(after, now)),
            last_tick=ticks[-1].astimezone(UTC) if ticks else before.last_tick if before is not None else None,
            next_tick=None if next_tick is None else _utc(next_tick),
        )
        store.replace_document(new_documents([state], NO_OPTIONS)[0])
        self._next[one.name] = float("inf") if next_tick is None else next_tick
        return len(ticks)


def _is_believable(state: ScheduleState, now: float) -> bool:
    return state.handled_until.timestamp() <= now + MAX_CLOCK_STEP_SECONDS


def _utc(moment: float) -> datetime:
    return datetime.fromtimestamp(moment, UTC)


def schedule_of(cron: str | None, every: Any, name: str) -> object:
    """Return the one of both that was given, or raise `RegistrationError`."""
    if (cron is None) == (every is None):
        raise RegistrationError(f"schedule {name!r} takes either cron='0 7 * * *' or every=timedelta(minutes=15)")
    return every if cron is None else cron
