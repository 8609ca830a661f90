"""One trace follows a document through all services and retries, and tracing never gets in the way of the work."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from onward import App, Settings, Work
from onward.model.ledger import CommitResult, Settlement
from onward.runtime.handler_call import FinishedCall, open_delivery
from onward.runtime.tracing import is_unsampled
from onward.testing import Simulation
from tests.support.page_app import DAY, MINUTE, Noticed, Page, PagesFound, Word, WordsFound, bring, new_app, pages
from tests.support.pipeline_runs import STAGES, Pipeline, mail, mbox

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Traced:
    """What was collected."""

    def __init__(self, provider: TracerProvider) -> None:
        self.provider = provider
        self.exporter = InMemorySpanExporter()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    @property
    def spans(self) -> list[ReadableSpan]:
        """In the order in which they began."""
        return sorted(self.exporter.get_finished_spans(), key=lambda one: one.start_time or 0)

    def of(self, service: str) -> list[ReadableSpan]:
        return [one for one in self.spans if one.name == f"onward.{service}"]

    def traces(self) -> set[int]:
        return {one.context.trace_id for one in self.spans}

    def tree(self, under: int | None = None, depth: int = 0) -> Iterator[str]:
        """The spans as lines, children below their parent."""
        for one in self.spans:
            if (one.parent.span_id if one.parent else None) == under:
                yield "  " * depth + described(one)
                yield from self.tree(one.context.span_id, depth + 1)


def described(span: ReadableSpan) -> str:
    about = attributes(span)
    words = [span.name]
    if "onward.try" in about:
        ids = [f"{about['onward.collection']}/{id[:12]}" for id in about.get("onward.documents", ())]
        words += [f"round {about['onward.round']}, try {about['onward.try']}", *ids]
        words += [f"[{span.context.span_id:016x}]"]
    words += [one.name for one in span.events]
    words += [f"after [{one.context.span_id:016x}]" for one in span.links]
    return "  ".join(words)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def events(span: ReadableSpan) -> dict[str, dict[str, object]]:
    return {one.name: dict(one.attributes or {}) for one in span.events}


def parents(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


def links(span: ReadableSpan) -> list[int]:
    return [one.context.span_id for one in span.links]


def text(span: ReadableSpan) -> str:
    return f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{span.context.trace_flags:02x}"


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Traced:
    """A process with the SDK; a provider can be set only once, so it is put where that would put it."""
    traced = Traced(TracerProvider())
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", traced.provider)
    return traced


def failing(times: int, error: Exception) -> Callable[[object, Work], None]:
    """A handler that fails so many times."""
    left = [error] * times

    def handle(given: object, work: Work) -> None:
        if left:
            raise left.pop()

    return handle


# -- following a document


def test_one_trace_follows_a_document_through_all_services_and_a_retry(
    traced: Traced, tmp_path: Path, archive: Path, report: Callable[[str], None]
) -> None:
    archive.write_bytes(mbox(mail("1", "The harbour is closed on Monday.")))
    with Pipeline(tmp_path / "home").running() as pipeline:
        real = pipeline.services["embedding"]
        first = [OSError("the model is being loaded")]

        def embed(chunks: object, work: Work) -> None:
            if first:
                raise first.pop()
            real.handler(chunks, work)

        pipeline.services["embedding"] = replace(real, handler=embed)
        pipeline.submit(archive)
        pipeline.run(within=MINUTE)
        assert pipeline.summary_of("1") is not None
        chunk = pipeline.chunks_of("1")[0]
    for line in traced.tree():
        report(line)

    assert len(traced.traces()) == 1
    assert {one.name for one in traced.spans} == {"onward.submitted", *(f"onward.{name}" for name in STAGES)}
    (submitted,) = traced.of("submitted")
    (ingestion,), (parsing,), (chunking,) = (traced.of(name) for name in STAGES[:3])
    (failed, retried), (early, late), (summarization,) = (traced.of(name) for name in STAGES[3:])
    # Each hangs under the try that emitted its event; the retry under the same as the try before it.
    flow = [submitted, ingestion, parsing, chunking, retried, late, summarization]
    assert [parents(one) for one in flow] == [None, *(one.context.span_id for one in flow[:-1])]
    assert parents(failed) == parents(retried)
    assert parents(early) == parsing.context.span_id
    assert {one.kind for one in flow[1:]} == {SpanKind.CONSUMER}
    assert links(retried) == [failed.context.span_id]
    assert [one for one in traced.spans if one.links] == [retried]
    assert [attributes(one)["onward.try"] for one in (failed, retried)] == [1, 2]
    assert [one.status.status_code for one in (failed, retried)] == [StatusCode.ERROR, StatusCode.UNSET]
    assert attributes(retried) | {"onward.event_id": "", "onward.row": 0} == {
        "onward.service": "embedding",
        "onward.event_id": "",
        "onward.event_type": "ChunksPrepared",
        "onward.documents": (chunk.id,),
        "onward.document_count": 1,
        "onward.collection": "chunks",
        "onward.round": 1,
        "onward.try": 2,
        "onward.row": 0,
        "onward.worker": "simulation",
    }


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return tmp_path / "list.mbox"


def test_a_later_round_keeps_the_trace_and_links_to_the_last_try(traced: Traced) -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(failing(3, OSError("gone")))
    with Simulation(app) as world:
        (page,) = bring(world, "a")
        world.run_for(DAY)
        assert world.state(page).status == "processed"
        assert world.state(page).round == 2
    tries = traced.of("reading")
    assert [(attributes(one)["onward.round"], attributes(one)["onward.try"]) for one in tries] == [
        (1, 1),
        (1, 2),
        (1, 3),
        (2, 1),
    ]
    assert len(traced.traces()) == 1
    assert {parents(one) for one in tries} == {traced.of("submitted")[0].context.span_id}
    assert [links(one) for one in tries] == [[], *([one.context.span_id] for one in tries[:3])]
    assert events(tries[2])["onward.given_up"]["onward.reason"] == "max_attempts_exceeded"
    assert events(tries[1])["onward.retried"]["onward.after"] == 10.0


def test_a_dead_letter_that_an_operator_puts_back_keeps_the_trace(traced: Traced) -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(failing(1, TypeError("not a page")))
    with Simulation(app) as world:
        (page,) = bring(world, "a")
        world.drain()
        (letter,) = world.dead_letters("reading")
        assert world.store.requeue(letter.row)
        world.drain()
        assert world.status(page) == "processed"
    failed, again = traced.of("reading")
    assert len(traced.traces()) == 1
    assert (links(again), parents(again)) == ([failed.context.span_id], parents(failed))
    # Whoever looks at the letter finds the trace.
    assert letter.errors[-1]["trace"].split()[-1] == text(failed)


def test_a_failed_batch_that_is_retried_keeps_the_trace(traced: Traced) -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page, sets_aside=True)(failing(3, OSError("gone")))
    with Simulation(app) as world:
        (page,) = bring(world, "a")
        world.run_for(DAY)
        assert world.status(page) == "processed"
    *failed, again = traced.of("reading")
    assert "onward.set_aside" in events(failed[-1])
    assert len(traced.traces()) == 1
    assert links(again) == [failed[-1].context.span_id]


def test_documents_of_several_traces_that_go_back_together_are_linked(traced: Traced) -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page, batch=10)(failing(6, OSError("gone")))
    with Simulation(app) as world:
        bring(world, "a")
        bring(world, "b")
        world.run_for(DAY)
        assert world.store.document_counts() == {"pages": {"processed": 2}}
    *failed, last = traced.of("reading")
    assert set(links(last)) == {
        one.context.span_id for one in failed if "onward.given_up" in {event.name for event in one.events}
    }
    assert len(links(last)) == 2


def test_where_nobody_traced_what_was_published_retries_share_a_trace_all_the_same(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(failing(2, OSError("gone")))
    with Simulation(app) as world:
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(trace, "_TRACER_PROVIDER", None)
            bring(world, "a")
        with traced.provider.get_tracer("mine").start_as_current_span("around the worker"):
            world.run_for(MINUTE)
    around, *tries = traced.spans
    assert [one.name for one in tries] == ["onward.reading"] * 3
    assert {one.context.trace_id for one in tries} == traced.traces() - {around.context.trace_id}
    assert len(traced.traces()) == 2
    first = tries[0].context.span_id
    assert [parents(one) for one in tries] == [None, first, first]
    assert [links(one) for one in tries] == [[], [first], [tries[1].context.span_id]]


def test_what_is_published_within_a_span_belongs_to_its_trace(traced: Traced) -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(failing(0, OSError()))
    with Simulation(app) as world:
        with traced.provider.get_tracer("shop").start_as_current_span("request") as request:
            bring(world, "a")
            bring(world, "b")
        world.drain()
    assert [one.name for one in traced.spans] == ["request", "onward.reading", "onward.reading"]
    assert {parents(one) for one in traced.of("reading")} == {request.get_span_context().span_id}


# -- in a worker


def test_spans_of_handlers_hang_under_their_try_and_nothing_is_left_behind(traced: Traced, tmp_path: Path) -> None:
    app = App(store=f"sqlite:///{tmp_path}/store.db", settings=Settings())
    mine = traced.provider.get_tracer("mine")

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        with mine.start_as_current_span(f"thread {page.id}"):
            work.emit(WordsFound.of(work.add(Word(id=page.id))))

    @app.service("counting", on=WordsFound, finishes=Word)
    async def count(word: Word, work: Work) -> None:
        with mine.start_as_current_span(f"loop {word.id}"):
            pass

    for page in pages("a", "b", "c", "d", "e", "f"):
        app.publish(PagesFound.of(page), documents=[page])
    with mine.start_as_current_span("around the worker"):
        app.work_until_idle()
    app.close()
    for id in ("a", "b", "c", "d", "e", "f"):
        (thread,) = (one for one in traced.spans if one.name == f"thread {id}")
        (loop,) = (one for one in traced.spans if one.name == f"loop {id}")
        reading = next(one for one in traced.of("reading") if parents(thread) == one.context.span_id)
        counting = next(one for one in traced.of("counting") if parents(loop) == one.context.span_id)
        assert attributes(reading)["onward.documents"] == attributes(counting)["onward.documents"] == (id,)
        assert parents(counting) == reading.context.span_id
    assert len(traced.traces()) == 7  # one a document, and what was around the worker
    assert not trace.get_current_span().get_span_context().is_valid


def test_of_a_batch_the_failures_and_some_ids_are_told(traced: Traced) -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page, batch=10)
    def read(found: list[Page], work: Work) -> None:
        work.fail(found[7], ValueError("torn"))

    with Simulation(app, retry_job=False) as world:
        bring(world, *"abcdefgh")
        world.drain()
    (span,) = traced.of("reading")
    assert attributes(span)["onward.documents"] == ("a", "b", "c", "d", "e")
    assert attributes(span)["onward.document_count"] == 8
    assert events(span)["onward.retried"]["onward.documents"] == ("h",)
    assert events(span)["exception"]["exception.type"] == "ValueError"
    assert span.status.status_code is StatusCode.ERROR


def test_a_notice_of_failure_belongs_to_the_trace(traced: Traced) -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page, notice="Noticed")(failing(1, TypeError("not a page")))
    with Simulation(app) as world:
        bring(world, "a")
        world.store.subscribe([app_of_noticed().registry.services["noticing"].subscription()])
        world.drain()
        (delivery,) = world.store.claim("test", "noticing", limit=1, lease=60.0)
    (span,) = traced.of("reading")
    assert delivery.trace == text(span)


def app_of_noticed() -> App:
    app = new_app()
    app.service("noticing", on=Noticed)(failing(0, OSError()))
    return app


def test_what_is_not_sampled_is_not_collected_and_its_trace_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = Traced(TracerProvider(sampler=ALWAYS_OFF))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", traced.provider)
    app = new_app()
    with Simulation(app) as world:
        app.service("reading", on=PagesFound, finishes=Page)(failing(0, OSError()))
        bring(world, "a")
        (delivery,) = world.store.claim("test", "reading", limit=1, lease=60.0)
        world.store.release("test")
        world.drain()
        assert world.status(Page(id="a")) == "processed"
    assert delivery.trace is not None
    assert int(delivery.trace[-2:], 16) & 1 == 0, "it is marked as not sampled"
    assert traced.spans == []


# -- with the commit


def test_of_a_work_that_cannot_be_committed_the_span_tells_so(
    traced: Traced, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(failing(0, OSError()))
    with Simulation(app) as world:
        (page,) = bring(world, "a")
        settle, broken = world.store.settle, [ValueError("not for this store")] * 2  # in a group, and alone

        def settle_or_fail(settlements: Sequence[Settlement]) -> list[CommitResult]:
            if broken:
                raise broken.pop()
            return settle(settlements)

        monkeypatch.setattr(world.store, "settle", settle_or_fail)
        world.run_for(MINUTE)
        assert world.status(page) == "processed"
    failed, again = traced.of("reading")
    assert events(failed)["exception"]["exception.message"] == "not for this store"
    assert failed.status.status_code is StatusCode.ERROR
    assert links(again) == [failed.context.span_id]


def test_a_work_that_is_not_committed_any_more_leaves_its_span(traced: Traced) -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(failing(0, OSError()))
    with Simulation(app) as world:
        bring(world, "a")
        service = app.registry.services["reading"]
        (delivery,) = world.store.claim("test", "reading", limit=1, lease=60.0)
        (call,) = open_delivery(service, delivery, world._context).calls
        engine = app.engine(worker="test")
        settlement = call.run()
        assert settlement is not None
        engine.finished.append(FinishedCall(call, settlement))
        assert traced.of("reading") == []
        engine.close()
    assert len(traced.of("reading")) == 1


@pytest.mark.parametrize(
    ("carried", "left_out"),
    (
        (None, False),
        (PARENT, False),
        (PARENT[:-2] + "03", False),
        (PARENT[:-2] + "00", True),
        (PARENT[:-2] + "02", True),
        (f"{PARENT[:-2]}00 {PARENT}", True),
        (f"{PARENT} {PARENT[:-2]}00", False),
        ("0" * 60, False),
        ("", False),
    ),
)
def test_what_whoever_began_a_trace_has_left_out_is_left_out(carried: str | None, left_out: bool) -> None:
    assert is_unsampled(carried) is left_out


# -- what must not happen


def test_secrets_are_taken_out(traced: Traced) -> None:
    app = new_app()
    secret = "hunter2hunter2"
    app.service("reading", on=PagesFound, finishes=Page)(
        failing(1, OSError(f"no answer from https://ada:{secret}@example.org"))
    )
    with Simulation(app) as world:
        bring(world, f"https://ada:{secret}@example.org/page")
        world.drain()
    (span,) = traced.of("reading")
    assert attributes(span)["onward.documents"] == ("https://ada:***@example.org/page",)
    assert events(span)["exception"]["exception.message"] == "no answer from https://ada:***@example.org"
    assert "Traceback" in str(events(span)["exception"]["exception.stacktrace"])
    assert secret not in span.to_json()


@pytest.mark.parametrize(
    "given",
    (
        "nonsense",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        f"{PARENT}\n",
        f"{PARENT} {PARENT}",
        "x" * 50_000,
        7,
        None,
        {"traceparent": PARENT},
    ),
    ids=range(11),
)
def test_a_strangers_trace_that_cannot_be_read_is_ignored(traced: Traced, given: object) -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(failing(0, OSError()))
    with Simulation(app) as world:
        app.add(*pages("a"))
        foreign = {"event_type": "PagesFound", "data": {"page_ids": ["a"]}, "trace": given}
        assert app.publish_raw(json.dumps(foreign).encode()) is not None
        world.drain()
        assert world.status(Page(id="a")) == "processed"
    (span,) = traced.of("reading")
    assert span.parent is None
    assert span.links == ()


def test_a_strangers_trace_is_taken_up(traced: Traced) -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(failing(0, OSError()))
    with Simulation(app) as world:
        app.add(*pages("a"))
        foreign = {"event_type": "PagesFound", "data": {"page_ids": ["a"]}, "trace": PARENT}
        assert app.publish_raw(json.dumps(foreign).encode()) is not None
        world.drain()
    (span,) = traced.of("reading")
    assert f"00-{span.context.trace_id:032x}-{parents(span):016x}-01" == PARENT


class Broken(SpanProcessor):
    """An observer that fails whenever it is told something."""

    def on_start(self, span: Span, parent_context: object = None) -> None:
        raise RuntimeError("password=hunter2hunter2")

    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError("password=hunter2hunter2")


class BrokenLate(Broken):
    def on_start(self, span: Span, parent_context: object = None) -> None:
        pass


@pytest.mark.parametrize("observer", (Broken, BrokenLate))
def test_a_tracer_that_fails_never_fails_the_work(
    traced: Traced, observer: type[Broken], caplog: pytest.LogCaptureFixture
) -> None:
    traced.provider.add_span_processor(observer())
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(failing(1, OSError("gone")))
    with Simulation(app) as world:
        (page,) = bring(world, "a")
        world.run_for(MINUTE)
        assert world.status(page) == "processed"
    assert "the work goes on: RuntimeError: password=***" in caplog.text
    assert not trace.get_current_span().get_span_context().is_valid


# -- without the SDK


def test_without_a_provider_there_are_no_spans_and_a_trace_is_handed_on() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        if work.try_number == 1:
            raise OSError("gone")
        work.emit(WordsFound.of(work.add(Word(id=page.id))))

    with Simulation(app) as world:
        assert world._context.spans is None
        bring(world, "untraced")
        app.add(*pages("a"))
        foreign = {"event_type": "PagesFound", "data": {"page_ids": ["a"]}, "trace": PARENT}
        app.publish_raw(json.dumps(foreign).encode())
        app_of_words = new_app()
        app_of_words.service("counting", on=WordsFound)(failing(0, OSError()))
        world.store.subscribe([app_of_words.registry.services["counting"].subscription()])
        world.run_for(MINUTE)
        assert world.status(Page(id="a")) == "processed"
        found = world.store.claim("test", "counting", limit=10, lease=60.0)
    assert {one.trace for one in found} == {None, PARENT}


UNTRACED = """
import sys
from onward import App, Document, Event, Settings, names

