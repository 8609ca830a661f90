"""A service has so many slots; what waits for one can be given to somebody else."""

from __future__ import annotations

import asyncio
import threading

from onward.app import App
from onward.runtime.work import Work
from tests.runtime.processes.stage import Heard, Noticed, Observed, Page, PagesFound, Running, bring, came
from tests.support.supervised_workers import until


def test_a_def_service_runs_as_many_calls_at_once_as_it_has_slots(app: App) -> None:
    together = threading.Barrier(3)

    @app.service("reading", on=PagesFound, finishes=Page, concurrency=3)
    def read(page: Page, work: Work) -> None:
        together.wait(60)  # passes only when three are here

    bring(app, *"abcdef")
    app.work_until_idle()
    assert app.store.document_counts() == {"pages": {"processed": 6}}


def test_an_async_service_runs_no_more_calls_at_once_than_it_has_slots(app: App) -> None:
    running = most = 0

    @app.service("reading", on=PagesFound, finishes=Page, concurrency=4)
    async def read(page: Page, work: Work) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(50):
            await asyncio.sleep(0)
        running -= 1

    bring(app, *(f"p{n}" for n in range(40)))
    app.work_until_idle()
    assert most == 4


def test_every_service_has_slots_of_its_own(app: App) -> None:
    together = threading.Barrier(12)
    for n in range(12):

        def notice(event: Noticed, work: Work) -> None:
            together.wait(60)

        app.service(f"service-{n}", on=Noticed, concurrency=1)(notice)
    app.publish(Noticed())
    app.work_until_idle()
    assert {states["done"] for states in app.store.counts().values()} == {1}


def test_a_finished_work_is_committed_while_its_neighbour_still_runs(app: App) -> None:
    observed, go_on = Observed(app), threading.Event()

    @app.service("reading", on=PagesFound, finishes=Page, concurrency=2)
    def read(page: Page, work: Work) -> None:
        if page.id == "slow":
            came(go_on)

    bring(app, "slow", *"abcdef")
    with Running(app):
        assert observed.finished(6)
        assert app.store.document_counts() == {"pages": {"pending": 1, "processed": 6}}
        go_on.set()
    assert app.store.document_counts() == {"pages": {"processed": 7}}


def test_documents_of_one_event_are_committed_one_by_one(app: App) -> None:
    observed, go_on = Observed(app), threading.Event()

    @app.service("reading", on=PagesFound, finishes=Page, concurrency=2)
    def read(page: Page, work: Work) -> None:
        if page.id == "slow":
            came(go_on)

    pages = [Page(id=id) for id in ("slow", "a", "b")]
    app.publish(PagesFound.of(pages), documents=pages)
    with Running(app):
        assert observed.finished(2)
        assert app.store.counts() == {"reading": {"claimed": 1}}, "the event stays until all are done"
        go_on.set()
    assert app.store.document_counts() == {"pages": {"processed": 3}}


def test_what_waits_behind_a_slow_call_is_given_to_another_worker(app: App, neighbour: App) -> None:
    go_on, stuck = threading.Event(), threading.Event()

    def read(page: Page, work: Work) -> None:
        if page.id == "slow":
            stuck.set()
            came(go_on)

    for one in (app, neighbour):
        one.service("reading", on=PagesFound, finishes=Page, concurrency=1)(read)
    observed = Observed(neighbour)
    bring(app, *(f"quick-{n}" for n in range(50)), "slow", *(f"waiting-{n}" for n in range(10)))
    with Running(app):
        assert came(stuck)
        with Running(neighbour):
            assert observed.finished(10)
            go_on.set()
    assert app.store.document_counts() == {"pages": {"processed": 61}}


def test_what_is_given_back_of_one_event_stays_one_event(app: App) -> None:
    go_on, begun = threading.Event(), threading.Event()

    @app.service("reading", on=PagesFound, finishes=Page, concurrency=1)
    def read(page: Page, work: Work) -> None:
        begun.set()
        came(go_on)

    pages = [Page(id=id) for id in "abcdefgh"]
    app.publish(PagesFound.of(pages), documents=pages)
    with Running(app):
        assert came(begun)
        until(lambda: app.store.counts() == {"reading": {"claimed": 1, "waiting": 1}}, "seven are given back")
        go_on.set()
        until(lambda: app.store.document_counts() == {"pages": {"processed": 8}}, "all are read")


def test_a_flood_of_quick_calls_starves_no_other_service(app: App) -> None:
    observed, flowing = Observed(app), True

    @app.service("flooding", on=Noticed)
    async def flood(event: Noticed, work: Work) -> None:
        if flowing:
            work.emit(Noticed(what=f"{event.what}."))

    @app.service("listening", on=Heard)
    async def listen(event: Heard, work: Work) -> None:
        await asyncio.sleep(0)

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        pass

    app.publish(*(Noticed(what=str(n)) for n in range(500)))
    with Running(app):
        assert observed.finished(500, "flooding")
        app.publish(Heard())
        bring(app, "a")
        assert observed.finished(1, "listening")
        assert observed.finished(1, "reading")
        flowing = False
