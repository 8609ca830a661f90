"""An outage under a load: what is simulated and compared, with the present settings and with others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from typing import Any

from onward.app import App
from onward.ops.bad_input import BadInput
from onward.ops.simulation.outage_run import OutageRun, RunPlan, RunResult
from onward.ops.simulation.quantities import UNIT_SECONDS, read_count, read_rate, read_share, read_time_span
from onward.recovery.retry_decision import RetryJobRules
from onward.runtime.service import Service
from onward.settings import Settings, SettingsError, variable, with_value

MAX_OUTAGE_SECONDS = 14 * 86_400.0
MAX_WORKERS = 300
MAX_SLOTS = 1000
MAX_VARIANTS = 6
CALLS_IN_ALL = 6_000  # That the engine makes for all variants together: about 10 s of processor time
LEAST_LEAD_SECONDS = 600.0
MOST_HOURS_AFTER = 72
_UNITS = {"_seconds": "s", "_minutes": "min", "_hours": "h", "_ms": "ms"}  # How names of settings end
_NOT_READY = ("max_attempts", "base_delay_ms", "backoff_factor", "max_delay_seconds", "ttl_minutes")
SETTINGS = tuple(
    name
    for name in Settings.model_fields
    if name.startswith(("retry_", "breaker_"))
    or name in ("max_retries", "fetch_backoff_seconds", "concurrency", "time_limit_seconds")
)
OTHER_CHANGES = {"workers": "processes", "rate": "at most this many calls a second", "breaker": "on or off"}


@dataclass(frozen=True, slots=True)
class Load:
    """What arrives, and who works on it; times in seconds."""

    per_second: float
    duration: float
    failed_duration: float | None = None  # Of a call during the outage; None: the same
    workers: int = 1
    failing: float = 0.0
    found_in: str = ""  # The history that it is from; empty: it was described

    def changed(self, given: Mapping[str, str | None]) -> Load:
        """Return the load with what is described, by the names of the options."""
        return replace(self, **read_load(given))


def read_load(given: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the fields of a load that are described; a bad value names its option."""
    found: dict[str, Any] = {}
    if text := given.get("load"):
        found["per_second"] = read_rate(text, "--load")
    for name in ("duration", "failed_duration"):
        if text := given.get(name):
            found[name] = read_time_span(text, f"--{name.replace('_', '-')}", most=86_400.0)
    if text := given.get("workers"):
        found["workers"] = read_count(text, "--workers", MAX_WORKERS)
    if text := given.get("failing"):
        found["failing"] = read_share(text, "--failing")
    return found


@dataclass(frozen=True, slots=True)
class Variant:
    """Settings to simulate; None: as they are now."""

    title: str
    settings: Settings
    workers: int | None = None
    rate: float | None = None
    breaker: bool | None = None
    notes: tuple[str, ...] = ()

    def changed(self, name: str, text: str, where: str) -> Variant:
        """Return the variant with one change, such as `breaker.probe_max` and `60s`."""
        field = find_name(name, where)
        if field == "workers":
            return replace(self, workers=read_count(text, where, MAX_WORKERS))
        if field == "rate":
            return replace(self, rate=read_rate(text, where))
        if field == "breaker":
            if text.lower() not in ("on", "off"):
                raise BadInput(f"{where} is {text!r}, but must be on or off.")
            return replace(self, breaker=text.lower() == "on")
        value: object = text
        unit = next((unit for ending, unit in _UNITS.items() if field.endswith(ending)), None)
        if unit is not None and text.strip()[-1:].isalpha():
            value = round(read_time_span(text, where) / UNIT_SECONDS[unit], 6)
        try:
            settings, notes = with_value(self.settings, field, value, where), self.notes
        except SettingsError as error:
            raise BadInput(str(error)) from None
        if field.removeprefix("retry_") in _NOT_READY:
            about = f"{variable(field)} is for events that come before their document"
            notes = (*notes, f"{about}: it changes nothing in an outage.")
        return replace(self, settings=settings, notes=notes)


def find_name(name: str, where: str) -> str:
    """Return the setting that a name means: as in onward.toml, as its variable, or without its unit."""
    plain = name.strip().lower().removeprefix("onward_").replace(".", "_").replace("-", "_")
    known = (*SETTINGS, *OTHER_CHANGES)
    for ending in ("", *_UNITS):
        if plain + ending in known:
            return plain + ending
    close = get_close_matches(plain, known, n=1)
    meant = f"Did you mean {close[0]}?" if close else f"There are: {', '.join(known)}."
    raise BadInput(f"{where}: nothing of this name can be simulated. {meant}")


