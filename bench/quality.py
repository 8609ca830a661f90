"""Search quality: how good is what people find, by words alone, by vectors alone, and as it is shown?

Mailboxes are ingested as a user does it, into a new store on SQLite and one on a private PostgreSQL, and searched
with questions whose answers are known: those of Cranfield (`--cranfield FOLDER`), and tasks that are made from the
mails of an archive (`--archive ARCHIVE`; the shipped sample by default). Half of the questions of each task are
for tuning: look at the others. With a real model besides the built-in one if its package is installed; the mails
of an archive are then embedded on SQLite only, because it takes long.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import click

from bench.mail_tasks import mail_tasks, write_without_subjects
from bench.metrics import NDCG_DEPTH, RECALL_DEPTH, Halves, Measures
from bench.pipeline import SAMPLE, ingest
from bench.questions import Task, read_cranfield, write_cranfield_mailbox
from bench.table import Sheet
from onward import App
from onward.pipeline.app import build
from onward.pipeline.documents import Chunk, Message
from onward.pipeline.search import Query, search
from onward.settings import load_settings
from tests.support import minilm
from tests.support.servers import PostgresServer

WAYS = ("words", "vectors", "shown")
MEASURES = (f"NDCG@{NDCG_DEPTH}", "MRR", f"recall@{RECALL_DEPTH}")
SQLITE, POSTGRES = "SQLite", "PostgreSQL"
BUILT_IN, REAL_MODEL = "built-in model", "MiniLM"
NEAREST_CHUNKS = 1_000  # a message has several


class Place(NamedTuple):
    """Where mailboxes are ingested, and with which model."""

    database: str
    model: str

    @property
    def title(self) -> str:
        return f"{self.database}, {self.model}"


Measured = dict[tuple[str, str], Halves]  # by task and way


def run(archive: Path | None = None, cranfield: Path | None = None) -> list[Sheet]:
    """Measure every task in every place: a sheet for each place, and one of the differences between databases."""
    measured: dict[Place, Measured] = {}
    with tempfile.TemporaryDirectory(prefix="onward-bench-") as folder, ExitStack() as stack:
        scratch = Path(folder)
        server, numbers = stack.enter_context(PostgresServer(fsync=False)), itertools.count(1)
        settings = {BUILT_IN: {"ONWARD_EMBEDDER": "static"}}
        if why := minilm.why_missing():
            click.secho(f"{REAL_MODEL} is left out: {why}", err=True, fg="red")
        else:
            model = minilm.write_minilm(scratch / "minilm")
            settings[REAL_MODEL] = {"ONWARD_EMBEDDER": f"local:{model}"}
        boxes = _Mailboxes(scratch, archive or SAMPLE, cranfield)
        for model_name, embedder in settings.items():
            for database in (SQLITE, POSTGRES):
                place = Place(database, model_name)
                click.echo(f"  {place.title} …", err=True)
                store = {} if database == SQLITE else {"ONWARD_STORE": ""}
                found: Measured = {}
                for name, mailbox in boxes.of(place).items():
                    if store:
                        store["ONWARD_STORE"] = server.create_database(f"bench{next(numbers)}")
                    home = scratch / database / model_name / name
                    ingest(mailbox, home, settings={**embedder, **store})
                    with _opened({"ONWARD_HOME": str(home), **embedder, **store}) as app:
                        found |= _measure(app, boxes.tasks(name, app))
                measured[place] = found
    sheets = [_sheet(place, found) for place, found in measured.items()]
    return [*sheets, _differences(measured)]


@dataclass(slots=True)
class _Mailboxes:
    """The mailboxes that are searched: Cranfield, the archive, and the archive without its subjects."""

    scratch: Path
    archive: Path
    cranfield: Path | None
    _mail_tasks: list[Task] | None = None

    def of(self, place: Place) -> dict[str, Path]:
        found = {}
        if self.cranfield is not None:
            found["cranfield"] = self.scratch / "cranfield.mbox"
            write_cranfield_mailbox(self.cranfield, found["cranfield"])
        if place != Place(POSTGRES, REAL_MODEL):
            # First the one with subjects, from which the questions are made.
            found["mail"] = self.archive
            found["bare_mail"] = self.scratch / "bare.mbox"
            write_without_subjects(self.archive, found["bare_mail"])
        return found

    def tasks(self, name: str, app: App) -> list[Task]:
        """Return the tasks of a mailbox, which `app` has ingested."""
        if name == "cranfield":
            assert self.cranfield is not None
            return [read_cranfield(self.cranfield)]
        if self._mail_tasks is None:
            self._mail_tasks = mail_tasks(messages_of(app))
        return [task for task in self._mail_tasks if task.subjects == (name == "mail")]


@contextmanager
def _opened(settings: dict[str, str]) -> Iterator[App]:
    app = build(load_settings(settings, path=os.devnull))
    try:
        yield app
    finally:
        app.close()


def messages_of(app: App) -> list[Message]:
    """All messages of a store."""
    found: list[Message] = []
    after = ""
    while states := app.store.states(Message, after=after, limit=500):
        after = states[-1].id
        found += app.store.get_many(Message, [state.id for state in states])
    return found


def _measure(app: App, tasks: Sequence[Task]) -> Measured:
    message_ids = {message.id: message.message_id for message in messages_of(app)}
    found: Measured = {}
    for task in tasks:
        measured: dict[str, list[Measures]] = {way: [] for way in WAYS}
        for question in task.questions:
            for way in WAYS:
                ids = [message_ids[id] for id in _ranked(app, question.text, way)]
                ranked = [id for id in ids if id != question.besides]
                measured[way].append(Measures.of(ranked, question.grades))
        found |= {(task.name, way): Halves.of(some) for way, some in measured.items()}
    return found


def _ranked(app: App, text: str, way: str) -> list[str]:
    """Return the ids of messages that a query finds, best first."""
    if way == "vectors":
        vector = app.embedder.embed([text], query=True).astype("<f4")[0].tobytes()
        model, limit = app.embedder.model, NEAREST_CHUNKS
        near = app.store.nearest(vector, Chunk, model=model, parents=Message, limit=limit)
        return list(dict.fromkeys(hit.parent for hit in near))
    hits = search(app, Query(text), limit=RECALL_DEPTH + 1, vectors=way == "shown").hits
    return [hit.message.id for hit in hits]


# -- tables


def _sheet(place: Place, measured: Measured) -> Sheet:
    rows = []
    for task in dict.fromkeys(task for task, _ in measured):
        halves = [measured[task, way] for way in WAYS]
        for number, measure in enumerate(MEASURES):
            values = [half.reported[number] for half in halves] + [half.tuned[number] for half in halves]
            rows.append((task, measure, *(f"{value:.3f}" for value in values)))
    columns = ("task", "measure", *WAYS, *(f"{way} (tuned half)" for way in WAYS))
    return Sheet(f"Search quality: {place.title}", columns, rows, labels=2)


def _differences(measured: dict[Place, Measured]) -> Sheet:
    """Return how far the databases are apart, at most, over all measures and both halves."""
    rows = []
    for model in dict.fromkeys(place.model for place in measured):
        one, other = measured[Place(SQLITE, model)], measured[Place(POSTGRES, model)]
        for task in dict.fromkeys(task for task, _ in other):
            furthest = [
                max(
                    abs(left - right)
                    for halves in zip(one[task, way], other[task, way], strict=True)
                    for left, right in zip(*halves, strict=True)
                )
                for way in WAYS
            ]
            rows.append((task, model, *(f"{value:.4f}" for value in furthest)))
    return Sheet("Largest difference between SQLite and PostgreSQL", ("task", "model", *WAYS), rows, labels=2)
