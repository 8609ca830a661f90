"""Metrics are pushed to a real Pushgateway; what is down is logged, and fails nothing."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from onward import App, Settings
from onward.ledger.store import Store
from onward.ledger.store_errors import StoreUnavailable
from onward.observe.process_observer import ProcessObserver
from tests.observe import busy
from tests.observe.servers import PushgatewayServer


def run_once(home: Path, url: str, *ids: str) -> Store:
    """A run from its beginning to its end, as cron would start it."""
    app = App(settings=Settings(home=home, metrics_backend="prometheus_pushgateway", pushgateway_url=url))

    @app.service("reading", on=busy.PagesFound, finishes=busy.Page)
    def read(page: busy.Page, work: object) -> None:
        app.metrics.observe("page_seconds", 0.2)

    with ProcessObserver(app, exposes=False):
        for id in ids:
            app.publish(busy.PagesFound(page_ids=[id]), documents=[busy.Page(id=id)])
        app.work_until_idle()
    return app.store


def pushed(server: PushgatewayServer, name: str, **labels: str) -> float | None:
    for family in text_string_to_metric_families(server.metrics()):
        for sample in family.samples:
            others = {key: text for key, text in sample.labels.items() if key not in ("job", "instance")}
            if (sample.name, others) == (name, labels) and sample.labels.get("job") == "onward":
                assert sample.labels["instance"], "who pushed it"
                return sample.value
    return None


def test_totals_survive_runs_that_end(tmp_path: Path, pushgateway_server: PushgatewayServer) -> None:
    run_once(tmp_path, pushgateway_server.url, "a", "b")
    assert pushed(pushgateway_server, "events_processed_total", service="reading") == 2
    assert pushed(pushgateway_server, "page_seconds_count") == 2
    run_once(tmp_path, pushgateway_server.url, "c")
    assert pushed(pushgateway_server, "events_processed_total", service="reading") == 3
    assert pushed(pushgateway_server, "page_seconds_count") == 3
    assert pushed(pushgateway_server, "page_seconds_bucket", le="0.25") == 3
    assert pushed(pushgateway_server, "page_seconds_sum") == pytest.approx(0.6)
    assert pushed(pushgateway_server, "retry_job_runs_total", status="success") == 0


def test_how_things_stand_is_pushed_while_a_run_lasts_and_taken_back_at_its_end(
    tmp_path: Path, pushgateway_server: PushgatewayServer
) -> None:
    settings = Settings(
        home=tmp_path,
        metrics_backend="prometheus_pushgateway",
        pushgateway_url=pushgateway_server.url,
        metrics_instance="the press",
    )
    observer = ProcessObserver(App(settings=settings), exposes=False)
    pushing = observer._pushgateway
    assert pushing is not None
    assert pushing.push()
    assert pushed(pushgateway_server, "workers_alive") == 0
    assert 'instance="the press"' in pushgateway_server.metrics()
    observer.stop()
    assert pushed(pushgateway_server, "workers_alive") is None, "nobody would say when that has changed"


def test_a_gateway_that_is_away_is_logged_and_fails_nothing(
    tmp_path: Path, pushgateway_server: PushgatewayServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = pushgateway_server.url.replace("://", "://user:hunter2@")
    pushgateway_server.kill()
    with caplog.at_level(logging.WARNING, "onward"):
        store = run_once(tmp_path, url, "a")
    assert store.statuses(busy.Page, ["a"]) == {"a": "processed"}
    assert "cannot be pushed" in caplog.text
    assert "hunter2" not in caplog.text
    pushgateway_server.start()
    run_once(tmp_path, pushgateway_server.url, "b")
    assert pushed(pushgateway_server, "events_processed_total", service="reading") == 2, "the first is not lost"


def test_a_store_that_is_away_loses_no_counts(
    tmp_path: Path, pushgateway_server: PushgatewayServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(
        home=tmp_path, metrics_backend="prometheus_pushgateway", pushgateway_url=pushgateway_server.url
    )
    app = App(settings=settings)
    observer = ProcessObserver(app, exposes=False)
    app.metrics.increment("letters_total")
    pushing = observer._pushgateway
    assert pushing is not None

    def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("it is away")

    with monkeypatch.context() as patch:
        patch.setattr(app.store, "atomically", away)
        assert not pushing.push()
    assert pushed(pushgateway_server, "letters_total") is None, "nothing was said that may not be true"
    app.metrics.increment("letters_total")
    assert pushing.push()
    assert pushed(pushgateway_server, "letters_total") == 2


def test_what_was_saved_without_the_answer_arriving_is_not_saved_again(
    tmp_path: Path, pushgateway_server: PushgatewayServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(
        home=tmp_path, metrics_backend="prometheus_pushgateway", pushgateway_url=pushgateway_server.url
    )
    app = App(settings=settings)
    pushing = ProcessObserver(app, exposes=False)._pushgateway
    assert pushing is not None
    app.metrics.increment("letters_total")
    atomically = app.store.atomically

    def lost(*steps: Any, **more: Any) -> None:
        atomically(*steps, **more)
        raise StoreUnavailable("the connection was lost")

    with monkeypatch.context() as patch:
        patch.setattr(app.store, "atomically", lost)
        assert not pushing.push()
    app.metrics.increment("letters_total")
    assert pushing.push()
    assert pushed(pushgateway_server, "letters_total") == 2
