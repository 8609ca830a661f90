"""Documents as lines of JSON, with everything that is known of them, and the files that hold them."""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import IO, Any

from onward.app import App
from onward.model.documents import Document, DocumentState
from onward.model.failures import outcomes
from onward.model.ledger import DeadLetter
from onward.ops.bad_input import BadInput
from onward.ops.queries.document_details import state_facts
from onward.ops.queries.documents import PAGE
from onward.ops.text.format import iso, one_line
from onward.retry.errors import OnwardError
from onward.retry.redact import redact

Key = tuple[str, str]


class CannotWrite(OnwardError):
    """A file cannot be written."""


def exported(app: App, states: Iterable[DocumentState]) -> Iterator[dict[str, Any]]:
    """Yield each document with its state, the history of its errors, its dead letter and its body."""
    remaining = iter(states)
    while page := list(islice(remaining, PAGE)):
        bodies: dict[Key, Any] = {}
        for name in {state.collection for state in page}:
            ids = [state.id for state in page if state.collection == name]
            bodies |= {(name, id): json.loads(body) for id, _, body in app.store.read_bodies(name, ids)}
        for state in page:
            yield state_facts(state) | {
                "errors": [_error(error) for error in outcomes(state.attempts or None)],
                "dead_letter": _dead_letter(app, state),
                "body": bodies.get((state.collection, state.id)),
            }


def _error(error: dict[str, Any]) -> dict[str, Any]:
    redacted = {name: redact(value) if isinstance(value, str) else value for name, value in error.items()}
    return redacted | {"at": iso(error.get("at"))}


def _dead_letter(app: App, state: DocumentState) -> dict[str, Any] | None:
    if state.dead_letter is None:
        return None
    for archived in (False, True):
        found = app.store.find_dead_letters(after=state.dead_letter - 1, archived=archived, limit=1)
        if found and found[0].row == state.dead_letter:
            return _letter(found[0])
    return None


def _letter(letter: DeadLetter) -> dict[str, Any]:
    facts = asdict(letter) | {
        "timestamp": iso(letter.timestamp),
        "last_error": redact(letter.last_error),
        "errors": [_error(error) for error in letter.errors],
        "raw": letter.raw.decode("utf-8", "backslashreplace") if letter.raw is not None else None,
    }
    del facts["row"]
    return facts


def with_descendants(app: App, states: Sequence[DocumentState]) -> Iterator[DocumentState]:
    """Yield documents, and everything that was made from them."""
    kinds = {name: _kind(name) for name in sorted(app.store.document_counts())}
    seen: set[Key] = set()
    level = list(states)
    while level:
        level = [one for one in level if (one.collection, one.id) not in seen]
        seen |= {(one.collection, one.id) for one in level}
        yield from level
        below: list[DocumentState] = []
        for start in range(0, len(level), PAGE):
            page = level[start : start + PAGE]
            for parent in {state.collection for state in page}:
                ids = [state.id for state in page if state.collection == parent]
                for name, kind in kinds.items():
                    children = app.store.children(kind, kinds.get(parent) or _kind(parent), ids)
                    below += app.store.states_of([(name, child.id) for child in children])
        level = below


def _kind(collection: str) -> type[Document]:
    """Return a class for a collection of any app: a command knows only its name."""

    class Kind(Document, collection=collection):
        pass

    return Kind


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
        _sync_folder(path.parent)
    except OSError as error:
        raise CannotWrite(
            f"{one_line(str(path))} cannot be written: {error.strerror}. Nothing was exported or removed"
        ) from error
    finally:
        part.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Sync a folder, so that the name of a new file survives a power cut, where a folder can be opened."""
    if hasattr(os, "O_DIRECTORY"):
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
