"""Read the mails of a large mailbox in a process of its own, beside the worker process that commits them.

A worker process has one interpreter lock for parsing, chunking, embedding and commits. Reading mails and making
their index terms takes about a quarter of all that. The worker still splits the mailbox, recognises duplicates and
commits in order, so the result is the same. Of an attachment that is read apart only its place in the mail comes
back: the worker has its bytes. What a reader process cannot read, the worker reads itself: a mail that kills its
process kills the worker, too, and is counted there.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection

from onward.pipeline.documents import Archive
from onward.pipeline.read.attachments import USUAL_LIMITS, AttachmentLimits
from onward.pipeline.read.child_process import end_process, end_with_parent, received_from, start_process
from onward.pipeline.read.mbox import RawMessage
from onward.pipeline.read.message_reader import ReadMessage, index_texts, read_message
from onward.search.postings import TextEntry, text_entry

log = logging.getLogger("onward")

MIN_BYTES = 8_000_000  # a smaller mailbox is read before a process has started
MAX_PROCESSES = 3  # more than this, and the one that commits would be the slowest
MAX_RAW_BYTES = 1_000_000  # of a mail; the worker decides whether a larger one can be stored
MAX_PER_PROCESS = 2  # batches: one that it reads, and one that waits for it
START_SECONDS = 30.0
_READY = b"ready"

Batch = Sequence[tuple[str, RawMessage]]
IndexedMessage = tuple[ReadMessage, TextEntry]  # no class of this module: in the process it has another name


class ReaderProcesses:
    """Processes that read batches of mails; `take` returns the results in the order of `give`."""

    def __init__(self, archive: Archive, limits: AttachmentLimits, count: int) -> None:
        self._readers: list[_Reader] = []
        try:
            for _ in range(count):
                self._readers.append(_Reader(archive, limits))
        except OSError as error:
            log.warning("no process that reads mails can be started: %s; this worker reads them itself", error)
        self._given: list[tuple[Batch, _Reader | None]] = []

    def give(self, batch: Batch) -> None:
        """Give a batch to the process that has the fewest; to none if no process can take one."""
        # The first batch waits: a worker that reads mails itself loads the language models, too (100 MB).
        wait = 0.0 if any(reader.is_ready() for reader in self._readers) else START_SECONDS
        ready = [reader for reader in self._readers if reader.is_ready(wait)]
        reader = min(ready, key=lambda one: one.load, default=None)
        if reader is not None and not reader.give(batch):
            reader = None
        self._given.append((batch, reader))

    def is_full(self) -> bool:
        """Return whether a batch is to be taken before the next is given."""
        if not self._given:
            return False
        room = any(reader.is_ready() and reader.load < MAX_PER_PROCESS for reader in self._readers)
        return self._given[0][1] is None or not room

    def take(self) -> list[IndexedMessage | None]:
        """Return the messages of the first batch; None for each that the caller has to read itself."""
        batch, reader = self._given.pop(0)
        return (reader.take() if reader is not None else None) or [None] * len(batch)

    def close(self) -> None:
        for reader in self._readers:
            reader.close()


class _Reader:
    """One process, as the worker sees it."""

    def __init__(self, archive: Archive, limits: AttachmentLimits) -> None:
        self.load = 0
        self._ready = self._failed = False
        self._process, self._pipe = start_process(__name__)
        with suppress(BrokenPipeError):  # it has died; then it never is ready
            self._pipe.send((archive, limits))

    def is_ready(self, wait: float = 0.0) -> bool:
        """Return whether the process has started and is alive."""
        if not self._ready and not self._failed:
            try:
                self._ready = self._pipe.poll(wait) and self._pipe.recv_bytes() == _READY
            except (OSError, EOFError):
                self._fail()
        return self._ready

    def give(self, batch: Batch) -> bool:
        try:
            self._pipe.send(batch)
        except OSError:
            self._fail()
            return False
        self.load += 1
        return True

    def take(self) -> list[IndexedMessage | None] | None:
        """Return the messages of a batch, or None if the process is dead."""
        self.load -= 1
        if not self._ready:
            return None
        try:
            found: list[IndexedMessage | None] = pickle.loads(self._pipe.recv_bytes())
        except (OSError, EOFError):
            self._fail()
            return None
        return found

    def _fail(self) -> None:
        log.warning("a process that reads mails has died; this worker reads them itself")
        self._ready, self._failed = False, True

    def close(self) -> None:
        """End the process; what it reads is of no use any more."""
        end_process(self._process, self._pipe)


_in_use = threading.Lock()


@contextmanager
def reader_processes(archive: Archive, limits: AttachmentLimits = USUAL_LIMITS) -> Iterator[ReaderProcesses]:
    """Start processes for a large mailbox; none for a small one, or while this worker reads another large one."""
    cores = os.cpu_count() or 1
    mine = archive.kind == "mbox" and archive.size >= MIN_BYTES and cores > 1 and _in_use.acquire(blocking=False)
    try:
        readers = ReaderProcesses(archive, limits, min(MAX_PROCESSES, cores // 2) if mine else 0)
        try:
            yield readers
        finally:
            readers.close()
    finally:
        if mine:
            _in_use.release()


# -- in the process itself


def main(descriptor: int) -> None:
    """Read batches until the worker closes the pipe or dies."""
    end_with_parent()
    gc.freeze()
    gc.set_threshold(50_000, 20, 10)
    pipe = Connection(descriptor)
    batches = received_from(pipe)
    given: tuple[Archive, AttachmentLimits] = pickle.loads(batches.get())
    pipe.send_bytes(_READY)
    while True:
        batch: Batch = pickle.loads(batches.get())
        found = [_read(*given, id, raw) for id, raw in batch]
        pipe.send_bytes(pickle.dumps(found, pickle.HIGHEST_PROTOCOL))


def _read(archive: Archive, limits: AttachmentLimits, id: str, raw: RawMessage) -> IndexedMessage | None:
    """Return a message and its index terms; None if the worker has to find out what is wrong with it."""
    if raw.problem or len(raw.raw) > MAX_RAW_BYTES:
        return None
    try:
        read = read_message(archive, id, raw, limits)
        read.message.to_json()
        return read, text_entry(*index_texts(read), read.message.language)
    except Exception:
        return None


if __name__ == "__main__":
    main(int(sys.argv[1]))
