"""Work on a schedule: each tick is published once, whatever processes there are, and missed ones as declared."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onward import App, Document, Event, Settings, Status, Work, names
from onward.backend_urls import open_store
from onward.ledger.store import Store
from onward.recovery import background_jobs
from onward.recovery.background_jobs import PeriodicJobs, ScheduleThread
from onward.runtime.schedules import FAILED_TICK_SECONDS, MAX_MISSED_TICKS, ScheduleState, Ticker
from onward.runtime.service import RegistrationError
from onward.testing import SimulatedClock, Simulation

HOUR, DAY = 3_600.0, 86_400.0
START = datetime(2026, 3, 1, 6, 30, tzinfo=UTC).timestamp()


class Page(Document):
    at: str


class PageDue(Event):
    page_id: str = names(Page, default="")
    at: str


class Beat(Event):
    by: str  # Of each process another, so that a second event for a tick is no duplicate of the first


class World:
    """A store on a clock that is advanced by hand, and apps that tick on it."""

    def __init__(self, url: str) -> None:
        self.clock = SimulatedClock(START)
        self.store: Store = open_store(url, self.clock)

    def ticker(self, **schedule: Any) -> Ticker:
        """Return the ticker of a process that has just begun, with a task and an event on a schedule."""
        app = App(store=self.store, settings=Settings())
        options: dict[str, Any] = {"schedule": "0 * * * *", **schedule}

        @app.task(name="report", **options)
        def report(tick: datetime) -> None:
            pass

        @app.service("hearing", on=Beat)
        def hear(event: Beat, work: Work) -> None:
            pass

        if isinstance(cron := options.pop("schedule"), str):
            app.schedule("beat", cron=cron, event=lambda tick: Beat(by=f"{id(app)} {tick}"), **options)
        return Ticker(lambda: app.store, app.registry)

    def beats(self) -> int:
        """Return the number of events that are stored."""
        return self.store.counts().get("hearing", {}).get("waiting", 0)

    def pass_time(self, seconds: float, *tickers: Ticker) -> None:
        """Let time pass in minutes, with these processes alive."""
        for _ in range(int(seconds // 60)):
            self.clock.advance(60)
            for ticker in tickers:
                ticker.run_due()

    def calls(self) -> list[str]:
        """Return the hours and minutes of the calls that are stored, each of which has begun one round."""
        states = self.store.states("report_calls", limit=10_000)
        assert {state.round for state in states} <= {1}
        return [state.id.removeprefix("tick-2026-03-")[:8] for state in states]


@pytest.fixture
def world(store_url: str) -> Iterator[World]:
    world = World(store_url)
    yield world
    world.store.close()


def test_a_schedule_begins_with_the_next_tick_and_runs_once_in_a_fleet(world: World) -> None:
    fleet = [world.ticker() for _ in range(3)]
    assert [one.run_due() for one in fleet] == [0, 0, 0]
    world.pass_time(2 * HOUR, *fleet)
    assert world.calls() == ["01T07:00", "01T08:00"]
    state = world.store.get(ScheduleState, "report")
    assert state is not None
    assert (state.last_tick, state.next_tick) == (
        datetime(2026, 3, 1, 8, tzinfo=UTC),
        datetime(2026, 3, 1, 9, tzinfo=UTC),
    )


def test_processes_that_tick_at_the_same_moment_publish_once(world: World) -> None:
    fleet = [world.ticker() for _ in range(4)]
    problems: list[BaseException] = []

    def tick_together() -> None:
        barrier = threading.Barrier(len(fleet))

        def tick(one: Ticker) -> None:
            barrier.wait()
            try:
                one.run_due()
            except BaseException as error:
                problems.append(error)

        threads = [threading.Thread(target=tick, args=(one,)) for one in fleet]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    tick_together()  # they see the schedule first at the same moment, too
    for _ in range(5):
        world.clock.advance(HOUR)
        tick_together()
    assert problems == []
    assert world.calls() == [f"01T{hour:02}:00" for hour in range(7, 12)]
    assert world.beats() == 5


@pytest.mark.parametrize(
    ("missed", "expected"),
    (
        ("last", ["01T07:00", "01T12:00", "01T13:00"]),
        ("all", [f"01T{hour:02}:00" for hour in range(7, 14)]),
        ("none", ["01T07:00", "01T13:00"]),
    ),
)
def test_missed_ticks_are_made_up_for_as_declared(world: World, missed: str, expected: list[str]) -> None:
    before = world.ticker(missed=missed)
    before.run_due()
    world.pass_time(HOUR, before)
    world.clock.advance(5 * HOUR)  # all processes are down, at 12:30 one starts
    after = world.ticker(missed=missed)
    after.run_due()
    world.pass_time(HOUR, after)
    assert world.calls() == expected


def test_a_process_that_was_stopped_in_between_makes_up_for_it_too(world: World) -> None:
    ticker = world.ticker(missed="all")
    ticker.run_due()
    world.clock.advance(3 * HOUR)  # the machine was asleep
    assert ticker.run_due() == 3 + 3
    assert ticker.run_due() == 0


def test_all_missed_ticks_are_bounded(world: World, caplog: pytest.LogCaptureFixture) -> None:
    every = timedelta(seconds=1)
    world.ticker(schedule=every, missed="all").run_due()
    world.clock.advance(30 * DAY)
    assert world.ticker(schedule=every, missed="all").run_due() == MAX_MISSED_TICKS
    assert f"only the last {MAX_MISSED_TICKS} missed ticks" in caplog.text


@pytest.mark.parametrize("missed", ("last", "all", "none"))
def test_a_changed_schedule_begins_with_its_next_tick(world: World, missed: str) -> None:
    before = world.ticker(missed=missed)
    before.run_due()
    world.pass_time(HOUR, before)  # until 07:30
    after = world.ticker(schedule="*/20 * * * *", missed=missed)
    assert after.run_due() == 0, "07:20 is no tick that was missed"
    world.pass_time(20 * 60, after)
    zoned = world.ticker(schedule="*/20 * * * *", timezone="Europe/Berlin", missed=missed)
    assert zoned.run_due() == 0
    world.pass_time(20 * 60, zoned)
    assert world.calls() == ["01T07:00", "01T07:40", "01T08:00"]


def test_a_changed_time_zone_makes_up_for_nothing(world: World) -> None:
    world.ticker(schedule="0 9 * * *").run_due()
    world.clock.advance(2 * HOUR)  # 08:30, and 09:30 in Berlin
    assert world.ticker(schedule="0 9 * * *", timezone="Europe/Berlin").run_due() == 0


def test_two_releases_side_by_side_tick_both_and_lose_nothing(world: World) -> None:
    old, new = world.ticker(missed="all"), world.ticker(schedule="30 * * * *", missed="all")
    for one in (old, new, old):
        one.run_due()
    world.pass_time(3 * HOUR, old, new)
    assert world.calls() == [f"01T{hour:02}:{minute}" for hour in (7, 8, 9) for minute in ("00", "30")]
    world.pass_time(2 * HOUR, new)  # the old one has ended
    assert world.calls()[-2:] == ["01T10:30", "01T11:30"]


def test_a_clock_that_was_a_year_ahead_does_not_stop_a_schedule(world: World) -> None:
    world.clock.advance(365 * DAY)
    stays = world.ticker()
    stays.run_due()
    world.clock.advance(-365 * DAY)
    starts = world.ticker()
    for one in (stays, starts):
        assert one.run_due() == 0
    world.pass_time(HOUR, stays)
    assert world.calls() == ["01T07:00"]
    world.pass_time(HOUR, starts)
    assert world.calls() == ["01T07:00", "01T08:00"]


def test_a_clock_that_is_set_back_an_hour_repeats_no_tick(world: World) -> None:
    ticker = world.ticker()
    ticker.run_due()
    world.pass_time(HOUR, ticker)
    world.clock.advance(-HOUR)
    again, changed = world.ticker(), world.ticker(schedule="0 7-9 * * *")
    for one in (again, changed):
        one.run_due()
    world.pass_time(HOUR, ticker, again, changed)
    assert (world.calls(), world.beats()) == (["01T07:00"], 1)


def test_between_ticks_no_database_is_asked(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ticker = world.ticker()
    ticker.run_due()
    reads: list[str] = []
    read = world.store.db.read

    def counted(statement: str, *args: Any) -> Any:
        reads.append(statement)
        return read(statement, *args)

    monkeypatch.setattr(world.store.db, "read", counted)
    world.pass_time(29 * 60, ticker)
    assert reads == []
    other = world.ticker()
    other.run_due()
    world.clock.advance(60)
    ticker.run_due()
    reads.clear()
    other.run_due()
    assert reads == ["bodies_by_id"], "another process was first: that is one query"


def test_a_tick_is_not_published_on_the_store_of_another_app(store_url: str) -> None:
    store = open_store(store_url)
    app = App(settings=Settings(), store=store)

    @app.task(schedule=timedelta(seconds=1))
    def report() -> None:
        pass

    ticker = Ticker(lambda: store, app.registry)
    assert ticker.run_due() == 0
    assert store.document_counts() == {}
    moment = ticker.next_moment()
    assert moment is not None
    assert moment > store.now() + 30
    store.close()


def test_an_app_without_services_ticks(store_url: str) -> None:
    app = App(store=store_url, settings=Settings())
    app.schedule("often", every=timedelta(seconds=1), event=lambda tick: PageDue(at=str(tick)))
    ticker = Ticker(lambda: app.store, app.registry)
    ticker.run_due()
    moment = ticker.next_moment()
    assert moment is not None
    assert moment <= app.store.now() + 1
    assert app.store.get(ScheduleState, "often") is not None
    app.close()


# -- in a simulation


def declared() -> App:
    return App(store="sqlite://:memory:", settings=Settings())


def test_a_task_runs_every_morning_in_its_time_zone() -> None:
    app = declared()
    ran: list[str] = []

    @app.task(schedule="0 7 * * MON-FRI", timezone="Europe/Berlin")
    def morning_report(tick: datetime, work: Work | None = None) -> str:
        assert work is not None
        assert work.now - tick.timestamp() < 1
        ran.append(f"{tick.astimezone(UTC):%d %H:%M}")
        return "done"

    with Simulation(app) as world:
        world.clock.advance(datetime(2026, 3, 27, tzinfo=UTC).timestamp() - world.clock.now())  # a Friday
        world.run_for(5 * DAY)
        assert ran == ["27 06:00", "30 05:00", "31 05:00"], "clocks are changed on Sunday"
        call = morning_report.call("tick-2026-03-30T05:00:00Z")
        assert (call.result(timeout=0), call.state().round) == ("done", 1)


def test_an_event_is_published_on_a_schedule() -> None:
    app = declared()
    got: list[str] = []

    @app.service("reading", on=PageDue)
    def read(event: PageDue, work: Work) -> None:
        got.append(event.at)

    def only_even_hours(tick: datetime) -> PageDue | None:
        return PageDue(at=f"{tick:%H:%M}") if tick.hour % 2 == 0 else None

    app.schedule("even hours", every=timedelta(hours=1), event=only_even_hours)
    app.schedule("noon", cron="0 12 * * *", event=lambda tick: [PageDue(at="noon"), PageDue(at="midday")])
    with Simulation(app) as world:
        world.clock.advance(START - world.clock.now())
        world.run_for(6 * HOUR)
        assert got == ["08:00", "10:00", "12:00", "noon", "midday"]


def test_an_app_without_services_publishes_on_a_schedule() -> None:
    app, ticks = declared(), list[datetime]()

    def make(tick: datetime) -> PageDue:
        ticks.append(tick)
        return PageDue(at=str(tick))

    app.schedule("hourly", every=timedelta(hours=1), event=make)
    with Simulation(app) as world:
        world.run_for(3 * HOUR)
        assert len(ticks) == 3
        counts = [count for states in world.store.counts().values() for count in states.items()]
        assert counts == [("unrouted", 3)]


def test_a_schedule_that_fails_stops_no_other_and_loses_no_tick() -> None:
    app = declared()
    got: list[str] = []
    broken = True

    @app.service("reading", on=PageDue)
    def read(event: PageDue, work: Work) -> None:
        got.append(event.at)

    def make(tick: datetime) -> PageDue:
        if broken:
            raise KeyError("no page")
        return PageDue(at=f"broken {tick:%H:%M}")

    app.schedule("broken", every=timedelta(hours=1), event=make)
    app.schedule("whole", every=timedelta(hours=1), event=lambda tick: PageDue(at=f"{tick:%H:%M}"))
    with Simulation(app) as world:
        ticker = Ticker(lambda: world.store, app.registry)
        world.clock.advance(START - world.clock.now())
        ticker.run_due()
        world.clock.advance(HOUR)
        with pytest.raises(KeyError, match="no page"):
            ticker.run_due()
        broken = False
        assert ticker.run_due() == 0
        world.clock.advance(FAILED_TICK_SECONDS)
        assert ticker.run_due() == 1
        world.drain()
        assert sorted(got) == ["07:00", "broken 07:00"]


@pytest.mark.prove
def test_calls_of_a_schedule_are_removed_like_others() -> None:
    app = declared()

    @app.task(schedule=timedelta(minutes=1), keep=HOUR)
    def touch() -> None:
        pass

    with Simulation(app) as world:
        world.run_for(DAY)
        counts = world.store.document_counts()
        assert counts["onward_schedules"] == {Status.PROCESSED: 1}
        assert 55 <= counts["touch_calls"][Status.PROCESSED] <= 125


def test_a_declaration_that_cannot_work_is_refused() -> None:
    app = declared()

    def needs_more(tick: datetime, address: str) -> None:
        pass

    with pytest.raises(RegistrationError, match=r"task 'needs_more' has a schedule.*missing .* 'address'"):
        app.task(schedule="0 7 * * *")(needs_more)
    with pytest.raises(RegistrationError, match="Annotate the parameter as `tick: datetime`"):
        app.task(name="untyped", schedule="0 7 * * *")(lambda tick: None)
    with pytest.raises(RegistrationError, match="schedule 'wrong' has the cron expression '61 "):
        app.task(name="wrong", schedule="61 * * * *")(lambda: None)
    with pytest.raises(RegistrationError, match="key"):
        app.task(name="keyed", schedule="0 7 * * *", key="no function")(lambda: None)  # type: ignore[call-overload]
    with pytest.raises(RegistrationError, match="concurrency"):
        app.task(name="refused", schedule="0 7 * * *", concurrency=-1)(lambda: None)
    assert not app.registry.services, "nothing is left of them"
    assert not app.registry.schedules
    with pytest.raises(RegistrationError, match="missed='some'; give 'last'"):
        app.task(name="some", schedule="0 7 * * *", missed="some")(lambda: None)  # type: ignore[call-overload]
    make: Callable[[datetime], Event] = lambda tick: PageDue(at="")  # noqa: E731
    for given in ({}, {"cron": "0 7 * * *", "every": timedelta(hours=1)}):
        with pytest.raises(RegistrationError, match="takes either cron="):
            app.schedule("both", event=make, **given)  # type: ignore[arg-type]
    app.schedule("daily", cron="0 7 * * *", event=make)
    with pytest.raises(RegistrationError, match="'daily' is declared twice"):
        app.schedule("daily", cron="0 8 * * *", event=make)
    with pytest.raises(RegistrationError, match="'daily' is declared twice"):
        app.task(name="daily", schedule="0 8 * * *")(lambda: None)
    assert not app.registry.services
    assert list(app.registry.schedules) == ["daily"]


# -- in a process


def test_a_process_ticks_in_a_thread_that_no_periodic_job_holds_up(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(store=store_url, settings=Settings())
    ticked, held = threading.Event(), threading.Event()

    def make(tick: datetime) -> None:
        ticked.set()

    @app.service("reading", on=PageDue)
    def read(event: PageDue, work: Work) -> None:
        pass

    @app.periodic("slow", every=DAY)
    def slow(stopped: Callable[[], bool]) -> None:
        held.wait(60)

    app.schedule("often", every=timedelta(seconds=1), event=make)
    monkeypatch.setattr(background_jobs, "MAX_TICK_JITTER_SECONDS", 0.0)
    with PeriodicJobs(lambda: app.store, app.registry, holder="a"):
        assert ticked.wait(60)
        held.set()
    app.close()


def test_the_thread_waits_until_the_next_tick(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(store_url)
    monkeypatch.setattr(background_jobs, "MAX_TICK_JITTER_SECONDS", 0.0)
    thread = ScheduleThread(world.ticker(), lambda error: None)
    assert thread.step()
    assert thread._poll == 60.0, "a clock that was set is noticed after a minute"
    world.clock.advance(29 * 60 + 50)
    assert thread.step()
    assert thread._poll == pytest.approx(10.0)
    world.clock.advance(10)
    assert thread.step()
    assert world.calls() == ["01T07:00"]
    world.store.close()
