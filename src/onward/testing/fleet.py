"""A fleet of workers that crash, on a simulated clock. One seed decides everything, and replays it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from onward.app import App
from onward.ledger.sqlite.dialect import SQLiteDatabase
from onward.ledger.store import Store
from onward.model.documents import Status
from onward.model.ledger import CommitResult, CommitStatus, Settlement
from onward.recovery.common_failures import FAILING_TOGETHER_SECONDS
from onward.runtime.handler_call import CURRENT
from onward.runtime.handler_types import Handler
from onward.runtime.service import Service
from onward.testing.faults import FaultyDatabase, Killed
from onward.testing.simulation import SimulatedWorker, Simulation

DAY = 86_400.0
MAX_STATEMENTS = 60  # a worker that is about to crash does so before its next statements of this number
MACHINE_SHARE = 0.1  # of the crashes, those of the whole machine, which nobody sees: its leases have to lapse


class CheckedStore(Store):
    """A store that checks whether what it commits was still its worker's to commit."""

    broken: list[str]

    def settle(self, settlements: Sequence[Settlement]) -> list[CommitResult]:
        connection: Any = self.db._writer  # type: ignore[attr-defined]
        held = {
            settlement.row: connection.execute(
                "SELECT state, token FROM ledger WHERE id = ?", (settlement.row,)
            ).fetchone()
            for settlement in settlements
        }
        results = super().settle(settlements)
        for settlement, result in zip(settlements, results, strict=True):
            mine = held[settlement.row] == ("claimed", settlement.token)
            if result.status is CommitStatus.COMMITTED and not mine:
                self.broken.append(f"row {settlement.row} was committed by a worker that had lost it")
        return results


class Fleet(Simulation):
    """An app with several worker processes that may crash at any statement, in memory, on a simulated clock.

    It is a `Simulation` whose workers share a database and die: in the middle of a handler, of a transaction, or
    after a commit whose result they never see; now and then the whole machine, whose leases lapse.
    """

    def __init__(self, app: App, *, workers: int = 3, seed: int = 0, retry_job: bool = True) -> None:
        if workers < 1:
            raise ValueError(f"Fleet(workers={workers}): must be at least 1")
        self._database = SQLiteDatabase(":memory:")
        super().__init__(app, seed=seed, retry_job=retry_job)
        self._processes = workers
        self._rate = 0.0
        self._started = 0
        self._broken: list[str] = []
        self.crashes = 0  # worker processes that have died

    def _open(self, url: str) -> Store:
        return Store(self._database, self.clock)

    def crash_at_random(self, rate: float = 0.1) -> None:
        """From now on, let workers crash with this chance in each of their steps and each call; 0: no more."""
        if not 0 <= rate < 1:
            raise ValueError(f"crash_at_random({rate}): must be a chance from 0 to below 1")
        self._rate = rate

    def run_until_idle(self, *, within: float = FAILING_TOGETHER_SECONDS + DAY) -> int:
        """Run until nothing is due within this simulated time; return the number of calls of handlers.

        The usual time is that after which each document that keeps failing is given up.

        Later ticks of schedules do not count: with a schedule, something is always due.
        """
        calls = self._run(within, self._next_of_documents)
        assert not self._broken, self._broken
        return calls

    @property
    def lost(self) -> list[str]:
        """The documents that are not final, each as `collection/id`; none, after `run_until_idle`."""
        return self._with_status(Status.PENDING)

    @property
    def failed(self) -> list[str]:
        """The documents that were given up, each as `collection/id`: for an error, or for three crashes."""
        return sorted((*self._with_status(Status.FAILED), *self._with_status(Status.FAILED_MAX_RETRIES)))

    def _with_status(self, status: Status) -> list[str]:
        return sorted(f"{state.collection}/{state.id}" for state in self.store.find_states(status=status))

    # -- crashes

    def _worker_store(self) -> Store:
        store = CheckedStore(FaultyDatabase(self._database, self._random, Counter()), self.clock)
        store.broken = self._broken
        return store

    def _name(self) -> str:
        self._started += 1
        return f"worker-{self._started}"

    def _step(self, worker: SimulatedWorker) -> bool:
        database: FaultyDatabase = worker.engine.store.db  # type: ignore[assignment]
        if self._rate and self._random.random() < self._rate:
            database.die_after(self._random.randrange(MAX_STATEMENTS))
        try:
            return worker.step()
        except Killed:
            self.crashes += 1
            worker.kill()
            database.die_after(None)
            if self._random.random() < MACHINE_SHARE:
                self._supervisors.clear()
            return True

    def _watched(self, service: Service) -> Handler:
        handler = super()._watched(service)

        def trouble() -> None:
            call = CURRENT.get()
            if call is not None and self._rate and self._random.random() < self._rate:
                call.opened.context.reader.db.die_after(0)  # type: ignore[attr-defined]
                raise Killed

        def handle(argument: object, work: object) -> object:
            returned = handler(argument, work)
            trouble()
            return returned

        async def handle_async(argument: object, work: object) -> object:
            returned = await handler(argument, work)
            trouble()
            return returned

        return handle_async if service.is_async else handle

    def _next_of_documents(self) -> float | None:
        # A worker that crashed at once is started again after a while.
        now = self.clock.now()
        restarts = [supervisor.restarts_at for supervisor in self._supervisors]
        moments = [super()._next_of_documents(), *(moment for moment in restarts if moment > now)]
        return min((moment for moment in moments if moment is not None), default=None)

    def _end_workers(self) -> None:
        for supervisor in self._supervisors:
            for child in supervisor.children:
                child.process.engine.store.db.die_after(None)  # type: ignore[attr-defined]
        super()._end_workers()
