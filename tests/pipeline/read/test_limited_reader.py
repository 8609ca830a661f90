"""A file that crashes, hangs or exhausts its reader fails alone; its process is replaced."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from onward import Permanent
from onward.pipeline.documents import Archive
from onward.pipeline.read import limited_reader
from onward.pipeline.read.file_readers import LARGE_PAGE_BYTES, FileToRead, needs_limits
from onward.pipeline.read.limited_reader import (
    ReaderCrashed,
    ReaderLimitReached,
    ReaderLimits,
    close_processes,
    read_limited,
)
from onward.pipeline.read.message_reader import read_file
from onward.pipeline.read.page_text import MAX_CHARACTERS, PageText, UnreadableFile
from tests.support.servers.private import wait_until

# Readers of files that do harm; a file of one of these kinds is what its reader does.
HARMFUL = """
import os, signal, sys, time
from onward.pipeline.read import file_readers, limited_process
from onward.pipeline.read.page_text import PageText

def read(file, data):
    text = data.decode()
    match text.partition(" ")[0]:
        case "crash": os.kill(os.getpid(), signal.SIGSEGV)
        case "article" if not file.find_article: text = "all of it"
        case "spin" | "article":
            while True: pass
        case "sleep": time.sleep(3600)
        case "memory": bytearray(10**12)
        case "grow":
            kept = []
            while True: kept.append(bytearray(10**6))
        case "deep":
            def call(): call()
            call()
        case "odd": raise BaseException("a panic of a native library")
        case "long": text = "x" * int(text.split()[1])
        case "pid": text = str(os.getpid())
        case "once":
            path = text.split(" ", 1)[1]
            if not os.path.exists(path):
                open(path, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
    return PageText("", "", None, text)

limited_process.read_content = read
limited_process.main(int(sys.argv[1]))
"""
FILE = FileToRead("pdf", "a.pdf")
LIMITS = ReaderLimits(seconds=1.0, memory_bytes=300_000_000)


@pytest.fixture
def harmful(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "harmful_reader.py").write_text(HARMFUL)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(limited_reader, "_PROCESS", "harmful_reader")
    close_processes()
    yield
    close_processes()


def read(what: str, limits: ReaderLimits = LIMITS) -> PageText:
    return read_limited(FILE, what.encode(), limits)


@pytest.mark.usefixtures("harmful")
@pytest.mark.parametrize(
    ("what", "error", "message"),
    (
        ("crash", ReaderCrashed, "SIGSEGV.*ONWARD_READ_MAX_MEMORY_BYTES"),
        ("sleep", ReaderLimitReached, "more than 5 s: .*ONWARD_READ_SECONDS"),
        ("memory", ReaderLimitReached, "300,000,000 bytes of memory.*ONWARD_READ_MAX_MEMORY_BYTES"),
        ("grow", ReaderLimitReached, "300,000,000 bytes of memory.*ONWARD_READ_MAX_MEMORY_BYTES"),
        ("deep", UnreadableFile, "RecursionError"),
        ("odd", UnreadableFile, "BaseException: a panic"),
    ),
)
def test_a_harmful_file_fails_alone_and_says_what_to_do(what: str, error: type, message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        read(what)
    assert isinstance(caught.value, Permanent)
    assert read("the next file").text == "the next file"


@pytest.mark.usefixtures("harmful")
def test_processor_time_is_limited_even_if_nobody_waits_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited_reader, "WAIT_FACTOR", 100)
    with pytest.raises(ReaderLimitReached, match=r"1 s of processor time.*ONWARD_READ_SECONDS"):
        read("spin")


@pytest.mark.usefixtures("harmful")
def test_a_large_page_whose_article_takes_too_long_to_find_is_read_without_it() -> None:
    page = "article".ljust(LARGE_PAGE_BYTES + 1).encode()
    archive = Archive(id="a", source="/files/a.html", source_id="s", kind="html", size=len(page))
    assert read_file(archive, "m", page, LIMITS).message.body == "all of it"
    assert not needs_limits("html", LARGE_PAGE_BYTES)


@pytest.mark.usefixtures("harmful")
def test_a_process_is_kept_for_the_next_file() -> None:
    assert read("pid").text == read("pid").text


@pytest.mark.usefixtures("harmful")
def test_a_process_that_was_killed_from_outside_is_replaced(tmp_path: Path) -> None:
    os.kill(int(read("pid").text), signal.SIGKILL)
    assert read("fine").text == "fine"
    once = f"once {tmp_path / 'was-killed'}"
    assert read(once).text == once


@pytest.mark.usefixtures("harmful")
def test_several_processes_that_ended_while_they_were_idle_are_no_failure_of_the_file() -> None:
    waiting = [limited_reader._Process() for _ in range(limited_reader.MAX_PROCESSES)]
    for process in waiting:
        os.kill(int(process.read(FILE, b"pid", LIMITS).text), signal.SIGKILL)  # type: ignore[union-attr]
    limited_reader._idle.extend(waiting)
    assert read("fine").text == "fine"


@pytest.mark.usefixtures("harmful")
def test_a_long_text_is_cut_before_it_leaves_the_process() -> None:
    page = read(f"long {MAX_CHARACTERS + 10}")
    assert len(page.text) == MAX_CHARACTERS
    assert "2,000,010 characters" in page.defects[0]


@pytest.mark.usefixtures("harmful")
def test_the_thread_that_asked_first_may_end() -> None:
    pids = []
    for _ in range(2):
        with ThreadPoolExecutor(1) as thread:
            pids.append(thread.submit(read, "pid").result().text)
    assert pids[0] == pids[1]


@pytest.mark.usefixtures("harmful")
def test_it_dies_with_its_worker() -> None:
    program = (
        "import sys, threading, time\n"
        "from onward.pipeline.read import limited_reader as reader\n"
        "reader._PROCESS = 'harmful_reader'\n"
        "file = reader.FileToRead('pdf', 'a.pdf')\n"
        "print(reader.read_limited(file, b'pid').text, flush=True)\n"
        "threading.Thread(target=reader.read_limited, args=(file, b'sleep')).start()\n"
        "time.sleep(3600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        pid = int(worker.stdout.readline())
        worker.kill()
    command = Path(f"/proc/{pid}/cmdline")  # empty once the process has ended
    wait_until(lambda: not command.exists() or not command.read_bytes(), 60.0, "the reader process is still alive")
