"""The pipeline as a picture: where its boxes stand, what flows between them, and what is wrong with each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from onward.facts.finding import PIPELINE_SERVICES
from onward.facts.standing import Standing
from onward.facts.wording import counted, number
from onward.model.ledger import Subscription

WIDTH, HEIGHT = 142, 138
GAP = 66
IN_A_ROW = 6
_UNITS = {"ingestion": "sources", "parsing": "archives", "orchestration": "events"}
"""What a stage is done with, where that is not the collection that it finishes."""


@dataclass(frozen=True, slots=True)
class Box:
    """A stage, and where it stands in the picture."""

    name: str
    x: int
    y: int
    takes: str
    """What flows into it."""
    unit: str
    done: int
    waiting: int
    working: int
    dead_letters: int
    tone: str
    """`down`, `unserved`, `busy` or nothing."""
    note: str
    joined: bool
    """An arrow leads to it from the box before it."""
    path: str


@dataclass(frozen=True, slots=True)
class Flow:
    """All boxes, and the size of the picture."""

    boxes: list[Box]
    width: int
    height: int


def draw(standing: Standing, subscriptions: Sequence[Subscription]) -> Flow:
    """Place the stages; those of the pipeline follow each other, those of other apps stand beside each other."""
    orders = {one.service: one for one in subscriptions}
    down = {one["dependency"] for one in standing.outages}
    stages = [one for one in standing.stages if not _is_quiet_helper(one)]
    boxes = []
    for place, stage in enumerate(stages):
        name = stage["service"]
        order = orders.get(name)
        before = stages[place - 1]["service"] if place % IN_A_ROW else ""
        tone, note = _trouble(stage, order, down)
        boxes.append(
            Box(
                name=name,
                x=1 + (place % IN_A_ROW) * (WIDTH + GAP),
                y=1 + (place // IN_A_ROW) * (HEIGHT + GAP),
                takes=_takes(name, stage, order),
                unit=_UNITS.get(name) or stage["finishes"] or "events",
                done=stage["done"],
                waiting=stage["waiting"],
                working=stage["working"],
                dead_letters=stage["dead_letters"],
                tone=tone,
                note=note,
                joined=name in PIPELINE_SERVICES and before in PIPELINE_SERVICES,
                path="/documents?" + urlencode({"collection": stage["finishes"]}) if stage["finishes"] else "",
            )
        )
    columns = min(len(boxes), IN_A_ROW)
    rows = -(-len(boxes) // IN_A_ROW)
    return Flow(boxes, columns * (WIDTH + GAP) - GAP + 2, rows * (HEIGHT + GAP) - GAP + 2)


def _is_quiet_helper(stage: Mapping[str, Any]) -> bool:
    """A service such as orchestration.chunks, which only follows up what failed, and has nothing to do now."""
    of, _, helper = stage["service"].partition(".")
    busy = stage["waiting"] or stage["working"] or stage["dead_letters"]
    return bool(of in PIPELINE_SERVICES and helper and not busy)


def _trouble(stage: Mapping[str, Any], order: Subscription | None, down: set[str]) -> tuple[str, str]:
    away = [one for one in (order.needs if order else ()) if one in down]
    if away:
        return "down", f"{', '.join(away)} is down" if len(away) == 1 else f"{', '.join(away)} are down"
    if not stage["served"]:
        return ("unserved", "nobody serves it") if stage["waiting"] else ("idle", "no worker")
    return ("busy", "") if stage["working"] else ("", "")


def _takes(name: str, stage: Mapping[str, Any], order: Subscription | None) -> str:
    if name == "orchestration":
        return "chunks"
    if name in PIPELINE_SERVICES and stage["finishes"]:
        return str(stage["finishes"])
    return order.event_type if order else ""


def say(box: Box) -> str:
    """A box in words, for who hears the page."""
    parts = [f"{number(box.done)} {box.unit} done"]
    parts += [f"{counted(box.waiting, 'event')} waiting"] if box.waiting else []
    parts += [f"{number(box.working)} at work"] if box.working else []
    parts += [counted(box.dead_letters, "dead letter")] if box.dead_letters else []
    return f"{box.name}: " + ", ".join([*parts, box.note] if box.note else parts)
