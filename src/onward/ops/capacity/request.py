"""A plan or a forecast as people ask for it: in texts, over what the store knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from onward.ledger.store import Store
from onward.model.rollups import MINUTE, ServiceCounts
from onward.ops.bad_input import BadInput
from onward.ops.capacity.figures import EMBEDDING, SUMMARIZATION, Figures, MessageCosts
from onward.ops.capacity.fleet import Fleet, FleetForecast, forecast
from onward.ops.capacity.plan import Plan, RemoteModel, Workload, make_plan
from onward.ops.simulation.quantities import read_count, read_number, read_rate, read_size, read_time_span
from onward.settings import Settings

REMOTE = (EMBEDDING, SUMMARIZATION)  # services whose models may be elsewhere
DAY_SECONDS = 86_400.0
FEW_MESSAGES = 100  # an average of less says nothing
MAX_PEAK = 1000.0
MAX_WORKERS, MAX_SLOTS, MAX_CORES = 10_000, 1000, 1024
MAX_EVENTS = 10_000_000_000
MAX_BATCHES = 5_000_000  # more would take minutes
USUAL_CALL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What is wanted; each text as in the options of `onward capacity`."""

    messages: str | None = None
    size: str | None = None
    tokens: str | None = None
    peak: str = "3"
    keep: str = "1y"
    calls: Sequence[str] = ()
    limits: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class FleetRequest:
    """A fleet to be simulated, in the same way."""

    workers: str = "1000"
    events: str = "100M"
    handler: str = "10ms"
    slots: str = "3"
    server_cores: str = "16"
    log_rate: str = "250MB"


def plan_capacity(request: PlanRequest, figures: Figures, settings: Settings, store: Store | None) -> Plan:
    """Return what the load needs; a store, if there is one, knows how many messages come, and what is in them."""
    message, own_rate, found_in = figures.message, None, ""
    if store is not None:
        message, own_rate, found_in = _own_rates(store, message)
    if request.size:
        message = message.of_size(read_size(request.size, "--size"))
    if request.tokens:
        tokens = read_number(request.tokens)
        if not 1 <= tokens <= 1e9:
            raise BadInput(f"--tokens is {request.tokens!r}, but must be a number, such as 1500.")
        message = message.with_text(message.chunks * tokens / message.tokens, tokens)
    rate = read_rate(request.messages, "--messages") if request.messages else own_rate
    if rate is None:
        raise BadInput(
            "the store does not know how many messages come: fewer than "
            f"{FEW_MESSAGES} came in the last day. Say it: --messages 50k/day"
        )
    peak = read_number(request.peak)
    if not 1 <= peak <= MAX_PEAK:
        raise BadInput(f"--peak is {request.peak!r}, but must be a number from 1 to {MAX_PEAK:.0f}, such as 3.")
    workload = Workload(
        per_second=rate,
        message=message,
        peak=peak,
        keep_seconds=read_time_span(request.keep, "--keep", unit="d", most=100 * 365 * DAY_SECONDS),
        remote=_remote(request.calls, request.limits),
        concurrency=settings.concurrency,
        embedder_batch=settings.embedder_batch,
        found_in=found_in,
    )
    return make_plan(workload, figures)


def forecast_fleet(request: FleetRequest, figures: Figures) -> FleetForecast:
    """Simulate fleets up to the wanted one."""
    events = read_number(request.events)
    if not 1 <= events <= MAX_EVENTS:
        raise BadInput(f"--events is {request.events!r}, but must be a number up to 10G, such as 100M.")
    handler = 0.0 if request.handler in ("0", "0s") else read_time_span(request.handler, "--handler", most=3600.0)
    fleet = Fleet(
        workers=read_count(request.workers, "--workers", MAX_WORKERS),
        handler_seconds=handler,
        slots=read_count(request.slots, "--slots", MAX_SLOTS),
        server_cores=read_count(request.server_cores, "--server-cores", MAX_CORES),
        log_bytes_per_second=read_size(request.log_rate, "--log-rate"),
    )
    most = MAX_BATCHES * fleet.batch
    if events > most:
        raise BadInput(
            f"--events is {request.events!r}: with batches of {fleet.batch}, at most {most:,} can be simulated."
        )
    return forecast(fleet, int(events), figures.ledger)


def _own_rates(store: Store, message: MessageCosts) -> tuple[MessageCosts, float | None, str]:
    """Return what the store knows of its messages, and how many came a second in the last day."""
    counts = {name: sum(one.values()) for name, one in store.document_counts().items()}
    messages = counts.get("messages", 0)
    found = []
    if messages >= FEW_MESSAGES and counts.get("chunks"):
        chunks = counts["chunks"] / messages
        message = message.with_text(chunks, message.tokens * chunks / message.chunks)
        message = replace(message, threads=counts.get("threads", 0) / messages)
        found.append("chunks and threads of a message")
    total = ServiceCounts()
    for one in store.service_counts(MINUTE, store.now() - DAY_SECONDS, "chunking").values():
        total.add(one)
    rate = total.documents / DAY_SECONDS if total.documents >= FEW_MESSAGES else None
    if rate is not None:
        found.append("the messages of the last day")
    return message, rate, " and ".join(found)


def _remote(calls: Sequence[str], limits: Sequence[str]) -> dict[str, RemoteModel]:
    """Return the models that are elsewhere: those that have a time or a limit."""
    seconds = {name: read_time_span(text, f"--call {name}") for name, text in _named(calls, "--call", "200ms")}
    models: dict[str, RemoteModel] = {name: RemoteModel(took) for name, took in seconds.items()}
    for name, text in _named(limits, "--limit", "3000/min"):
        model = models.get(name, RemoteModel(USUAL_CALL_SECONDS))
        number, _, per = text.partition("/")
        per_tokens = number.strip().endswith("tokens")
        rate = read_rate(f"{number.strip().removesuffix('tokens')}/{per}" if per else number, f"--limit {name}")
        models[name] = (
            replace(model, tokens_per_second=rate) if per_tokens else replace(model, calls_per_second=rate)
        )
    return models


def _named(texts: Sequence[str], option: str, example: str) -> list[tuple[str, str]]:
    pairs = []
    for text in texts:
        name, _, value = text.partition("=")
        if name.strip() not in REMOTE or not value.strip():
            known = " or ".join(REMOTE)
            raise BadInput(
                f"{option} is {text!r}, but must be {known} with a value, such as {REMOTE[0]}={example}."
            )
        pairs.append((name.strip(), value.strip()))
    return pairs
