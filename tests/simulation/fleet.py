"""A whole fleet in one process on simulated time: machines with supervisors and workers, retry jobs, operators.

One seed decides everything that happens, and replays it exactly. Invariants are checked after every step.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from onward import App, Document, Event, NotReady, Permanent, Settings, Work, names
from onward.ledger.sqlite.dialect import SQLiteDatabase
from onward.ledger.store import Store
from onward.ledger.store_errors import StoreError
from onward.recovery.retry_decision import RetryJobRules
from onward.recovery.retry_job import RetryJob
from onward.runtime.engine import Engine
from onward.runtime.handler_call import CURRENT
from onward.runtime.slots import RunningSlots
from onward.runtime.supervisor import Supervisor
from onward.testing import SimulatedClock, SimulatedWorker
from onward.testing.faults import FaultyDatabase, Killed
from onward.testing.fleet import CheckedStore

HOUR, DAY = 3600.0, 86_400.0
MACHINES = 3
WORKERS_PER_MACHINE = 2
LEASE = 60.0
MAX_SKEW = 2.0


class Page(Document):
    """Something to read."""


class Word(Document):
    """Made from a page."""


class Receipt(Document):
    """An effect of a call; its id names the document, the round, the stage and the call."""


class PagesFound(Event):
    page_ids: list[str] = names(Page)


class NewPagesFound(Event, type="PagesFound", version=2):
    """The same event as a newer release declares it."""

    page_ids: list[str] = names(Page)
    found_by: str = ""


class WordsFound(Event):
    word_ids: list[str] = names(Word)


class SkewedClock:
    """The clock of one machine."""

    def __init__(self, clock: SimulatedClock, skew: float) -> None:
        self._clock = clock
        self.skew = skew

    def now(self) -> float:
        return self._clock.now() + self.skew


@dataclass(slots=True)
class Machine:
    """A machine with a supervisor, its workers and a retry job."""

    name: str
    app: App
    store: Store
    clock: SkewedClock
    supervisor: Supervisor
    job: RetryJob
    databases: list[FaultyDatabase]
    is_paused: bool = False
    renewed_at: float = 0.0


@dataclass(slots=True)
class Truth:
    """What really happened, to compare the ledger with."""

    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often a handler raised, by collection and id."""
    incidents: Counter[int] = field(default_factory=Counter)
    """How often a process died, or slept past a lease, while it ran or committed a row."""
    broken: list[str] = field(default_factory=list)
    """What happened that must never happen; raised by the check, for a handler would catch it."""
    calls: int = 0
    happened: Counter[str] = field(default_factory=Counter)
    resets: Counter[tuple[str, str]] = field(default_factory=Counter)


