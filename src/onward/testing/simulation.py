"""An app on a simulated clock, run to rest, with dependencies that fail."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, Self

from onward.app import App
from onward.backend_urls import open_store
from onward.model.documents import Document, DocumentState
from onward.model.ledger import DeadLetter
from onward.recovery.retry_decision import RetryJobRules
from onward.recovery.retry_job import RetryJob
from onward.retry import Unavailable
from onward.runtime.dependency import Dependency
from onward.runtime.engine import Engine
from onward.runtime.handler_call import CURRENT, Call, Context
from onward.runtime.handler_types import Handler
from onward.runtime.schedules import Ticker
from onward.runtime.service import Service
from onward.runtime.slots import RunningSlots, next_limited_claim
from onward.runtime.supervisor import EXIT_CODES, Supervisor

if TYPE_CHECKING:
    from onward.ledger.store import Store

MAX_PASSES_AT_ONCE = 100_000
"""After this many passes over all services without a moment passing, something repeats for ever."""
MAX_REPEATS, REPEAT_SECONDS = 300, 60.0
"""A row that is delivered this often within this simulated time follows another clock."""


class SimulatedClock:
    """A clock that moves only when it is advanced."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds


class SimulatedWorker:
    """A worker process of a simulation: an engine with one slot a service that runs in the caller's thread.

    To its supervisor it is both the process and the pipe to it.
    """

    sentinel = 0

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.exitcode = 0
        self._alive = True
        engine.start()

    def step(self) -> bool:
        """Claim, run and commit what is due; return whether anything was done."""
        if not self._alive:
            return False
        engine = self.engine
        engine.look_again()
        try:
            engine.step().send(None)
            raise RuntimeError("the engine waits for something; a simulation runs everything inline")
        except StopIteration as ended:
            busy = bool(ended.value)
        if engine.is_over() or (engine.settings.suspects and not busy):
            engine.end()
            engine.record.set_exit_code(EXIT_CODES[engine.ending])
            self._alive = False
            return True  # its supervisor may start another
        return busy

    def is_alive(self) -> bool:
        return self._alive

    def send(self, order: str) -> None:
        self.engine.release() if order == "release" else self.engine.drain()

    def kill(self) -> None:
        self._alive, self.exitcode = False, -signal.SIGKILL

    def join(self) -> None:
        """Nothing to wait for."""

    close = join