def read_changes(now: Variant, title: str, changes: Sequence[str], option: str) -> Variant:
    """Return the variant with changes such as `breaker.probe_max=60s`."""
    variant = replace(now, title=title)
    for change in changes:
        name, equals, text = change.partition("=")
        if not equals or not text.strip():
            raise BadInput(f"{option} is {change!r}, but must be a name and a value, such as max_retries=5.")
        variant = variant.changed(name, text.strip(), f"{option} {name.strip()}")
    return variant


def _longer_backoff(settings: Settings) -> list[str]:
    names = ("retry_backoff_seconds", "fetch_backoff_seconds", "retry_job_base_delay_seconds")
    return [f"{name}={getattr(settings, name) * 4:g}" for name in (*names, "retry_job_max_delay_seconds")]


PRESETS = ("no-breaker", "longer-backoff", "slower-restart")


def preset(now: Variant, name: str) -> Variant:
    """Return the variant of a question that is often asked."""
    changes = {
        "no-breaker": ["breaker=off"],
        "longer-backoff": _longer_backoff(now.settings),
        "slower-restart": ["breaker_restart_seconds=300"],
    }
    if name not in changes:
        raise BadInput(f"--what-if is {name!r}, but must be one of {', '.join(PRESETS)}.")
    return read_changes(now, name.replace("-", " "), changes[name], "--what-if")


