"""The fleet of `onward.testing`: an app of one's own, with workers that crash, in five lines."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from onward import App, Permanent, Work
from onward.ledger.store import Store
from onward.testing import Fleet
from onward.testing.fleet import DAY
from tests.support.page_app import Page, PagesFound, Word, WordsFound, new_app, pages


@pytest.fixture(params=(False, True), ids=("def", "async def"))
def app(request: pytest.FixtureRequest) -> App:
    """Pages are cut into words, which are then spelled."""
    app = new_app()

    def cut(page: Page, work: Work) -> None:
        if page.id == "bad":
            raise Permanent("it is torn")
        for number in range(3):
            work.add(Word(id=f"{page.id}.{number}"))
        work.emit(WordsFound.of(work.added(Word)))

    async def cut_async(page: Page, work: Work) -> None:
        cut(page, work)

    app.service("cutting", on=PagesFound, finishes=Page)(cut_async if request.param else cut)
    app.service("spelling", on=WordsFound, finishes=Word)(lambda word, work: None)
    return app


def publish(app: App, count: int = 20) -> None:
    found = pages(*(f"{number}" for number in range(count)))
    for page in found:
        app.publish(PagesFound.of([page]), documents=[page])


def test_crashes_lose_nothing(app: App) -> None:
    with Fleet(app, workers=3, seed=7) as fleet:
        publish(app)
        fleet.crash_at_random(0.2)
        fleet.run_until_idle()
        assert fleet.lost == []
        assert fleet.crashes > 5
        counts = fleet.store.document_counts()
        assert {name: sum(statuses.values()) for name, statuses in counts.items()} == {"pages": 20, "words": 60}
        assert len(fleet.failed) == sum(statuses.get("failed", 0) for statuses in counts.values())


def test_a_seed_replays_exactly(app: App) -> None:
    def life(seed: int) -> tuple[int, int, float]:
        with Fleet(app, seed=seed) as fleet:
            publish(app)
            fleet.crash_at_random()
            fleet.run_until_idle()
            return fleet.calls, fleet.crashes, fleet.clock.now()

    assert life(7) == life(7)
    assert life(7) != life(8)


def test_without_crashes_each_document_is_handled_once(app: App) -> None:
    with Fleet(app, workers=2) as fleet:
        publish(app)
        assert (fleet.run_until_idle(), fleet.crashes) == (20 + 60, 0)


def test_what_fails_is_not_lost(app: App) -> None:
    with Fleet(app) as fleet:
        (bad,) = pages("bad")
        app.publish(PagesFound.of([bad]), documents=[bad])
        assert fleet.lost == ["pages/bad"], "it has not been run yet"
        fleet.run_until_idle()
        assert (fleet.lost, fleet.failed) == ([], ["pages/bad"])


def test_a_fault_is_found(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """If what a dead worker held never comes back, documents are lost."""
    monkeypatch.setattr(Store, "record_crash", lambda *given: 0)
    monkeypatch.setattr(Store, "reclaim", lambda *given: 0)
    with Fleet(app, workers=3, seed=7) as fleet:
        publish(app)
        fleet.crash_at_random()
        fleet.run_until_idle(within=3600)
        assert fleet.lost != []


def test_ticks_of_schedules_do_not_keep_it_from_being_idle() -> None:
    app = App()

    @app.task
    def greet(name: str) -> str:
        return f"hello {name}"

    @app.task(schedule=timedelta(minutes=15))
    def look() -> None: ...

    with Fleet(app) as fleet:
        began = fleet.clock.now()
        calls = greet.map(["Ada", "Bob"])
        fleet.crash_at_random()
        fleet.run_until_idle()
        assert fleet.clock.now() - began < DAY
        assert [call.result(timeout=0) for call in calls] == ["hello Ada", "hello Bob"], "kept for 7 days"


@pytest.mark.parametrize("wrong", (-0.1, 1.0))
def test_a_chance_is_below_one(app: App, wrong: float) -> None:
    with Fleet(app) as fleet, pytest.raises(ValueError, match="must be a chance from 0 to below 1"):
        fleet.crash_at_random(wrong)


# -- the plug-in

APP = """
from onward import App, Document, Event, Work, names

class Page(Document):
    pass

class PageFound(Event):
    page_id: str = names(Page)

app = App()

@app.service("reading", on=PageFound, finishes=Page)
def read(page: Page, work: Work) -> None: ...
"""
TESTS = """
from shop import Page, PageFound

def test_one(simulation):
    page = Page(id="a")
    simulation.app.publish(PageFound.of(page), documents=[page])
    simulation.drain()
    assert simulation.status(page) == "processed"

def test_many(fleet):
    pages = [Page(id=str(number)) for number in range(20)]
    fleet.app.publish(*map(PageFound.of, pages), documents=pages)
    fleet.crash_at_random()
    fleet.run_until_idle()
    assert fleet.lost == []
"""


@pytest.mark.prove
@pytest.mark.parametrize(
    ("conftest", "options", "outcome"),
    (
        ("", ("--onward-app", "shop:app"), "2 passed"),
        ("", ("-o", "onward_app=shop:app"), "2 passed"),
        ("import pytest, shop\n\n@pytest.fixture\ndef onward_app():\n    return shop.app\n", (), "2 passed"),
        ("", (), "give --onward-app MODULE:APP"),
    ),
    ids=("option", "configuration", "fixture", "none"),
)
def test_the_fixtures_have_the_app(tmp_path: Path, conftest: str, options: tuple[str, ...], outcome: str) -> None:
    (tmp_path / "conftest.py").write_text(f'pytest_plugins = ["onward.testing.pytest"]\n{conftest}')
    (tmp_path / "shop.py").write_text(APP)
    (tmp_path / "test_shop.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", ".", "-p", "no:cacheprovider", *options]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert outcome in ran.stdout + ran.stderr


def test_the_plug_in_is_not_loaded_by_itself() -> None:
    project = Path(__file__).parents[2] / "pyproject.toml"
    assert "pytest11" not in project.read_text()
