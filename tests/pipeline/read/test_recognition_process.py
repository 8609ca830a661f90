"""The program that recognises text has its own limit of time, and ends with the process that started it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from onward.pipeline.read import limited_reader
from onward.pipeline.read.file_readers import FileToRead
from onward.pipeline.read.limited_reader import ReaderLimits, close_processes, read_limited
from onward.pipeline.read.ocr import PROGRAM, OCROptions
from tests.support.attached_files import grey_png
from tests.support.servers.private import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
PICTURE = FileToRead("picture", "a.png", ocr=OCROptions())
PNG = grey_png(1, 1, b"\0")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Another program in the place of tesseract."""
    close_processes()
    program = tmp_path / PROGRAM
    program.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    yield program
    close_processes()


def test_it_may_take_more_processor_time_than_the_reader(program: Path) -> None:
    program.write_text("#!/bin/sh\ncat >/dev/null\nulimit -S -t\n")
    assert read_limited(PICTURE, PNG, ReaderLimits(seconds=1.0)).text == "unlimited"


def test_it_ends_with_a_reader_that_is_killed(program: Path, tmp_path: Path) -> None:
    written = tmp_path / "pid"
    program.write_text(f"#!/bin/sh\necho $$ > {written}.part\nmv {written}.part {written}\nexec sleep 3600\n")
    process = limited_reader._Process()
    with ThreadPoolExecutor(1) as thread:
        reading = thread.submit(process.read, PICTURE, PNG, ReaderLimits())
        wait_until(written.exists, 60.0, "the program was not started")
        process._process.kill()
        assert isinstance(reading.exception(), limited_reader._Died)
    process.close()
    pid = int(written.read_text())
    command = Path(f"/proc/{pid}/cmdline")  # empty once the process has ended
    try:
        wait_until(lambda: not command.exists() or not command.read_bytes(), 60.0, "the program is still running")
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, 9)