# -- running


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one variant leads to; times in seconds, None: it does not happen within `hours_after`."""

    title: str
    scale: float  # How many documents each simulated one stands for
    settings: dict[str, Any]  # What differs from the present settings
    calls_in_outage: int
    health_calls: int
    resumed_after: float | None  # From the end of the outage to the first success
    drained_after: float | None
    peak_per_second: float  # Calls after the outage
    peak_per_minute: float
    over_capacity_seconds: int | None
    most_waiting: int
    given_up: int
    given_up_needlessly: int
    waiting: list[tuple[float, float]]  # By the time since the outage began
    calls: list[tuple[float, float]]  # A second, on average of each interval
    notes: list[str]


@dataclass(frozen=True, slots=True)
class Comparison:
    service: str
    dependency: str | None
    outage: float
    load: Load
    slots: int
    capacity: float | None
    seed: int
    outcomes: list[Outcome]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A service of an app, the load on it, and an outage of what it needs."""

    app: App
    service: Service
    outage: float
    load: Load
    capacity: float | None = None
    seed: int = 0

    def compare(self, variants: Sequence[Variant]) -> Comparison:
        if len(variants) > MAX_VARIANTS:
            raise BadInput(f"{len(variants)} variants are too many to compare; at most {MAX_VARIANTS} are.")
        plans = [self._plan(variant) for variant in variants]
        outcomes = []
        for variant, unscaled in zip(variants, plans, strict=True):
            scale = max(1.0, _expected_calls(unscaled) * len(plans) / CALLS_IN_ALL)
            plan = replace(unscaled, scale=scale)
            outcomes.append(self._outcome(variant, plan, OutageRun(plan).run(), variants[0]))
        return Comparison(
            service=self.service.name,
            dependency=self.service.needs[0] if self.service.needs else None,
            outage=self.outage,
            load=self.load,
            slots=plans[0].slots,
            capacity=self.capacity,
            seed=self.seed,
            outcomes=outcomes,
        )

    def _plan(self, variant: Variant) -> RunPlan:
        service, load, settings = self.service, self.load, variant.settings
        if variant.breaker is False:
            service = replace(service, needs=())
        elif variant.breaker and not service.needs:
            service = replace(service, needs=("dependency",))
        service = replace(service, needs=service.needs[:1])
        slots = (variant.workers or load.workers) * self._slots_a_process(settings)
        if slots > MAX_SLOTS:
            raise BadInput(f"{slots} calls at once are more than the {MAX_SLOTS} that can be simulated.")
        known = self.app.registry.dependencies.get(service.needs[0]) if service.needs else None
        limit = service.time_limit or settings.time_limit_seconds
        pace = slots / variant.rate if variant.rate else 0.0
        after = MOST_HOURS_AFTER * 3600.0
        free = slots / max(load.duration, pace) - load.per_second
        if free <= 0:
            after = self.outage
        return RunPlan(
            service=service,
            settings=settings,
            per_second=load.per_second,
            duration=min(load.duration, limit),
            failed_duration=min(load.failed_duration or load.duration, limit),
            slots=slots,
            pace=pace,
            health=known is not None and known.health is not None,
            failing=load.failing,
            outage=self.outage,
            lead=max(LEAST_LEAD_SECONDS, self.outage / 12),
            horizon=after,
            scale=1.0,
            seed=self.seed,
        )

    def _slots_a_process(self, settings: Settings) -> int:
        fixed = self.service.slots()
        follows = fixed is None or fixed == self.app.settings.concurrency
        return settings.concurrency if follows else fixed or 1

    def _outcome(self, variant: Variant, plan: RunPlan, result: RunResult, now: Variant) -> Outcome:
        end = int(plan.lead + plan.outage)
        after = result.calls[end:] or [0.0]
        minutes = [sum(after[start : start + 60]) for start in range(0, len(after), 60)]
        over = None if self.capacity is None else sum(calls > self.capacity * 1.001 for calls in after)
        notes = list(variant.notes)
        if plan.slots / max(plan.duration, plan.pace) <= plan.per_second:
            can = plan.slots / max(plan.duration, plan.pace)
            notes.append(f"{plan.per_second:g}/s arrive, but {plan.slots} calls at once make at most {can:.3g}/s.")
        if variant.settings.concurrency != now.settings.concurrency and plan.slots == self._plan(now).slots:
            notes.append(
                f"Service {self.service.name} sets its own concurrency; {variable('concurrency')} does not."
            )
        if self.service.policy is not None and variant.settings.max_retries != now.settings.max_retries:
            notes.append(f"Service {self.service.name} has a policy of its own; max_retries does not apply to it.")
        step = max(1, len(result.calls) // 240)
        calls = [
            (start - plan.lead, sum(some) / len(some))
            for start in range(0, len(result.calls), step)
            if (some := result.calls[start : start + step])
        ]
        return Outcome(
            title=variant.title,
            scale=round(plan.scale, 1),
            settings=_differences(variant, now),
            calls_in_outage=round(result.calls_in_outage),
            health_calls=result.health_calls,
            resumed_after=None if result.resumed is None else result.resumed - plan.outage,
            drained_after=None if result.drained is None else result.drained - plan.outage,
            peak_per_second=round(max(after), 3),
            peak_per_minute=round(max(minutes), 1),
            over_capacity_seconds=over,
            most_waiting=round(max(waiting for _, waiting in result.waiting)),
            given_up=round(result.given_up),
            given_up_needlessly=round(result.needlessly),
            waiting=[(round(at, 1), round(waiting)) for at, waiting in result.waiting],
            calls=[(round(at, 1), round(rate, 3)) for at, rate in calls],
            notes=notes,
        )


def _differences(variant: Variant, now: Variant) -> dict[str, Any]:
    changed = {name: getattr(variant.settings, name) for name in SETTINGS}
    found = {name: value for name, value in changed.items() if value != getattr(now.settings, name)}
    others = {"workers": variant.workers, "rate": variant.rate, "breaker": variant.breaker}
    return found | {name: value for name, value in others.items() if value is not None}


def _expected_calls(plan: RunPlan) -> float:
    """Return about how many calls an unscaled simulation makes."""
    free = plan.slots / max(plan.duration, plan.pace) - plan.per_second
    drain = min(plan.outage * plan.per_second / free if free > 0 else plan.horizon, plan.horizon)
    calls = plan.per_second * (plan.lead + plan.outage + drain)
    if not plan.service.needs:
        ladder = plan.settings.ladder()
        collection = plan.service.finishes.collection if plan.service.finishes else ""
        tries = (plan.service.policy or ladder.transient).max_tries or 100
        rules = RetryJobRules.of(plan.settings, [plan.service.subscription()])
        wanted = plan.per_second * tries * rules.max_rounds(collection)
        calls += min(wanted, plan.slots / max(plan.failed_duration, plan.pace)) * plan.outage
    return calls


def check_service(app: App, name: str | None) -> Service:
    """Return the service to simulate; without a name, the one of the app that needs a dependency."""
    able = {one.name: one for one in app.registry.services.values() if one.finishes is not None}
    if name is None:
        needy = [one for one in able.values() if one.needs]
        if len(needy or able) == 1:
            return next(iter(needy or able.values()))
        raise BadInput(f"--service is not given. There are: {', '.join(able) or 'none'}.")
    if name not in able:
        why = "finishes no documents" if name in app.registry.services else "does not exist"
        raise BadInput(f"--service is {name!r}, which {why}. There are: {', '.join(able)}.")
    return able[name]
