"""Documents as lines of JSON, with everything that is known of them, and the files that hold them."""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from onward.app import App
from onward.model.documents import DocumentKey, DocumentState
from onward.model.failures import outcomes
from onward.ops.bad_input import BadInput
from onward.ops.lookup import PAGE, pages, read_bodies
from onward.ops.queries.dead_letters import dead_letter_at, dead_letter_facts, error_facts
from onward.ops.queries.document_details import body_facts, state_facts
from onward.ops.text.format import one_line
from onward.retry.errors import OnwardError


class CannotWrite(OnwardError):
    """A file cannot be written."""


def exported(app: App, states: Iterable[DocumentState]) -> Iterator[dict[str, Any]]:
    """Yield each document with its state, the history of its errors, its dead letter and its body."""
    for page in pages(states, PAGE):
        bodies = dict(read_bodies(app.store, ((state.collection, state.id) for state in page)))
        for state in page:
            yield state_facts(state) | {
                "errors": [error_facts(error) for error in outcomes(state.attempts or None)],
                "dead_letter": _dead_letter(app, state.dead_letter) if state.dead_letter is not None else None,
                "body": body_facts(state.collection, body)
                if (body := bodies.get((state.collection, state.id)))
                else None,
            }


def _dead_letter(app: App, row: int) -> dict[str, Any] | None:
    try:
        letter = dead_letter_at(app, row)
    except BadInput:
        return None  # it was removed meanwhile
    facts = dead_letter_facts(letter)
    del facts["row"]
    return facts


def with_descendants(app: App, states: Sequence[DocumentState]) -> Iterator[DocumentState]:
    """Yield documents, and everything that was made from them."""
    collections, seen = sorted(app.store.document_counts()), set[DocumentKey]()
    level = list(states)
    while level:
        level = [one for one in level if (one.collection, one.id) not in seen]
        seen |= {(one.collection, one.id) for one in level}
        yield from level
        below: list[DocumentState] = []
        for page in pages(level, PAGE):
            for parent in {state.collection for state in page}:
                ids = [state.id for state in page if state.collection == parent]
                for name in collections:
                    children = app.store.children(name, parent, ids)
                    below += app.store.states_of([(name, child.id) for child in children])
        level = below


def write_lines(out: IO[str], lines: Iterable[dict[str, Any]]) -> int:
    """Write each object as JSON on a line of its own; return how many."""
    count = 0
    for line in lines:
        out.write(json.dumps(line) + "\n")  # ASCII, which every terminal and editor reads
        count += 1
    return count


@contextmanager
def new_file(path: Path) -> Iterator[IO[str]]:
    """Open a file that exists, synced, when the block ends, and not at all if that fails; `.gz` packs it."""
    if path.exists():
        raise BadInput(f"--output: {one_line(str(path))} exists; name another file")
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("xb") as raw:
            packed = gzip.GzipFile(path.stem, "wb", fileobj=raw) if path.suffix == ".gz" else None
            text = io.TextIOWrapper(packed or raw, encoding="ascii", newline="\n")
            yield text
            text.detach()
            if packed is not None:
                packed.close()
            raw.flush()
            os.fsync(raw.fileno())
        part.rename(path)
        if hasattr(os, "O_DIRECTORY"):  # so that the name survives a power cut, where a folder can be opened
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except OSError as error:
        raise CannotWrite(
            f"{one_line(str(path))} cannot be written: {error.strerror}. Nothing was exported or removed"
        ) from error
    finally:
        part.unlink(missing_ok=True)
