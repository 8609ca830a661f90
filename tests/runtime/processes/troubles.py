"""An app whose handlers do to their process what handlers should not do."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import time
from collections.abc import Callable
from pathlib import Path

from onward.app import App
from onward.runtime.work import Work
from tests.runtime.processes.fleet import until
from tests.runtime.processes.stage import AT_ONCE, Heard, Noticed, Page, PagesFound, Word

STORE, FOLDER = "TROUBLES_STORE", "TROUBLES_FOLDER"
"""Environment variables: the store's URL, and where handlers leave notes."""
TIME_LIMIT = 0.5

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


def block_everything_for_a_while() -> None:
    ctypes.PyDLL(None).usleep(400_000)


TROUBLES: dict[str, Callable[[], None]] = {
    trouble.__name__: trouble
    for trouble in (
        segfault,
        be_killed,
        leave,
        blow_up,
        hang,
        hang_holding_the_interpreter,
        fork,
        block_everything_for_a_while,
    )
}


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
    """Block the whole loop until told to go on, if gated; tell the settings it was run with."""
    (folder() / f"begun {event.what}").touch()
    if event.what == "gated":
        until((folder() / "go on").exists, "the test goes on")
    work.add(Word(id=event.what, text=f"{os.getpid()} {app.settings.max_retries}"))


@app.service("listening", on=Heard, time_limit=TIME_LIMIT, policy=AT_ONCE)
async def listen(event: Heard, work: Work) -> None:
    hang()  # and with it the loop
