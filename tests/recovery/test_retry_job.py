"""The retry job: what is due is put back, once; what had its rounds is given up; nothing stops the rest."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from onward import App, Document, DocumentState, Event, Permanent, Reader, Settings, Work, names
from onward.recovery.retry_decision import RetryJobRules
from onward.recovery.retry_job import RetryJob, describe_run
from onward.testing import Simulation
from tests.support.page_app import DAY, HOUR, MINUTE, Page, PagesFound, bring, new_app


class Archive(Document, collection="archives"):
    pass


class ArchiveIngested(Event):
    archive_id: str = names(Archive)


@pytest.fixture
def app() -> App:
    return new_app()


@pytest.fixture
def read(app: App) -> list[str]:
    """What was read, and an archive named `bad` that never can be."""
    done: list[str] = []

    @app.service("parsing", on=ArchiveIngested, finishes=Archive)
    def parse(archive: Archive, work: Work) -> None:
        if archive.id.startswith("bad"):
            raise ValueError("it cannot be read")
        done.append(archive.id)

    return done


def write(world: Simulation, id: str, collection: str = "archives", **fields: Any) -> None:
    """A document as others write it, with whatever they think belongs there."""
    world.app.add(Archive(id=id))
    assignments = ", ".join(f"{name} = ?" for name in fields)
    if fields:
        connection = world.store.db._writer  # type: ignore[attr-defined]  # as others do: past our code
        connection.execute(
            f"UPDATE documents SET {assignments}, check_at = 0 WHERE collection = ? AND id = ?",
            [*fields.values(), collection, id],
        )


def state(world: Simulation, id: str) -> DocumentState:
    found = world.store.state("archives", id)
    assert found is not None
    return found


# -- the three tests of the retry policy's own page


def test_a_pending_document_is_put_back(app: App, read: list[str]) -> None:
    with Simulation(app, retry_job=False) as world:
        write(world, "a", created_at=None)
        run = world.retry_job.run(full=True)
        found = state(world, "a")
        assert (found.attempt_count, found.last_attempt_time) == (1, world.clock.now())
        assert run.requeued == {"archives": 1}
        assert world.store.counts()["parsing"] == {"waiting": 1}
        totals = world.store.totals()
        assert totals["retry_job_documents_requeued_total"] == {"archives": 1.0}
        assert totals["retry_job_runs_total"] == {"success": 1.0}
        assert totals["retry_job_last_success_timestamp_seconds"] == {"": world.clock.now()}
        world.drain()
        assert (read, state(world, "a").status) == (["a"], "processed")


def test_backoff_is_waited_for(app: App, read: list[str]) -> None:
    with Simulation(app, retry_job=False) as world:
        now = world.clock.now()
        error = '{"error_type": "ValueError", "message": "no"}'
        write(world, "a", attempt_count=2, last_attempt_time=now - 5 * MINUTE, last_error=error)
        run = world.retry_job.run(full=True)
        assert (run.requeued, run.later) == ({}, 1)
        assert state(world, "a").attempt_count == 2
        assert world.store.totals()["retry_job_documents_skipped_backoff_total"] == {"archives": 1.0}
        assert world.retry_job.next_due() == now + 5 * MINUTE
        world.clock.advance(10 * MINUTE)
        assert world.retry_job.run().requeued == {"archives": 1}
        assert state(world, "a").attempt_count == 3


def test_a_skipped_document_is_counted_once_a_run_and_only_for_its_backoff(app: App, read: list[str]) -> None:
    def skipped(world: Simulation) -> dict[str, float]:
        return world.store.totals().get("retry_job_documents_skipped_backoff_total", {})

    with Simulation(app, retry_job=False) as world:
        job, now = world.retry_job, world.clock.now()
        error = '{"error_type": "ValueError", "message": "no"}'
        write(world, "a", attempt_count=2, last_attempt_time=now, last_error=error)
        write(world, "silent", attempt_count=1, last_attempt_time=now)  # due after the stuck threshold
        write(world, "scheduled", attempt_count=1, last_attempt_time=now, last_error=error, retry_at=now + DAY)
        write(world, "odd", status="cooking", attempt_count=1, last_attempt_time=now, last_error=error)
        for _ in range(3):
            job.run(full=False)  # as it wakes up when something is due
        assert skipped(world) == {}
        job.run(full=True)
        assert skipped(world) == {"archives": 1.0}
        world.clock.advance(5 * MINUTE)
        job.run(full=True)
        assert skipped(world) == {"archives": 2.0}
        world.clock.advance(6 * MINUTE)
        assert job.run(full=True).requeued == {"archives": 1}
        assert skipped(world) == {"archives": 2.0}, "its backoff of 10 min has elapsed"


def test_a_document_that_had_its_rounds_is_given_up(
    app: App, read: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with Simulation(app, retry_job=False) as world:
        write(world, "a", attempt_count=3, last_error='{"error_type": "KeyError", "message": "no"}')
        run = world.retry_job.run(full=True)
        assert (run.requeued, run.exhausted) == ({}, {"archives": 1})
        assert state(world, "a").status == "failed_max_retries"
        totals = world.store.totals()
        assert totals["retry_job_documents_max_retries_exceeded_total"] == {"archives": 1.0}
        assert totals["retry_job_failed_documents"] == {"archives": 1.0}
        (line,) = [one for one in caplog.records if one.levelno == logging.ERROR]
        for part in ("archives/a", "3 of 3 rounds", "KeyError"):
            assert part in line.getMessage()
        assert world.retry_job.run(full=True).touched == 0, "it is given up once"


# -- from end to end


def test_an_archive_gets_three_rounds_of_three_tries(app: App, read: list[str]) -> None:
    with Simulation(app) as world:
        bad = Archive(id="bad")
        world.app.publish(ArchiveIngested.of(bad), documents=[bad])
        began = world.clock.now()
        world.run_for(DAY)
        found = world.state(bad)
        assert (world.calls, found.status, found.attempt_count) == (9, "failed_max_retries", 3)
        rounds = [one for one in (found.attempts["first"], *found.attempts["last"]) if one["outcome"] == "gave_up"]
        # A round takes 15 s; then 5 and 10 minutes until the next.
        assert [round(one["at"] - began) for one in rounds] == [15, 330, 945]
        assert len(world.dead_letters()) == 1


def test_what_heals_in_time_leaves_nothing_behind(app: App) -> None:
    failures = 5

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise ConnectionError("not now")

    with Simulation(app) as world:
        (page,) = bring(world, "a")
        world.run_for(HOUR)
        assert (world.status(page), world.state(page).attempt_count) == ("processed", 2)
        assert world.dead_letters() == []
        assert world.store.next_check() is None


def test_what_failed_for_good_is_not_put_back(app: App) -> None:
    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        raise Permanent("never")

    with Simulation(app) as world:
        (page,) = bring(world, "a")
        world.run_for(DAY)
        assert (world.calls, world.status(page)) == (1, "failed")


def test_an_operators_time_is_kept(app: App, read: list[str]) -> None:
    with Simulation(app) as world:
        write(world, "a", status="failed", attempt_count=3)
        world.store.schedule([("archives", "a")], world.clock.now() + HOUR)
        world.run_for(HOUR - 1)
        assert (read, state(world, "a").status) == ([], "failed")
        world.run_for(2)
        assert (read, state(world, "a").status) == (["a"], "processed")
        assert state(world, "a").retry_at is None


def test_a_wish_that_is_taken_back_changes_nothing(app: App, read: list[str]) -> None:
    with Simulation(app) as world:
        write(world, "a", status="failed_max_retries", attempt_count=3)
        world.store.schedule([("archives", "a")], world.clock.now() + HOUR)
        world.store.unschedule([("archives", "a")])
        world.run_for(DAY)
        assert (read, state(world, "a").status) == ([], "failed_max_retries")


# -- what others write


def test_odd_documents_are_reported_one_by_one_and_stop_nothing(app: App, read: list[str]) -> None:
    with Simulation(app, retry_job=False) as world:
        now = world.clock.now()
        write(world, "unknown status", status="waiting for Godot")
        write(world, "negative", attempt_count=-3, last_attempt_time=now - DAY)
        write(world, "naive", attempt_count=1, last_attempt_time="2027-01-01T00:00:00", created_at="2026-12-31")
        write(world, "future", attempt_count=1, last_attempt_time=now + 10 * DAY)
        broken = {"last_error": "it broke {", "attempts": "[not a history"}
        write(world, "no json", attempt_count=1, last_attempt_time=now - DAY, **broken)
        write(world, "nothing", created_at=None, updated_at=None)
        write(world, "processing", status="processing", attempt_count=1, last_attempt_time=now - DAY)
        run = world.retry_job.run(full=True)
        assert run.requeued == {"archives": 6}
        assert sorted(one.partition(":")[0] for one in run.problems) == [
            "archives/future",
            "archives/negative",
            "archives/unknown status",
        ]
        assert any("waiting for Godot" in line for line in describe_run(run))
        assert world.store.state("archives", "no json") is not None
        assert world.store.states("archives", limit=10)
        assert world.store.find_states(status="pending", limit=10)
        world.drain()
        assert sorted(read) == ["future", "naive", "negative", "no json", "nothing", "processing"]
        assert state(world, "unknown status").status == "waiting for Godot", "it is left as it is"


def test_a_document_that_cannot_be_put_back_stops_no_other(app: App) -> None:
    def requeue(states: Sequence[DocumentState], store: Reader) -> list[PagesFound]:
        if any(one.id == "cursed" for one in states):
            raise RuntimeError("no event for this one")
        return [PagesFound(page_ids=[one.id for one in states])]

    @app.service("reading", on=PagesFound, finishes=Page, requeue=requeue)
    def read(page: Page, work: Work) -> None:
        pass

    with Simulation(app, retry_job=False) as world:
        world.app.add(*(Page(id=id) for id in ("a", "cursed", "b")))
        world.clock.advance(HOUR)
        run = world.retry_job.run()
        assert run.requeued == {"pages": 2}
        (problem,) = run.problems
        assert "pages/cursed" in problem
        assert "no event for this one" in problem
        assert world.store.totals()["retry_job_errors_total"] == {"RuntimeError": 1.0}
        assert world.retry_job.run().problems == [], "it is not tried over and over"


def test_an_event_that_needs_more_than_ids_comes_from_the_dead_letter(app: App) -> None:
    class Ordered(Event):
        page_id: str = names(Page)
        copies: int

    seen: list[str] = []
    healed = False

    @app.service("printing", on=Ordered, finishes=Page)
    def print_page(page: Page, work: Work) -> None:
        if not healed:
            raise ConnectionError("out of paper")
        seen.append(page.id)

    with Simulation(app) as world:
        page = Page(id="a")
        world.app.publish(Ordered(page_id="a", copies=3), documents=[page])
        world.drain(within=MINUTE)
        healed = True
        world.run_for(10 * MINUTE)
        assert (seen, world.status(page), world.state(page).attempt_count) == (["a"], "processed", 2)


def test_what_nobody_finishes_here_is_left_to_others(app: App, read: list[str]) -> None:
    with Simulation(app, retry_job=False) as world:
        write(world, "a", created_at=None)
        del world.app.registry.services["parsing"]
        run = world.retry_job.run(full=True)
        assert (run.touched, run.held_up) == (0, 0)
        assert world.retry_job.next_due() is None
        assert world.store.next_check() == 0.0, "whoever finishes it has not missed its time"


def test_a_document_whose_row_was_deleted_by_hand_is_found_again(app: App, read: list[str]) -> None:
    with Simulation(app, retry_job=False) as world:
        archive = Archive(id="a")
        world.app.publish(ArchiveIngested.of(archive), documents=[archive])
        world.store.db._writer.execute("DELETE FROM ledger")  # type: ignore[attr-defined]
        run = world.retry_job.run(full=True)
        assert "archives/a" in run.problems[0]
        assert run.requeued == {}, "nobody knows yet that nothing will be heard of it"
        world.clock.advance(DAY)
        assert world.retry_job.run(full=True).requeued == {"archives": 1}


def test_only_one_of_several_works_at_a_time(app: App, read: list[str]) -> None:
    with Simulation(app, retry_job=False) as world:
        write(world, "a", created_at=None)
        world.store.acquire_role("retry job", "somebody else", 60)
        run = world.retry_job.run()
        assert (run.led, run.touched) == (False, 0)
        assert list(describe_run(run)) == ["another retry job is at work"]
        world.clock.advance(60)
        assert world.retry_job.run().requeued == {"archives": 1}


def test_those_of_the_same_attempt_share_an_event(app: App) -> None:
    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        pass

    with Simulation(app, retry_job=False) as world:
        world.app.add(*(Page(id=str(n)) for n in range(1200)))
        world.clock.advance(HOUR)
        assert world.retry_job.run().requeued == {"pages": 1200}
        assert world.store.counts()["reading"] == {"waiting": 3}


# -- what must never spin, starve or come back


def _failing(app: App, **more: Any) -> None:
    @app.service("reading", on=PagesFound, finishes=Page, **more)
    def read(page: Page | list[Page], work: Work) -> None:
        raise ValueError("it cannot be read")


def _quiet_polls(world: Simulation, hours: float, within: float = MINUTE) -> tuple[int, int]:
    """How often in this time nothing is due within a minute, and how often the job ran."""
    quiet = runs = 0
    for _ in range(int(hours * HOUR / 10)):
        world.clock.advance(10)
        if world.retry_job.is_due():
            world.retry_job.run()
            runs += 1
        due = world.retry_job.next_due()
        quiet += due is None or due > world.clock.now() + within
    return quiet, runs


def test_what_waits_for_a_dependency_leaves_others_in_peace(app: App) -> None:
    """Whoever waits for a moment in which nothing is due finds one."""
    _failing(app, needs="model")
    with Simulation(app, retry_job=False) as world:
        for number in range(40):
            bring(world, str(number))
            world.run_for(30)
        world.store.open_breaker("model", "maintenance", by_hand=True)
        quiet, runs = _quiet_polls(world, 3)
        assert quiet == 3 * 360
        assert runs <= 13, "only what each interval brings"
        world.store.close_breaker("model")
        assert sum(world.retry_job.run().requeued.values()) == 40, "when it is back, all are put back at once"


def test_documents_that_are_not_complete_are_looked_at_together(app: App) -> None:
    _failing(app, requeue=lambda states, store: [])
    with Simulation(app, retry_job=False) as world:
        for number in range(40):
            world.app.add(Page(id=str(number)))
            world.clock.advance(30)
        quiet, runs = _quiet_polls(world, 3)
        assert quiet > 3 * 360 * 0.8
        assert runs < 60


@pytest.mark.parametrize("pages", (60, pytest.param(600, marks=pytest.mark.prove)))
def test_a_large_batch_whose_events_begin_no_round_ends(app: App, pages: int) -> None:
    class Asked(Event):
        page_ids: list[str] = names(Page, default=[])

    _failing(
        app, sets_aside=True, batch=100, requeue=lambda states, store: [Asked(page_ids=[s.id for s in states])]
    )
    with Simulation(app) as world:
        bring(world, *(f"{number:03}" for number in range(pages)))
        world.run_for(10 * MINUTE)
        (batch,) = world.store.failed_batches()
        assert batch.retry_count == 2


def test_what_is_discarded_stays_so(app: App, read: list[str]) -> None:
    with Simulation(app) as world:
        write(world, "a", status="failed")
        world.store.schedule([("archives", "a")], world.clock.now() + HOUR)
        world.store.discard("archives", "a")
        world.run_for(DAY)
        assert (read, state(world, "a").status) == ([], "discarded")


def test_a_renamed_service_takes_over_all_that_the_old_one_had(app: App) -> None:
    _failing(app, sets_aside=True)
    with Simulation(app) as world:
        bring(world, "a")
        world.drain(within=30)
        before = app.registry.services.pop("reading")
        healed: list[str] = []

        @app.service("scanning", on=PagesFound, finishes=Page, was="reading")
        def scan(page: Page, work: Work) -> None:
            healed.append(page.id)

        bring(world, "b")
        assert [one.service for one in world.store.subscriptions()] == ["scanning"]
        world.run_for(HOUR)
        assert sorted(healed) == ["a", "b"]
        assert {world.store.state(Page, id).attempt_count for id in "ab"} == {1, 2}  # type: ignore[union-attr]
        # And back again: nothing is left under a name that no service has.
        del app.registry.services["scanning"]
        before = app.registry.services["reading"] = replace(before, was=("scanning",))
        world.store.subscribe([before.subscription()])
        bring(world, "c")
        assert world.store.counts()["reading"]["waiting"] == 1


def test_a_service_that_is_slow_to_make_its_events_holds_nobody_up(app: App) -> None:
    written: list[bool] = []

    def requeue(states: Sequence[DocumentState], store: Reader) -> list[PagesFound]:
        written.append(world.store.db._depth == 0)  # type: ignore[attr-defined]
        return [PagesFound(page_ids=[one.id for one in states])]

    @app.service("reading", on=PagesFound, finishes=Page, requeue=requeue)
    def read(page: Page, work: Work) -> None:
        pass

    with Simulation(app, retry_job=False) as world:
        world.app.add(Page(id="a"))
        world.clock.advance(HOUR)
        assert world.retry_job.run().requeued == {"pages": 1}
        assert written == [True], "no transaction is open meanwhile"


def test_what_changes_while_it_is_judged_is_judged_again(app: App) -> None:
    def requeue(states: Sequence[DocumentState], store: Reader) -> list[PagesFound]:
        world.store.discard("pages", "a")
        return [PagesFound(page_ids=[one.id for one in states])]

    @app.service("reading", on=PagesFound, finishes=Page, requeue=requeue)
    def read(page: Page, work: Work) -> None:
        pass

    with Simulation(app, retry_job=False) as world:
        world.app.add(Page(id="a"), Page(id="b"))
        world.clock.advance(HOUR)
        assert world.retry_job.run().requeued == {"pages": 1}
        assert world.store.counts()["reading"] == {"waiting": 1}
        assert world.status(Page(id="a")) == "discarded"


def test_a_run_that_is_told_to_stop_leaves_the_rest(app: App) -> None:
    _failing(app)
    with Simulation(app, retry_job=False) as world:
        world.app.add(*(Page(id=str(number)) for number in range(1200)))
        world.clock.advance(HOUR)
        asked = iter([False, True, True])
        world.retry_job.stopped = lambda: next(asked)
        assert world.retry_job.run().requeued == {"pages": 500}
        world.retry_job.stopped = lambda: False
        assert world.retry_job.run().requeued == {"pages": 700}


def test_bytes_where_text_should_be_stop_nothing(app: App, read: list[str]) -> None:
    with Simulation(app, retry_job=False) as world:
        write(world, "a", created_at=None)
        write(world, "b", created_at=None, last_error=b"\x00\xff", attempts=b"\x01")
        assert world.retry_job.run().requeued == {"archives": 2}


def test_a_gauge_clears_when_nothing_is_left_to_count(app: App, read: list[str]) -> None:
    with Simulation(app, retry_job=False) as world:
        world.app.add(Archive(id="a"), source="s")
        world.store.defer_checks([(("archives", "a"), world.clock.now() + 9 * DAY)])
        world.clock.advance(2 * DAY)
        world.retry_job.run(full=True)
        assert world.store.totals()["retry_job_stuck_documents"] == {"archives": 1.0}
        world.store.forget("s")
        world.retry_job.run(full=True)
        assert world.store.totals()["retry_job_stuck_documents"] == {"archives": 0.0}


def test_gauges_are_looked_after_once_in_an_interval_however_many_jobs_run(app: App, read: list[str]) -> None:
    with Simulation(app, retry_job=False) as world:
        other = RetryJob(
            world.store, app.registry, RetryJobRules.of(app.settings, app.registry.subscriptions()), holder="other"
        )
        for job in (world.retry_job, other, world.retry_job):
            job.run()
        assert world.store.totals()["retry_job_runs_total"] == {"success": 1.0}
        assert not other.is_due()
        world.clock.advance(900)
        assert other.is_due()


def test_a_letter_that_was_put_away_comes_back_only_if_an_operator_wants_it(app: App) -> None:
    class Ordered(Event):
        page_id: str = names(Page)
        copies: int

    seen: list[str] = []

    @app.service("printing", on=Ordered, finishes=Page)
    def print_page(page: Page, work: Work) -> None:
        if not seen:
            seen.append(page.id)
            raise Permanent("out of paper")
        seen.append(page.id)

    with Simulation(app) as world:
        page = Page(id="a")
        world.app.publish(Ordered(page_id="a", copies=3), documents=[page])
        world.drain()
        (letter,) = world.dead_letters()
        world.store.archive_dead_letters([letter.row])
        world.run_for(DAY)
        assert seen == ["a"]
        world.store.schedule([("pages", "a")], world.clock.now())
        world.run_for(MINUTE)
        assert (seen, world.status(page)) == (["a", "a"], "processed")


def test_who_waits_for_rest_is_not_kept_waiting_by_what_is_not_complete(app: App) -> None:
    """Even where the interval is shorter than the rest that is waited for."""
    _failing(app, requeue=lambda states, store: [])
    app._settings = Settings(retry_job_interval_seconds=50)
    with Simulation(app, retry_job=False) as world:
        world.app.add(Page(id="a"))
        world.clock.advance(HOUR)
        world.retry_job.run()
        assert world.retry_job.next_due() is not None
        assert world.retry_job.next_chance() is None
        world.app.add(Page(id="b"))
        assert world.retry_job.next_chance() is not None


def test_an_event_that_nobody_takes_is_not_counted_as_put_back(app: App) -> None:
    _failing(app)
    with Simulation(app, retry_job=False) as world:
        world.app.add(Page(id="a"))
        world.clock.advance(HOUR)
        world.store.db.run("unsubscribe", "reading")
        assert world.retry_job.run().requeued == {}
