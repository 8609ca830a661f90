"""The app: services and dependencies, and the store they share."""

from __future__ import annotations

import importlib
import logging
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from onward.backend_urls import open_blobs, open_embedder, open_gateway, open_reporter, open_store, open_summarizer
from onward.blobs import Blobs
from onward.model.breaker import BreakerRules
from onward.model.clock import Clock
from onward.model.failures import Failure
from onward.model.fingerprints import place_of
from onward.model.ledger import OutgoingEvents
from onward.retry import OnwardError, redact_error
from onward.retry.plain_data import context_json
from onward.retry.redact import hide_addresses
from onward.runtime import publisher
from onward.runtime.app_import import importing_app
from onward.runtime.declarations import Declarations
from onward.runtime.metrics import Metrics, NoMetrics
from onward.runtime.outcomes import AnySignal, GaveUp, Hooks, Measuring, Retried, SetAside
from onward.runtime.registry import Registry
from onward.settings import Settings, load_settings

if TYPE_CHECKING:
    from onward.gateway import Gateway
    from onward.ledger.store import Store
    from onward.models.protocol import Embedder, Reranker, Summarizer
    from onward.runtime.engine import Ending, Engine, EngineSettings
    from onward.runtime.error_reporter import ErrorReporter
    from onward.runtime.slots import RunningSlots

T = TypeVar("T")

log = logging.getLogger("onward")

FLUSH_SECONDS = 5.0  # how long the end of a process may wait for error reports that are under way


class AppNotFound(OnwardError):
    """A reference such as `module:app` leads nowhere."""


