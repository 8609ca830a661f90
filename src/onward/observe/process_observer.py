"""Publishes metrics and health of a process and its store, at `/metrics`, `/healthz` and `/readyz`."""

from __future__ import annotations

import errno
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from onward.app import App
from onward.retry import redact
from onward.settings import MissingExtra, Settings

if TYPE_CHECKING:
    from onward.ledger.store import Store
    from onward.observe.prometheus import PushgatewayClient, StoreCollector

log = logging.getLogger("onward")

NO_METRICS = "there are no metrics: prometheus-client is not installed; run: pip install 'onward[metrics]'"
CHECK_SECONDS = 2.0  # the time between two runs of a health check
STALE_SECONDS = 15.0  # a check without a result for this long has failed: a hanging server blocks its check
SILENT_SECONDS = 60.0  # a process whose main loop gave no sign of life for this long counts as dead
MAX_PORTS = 20  # how many ports are tried, from the one that is set: several workers may run on a machine
CLIENT_SECONDS = 10.0

Check = Callable[[], str]  # returns what is wrong, or an empty text; it may raise, and it may block
Page = Callable[[str], tuple[int, str, bytes]]  # returns status, content type and body for an `Accept` header


class Health:
    """Runs each check in a thread of its own and keeps the last results, so that reading them never blocks."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = dict(checks)
        self._results: dict[str, tuple[float, str]] = {}
        self._beat_at = time.monotonic()
        self._stopped = threading.Event()

    def start(self) -> None:
        for name, check in self._checks.items():
            run = partial(self._run, name, check)
            threading.Thread(target=run, name=f"onward-health-{name}", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def beat(self) -> None:
        """Record that the main loop is running."""
        self._beat_at = time.monotonic()

    def note(self, name: str, problem: str) -> None:
        """Record the result of a check that runs elsewhere."""
        self._results[name] = (time.monotonic(), redact(problem))

    def _run(self, name: str, check: Check) -> None:
        while not self._stopped.is_set():
            try:
                problem = check()
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            self.note(name, problem)
            self._stopped.wait(CHECK_SECONDS)

    def alive(self) -> tuple[bool, dict[str, str]]:
        """Return whether the main loop is running, with the result by name."""
        silent = time.monotonic() - self._beat_at
        if silent < SILENT_SECONDS:
            return True, {"loop": "ok"}
        return False, {"loop": f"the main loop has given no sign of life for {silent:.0f} s"}

    def ready(self) -> tuple[bool, dict[str, str]]:
        """Return whether the process can work, with the results of all checks by name."""
        now, results = time.monotonic(), dict[str, str]()
        for name in (*self._checks, *(set(self._results) - set(self._checks))):
            at, problem = self._results.get(name, (float("-inf"), ""))
            if now - at > STALE_SECONDS:
                problem = "no answer yet" if at == float("-inf") else f"no answer for {now - at:.0f} s"
            results[name] = problem or "ok"
        alive, loop = self.alive()
        return alive and all(result == "ok" for result in results.values()), results | loop


# -- the HTTP server


class MonitoringServer(ThreadingHTTPServer):
    """Serves metrics and health in a thread."""

    daemon_threads = True
    allow_reuse_address = True
    # Else two processes could listen on one port, and each would get some of the requests.
    allow_reuse_port = False

    def __init__(self, host: str, port: int, pages: Mapping[str, Page]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.pages = pages
        super().__init__((host, port), _Handler)
        bound, self.port = str(self.server_address[0]), int(self.server_address[1])
        self.url = f"http://[{bound}]:{self.port}" if ":" in bound else f"http://{bound}:{self.port}"

    def start(self) -> None:
        threading.Thread(target=self.serve_forever, name="onward-metrics", daemon=True).start()

    def stop(self) -> None:
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a client of the monitoring address disconnected")


class _Handler(BaseHTTPRequestHandler):
    server: MonitoringServer
    server_version = "onward"
    sys_version = ""
    timeout = CLIENT_SECONDS

    def do_GET(self) -> None:  # the server's own name
        pages = self.server.pages
        page = pages.get(self.path.partition("?")[0], text_page(404, f"there is {' '.join(pages)}"))
        try:
            self._respond(*page(self.headers.get("Accept", "")))
        except OSError:
            raise
        except Exception:
            log.exception("the request for %s failed", self.path[:100])
            self._respond(*text_page(500, "the request failed; see the log")(""))

    do_HEAD = do_GET  # noqa: N815

    def _respond(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        log.debug("monitoring address: " + format, *args)


def _open_server(address: str, pages: Mapping[str, Page]) -> MonitoringServer | None:
    """Open an address, as host and port; if the port is in use, one of the next ones is taken."""
    host, _, port = address.rpartition(":")
    first, problem = int(port), OSError()
    for number in range(first, min(first + MAX_PORTS, 65536)) if first else (0,):
        try:
            return MonitoringServer(host.strip("[]"), number, pages)
        except OSError as error:
            problem = error
            if error.errno != errno.EADDRINUSE:
                break
    remedy = "Set ONWARD_METRICS_ADDRESS to an address of this machine, or to off"
    log.error("metrics and health cannot be served at %s: %s. %s", address, problem, remedy)
    return None


def text_page(status: int, text: str) -> Page:
    return lambda _: (status, "text/plain; charset=utf-8", f"{text}\n".encode())


def _health_page(check: Callable[[], tuple[bool, dict[str, str]]], _: str) -> tuple[int, str, bytes]:
    healthy, checks = check()
    body = json.dumps({"status": "ok" if healthy else "not ok", "checks": checks}, indent=1)
    return 200 if healthy else 503, "application/json", f"{body}\n".encode()


# -- the observer


class ProcessObserver:
    """Runs beside the work; its problems are logged and stop nothing."""

    def __init__(
        self,
        app: App,
        *,
        store: Store | None = None,
        checks: Mapping[str, Check] | None = None,
        exposes: bool = True,
    ) -> None:
        """`checks` are health checks beside that of the store. With `exposes`, metrics and health are served."""
        settings = app.settings
        store = store or app.store
        self.metrics = app.metrics
        self.health = Health({"store": partial(_check_store, store), **(checks or {})})
        self._collector: StoreCollector | None = None
        self._pushgateway: PushgatewayClient | None = None
        metrics_page = text_page(404, "metrics are switched off (METRICS_BACKEND)")
        if settings.metrics_backend != "noop":
            if find_spec("prometheus_client") is not None:
                metrics_page = self._open_metrics(app, store) or metrics_page
            elif "metrics_backend" in settings.model_fields_set:
                raise MissingExtra(f"METRICS_BACKEND={settings.metrics_backend}", "prometheus_client", "metrics")
            else:
                metrics_page = text_page(404, NO_METRICS)
        self._address = settings.metrics_address
        self.server: MonitoringServer | None = None
        if exposes and self._address != "off":
            pages: dict[str, Page] = {
                "/metrics": metrics_page,
                "/healthz": partial(_health_page, self.health.alive),
                "/readyz": partial(_health_page, self.health.ready),
            }
            self.server = _open_server(self._address, pages)

    def _open_metrics(self, app: App, store: Store) -> Page | None:
        """Return the page of the metrics; None: they are pushed."""
        from prometheus_client import CollectorRegistry

        from onward.observe.prometheus import ProcessCollector, PushgatewayClient, StoreCollector, render

        settings = app.settings
        services, disk = list(app.registry.services), _disk(settings)
        self._collector = StoreCollector(store, settings.ladder, services=services, disk=disk)
        if settings.metrics_backend == "prometheus_pushgateway" and settings.pushgateway_url:
            self._pushgateway = PushgatewayClient(
                store, app.metrics, self._collector, settings.pushgateway_url, instance=settings.metrics_instance
            )
            return None
        registry = CollectorRegistry()
        registry.register(ProcessCollector(app.metrics))
        registry.register(self._collector)
        return partial(render, registry)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        if self._collector is not None:
            self._collector.start()
        if self.server is not None:
            self.health.start()
            self.server.start()
            moved = int(self._address.rpartition(":")[2]) not in (0, self.server.port)
            level, in_use = (logging.WARNING, f" ({self._address} is in use)") if moved else (logging.INFO, "")
            log.log(level, "metrics and health at %s%s", self.server.url, in_use)
        if self._pushgateway is not None:
            self._pushgateway.start()

    def stop(self) -> None:
        self.health.stop()
        for part in (self.server, self._pushgateway, self._collector):
            if part is not None:
                part.stop()


def _check_store(store: Store) -> str:
    store.subscriptions()
    return ""


def _disk(settings: Settings) -> Path:
    """Return the folder of the store's file, or the data folder; the nearest one that exists."""
    scheme, _, rest = settings.store.partition("://")
    file = scheme == "sqlite" and ":memory:" not in rest
    folder = Path(rest.removeprefix("/")).parent.absolute() if file else settings.home.absolute()
    return next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))
