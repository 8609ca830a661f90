"""What it costs to be seen: no-op events with metrics, logs and traces, beside the same with none of them.

On: metrics are counted and asked for every second, logs are JSON at their usual level, and of all events, or of 1
in 10, each call leaves a span that an exporter takes and throws away. Off: none of that. Both commit a document
with each event, in one process, on SQLite. What is measured is the work, not the publishing, where traces begin.
A no-op event takes less than a tenth of a millisecond, and the OpenTelemetry SDK needs about half as long for a
span with a parent and attributes, whoever makes it: with traces of all, most of the difference is the SDK's. So
the pipeline, whose events do something, is measured as well.
"""

from __future__ import annotations

import io
import logging
import os
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.peers_onward import PUBLISHED_AT_ONCE, Ping, Pong
from bench.pipeline import SAMPLE, SAMPLE_COPIES, write_copies
from bench.table import Row, medians
from onward import App, Settings, Work
from onward.observe.logs import set_up_logs
from onward.observe.process_observer import ProcessObserver
from onward.worker import tune_process

JOBS = 10_000
REPEATS = 5
PIPELINE_REPEATS = 3
ASKED_EVERY = 1.0

Task = Callable[[Settings], tuple[App, int]]
"""Publishes events to an app with these settings, and returns their number."""


def run() -> list[Row]:
    """Take turns with each."""
    ways = {
        "none": partial(_measure, metrics=False, logs=False, traces=0.0),
        "metrics": partial(_measure, metrics=True, logs=False, traces=0.0),
        "metrics and logs": partial(_measure, metrics=True, logs=True, traces=0.0),
        "metrics, logs, traces of 1 in 10": partial(_measure, metrics=True, logs=True, traces=0.1),
        "metrics, logs, traces of all": partial(_measure, metrics=True, logs=True, traces=1.0),
    }
    title = f"{JOBS:,} no-op events, with monitoring"
    rows = _rows(title, medians({name: partial(_apart, way, _no_ops) for name, way in ways.items()}, REPEATS))
    both = {name: ways[name] for name in ("none", "metrics, logs, traces of all")}
    title = "mails through the pipeline, with monitoring"
    return rows + _rows(
        title, medians({name: partial(_apart, way, _mails) for name, way in both.items()}, PIPELINE_REPEATS)
    )


def _rows(title: str, rates: dict[str, float]) -> list[Row]:
    notes = {
        "metrics": "scraped every second",
        "metrics, logs, traces of 1 in 10": "a span for 1 event in 10",
        "metrics, logs, traces of all": "a span for each event",
    }
    return [Row(name, name == "none", rate, notes.get(name, ""), title) for name, rate in rates.items()]


def _apart(way: Callable[[Task], float], task: Task) -> float:
    """Run in a process of its own, so that one measurement does not slow the next."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        with os.fdopen(write, "w") as answer:
            answer.write(repr(way(task)))
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        found = answer.read()
    os.waitpid(child, 0)
    return float(found)


def _measure(task: Task, *, metrics: bool, logs: bool, traces: float) -> float:
    set_up_logs(logging.INFO if logs else logging.WARNING, format="json", stream=io.StringIO())
    if traces:
        _trace(traces)
    tune_process()  # as a worker does, once its app is there
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            home=Path(folder),
            metrics_backend="prometheus" if metrics else "noop",
            metrics_address="127.0.0.1:0" if metrics else "off",
        )
        app, count = task(settings)
        with ProcessObserver(app, exposes=metrics) as observer:
            over = threading.Event()
            if observer.server is not None:
                threading.Thread(target=_ask, args=(observer.server.url, over), daemon=True).start()
            began = time.perf_counter()
            app.work_until_idle()
            took = time.perf_counter() - began
            over.set()
        app.close()
    return count / took


def _no_ops(settings: Settings) -> tuple[App, int]:
    app = App(settings=settings)

    @app.service("answering", on=Ping)
    async def answer(event: Ping, work: Work) -> None:
        work.add(Pong(id=f"pong-{event.number}", number=event.number))

    for start in range(0, JOBS, PUBLISHED_AT_ONCE):
        app.publish(*(Ping(number=number) for number in range(start, start + PUBLISHED_AT_ONCE)))
    return app, JOBS


def _mails(settings: Settings) -> tuple[App, int]:
    from onward.pipeline.app import build
    from onward.pipeline.sources import submit

    settings.home.mkdir(exist_ok=True)
    archive = settings.home / "sample.mbox"
    write_copies(SAMPLE, archive, SAMPLE_COPIES)
    app = build(settings)
    submit(app, str(archive))
    return app, SAMPLE.read_bytes().count(b"\nFrom ") * SAMPLE_COPIES


def _trace(share: float) -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
    from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

    class Forgetful(SpanExporter):
        def export(self, spans: object) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider(sampler=ParentBasedTraceIdRatio(share))
    provider.add_span_processor(BatchSpanProcessor(Forgetful()))
    trace.set_tracer_provider(provider)


def _ask(url: str, over: threading.Event) -> None:
    while not over.wait(ASKED_EVERY):
        with urllib.request.urlopen(f"{url}/metrics") as answer:
            answer.read()
