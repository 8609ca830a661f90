"""The reference of the seeds names what exists: settings with defaults, metrics, alerts, events, routes, code."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
import yaml  # type: ignore[import-untyped]
from fastapi.routing import APIRoute

import onward
from onward import App, DeadLetter, DocumentState, Status, Work
from onward.cli import COMMANDS
from onward.console import api, pages
from onward.console.api import schemas, search_schemas
from onward.model.metric_catalogue import CATALOGUE
from onward.ops.queries.document_details import document_facts
from onward.ops.queries.failure_groups import batch_facts
from onward.pipeline.app import build
from onward.pipeline.documents import Archive, Chunk
from onward.retry.policy import Reason
from onward.settings import Settings, load_settings, variable
from tests.docs.test_reference import DOCUMENTS, EVENTS, command, options, subcommands

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "seeds.md"
APP = App(store="sqlite://:memory:")
SAME = "the same"  # the second column says so of what the first one names


class Row(NamedTuple):
    line: int
    seed: str
    onward: str

    @property
    def named(self) -> list[str]:
        """The code spans that must exist."""
        cells = self.onward + (self.seed if self.onward.startswith(SAME) else "")
        return re.findall(r"`([^`]+)`", cells)


def table_rows() -> Iterator[Row]:
    for number, line in enumerate(PAGE.read_text(encoding="utf-8").splitlines(), 1):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
        if line.startswith("| ") and len(cells) == 3 and cells[0] not in ("seed", ""):
            yield Row(number, *cells[:2])


ROWS = [row for row in table_rows() if not re.fullmatch(r"\d", row.seed)]
NAMES = sorted({name for row in ROWS for name in row.named})


# -- what exists


@cache
def settings() -> dict[str, object]:
    usual = load_settings({})
    return {variable(name): getattr(usual, name) for name in Settings.model_fields}


@cache
def alerts() -> dict[str, dict[str, Any]]:
    files = sorted((ROOT / "deploy" / "prometheus" / "alerts").glob("*.yml"))
    groups = [group for file in files for group in yaml.safe_load(file.read_text())["groups"]]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


@cache
def words() -> set[str]:
    """Event types, routing keys, queues, collections, statuses, reasons; fields of what is stored or sent."""
    app = build(store="sqlite://:memory:")
    archive = Archive(id="archive", source="s", source_id="s", kind="mbox", submission=1)
    chunk = Chunk(id="chunk", message_id="m", thread_id="t", position=0, start=0, end=1, text="a", tokens=1)
    app.add(archive, chunk)
    gateway = "".join(file.read_text() for file in (ROOT / "src" / "onward" / "gateway").glob("*.py"))
    found: set[str] = {*Status, *Reason, *re.findall(r'Final = "([\w.]+)"', gateway)}
    for kind in EVENTS:
        found |= {kind.event_type, kind.routing_key, *kind.model_fields}
    for document in DOCUMENTS:
        found |= {document.collection, *document.model_fields}
    found |= {service.subscription().failed_queue for service in app.registry.services.values()}
    for one in (archive, chunk):
        found |= keys(document_facts(app, one.collection, one.id))
    app.close()
    for model in (vars(schemas) | vars(search_schemas)).values():
        if inspect.isclass(model) and issubclass(model, schemas.ApiResponse | schemas.ApiRequest):
            found |= {given.serialization_alias or name for name, given in model.model_fields.items()}
    found |= {field.name for kind in (DocumentState, DeadLetter) for field in fields(kind)}
    found |= set(re.findall(r'"(\w+)":', inspect.getsource(batch_facts)))
    return found | set(get_args(schemas.Progress))


def keys(facts: object) -> set[str]:
    if isinstance(facts, dict):
        return {str(key) for key in facts}.union(*map(keys, facts.values()))
    return set().union(*map(keys, facts)) if isinstance(facts, list) else set()


@cache
def routes() -> set[tuple[str, str]]:
    return {
        (method, route.path_format)
        for router in (*api.ROUTERS, *pages.ROUTERS)
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }


@cache
def titles() -> set[str]:
    boards = [json.loads(file.read_text()) for file in (ROOT / "deploy" / "grafana" / "dashboards").glob("*.json")]
    return {board["title"] for board in boards} | {panel["title"] for board in boards for panel in board["panels"]}


def is_setting(name: str) -> bool:
    """A variable; a number given with it is its default, and a word is one that it accepts."""
    name, given, value = name.partition("=")
    if name not in settings() or not given:
        return name in settings()
    if re.fullmatch(r"[\d.]+", value):
        return str(settings()[name]).removesuffix(".0") == value
    needed = {"PUSHGATEWAY_URL": "http://localhost:9091", "ERROR_REPORTER_URL": "http://localhost:8321"}
    load_settings({**needed, name: value})  # raises if it is not accepted
    return True


def is_metric(name: str) -> bool:
    found = re.fullmatch(r"(\w+)(?:\{([\w,]+)\})?", name)
    if found is None or found[1] not in CATALOGUE:
        return False
    return set(filter(None, (found[2] or "").split(","))) <= set(CATALOGUE[found[1]].labels)


def is_route(name: str) -> bool:
    method, _, path = name.rpartition(" ")
    return any(path == known and method in ("", knows) for knows, known in routes())


def is_command(name: str) -> bool:
    """A command; `test_reference.py` checks its options, unless it ends in `…`."""
    if name.startswith("--"):
        everything = [one for known in COMMANDS for one in (command(known), *subcommands(known).values())]
        return any(name in options(one) for one in everything)
    program, _, rest = name.partition(" ")
    return program == "onward" and rest.split(" ")[0] in COMMANDS


def is_code(name: str) -> bool:
    """A public name, a member of `app` or `work`, or a dotted name; arguments given by keyword are parameters."""
    found = re.fullmatch(r"([\w.]+)(?:\((.*)\))?", name)
    if found is None:
        return False
    first, *rest = found[1].split(".")
    known = {"app": APP, "work": Work, "onward": onward} | {one: getattr(onward, one) for one in onward.__all__}
    thing: Any = known.get(first)
    for position, part in enumerate(rest, 1):
        if hasattr(thing, "__path__") and find_spec(module := ".".join([first, *rest[:position]])):
            thing = importlib.import_module(module)
        elif part in inspect.get_annotations(thing) if inspect.isclass(thing) else False:
            return True
        else:
            thing = getattr(thing, part, None)
    given = set(re.findall(r"(\w+)=", found[2] or ""))
    return thing is not None and (not given or given <= set(inspect.signature(thing).parameters))


def is_file(name: str) -> bool:
    return "/" in name and (ROOT / name.partition("::")[0]).exists()


def exists(name: str) -> bool:
    checks = (is_setting, is_metric, is_route, is_command, is_file, is_code)
    return name in words() or name in alerts() or any(check(name) for check in checks)


# -- the tests


def test_each_seed_has_its_tables() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^## Seed (\d): ", text, re.MULTILINE) == ["1", "2", "3", "4", "5"]
    assert len(ROWS) > 150


@pytest.mark.parametrize("name", NAMES)
def test_what_is_named_exists(name: str) -> None:
    lines = ", ".join(str(row.line) for row in ROWS if name in row.named)
    assert exists(name), f"{name} (line {lines} of {PAGE.name}) is not in Onward"


def test_names_that_are_made_up_are_found_out() -> None:
    made_up = [
        *("ONWARD_STROE", "RETRY_MAX_ATTEMPTS=9", "METRICS_BACKEND=carrier-pigeon", "queue_width", "RetryPolizy"),
        *("queue_depth{service}", "/v3/cats", "PUT /v3/documents", "onward sing", "--sing", "docs/cats.md"),
        *("work.sing", "app.service(name, sings=…)", "onward.testing.Cats", "documentz"),
    ]
    for name in made_up:
        with suppress(onward.OnwardError):
            assert not exists(name), name


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.line))
def test_dashboards_and_panels_have_these_titles(row: Row) -> None:
    assert set(re.findall(r"\*([^*`]+)\*", re.sub(r"`[^`]*`", "", row.onward))) <= titles()


LIMITS = [found for row in ROWS for found in re.findall(r"`(\w+)`: above (\d+) for (\w+), (\w+)", row.onward)]


@pytest.mark.parametrize(("alert", "limit", "duration", "severity"), LIMITS)
def test_alerts_have_these_limits(alert: str, limit: str, duration: str, severity: str) -> None:
    rule = alerts()[alert]
    assert re.search(rf"> {limit}$", rule["expr"])
    assert (rule["for"], rule["labels"]["severity"]) == (duration, severity)


def test_every_variable_metric_and_alert_of_the_seeds_is_here() -> None:
    """The names that others rely on are all in the tables: every retry variable, and the metrics of the seeds."""
    text = PAGE.read_text(encoding="utf-8")
    missing = {name for name in settings() if name.startswith(("RETRY_", "RABBITMQ_")) and name not in text}
    ours = (
        "breaker_",
        "documents",
        "workers_",
        "disk_",
        "queue_oldest",
        "retry_job_last",
        "failure_group_",
        "events_expired",
    )
    missing |= {name for name in CATALOGUE if not name.startswith(ours) and name not in text}
    missing |= {kind.event_type for kind in EVENTS if kind.event_type not in text} - {
        *("EmbeddingsGenerated", "SummaryComplete"),  # the tables have their routing keys
        *("VectorUpgradeRequested", "ThreadsDiverged"),  # of our own
    }
    assert missing == set()
