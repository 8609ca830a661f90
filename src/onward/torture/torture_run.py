"""A run: parcels are published, faults are injected, and when all work is done it is counted.

It takes place in a temporary place; existing data is neither read nor changed.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import onward
from onward.app import App
from onward.ledger.store_errors import StoreUnavailable
from onward.model.documents import FINAL, Status
from onward.retry import OnwardError, redact
from onward.settings import Settings, variable
from onward.torture.fault_injection import FaultCounts, FaultInjector, TortureHooks, draw_schedule
from onward.torture.final_count import FinalCount, count_documents
from onward.torture.worker_groups import Fleet
from onward.torture.workload import REFUSAL_LOG, Label, Parcel, ParcelArrived, Piece, WorkloadPlan, build

if TYPE_CHECKING:
    from onward.ledger.store import Store

LEASE_SECONDS = 3.0  # short, so that others soon take over what a killed or paused group held
STALL_SECONDS = 180.0  # a run in which nothing changes for this long is ended
# Parcels that are published beyond the finished ones: a group that is killed must have something to do.
MAX_AHEAD = 250
PUBLISHED_AT_ONCE = 50
POLL_SECONDS = 0.05
KILLS_PER_PAUSE = 25
MAX_EXAMPLES = 5  # documents that are named of each kind of error
# The same retry ladder with shorter delays: the second round would come after five minutes.
_SHORT_DELAYS = {
    "retry_backoff_seconds": "0.2",
    "retry_job_interval_seconds": "10",
    "retry_job_base_delay_seconds": "0.1",
    "retry_job_max_delay_seconds": "0.8",
    "time_limit_seconds": "120",
    "metrics_backend": "noop",
}


class ScratchError(OnwardError):
    """There is no place for a run."""


@dataclass
class Scratch:
    name: str
    folder: Path
    store: str
    more_settings: Mapping[str, str] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)  # what is not removed at the end

    @property
    def _chosen(self) -> dict[str, str]:
        return {**_SHORT_DELAYS, "home": str(self.folder), "store": self.store, **self.more_settings}

    @property
    def settings(self) -> Settings:
        return Settings.model_validate(self._chosen)

    @property
    def environ(self) -> dict[str, str]:
        """The environment of worker processes: this process's, without settings that are meant for other apps."""
        settings = {variable(field) for field in Settings.model_fields}
        kept = {name: value for name, value in os.environ.items() if name not in settings}
        here = str(Path(onward.__file__).parents[1])
        path = os.pathsep.join(dict.fromkeys([here, *filter(None, kept.get("PYTHONPATH", "").split(os.pathsep))]))
        chosen = {variable(field): value for field, value in self._chosen.items()}
        return {**kept, "PYTHONPATH": path, **chosen, REFUSAL_LOG: str(self.refusal_log)}

    @property
    def refusal_log(self) -> Path:
        return self.folder / "refused"

    @property
    def where(self) -> str:
        """The store, without its password."""
        return redact(self.store)


@contextmanager
def open_scratch(store: str | None = None, *, keep: bool = False) -> Iterator[Scratch]:
    """Make a place for a run, and remove it at the end unless it is to be kept.

    Without a store it is a new SQLite file. In PostgreSQL it is a new schema.
    """
    name = f"onward_torture_{secrets.token_hex(4)}"
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix=f"{name}_"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        if not store or store.startswith("sqlite:"):
            file = _folder_of(store, folder) / f"{name}.db"
            url, place = f"sqlite:///{file}", str(file)
            stack.callback(_remove_files, file)
        elif store.startswith(("postgresql:", "postgres:")):
            url, place = _with_schema(store, name), f"schema {name} of {redact(store)}"
            stack.push(lambda kind, *_: _drop_schema(store, name, after_error=kind is not None))
        else:
            raise ScratchError(
                f"the store {redact(store)!r} is neither sqlite:///… nor postgresql://…; give one of these"
            )
        if keep:
            stack.pop_all()
        yield Scratch(name, folder, url, kept=[place, str(folder)] if keep else [])