class Fleet:
    """Machines, and everything that may happen to them."""

    def __init__(self, seed: int, *, quiet: bool = False) -> None:
        self.random = Random(seed)
        self.quiet = quiet
        """Nothing goes wrong."""
        self.clock = SimulatedClock()
        self.began = self.clock.now()
        self.database = SQLiteDatabase(":memory:")
        self.truth = Truth()
        self.log = hashlib.blake2b(digest_size=16)
        self.steps = 0
        self.worker_seconds = 0.0
        self._names = 0
        self._published = 0
        self._pausing = False
        self.machines: list[Machine] = []
        self.inspector = Store(self.database, self.clock)
        for number in range(MACHINES):
            self.machines.append(self.start_machine(newer=number == MACHINES - 1))

    # -- processes

    def _note(self, *what: object) -> None:
        self.log.update(f"{self.clock.now() - self.began:.3f} {what}\n".encode())

    def _name(self, kind: str) -> str:
        self._names += 1
        return f"{kind}-{self._names}"

    def _store(self, clock: SkewedClock) -> tuple[Store, FaultyDatabase]:
        database = FaultyDatabase(self.database, self.random, self.truth.happened)
        store = CheckedStore(database, clock)
        store.broken = self.truth.broken
        return store, database

    def start_machine(self, *, newer: bool = False) -> Machine:
        """Start a machine; a newer one runs the next release: another event version, a renamed service."""
        clock = SkewedClock(self.clock, self.random.uniform(-MAX_SKEW, MAX_SKEW))
        store, database = self._store(clock)
        app = App(store=store, settings=Settings(metrics_backend="noop"))
        self._declare(app, newer=newer)
        databases = [database]

        def spawn(worker: str, record: RunningSlots, alone: bool) -> Any:
            own, faulty = self._store(clock)
            databases.append(faulty)
            engine = Engine(
                own,
                app.registry,
                list(app.registry.services.values()),
                worker=worker,
                version="2" if newer else "1",
                settings=app.engine_settings(
                    inline=True,
                    groups_inline=self.random.random() < 0.5,
                    renews=False,
                    lease=LEASE,
                    suspects=alone,
                ),
                record=record,
                random=self.random,
                monotonic=self.clock.now,
            )
            started = SimulatedWorker(engine)
            return started, started

        supervisor = Supervisor(
            store,
            list(app.registry.services.values()),
            Engine(store, app.registry, [], worker="judge", monotonic=self.clock.now).context,
            spawn,
            name=lambda: self._name("worker"),
            processes=WORKERS_PER_MACHINE,
            lease=LEASE,
            record=lambda: RunningSlots(monotonic=self.clock.now),
            monotonic=self.clock.now,
            poll=0.0,
        )
        job = RetryJob(
            store,
            app.registry,
            RetryJobRules.of(app.settings, app.registry.subscriptions()),
            holder=self._name("job"),
        )
        _ = app.store  # subscribes
        return Machine(self._name("machine"), app, store, clock, supervisor, job, databases)

    def _declare(self, app: App, *, newer: bool) -> None:
        def read(page: Page, work: Work) -> None:
            self._begin(work, "pages", page.id)
            if work.cursor is None:
                self._effect(work, page.id, "seen")
                work.checkpoint("seen")
                self._trouble("pages", page.id)
            for number in range(2):
                work.add(Word(id=f"{page.id}.{number}"))
            work.emit(WordsFound.of(work.added(Word)))
            self._effect(work, page.id, "read")
            self._trouble("pages", page.id)

        def spell(batch: Sequence[Word], work: Work) -> None:
            for word in batch:
                self._begin(work, "words", word.id)
                self._effect(work, word.id, "spelled")
            for word in batch:
                self._trouble("words", word.id, batch=batch)

        event = NewPagesFound if newer else PagesFound
        app.service("reading", on=event, finishes=Page)(read)
        was = "spelling" if newer else ()
        app.service("writing" if newer else "spelling", on=WordsFound, finishes=Word, batch=2, was=was)(spell)

    # -- inside handlers

    def _begin(self, work: Work, collection: str, id: str) -> None:
        self.truth.calls += 1
        self._note("call", collection, id, work.round)

    def _effect(self, work: Work, id: str, stage: str) -> None:
        call = CURRENT.get()
        assert call is not None, "a handler is running"
        round = next(given.round for given in call.inputs if given.id == id)
        work.add(Receipt(id=f"{id}/{round}/{stage}/{self.truth.calls}"), parent=None)

    def _trouble(self, collection: str, id: str, batch: Sequence[Document] = ()) -> None:
        """Fail, die or sleep in the middle of a call."""
        if self.quiet:
            return
        dice = self.random.random()
        if dice < 0.10:
            self.truth.happened["failures"] += 1
            for document in batch or [Page(id=id)]:
                self.truth.failures[collection, document.id] += 1
            raise (
                ConnectionError("reset")
                if dice < 0.07
                else NotReady("later")
                if dice < 0.085
                else Permanent("bad")
            )
        if dice < 0.12:
            self.truth.happened["deaths in a handler"] += 1
            self._kill_current()
            raise Killed
        if dice < 0.18 and not self._pausing:
            self._sleep(past_lease=dice < 0.14)

    def _kill_current(self) -> None:
        call = CURRENT.get()
        assert call is not None
        call.opened.context.reader.db.die_after(0)  # type: ignore[attr-defined]

    def _sleep(self, *, past_lease: bool) -> None:
        """The current call takes minutes while the other machines go on.

        With `past_lease` its whole machine sleeps, and others take its rows over: it comes back as a zombie.
        Without, its supervisor renews its lease, and nobody may take the row over.
        """
        call = CURRENT.get()
        assert call is not None, "a handler is running"
        worker, row = call.opened.context.worker, call.delivery.row
        machine = next(
            one for one in self.machines if any(child.worker == worker for child in one.supervisor.children)
        )
        if not past_lease and machine.databases[0].has_trouble:
            return  # a lease that cannot be renewed lapses
        self.truth.happened["pauses" if past_lease else "slow calls"] += 1
        self._note("sleep", worker, past_lease)
        if past_lease:
            for child in machine.supervisor.children:
                self._blame(child.record)
        self._pausing = True
        machine.is_paused = past_lease
        held = self.query(f"SELECT state, token FROM ledger WHERE id = {row}")
        try:
            for _ in range(8):
                self._pass_time(self.random.uniform(5.0, 40.0))
                for other in self.machines:
                    if other is not machine:
                        self._step_machine(other)
        finally:
            machine.is_paused = self._pausing = False
            CURRENT.set(call)
        if not past_lease and self.query(f"SELECT state, token FROM ledger WHERE id = {row}") != held:
            self.truth.broken.append(f"row {row} was taken from {worker}, whose lease was renewed")

    def _blame(self, record: RunningSlots) -> None:
        """These rows were running, or about to be committed, when something happened to their process."""
        for row in {*record.running(), *record.finished()}:
            self.truth.incidents[row] += 1

    # -- what happens

    def step(self) -> None:
        """Let one thing happen, and check what must always hold."""
        self.steps += 1
        kind = self.random.choices(
            ("machine", "time", "publish", "job", "operator", "incident"),
            (50, 25, 6, 6, 4, 0 if self.quiet else 6),
        )[0]
        getattr(self, f"_{kind}")()
        self.check()

    def _machine(self) -> None:
        self._step_machine(self.random.choice(self.machines))

    def _time(self) -> None:
        long = self.random.random() < 0.1
        self._pass_time(self.random.uniform(60.0, 1800.0) if long else self.random.expovariate(1 / 8.0))

    def _pass_time(self, seconds: float) -> None:
        """Let time pass; supervisors that are awake renew leases meanwhile."""
        ends = self.clock.now() + seconds
        while self.clock.now() < ends:
            step = min(LEASE / 3, ends - self.clock.now())
            self.clock.advance(step)
            self.worker_seconds += step * sum(len(one.supervisor.children) for one in self.machines)
            for machine in self.machines:
                if not machine.is_paused:
                    machine.supervisor.renew_leases()

    def _publish(self) -> None:
        self._published += 1
        page = Page(id=f"p{self._published}")
        machine = self.random.choice(self.machines)
        event = NewPagesFound if "writing" in machine.app.registry.services else PagesFound
        try:
            machine.app.publish(event(page_ids=[page.id]), documents=[page])
            if self.random.random() < 0.3:
                (again,) = machine.app.publish(event(page_ids=[page.id]))
                if (again.rows, again.duplicates) != (0, 1):
                    self.truth.broken.append(f"a duplicate of the event of {page.id} was not recognised")
        except StoreError:
            pass  # it may be there all the same
        self._note("publish", page.id)

    def _job(self) -> None:
        machine = self.random.choice(self.machines)
        try:
            if machine.job.is_due():
                self._note("job", machine.name, machine.job.run().touched)
        except StoreError:
            pass

    def _operator(self) -> None:
        """Requeue, reset or reschedule something, as from the console."""
        store = self.inspector
        for letter in store.find_dead_letters()[:3]:
            self._note("requeue", letter.row, store.requeue(letter.row))
        number = self.random.randint(1, max(1, self._published))
        key = ("pages", f"p{number}")
        if self.random.random() < 0.5:
            store.reset(*key)
        else:
            store.schedule([key], self.clock.now() + self.random.uniform(0, HOUR), reset=True)
        self.truth.resets[key] += 1

    def _incident(self) -> None:
        """Something goes wrong, or is mended, on one machine."""
        number = self.random.randrange(len(self.machines))
        machine = self.machines[number]
        kind = self.random.choice(("crash", "commits", "outage", "mend", "mend", "machine", "deploy"))
        self._note("incident", kind, machine.name)
        self.truth.happened[kind] += 1
        if kind == "crash":
            database = self.random.choice(machine.databases[1:] or machine.databases)
            if database is not machine.databases[0]:
                database.die_after(self.random.randrange(60))
        elif kind == "commits":
            for database in machine.databases:
                database.rate = 0.05
        elif kind in ("outage", "mend"):
            for database in machine.databases:
                database.is_down, database.rate = kind == "outage", 0.0
        elif not machine.is_paused:
            # The whole machine is gone, and nobody saw it: its leases lapse. A deploy drains it first.
            if kind == "deploy":
                machine.supervisor.stop()
                for _ in range(4):
                    self._step_machine(machine)
            for child in machine.supervisor.children:
                self._blame(child.record)
            self.machines[number] = self.start_machine(newer=self.random.random() < 0.4)

    def _step_machine(self, machine: Machine) -> None:
        try:
            machine.supervisor.step()
        except StoreError:
            pass
        except Killed:
            return
        for child in list(machine.supervisor.children):
            worker: Any = child.process
            try:
                busy = worker.step()
                self._note("step", child.worker, busy)
                held = self.query(f"SELECT id FROM ledger WHERE state = 'claimed' AND worker = '{child.worker}'")
                if held and not worker.engine.uncertain:
                    self.truth.broken.append(f"{child.worker} holds rows that it does not know: {held}")
            except StoreError as error:
                worker.engine.after_outage()
                self._note("outage", child.worker, str(error))
            except Killed:
                self._blame(child.record)
                worker._alive = False
                worker.engine.store.db.die_after(None)
                self.truth.happened["deaths"] += 1
                self._note("death", child.worker)

    def heal(self) -> None:
        """Let everything work from now on."""
        self.quiet = True
        for machine in self.machines:
            for database in machine.databases:
                database.rate, database.is_down = 0.0, False
                database.die_after(None)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def finish(self) -> None:
        """Heal everything, let days pass, and check that nothing is lost, doubled or stuck."""
        from tests.simulation.invariants import check_end

        self.heal()
        for number, machine in enumerate(self.machines):
            for child in machine.supervisor.children:
                self._blame(child.record)
            self.machines[number] = self.start_machine(newer=True)
        for _ in range(40):
            for _ in range(30):
                for machine in self.machines:
                    self._step_machine(machine)
                self._pass_time(10.0)
                self.check()
            for machine in self.machines:
                machine.job.run(full=True)
            self._put_right()
            self._pass_time(HOUR)
            if self.is_done():
                break
        check_end(self)

    def _put_right(self) -> None:
        store = self.inspector
        for letter in store.find_dead_letters():
            store.requeue(letter.row)
        for status in ("failed", "failed_max_retries"):
            given_up = [(state.collection, state.id) for state in store.find_states(status=status)]
            store.schedule(given_up, self.clock.now(), reset=True)
            self.truth.resets.update(given_up)

    def is_done(self) -> bool:
        counts = self.inspector.document_counts()
        return all(set(counts.get(name, {})) <= {"processed", "discarded"} for name in ("pages", "words"))

    def inherits(self, row: int) -> bool:
        """Return whether a row was split off from another, whose deaths it inherits."""
        return bool(self.query(f"SELECT 1 FROM ledger WHERE id = {row} AND key LIKE '%/%'"))

    def check(self) -> None:
        from tests.simulation.invariants import check_step

        check_step(self)

    def query(self, text: str) -> list[tuple[Any, ...]]:
        """Read the tables, past the code that is tested."""
        return self.database._writer.execute(text).fetchall()

    def digest(self) -> str:
        """Return a digest of all that happened, and of what came of it."""
        rows = self.query("SELECT id, service, state, tries, deaths, round FROM ledger ORDER BY id")
        documents = self.query("SELECT collection, id, status, attempt_count, round FROM documents ORDER BY doc")
        self.log.update(repr((rows, documents)).encode())
        return self.log.hexdigest()

    def close(self) -> None:
        self.database.close()
