"""Private monitoring servers, each on a free port with its own folder: Prometheus, Alertmanager, Pushgateway."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.servers import ServerError
from tests.support.servers.__main__ import find_monitoring, missing_monitoring
from tests.support.servers.private import HOST, PrivateServer

TICK = "1s"
_TIMEOUT = 30.0
# A proxy that the environment names knows nothing of servers on loopback.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class MonitoringServer(PrivateServer):
    """What the three have in common: a program on the PATH, and HTTP."""

    def __init__(self) -> None:
        program = find_monitoring(self.title)
        if program is None:
            raise ServerError("; ".join(missing_monitoring()))
        self._program = program
        super().__init__(None, 0)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def http(self, path: str, *, body: bytes | None = None, method: str | None = None) -> str:
        """Asks the server for a path; an answer that is an error is raised with what it says."""
        request = urllib.request.Request(self.url + path, body, method=method)
        try:
            with _OPENER.open(request, timeout=_TIMEOUT) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                said = error.read().decode(errors="replace")
            raise ServerError(f"{self.title}: {path} answered {error.code}: {said}") from None

    def _options(self) -> list[str]:
        return []

    def _prepare(self) -> None:
        return

    def _spawn(self) -> subprocess.Popen[bytes]:
        command = [self._program, f"--web.listen-address={HOST}:{self.port}", *self._options()]
        return self._run_logged(command, {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.folder)})

    def _answers(self) -> bool:
        try:
            self.http("/-/ready")
        except (OSError, ServerError):
            return False
        return True

    def _request_stop(self) -> None:
        self._running_process().send_signal(signal.SIGTERM)


class PrometheusServer(MonitoringServer):
    """A Prometheus that scrapes and evaluates every second.

        with PrometheusServer({"scrape_configs": [scrape("onward", "127.0.0.1:9000")]}, [rules]) as server:
            server.query("up")      # [({"__name__": "up", "job": "onward", …}, 1.0)]; empty until it was scraped

    `config` is a whole prometheus.yml, `rules` are files. What was just started has scraped nothing for about
    6 s: poll.
    """

    title = "Prometheus"

    def __init__(self, config: Mapping[str, Any] | None = None, rules: Sequence[Path] = ()) -> None:
        super().__init__()
        self._config = self.folder / "prometheus.yml"
        self._write(config or {}, rules)

    def configure(self, config: Mapping[str, Any], rules: Sequence[Path] = ()) -> None:
        """Gives a server that runs another configuration; what it has scraped stays."""
        self._write(config, rules)
        self.http("/-/reload", method="POST")

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """What an expression gives now: labels and value of each series; a scalar has no labels."""
        data = self._api("/api/v1/query?" + urllib.parse.urlencode({"query": expression}))
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(series["metric"], float(series["value"][1])) for series in data["result"]]

    def targets(self) -> list[dict[str, Any]]:
        """What it scrapes: `labels`, `scrapeUrl`, `health` (up, down, unknown), `lastError` and more."""
        return list(self._api("/api/v1/targets?state=active")["activeTargets"])

    def alerts(self) -> list[dict[str, Any]]:
        """Alerts that are pending or firing: `labels`, `annotations`, `state`."""
        return list(self._api("/api/v1/alerts")["alerts"])

    def rules(self) -> list[dict[str, Any]]:
        """Every rule it has loaded: `name`, `query`, `health` (ok, err, unknown), `lastError` and more."""
        return [rule for group in self._api("/api/v1/rules")["groups"] for rule in group["rules"]]

    def _write(self, config: Mapping[str, Any], rules: Sequence[Path]) -> None:
        tick = {"scrape_interval": TICK, "scrape_timeout": TICK, "evaluation_interval": TICK}
        whole = {**config, "global": {**tick, **config.get("global", {})}}
        if rules:
            whole["rule_files"] = [str(path.resolve()) for path in rules]
        self._config.write_text(json.dumps(whole))  # JSON is YAML, too

    def _api(self, path: str) -> dict[str, Any]:
        answer = json.loads(self.http(path))
        return dict(answer["data"])

    def _options(self) -> list[str]:
        return [
            f"--config.file={self._config}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            "--web.enable-lifecycle",
        ]


class AlertmanagerServer(MonitoringServer):
    """An Alertmanager; `config` is a whole alertmanager.yml, by default one that tells nobody."""

    title = "Alertmanager"

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._config = self.folder / "alertmanager.yml"
        self._config.write_text(
            json.dumps(config or {"route": {"receiver": "none"}, "receivers": [{"name": "none"}]})
        )

    def alerts(self) -> list[dict[str, Any]]:
        """Alerts that it has been sent and that are not resolved: `labels`, `annotations`, `status`."""
        return list(json.loads(self.http("/api/v2/alerts")))

    def _options(self) -> list[str]:
        return [
            f"--config.file={self._config}",
            f"--storage.path={self.folder / 'data'}",
            "--cluster.listen-address=",  # it has no peers, and needs no second port
        ]


class PushgatewayServer(MonitoringServer):
    """A Pushgateway that keeps nothing over a restart."""

    title = "Pushgateway"

    def metrics(self) -> str:
        """What it would be scraped for now, in Prometheus's text format."""
        return self.http("/metrics")

    def wipe(self) -> None:
        """Forgets everything that was pushed."""
        self.http("/api/v1/admin/wipe", method="PUT")

    def _options(self) -> list[str]:
        return ["--web.enable-admin-api"]


def scrape(job: str, *targets: str, **settings: Any) -> dict[str, Any]:
    """A `scrape_configs` entry for targets such as 127.0.0.1:9000; settings as Prometheus names them."""
    return {"job_name": job, "static_configs": [{"targets": list(targets)}], **settings}
