"""Watched files and folders of this machine are followed by events of the file system."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue

import pytest

from onward import App
from onward.pipeline import folder_events
from onward.pipeline.watching import watch
from tests.support.pipeline_runs import Pipeline

TRIES = 40


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> SimpleQueue[str]:
    """The sources whose runs would begin."""
    queue: SimpleQueue[str] = SimpleQueue()
    for name, value in (("DEBOUNCE_MS", 50), ("STEP_MS", 10), ("CHECK_SECONDS", 0.2)):
        monkeypatch.setattr(folder_events, name, value)

    def begin(_: App, source: str) -> bool:
        queue.put(source)
        return True

    monkeypatch.setattr(folder_events, "begin_now", begin)
    return queue


@contextmanager
def followed(home: Path, *sources: Path) -> Iterator[None]:
    with Pipeline(home).running() as pipeline:
        for source in sources:
            watch(pipeline.app, str(source), every=86_400.0)
        stop = threading.Event()
        thread = threading.Thread(target=folder_events.follow, args=(pipeline.app, stop.is_set))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def replace_until_begun(file: Path, begun: SimpleQueue[str]) -> str:
    """Replace a file as editors do; again, if that was before it is followed."""
    while not begun.empty():
        begun.get()
    for number in range(TRIES):
        new = file.with_name("new")
        new.write_text(f"A text, saved {number} times.")
        new.replace(file)
        try:
            return begun.get(timeout=0.5)
        except Empty:
            continue
    raise AssertionError("no run has begun")


def test_a_file_that_is_replaced_again_and_again_is_followed(tmp_path: Path, begun: SimpleQueue[str]) -> None:
    file = tmp_path / "place" / "notes.txt"
    file.parent.mkdir()
    file.write_text("A text.")
    with followed(tmp_path / "home", file):
        for _ in range(3):
            assert replace_until_begun(file, begun) == str(file)


def test_the_files_of_a_folder_are_followed(tmp_path: Path, begun: SimpleQueue[str]) -> None:
    folder = tmp_path / "place"
    (folder / "below").mkdir(parents=True)
    with followed(tmp_path / "home", folder):
        assert replace_until_begun(folder / "below" / "notes.txt", begun) == str(folder)


def test_a_file_that_comes_back_is_followed(tmp_path: Path, begun: SimpleQueue[str]) -> None:
    file = tmp_path / "place" / "notes.txt"
    file.parent.mkdir()
    file.write_text("A text.")
    with followed(tmp_path / "home", file):
        replace_until_begun(file, begun)
        file.unlink()
        with suppress(Empty):  # none, if it was not followed just then
            begun.get(timeout=2)
        while not begun.empty():
            begun.get()
        file.write_text("Another text.")
        assert begun.get(timeout=20) == str(file)


def test_a_path_that_cannot_be_looked_at_stops_no_other(
    tmp_path: Path, begun: SimpleQueue[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "place" / "notes.txt"
    file.parent.mkdir()
    file.write_text("A text.")
    below, closed = file.with_name("a file") / "below", tmp_path / "closed" / "notes.txt"
    below.parent.write_text("Was a folder.")
    original = Path.stat

    def stat(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path == closed:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))  # root would be allowed
        return original(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", stat)
    with followed(tmp_path / "home", below, closed, file):
        assert replace_until_begun(file, begun) == str(file)


def test_folders_that_the_system_does_not_let_us_follow_are_tried_less_and_less_and_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pauses: list[float] = []

    def fail(*_: object) -> None:
        raise OSError("OS file watch limit reached")

    monkeypatch.setattr(folder_events, "_follow_folders", fail)
    monkeypatch.setattr(folder_events, "_sleep", lambda seconds, stopped: pauses.append(seconds))
    with Pipeline(tmp_path / "home").running() as pipeline:
        watch(pipeline.app, str(tmp_path), every=86_400.0)
        folder_events.follow(pipeline.app, lambda: len(pauses) == 8)
    assert pauses == [20.0, 40.0, 80.0, 160.0, 320.0, 600.0, 600.0, 600.0]
    assert [line for line in caplog.messages if "watch limit" in line] == [
        "folders are not followed by events for a while, only by intervals: OS file watch limit reached"
    ]