class App(Declarations):
    """Services, their dependencies, and the store that holds their documents and ledger.

        app = App()

        @app.service("greeting", on=PersonMet, finishes=Person)
        async def greet(person, work):
            work.add(Greeting(id=person.id, text=f"Hello, {person.name}!"))

    Without arguments it reads its settings from the environment and `onward.toml`, and keeps
    everything in one SQLite file below `./onward-data`.
    """

    def __init__(
        self,
        *,
        store: str | Store | None = None,
        settings: Settings | None = None,
        clock: Clock | None = None,
        version: str = "",
    ) -> None:
        self.registry = Registry()
        self.hooks = Hooks()
        self._version = version
        self._settings = settings
        self._clock = clock
        self._given = store
        self._store: Store | None = None
        self._opened: dict[str, Any] = {}  # blobs, models and the error reporter
        self._reports_failures = False
        self._metrics: Metrics | None = None
        self._measuring: Measuring | None = None
        self._reranker: Reranker | None = None
        self._opening = threading.Lock()
        self._opening_store = threading.RLock()
        if settings is not None:
            hide_addresses(settings.redact_addresses)

    @property
    def settings(self) -> Settings:
        """The settings, read from the environment and `onward.toml` when they are first used."""
        if self._settings is None:
            self._settings = load_settings()
            hide_addresses(self._settings.redact_addresses)
        return self._settings

    @cached_property
    def version(self) -> str:
        """The version of this app, which is stored with what it does; that of Onward by default."""
        from importlib.metadata import version  # not at the top: it takes a while, and many commands need none

        return self._version or f"onward {version('onward')}"

    @property
    def metrics(self) -> Metrics:
        """Counters, histograms and gauges, for your own services, too; they are exposed, or pushed."""
        if self._metrics is None and self.settings.metrics_backend == "noop":
            self._metrics = NoMetrics()
        elif self._metrics is None:
            self._metrics = Metrics()
            self._measuring = Measuring(self._metrics)
            self.observe(self._measuring)
        return self._metrics

    # -- reporting errors

    @property
    def reporter(self) -> ErrorReporter:
        """The error reporter of the settings, opened when it is first used."""
        return self._open("reporter", lambda: open_reporter(self.settings, lambda: self.store, self.version))

    def _open(self, name: str, opens: Callable[[], T]) -> T:
        """Return what was opened under this name; open it if it is used for the first time."""
        with self._opening:
            if name not in self._opened:
                self._opened[name] = opens()
            opened: T = self._opened[name]
            return opened

    def report_error(
        self, error: BaseException, *, context: Mapping[str, Any] | None = None, service: str = ""
    ) -> None:
        """Report an error of your own code, with what was known of its circumstances.

        `context` may have any values; it is stored without secrets, shortened to `MAX_CONTEXT` characters of
        JSON. `service` need not be one of the app's; by default it is the one whose handler is running, or
        the package that raised the error. It is counted in its failure group: `onward failures list --all`
        shows it. This neither waits nor raises.
        """
        try:
            if not service:
                from onward.runtime.handler_call import CURRENT

                call = CURRENT.get()
                package = place_of(error).partition(":")[0].partition(".")[0]
                service = package or "app" if call is None else call.service.name
            from onward.runtime.error_reporter import ErrorReport

            at = time.time() if self._store is None else self._store.now()
            worker = f"{socket.gethostname()}:{os.getpid()}"
            given = context_json(context) if context else ""
            failure = Failure.of(error, at=at, service=service, worker=worker, version=self.version, context=given)
            self.reporter.put(ErrorReport(failure, service))
        except Exception as broken:
            what = redact_error(f"{type(broken).__name__}: {broken}")
            log.error("a %s of %s cannot be reported: %s", type(error).__name__, service, what)

    def error_text(self, error: BaseException) -> str:
        """Return the type and the message of an error without secrets, to store or show it."""
        return redact_error(f"{type(error).__name__}: {error}")

    def report_failures(self) -> None:
        """Send the failures of events in this process, if errors are reported to another system."""
        if self.settings.error_reporter_type in ("http", "sentry") and not self._reports_failures:
            _ = self.reporter  # a URL that makes no sense is said before anything starts
            self._reports_failures = True
            self.observe(self._report_failed)

    def _report_failed(self, signal: AnySignal) -> None:
        if isinstance(signal, (Retried, GaveUp, SetAside)) and signal.failure is not None:
            from onward.runtime.error_reporter import ErrorReport

            service = self.registry.services.get(signal.service)
            collection = service.finishes.collection if service and service.finishes else None
            self.reporter.put(ErrorReport(signal.failure, signal.service, collection, signal.ids), counted=True)

    def stop_reporting(self, timeout: float = FLUSH_SECONDS) -> None:
        """Deliver the reports that still wait, as far as that takes no longer than this."""
        with self._opening:
            reporter: ErrorReporter | None = self._opened.pop("reporter", None)
        if reporter is not None:
            reporter.close(timeout)

    # -- the store

    @property
    def store(self) -> Store:
        """The store, opened and subscribed to for this app's services when it is first used."""
        if self._store is not None:
            return self._store
        # One thread at a time: errors are reported by a thread of their own, which may be the first to use it.
        with self._opening_store:
            if self._store is None:
                store = self.open_unannounced()
                store.subscribe(self.registry.subscriptions())
                store.outgoing = OutgoingEvents(self.settings.outgoing_types)
                store.breaker_rules = self.breaker_rules()
                self._store = store
            return self._store

    @property
    def store_address(self) -> str:
        """The address of the store; empty if the store was passed in open."""
        if self._given is None:
            return self.settings.store
        return self._given if isinstance(self._given, str) else ""

    def open_unannounced(self) -> Store:
        """Open the store without subscribing this app's services to it: it may be that of another app."""
        if self._given is not None and not isinstance(self._given, str):
            return self._given
        replica = self.settings.store_replica if self._given is None else None
        return open_store(self.store_address, self._clock, replica=replica)

    def gateway(self) -> Gateway | None:
        """Return a gateway to the broker that the settings name, not started yet, or None if they name none."""
        url = self.settings.gateway_url
        if url is None:
            return None

        def enter(messages: Sequence[publisher.ForeignMessage]) -> None:
            publisher.enter_foreign_events(self.store, self.registry.events(), messages)

        keys = [service.on.routing_key for service in self.registry.services.values()]
        return open_gateway(url, self.store, enter, keys, name=self.version)

    def close(self) -> None:
        """Close the store and the models; they are opened again when they are next used."""
        self.stop_reporting()
        for opened in (*self._opened.values(), self._store):
            if opened is not None:
                opened.close()
        self._opened, self._store = {}, None

    @property
    def blobs(self) -> Blobs:
        """The store of blobs, addressed by their content."""
        settings = self.settings
        return self._open("blobs", lambda: open_blobs(settings.blobs, settings.home, self.store_address))

    @property
    def embedder(self) -> Embedder:
        """The model that turns texts into vectors, opened when it is first used."""
        return self._open("embedder", lambda: open_embedder(self.settings))

    @property
    def embedder_upgrade(self) -> Embedder | None:
        """The better model whose vectors are computed in the background, if the settings name one."""
        if self.settings.embedder_upgrade is None:
            return None
        return self._open("embedder_upgrade", lambda: open_embedder(self.settings, "embedder_upgrade"))

    @property
    def summarizer(self) -> Summarizer:
        """The model that writes summaries, opened when it is first used."""
        return self._open("summarizer", lambda: open_summarizer(self.settings))

    @property
    def reranker(self) -> Reranker | None:
        """What orders the best hits of a search anew: a function set here or named by the settings, or None."""
        if self._reranker is None and self.settings.reranker:
            self._reranker = load_reranker(self.settings.reranker)
        return self._reranker

    @reranker.setter
    def reranker(self, reranker: Reranker | None) -> None:
        self._reranker = reranker

    @property
    def has_reranker(self) -> bool:
        """Whether a reranker is set; it may turn out that it cannot be loaded."""
        return self._reranker is not None or self.settings.reranker is not None

    # -- working

    def breaker_rules(self) -> BreakerRules:
        """Return the rules of breakers with the numbers of the settings."""
        return BreakerRules(
            **{one.name: getattr(self.settings, f"breaker_{one.name}") for one in fields(BreakerRules)}
        )

    def engine_settings(self, **changes: Any) -> EngineSettings:
        """Return the settings of an engine, with these changes."""
        from onward.runtime.engine import EngineSettings

        settings = self.settings
        hide_addresses(settings.redact_addresses)
        same = ("concurrency", "keep_completed_seconds", "keep_completed_count")
        options: dict[str, Any] = {name: getattr(settings, name) for name in same}
        options |= {"ladder": settings.ladder(), "time_limit": settings.time_limit_seconds}
        return EngineSettings(**(options | changes))

    def engine(
        self,
        services: Sequence[str] | None = None,
        *,
        worker: str | None = None,
        record: RunningSlots | None = None,
        **changes: Any,
    ) -> Engine:
        """Return an engine for these services, or all, in this process; `changes` are those of its settings."""
        from onward.runtime.engine import Engine  # not at the top: a command that only reads starts without it

        chosen = self.registry.select(services)
        _ = self.metrics  # from now on, what happens is measured
        if self._measuring is not None:
            self._measuring.expect(service.name for service in chosen)
        self.report_failures()
        return Engine(
            self.store,
            self.registry,
            chosen,
            worker=worker or worker_name(),
            version=self.version,
            hooks=self.hooks,
            record=record,
            settings=self.engine_settings(**changes),
        )

    def work_until_idle(self, services: Sequence[str] | None = None) -> Ending:
        """Run services in this process until nothing is due and nothing is under way, here or in other workers."""
        return self.engine(services, until_idle=True).run()


def worker_name() -> str:
    """Return a name for a worker process that no other one has or had."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"


def load_app(reference: str) -> App:
    """Import an app by a reference such as `package.module:app`."""
    with importing_app(reference):
        app = _load(reference, "app")
    if not isinstance(app, App):
        raise AppNotFound(f"{reference!r} is a {type(app).__name__}, not an onward.App")
    return app


def load_reranker(reference: str) -> Reranker:
    """Import a function that scores passages by a reference such as `package.module:function`."""
    reranker: Reranker = _load(reference, "reranker")
    if not callable(reranker):
        raise AppNotFound(f"{reference!r} is a {type(reranker).__name__}, not a function that scores passages")
    return reranker


def _load(reference: str, usual: str) -> Any:
    """Import what a reference names; its module may be in the current folder."""
    module_name, _, attribute = reference.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return getattr(importlib.import_module(module_name), attribute or usual)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise
        raise AppNotFound(
            f"there is no module {error.name!r} for the {usual} {reference!r}; give it as package.module:{usual}, "
            "from the folder that holds it"
        ) from error
    except AttributeError as error:
        raise AppNotFound(f"module {module_name!r} has no {attribute or usual!r}") from error
