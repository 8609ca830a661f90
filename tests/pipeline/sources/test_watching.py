"""Watched sources are ingested at intervals, each once at each due time, whatever happens to the workers."""

from __future__ import annotations

from random import Random

import pytest

from onward import App
from onward.pipeline import sources, watching
from onward.pipeline.app import build
from onward.pipeline.documents import Archive, Message, Source, Task
from onward.pipeline.fetch.fetch_errors import UnusableSource
from onward.pipeline.source_kinds import SourceRun
from onward.pipeline.sources import submit
from onward.pipeline.watching import WrongInterval, begin_due_runs, pause, resume, unwatch, watch
from onward.settings import load_settings
from onward.testing.fleet import Fleet
from tests.support.pipeline_runs import Pipeline
from tests.support.shelves import Shelf, shelf_for

BOOKS = "shelf://books"
HOUR, DAY = 3_600.0, 86_400.0


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    return shelf_for(monkeypatch)


def runs(pipeline: Pipeline) -> list[float]:
    """Return when each run was submitted."""
    return sorted(task.submitted_at for task in pipeline.all(Task) if task.source == BOOKS)


def settings(pipeline: Pipeline) -> Source:
    (found,) = pipeline.all(Source)
    return found


def test_a_watched_source_is_ingested_at_once_and_at_each_interval(pipeline: Pipeline, shelf: Shelf) -> None:
    began = pipeline.world.clock.now()
    shelf.put("a", "Book a.")
    watch(pipeline.app, BOOKS, every=HOUR)
    pipeline.world.drain()
    assert pipeline.texts() == ["Book a."]
    shelf.put("b", "Book b.")
    pipeline.world.drain(within=3.5 * HOUR)
    assert pipeline.texts() == ["Book a.", "Book b."]
    assert [round(at - began) for at in runs(pipeline)] == [0, 3600, 7200, 10800]
    assert shelf.taken() == ["a", "b"]


def test_a_run_that_changes_something_is_logged(
    pipeline: Pipeline, shelf: Shelf, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "onward")
    shelf.put("a", "Book a.")
    shelf.put("b", "Book b.")
    watch(pipeline.app, BOOKS, every=HOUR)
    pipeline.world.drain(within=2.5 * HOUR)
    shelf.books.pop("b")
    pipeline.world.drain(within=HOUR)
    logged = [line for line in caplog.messages if line.startswith(BOOKS)]
    assert logged == [f"{BOOKS} was ingested: 2 new", f"{BOOKS} was ingested: 1 removed"]


def test_missed_runs_are_made_up_for_by_one(pipeline: Pipeline, shelf: Shelf) -> None:
    shelf.put("a", "Book a.")
    watch(pipeline.app, BOOKS, every=HOUR)
    pipeline.world.drain()
    began = pipeline.world.clock.now()
    pipeline.world.clock.advance(5.5 * HOUR)  # no worker is alive
    pipeline.world.drain(within=HOUR)
    assert [round((at - began) / HOUR, 2) for at in runs(pipeline)[1:]] == [5.5, 6.0]


def test_a_clock_that_was_ahead_by_a_year_stops_no_source(pipeline: Pipeline, shelf: Shelf) -> None:
    clock = pipeline.world.clock
    clock.advance(365 * DAY)
    watch(pipeline.app, BOOKS, every=HOUR)
    pipeline.world.drain()
    clock.advance(-365 * DAY)
    corrected = clock.now()
    pipeline.world.drain(within=3.5 * HOUR)
    assert [round((at - corrected) / HOUR, 1) for at in runs(pipeline)[:-1]] == [0, 1, 2, 3]


def test_a_clock_that_is_set_back_by_seconds_doubles_no_run(pipeline: Pipeline, shelf: Shelf) -> None:
    watch(pipeline.app, BOOKS, every=10)
    pipeline.world.drain()
    pipeline.world.clock.advance(-15)
    assert begin_due_runs(pipeline.app) == 0


