"""What a load of messages needs: processor time, calls, and a database, from measured costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from onward.ops.capacity.figures import EMBEDDING, POSTGRES, SQLITE, Figures, MessageCosts, StoreCosts

MOST_USED = 0.7  # of a processor, a disk or a dependency in the busiest hour: more than that, and work waits
MONTH_SECONDS = 30 * 86_400.0
HOUR_SECONDS = 3600.0
MAX_FILE_BYTES = 500e9  # of a store in one file: more takes hours to copy, to check or to restore


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """A model behind an API, and what it allows."""

    call_seconds: float
    calls_per_second: float | None = None
    tokens_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """Messages that come, and what is done with them."""

    per_second: float  # on average
    message: MessageCosts
    peak: float = 3.0  # the busiest hour, as a multiple of the average
    keep_seconds: float = 365 * 86_400.0
    remote: Mapping[str, RemoteModel] = field(default_factory=dict)  # by service
    concurrency: int = 3  # calls at once of a worker process, where the model is remote
    embedder_batch: int = 64  # texts of a call to a remote embedder
    found_in: str = ""  # where the numbers are from that nobody gave


@dataclass(frozen=True, slots=True)
class CallDemand:
    """The calls to a remote model."""

    service: str
    per_month: float
    tokens_per_month: float
    at_once: float  # in the busiest hour
    limit_use: float | None  # of its limit, on average; None: it has none
    peak_limit_use: float | None
    catch_up_seconds: float | None = None  # until what the busiest hour left waiting is done; None: never
    most_messages_per_second: float | None = None  # that the limit allows


@dataclass(frozen=True, slots=True)
class DatabaseDemand:
    """What a database has to do, and to hold."""

    name: str
    bytes_per_message: float
    bytes_kept: float
    bytes_per_month: float
    server_cores: float  # in the busiest hour, as all that follows
    commits_per_second: float
    log_bytes_per_second: float
    page_writes_per_second: float
    most_per_second: float | None  # messages that it takes when it is used to `MOST_USED`; None: any number

    @property
    def writes_per_second(self) -> float:
        """Return the operations of its disk: flushes of the log, and pages."""
        return self.commits_per_second + self.page_writes_per_second


@dataclass(frozen=True, slots=True)
class Plan:
    """What a workload needs."""

    workload: Workload
    peak_per_second: float
    cores: Mapping[str, float]  # that are busy in workers in the busiest hour, by service
    processes: int
    waiting_processes: int  # that are needed for calls at once, whatever their processors do
    calls: tuple[CallDemand, ...]
    databases: tuple[DatabaseDemand, ...]
    advised: str  # the database
    blob_bytes: float
    outage_catch_up_seconds: float | None  # after an hour without any work, on average; None: never

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def make_plan(workload: Workload, figures: Figures) -> Plan:
    """Return what a workload needs; the database that is advised determines the workers."""
    peak = workload.per_second * workload.peak
    size = workload.message.bytes / figures.message.bytes
    databases = tuple(_database(name, workload, figures.stores[name], size) for name in (SQLITE, POSTGRES))
    file, most = databases[0], databases[0].most_per_second
    advised = SQLITE if most is not None and peak <= most and file.bytes_kept <= MAX_FILE_BYTES else POSTGRES
    message = workload.message
    each = {
        name: seconds
        for name, seconds in message.processor_seconds.items()
        if name not in workload.remote  # its processors are elsewhere
    }
    each["ledger and search index"] = figures.stores[advised].worker_seconds * size
    cores = {name: peak * seconds for name, seconds in each.items()}
    calls = tuple(_calls(name, workload, model) for name, model in workload.remote.items())
    waiting = math.ceil(sum(one.at_once for one in calls) / workload.concurrency)
    processes = max(1, waiting, math.ceil(sum(cores.values()) / MOST_USED))
    # Messages a second, with nothing left for others; a model may allow fewer.
    allowed = [one.most_messages_per_second for one in calls if one.most_messages_per_second is not None]
    spare = min([processes / sum(each.values()), *allowed]) - workload.per_second
    return Plan(
        workload=workload,
        peak_per_second=peak,
        cores=cores,
        processes=processes,
        waiting_processes=waiting,
        calls=calls,
        databases=databases,
        advised=advised,
        blob_bytes=_kept(workload) * message.bytes,
        outage_catch_up_seconds=workload.per_second * HOUR_SECONDS / spare if spare > 0 else None,
    )


def _kept(workload: Workload) -> float:
    return workload.per_second * workload.keep_seconds


def _calls(name: str, workload: Workload, model: RemoteModel) -> CallDemand:
    message, rate = workload.message, workload.per_second
    # A call of the embedder has many chunks, one of the summariser a thread.
    calls = message.chunks / workload.embedder_batch if name == EMBEDDING else message.threads
    uses = [
        needed / limit
        for needed, limit in ((calls, model.calls_per_second), (message.tokens, model.tokens_per_second))
        if limit is not None
    ]
    each = max(uses, default=None)  # the share of a second of its limit that a message takes
    used = None if each is None else rate * each
    peak_used = None if used is None else used * workload.peak
    catch_up: float | None = 0.0
    if used is not None and peak_used is not None and peak_used > 1:
        catch_up = (peak_used - 1) * HOUR_SECONDS / (1 - used) if used < 1 else None
    return CallDemand(
        service=name,
        per_month=rate * MONTH_SECONDS * calls,
        tokens_per_month=rate * MONTH_SECONDS * message.tokens,
        at_once=rate * workload.peak * calls * model.call_seconds,
        limit_use=used,
        peak_limit_use=peak_used,
        catch_up_seconds=catch_up,
        most_messages_per_second=None if each is None else 1 / each,
    )


def _database(name: str, workload: Workload, costs: StoreCosts, size: float) -> DatabaseDemand:
    """Return the demand on a database; `size` says how many times as large as measured a message is."""
    peak, stored = workload.per_second * workload.peak * size, costs.bytes * size
    return DatabaseDemand(
        name=name,
        bytes_per_message=stored,
        bytes_kept=_kept(workload) * stored,
        bytes_per_month=workload.per_second * MONTH_SECONDS * stored,
        server_cores=peak * costs.server_seconds,
        commits_per_second=peak * costs.commits,
        log_bytes_per_second=peak * costs.log_bytes,
        page_writes_per_second=peak * costs.page_writes,
        # SQLite has one writer at a time; a server has as many processors as one pays for.
        most_per_second=MOST_USED / (costs.worker_seconds * size) if name == SQLITE else None,
    )
