"""From a number on a page to a message to a person, and to the message that it is over: through real servers."""

from __future__ import annotations

import json
import queue
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.observe.servers import AlertmanagerServer, PrometheusServer, scrape
from tests.support.servers import ServerError
from tests.support.servers.__main__ import missing_monitoring
from tests.support.servers.private import HOST

ALERTS = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts"
LONG = 60.0


class Neighbour:
    """What stands at both ends: it shows metrics to Prometheus, and is told by Alertmanager."""

    def __init__(self, metrics: str) -> None:
        self.metrics = metrics
        self.told: queue.Queue[dict[str, Any]] = queue.Queue()
        neighbour = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(neighbour.metrics.encode())

            def do_POST(self) -> None:
                neighbour.told.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self._answer(b"")

            def _answer(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                return

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._server.daemon_threads = True
        self.address = f"{HOST}:{self._server.server_port}"

    @contextmanager
    def serving(self) -> Iterator[Neighbour]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


def hurried(rules: Path, folder: Path) -> Path:
    """A copy of a rule file that differs in its patience alone: seconds instead of minutes, hours and days."""
    text = re.sub(r"^( +for:) \w+$", r"\1 1s", rules.read_text(), flags=re.MULTILINE)
    text = re.sub(r"\[\w+(:?)\w*\]", lambda span: "[10s:1s]" if span[1] else "[10s]", text)
    copy = folder / rules.name
    copy.write_text(text)
    return copy


def test_a_server_that_is_missing_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    reasons = "\n".join(missing_monitoring())
    for package in ("prometheus", "prometheus-pushgateway", "prometheus-alertmanager"):
        assert f"apt-get install {package}\n" in reasons + "\n"
    with pytest.raises(ServerError, match="apt-get install prometheus"):
        PrometheusServer()


@pytest.mark.usefixtures("needs_monitoring")
def test_somebody_is_told_that_a_breaker_stays_open_and_that_it_has_closed(tmp_path: Path) -> None:
    rules = [hurried(file, tmp_path) for file in sorted(ALERTS.glob("*.yml"))]
    shown = 'breaker_open{dependency="x"}'
    with Neighbour(f"{shown} 1\nworkers_alive 1\n").serving() as neighbour:
        route = {
            "receiver": "neighbour",
            "group_by": ["alertname", "tier"],
            "group_wait": "0s",
            "group_interval": "1s",
            "repeat_interval": "1h",
            "routes": [{"receiver": "neighbour", "matchers": ['alertname="BreakerOpenLong"']}],
        }
        hook = {"url": f"http://{neighbour.address}/told", "send_resolved": True}
        receivers = [{"name": "neighbour", "webhook_configs": [hook]}]
        with AlertmanagerServer({"route": route, "receivers": receivers}) as alertmanager:
            config = {
                "scrape_configs": [scrape("onward", neighbour.address)],
                "alerting": {
                    "alertmanagers": [{"static_configs": [{"targets": [f"{HOST}:{alertmanager.port}"]}]}]
                },
            }
            with PrometheusServer(config, rules) as prometheus:
                fired = next_about("BreakerOpenLong", neighbour)
                assert fired["status"] == "firing"
                [alert] = fired["alerts"]
                assert alert["labels"]["dependency"] == "x"
                assert (alert["labels"]["severity"], alert["labels"]["tier"]) == ("warning", "2")
                assert alert["annotations"]["runbook"] == "docs/how-to/runbooks.md#breakeropenlong"
                assert [rule["lastError"] for rule in prometheus.rules() if rule["health"] == "err"] == []

                neighbour.metrics = f"{shown} 0\nworkers_alive 1\n"
                over = next_about("BreakerOpenLong", neighbour)
                assert over["status"] == "resolved"
                assert [one["labels"]["dependency"] for one in over["alerts"]] == ["x"]
                assert not [one for one in prometheus.alerts() if one["labels"]["alertname"] == "BreakerOpenLong"]


def next_about(alert: str, neighbour: Neighbour) -> dict[str, Any]:
    """The next message about an alert; others are about what this little page does not show."""
    while True:
        said = neighbour.told.get(timeout=LONG)
        if said["groupLabels"]["alertname"] == alert:
            return said
