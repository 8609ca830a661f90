"""The mails of a large mailbox are read in a process of its own; the result is that of one process."""

from __future__ import annotations

import base64
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from onward import App
from onward.pipeline.documents import Archive, Chunk, Message, Report, Thread
from onward.pipeline.read import reader_process
from onward.pipeline.read.mbox import RawMessage
from onward.pipeline.read.reader_process import Batch, ReaderProcesses, reader_processes
from onward.pipeline.stages import parsing, reading
from tests.support.pipeline_runs import Pipeline, mail, mbox
from tests.support.supervised_workers import until

pytestmark = pytest.mark.prove

MAILS = 40
BATCH = 5


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A mailbox with threads, a duplicate, a mail without a sender, and one that only the worker reads."""
    file = tmp_path / "list.mbox"
    some = [
        mail(str(n), f"Text number {n} about boats.\n\n> quoted {n}", references=[str(n // 3)] if n % 3 else ())
        for n in range(MAILS)
    ]
    some += [mail("7", "Text number 7 about boats.\n\n> quoted 7", references=["2"]), "Subject: nobody\n\nhello\n"]
    octets = base64.encodebytes(bytes(900_000)).decode()
    attached = "Content-Type: application/octet-stream\nContent-Transfer-Encoding: base64\n"
    file.write_bytes(mbox(*some[:20], mail("large", octets, headers=attached), *some[20:]))
    return file


def ingested(home: Path, archive: Path) -> dict[str, Any]:
    """Ingest into a new store; return all that was made of the mailbox, and in which order."""
    with Pipeline(home).running() as pipeline:
        pipeline.ingest(archive)
        pipeline.check_at_rest()
        (report,) = [one.counts for one in pipeline.all(Report) if "parsed" in one.counts]
        query = "SELECT d.id, w.terms, w.weights, w.length, w.date, w.facets FROM waiting_texts w JOIN documents d"
        return {
            "documents": {kind: {it.id: it for it in pipeline.all(kind)} for kind in (Message, Thread, Chunk)},
            "statuses": pipeline.counts(archive),
            "order": pipeline.ask("SELECT id FROM documents WHERE collection = 'messages' ORDER BY doc"),
            "index": sorted(pipeline.ask(f"{query} ON d.doc = w.doc")),
            "report": report,
        }


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> list[ReaderProcesses]:
    """Have this mailbox read by processes, each of which is ready before it is given anything; return them."""
    started: list[ReaderProcesses] = []
    real = ReaderProcesses.give

    def give(self: ReaderProcesses, batch: Batch) -> None:
        if self not in started:
            started.append(self)
            until(lambda: all(reader.is_ready() for reader in self._readers), "the process is ready")
        real(self, batch)

    monkeypatch.setattr(ReaderProcesses, "give", give)
    monkeypatch.setattr(reader_process, "MIN_BYTES", 1)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    return started


@pytest.fixture
def expected(tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What one process makes of the mailbox."""
    monkeypatch.setattr(parsing, "CHECKPOINT_MESSAGES", BATCH)
    return ingested(tmp_path / "one", archive)


def test_several_processes_make_the_same_documents_in_the_same_order(
    expected: dict[str, Any],
    tmp_path: Path,
    archive: Path,
    readers: list[ReaderProcesses],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read_here: list[str] = []
    real = reading.try_reading

    def read(app: App, archive: Archive, id: str, raw: RawMessage) -> Any:
        read_here.append(id)
        return real(app, archive, id, raw)

    monkeypatch.setattr(parsing, "try_reading", read)
    assert ingested(tmp_path / "several", archive) == expected
    (used,) = readers
    assert len(used._readers) == 2
    assert len(read_here) == 1  # the large one
    assert expected["report"] == {"messages": 43, "parsed": 42, "failed": 0, "duplicates": 1, "new": 42}


def test_a_process_that_dies_is_done_without(
    expected: dict[str, Any],
    tmp_path: Path,
    archive: Path,
    readers: list[ReaderProcesses],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = ReaderProcesses.take
    taken = 0

    def take(self: ReaderProcesses) -> Any:
        nonlocal taken
        taken += 1
        if taken == 3:
            for reader in self._readers:
                os.kill(reader._process.pid, signal.SIGKILL)
                reader._process.wait()
        return real(self)

    monkeypatch.setattr(ReaderProcesses, "take", take)
    assert ingested(tmp_path / "several", archive) == expected
    assert len(readers) == 1
    assert taken > 3  # there was more to read


def test_processes_end_with_the_mailbox(readers: list[ReaderProcesses], archive: Path, tmp_path: Path) -> None:
    ingested(tmp_path / "home", archive)
    (used,) = readers
    assert None not in [reader._process.returncode for reader in used._readers]


def test_a_small_mailbox_starts_no_process() -> None:
    small = Archive(id="a", source="s", source_id="s", kind="mbox", blob="b", origin="o", size=1_000_000)
    with reader_processes(small) as readers:
        assert readers._readers == []
        readers.give([])
        assert readers.is_full()
        assert readers.take() == []


def test_one_large_mailbox_at_a_time_has_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    large = Archive(id="a", source="s", source_id="s", kind="mbox", blob="b", origin="o", size=100_000_000)
    with reader_processes(large) as first, reader_processes(large) as second:
        assert (len(first._readers), len(second._readers)) == (1, 0)


def test_the_first_batches_of_a_large_mailbox_are_small(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = [RawMessage(n * 300, (n + 1) * 300, f"{n}".encode() * 100) for n in range(100, 200)]
    monkeypatch.setattr(parsing, "_split", lambda *_: iter(raw))
    monkeypatch.setattr(parsing, "FIRST_BYTES", 600)
    monkeypatch.setattr(parsing, "CHECKPOINT_BYTES", 3000)

    def sizes(of: int) -> list[int]:
        place = Archive(id="a", source="s", source_id="s", kind="mbox", blob="b", origin="o", size=of)
        parser: Any = parsing._ArchiveParser(None, place, None)  # type: ignore[arg-type]
        return [len(batch.new) for batch in parser._batches(None, 0)]

    assert sizes(parsing.LARGE_BYTES)[:6] == [2, 4, 8, 10, 10, 10]
    assert sizes(parsing.LARGE_BYTES - 1)[:2] == [10, 10]