def test_one_run_of_a_source_at_a_time(pipeline: Pipeline, shelf: Shelf) -> None:
    shelf.put("a", "Book a.")
    watch(pipeline.app, BOOKS, every=HOUR)
    pipeline.world.clock.advance(1.5 * HOUR)
    assert begin_due_runs(pipeline.app) == 0, "the first one still waits for a worker"
    begun: list[int] = []

    def wait(path: str) -> None:
        pipeline.world.clock.advance(HOUR)
        begun.append(begin_due_runs(pipeline.app))

    shelf.at_fetch = wait
    pipeline.world.drain()
    assert begun == [0], "it is under way"
    assert len(runs(pipeline)) == 1


def test_a_run_in_several_parts_is_one_run_although_its_first_try_has_failed(
    pipeline: Pipeline, shelf: Shelf
) -> None:
    began, listed = pipeline.world.clock.now(), list[float]()

    def list_in_parts(run: SourceRun) -> None:
        listed.append(pipeline.world.clock.now())
        if len(listed) == 1:
            raise ConnectionError("the shelf fell down")
        if len(listed) < 6:
            run.continue_after = 0.7 * HOUR

    shelf.at_list = list_in_parts
    shelf.put("a", "Book a.")
    watch(pipeline.app, BOOKS, every=HOUR)
    pipeline.world.drain(within=4.5 * HOUR)
    assert [round((at - began) / HOUR, 1) for at in listed] == [0, 0, 0.7, 1.4, 2.1, 2.8, 3, 4]
    assert [round((at - began) / HOUR, 1) for at in runs(pipeline)] == [0, 3, 4]
    assert pipeline.texts() == ["Book a."]


def test_the_store_does_not_grow_with_every_run(
    pipeline: Pipeline, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "KEPT_TASKS", 3)
    shelf.put("a", "Book a.")
    watch(pipeline.app, BOOKS, every=HOUR)
    pipeline.world.drain(within=3.5 * HOUR)
    documents = pipeline.ask("SELECT count(*) FROM documents")
    began = runs(pipeline)
    pipeline.world.drain(within=5 * HOUR)
    assert pipeline.ask("SELECT count(*) FROM documents") == documents
    assert [round(at - began[-1]) for at in runs(pipeline)] == [3 * HOUR, 4 * HOUR, 5 * HOUR], "the last ones stay"
    pipeline.check_at_rest()


def test_several_processes_begin_a_run_once(pipeline: Pipeline, shelf: Shelf) -> None:
    watch(pipeline.app, BOOKS, every=HOUR)
    pipeline.world.drain()
    pipeline.world.clock.advance(HOUR + 1)
    assert [begin_due_runs(pipeline.app) for _ in range(3)] == [1, 0, 0]


def test_pausing_resuming_and_removing(pipeline: Pipeline, shelf: Shelf) -> None:
    app = pipeline.app
    shelf.put("a", "Book a.")
    watch(app, BOOKS, every=HOUR, options={"depth": "3"}, on_vanished="keep")
    pipeline.world.drain()
    assert pause(app, BOOKS)
    assert not pause(app, BOOKS)
    pipeline.world.drain(within=5 * HOUR)
    assert len(runs(pipeline)) == 1
    assert resume(app, BOOKS)
    assert not resume(app, BOOKS)
    pipeline.world.drain()
    assert len(runs(pipeline)) == 2
    assert unwatch(app, BOOKS)
    assert not unwatch(app, BOOKS)
    pipeline.world.drain(within=5 * HOUR)
    assert len(runs(pipeline)) == 2
    assert pipeline.texts() == ["Book a."]
    assert settings(pipeline).options == {"depth": "3"}, "they stay for the next `onward ingest`"


