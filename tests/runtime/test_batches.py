"""Documents of one event do not share a fate: a failing batch is halved until the culprit is alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from onward import Permanent, Status, Unavailable, Work
from onward.testing import Simulation
from tests.support.page_app import HOUR, Page, PagesFound, Word, all_processed, bring, new_app, statuses


def test_one_document_fails_and_the_others_are_finished() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        if page.id == "b":
            raise ConnectionError
        work.add(Word(id=page.id))

    with Simulation(app, retry_job=False) as world:
        bring(world, "a", "b", "c")
        world.drain()
        assert statuses(world, "a", "b", "c") == {"a": "processed", "b": "pending", "c": "processed"}
        assert world.run_for(HOUR) == 2, "only b is tried again"
        (letter,) = world.dead_letters()
        assert letter.documents == (("pages", "b"),)


def test_a_failing_batch_is_halved_until_the_culprit_is_alone() -> None:
    app, calls = new_app(), list[str]()

    @app.service("reading", on=PagesFound, finishes=Page, batch=8)
    def read(batch: Sequence[Page], work: Work) -> None:
        ids = "".join(page.id for page in batch)
        calls.append(ids)
        if "c" in ids:
            raise ConnectionError("something in here is bad")

    with Simulation(app, retry_job=False) as world:
        bring(world, *"abcdefgh")
        world.drain()
        assert calls[0] == "abcdefgh"
        assert sorted(calls[1:]) == ["ab", "abcd", "c", "cd", "d", "efgh"]
        assert all_processed(world, *"abdefgh"), "all of this at once, without a wait"
        assert world.run_for(HOUR) == 2
        (letter,) = world.dead_letters()
        assert letter.documents == (("pages", "c"),)
        assert letter.attempt_count == 3, "only failures it had alone are charged"
        assert all(world.state(Page(id=id)).attempt_count == 1 for id in "abcdefgh")


def test_a_permanent_failure_of_a_batch_condemns_only_its_culprit() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page, batch=8)
    async def read(batch: Sequence[Page], work: Work) -> None:
        if any(page.id == "c" for page in batch):
            raise Permanent("one of these is a photograph")

    with Simulation(app, retry_job=False) as world:
        bring(world, *"abcde")
        world.drain()
        assert all_processed(world, *"abde")
        assert statuses(world, "c") == {"c": Status.FAILED}


def test_two_culprits_are_both_found() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page, batch=500)
    def read(batch: Sequence[Page], work: Work) -> None:
        if any(page.id in ("17", "80") for page in batch):
            raise Permanent("torn")

    with Simulation(app, retry_job=False) as world:
        bring(world, *(f"{n}" for n in range(100)))
        calls = world.drain()
        failed = [id for id in map(str, range(100)) if statuses(world, id)[id] == Status.FAILED]
        assert failed == ["17", "80"]
        assert calls < 40, "halving, not one by one"


def test_a_handler_may_fail_single_documents_of_its_batch() -> None:
    app, calls = new_app(), list[str]()

    @app.service("reading", on=PagesFound, finishes=Page, batch=8)
    def read(batch: Sequence[Page], work: Work) -> None:
        calls.append("".join(page.id for page in batch))
        for page in batch:
            if page.id == "b":
                work.fail(page, Permanent("a photograph"))
            elif page.id == "c":
                work.fail(page, ConnectionError("reset"))
            else:
                work.add(Word(id=page.id))

    with Simulation(app, retry_job=False) as world:
        bring(world, *"abcd")
        world.run_for(HOUR)
        assert calls == ["abcd", "c", "c"], "charged, as it is known who failed"
        assert statuses(world, *"abcd") == {
            "a": Status.PROCESSED,
            "b": Status.FAILED,
            "c": Status.PENDING,
            "d": Status.PROCESSED,
        }
        assert {letter.last_error: letter.attempt_count for letter in world.dead_letters()} == {
            "a photograph": 1,
            "reset": 3,
        }
        assert app.get(Word, "a") is not None


def test_each_document_failed_by_hand_is_logged_at_its_own_level(caplog: pytest.LogCaptureFixture) -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page, batch=8)
    def read(batch: Sequence[Page], work: Work) -> None:
        for page in batch:
            if page.id == "a" or page.text == "poor":
                work.fail(page, ConnectionError() if page.id == "a" else KeyError("ink"))

    with caplog.at_level("INFO", "onward"), Simulation(app, retry_job=False) as world:
        given = [Page(id="a"), Page(id="b", text="poor")]
        app.publish(PagesFound.of(given), documents=given)
        world.drain()
    said = {record.levelname: record.getMessage() for record in caplog.records}
    assert said["ERROR"].startswith("reading: b given up")
    assert said["INFO"].startswith("reading: a failed")


# -- batches and the dependencies they need


def test_a_health_call_has_its_say_on_documents_failed_by_hand() -> None:
    app = new_app()

    async def is_healthy() -> bool:
        return True

    app.dependency("website", health=is_healthy)

    @app.service("reading", on=PagesFound, finishes=Page, batch=8, needs="website")
    async def read(batch: Sequence[Page], work: Work) -> None:
        work.fail(batch[0], Unavailable("website", "no answer"))

    with Simulation(app, retry_job=False) as world:
        bring(world, "a", "b")
        world.run_for(HOUR)
        assert world.store.openings() == [], "the website says that it is well"
        assert [letter.documents for letter in world.dead_letters()] == [(("pages", "a"),)]
        assert statuses(world, "b") == {"b": Status.PROCESSED}


def test_documents_failed_by_hand_open_a_breaker_and_lose_nothing() -> None:
    app, is_up = new_app(), [False]
    app.dependency("website", health=lambda: is_up[0])

    @app.service("reading", on=PagesFound, finishes=Page, batch=8, needs="website")
    def read(batch: Sequence[Page], work: Work) -> None:
        for page in batch:
            if page.id != "a" and not is_up[0]:
                work.fail(page, Unavailable("website", "no answer"))

    with Simulation(app, retry_job=False) as world:
        bring(world, "a", "b", "c")
        world.run_for(HOUR)
        assert [one.open for one in world.store.breakers()] == [True]
        assert statuses(world, "b", "c") == {"b": Status.PENDING, "c": Status.PENDING}
        assert world.dead_letters() == [], "the documents that probe are not charged"
        is_up[0] = True
        world.run_for(HOUR)
        assert all_processed(world, "a", "b", "c")


def test_some_that_succeed_show_that_the_dependency_is_up() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page, batch=8, needs="website")
    def read(batch: Sequence[Page], work: Work) -> None:
        for page in batch:
            if page.id in "abcdef":
                work.fail(page, Unavailable("website", "no answer"))

    with Simulation(app, retry_job=False) as world:
        bring(world, *"abcdefgh")
        world.drain()
        assert world.store.openings() == []


def test_a_whole_batch_failed_by_hand_opens_the_breaker() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page, batch=8, needs="website")
    def read(batch: Sequence[Page], work: Work) -> None:
        if world.clock.now() < until:
            for page in batch:
                work.fail(page, Unavailable("website", "no answer"))

    with Simulation(app, retry_job=False) as world:
        until = world.clock.now() + HOUR
        found = bring(world, *"abcdef")
        world.run_for(3 * HOUR)
        assert all_processed(world, *"abcdef")
        assert all(world.state(page).attempt_count == 1 for page in found)
        assert [opening["dependency"] for opening in world.store.openings()] == ["website"]


def test_in_a_batch_an_added_document_names_its_parent() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page, batch=8)
    def read(batch: Sequence[Page], work: Work) -> None:
        for page in batch:
            work.add(Word(id=f"of {page.id}"), parent=page)

    with Simulation(app, retry_job=False) as world:
        bring(world, "a", "b")
        world.drain()
        app.replace(Page(id="a", text="new"))
        assert app.get(Word, "of a") is None, "it descended from what is no more"
        assert app.get(Word, "of b") is not None
