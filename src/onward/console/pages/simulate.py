"""Simulated outages: a form that is filled in from the history of a service, and its variants side by side."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from starlette.responses import Response

from onward.app import App
from onward.console.page_templates import page
from onward.console.request_context import Onward
from onward.ops.bad_input import BadInput
from onward.ops.simulation.history import read_history
from onward.ops.simulation.request import SimulationRequest, simulate_outage
from onward.ops.simulation.scenario import PRESETS, Comparison, check_service
from onward.ops.text import simulation as text
from onward.ops.text.format import number, one_line, printable

router = APIRouter(include_in_schema=False)

LOAD_FIELDS = ("load", "duration", "failed_duration", "workers", "failing")
FIELDS = ("service", "outage", *LOAD_FIELDS, "capacity", "set", "compare")
MAX_TEXT = 500
POINTS = 200  # of a curve
WIDTH, HEIGHT = 1000, 160
_one_at_a_time = threading.Lock()  # each takes seconds of processor time in the process that serves pages


class Curve(NamedTuple):
    title: str
    number: int  # chooses its colour
    path: str


class CurveChart(NamedTuple):
    heading: str
    top: str
    curves: list[Curve]
    outage_x: float
    outage_width: float
    capacity_y: float | None


@router.get("/simulate")
def show(request: Request, app: Onward) -> Response:
    given = {name: one_line(printable(request.query_params.get(name, "")))[:MAX_TEXT] for name in FIELDS}
    presets = [name for name in request.query_params.getlist("what_if") if name in PRESETS]
    able = [one for one in app.registry.services.values() if one.finishes is not None]
    usual = next((one.name for one in able if one.needs), None)
    problem, comparison, filled = "", None, dict(given)
    try:
        service = check_service(app, given["service"] or usual)
        filled = {**given, "service": service.name, "outage": given["outage"] or "1h"}
        if "run" in request.query_params:
            comparison = _simulate(app, filled, presets)
        for name, value in _known(app, service.name).items():
            filled[name] = filled[name] or value
    except BadInput as error:
        # The fields of the form have the names of the options, without their dashes.
        problem = str(error).replace("--", "")
    return page(
        request,
        "simulate.html",
        given=filled,
        chosen=presets,
        presets=PRESETS,
        services=[one.name for one in able],
        problem=problem,
        result=_result(comparison) if comparison else None,
    )


def _simulate(app: App, given: dict[str, str], presets: list[str]) -> Comparison:
    wanted = SimulationRequest(
        service=given["service"],
        outage=given["outage"],
        load={name: given[name] for name in LOAD_FIELDS},
        capacity=given["capacity"] or None,
        changes=given["set"].split(),
        compare=[given["compare"]] if given["compare"] else [],
        what_if=presets,
    )
    if not _one_at_a_time.acquire(blocking=False):
        raise BadInput("Another simulation is running. Try again in some seconds.")
    try:
        return simulate_outage(app, wanted, app.store)
    finally:
        _one_at_a_time.release()


def _milliseconds(seconds: float) -> str:
    return f"{seconds:.3g}s" if seconds >= 1 else f"{max(seconds * 1000, 0.1):.3g}ms"


def _known(app: App, service: str) -> dict[str, str]:
    """Return what the history of a service says, as it is typed."""
    known = read_history(app.store, app.registry.services[service])
    typed = {
        "load": text.rate(known["per_second"]) if "per_second" in known else "",
        "duration": _milliseconds(known["duration"]) if "duration" in known else "",
        "workers": str(known.get("workers", "")),
        "failing": f"{known['failing'] * 100:.3g}%" if known.get("failing") else "",
    }
    return {name: value for name, value in typed.items() if value}


def _result(comparison: Comparison) -> dict[str, Any]:
    outcomes = comparison.outcomes
    shared, notes = text.notes(comparison)
    return {
        "about": [*text.about(comparison), *shared],
        "titles": [one.title for one in outcomes],
        "rows": text.rows(comparison),
        "changes": [(one.title, text.changes(one), notes[one.title]) for one in outcomes],
        "charts": [
            _chart(comparison, "Documents waiting", "waiting"),
            _chart(comparison, "Calls a second", "calls", comparison.capacity),
        ],
        "end": text.span(text.end_of(comparison) - comparison.outage),
        "outage": text.span(comparison.outage),
    }


def _chart(comparison: Comparison, heading: str, name: str, capacity: float | None = None) -> CurveChart:
    begins, ends = comparison.outcomes[0].calls[0][0], text.end_of(comparison)
    values = [text.curve(getattr(one, name), begins, ends, POINTS) for one in comparison.outcomes]
    most = max(*(max(one) for one in values), capacity or 0.0, 1e-9)

    def y(value: float) -> float:
        return round(HEIGHT - 2 - value / most * (HEIGHT - 6), 1)

    curves = [
        Curve(
            outcome.title,
            place_of,
            "M" + "L".join(f"{(place + 0.5) * WIDTH / POINTS:g} {y(value)}" for place, value in enumerate(points)),
        )
        for place_of, (outcome, points) in enumerate(zip(comparison.outcomes, values, strict=True))
    ]
    scale = WIDTH / (ends - begins)
    top = number(most) if most >= 100 else f"{most:.3g}"
    line = y(capacity) if capacity else None
    return CurveChart(heading, top, curves, round(-begins * scale, 1), round(comparison.outage * scale, 1), line)