def _folder_of(store: str | None, folder: Path) -> Path:
    """Return the folder of the file that the user named: that is the disk to be tested."""
    rest = (store or "").partition("://")[2].removeprefix("/")
    if not rest or rest == ":memory:":
        return folder
    parent = Path(rest).expanduser().parent
    if not parent.is_dir():
        raise ScratchError(f"there is no folder {parent}; make it, or name a file in another one")
    return parent.absolute()


def _remove_files(file: Path) -> None:
    for found in file.parent.glob(f"{file.name}*"):
        found.unlink(missing_ok=True)


def _with_schema(url: str, schema: str) -> str:
    parts = urlsplit(url)
    query = [(key, value) for key, value in parse_qsl(parts.query) if key != "schema"]
    query.append(("schema", schema))
    return urlunsplit(parts._replace(query=urlencode(query)))


def _drop_schema(url: str, schema: str, *, after_error: bool) -> None:
    """Drop the schema; after a failed run, the run's error is raised and not this one's."""
    with suppress(ModuleNotFoundError, ScratchError) if after_error else ExitStack():
        import psycopg
        from psycopg import sql

        from onward.ledger.postgres.store_url import driver_url

        try:
            with psycopg.connect(driver_url(url), autocommit=True) as connection:
                connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))
        except psycopg.Error as error:
            raise ScratchError(
                f"the schema of this run is still in {redact(url)}: {redact(str(error))}\n"
                f"Drop it there: DROP SCHEMA {schema} CASCADE"
            ) from error


# -- the run


@dataclass(frozen=True, slots=True)
class TortureOptions:
    documents: int = 20_000
    kills: int = 300
    minutes: float | None = None
    processes: int = 2
    workers: int = 2
    seed: int = 0


@dataclass(frozen=True, slots=True)
class TortureProgress:
    """How far a run is, for a display."""

    elapsed: float
    documents: int
    finished: int = 0
    kills_wanted: int = 0
    counts: FaultCounts = field(default_factory=FaultCounts)
    note: str = ""


@dataclass
class TortureReport:
    where: str
    seed: int
    seconds: float
    count: FinalCount
    faults: FaultCounts
    refused: int = 0  # late works of paused workers
    stalled: bool = False  # nothing changed for `STALL_SECONDS`, although some work was left
    ended_well: bool = True  # all supervisors ended on a signal
    kept: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return self.count.is_clean and not self.stalled and self.ended_well

    @property
    def kills_a_minute(self) -> float:
        return self.faults.kills / self.seconds * 60 if self.seconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        count = self.count
        return {
            "store": self.where,
            "seed": self.seed,
            "seconds": round(self.seconds, 1),
            **vars(count),
            **{kind: len(ids) for kind, ids in count.errors().items()},
            "kills": self.faults.kills,
            "kills_a_minute": round(self.kills_a_minute, 1),
            **vars(self.faults),
            "late_works_refused": self.refused,
            "stalled": self.stalled,
            "ended_well": self.ended_well,
            "examples": {kind: ids[:MAX_EXAMPLES] for kind, ids in count.errors().items() if ids},
            "kept": self.kept,
            "clean": self.is_clean,
        }


def torture(
    options: TortureOptions,
    scratch: Scratch,
    show: Callable[[TortureProgress], None],
    hooks: TortureHooks | None = None,
) -> TortureReport:
    """Run the workload, inject faults, and count."""
    app = build(scratch.settings)
    try:
        _ = app.store  # first: that several processes make the tables at once is not tested here
        folder, environ = scratch.folder, scratch.environ
        with Fleet(folder, environ, options.workers, options.processes, LEASE_SECONDS) as fleet:
            return _Run(options, scratch, app, fleet, show, hooks or TortureHooks()).run()
    finally:
        app.close()