class Simulation:
    """An app in one process and one thread, in memory, where time advances only when nothing is due.

    It is supervised and run as in production, by the same engine: one worker with one slot a service, and another
    one for suspect events. The retry job runs when something falls due for it, unless `retry_job` is False.
    Schedules tick by the simulated clock; they begin when it first runs.
    Entering replaces the app's store; leaving restores it.
    """

    def __init__(
        self, app: App, *, store: str = "sqlite://:memory:", seed: int = 0, retry_job: bool = True
    ) -> None:
        self.app = app
        _ = app.metrics  # from now on, what happens is measured
        self.clock = SimulatedClock()
        self.store: Store = self._open(store)
        self.store.breaker_rules = app.breaker_rules()
        self.calls = 0  # how many times a handler was called
        self._random = Random(seed)
        self._down: dict[str, float] = {}
        self._repeats: dict[tuple[int, str], tuple[float, int]] = {}
        """Of each row and first document of a call: since when its calls are counted, and how many there were."""
        self._problem: AssertionError | None = None
        self._before = (app._store, app.registry.dependencies)
        rules = RetryJobRules.of(app.settings, app.registry.subscriptions())
        self.retry_job = RetryJob(self.store, app.registry, rules, holder="simulation")
        self._retries = retry_job
        self._supervisors: list[Supervisor] = []
        """The first one, and those that work while a handler of the one before is running."""
        self._depth = self._named = 0
        self._processes = 1
        self._was_killed = False
        self._services: list[Service] = []  # the services that the workers have
        self._ticker = Ticker(lambda: self.store, app.registry)
        self._periodic_due: dict[str, float] = {}  # when each periodic job of a simulation runs next

    def _open(self, url: str) -> Store:
        return open_store(url, self.clock)

    def __enter__(self) -> Self:
        self.app._store = self.store
        services = self.app.registry.services.values()
        self.store.subscribe([service.subscription() for service in services])
        needed = {name for service in services for name in service.needs}
        known = self._before[1]
        self.app.registry.dependencies = {
            name: self._failing(known.get(name) or Dependency(name)) for name in needed | known.keys()
        }
        return self

    def __exit__(self, *_: object) -> None:
        self.app._store, self.app.registry.dependencies = self._before
        self.store.close()

    # -- dependencies

    def fail(self, dependency: str, *, for_seconds: float) -> None:
        """Make a dependency fail from now on: handlers that need it raise `Unavailable`.

        Its health call, if it has one, says no meanwhile.
        """
        self._down[dependency] = self.clock.now() + for_seconds

    def is_down(self, dependency: str) -> bool:
        """Return whether a dependency fails at this moment of the simulated time."""
        return self._down.get(dependency, 0.0) > self.clock.now()

    def _failing(self, dependency: Dependency) -> Dependency:
        name, original = dependency.name, dependency.health
        if original is None:
            return dependency
        return replace(dependency, health=lambda: False if self.is_down(name) else original())

    # -- running

    def drain(self, *, within: float = 0.0) -> int:
        """Run all that is due, and all that falls due within this many seconds; return the number of calls."""
        return self._run(within, self._next_moment)

    def _run(self, within: float, next_moment: Callable[[], float | None]) -> int:
        """Run all that is due, until `next_moment` returns a time after the end, or None."""
        before, ends = self.calls, self.clock.now() + within
        while True:
            passes = 0
            while self._pass():
                passes += 1
                if passes > MAX_PASSES_AT_ONCE:
                    raise AssertionError(
                        f"{MAX_PASSES_AT_ONCE:,} passes over all services, and still more is due at the same "
                        "moment: does a handler emit the event that it handles?"
                    )
            last = next_moment()
            if last is None or last > ends:
                self._end_workers()  # so that a service can be renamed, or the app changed
                return self.calls - before
            moment = self._next_moment() or last
            self.clock.advance(max(0.0, moment - self.clock.now()) + 1e-6)

    def run_for(self, seconds: float) -> int:
        """Let this much time pass, running whatever falls due; return the number of calls."""
        ends = self.clock.now() + seconds
        calls = self.drain(within=seconds)
        self.clock.advance(max(0.0, ends - self.clock.now()))
        return calls + self.drain()

    def _pass(self) -> bool:
        """Let the retry job, the supervisor and each worker do what is due; return whether anything was done."""
        worked = self._retries and self.retry_job.is_due() and self.retry_job.run().touched > 0
        worked = self._ticker.run_due() > 0 or worked
        self._run_periodic_jobs()
        supervisor = self._supervisor()
        self._depth += 1
        try:
            supervisor.renew_leases()
            supervisor.step()
            for child in supervisor.children:
                worked = self._step(child.process) or worked  # type: ignore[arg-type]
        except Exception:
            raise
        except BaseException:
            # All workers are killed, and nobody saw it: what they held comes back when its lease lapses.
            self._supervisors.clear()
            self._was_killed = True  # its name still holds leases, which another worker must not renew
            raise
        finally:
            self._depth -= 1
        if self._problem is not None:
            raise self._problem
        return worked

    def _run_periodic_jobs(self) -> None:
        for job in self.app.registry.periodic.values():
            if job.due is not None:
                if (due := job.due()) is not None and due <= self.clock.now():
                    job.run(lambda: False)
            elif job.in_simulation and self.clock.now() >= self._periodic_due.get(job.name, 0.0):
                self._periodic_due[job.name] = self.clock.now() + job.every_seconds
                job.run(lambda: False)

    def _step(self, worker: SimulatedWorker) -> bool:
        return worker.step()

    def _supervisor(self) -> Supervisor:
        registered = list(self.app.registry.services.values())
        if list(map(id, registered)) != list(map(id, self._services)):
            self._services = registered
            self._end_workers()
        if len(self._supervisors) <= self._depth:
            self._supervisors.append(
                Supervisor(
                    self.store,
                    registered,
                    self._context,
                    self._spawn,
                    name=self._name,
                    processes=self._processes,
                    record=lambda: RunningSlots(monotonic=self.clock.now),
                    monotonic=self.clock.now,
                    poll=0.0,
                )
            )
        return self._supervisors[self._depth]

    def _end_workers(self) -> None:
        for supervisor in self._supervisors[self._depth :]:
            for child in supervisor.children:
                child.process.engine.end()  # type: ignore[attr-defined]
        del self._supervisors[self._depth :]
        if not self._supervisors and not self._was_killed:
            self._named = 0

    def _name(self) -> str:
        self._named += 1
        return "simulation" if self._named == 1 else f"simulation-{self._named}"

    def _spawn(self, worker: str, record: RunningSlots, alone: bool) -> Any:
        started = SimulatedWorker(self._engine(worker, record, suspects=alone))
        return started, started

    @property
    def _context(self) -> Context:
        for supervisor in self._supervisors:
            for child in supervisor.children:
                return child.process.engine.context  # type: ignore[attr-defined, no-any-return]
        return self._engine("simulation", None).context

    def _engine(self, worker: str, record: RunningSlots | None, **changes: Any) -> Engine:
        return Engine(
            self._worker_store(),
            self.app.registry,
            [replace(service, handler=self._watched(service)) for service in self.app.registry.services.values()],
            worker=worker,
            version=self.app.version,
            settings=self.app.engine_settings(inline=True, renews=False, **changes),
            record=record,
            hooks=self.app.hooks,
            random=self._random,
            monotonic=self.clock.now,
        )

    def _worker_store(self) -> Store:
        """Return the store as a worker process sees it."""
        return self.store

    def _watched(self, service: Service) -> Handler:
        """Return a handler that counts its calls, and fails while a dependency is down."""

        def begin() -> None:
            self.calls += 1
            if (call := CURRENT.get()) is not None:
                self._count_repeats(call)
            if (down := next((name for name in service.needs if self.is_down(name)), None)) is not None:
                raise Unavailable(down, "simulated outage")

        def handle(argument: object, work: object) -> object:
            begin()
            return service.handler(argument, work)

        async def handle_async(argument: object, work: object) -> object:
            begin()
            return await service.handler(argument, work)

        return handle_async if service.is_async else handle

    def _count_repeats(self, call: Call) -> None:
        """Stop a handler whose waits follow the real clock: the simulation would take as long as that."""
        now, delivery = self.clock.now(), call.delivery
        call_key = (delivery.row, call.ids[0] if call.ids else "")  # an event with many documents has many calls
        since, count = self._repeats.get(call_key, (now, 0))
        since, count = (since, count + 1) if now - since < REPEAT_SECONDS else (now, 1)
        self._repeats[call_key] = since, count
        if count > MAX_REPEATS:
            documents = ", ".join(f"{delivery.collection}/{given.id}" for given in delivery.inputs[:3])
            self._problem = AssertionError(
                f"service {delivery.service!r} was given {documents or delivery.event_id} {count:,} times within "
                f"{REPEAT_SECONDS:g} s of simulated time: does it take the time from another clock? "
                "Use work.now and work.wait(seconds=…)"
            )

    def _next_moment(self) -> float | None:
        """Return when something will happen by itself, ticks of schedules and periodic jobs included."""
        now = self.clock.now()
        moments = [self._next_of_documents(), *self._periodic_due.values(), self._ticker.next_moment()]
        moments += [job.due() for job in self.app.registry.periodic.values() if job.due is not None]
        return min((moment for moment in moments if moment is not None and moment > now), default=None)

    def _next_of_documents(self) -> float | None:
        """Return when a stored event or document is due; what waits for a breaker waits for its probe."""
        now = self.clock.now()
        services = self.app.registry.services
        due = self.store.next_due(list(services), suspects=True)
        if due is not None and due <= now:
            # What is past and was not claimed is held back.
            each = [self.store.next_due([name], suspects=True) for name in services]
            due = min((moment for moment in each if moment is not None and moment > now), default=None)
        moments = [due, self.store.next_change(), self._next_token(now)]
        if self._retries:
            moments.append(self.retry_job.next_due())
        down = {breaker.dependency for breaker in self.store.breakers() if breaker.open}
        free = [name for name, service in services.items() if down.isdisjoint(service.needs)]
        if self._supervisors and self.store.overdue_suspects(free):
            moments.append(self._supervisors[0].suspects.ready_at)
        return min((moment for moment in moments if moment is not None and moment > now), default=None)

    def _next_token(self, now: float) -> float | None:
        """Return when the rate of a dependency allows the next call that a worker waits for."""
        engines = [child.process.engine for one in self._supervisors for child in one.children]  # type: ignore[attr-defined]
        waits = min((next_limited_claim(engine.slots, now) for engine in engines), default=math.inf)
        return now + waits if waits < math.inf else None

    # -- looking

    def state(self, document: Document) -> DocumentState:
        """Return what the ledger knows of a document, which must exist."""
        found = self.store.state(type(document), document.id)
        if found is None:
            raise AssertionError(f"{document.collection}/{document.id} does not exist")
        return found

    def status(self, document: Document) -> str:
        """Return the status of a document, such as `processed`; the document must exist."""
        return self.state(document).status

    def dead_letters(self, service: str | None = None) -> list[DeadLetter]:
        """Return the dead letters of a service, or of all services."""
        return self.store.dead_letters(service, limit=10_000)
