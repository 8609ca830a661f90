"""An app whose handlers do to their process what handlers should not do."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import field_validator

from onward.app import App
from onward.model.events import Event
from onward.runtime.work import Work
from tests.runtime.processes.stage import AT_ONCE, Heard, Noticed, Page, PagesFound, Word
from tests.support.supervised_workers import until

STORE, FOLDER = "TROUBLES_STORE", "TROUBLES_FOLDER"
"""Environment variables: the store's URL, and where handlers leave notes."""
TIME_LIMIT = 0.5
BLOCKED_SECONDS = 10
"""How long the event `blocks` holds its process and the interpreter lock."""

app = App(store=os.environ.get(STORE, "sqlite://:memory:"))


def folder() -> Path:
    return Path(os.environ[FOLDER])


def segfault() -> None:
    ctypes.string_at(0)


def be_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def leave() -> None:
    os._exit(0)


def blow_up() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 50_000_000, hard))
    try:
        bytearray(500_000_000)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def hang() -> None:
    time.sleep(1000)


def hang_holding_the_interpreter() -> None:
    ctypes.PyDLL(None).sleep(1000)


def fork() -> None:
    if os.fork() == 0:
        (folder() / "forked").touch()  # and the copy goes on, as a careless one does


def die_in_the_commit() -> None:
    """Let the handler return; the process dies before what it did is committed."""
    app.store.atomically = lambda *args, **more: be_killed()  # type: ignore[assignment, method-assign]


TROUBLES: dict[str, Callable[[], None]] = {
    trouble.__name__: trouble
    for trouble in (
        segfault,
        be_killed,
        die_in_the_commit,
        leave,
        blow_up,
        hang,
        hang_holding_the_interpreter,
        fork,
    )
}


class Posted(Event):
    """An event that makes trouble while it is read."""

    trouble: str

    @field_validator("trouble")
    @classmethod
    def _make(cls, trouble: str) -> str:
        TROUBLES[trouble]()
        return trouble


def make_trouble(page: Page) -> None:
    with (folder() / "runs").open("a") as runs:
        runs.write(f"{os.getpid()} {page.id}\n")
    if page.text:
        TROUBLES[page.text]()


@app.service("reading", on=PagesFound, finishes=Page, concurrency=1, time_limit=TIME_LIMIT, policy=AT_ONCE)
def read(page: Page, work: Work) -> None:
    make_trouble(page)
    work.add(Word(id=page.id))


@app.service("noticing", on=Noticed, concurrency=2)
async def notice(event: Noticed, work: Work) -> None:
    """Block the whole process if told so, or the loop until the test goes on; write which settings it ran with."""
    (folder() / f"begun {event.what}").touch()
    if event.what == "blocks":
        ctypes.PyDLL(None).sleep(BLOCKED_SECONDS)
    if event.what == "gated":
        until((folder() / "go on").exists, "the test goes on")
    work.add(Word(id=event.what, text=f"{os.getpid()} {app.settings.max_retries}"))


@app.service("listening", on=Heard, time_limit=TIME_LIMIT, policy=AT_ONCE)
async def listen(event: Heard, work: Work) -> None:
    hang()  # and with it the loop


@app.service("posting", on=Posted, time_limit=TIME_LIMIT, policy=AT_ONCE)
def post(event: Posted, work: Work) -> None: ...
