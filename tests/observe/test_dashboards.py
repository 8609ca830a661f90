"""The dashboards in `deploy/grafana` and of a new service: about metrics that exist, answered by a real worker."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from onward import App
from onward.cli.new_service import render
from onward.model.metric_catalogue import CATALOGUE
from onward.settings import load_settings
from tests.observe import bustling
from tests.observe.servers import PrometheusServer, scrape
from tests.support.servers.private import HOST, free_port, kill_family

ROOT = Path(__file__).parents[2]
GRAFANA = ROOT / "deploy" / "grafana"
FILES = sorted((GRAFANA / "dashboards").glob("*.json"))
BOARDS: dict[str, dict[str, Any]] = {one.name: json.loads(one.read_text()) for one in FILES}
NEW_SERVICE = "reading"  # a service of the worker below, as `onward new-service reading` makes its dashboard
ALL_BOARDS = BOARDS | {
    name: json.loads(text) for name, text in render(NEW_SERVICE).items() if name.endswith(".json")
}
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24
PATIENCE = 120.0
"""Seconds until every query must have had an answer; a busy machine gets time."""

FUNCTIONS = {
    "by",
    "histogram_quantile",
    "increase",
    "max",
    "max_over_time",
    "min",
    "or",
    "rate",
    "round",
    "sum",
    "time",
    "topk",
}
SUFFIXES = ("_bucket", "_sum", "_count")
KEPT = {
    name
    for name, one in CATALOGUE.items()
    if one.kind == "gauge" or name.startswith(("retry_job_", "failed_batch_", "failure_group_"))
}
"""Read from the store: every process that is scraped says the same."""


def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def queries(board: dict[str, Any]) -> list[tuple[str, str]]:
    """Each query of a dashboard, with the title of its panel."""
    return [(panel["title"], target["expr"]) for panel in panels(board) for target in panel["targets"]]


def variables(board: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in board["templating"]["list"]}


def metrics(expression: str) -> set[str]:
    """The names of the metrics in an expression, those of histograms without what their series add."""
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|\bby \([^)]*\)", "", expression)
    names = set(re.findall(r"[a-zA-Z_]\w*", bare)) - FUNCTIONS
    return {base(name) for name in names}


def base(name: str) -> str:
    for suffix in SUFFIXES:
        if name not in CATALOGUE and name.endswith(suffix):
            return name.removesuffix(suffix)
    return name


ALL_QUERIES = [
    pytest.param(expression, id=f"{board['title']}: {title} {number}")
    for board in ALL_BOARDS.values()
    for number, (title, expression) in enumerate(queries(board))
]


# -- their shape


def test_there_are_three_dashboards() -> None:
    titles = {name: board["title"] for name, board in BOARDS.items()}
    assert titles == {
        "failed-queues.json": "Failed Queues",
        "pipeline.json": "Pipeline",
        "retry-policy.json": "Retry Policy Monitoring",
    }
    assert len({board["uid"] for board in BOARDS.values()}) == 3
    assert all(board["schemaVersion"] >= 38 for board in BOARDS.values())


@pytest.mark.parametrize("name", list(ALL_BOARDS))
def test_panels_have_ids_of_their_own_and_do_not_overlap(name: str) -> None:
    all_panels = ALL_BOARDS[name]["panels"]
    ids = [panel["id"] for panel in all_panels]
    assert len(ids) == len(set(ids))
    taken: dict[tuple[int, int], str] = {}
    for panel in all_panels:
        place = panel["gridPos"]
        assert place["x"] >= 0
        assert place["x"] + place["w"] <= COLUMNS
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, f"{panel['title']} lies on {taken.get((x, y))}"
                taken[x, y] = panel["title"]


@pytest.mark.parametrize("name", list(ALL_BOARDS))
def test_panels_say_what_they_show(name: str) -> None:
    titles = [panel["title"] for panel in panels(ALL_BOARDS[name])]
    assert len(titles) == len(set(titles))
    for panel in panels(ALL_BOARDS[name]):
        defaults = panel["fieldConfig"]["defaults"]
        assert panel["description"].endswith("."), panel["title"]
        assert defaults["unit"], panel["title"]
        assert defaults["thresholds"]["steps"][0]["value"] is None, panel["title"]
        assert [target["legendFormat"] for target in panel["targets"] if not target["legendFormat"]] == []
        refs = [target["refId"] for target in panel["targets"]]
        assert refs, panel["title"]
        assert len(refs) == len(set(refs)), panel["title"]


@pytest.mark.parametrize("name", list(ALL_BOARDS))
def test_a_legend_names_labels_that_its_query_keeps(name: str) -> None:
    for panel in panels(ALL_BOARDS[name]):
        for target in panel["targets"]:
            kept = {
                one.strip() for found in re.findall(r"by \(([^)]*)\)", target["expr"]) for one in found.split(",")
            }
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= kept, panel["title"]


@pytest.mark.parametrize("name", list(ALL_BOARDS))
def test_whoever_looks_chooses_the_data_source(name: str) -> None:
    board = ALL_BOARDS[name]
    chosen = variables(board)["datasource"]
    assert (chosen["type"], chosen["query"]) == ("datasource", "prometheus")
    asked = [panel["datasource"] for panel in panels(board)]
    asked += [target["datasource"] for panel in panels(board) for target in panel["targets"]]
    asked += [one["datasource"] for one in variables(board).values() if one["type"] == "query"]
    assert all(one == DATASOURCE for one in asked)


@pytest.mark.parametrize("name", list(ALL_BOARDS))
def test_every_variable_is_declared_and_used(name: str) -> None:
    text = " ".join(expression for _, expression in queries(ALL_BOARDS[name]))
    used = set(re.findall(r"\$\{?(\w+)", text)) - {"__rate_interval"}
    assert used | {"datasource"} == variables(ALL_BOARDS[name]).keys()


# -- what they ask


@pytest.mark.parametrize("expression", ALL_QUERIES)
def test_a_query_is_about_metrics_that_exist_with_labels_that_they_have(expression: str) -> None:
    names = metrics(expression)
    assert names
    assert names <= CATALOGUE.keys(), f"unknown: {names - CATALOGUE.keys()}"
    known = {label for name in names for label in CATALOGUE[name].labels} | {"le", "instance"}
    asked = {one.strip() for found in re.findall(r"by \(([^)]*)\)", expression) for one in found.split(",")}
    asked |= set(re.findall(r"[{,]\s*(\w+)\s*[=!]", expression))
    assert asked <= known
    for name in names:
        series = set(re.findall(rf"\b{name}\w*", expression))
        if CATALOGUE[name].kind == "histogram":
            assert series <= {name + suffix for suffix in SUFFIXES}


@pytest.mark.parametrize("expression", ALL_QUERIES)
def test_what_every_process_reads_from_the_store_is_never_added_up(expression: str) -> None:
    for name in metrics(expression):
        series = rf"(?:rate\(|increase\(|max_over_time\()?{name}"
        if name in KEPT:
            assert re.search(rf"\b(max|min)( by \([^)]*\))? ?\({series}", expression)
        else:
            assert re.search(rf"\bsum( by \([^)]*\))? ?\({series}", expression)


@pytest.mark.parametrize("expression", ALL_QUERIES)
def test_counters_that_begin_anew_with_their_process_are_seen_as_increases(expression: str) -> None:
    for name in metrics(expression):
        # The store's totals do not begin anew: they may be shown as they are, too.
        if CATALOGUE[name].kind != "gauge" and name not in KEPT:
            assert re.search(rf"\b(rate|increase)\({name}(_bucket|_sum|_count)?(\{{[^}}]*\}})?\[", expression)


def test_every_metric_is_on_a_dashboard() -> None:
    shown = {name for board in BOARDS.values() for _, one in queries(board) for name in metrics(one)}
    assert shown == CATALOGUE.keys()


# -- the panels of the retry policy


def retry_panel(title: str) -> dict[str, Any]:
    (found,) = [panel for panel in panels(BOARDS["retry-policy.json"]) if panel["title"] == title]
    return found


@pytest.mark.parametrize(
    ("title", "kind", "metric"),
    (
        ("Stuck Documents", "gauge", "retry_job_stuck_documents"),
        ("Retry Rate", "timeseries", "retry_job_documents_requeued_total"),
        ("Max Retries Exceeded", "stat", "retry_job_documents_max_retries_exceeded_total"),
        ("Backoff Skipped", "timeseries", "retry_job_documents_skipped_backoff_total"),
        ("Job Duration", "heatmap", "retry_job_duration_seconds"),
    ),
)
def test_the_five_panels_of_the_retry_policy_are_there(title: str, kind: str, metric: str) -> None:
    panel = retry_panel(title)
    assert panel["type"] == kind
    assert metric in metrics(panel["targets"][0]["expr"])
    if "collection" in CATALOGUE[metric].labels:
        assert "by (collection)" in panel["targets"][0]["expr"]


def test_stuck_documents_warn_at_50_and_are_critical_at_200() -> None:
    steps = retry_panel("Stuck Documents")["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert [(one["color"], one["value"]) for one in steps] == [("green", None), ("orange", 50), ("red", 200)]
    assert retry_panel("Stuck Documents")["options"]["showThresholdMarkers"]


def test_what_is_called_an_hour_is_counted_over_an_hour() -> None:
    assert "increase(" in retry_panel("Max Retries Exceeded")["targets"][0]["expr"]
    for board in BOARDS.values():
        for panel in panels(board):
            for target in panel["targets"]:
                if "[1h" in target["expr"]:
                    assert "rate(" not in target["expr"] or "histogram_quantile" in target["expr"], panel["title"]
                    assert "hour" in panel["description"], panel["title"]


# -- colours and alerts


def alerts() -> dict[str, str]:
    """The expression of each alert."""
    files = (ROOT / "deploy" / "prometheus" / "alerts").glob("*.yml")
    groups = [group for file in files for group in yaml.safe_load(file.read_text())["groups"]]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


@pytest.mark.parametrize(
    ("alert", "board", "title"),
    (
        ("StuckDocumentsWarning", "retry-policy", "Stuck Documents"),
        ("MaxRetriesExceededCritical", "retry-policy", "Max Retries Exceeded"),
        ("FailedDocumentsCritical", "retry-policy", "Given Up"),
        ("RetryJobNotRunning", "retry-policy", "Since the Last Successful Run"),
        ("FailedQueuesCritical", "failed-queues", "Dead Letters"),
        ("ManyEventsGivenUp", "failed-queues", "Given Up, by Service"),
        ("OldestEventTooOld", "pipeline", "Oldest in Queue"),
        ("OutboxBehind", "pipeline", "Outbox"),
        ("DiskAlmostFull", "pipeline", "Least Free Disk"),
    ),
)
def test_a_panel_changes_its_colour_where_its_alert_begins(alert: str, board: str, title: str) -> None:
    (panel,) = [one for one in panels(BOARDS[f"{board}.json"]) if one["title"] == title]
    limit = re.search(r"[<>] ([\de.]+)$", alerts()[alert])
    assert limit is not None
    assert float(limit[1]) in [one["value"] for one in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]]


# -- what Grafana is told of them


def provisioned(folder: str) -> dict[str, Any]:
    (file,) = (GRAFANA / "provisioning" / folder).glob("*.yml")
    return dict(yaml.safe_load(file.read_text()))


def test_grafana_finds_the_dashboards_and_the_servers_of_compose() -> None:
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yml").read_text())["services"]
    mounted = dict(one.split(":")[1::-1] for one in compose["grafana"]["volumes"])
    (provider,) = provisioned("dashboards")["providers"]
    assert mounted[provider["options"]["path"]] == "./grafana/dashboards"
    assert mounted["/etc/grafana/provisioning"] == "./grafana/provisioning"
    sources = provisioned("datasources")["datasources"]
    assert [one["type"] for one in sources] == ["prometheus", "alertmanager"]
    assert [bool(one.get("isDefault")) for one in sources] == [True, False]
    for one in sources:
        assert re.fullmatch(r"http://(\w+):\d+", one["url"])[1] in compose  # type: ignore[index]


def test_the_first_page_is_one_of_them() -> None:
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yml").read_text())["services"]
    home = compose["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert Path(home).name in BOARDS


# -- a real worker, a real Prometheus


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[tuple[App, str]]:
    """A worker in processes of its own: an app to publish to it, and where its metrics are."""
    address = f"{HOST}:{free_port()}"
    settings = {
        "ONWARD_HOME": str(tmp_path / "home"),
        "ONWARD_METRICS_ADDRESS": address,
        "ONWARD_RETRY_BACKOFF_SECONDS": "0.05",
        "RETRY_JOB_INTERVAL_SECONDS": "1",
        "RETRY_JOB_BASE_DELAY_SECONDS": "1.5",
        "RETRY_JOB_MAX_ATTEMPTS_MESSAGES": "2",
    }
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("ONWARD_", "RETRY_"))}
    command = [sys.executable, "-m", "onward", "worker", "--app", f"{bustling.__name__}:app"]
    app = App(settings=load_settings(settings))
    with (tmp_path / "worker.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=inherited | settings, stdout=log, stderr=log)
    try:
        yield app, address
    finally:
        kill_family(process)
        app.close()


def asked(expression: str) -> str:
    """A query as Grafana would send it, for scrapes a second apart."""
    return expression.replace("$__rate_interval", "10s").replace(":1m]", ":1s]").replace("$service", ".*")


def has_data(server: PrometheusServer, expression: str) -> bool:
    return any(not math.isnan(value) for _, value in server.query(expression))


def test_every_query_of_every_dashboard_has_an_answer(
    worker: tuple[App, str], needs_monitoring: None, report: Callable[[str], None]
) -> None:
    app, address = worker
    open_questions = {
        f"{board['title']}: {title}: {expression}": asked(expression)
        for board in ALL_BOARDS.values()
        for title, expression in queries(board)
    }
    total, begun = len(open_questions), time.monotonic()
    with PrometheusServer({"scrape_configs": [scrape("onward", address)]}) as server:
        for turn in count():
            bustling.publish(app, turn * 10, 10)
            bustling.hurry_batches(app)
            for group in app.store.failure_groups(limit=3):  # what comes back is a regression
                app.store.close_group(group.fingerprint, "ada")
            for name, expression in list(open_questions.items()):
                if has_data(server, expression):
                    del open_questions[name]
            if not open_questions or time.monotonic() > begun + PATIENCE:
                break
            time.sleep(1.0)  # a scrape
        choices = {
            (one["name"], value)
            for board in BOARDS.values()
            for one in variables(board).values()
            if one["type"] == "query"
            for value in offered(server, one["query"]["query"])
        }
    assert list(open_questions) == []
    assert choices == {("service", name) for name in ("reading", "embedding", "reminding")}
    report(f"{total} queries answered after {time.monotonic() - begun:.0f} s")


def offered(server: PrometheusServer, query: str) -> set[str]:
    """What a variable lets choose from."""
    found = re.fullmatch(r"label_values\((\w+), (\w+)\)", query)
    assert found is not None
    return {labels[found[2]] for labels, _ in server.query(f"group by ({found[2]}) ({found[1]})")}
