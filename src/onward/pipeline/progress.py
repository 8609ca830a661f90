"""The progress of a run of the pipeline, computed from the store."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from onward import App, Status
from onward.pipeline.app import STAGES
from onward.pipeline.documents import Archive, source_id
from onward.pipeline.sources import GIVEN_UP, SourceStatus
from onward.pipeline.vector_upgrade import read_upgrade

UPGRADE = "upgrade"  # the name of the stage that gives chunks a vector of a better model
RATE_SECONDS = 10.0  # the period that a rate is measured over
# Below these, the remaining time is not estimated.
MIN_SECONDS = 3.0
MIN_SHARE = 0.05
MAX_ARCHIVES = 5_000  # of more archives, a sample of this size represents all


@dataclass(slots=True)
class StageProgress:
    """The progress of one service in this run."""

    name: str
    unit: str = "event"
    done: int = 0
    waiting: int = 0
    waiting_unit: str = ""
    working: int = 0  # events that are being handled
    failed: int = 0
    share: float | None = None  # the done part of all; None if the total is unknown
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class OutageProgress:
    """A dependency that is down or paused, and the number of events that wait for it."""

    dependency: str
    since: float | None
    until: float | None  # the time of the next probe
    reason: str
    remedy: str
    waiting: int


@dataclass(slots=True)
class RunProgress:
    stages: list[StageProgress]
    elapsed: float
    outages: list[OutageProgress] = field(default_factory=list)
    left: float | None = None  # estimated seconds until everything is done; None if unknown


class ProgressMeter:
    """Measures one run; documents finished before it began are not counted."""

    def __init__(self, app: App, sources: Sequence[str] = (), *, upgrade: bool = False) -> None:
        self._app = app
        self._first_upgraded = _upgraded(app)[0] if upgrade else None
        self._requests = [source_id(source) for source in sources]
        self._needs = {service.name: service.needs for service in app.registry.services.values()}
        self._first, _, self._first_final = self._counts()
        self._most: dict[str, int] = {}
        self._sizes: dict[str, int] | None = None
        self._unread: set[str] = set()
        self._samples: deque[tuple[float, dict[str, int]]] = deque()
        self._began = app.store.now()

    def measure(self) -> RunProgress:
        now = self._app.store.now()
        rows = self._app.store.counts()
        stages = {name: StageProgress(name) for name in STAGES}
        for name, stage in stages.items():
            events = rows.get(name, {})
            stage.working, stage.failed = events.get("claimed", 0), events.get("dead", 0)
            stage.waiting = events.get("waiting", 0)
        self._count(stages)
        if self._first_upgraded is not None:
            stages[UPGRADE] = self._count_upgraded(self._first_upgraded)
        self._samples.append((now, {name: stage.done for name, stage in stages.items()}))
        while now - self._samples[0][0] > RATE_SECONDS:
            self._samples.popleft()
        for name, stage in stages.items():
            # A stage that has just begun is measured from its beginning.
            idle = [sample for sample in self._samples if sample[1][name] == 0]
            then, before = idle[-1] if idle else self._samples[0]
            if now - then >= MIN_SECONDS / 2:
                stage.rate = max(0.0, (stage.done - before[name]) / (now - then))
        progress = RunProgress(list(stages.values()), now - self._began, list(self._outages(rows, now)))
        progress.left = None if progress.outages else _left(stages, progress.elapsed)
        return progress

    def _counts(self) -> tuple[SourceStatus, int, int]:
        """Count all documents, and the unfinished and finished requests of this run."""
        states = self._app.store.statuses(Archive, self._requests)
        pending = sum(status == Status.PENDING for status in states.values())
        return SourceStatus("", self._app.store.document_counts()), pending, len(states) - pending

    def _count(self, stages: dict[str, StageProgress]) -> None:
        """Count documents for a service that finishes some, else its events."""
        first = self._first
        now, requests_pending, requests_final = self._counts()
        fetching, reading = stages["ingestion"], stages["parsing"]
        fetching.unit, fetching.waiting = "source", requests_pending
        fetching.done = max(0, requests_final - self._first_final)
        reading.unit, reading.waiting_unit = "message", "archive"
        reading.waiting = max(0, now.count("archives", Status.PENDING) - requests_pending)
        reading.done = max(0, now.count("messages") - first.count("messages"))
        failed = now.count("messages", *GIVEN_UP) - first.count("messages", *GIVEN_UP)
        reading.failed += max(0, failed - stages["chunking"].failed)
        if not fetching.waiting:
            reading.share = self._share_read(reading)
        for name, unit in (("chunking", "message"), ("embedding", "chunk"), ("summarization", "thread")):
            stage, collection = stages[name], unit + "s"
            stage.unit, stage.waiting = unit, now.count(collection, Status.PENDING)
            final_before = first.count(collection) - first.count(collection, Status.PENDING)
            finished = now.count(collection) - stage.waiting - final_before
            # A document that was final and is processed again is not in the difference, but was seen waiting.
            self._most[name] = max(self._most.get(name, 0), stage.waiting)
            stage.done = max(0, finished, self._most[name] - stage.waiting)
        for stage in stages.values():
            if stage is not reading and stage.done + stage.waiting:
                # While archives are being parsed, only a part of the documents is known.
                known = 1.0 if reading.share is None or stage is fetching else reading.share
                stage.share = stage.done / (stage.done + stage.waiting) * known
        stages["orchestration"].share = None

    def _count_upgraded(self, first: int) -> StageProgress:
        vectors, missing = _upgraded(self._app)
        stage = StageProgress(UPGRADE, "chunk", max(0, vectors - first), missing)
        stage.share = stage.done / (stage.done + missing) if stage.done + missing else 1.0
        return stage

    def _share_read(self, reading: StageProgress) -> float | None:
        """Return the parsed part of the bytes that were fetched in this run."""
        store = self._app.store
        if self._sizes is None:
            # The archives of this run; all are fetched by now.
            requests = {request.id: request.submission for request in store.get_many(Archive, self._requests)}
            found = store.find(Archive, "source_id", list(requests))
            ids = sorted(row.id for row in found if row.id not in requests)[:MAX_ARCHIVES]
            pending = {row.id for row in found if row.status == Status.PENDING}
            self._sizes = {
                archive.id: archive.size
                for start in range(0, len(ids), 500)
                for archive in store.get_many(Archive, ids[start : start + 500])
                if archive.id in pending or archive.submission == requests.get(archive.source_id)
            }
            self._unread = set(self._sizes)
        if not self._sizes:
            return None if reading.waiting else 1.0
        states = store.statuses(Archive, sorted(self._unread))
        self._unread = {id for id, status in states.items() if status == Status.PENDING}
        unread = sum(self._sizes[id] for id in self._unread)
        for id, cursor in store.cursors("parsing").items() if self._unread else ():
            if id in self._unread:
                unread -= min(cursor.get("end", 0), self._sizes[id])
        return 1.0 - unread / (sum(self._sizes.values()) or 1)

    def _outages(self, rows: Mapping[str, Mapping[str, int]], now: float) -> Iterator[OutageProgress]:
        for breaker in self._app.store.breakers():
            name, since, remedy = breaker.dependency, breaker.opened_at, breaker.remedy
            services = [service for service, needs in self._needs.items() if name in needs]
            waiting = sum(rows.get(service, {}).get("waiting", 0) for service in services)
            if breaker.open:
                yield OutageProgress(name, since, breaker.next_probe, breaker.reason, remedy, waiting)
            elif breaker.paused_until is not None and breaker.paused_until > now:
                yield OutageProgress(name, since, breaker.paused_until, "it asks for a pause", remedy, waiting)


def _upgraded(app: App) -> tuple[int, int]:
    """Return how many chunks have a vector of the better model, and how many have none."""
    found = read_upgrade(app)
    return (found.vectors, found.missing) if found is not None else (0, 0)


def _left(stages: Mapping[str, StageProgress], elapsed: float) -> float | None:
    """Estimate the remaining seconds, by the slowest stage; None if it is too early."""
    share = stages["parsing"].share
    if stages["ingestion"].waiting or share is None or elapsed < MIN_SECONDS or share < MIN_SHARE:
        return None
    left = elapsed * (1 - share) / share
    for name in ("chunking", "embedding", "summarization", UPGRADE):
        stage = stages.get(name)
        if stage is None or not stage.waiting or (name == "summarization" and share < 1):
            continue  # summaries begin when an archive is parsed to its end; their rate is unknown before
        if not stage.rate:
            return None
        expected = (stage.done + stage.waiting) / share
        left = max(left, (expected - stage.done) / stage.rate)
    return left
