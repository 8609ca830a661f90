"""Progress: how far a run of the pipeline has got, computed from the store."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onward import App, Status
from onward.pipeline.app import STAGES
from onward.pipeline.documents import Archive, Chunk, Message, Thread, source_id

RATE_SECONDS = 10.0
"""A rate is that of the last so many seconds."""
LEAST_SECONDS = 3.0
"""What is shorter than this says nothing about the rest."""
LEAST_SHARE = 0.05
MOST_ARCHIVES = 5_000
"""Of more archives than this, so many are looked at: they stand for all."""


@dataclass(slots=True)
class Stage:
    """How far one service has got in this run."""

    name: str
    unit: str = "event"
    done: int = 0
    waiting: int = 0
    waiting_unit: str = ""
    working: int = 0
    """Events under way."""
    failed: int = 0
    share: float | None = None
    """Which part of it is done; None: nobody knows how much there is."""
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Outage:
    """A dependency that is down or asks for a pause, and how much waits for it."""

    dependency: str
    since: float | None
    until: float | None
    """When it is asked again."""
    reason: str
    remedy: str
    waiting: int


@dataclass(slots=True)
class View:
    """Everything there is to show at one moment."""

    stages: list[Stage]
    elapsed: float
    outages: list[Outage] = field(default_factory=list)
    left: float | None = None
    """Seconds until everything is done, as far as that can be known."""

    def stage(self, name: str) -> Stage:
        return next(one for one in self.stages if one.name == name)


class Progress:
    """One run over some sources; what was finished before it began is not counted."""

    def __init__(self, app: App, sources: Sequence[str] = ()) -> None:
        self._app = app
        self._requests = [source_id(source) for source in sources]
        self._needs = {one.name: one.needs for one in app.registry.services.values()}
        self._first = _Counts.of(app, self._requests)
        self._most: dict[str, int] = {}
        self._sizes: dict[str, int] | None = None
        self._unread: set[str] = set()
        self._samples: deque[tuple[float, dict[str, int]]] = deque()
        self._began = app.store.now()

    def look(self) -> View:
        """How the run stands now."""
        now = self._app.store.now()
        counts = _Counts.of(self._app, self._requests)
        rows = self._app.store.counts()
        stages = {name: self._stage(name, rows.get(name, {})) for name in STAGES}
        self._count(stages, counts)
        self._measure(stages, now)
        view = View(list(stages.values()), now - self._began, self._outages(rows))
        view.left = None if view.outages else _left(stages, view.elapsed)
        return view

    def _stage(self, name: str, rows: Mapping[str, int]) -> Stage:
        return Stage(
            name, working=rows.get("claimed", 0), failed=rows.get("dead", 0), waiting=rows.get("waiting", 0)
        )

    def _count(self, stages: dict[str, Stage], now: _Counts) -> None:
        """Count documents, which people know, where a service finishes some; else its events."""
        first = self._first
        fetching, reading = stages["ingestion"], stages["parsing"]
        fetching.unit, fetching.waiting = "source", now.requests_pending
        fetching.done = max(0, now.requests_final - first.requests_final)
        reading.unit, reading.waiting_unit = "message", "archive"
        reading.waiting = max(0, now.pending("archives") - now.requests_pending)
        reading.done = max(0, now.all("messages") - first.all("messages"))
        reading.failed += max(0, now.failed("messages") - first.failed("messages") - stages["chunking"].failed)
        if not fetching.waiting:
            reading.share = self._share_read(reading)
        for name, unit, collection in (
            ("chunking", "message", Message.collection),
            ("embedding", "chunk", Chunk.collection),
            ("summarization", "thread", Thread.collection),
        ):
            stage = stages[name]
            stage.unit, stage.waiting = unit, now.pending(collection)
            finished = now.final(collection) - first.final(collection)
            # What was final and is done anew is not counted by the difference, but it was seen waiting.
            self._most[name] = max(self._most.get(name, 0), stage.waiting)
            stage.done = max(0, finished, self._most[name] - stage.waiting)
        for stage in stages.values():
            if stage is not reading and stage.done + stage.waiting:
                # Of what comes only a part is known while archives are still being read.
                known = 1.0 if reading.share is None or stage is fetching else reading.share
                stage.share = stage.done / (stage.done + stage.waiting) * known
        stages["orchestration"].share = None

    def _share_read(self, reading: Stage) -> float | None:
        """Which part of the bytes that were fetched in this run has been read."""
        if self._sizes is None:
            self._sizes = self._fetched()
            self._unread = set(self._sizes)
        if not self._sizes:
            return None if reading.waiting else 1.0
        states = self._app.store.statuses(Archive, sorted(self._unread))
        self._unread = {id for id, status in states.items() if status == Status.PENDING}
        unread = sum(self._sizes[id] for id in self._unread)
        for id, cursor in self._app.store.cursors("parsing").items() if self._unread else ():
            if id in self._unread:
                unread -= min(cursor.get("end", 0), self._sizes[id])
        return 1.0 - unread / (sum(self._sizes.values()) or 1)

    def _fetched(self) -> dict[str, int]:
        """The sizes of the archives that this run has to read, found when all are fetched."""
        requests = {one.id: one.submission for one in self._app.store.get_many(Archive, self._requests)}
        found = self._app.store.find(Archive, "source_id", list(requests))
        ids = sorted(one.id for one in found if one.id not in requests)[:MOST_ARCHIVES]
        pending = {one.id for one in found if one.status == Status.PENDING}
        return {
            one.id: one.size
            for start in range(0, len(ids), 500)
            for one in self._app.store.get_many(Archive, ids[start : start + 500])
            if one.id in pending or one.submission == requests.get(one.source_id)
        }

    def _measure(self, stages: dict[str, Stage], now: float) -> None:
        self._samples.append((now, {name: stage.done for name, stage in stages.items()}))
        while now - self._samples[0][0] > RATE_SECONDS:
            self._samples.popleft()
        for name, stage in stages.items():
            # A stage that has just begun is measured from there, not from when it had nothing to do.
            idle = [one for one in self._samples if one[1][name] == 0]
            then, before = idle[-1] if idle else self._samples[0]
            if now - then >= LEAST_SECONDS / 2:
                stage.rate = max(0.0, (stage.done - before[name]) / (now - then))

    def _outages(self, rows: Mapping[str, Mapping[str, int]]) -> list[Outage]:
        now = self._app.store.now()
        found = []
        for one in self._app.store.breakers():
            paused = one.paused_until is not None and one.paused_until > now
            if not one.open and not paused:
                continue
            waiting = sum(
                rows.get(name, {}).get("waiting", 0)
                for name, needs in self._needs.items()
                if one.dependency in needs
            )
            until = one.next_probe if one.open else one.paused_until
            reason = one.reason if one.open else "it asks for a pause"
            found.append(Outage(one.dependency, one.opened_at, until, reason, one.remedy, waiting))
        return found


@dataclass(frozen=True, slots=True)
class _Counts:
    """How many documents stand where."""

    documents: Mapping[str, Mapping[str, int]]
    requests_pending: int
    requests_final: int

    @classmethod
    def of(cls, app: App, requests: Sequence[str]) -> _Counts:
        states = app.store.statuses(Archive, requests)
        pending = sum(status == Status.PENDING for status in states.values())
        return cls(app.store.document_counts(), pending, len(states) - pending)

    def all(self, collection: str) -> int:
        return sum(self.documents.get(collection, {}).values())

    def pending(self, collection: str) -> int:
        return self.documents.get(collection, {}).get(Status.PENDING, 0)

    def final(self, collection: str) -> int:
        return self.all(collection) - self.pending(collection)

    def failed(self, collection: str) -> int:
        found = self.documents.get(collection, {})
        return found.get(Status.FAILED, 0) + found.get(Status.FAILED_MAX_RETRIES, 0)


def _left(stages: Mapping[str, Stage], elapsed: float) -> float | None:
    """The stages work side by side: the slowest of them says how long it takes. None: too early to say."""
    reading = stages["parsing"]
    if stages["ingestion"].waiting or reading.share is None or elapsed < LEAST_SECONDS:
        return None
    if reading.share < LEAST_SHARE:
        return None
    left = elapsed * (1 - reading.share) / reading.share
    for name in ("chunking", "embedding", "summarization"):
        stage = stages[name]
        if not stage.waiting or (name == "summarization" and reading.share < 1):
            continue  # summaries begin when an archive is read to its end; how fast they are is not known before
        if not stage.rate:
            return None
        expected = (stage.done + stage.waiting) / reading.share
        left = max(left, (expected - stage.done) / stage.rate)
    return left
