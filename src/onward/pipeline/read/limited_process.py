"""The process in which files are read within limits of processor time and memory; see `limited_reader`."""

from __future__ import annotations

import os
import pickle
import sys
from multiprocessing.connection import Connection
from queue import Empty

from onward import Permanent
from onward.pipeline.read.child_process import end_with_parent, limit_process, received_from
from onward.pipeline.read.file_readers import FileToRead, read_content
from onward.pipeline.read.page_text import MAX_TITLE_CHARACTERS, PageText, UnreadableFile, cut_text

READY = b"ready"
OUT_OF_MEMORY = "memory"
IDLE_SECONDS = 120.0  # without a file; then the process ends, for it holds the memory of its libraries
_MAX_MESSAGE_CHARACTERS = 500

# The answer to a file: its text, the error of its reader, or the limit that it has reached.
Outcome = PageText | Permanent | str


def main(descriptor: int) -> None:
    """Read files until the worker closes the pipe or dies."""
    end_with_parent()
    pipe = Connection(descriptor)
    arrived = received_from(pipe)
    pipe.send_bytes(READY)
    while True:
        try:
            request = arrived.get(timeout=IDLE_SECONDS)
        except Empty:
            os._exit(0)
        file, seconds, memory_bytes = pickle.loads(request)
        data = arrived.get()
        outcome = _read_within(file, data, seconds, memory_bytes)
        del data
        pipe.send_bytes(_pickled(outcome))
        if outcome == OUT_OF_MEMORY:
            os._exit(0)  # what is left of its memory may be in pieces


def _read_within(file: FileToRead, data: bytes, seconds: float, memory_bytes: int) -> Outcome:
    limit_process(seconds, memory_bytes)
    try:
        page = read_content(file, data)
        text, cut = cut_text(page.text)
        title, author = page.title[:MAX_TITLE_CHARACTERS], page.author[:MAX_TITLE_CHARACTERS]
        return PageText(title, author, page.date, text, (*page.defects, *cut))
    except Permanent as error:
        return error
    except MemoryError:
        return OUT_OF_MEMORY
    except BaseException as error:  # a panic of a Rust library is no Exception
        message = f"{type(error).__name__}: {error}"[:_MAX_MESSAGE_CHARACTERS]
        return UnreadableFile(f"its reader failed with {message}")
    finally:
        limit_process(None, None)


def _pickled(outcome: Outcome) -> bytes:
    try:
        data = pickle.dumps(outcome, pickle.HIGHEST_PROTOCOL)
        pickle.loads(data)  # an error with other arguments than its message cannot be read
    except Exception:
        return pickle.dumps(UnreadableFile(str(outcome)[:_MAX_MESSAGE_CHARACTERS]))
    return data


if __name__ == "__main__":
    main(int(sys.argv[1]))
