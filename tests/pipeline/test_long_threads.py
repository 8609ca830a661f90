"""A long thread costs time, not memory: whoever looks at it holds a bounded number of its messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from onward import App
from onward.console.pages.threads import SHOWN
from onward.ledger import reader
from onward.ops.queries.document_details import document_facts, messages_of_thread
from onward.pipeline.app import build
from onward.pipeline.documents import Message, Summary, Thread
from onward.pipeline.sources import submit
from onward.pipeline.stages import orchestration
from onward.settings import load_settings
from tests.support.console_client import serving
from tests.support.pipeline_runs import mail, mbox

CONTEXT = 8
PAGE = 10
LENGTHS = (30, 90)


class Most(NamedTuple):
    """The most documents that one call returned."""

    rows: int
    """Of those without their content."""
    bodies: int


class Watch:
    """Counts what each call of a store returns."""

    def __init__(self, app: App) -> None:
        self.rows: list[int] = []
        self.bodies: list[int] = []
        self._watch(app.store, "find", self.rows)
        self._watch(app.store, "ids", self.rows)
        self._watch(app.store, "related", self.rows)
        self._watch(app.store, "children", self.rows)
        self._watch(app.store, "read_bodies", self.bodies)
        real = app.store.find_pages

        def pages(*args: Any, **options: Any) -> Iterator[Any]:
            for page in real(*args, **options):
                self.rows.append(len(page))
                yield page

        app.store.find_pages = pages  # type: ignore[method-assign]

    def _watch(self, store: object, name: str, counts: list[int]) -> None:
        real = getattr(store, name)

        def call(*args: Any, **options: Any) -> Any:
            found = real(*args, **options)
            counts.append(len(found))
            return found

        setattr(store, name, call)

    def most(self) -> Most:
        return Most(max(self.rows, default=0), max(self.bodies, default=0))


@pytest.fixture(params=["sqlite", "postgres"])
def open_app(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], App]]:
    """Opens a pipeline; pages and the context of a summary are small here, so that few messages are many."""
    monkeypatch.setattr(orchestration, "MAX_CONTEXT", CONTEXT)
    monkeypatch.setattr(orchestration, "EARLIEST", CONTEXT // 4)
    monkeypatch.setattr(reader, "PAGE_DOCUMENTS", PAGE)
    opened: list[App] = []

    def build_app(name: str) -> App:
        given = {"ONWARD_HOME": str(tmp_path / name), "ONWARD_SERVE_REQUESTS_PER_SECOND": "10000"}
        if request.param == "postgres":
            given["ONWARD_STORE"] = request.getfixturevalue("postgres_store_url")
        opened.append(build(load_settings(given)))
        return opened[-1]

    yield build_app
    for app in opened:
        app.close()


def thread_of_mails(count: int) -> bytes:
    """One thread, whose mails are not in the order of their dates."""
    order = [*range(0, count, 2), *range(1, count, 2)]
    mails = [
        mail(
            f"{count}-{n}",
            f"Answer number {n}.",
            references=[f"{count}-0"] if n else (),
            date=f"Mon, 2 Mar 2026 {10 + n // 60}:{n % 60:02}:00 +0000",
        )
        for n in order
    ]
    return mbox(*mails)


def ingest(app: App, place: Path, count: int, services: Sequence[str] | None = None) -> str:
    place.write_bytes(thread_of_mails(count))
    source = submit(app, str(place)).source
    app.work_until_idle(services)
    return source


def the_thread(app: App, source: str) -> Thread:
    (state,) = app.store.states(Thread, source=source)
    thread = app.get(Thread, state.id)
    assert thread is not None
    return thread


BEFORE = ["ingestion", "parsing", "chunking", "embedding"]


def test_what_orchestration_holds_does_not_grow_with_a_thread(
    open_app: Callable[[str], App], tmp_path: Path
) -> None:
    app = open_app("home")
    most = []
    for count in LENGTHS:
        source = ingest(app, tmp_path / f"{count}.mbox", count, BEFORE)
        watch = Watch(app)
        app.work_until_idle(["orchestration"])
        thread = the_thread(app, source)
        assert thread.messages == count
        assert len(thread.message_ids) == CONTEXT
        most.append(watch.most())
    assert most[0] == most[1]
    assert most[0].rows <= PAGE
    assert most[0].bodies <= 1, "the thread itself"


def test_a_summary_is_made_from_the_beginning_and_the_end_of_a_long_thread(
    open_app: Callable[[str], App], tmp_path: Path
) -> None:
    app = open_app("home")
    thread = the_thread(app, ingest(app, tmp_path / "30.mbox", 30))
    chosen = [one.message_id.partition("@")[0] for one in app.store.get_many(Message, thread.message_ids)]
    assert chosen == [f"30-{n}" for n in (0, 1, 24, 25, 26, 27, 28, 29)]
    summary = app.get(Summary, thread.id)
    assert summary is not None
    assert summary.messages == 30


def test_a_thread_that_did_not_change_covers_the_same(open_app: Callable[[str], App], tmp_path: Path) -> None:
    app = open_app("home")
    source = ingest(app, tmp_path / "30.mbox", 30)
    before = the_thread(app, source)
    submit(app, source)
    app.work_until_idle()
    assert the_thread(app, source) == before
    with (tmp_path / "30.mbox").open("ab") as file:
        file.write(mbox(mail("last", "One more.", references=["30-0"], date="Tue, 3 Mar 2026 10:00:00 +0000")))
    submit(app, source)
    app.work_until_idle()
    after = the_thread(app, source)
    assert after.covers != before.covers
    assert after.messages == 31


@pytest.mark.prove
def test_what_shows_a_thread_reads_a_bounded_number_of_messages(
    open_app: Callable[[str], App], tmp_path: Path
) -> None:
    app = open_app("home")
    most = []
    for count in (2 * SHOWN + 20, 4 * SHOWN):
        thread = the_thread(app, ingest(app, tmp_path / f"{count}.mbox", count))
        watch = Watch(app)
        with serving(app) as site:
            page = site.page(f"/threads/{thread.id}?page=2")
            last = messages_of_thread(app, thread.id, start=count - 1, limit=1)[0]
            at_last = site.page(f"/threads/{thread.id}?at={last.id}")
        assert f"Answer number {SHOWN}." in page
        assert f"Answer number {SHOWN - 1}." not in page
        assert f"Answer number {count - 1}." in at_last
        facts = document_facts(app, "threads", thread.id)
        assert facts["message_count"] == len(facts["message_ids"]) == count
        most.append(watch.most())
    assert most[0] == most[1]
    assert most[0].bodies <= SHOWN