@dataclass
class _Run:
    _options: TortureOptions
    _scratch: Scratch
    _app: App
    _fleet: Fleet
    _show: Callable[[TortureProgress], None]
    _hooks: TortureHooks

    def __post_init__(self) -> None:
        options, hooks, log = self._options, self._hooks, self._scratch.refusal_log
        plan = self._plan = WorkloadPlan(options.documents, options.seed)
        random = Random(options.seed)
        pauses = -(-options.kills // KILLS_PER_PAUSE) if options.workers > 1 else 0
        schedule = draw_schedule(random, plan, kills=options.kills, pauses=pauses, extra=len(hooks.extra_faults))
        self._faults = FaultInjector(schedule, self._fleet, self._app, plan, hooks, random, log)
        self._published = self._finished = self._unsettled = 0
        self._began = time.monotonic()
        self._time_is_up = False

    def run(self) -> TortureReport:
        pause, counts = threading.Event(), self._faults.counts
        last_state: tuple[int, ...] = ()
        changed_at, stalled = self._began, False
        while not stalled:
            self._fleet.fill()
            note = ""
            try:
                if self._step():
                    break
            except StoreUnavailable as error:
                note = str(error)
            state = (self._finished, self._unsettled, self._published, counts.kills, counts.sent_again)
            if state != last_state:
                last_state, changed_at = state, time.monotonic()
            stalled = time.monotonic() - changed_at > STALL_SECONDS
            self._report_progress(note)
            pause.wait(POLL_SECONDS)
        self._report_progress("all work is done; ending and counting")
        seconds = time.monotonic() - self._began
        ended_well = self._fleet.end()
        log = self._scratch.refusal_log
        return TortureReport(
            where=self._scratch.where,
            seed=self._options.seed,
            seconds=seconds,
            count=count_documents(self._app.store, self._plan, self._published),
            faults=counts,
            refused=len(log.read_bytes().splitlines()) if log.exists() else 0,
            stalled=stalled,
            ended_well=ended_well,
            kept=self._scratch.kept,
        )

    def _step(self) -> bool:
        """Publish parcels and inject due faults; return whether all work is done."""
        self._finished, self._unsettled = _read_progress(self._app.store)
        minutes = self._options.minutes
        if minutes is not None and not self._time_is_up and time.monotonic() - self._began > minutes * 60:
            self._time_is_up = True
            self._faults.stop()
        self._faults.step(self._finished, self._published)
        if self._faults.may_block:
            return False
        if not self._time_is_up:
            self._publish(min(self._finished, self._faults.next_at) + MAX_AHEAD)
        all_published = self._time_is_up or self._published == self._plan.documents
        return all_published and self._faults.is_over and not _read_progress(self._app.store)[1]

    def _publish(self, up_to: int) -> None:
        """Publish parcels, up to this many in all; a group of them that fails halfway is published again."""
        up_to = min(up_to, self._plan.documents)
        while self._published < up_to:
            numbers = range(self._published, min(self._published + PUBLISHED_AT_ONCE, up_to))
            foreign = {number: self._plan.foreign_event(number) for number in numbers}
            # Before its parcel is stored: an event that comes too early has to wait for its document.
            for raw in foreign.values():
                if raw is not None:
                    self._hooks.send_foreign(self._app, raw)
            parcels = {number: self._plan.parcel(number) for number in numbers}
            own = [ParcelArrived.of(parcels[number]) for number in numbers if foreign[number] is None]
            self._app.publish(*own, documents=list(parcels.values()))
            self._published = numbers.stop

    def _report_progress(self, note: str) -> None:
        elapsed = time.monotonic() - self._began
        options, counts = self._options, self._faults.counts
        self._show(TortureProgress(elapsed, options.documents, self._finished, options.kills, counts, note))


def _read_progress(store: Store) -> tuple[int, int]:
    """Return how many parcels are finished, and how many documents and rows are not settled."""
    documents = store.document_counts()
    parcels, pieces, labels = (documents.get(kind.collection, {}) for kind in (Parcel, Piece, Label))
    finished = sum(labels.get(status, 0) for status in FINAL)
    finished += sum(kind.get(status, 0) for kind in (parcels, pieces) for status in FINAL - {Status.PROCESSED})
    pending = sum(counts.get(Status.PENDING, 0) for counts in (parcels, pieces, labels))
    rows = sum(states.get("waiting", 0) + states.get("claimed", 0) for states in store.counts().values())
    return finished, pending + rows
