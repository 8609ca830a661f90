"""What services did is kept by the minute: by simulated workers as by real ones."""

from __future__ import annotations

import pytest

from onward import App, Event, Permanent, Work
from onward.ledger.store import Store
from onward.ledger.store_errors import StoreUnavailable
from onward.model.rollups import MINUTE, ServiceCounts, bucket_of
from onward.runtime.service_tally import WRITE_SECONDS, ServiceTally
from onward.testing import Simulation
from tests.support.page_app import HOUR, Page, PagesFound, bring, new_app


class Rung(Event):
    """A bell rang."""

    number: int = 0


def counts(store: Store, service: str = "reading", step: int = MINUTE) -> list[ServiceCounts]:
    return [one for _, one in sorted(store.service_counts(step, 0.0, service).items())]


def total(store: Store, service: str = "reading") -> ServiceCounts:
    whole = ServiceCounts()
    for one in counts(store, service):
        whole.add(one)
    return whole


def test_tries_failures_retries_and_dead_letters_are_counted_in_their_minute() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        if page.id == "bad":
            raise Permanent("no page")
        if page.id == "late" and work.try_number < 3:
            world.clock.advance(0.2)
            raise ConnectionError("reset")

    with Simulation(app, retry_job=False) as world:
        began = bucket_of(world.clock.now(), MINUTE)
        bring(world, "a", "b")
        bring(world, "bad")
        bring(world, "late")
        world.run_for(MINUTE)
        bring(world, "c")
        world.run_for(MINUTE)
        found = {minute - began: one for (minute, _), one in world.store.service_counts(MINUTE, 0.0).items()}
        first = found[0]
        assert (first.events, first.documents) == (2, 3)
        assert (first.failures, first.retries, first.dead_letters) == (3, 2, 1)
        assert first.tries == 6
        assert first.seconds == pytest.approx(0.4)
        assert (found[MINUTE].events, found[MINUTE].failures) == (1, 0)


def test_a_service_that_finishes_no_documents_counts_events() -> None:
    app = new_app()

    @app.service("listening", on=Rung)
    def listen(event: Rung, work: Work) -> None: ...

    with Simulation(app) as world:
        app.publish(*(Rung(number=number) for number in range(3)))
        world.drain()
        whole = total(world.store, "listening")
        assert (whole.events, whole.documents, whole.tries) == (3, 0, 3)


def test_an_idle_service_has_counts_and_a_time_without_a_worker_has_none() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None: ...

    @app.service("listening", on=Rung)
    def listen(event: Rung, work: Work) -> None: ...

    with Simulation(app, retry_job=False) as world:
        bring(world, "a")
        world.drain()
        assert [one.events for one in counts(world.store, "listening")] == [0]
        world.clock.advance(3 * HOUR)
        bring(world, "b")
        world.drain()
        assert [one.events for one in counts(world.store)] == [1, 1], "nothing in between"


def test_waiting_events_are_counted() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page, needs="press")
    def read(page: Page, work: Work) -> None: ...

    with Simulation(app) as world:
        world.fail("press", for_seconds=HOUR)
        for id in "abcdefgh":
            bring(world, id)
        world.run_for(600)
        assert max(one.waiting or 0 for one in counts(world.store)) == 8
        world.run_for(2 * HOUR)
        assert counts(world.store)[-1].waiting == 0


def test_a_real_worker_writes_at_its_end(app: App) -> None:
    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None: ...

    @app.service("listening", on=Rung)
    async def listen(event: Rung, work: Work) -> None: ...

    pages = [Page(id=str(number)) for number in range(20)]
    app.publish(*(PagesFound(page_ids=[page.id]) for page in pages), Rung(), documents=pages)
    app.work_until_idle()
    reading, listening = total(app.store), total(app.store, "listening")
    assert (reading.events, reading.documents, reading.tries) == (20, 20, 20)
    assert reading.waiting is not None
    assert (listening.events, listening.documents) == (1, 0)


# -- what was counted, and is not written yet


class Sink:
    """A store that may be away."""

    def __init__(self) -> None:
        self.time = 600_000.0
        self.away = False
        self.written: list[dict[tuple[int, str], ServiceCounts]] = []

    def now(self) -> float:
        return self.time

    def count_waiting(self, services: list[str]) -> dict[str, int]:
        return dict.fromkeys(services, 7)

    def add_counts(self, counts: dict[tuple[int, str], ServiceCounts]) -> None:
        if self.away:
            raise StoreUnavailable("the store is away")
        self.written.append(counts)


def step(tally: ServiceTally, sink: Sink) -> None:
    tally.roll(sink.now())
    if tally.is_due(sink.now()):
        tally.write(sink)  # type: ignore[arg-type]


def test_an_idle_process_writes_once_a_minute() -> None:
    tally, sink = ServiceTally(["reading"]), Sink()
    for _ in range(180):
        step(tally, sink)
        sink.time += 1
    assert [list(one) for one in sink.written] == [[(600_000 + 60 * n, "reading")] for n in range(3)]
    assert [one.waiting for written in sink.written for one in written.values()] == [7, 7, 7]


def test_what_could_not_be_written_is_written_later_in_its_own_minute() -> None:
    tally, sink = ServiceTally(["reading"]), Sink()
    sink.away = True
    with pytest.raises(StoreUnavailable):
        step(tally, sink)
    sink.time += 2 * MINUTE
    sink.away = False
    step(tally, sink)
    ((first, _), (last, _)) = sorted(sink.written[0])
    assert (first, last) == (600_000, 600_120)


def test_writes_are_seconds_apart() -> None:
    tally, sink = ServiceTally(["reading"]), Sink()
    step(tally, sink)
    sink.time += WRITE_SECONDS - 1
    tally._put({(600_000, "reading"): ServiceCounts(events=1)})
    assert not tally.is_due(sink.now())
    sink.time += 1
    assert tally.is_due(sink.now())