class Page(Document):
    pass

class PagesFound(Event):
    page_ids: list[str] = names(Page)

app = App(store="sqlite://:memory:", settings=Settings())

@app.service("reading", on=PagesFound, finishes=Page)
def read(page, work):
    pass

page = Page(id="a")
app.publish(PagesFound.of(page), documents=[page])
app.work_until_idle()
assert app.state(Page, "a").status == "processed"
app.close()
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""


def test_who_does_not_trace_does_not_import_opentelemetry() -> None:
    done = subprocess.run([sys.executable, "-c", UNTRACED], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "traces.md"
PLAYED = """
import sys, types
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

stands_in = types.ModuleType("stands_in")
stands_in.OTLPSpanExporter = InMemorySpanExporter
sys.modules["opentelemetry.exporter.otlp.proto.http.trace_exporter"] = stands_in

import traced
from onward.pipeline.sources import submit

submit(traced.app, "list.mbox")
traced.app.close()
traced.provider.force_flush()
exporter = traced.provider._active_span_processor._span_processors[0].span_exporter
print([one.name for one in exporter.get_finished_spans()])
"""


def test_the_module_of_the_page_sets_tracing_up(tmp_path: Path) -> None:
    (module,) = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "traced.py").write_text(module)
    (tmp_path / "list.mbox").write_bytes(mbox(mail("1")))
    (tmp_path / "play.py").write_text(PLAYED)
    done = subprocess.run([sys.executable, "play.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("['onward.submitted']", "")


def test_the_page_lists_what_a_span_tells(traced: Traced) -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(failing(3, OSError("gone")))
    with Simulation(app) as world:
        bring(world, "a")
        world.run_for(MINUTE)
    told = {name for span in traced.of("reading") for name in [*attributes(span), *events(span)]}
    told |= {name for span in traced.of("reading") for about in events(span).values() for name in about}
    listed = set(re.findall(r"`((?:onward|exception)(?:\.\w+)?)`", PAGE.read_text()))
    assert told - listed == set()
