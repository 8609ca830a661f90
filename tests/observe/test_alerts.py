"""Alerts are valid, fire when they should, stay quiet when they should, clear, and lead to a runbook."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml  # type: ignore[import-untyped]

from onward.cli import main
from onward.model.metric_catalogue import CATALOGUE
from tests.support.servers.__main__ import find_monitoring

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "deploy" / "prometheus"
ALERTMANAGER = ROOT / "deploy" / "alertmanager" / "alertmanager.yml"
RULE_FILES = sorted((PROMETHEUS / "alerts").glob("*.yml"))
CASE_FILES = sorted((PROMETHEUS / "tests").glob("*.yml"))

RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for file in RULE_FILES
    for group in yaml.safe_load(file.read_text())["groups"]
    for rule in group["rules"]
}
CASES: list[dict[str, Any]] = [case for file in CASE_FILES for case in yaml.safe_load(file.read_text())["tests"]]

TIERS = {"1", "2", "3", "4"}
"""Who is called, as in the page for the operator; nobody is for the first."""
OF_PROMETHEUS = {"up", "push_time_seconds"}
OF_EVERY_TARGET = {"instance", "job"}
WORDS = {"and", "by", "offset", "on", "or", "unless", "without"}
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def run(title: str, *arguments: str | Path) -> str:
    """What promtool or amtool says; it must be content."""
    program = find_monitoring(title)
    assert program is not None
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def seconds(span: str) -> int:
    return sum(int(count) * UNITS[unit] for count, unit in re.findall(r"(\d+)([smhd])", span))


def labels_used(expression: str) -> set[str]:
    """Labels that an expression groups or selects by."""
    grouped = re.findall(r"\b(?:by|on|without)\s*\(([^)]*)\)", expression)
    selected = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", expression)
    return set(selected).union(*(re.findall(r"\w+", names) for names in grouped))


def metrics_used(expression: str) -> set[str]:
    """Names in an expression that are no function, label or word of the language."""
    plain = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\b(by|on|without)\s*\([^)]*\)", " ", expression)
    names = re.findall(r"(?<![\w.])([A-Za-z_]\w*)\b(?!\s*\()", plain)
    return set(names) - WORDS


def checks(alert: str) -> list[list[tuple[int, bool]]]:
    """Of each case about an alert: when it is looked at, and whether it has to fire then."""
    found = [
        sorted(
            (seconds(check["eval_time"]), bool(check["exp_alerts"]))
            for check in case["alert_rule_test"]
            if check["alertname"] == alert
        )
        for case in CASES
    ]
    return [case for case in found if case]


# -- the tools of Prometheus


@pytest.mark.usefixtures("needs_monitoring")
def test_the_rules_are_valid() -> None:
    found = run("promtool", "check", "rules", *RULE_FILES)
    assert sum(map(int, re.findall(r"SUCCESS: (\d+) rules found", found))) == len(RULES)


@pytest.mark.usefixtures("needs_monitoring")
def test_the_configuration_of_prometheus_is_valid_and_loads_every_rule_file() -> None:
    found = run("promtool", "check", "config", PROMETHEUS / "prometheus.yml")
    assert f"{len(RULE_FILES)} rule files found" in found


@pytest.mark.usefixtures("needs_monitoring")
def test_the_configuration_of_alertmanager_is_valid() -> None:
    assert "SUCCESS" in run("amtool", "check-config", ALERTMANAGER)


@pytest.mark.usefixtures("needs_monitoring")
@pytest.mark.parametrize("file", CASE_FILES, ids=lambda file: file.stem)
def test_the_alerts_do_as_their_cases_say(file: Path) -> None:
    assert "SUCCESS" in run("promtool", "test", "rules", file)


# -- what no tool asks for


def test_there_are_alerts_and_cases() -> None:
    assert [file.stem for file in RULE_FILES] == ["failed_queues", "pipeline", "retry_policy"]
    assert {"StuckDocumentsWarning", "MaxRetriesExceededCritical", "RetryJobFailed"} <= RULES.keys()
    assert len(RULES) == sum(file.read_text().count("- alert: ") for file in RULE_FILES), "two have one name"


@pytest.mark.parametrize("alert", list(RULES))
def test_an_alert_says_how_bad_it_is_what_it_is_and_what_to_do(alert: str) -> None:
    rule = RULES[alert]
    assert rule["labels"].keys() == {"severity", "tier"}
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert rule["labels"]["tier"] in TIERS
    assert rule["annotations"].keys() == {"summary", "description", "runbook"}
    assert all(text.strip() for text in rule["annotations"].values())


@pytest.mark.parametrize("alert", list(RULES))
def test_an_alert_leads_to_its_runbook(alert: str) -> None:
    path, _, anchor = RULES[alert]["annotations"]["runbook"].partition("#")
    titles = re.findall(r"^#+ (.*)$", (ROOT / path).read_text(), re.MULTILINE)
    assert anchor in {title.lower().replace(" ", "-") for title in titles}
    assert alert in titles


def test_every_runbook_is_of_an_alert() -> None:
    page = (ROOT / "docs" / "how-to" / "runbooks.md").read_text()
    assert set(re.findall(r"^### (.*)$", page, re.MULTILINE)) == RULES.keys()


def test_the_commands_in_the_runbooks_are_ones_that_there_are() -> None:
    page = (ROOT / "docs" / "how-to" / "runbooks.md").read_text()
    lines = re.findall(r"`onward ([^`]+)`", page)
    assert lines
    for line in lines:
        command: click.Command = main
        words = shlex.split(line)
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            found = command.get_command(click.Context(command), words.pop(0))
            assert found is not None, f"there is no `onward {line}`"
            command = found
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known, f"`onward {line}` has no such option"


@pytest.mark.parametrize("alert", list(RULES))
def test_an_alert_uses_metrics_and_labels_that_there_are(alert: str) -> None:
    expression = RULES[alert]["expr"]
    used = metrics_used(expression)
    assert used
    assert used <= CATALOGUE.keys() | OF_PROMETHEUS
    known = OF_EVERY_TARGET.union(*(CATALOGUE[name].labels for name in used if name in CATALOGUE))
    assert labels_used(expression) <= known


@pytest.mark.parametrize("alert", list(RULES))
def test_a_gauge_of_the_store_is_not_added_up_over_the_processes_that_show_it(alert: str) -> None:
    expression = re.sub(r"\s*([()])\s*", r"\1", RULES[alert]["expr"])
    gauges = [name for name in metrics_used(expression) if name in CATALOGUE and CATALOGUE[name].kind == "gauge"]
    for name in gauges:
        shown = len(re.findall(rf"\b{name}\b", expression))
        one_taken = rf"(?:\b(?:max|min)(?: by\([^)]*\))?\((?:\w+_over_time\()?|\babsent\(){name}\b"
        assert len(re.findall(one_taken, expression)) == shown, f"{name} in {expression}"


@pytest.mark.parametrize("alert", list(RULES))
def test_an_alert_has_a_case_that_fires_and_clears_and_one_that_stays_quiet(alert: str) -> None:
    cases = checks(alert)
    fired = [case for case in cases if any(fires for _, fires in case)]
    assert any(not case[0][1] for case in fired), "none that is quiet at first"
    assert all(not case[-1][1] for case in fired), "one that never clears"
    assert fired
    assert [case for case in cases if not any(fires for _, fires in case)], "none that stays quiet"


def test_the_cases_are_about_alerts_that_there_are() -> None:
    named = {check["alertname"] for case in CASES for check in case["alert_rule_test"]}
    assert named == RULES.keys()
    for case in CASES:
        assert {check["alertname"] for check in case["alert_rule_test"]} == {case["name"].partition(":")[0]}


def test_in_every_case_two_processes_show_what_is_in_the_store() -> None:
    for case in CASES:
        series = [one["series"] for one in case["input_series"] if not one["series"].startswith("up{")]
        if any(one.startswith("push_time_seconds{") for one in series):
            continue  # it is about a run that was alone
        shown: dict[str, set[str]] = {}
        for one in series:
            shown.setdefault(one.partition("{")[0], set()).update(re.findall(r'instance="(\w+)', one))
        assert all(len(instances) >= 2 for instances in shown.values()), case["name"]


# -- the configurations


def test_prometheus_scrapes_workers_the_retry_job_and_the_pushgateway() -> None:
    jobs = {
        job["job_name"]: job
        for job in yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["scrape_configs"]
    }
    [looked_up] = jobs["onward"]["dns_sd_configs"]
    assert looked_up["names"] == ["worker", "retry-job"]
    assert looked_up["port"] == 9464
    # A one-shot run says itself which job it is; without this it would seem to be the gateway's.
    assert jobs["pushgateway"]["honor_labels"] is True
    assert jobs["pushgateway"]["static_configs"] == [{"targets": ["pushgateway:9091"]}]


@pytest.mark.usefixtures("needs_monitoring")
@pytest.mark.parametrize("alert", list(RULES))
def test_alertmanager_tells_those_whose_tier_it_is(alert: str) -> None:
    labels = RULES[alert]["labels"]
    told = run(
        "amtool",
        "config",
        "routes",
        "test",
        f"--config.file={ALERTMANAGER}",
        f"alertname={alert}",
        f"tier={labels['tier']}",
    )
    assert told.strip() == f"tier-{labels['tier']}"


def test_alertmanager_tells_of_an_alert_once_for_all_that_it_is_about() -> None:
    config = yaml.safe_load(ALERTMANAGER.read_text())
    assert config["route"]["group_by"] == ["alertname", "tier"]
    silenced = "".join(str(rule) for rule in config["inhibit_rules"])
    assert set(re.findall(r"[A-Z][a-z]+[A-Z]\w+", silenced)) <= RULES.keys()