def test_a_source_that_is_paused_while_runs_begin_has_none(
    pipeline: Pipeline, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch(pipeline.app, BOOKS, every=HOUR)
    pipeline.world.drain()
    pipeline.world.clock.advance(HOUR + 1)
    due = watching.watched_sources(pipeline.app)
    pause(pipeline.app, BOOKS)
    monkeypatch.setattr(watching, "watched_sources", lambda app: due)
    assert begin_due_runs(pipeline.app) == 0
    assert len(runs(pipeline)) == 1


def test_watching_again_changes_what_is_given(pipeline: Pipeline, shelf: Shelf) -> None:
    watch(pipeline.app, BOOKS, every=HOUR, on_vanished="keep")
    watch(pipeline.app, BOOKS, every=DAY, options={"depth": "2"})
    found = settings(pipeline)
    assert (found.every, found.on_vanished, found.options) == (DAY, "keep", {"depth": "2"})
    submit(pipeline.app, BOOKS, {"depth": "4"})
    assert settings(pipeline).every == DAY
    assert settings(pipeline).options == {"depth": "4"}


@pytest.mark.parametrize("every", (None, 1.0, float("inf"), float("nan")))
def test_an_interval_must_make_sense(pipeline: Pipeline, shelf: Shelf, every: float | None) -> None:
    with pytest.raises(WrongInterval):
        watch(pipeline.app, BOOKS, every=every)
    assert pipeline.all(Source) == []


def test_a_source_that_fails_is_tried_at_its_next_run_and_stops_no_other(
    pipeline: Pipeline, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = shelf_for(monkeypatch, "others")
    shelf.fails = ConnectionError("the shelf fell down")
    shelf.put("a", "Book a.")
    other.put("o", "Other o.")
    watch(pipeline.app, BOOKS, every=HOUR)
    watch(pipeline.app, "shelf://others", every=HOUR)
    pipeline.world.drain(within=2.5 * HOUR)
    assert "Other o." in pipeline.texts()
    assert len(runs(pipeline)) == 3, "a run that waits for a retry does not hold up the next one"
    state = pipeline.app.state(Archive, settings_id(pipeline))
    assert state is not None
    assert state.last_error is not None
    assert "the shelf fell down" in state.last_error["message"]
    shelf.fails = None
    pipeline.world.drain(within=HOUR)
    assert "Book a." in pipeline.texts()
    assert pipeline.status(BOOKS) == "completed"


def settings_id(pipeline: Pipeline) -> str:
    (found,) = [one for one in pipeline.all(Source) if one.location == BOOKS]
    return found.id


@pytest.mark.parametrize("error", (UnusableSource("its kind is not installed"), KeyError("a fault of its kind")))
def test_a_source_whose_kind_cannot_be_used_stops_no_other(
    error: Exception, pipeline: Pipeline, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf_for(monkeypatch, "others").put("o", "Other o.")
    shelf.put("a", "Book a.")
    for location in (BOOKS, "shelf://others"):
        watch(pipeline.app, location, every=HOUR)
    pipeline.world.drain()
    pipeline.world.clock.advance(HOUR + 1)

    def submit_others(app: App, source: str, **how: bool) -> None:
        if source == BOOKS:
            raise error
        submit(app, source)

    monkeypatch.setattr(watching, "submit", submit_others)
    assert begin_due_runs(pipeline.app) == 1
    assert begin_due_runs(pipeline.app) == 0
    due = {one.location: one.next_run for one in pipeline.all(Source)}
    assert due[BOOKS] == pipeline.world.clock.now() + watching.FAILED_SECONDS, "it is tried again soon"


def test_a_password_in_a_location_is_not_logged(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    watch(pipeline.app, "https://ada:s3cretpw@example.org/page", every=HOUR)
    pipeline.world.clock.advance(HOUR + 1)

    def fail(*_: object, **__: object) -> None:
        raise UnusableSource("its package is gone")

    monkeypatch.setattr(watching, "is_running", lambda app, source: False)
    monkeypatch.setattr(watching, "submit", fail)
    assert begin_due_runs(pipeline.app) == 0
    assert caplog.messages == ["https://***@example.org/page is not ingested: UnusableSource: its package is gone"]


def test_a_forgotten_source_is_watched_no_longer(pipeline: Pipeline, shelf: Shelf) -> None:
    shelf.put("a", "Book a.")
    watch(pipeline.app, BOOKS, every=HOUR)
    pipeline.world.drain()
    pipeline.forget(BOOKS)
    pipeline.world.drain(within=5 * HOUR)
    assert pipeline.ask("SELECT collection FROM documents") == []


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(3))
def test_a_week_of_changes_with_workers_that_crash(shelf: Shelf, tmp_path: object, seed: int) -> None:
    """Every change is found within one interval, and no due time has two runs."""
    random = Random(seed)
    app = build(load_settings({"ONWARD_HOME": str(tmp_path)}))
    fleet = Fleet(app, workers=2, seed=seed)
    with fleet:
        shelf.put("0", "Book 0.", "1")
        watch(app, BOOKS, every=6 * HOUR)
        began = fleet.clock.now()
        fleet.drain()
        fleet.crash_at_random(0.04)
        for number in range(28):
            name = str(random.randrange(6))
            text = f"Book {name} in version {number}."
            shelf.put(name, text, str(number + 2))
            if random.random() < 0.3 and len(shelf.books) > 1:
                shelf.books.pop(next(iter(shelf.books)))
            fleet.drain(within=6 * HOUR)
            fleet.clock.advance(max(0.0, began + (number + 1) * 6 * HOUR + HOUR - fleet.clock.now()))
            fleet.drain()
            ids = [state.id for state in fleet.store.states(Message, limit=1000)]
            texts = sorted(one.body.strip() for one in fleet.store.get_many(Message, ids))
            assert texts == sorted(book.content.decode() for book in shelf.books.values())
        assert fleet.crashes > 5
        assert not fleet.lost
        ids = [state.id for state in fleet.store.states(Task, limit=1000)]
        times = sorted(task.submitted_at - began for task in fleet.store.get_many(Task, ids))
        assert [round(at / HOUR / 6) for at in times] == list(range(29))


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(3))
def test_a_week_of_failures_and_runs_in_parts(
    shelf: Shelf, tmp_path: object, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run may fail, and take longer than an interval: no other one begins before it has ended."""
    random = Random(seed)
    app = build(load_settings({"ONWARD_HOME": str(tmp_path)}))
    parts = 0  # that the run under way has left
    failed, failures, long_runs = False, 0, 0
    begun, doubled = list[float](), list[float]()
    with Fleet(app, workers=2, seed=seed) as fleet:

        def list_in_parts(run: SourceRun) -> None:
            nonlocal parts, failed, failures, long_runs
            failed = random.random() < 0.2
            if failed:
                failures += 1
                raise ConnectionError("the shelf fell down")
            parts = parts - 1 if parts else random.choice((0, 0, 1, 5))
            long_runs += parts == 5
            if parts:
                run.continue_after = 1.7 * HOUR

        def begin(app: App, source: str, *, retries_failed: bool = True) -> None:
            begun.append(fleet.clock.now())
            doubled.extend(begun[-1:] if parts and not failed else [])
            submit(app, source, retries_failed=retries_failed)

        monkeypatch.setattr(watching, "submit", begin)
        shelf.at_list = list_in_parts
        watch(app, BOOKS, every=6 * HOUR)
        fleet.drain()
        fleet.crash_at_random(0.02)
        for number in range(28):
            shelf.put("0", f"Book 0 in version {number}.")
            fleet.drain(within=6 * HOUR)
        assert doubled == []
        shelf.at_list = lambda run: None
        fleet.drain(within=12 * HOUR)
        assert min(fleet.crashes, failures, long_runs) > 0
        assert len(set(begun)) == len(begun)
        ids = [state.id for state in fleet.store.states(Message, limit=1000)]
        assert [one.body.strip() for one in fleet.store.get_many(Message, ids)] == ["Book 0 in version 27."]
