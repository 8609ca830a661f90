"""Times in the JSON of commands and in responses of the API are ISO 8601, never numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onward import App
from onward.settings import load_settings
from tests.cli import scenes
from tests.support.command_runs import mail, onward, write_mailbox
from tests.support.console_client import pipeline, serving

pytestmark = pytest.mark.prove

YEAR_2001 = 1e9
"""In seconds since the epoch; no count or size of these stores is as large."""
LISTS = (
    *("status", "documents", "documents --full", "documents export", "failed list", "failures list", "batches"),
    *("breakers", "workers", "services", "actions", "summaries", "search vent"),
)
STORES = ("failed_queues", "documents_to_retry", "model_outage", "other_worker")


def numeric_times(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield from numeric_times(one, f"{path}.{name}")
    elif isinstance(value, list):
        for one in value:
            yield from numeric_times(one, path)
    elif isinstance(value, int | float) and value > YEAR_2001 and not path.endswith("_bytes"):
        yield path, value


def objects(text: str) -> list[Any]:
    """One JSON value, or one on each line."""
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


@pytest.fixture(params=[pytest.param("pipeline", marks=pytest.mark.prove), *STORES])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A store of the pipeline, and stores with dead letters, failed batches, breakers and workers."""
    if request.param != "pipeline":
        getattr(scenes, request.param)(tmp_path)
        return tmp_path
    mails = [mail(n, "Tide gauge", "The vent tube was blocked, so the gauge drifted.") for n in range(2)]
    assert onward(tmp_path, "ingest", str(write_mailbox(tmp_path / "list.mbox", mails))).exit_code == 0
    return tmp_path


def test_the_json_of_commands_has_iso_times(home: Path) -> None:
    printed: dict[str, str] = {}
    for line in LISTS:
        args = line.split() + ([] if "export" in line else ["--json"])
        printed[line] = onward(home, *args).stdout
    for document in objects(printed["documents"]):
        printed["show " + document["id"]] = onward(home, "show", document["id"], "--json").stdout
    for queue in re.findall(r'"queue": "([^"]+)"', printed["failed list"]):
        printed["inspect " + queue] = onward(home, "failed", "inspect", queue, "--json").stdout
        printed["export " + queue] = onward(home, "failed", "export", queue).stdout
    for group in re.findall(r'"fingerprint": "([^"]+)"', printed["failures list"]):
        printed["group " + group] = onward(home, "failures", "show", group, "--json").stdout
    found = {line: [*numeric_times(objects(text))] for line, text in printed.items()}
    assert {line: numbers for line, numbers in found.items() if numbers} == {}
    assert sum(len(objects(text)) for text in printed.values()) > len(LISTS) / 2


def test_responses_of_the_api_have_iso_times(home: Path) -> None:
    app = (
        pipeline(home)
        if (home / "list.mbox").exists()
        else App(settings=load_settings({"ONWARD_HOME": str(home)}))
    )
    names = [one["id"] for one in objects(onward(home, "documents", "--json").stdout)] + ["reading.failed"]
    found: dict[str, Any] = {}
    with serving(app) as site:
        description = site.client.get("/openapi.json").json()
        for path, methods in description["paths"].items():
            if "get" not in methods or path.endswith("/events"):
                continue
            for name in names if "{" in path else names[:1]:
                response = site.client.get(re.sub(r"\{\w+\}", name, path), params={"q": "vent"})
                if response.headers["content-type"] == "application/json":
                    found[f"{path} {name}"] = [*numeric_times(response.json())]
    app.close()
    assert {path: numbers for path, numbers in found.items() if numbers} == {}
    assert len(found) > 10
