"""A simulation as the command line, the console and the API ask for it: in texts, over what the store knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from onward.app import App
from onward.ledger.store import Store
from onward.ops.bad_input import BadInput
from onward.ops.simulation.history import read_history
from onward.ops.simulation.quantities import read_rate, read_time_span
from onward.ops.simulation.scenario import (
    MAX_OUTAGE_SECONDS,
    Comparison,
    Load,
    Scenario,
    Variant,
    check_service,
    preset,
    read_changes,
    read_load,
)

NOW = "as it is"


@dataclass(frozen=True, slots=True)
class SimulationRequest:
    """What is wanted; each text as in the options of `onward simulate`."""

    service: str | None = None
    outage: str = "1h"
    load: Mapping[str, str | None] = field(default_factory=dict)
    capacity: str | None = None
    changes: Sequence[str] = ()
    compare: Sequence[str] = ()
    what_if: Sequence[str] = ()
    seed: int = 0


def simulate_outage(app: App, request: SimulationRequest, store: Store | None) -> Comparison:
    """Simulate the outage with the present settings and each of the others; the store, if any, is only read."""
    service = check_service(app, request.service)
    outage = read_time_span(request.outage, "--outage", most=MAX_OUTAGE_SECONDS)
    capacity = read_rate(request.capacity, "--capacity") if request.capacity else None
    variants = [now := Variant(NOW, app.settings)]
    if request.changes:
        variants.append(read_changes(now, "changed", request.changes, "--set"))
    for number, text in enumerate(request.compare, 1):
        title = "compared" if len(request.compare) == 1 else f"compared {number}"
        variants.append(read_changes(now, title, text.split(), "--compare"))
    variants += [preset(now, name) for name in request.what_if]
    described = read_load(request.load)
    fields = (read_history(store, service) if store is not None else {}) | described
    if {"per_second", "duration"} <= described.keys():
        fields["found_in"] = ""
    missing = [
        option
        for name, option in (("per_second", "--load 20/s"), ("duration", "--duration 200ms"))
        if name not in fields
    ]
    if missing:
        raise BadInput(
            f"the store does not know the load on service {service.name}: "
            f"no worker has run it in the last day. Describe it: {' '.join(missing)}"
        )
    return Scenario(app, service, outage, Load(**fields), capacity, request.seed).compare(variants)
