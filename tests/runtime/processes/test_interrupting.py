"""Ctrl-C in a program that runs services itself gives back what it has claimed; a run waits for others."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from signal import Signals

import pytest

from onward.app import App
from onward.runtime.engine import Engine
from onward.runtime.work import Work
from onward.settings import Settings
from tests.runtime.processes.stage import Page, PagesFound, Running, bring, state
from tests.support.supervised_workers import until

PROGRAM = """
import asyncio, signal, sys, threading
from pathlib import Path
from onward import App, Settings
from tests.runtime.processes.stage import Page, PagesFound, bring

app = App(store=sys.argv[1], settings=Settings())

def begin(page):
    Path(sys.argv[2], page.id).touch()

{handler}

bring(app, "a", "b", "c")
app.{run}
"""
HANDLERS = {
    "def": """
@app.service("reading", on=PagesFound, finishes=Page, concurrency=1)
def read(page, work):
    begin(page)
    threading.Event().wait()
""",
    "async def": """
@app.service("reading", on=PagesFound, finishes=Page, concurrency=1)
async def read(page, work):
    begin(page)
    await asyncio.Event().wait()
""",
}
BLOCKING = """
@app.service("reading", on=PagesFound, finishes=Page, concurrency=1)
async def read(page, work):
    begin(page)
    while signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        threading.Event().wait(0.01)
    Path(sys.argv[2], "interrupted").touch()
    threading.Event().wait()
"""


@contextmanager
def interrupted(folder: Path, handler: str, run: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program and press Ctrl-C when its handler has begun."""
    begun = folder / "begun"
    begun.mkdir()
    program = PROGRAM.format(handler=handler, run=run)
    command = [sys.executable, "-c", program, store_of(folder), str(begun)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: list(begun.iterdir()), "a handler begins")
            process.send_signal(Signals.SIGINT)
            yield process
        finally:
            process.kill()


def store_of(folder: Path) -> str:
    return f"sqlite:///{folder / 'onward.db'}"


def assert_all_given_back(folder: Path) -> None:
    with closing(App(store=store_of(folder), settings=Settings())) as app:
        assert app.store.counts() == {"reading": {"waiting": 3}}
        assert app.store.workers() == []
        for delivery in app.store.claim("somebody else", "reading", limit=100, lease=60):
            assert (delivery.tries, delivery.deaths) == (0, 0)


@pytest.mark.prove
@pytest.mark.parametrize("run", ("work_until_idle()", "engine().run()"))
@pytest.mark.parametrize("handler", HANDLERS)
def test_ctrl_c_gives_everything_back(handler: str, run: str, tmp_path: Path) -> None:
    with interrupted(tmp_path, HANDLERS[handler], run) as process:
        _, said = process.communicate(timeout=60)
    assert process.returncode == -Signals.SIGINT
    assert "KeyboardInterrupt" in said
    assert "never retrieved" not in said
    assert_all_given_back(tmp_path)


@pytest.mark.prove
def test_a_second_ctrl_c_ends_a_blocked_loop(tmp_path: Path) -> None:
    with interrupted(tmp_path, BLOCKING, "work_until_idle()") as process:
        until((tmp_path / "begun" / "interrupted").exists, "the first one is received")
        process.send_signal(Signals.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == -Signals.SIGINT
    assert_all_given_back(tmp_path)


def test_a_run_until_idle_waits_for_what_others_have_claimed(
    app: App, neighbour: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[None] = []
    may_end = Engine._may_end

    async def counted(self: Engine) -> bool | None:
        looks.append(None)
        return await may_end(self)

    monkeypatch.setattr(Engine, "_may_end", counted)

    @app.service("reading", on=PagesFound, finishes=Page)
    async def read(page: Page, work: Work) -> None: ...

    app.store.subscribe(app.registry.subscriptions())
    bring(app, "a")
    assert neighbour.store.claim("another worker", "reading", limit=1, lease=60.0)
    with Running(app, until_idle=True) as running:
        until(lambda: len(looks) > 2 or running.ending, "it has looked again and again")
        assert running.ending is None
        neighbour.store.release("another worker")
        running.join()
    assert state(app, "a").status == "processed"


def test_a_run_until_idle_takes_over_what_a_dead_worker_had_claimed(app: App, neighbour: App) -> None:
    @app.service("reading", on=PagesFound, finishes=Page)
    async def read(page: Page, work: Work) -> None: ...

    app.store.subscribe(app.registry.subscriptions())
    bring(app, "a")
    assert neighbour.store.claim("dead", "reading", limit=1, lease=0.5)
    app.work_until_idle()
    assert state(app, "a").status == "processed"
