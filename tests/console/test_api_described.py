"""The API is described whole, for programs and for readers; and it can be monitored."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from onward.console.api import ROUTERS
from onward.ledger.store_errors import StoreUnavailable
from tests.console.test_api_submitting import assert_problem
from tests.support.console_client import Site, pipeline, serving

ROOT = Path(__file__).parents[2]


def description(site: Site) -> dict[str, Any]:
    told: dict[str, Any] = site.client.get("/openapi.json").json()
    return told


def calls(site: Site) -> list[tuple[str, str, dict[str, Any]]]:
    found = description(site)["paths"].items()
    return [(method.upper(), path, call) for path, methods in found for method, call in methods.items()]


def test_every_call_is_described_with_its_answers_and_problems(library: Site) -> None:
    for method, path, call in calls(library):
        assert call["summary"], path
        assert call["description"], path
        assert call["tags"], path
        answers = call["responses"]
        good = [one for status, one in answers.items() if status.startswith("2")]
        assert good, (method, path)
        for one in good:
            for content in one.get("content", {}).values():
                assert content["schema"], (method, path)
        for status, one in answers.items():
            if (status == "default" or status.startswith("4")) and path != "/readyz":
                assert list(one["content"]) == ["application/problem+json"], (method, path, status)
        assert "default" in answers


def test_every_route_is_in_the_description_and_no_page_is(library: Site) -> None:
    described = {(method, path) for method, path, _ in calls(library)}
    routes = {
        (method, route.path_format)  # type: ignore[attr-defined]
        for router in ROUTERS
        for route in router.routes
        for method in route.methods  # type: ignore[attr-defined]
    }
    assert described == routes


def test_the_page_shows_every_call_with_an_example(library: Site) -> None:
    page = library.page("/docs")
    for method, path, call in calls(library):
        assert f'id="{re.sub("[^a-z0-9]", "-", f"{method} {path}".lower()).strip("-")}"' in page
        assert call["summary"] in page
    assert page.count("curl ") >= len(calls(library))
    assert not re.search(r'style="|<script>|\son\w+="|https?://(?!127\.0\.0\.1|example\.org)', page)


def test_the_page_tells_to_send_the_token_where_one_is_needed(library: Site) -> None:
    with serving(library.app, token="s3cret-token") as guarded:
        answer = guarded.client.get("/docs", headers={"authorization": "Bearer s3cret-token"})
        assert "Authorization: Bearer $ONWARD_TOKEN" in answer.text
        assert "s3cret-token" not in answer.text
    assert "$ONWARD_TOKEN" not in library.page("/docs")


def test_the_reference_lists_every_call(library: Site) -> None:
    text = (ROOT / "docs" / "reference" / "http-api.md").read_text()
    listed = set(re.findall(r"^\| `(GET|POST|DELETE) (/[^`]*)` \|", text, re.MULTILINE))
    assert listed == {(method, path) for method, path, _ in calls(library)}


# -- monitoring


def test_metrics_of_the_store_are_told(library: Site) -> None:
    answer = library.client.get("/metrics")
    found = {one.name: one for one in text_string_to_metric_families(answer.text)}
    assert answer.headers["content-type"].startswith("text/plain")
    documents = {(one.labels["collection"], one.labels["status"]): one.value for one in found["documents"].samples}
    assert documents["messages", "failed"] == 1
    openmetrics = library.client.get("/metrics", headers={"accept": "application/openmetrics-text"})
    assert openmetrics.text.endswith("# EOF\n")


def test_metrics_can_be_switched_off(tmp_path: Path) -> None:
    app = pipeline(tmp_path, METRICS_BACKEND="noop")
    with serving(app) as site:
        assert_problem(site.client.get("/metrics"), 404, "METRICS_BACKEND")
    app.close()


def test_health_needs_no_token_and_metrics_do(library: Site) -> None:
    with serving(library.app, token="s3cret-token") as guarded:
        assert guarded.client.get("/healthz").json()["status"] == "ok"
        assert guarded.client.get("/readyz").json() == {"status": "ok", "checks": {"store": "ok", "loop": "ok"}}
        assert guarded.client.get("/metrics").status_code == 401


def test_a_store_that_is_away_is_not_ready(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise StoreUnavailable("no connection to postgres://app:hunter2@db/x")

    monkeypatch.setattr(site.app.store, "subscriptions", away)
    answer = site.client.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (503, "not ok")
    assert "StoreUnavailable" in answer.json()["checks"]["store"]
    assert "hunter2" not in answer.text
    assert site.client.get("/healthz").status_code == 200
    monkeypatch.setattr(site.app.store, "document_counts", away)
    assert_problem(site.client.get("/v3/documents/x"), 503, "no connection")
