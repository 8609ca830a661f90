"""What messages and events cost: `make bench ARGS="capacity --figures FILE"` writes `figures.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from onward.ops.bad_input import BadInput

SQLITE, POSTGRES = "SQLite", "PostgreSQL"
EMBEDDING, SUMMARIZATION = "embedding", "summarization"


@dataclass(frozen=True, slots=True)
class MessageCosts:
    """A message on average, with all that is made from it."""

    bytes: float  # as it came
    chunks: float
    tokens: float
    threads: float
    processor_seconds: Mapping[str, float]  # by service; models in the process included

    def of_size(self, bytes: float) -> MessageCosts:
        """Return the costs of messages of another size: what is made from their text grows with it."""
        times = bytes / self.bytes
        grown = {name: seconds * times for name, seconds in self.processor_seconds.items()}
        return replace(self, bytes=bytes, processor_seconds=grown).with_text(
            self.chunks * times, self.tokens * times
        )

    def with_text(self, chunks: float, tokens: float) -> MessageCosts:
        """Return the costs of messages with another number of chunks and tokens, as the embedder sees them."""
        return replace(self, chunks=chunks, tokens=tokens)


@dataclass(frozen=True, slots=True)
class StoreCosts:
    """What a message costs in a database."""

    bytes: float  # of tables and indexes
    worker_seconds: float  # of processor time in workers: ledger, documents and search index
    server_seconds: float  # of processor time in a server
    commits: float
    log_bytes: float  # of the write-ahead log
    page_writes: float


@dataclass(frozen=True, slots=True)
class LedgerCosts:
    """What an event costs that a worker claims and settles with one document, in PostgreSQL."""

    server_batch: float  # seconds of the server's processors for each transaction, and for each event in it
    server_event: float
    worker_batch: float
    worker_event: float
    server_idle: float  # for each second of a worker that waits
    log_bytes: float  # of the write-ahead log, for each event
    flush_seconds: float  # until the disk has confirmed a commit


@dataclass(frozen=True, slots=True)
class Figures:
    """All measured costs."""

    measured_on: str  # a date
    machine: str
    message: MessageCosts
    stores: Mapping[str, StoreCosts]
    ledger: LedgerCosts

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Figures:
        found = json.loads(text)
        return cls(
            measured_on=found["measured_on"],
            machine=found["machine"],
            message=MessageCosts(**found["message"]),
            stores={name: StoreCosts(**costs) for name, costs in found["stores"].items()},
            ledger=LedgerCosts(**found["ledger"]),
        )


def read_figures(file: Path) -> Figures:
    """Return the figures of a file that the bench has written."""
    try:
        return Figures.from_json(file.read_text("utf-8"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = f"{type(error).__name__}: {error}"
        remedy = f'make one: make bench ARGS="capacity --figures {file}"'
        raise BadInput(f"{file} is not a file of measured figures ({problem}); {remedy}") from error


@cache
def measured() -> Figures:
    """Return the figures that this version ships."""
    return Figures.from_json(files(__package__).joinpath("figures.json").read_text("utf-8"))
