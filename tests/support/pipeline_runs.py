"""The cast of the pipeline's tests: mails that a test writes, and a pipeline that runs stage by stage."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from onward import App, Document, Work
from onward.model.ledger import Settlement
from onward.models.protocol import Embedder
from onward.pipeline.app import build
from onward.pipeline.documents import Archive, Chunk, Message, Summary, Thread
from onward.pipeline.events import ChunksPrepared, EmbeddingsGenerated
from onward.pipeline.fetch import canonical
from onward.pipeline.sources import fetch_report, forget, message_counts, source_status, submit
from onward.runtime.handler_call import Call
from onward.runtime.work import Checkpointed
from onward.settings import load_settings
from onward.testing import Simulation

D = TypeVar("D", bound=Document)

MEMORY = Path("/dev/shm")
MOST_DEATHS = 3
STAGES = ("ingestion", "parsing", "chunking", "embedding", "orchestration", "summarization")


def mail(
    id: str | None,
    body: str = "Hello, all.",
    *,
    subject: str = "A question",
    author: str = "Ada <ada@example.org>",
    date: str = "Mon, 2 Mar 2026 10:00:00 +0000",
    references: Sequence[str] = (),
    headers: str = "",
) -> str:
    """One mail; without an id it has no Message-ID."""
    named = f"Message-ID: <{id}@example.org>\n" if id is not None else ""
    refers = "References: " + " ".join(f"<{one}@example.org>" for one in references) + "\n" if references else ""
    first = f"From: {author}\nTo: list@example.org\nDate: {date}\nSubject: {subject}\n"
    return f"{first}{named}{refers}{headers}\n{body}\n"


def mbox(*mails: str | bytes) -> bytes:
    """An archive of these mails."""
    parts = [one.encode() if isinstance(one, str) else one for one in mails]
    return b"".join(b"From ada@example.org Mon Mar  2 10:00:00 2026\n" + one + b"\n" for one in parts)


@cache
def _static() -> Embedder:
    return build(load_settings({})).embedder


@contextmanager
def scratch_pipeline(**settings: str) -> Iterator[tuple[Pipeline, Path]]:
    """A pipeline and a folder to write sources into, for tests that need many of them."""
    folder = Path(tempfile.mkdtemp(prefix="onward-", dir=MEMORY if MEMORY.is_dir() else None))
    try:
        with Pipeline(folder / "home", **settings).running() as running:
            (folder / "sources").mkdir()
            yield running, folder / "sources"
    finally:
        shutil.rmtree(folder)


class Pipeline:
    """The whole pipeline on simulated time; its store is a file that a test looks into with its own eye."""

    def __init__(self, home: Path, *, store: str = "", **settings: str) -> None:
        self.home = home
        self.app: App = build(load_settings({"ONWARD_HOME": str(home), "ONWARD_OCR": "off"} | settings))
        self.services = self.app.registry.services
        self.file = home / "simulated.db"
        home.mkdir(parents=True, exist_ok=True)
        self.world = Simulation(self.app, store=store or f"sqlite:///{self.file}")

    @contextmanager
    def running(self) -> Iterator[Pipeline]:
        with self.world:
            if self.app.settings.embedder == "static":
                self.app._opened["embedder"] = _static()  # reading its weights takes longer than most tests
            try:
                yield self
            finally:
                embedder = self.app._opened.pop("embedder", None)
                if embedder is not None and embedder.remote:
                    embedder.close()

    # -- what a user does

    def submit(self, location: Path | str) -> None:
        submit(self.app, str(location))

    def ingest(self, location: Path | str) -> None:
        """Submit a source and let everything come to rest."""
        self.submit(location)
        self.run()

    def forget(self, location: Path | str) -> int:
        return forget(self.app, str(location))

    def run(self, *services: str, within: float = 0.0) -> int:
        """Let these services, or all, do what is due; answer how many calls that were."""
        with self._only(services or tuple(self.services)):
            return self.world.drain(within=within)

    def step(self, service: str) -> bool:
        """Let one event of a service be handled, if one is due."""
        with self._only([service]):
            return self.world._pass()

    @contextmanager
    def _only(self, services: Sequence[str]) -> Iterator[None]:
        registry = self.app.registry
        before, registry.services = registry.services, {name: self.services[name] for name in services}
        try:
            yield
        finally:
            registry.services = before

    @contextmanager
    def meanwhile(self, service: str, happens: Callable[[], object]) -> Iterator[None]:
        """Something happens once while a handler of this service runs: after it has read, before its commit."""
        services = self.services
        real = services[service]
        to_come = [happens]

        def handle(given: object, work: Work) -> None:
            real.handler(given, work)
            if to_come:
                to_come.pop()()

        services[service] = replace(real, handler=handle)
        try:
            yield
        finally:
            services[service] = real
        assert not to_come, f"{service} was never run"

    @contextmanager
    def at_each_checkpoint(self, happens: Callable[[Work], object]) -> Iterator[None]:
        """Something happens after each checkpoint, as others go on while a handler runs."""
        real = Call.checkpoint
        busy: list[bool] = []

        def checkpoint(call: Call, work: Work, cursor: Any) -> Checkpointed:
            committed = real(call, work, cursor)
            if not busy:
                busy.append(True)
                happens(work)
                busy.clear()
            return committed

        Call.checkpoint = checkpoint  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            Call.checkpoint = real  # type: ignore[method-assign]

    @contextmanager
    def crashing_after_checkpoint(self, number: int, *, surely: bool = True) -> Iterator[None]:
        """The worker dies once, right after so many checkpoints; what it held comes back when its lease lapses."""
        seen: list[Work] = []

        def crash(work: Work) -> None:
            seen.append(work)
            if len(seen) == number:
                raise KeyboardInterrupt

        with self.at_each_checkpoint(crash), suppress(KeyboardInterrupt):
            yield
        assert len(seen) >= number or not surely, "it never came so far"
        self.world.clock.advance(3600)

    def look_at(self, *threads: Thread) -> None:
        """Ask for threads to be looked at, though nothing has happened to them."""
        self.app.publish(EmbeddingsGenerated(thread_ids=[one.id for one in threads]), source=threads[0].source)

    def embed(self, *chunks: Chunk) -> None:
        """Ask for chunks to be embedded, with an event of their own."""
        self.app.publish(ChunksPrepared.of(chunks))

    def drop_waiting(self, service: str) -> None:
        """Make a service's events disappear, as if they had been lost."""
        store = self.world.store
        for delivery in store.claim("nobody", service, limit=1000, lease=60.0):
            settled = store.settle([Settlement(delivery.row, delivery.token, delivery.collection)])
            assert [one.status for one in settled] == ["committed"]

    def crash_on(self, service: str, id: str) -> None:
        """Let everything run, with a worker that dies whenever it handles one document."""
        store = self.world.store
        while deliveries := store.claim("frail", service, limit=1, lease=60.0):
            (delivery,) = deliveries
            if id in [one.id for one in delivery.inputs]:
                store.record_crash("frail", [delivery.row])
                if delivery.deaths:
                    break
            else:
                store.release("frail")
                self.step(service)
        while deliveries := store.claim("frail", service, limit=1, lease=60.0, suspects=True):
            (delivery,) = deliveries
            if id not in [one.id for one in delivery.inputs] or delivery.deaths >= MOST_DEATHS:
                store.release("frail")
                self.step(service)
                continue
            store.record_crash("frail", [delivery.row])
        self.run()

    # -- what a test sees

    def all(self, kind: type[D]) -> list[D]:
        ids = [one.id for one in self.world.store.states(kind, limit=100_000)]
        return self.world.store.get_many(kind, ids)

    def messages(self) -> dict[str, Message]:
        """Messages by what their Message-ID begins with, or by their path."""
        return {one.message_id.partition("@")[0] or one.subject: one for one in self.all(Message)}

    def summary_of(self, message: str) -> Summary | None:
        """The summary of the thread that a message belongs to."""
        return self.app.get(Summary, self.messages()[message].thread_id)

    def chunks_of(self, message: str) -> list[Chunk]:
        return self.all_chunks(self.messages()[message].id)

    def all_chunks(self, message_id: str) -> list[Chunk]:
        return [one for one in self.all(Chunk) if one.message_id == message_id]

    def counts(self, location: Path | str) -> dict[str, dict[str, int]]:
        return source_status(self.app, self.source(location)).documents

    def status(self, location: Path | str) -> str:
        return source_status(self.app, self.source(location)).status

    def report(self, location: Path | str) -> dict[str, dict[str, int]]:
        fetched = fetch_report(self.app, self.source(location))
        messages = message_counts(self.app, self.source(location))
        return {"source": fetched.counts if fetched else {}, "messages": messages}

    def source(self, location: Path | str) -> str:
        return canonical(str(location))

    def texts(self) -> list[str]:
        """The bodies of all messages, sorted."""
        return sorted(one.new_text().strip() for one in self.all(Message))

    def ask(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        eye = sqlite3.connect(self.file, isolation_level=None)
        try:
            return eye.execute(query, values).fetchall()
        finally:
            eye.close()

    def blobs(self) -> int:
        folder = self.home / "blobs"
        found = folder.rglob("*") if folder.exists() else ()
        return sum(1 for one in found if one.is_file() and one.name != ".lock")

    def times(self, *collections: str) -> dict[tuple[str, str], tuple[Any, ...]]:
        """Revision, rounds, and when each document was last touched."""
        found = self.ask(
            "SELECT collection, id, status, revision, round, attempt_count, updated_at FROM documents"
        )
        return {(c, id): tuple(rest) for c, id, *rest in found if not collections or c in collections}

    def final_state(self) -> dict[tuple[str, str], tuple[str, Any]]:
        """What a user can find out about the documents: what they are and how they stand, not when."""
        found = self.ask(
            "SELECT d.collection, d.id, d.status, b.body, v.vector IS NOT NULL, t.text FROM documents d "
            "JOIN bodies b ON b.doc = d.doc LEFT JOIN vectors v ON v.doc = d.doc "
            "LEFT JOIN texts t ON t.rowid = d.doc"
        )
        state: dict[tuple[str, str], tuple[str, Any]] = {}
        for collection, id, status, body, placed, text in found:
            if collection in ("tasks", "reports") or (collection == "archives" and '"blob":null' in body):
                continue
            content = json.loads(body)
            for name in ("submission", "covers", "seconds", "rereads", "placeholders"):
                content.pop(name, None)
            state[collection, id] = (status, (content, placed, text))
        return state

    def check(self) -> None:
        """What must hold whenever nothing runs."""
        assert not self.ask("SELECT id FROM ledger WHERE state = 'claimed'")
        counted = self.ask(
            "SELECT coalesce(source, ''), collection, status, count(*) FROM documents GROUP BY 1, 2, 3"
        )
        assert sorted(counted) == self.ask("SELECT * FROM status_counts WHERE n <> 0 ORDER BY 1, 2, 3")
        for table in ("keys", "vectors"):
            assert not self.ask(f"SELECT doc FROM {table} EXCEPT SELECT doc FROM documents"), table
        assert not self.ask("SELECT rowid FROM texts EXCEPT SELECT doc FROM documents")
        assert not self.ask("SELECT id FROM failed_batches EXCEPT SELECT failed_batch FROM documents")
        messages, threads = {one.id: one for one in self.all(Message)}, {one.id for one in self.all(Thread)}
        assert {one.message_id for one in self.all(Chunk)} <= messages.keys(), "a chunk without its message"
        assert {one.id for one in self.all(Summary)} <= threads, "a summary without its thread"

    def check_at_rest(self) -> None:
        """What must hold when all is done: nothing waits, nothing is pending, nothing is left over."""
        self.check()
        assert not self.ask("SELECT service, data FROM ledger WHERE state = 'waiting'")
        assert not self.ask(
            "SELECT collection, id FROM documents WHERE status = 'pending' AND failed_batch IS NULL"
        )
        messages = self.all(Message)
        origins = {one.origin for one in self.all(Archive) if one.blob}
        assert {one.origin for one in messages} <= origins, "a message from a place that is gone"
        readable = {one.thread_id for one in messages if one.blob is None}
        assert {one.id for one in self.all(Thread)} == readable
        assert {one.id for one in self.all(Summary)} == readable
