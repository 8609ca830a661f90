"""Declaring services: what is refused says what is wrong and what to write instead."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onward import App, Document, Event, OnwardError, Settings, Work, names
from onward.backend_urls import open_store
from onward.runtime.service import RegistrationError, Service
from onward.runtime.supervisor import Supervisor
from onward.testing import Simulation
from tests.support.page_app import Noticed, Page, PagesFound, Word, new_app


def handler(page: Page, work: Work) -> None:
    """A handler that is content with every page."""


def listen(event: Event, work: Work) -> None:
    """A handler that is content with every event."""


@pytest.fixture
def app() -> App:
    return new_app()


def test_a_declared_function_stays_a_function(app: App) -> None:
    declared = app.service("reading", on=PagesFound, finishes=Page)(handler)
    assert declared is handler
    assert app.registry.services["reading"].on is PagesFound


def test_a_service_has_names_for_what_it_gives_up() -> None:
    service = Service("mail-reading", handler, PagesFound, Page)
    assert service.notice_type() == "MailReadingFailed"
    assert service.subscription().failed_queue == "mail-reading.failed"
    named = Service("mail", handler, PagesFound, Page, failed_queue="mail.dead", notice="MailLost")
    assert named.notice_type() == "MailLost"
    assert named.subscription().failed_queue == "mail.dead"


@pytest.mark.parametrize(
    ("declaration", "complaint"),
    (
        ({"name": "Reading"}, "service 'Reading' needs a name like 'chunking'"),
        ({"name": ""}, "service '' needs a name like 'chunking'"),
        ({"on": Page}, "is declared with on=.*Page.*; give a subclass of onward.Event"),
        ({"on": "PagesFound"}, "is declared with on='PagesFound'; give a subclass of onward.Event"),
        ({"on": Event}, "give a subclass of onward.Event"),
        ({"finishes": PagesFound}, "is declared with finishes=.*PagesFound.*; give a subclass of onward.Document"),
        ({"finishes": Word}, r"finishes Word, but PagesFound names none: .* names\(Word\)"),
        ({"finishes": None, "batch": 2}, "has a batch, but finishes nothing"),
        ({"batch": 0}, "has batch=0; 1 to 500 is allowed"),
        ({"batch": 501}, "has batch=501; 1 to 500 is allowed"),
        ({"time_limit": 0}, "has time_limit=0; it is a number of seconds above 0"),
        ({"concurrency": 0}, "has concurrency=0; at least 1 is allowed"),
        ({"needs": [""]}, r"needs \('',\); name dependencies, such as needs='website'"),
        ({"was": ""}, r"was \('',\); give its former name"),
        ({"was": "reading"}, "is declared with was='reading'; give its former name, not this one"),
    ),
)
def test_a_declaration_that_cannot_work_is_refused(app: App, declaration: dict[str, Any], complaint: str) -> None:
    given: dict[str, Any] = {"name": "reading", "on": PagesFound, "finishes": Page} | declaration
    declare: Callable[[object], object] = app.service(**given)
    with pytest.raises(RegistrationError, match=complaint) as refused:
        declare(handler)
    assert f"service {given['name']!r}" in str(refused.value)
    assert isinstance(refused.value, OnwardError)
    assert not app.registry.services, "what is refused leaves nothing behind"


@pytest.mark.parametrize(
    "wrong",
    (
        lambda: None,
        lambda page: None,
        lambda page, work, more: None,
        lambda *everything: None,
        lambda page, work, *, needed: None,
        "no function at all",
    ),
)
def test_a_handler_takes_two_things(app: App, wrong: Callable[..., None]) -> None:
    with pytest.raises(RegistrationError, match=r"needs a handler of two parameters, such as \(document, work\)"):
        app.service("reading", on=PagesFound, finishes=Page)(wrong)


def test_methods_partials_and_extra_defaults_are_handlers_too(app: App) -> None:
    class Reader:
        def read(self, page: Page, work: Work, loudly: bool = False) -> None: ...

    def read(language: str, event: Noticed, work: Work) -> None: ...

    app.service("one", on=PagesFound, finishes=Page)(Reader().read)
    app.service("two", on=Noticed)(functools.partial(read, "latin"))
    assert list(app.registry.services) == ["one", "two"]


def test_a_name_is_given_once(app: App) -> None:
    app.service("reading", on=PagesFound, finishes=Page)(handler)
    with pytest.raises(RegistrationError, match="'reading' is declared twice; give one another name"):
        app.service("reading", on=Noticed)(listen)


def test_a_document_is_one_services_responsibility(app: App) -> None:
    app.service("reading", on=PagesFound, finishes=Page)(handler)
    with pytest.raises(RegistrationError, match="'reading' and 'writing' both finish Page on PagesFound"):
        app.service("writing", on=PagesFound, finishes=Page)(handler)


def test_it_may_be_finished_in_another_way_by_another_event(app: App) -> None:
    class PagesScanned(Event):
        page_ids: list[str] = names(Page)

    app.service("reading", on=PagesFound, finishes=Page)(handler)
    app.service("scanning", on=PagesScanned, finishes=Page)(handler)
    app.service("counting", on=PagesFound)(listen)
    assert len(app.registry.services) == 3


def test_a_dependency_is_declared_once(app: App) -> None:
    app.dependency("website")
    with pytest.raises(RegistrationError, match="dependency 'website' is declared twice"):
        app.dependency("website")


def test_only_what_exists_can_be_run(app: App) -> None:
    with pytest.raises(RegistrationError, match="there is no service 'raeding'; there are: none"):
        app.registry.select(["raeding"])
    app.service("reading", on=PagesFound, finishes=Page)(handler)
    with pytest.raises(RegistrationError, match="there is no service 'raeding'; there are: reading"):
        app.registry.select(["raeding"])


def test_documents_and_events_know_their_names() -> None:
    class MailBox(Document): ...

    class Entry(Document, collection="entries"): ...

    class JSONParsed(Event, version=2): ...

    assert (MailBox.collection, Entry.collection) == ("mail_boxs", "entries")
    assert (JSONParsed.event_type, JSONParsed.routing_key, JSONParsed.version) == ("JSONParsed", "json.parsed", 2)


def test_a_service_may_be_declared_when_the_store_is_in_use_already(app: App) -> None:
    with Simulation(app) as world:
        app.publish(Noticed())
        heard: list[Noticed] = []
        app.service("listening", on=Noticed)(lambda event, work: heard.append(event))
        world.drain()
        assert heard == [Noticed()]


def test_a_former_name_is_that_of_no_service_of_the_app(app: App) -> None:
    app.service("listening", on=Noticed)(listen)
    with pytest.raises(RegistrationError, match="was='listening', which is a service of this app"):
        app.service("hearing", on=Noticed, was="listening")(listen)
    app.service("scanning", on=PagesFound, finishes=Page, was=["reading"])(handler)
    with pytest.raises(RegistrationError, match="'scanning' is declared with was='reading'"):
        app.service("reading", on=Noticed)(listen)


def test_a_renamed_service_does_what_waited_under_its_former_name(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'onward.db'}"
    before = App(store=store, settings=Settings())
    before.service("reading", on=PagesFound, finishes=Page)(handler)
    before.publish(PagesFound.of([Page(id="a")]), documents=[Page(id="a")])
    before.close()
    after = App(store=store, settings=Settings())
    after.service("scanning", on=PagesFound, finishes=Page, was="reading")(handler)
    after.work_until_idle()
    state = after.state(Page, "a")
    after.close()
    assert state is not None
    assert state.status == "processed"


def test_a_worker_takes_over_when_the_former_name_is_not_run_any_more_and_says_so_until_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = Service("reading", handler, PagesFound, Page)
    after = Service("scanning", handler, PagesFound, Page, was=("reading",))
    store = open_store("sqlite://:memory:")
    store.subscribe([before.subscription()])
    store.register_worker("old", {"services": {"reading": 1}})
    nothing: Any = None
    supervisor = Supervisor(store, [after], nothing, nothing, name=lambda: "new")
    for _ in range(2):
        supervisor._take_over_names()
        assert [one.service for one in store.subscriptions()] == ["reading"]
    assert len([one for one in caplog.records if "scanning" in one.getMessage()]) == 1
    store.unregister_worker("old")
    supervisor._take_over_names()
    assert [one.service for one in store.subscriptions()] == ["scanning"]
    store.close()
