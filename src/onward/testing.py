"""Test a service in milliseconds: a simulated clock, an app run to rest, dependencies that fail.

def test_a_page_is_fetched_after_an_outage():
    with Simulation(app) as world:
        world.fail("website", for_seconds=3 * 3600)
        world.app.publish(PageFound.of(page), documents=[page])
        world.run_for(4 * 3600)
        assert world.status(page) == "processed"
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from types import TracebackType
from typing import Self

from onward.app import App
from onward.backends import open_store
from onward.model.documents import Document, DocumentState
from onward.model.ledger import DeadLetter, Delivery, Settled, Settlement, Verdict
from onward.ports import Store, StoreFull, StoreUnavailable
from onward.recovery.deciding import Rules
from onward.recovery.retry_job import RetryJob
from onward.retry import Unavailable
from onward.runtime.handling import Call, Context, Handling, prepare
from onward.runtime.outcomes import log_outcome, tell
from onward.runtime.probes import Prober
from onward.runtime.service import Dependency, Service
from onward.runtime.signals import BreakerMoved
from onward.runtime.work import Checkpointed, WorkRefused

MAX_CALLS_AT_ONCE = 100_000
"""More calls than this without a moment passing: something goes round in circles."""


class SimulatedClock:
    """A clock that moves only when it is told to."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds


class Simulation:
    """An app in one process and one thread, in memory, where time advances only at rest.

    Handlers run one after the other, `def` handlers inline; the retry job runs when something falls
    due for it, unless told not to. Entering replaces the app's store; leaving gives it back.
    """

    def __init__(
        self, app: App, *, store: str = "sqlite://:memory:", seed: int = 0, retry_job: bool = True
    ) -> None:
        self.app = app
        _ = app.metrics  # from now on, what happens is measured
        self.clock = SimulatedClock()
        self.store: Store = open_store(store, self.clock)
        self.calls = 0
        """How many times a handler was called."""
        self._down: dict[str, float] = {}
        self._before = (app._store, app.registry.dependencies)
        self._context = Context(
            worker="simulation",
            version=app.version,
            registry=app.registry,
            reader=self.store,
            now=self.clock.now,
            ladder=app.settings.ladder(),
            time_limit=app.settings.time_limit_seconds,
            random=Random(seed),
            hooks=app.hooks,
            checkpoint=self._checkpoint,
            newer_alive=self._newer_alive,
        )
        self._prober = Prober(self.store, app.registry, hooks=app.hooks)
        self.retry_job = RetryJob(self.store, app.registry, Rules.of(app.settings), holder="simulation")
        self._retries = retry_job

    def __enter__(self) -> Self:
        self.app._store = self.store
        services = self.app.registry.services.values()
        self.store.subscribe([service.subscription() for service in services])
        self.store.enlist(self._context.worker, {"version": self.app.version})
        needed = {name for service in services for name in service.needs}
        known = self._before[1]
        self.app.registry.dependencies = {
            name: self._failing(known.get(name) or Dependency(name)) for name in needed | known.keys()
        }
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.app._store, self.app.registry.dependencies = self._before
        self.store.close()

    # -- dependencies

    def fail(self, dependency: str, *, for_seconds: float) -> None:
        """Make a dependency fail from now on, for so long: handlers that need it raise `Unavailable`.

        Its health call, if it has one, says no meanwhile.
        """
        self._down[dependency] = self.clock.now() + for_seconds

    def is_down(self, dependency: str) -> bool:
        return self._down.get(dependency, 0.0) > self.clock.now()

    def _failing(self, dependency: Dependency) -> Dependency:
        original = dependency.health
        if original is None:
            return dependency

        def health() -> bool | Awaitable[bool | None] | None:
            return False if self.is_down(dependency.name) else original()

        return replace(dependency, health=health)

    # -- running

    def drain(self, *, within: float = 0.0) -> int:
        """Run all that is due, and all that falls due within so many seconds; answer how many calls."""
        before, ends = self.calls, self.clock.now() + within
        while True:
            started = self.calls
            while self._pass():
                if self.calls - started > MAX_CALLS_AT_ONCE:
                    raise AssertionError(
                        f"{MAX_CALLS_AT_ONCE:,} calls, and still more is due at the same moment: does a handler "
                        "call work.wait() with a time that is past?"
                    )
            moment = self._next_moment()
            if moment is None or moment > ends:
                return self.calls - before
            self.clock.advance(max(0.0, moment - self.clock.now()) + 1e-6)

    def run_for(self, seconds: float) -> int:
        """Let this much time pass, running whatever falls due; answer how many calls that were."""
        ends = self.clock.now() + seconds
        calls = self.drain(within=seconds)
        self.clock.advance(max(0.0, ends - self.clock.now()))
        return calls + self.drain()

    def _pass(self) -> bool:
        worked = self.store.reap() > 0
        worked = self._prober.probe_inline() or worked
        if self._retries and self.retry_job.is_due():
            worked = self.retry_job.run().touched > 0 or worked
        for service in self.app.registry.services.values():
            for suspects in (False, True):
                deliveries = self.store.claim(
                    self._context.worker,
                    service.name,
                    limit=1,
                    lease=60.0,
                    needs=service.needs,
                    healthy_probes=self.app.registry.healthy_probes(),
                    suspects=suspects,
                )
                for delivery in deliveries:
                    worked = True
                    self._handle(service, delivery)
        return worked

    def _handle(self, service: Service, delivery: Delivery) -> None:
        handling = prepare(service, delivery, self._context)
        if handling.opening is not None:
            self._settle(handling, handling.opening)
        for call in handling.calls:
            try:
                if not self._call(call, closes=call is handling.calls[-1]):
                    return
            finally:
                call.let_go()

    def _call(self, call: Call, *, closes: bool) -> bool:
        self.calls += 1
        service = call.service
        with self._outage(service, call):
            settlement = asyncio.run(call.run_async()) if service.is_async else call.run()
        if call.took > call.time_limit:
            settlement = call.failed(call.timeout())
        if settlement is None:
            return False
        settlement.closes = closes
        return self._settle(call, settlement).verdict is Verdict.COMMITTED

    def _settle(self, of: Call | Handling, settlement: Settlement) -> Settled:
        try:
            (settled,) = self.store.settle([settlement])
        except (StoreFull, StoreUnavailable):
            raise
        except Exception as error:  # as in a worker: a work that cannot be committed is a failed one
            if isinstance(of, Handling):
                raise
            closes, settlement = settlement.closes, of.failed(error)
            settlement.closes = closes
            (settled,) = self.store.settle([settlement])
        if settled.verdict is Verdict.COMMITTED:
            log_outcome(of, settlement)
        tell(self.app.hooks, of, settlement, settled)
        for dependency in (*settled.opened, *settled.closed):
            self.app.hooks(BreakerMoved(dependency, dependency in settled.opened))
        return settled

    @contextmanager
    def _outage(self, service: Service, call: Call) -> Iterator[None]:
        down = next((name for name in service.needs if self.is_down(name)), None)
        if down is None:
            yield
            return
        failing = replace(service, handler=_unavailable(down, is_async=service.is_async))
        call.service = failing
        try:
            yield
        finally:
            call.service = service

    def _checkpoint(self, call: Call, settlement: Settlement) -> Checkpointed:
        (settled,) = self.store.settle([settlement])
        if settled.verdict is not Verdict.COMMITTED:
            raise WorkRefused(f"the delivery was taken over: {settled.verdict}")
        if call.work is not None:
            call.work.taken()

        async def finish() -> None:
            pass

        return Checkpointed(finish if call.service.is_async else None)

    def _newer_alive(self, service: str, version: int) -> bool:
        return any(one.get("services", {}).get(service, 0) >= version for one in self.store.workers())

    def _next_moment(self) -> float | None:
        """When something will happen by itself; what waits for a breaker waits for its probe."""
        now = self.clock.now()
        names = list(self.app.registry.services)
        moments = [self.store.next_due(names, suspects=True), self.store.next_change()]
        if moments[0] is not None and moments[0] <= now:
            moments[0] = self._after(now)
        if self._retries:
            moments.append(self.retry_job.next_due())
        return min((one for one in moments if one is not None and one > now), default=None)

    def _after(self, now: float) -> float | None:
        """The next due time that is not past: what is past and was not claimed is held back."""
        due = [
            self.store.next_due([service.name], suspects=True) for service in self.app.registry.services.values()
        ]
        return min((one for one in due if one is not None and one > now), default=None)

    # -- looking

    def state(self, document: Document) -> DocumentState:
        """What the ledger knows of a document; it must exist."""
        found = self.store.state(type(document), document.id)
        if found is None:
            raise AssertionError(f"{document.collection}/{document.id} does not exist")
        return found

    def status(self, document: Document) -> str:
        return self.state(document).status

    def dead_letters(self, service: str | None = None) -> list[DeadLetter]:
        return self.store.dead_letters(service, limit=10_000)


def _unavailable(dependency: str, *, is_async: bool) -> Callable[..., object]:
    def fail(argument: object, work: object) -> None:
        raise Unavailable(dependency, "simulated outage")

    async def fail_async(argument: object, work: object) -> None:
        raise Unavailable(dependency, "simulated outage")

    return fail_async if is_async else fail
