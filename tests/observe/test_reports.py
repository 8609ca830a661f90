"""Errors are counted in their groups, and sent to another Onward or to Sentry, while the work goes on."""

from __future__ import annotations

import gzip
import json
import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import SecretStr

from onward import App, Exponential, OnwardError, Settings, Unavailable, Work
from onward.cli import main
from onward.model.failures import Failure
from onward.model.ledger_views import FailureGroup
from onward.recovery.background_jobs import RetryJobThread
from onward.recovery.retry_job import RetryJob
from onward.retry.plain_data import MAX_CONTEXT
from onward.runtime import error_reporter, outcomes
from onward.runtime.error_reporter import DeliveryFailed, ErrorReport, ReportThread
from onward.runtime.outcomes import AnySignal
from onward.settings import SettingsError, load_settings
from onward.testing import Simulation
from tests.support.page_app import HOUR, Page, PagesFound, bring, new_app

BROKEN = Failure(
    at=1_800_000_000.0, error_type="ValueError", message="no price", fingerprint="f00d", kind="transient"
)
PATIENCE = 60.0


def poll(reached: Callable[[], object]) -> None:
    ends = time.monotonic() + PATIENCE
    while not reached() and time.monotonic() < ends:
        time.sleep(0.01)
    assert reached()


class Receiver:
    """Another Onward, which answers as it is told."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.answers: list[int] = []
        """What the next requests are answered with; 202 afterwards."""
        self.headers: dict[str, str] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append((self.path, dict(self.headers), body))
                self.send_response(outer.answers.pop(0) if outer.answers else 202)
                for name, value in outer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def errors(self) -> list[dict[str, Any]]:
        return [one for _, _, body in self.requests for one in body["errors"]]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("no_proxy", "*")
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits between two tries are as good as none."""
    monkeypatch.setattr(error_reporter, "BACKOFF", Exponential(0.001, cap=0.001))


def sending_app(url: str, **settings: Any) -> App:
    return App(settings=Settings(error_reporter_type="http", error_reporter_url=url, **settings))


def only_group(world: Simulation) -> FailureGroup:
    (group,) = world.store.failure_groups()
    return group


def charge() -> None:
    raise LookupError("no account at postgres://app:hunter2@db/x for me@example.org")


def report(app: App, service: str = "billing") -> None:
    try:
        charge()
    except LookupError as error:
        app.report_error(error, service=service)


# -- into the store


def test_an_error_of_your_own_code_is_counted_in_its_group() -> None:
    with Simulation(new_app()) as world:
        report(world.app)
        report(world.app)
        world.app.stop_reporting()
        group = only_group(world)
        assert (group.service, group.error_type, group.failures) == ("billing", "LookupError", 2)
        assert group.message == "no account at postgres://app:***@db/x for me@example.org"
        assert group.place.endswith("test_reports:charge")
        assert "hunter2" not in group.traceback
        assert (group.last_seen, group.versions) == (world.clock.now(), {world.app.version: 2})


# The example of the error reporter's design: the event that was handled, and the retries that were made.
EVENT = {
    "event_type": "EmbeddingGenerationFailed",
    "data": {"chunk_ids": ["chunk-123", "chunk-456"], "error_type": "TimeoutError", "retry_count": 3},
}


def test_a_context_is_stored_with_the_error() -> None:
    with Simulation(new_app()) as world:
        world.app.report_error(TimeoutError("no answer"), context={"event": EVENT, "retry_count": 3})
        world.app.stop_reporting()
        assert only_group(world).context == {"event": EVENT, "retry_count": 3}
        world.app.report_error(TimeoutError("no answer"))
        world.app.stop_reporting()
        assert only_group(world).context["retry_count"] == 3, "the last one that was given"
        assert only_group(world).failures == 2


class Unshowable:
    def __str__(self) -> str:
        raise RuntimeError("no")


class Odd(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("no")


def test_any_value_can_be_in_a_context_and_no_secret_stays_in_it() -> None:
    context: dict[Any, Any] = {
        "password": "hunter2",
        "url": "postgres://app:hunter2@db/x",
        "event": PagesFound(page_ids=["a"]),
        "at": datetime(2024, 1, 15, 10, 30, tzinfo=UTC),
        "raw": b"\xff",
        "nan": float("nan"),
        "huge": 10**5000,
        "odd": [Unshowable(), Odd(), {1}, "\0\ud800"],
        7: OSError("api_key=hunter2"),
    }
    context["self"] = context
    with Simulation(new_app()) as world:
        world.app.report_error(TimeoutError("no answer"), context=context)
        world.app.stop_reporting()
        found = only_group(world).context
    assert "hunter2" not in json.dumps(found)
    assert (found["password"], found["url"]) == ("***", "postgres://app:***@db/x")
    assert found["event"] == {"page_ids": ["a"], "found_by": ""}
    assert (found["at"], found["nan"], found["7"]) == ("2024-01-15 10:30:00+00:00", "nan", "OSError: api_key=***")
    assert found["huge"] == "<int that cannot be shown: ValueError>"
    assert found["odd"][:3] == [
        "<Unshowable that cannot be shown: RuntimeError>",
        "<Odd that cannot be shown: RuntimeError>",
        [1],
    ]


@pytest.mark.parametrize("context", ({"text": "x" * 10**6}, {str(n): ["y" * 300] * 50 for n in range(50)}))
def test_a_long_context_is_shortened(context: dict[str, Any]) -> None:
    with Simulation(new_app()) as world:
        world.app.report_error(TimeoutError("no answer"), context=context)
        world.app.stop_reporting()
        found = only_group(world).context
    assert 0 < len(json.dumps(found)) <= MAX_CONTEXT
    assert found.keys() in (context.keys(), {"shortened"})


def test_without_a_service_the_error_belongs_to_the_one_that_runs_or_to_its_package() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        app.report_error(OSError("a slow disk"))

    with Simulation(app, retry_job=False) as world:
        bring(world, "a")
        world.drain()
        report(app, service="")
        app.report_error(ValueError("never raised"))
        app.stop_reporting()
        groups = {one.error_type: one.service for one in world.store.failure_groups()}
    assert groups == {"OSError": "reading", "LookupError": "tests", "ValueError": "app"}


def test_mail_addresses_are_hidden_if_that_is_set() -> None:
    with Simulation(App(settings=Settings(redact_addresses=True))) as world:
        report(world.app)
        world.app.stop_reporting()
        assert only_group(world).message == "no account at postgres://app:***@db/x for ***@***"
    new_app()  # what the last app says, holds


def test_noop_reports_nothing_by_hand_and_keeps_the_groups_of_documents(caplog: pytest.LogCaptureFixture) -> None:
    app = App(settings=Settings(error_reporter_type="noop"))

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        raise TypeError("no text")

    with Simulation(app, retry_job=False) as world:
        report(app)
        app.stop_reporting()
        assert world.store.failure_groups() == []
        assert "cannot be reported" not in caplog.text
        bring(world, "a")
        world.run_for(HOUR)
        assert only_group(world).service == "reading"


def test_a_report_survives_the_transaction_that_it_is_about() -> None:
    app = App(store="sqlite://:memory:", settings=Settings())

    def steps() -> None:
        app.add(Page(id="a"))
        report(app)
        raise OnwardError("undone")

    with pytest.raises(OnwardError, match="undone"):
        app.atomically(steps)
    app.stop_reporting()
    assert app.state(Page, "a") is None
    assert [one.service for one in app.store.failure_groups()] == ["billing"]
    app.close()


def test_closing_the_app_delivers_what_waits(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    app = App(store=url, settings=Settings())
    report(app)
    app.close()
    again = App(store=url, settings=Settings())
    assert [one.failures for one in again.store.failure_groups()] == [1]
    again.close()


def test_reporting_never_raises(caplog: pytest.LogCaptureFixture) -> None:
    app = App(store="nosuch://place", settings=Settings())
    report(app)
    app.stop_reporting()
    assert "no backend for a store URL" in caplog.text
    wrong = sending_app("http://host:port")
    report(wrong)
    assert "ERROR_REPORTER_URL" in caplog.text
    assert "LookupError of billing cannot be reported" in caplog.text


def test_reporting_while_the_interpreter_ends_does_not_raise(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "onward.runtime.error_reporter", None)  # nothing can be imported any more
    report(new_app())
    assert "LookupError of billing cannot be reported" in caplog.text


# -- to another Onward


def test_each_failure_is_sent_with_what_is_known_of_it(receiver: Receiver) -> None:
    app = sending_app(f"http://{receiver.address}")
    calls: list[str] = []

    @app.service("reading", on=PagesFound, finishes=Page, needs="model")
    def read(page: Page, work: Work) -> None:
        calls.append(page.id)
        if len(calls) == 1:
            raise Unavailable("model", "Authorization: Bearer 0123456789abcdef")
        raise TypeError("no text")

    app.report_failures()
    with Simulation(app, retry_job=False) as world:
        began = world.clock.now()
        bring(world, "a")
        world.run_for(HOUR)
        app.stop_reporting()
        retried, given_up = receiver.errors
        assert given_up["error_type"] == "TypeError"
        assert given_up["fingerprint"] in {one.fingerprint for one in world.store.failure_groups()}
        assert sum(one.failures for one in world.store.failure_groups()) == 2, "sent, but not counted again"
    assert retried["message"] == "model: Authorization: ***"
    assert (retried["service"], retried["kind"], retried["dependency"]) == ("reading", "unavailable", "model")
    assert (retried["collection"], retried["documents"], retried["document_count"]) == ("pages", ["a"], 1)
    assert (retried["worker"], retried["version"]) == ("simulation", app.version)
    assert datetime.fromisoformat(retried["at"]).timestamp() == pytest.approx(began)
    assert "Traceback" in retried["traceback"]
    assert retried["id"] != given_up["id"]


def test_a_report_by_hand_is_sent_and_counted(receiver: Receiver) -> None:
    with Simulation(sending_app(f"http://{receiver.address}", redact_addresses=True)) as world:
        report(world.app)
        world.app.stop_reporting()
        assert only_group(world).failures == 1
        (sent,) = receiver.errors
        assert (sent["service"], sent["message"]) == (
            "billing",
            "no account at postgres://app:***@db/x for ***@***",
        )
        assert "documents" not in sent
        assert "context" not in sent
    new_app()


def test_what_was_made_by_hand_is_redacted_too(receiver: Receiver) -> None:
    with Simulation(sending_app(f"http://{receiver.address}")) as world:
        secret = Failure(
            at=0.0, error_type="E", message="password=hunter2", fingerprint="f", traceback="token=abc"
        )
        world.app.reporter.put(ErrorReport(secret, documents=("api_key=abc",)), counted=True)
        world.app.stop_reporting()
    (sent,) = receiver.errors
    assert (sent["message"], sent["traceback"], sent["documents"]) == (
        "password=***",
        "token=***",
        ["api_key=***"],
    )


@pytest.mark.parametrize(
    ("url", "settings", "path", "authorization"),
    (
        ("http://{}", {}, "/api/errors", None),
        ("http://{}/", {"token": "t0ken"}, "/api/errors", "Bearer t0ken"),
        ("http://:s%2Fcret@{}/collect?a=1", {"token": "t0ken"}, "/collect?a=1", "Bearer s/cret"),
        ("http://s0cret@{}", {}, "/api/errors", "Bearer s0cret"),
    ),
)
def test_where_it_is_sent_and_with_which_token(
    receiver: Receiver, url: str, settings: dict[str, Any], path: str, authorization: str | None
) -> None:
    with Simulation(sending_app(url.format(receiver.address), **settings)) as world:
        world.app.reporter.put(ErrorReport(BROKEN), counted=True)
        world.app.stop_reporting()
    ((asked, headers, _),) = receiver.requests
    assert (asked, headers.get("Authorization")) == (path, authorization)


@pytest.mark.parametrize("url", ("http://host:port", "http://:99999", "http://host:99999", "http://a b"))
def test_a_url_that_makes_no_sense_stops_the_start(url: str) -> None:
    app = sending_app(url)
    with pytest.raises(OnwardError, match=r"ERROR_REPORTER_URL is .* but must be a URL such as"):
        app.engine()
    app.close()


# -- trouble


def test_what_cannot_be_sent_is_sent_later(
    receiver: Receiver, impatient: None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "onward")
    receiver.answers = [503, 500, 429, 401, 404]
    with Simulation(sending_app(f"http://:t0ken@{receiver.address}")) as world:
        world.app.reporter.put(ErrorReport(BROKEN), counted=True)
        poll(lambda: len(receiver.requests) == 6)
        poll(lambda: "are reported to" in caplog.text)
        world.app.stop_reporting()
    assert len({one["id"] for one in receiver.errors}) == 1, "the receiver can tell that it is the same"
    for status in (503, 500, 429, 401, 404):
        assert caplog.text.count(f"the response was {status}") == 1
    assert "t0ken" not in caplog.text
    assert "401 Unauthorized; set ONWARD_TOKEN to the receiver's token" in caplog.text, "remedies are not redacted"


def test_a_batch_that_is_refused_is_lost_and_the_next_one_is_sent(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answers = [422]
    with Simulation(sending_app(f"http://{receiver.address}")) as world:
        world.app.reporter.put(ErrorReport(BROKEN), counted=True)
        poll(lambda: "1 were dropped" in caplog.text)
        world.app.reporter.put(ErrorReport(BROKEN, "next"), counted=True)
        world.app.stop_reporting()
    assert [one.get("service") for one in receiver.errors] == [None, "next"]


def test_a_redirect_is_not_followed(receiver: Receiver, caplog: pytest.LogCaptureFixture) -> None:
    receiver.answers, receiver.headers = [302], {"Location": f"http://{receiver.address}/elsewhere"}
    with Simulation(sending_app(f"http://:t0ken@{receiver.address}")) as world:
        world.app.reporter.put(ErrorReport(BROKEN), counted=True)
        poll(lambda: "check ERROR_REPORTER_URL" in caplog.text)
        world.app.stop_reporting()
    assert {path for path, _, _ in receiver.requests} == {"/api/errors"}


def test_nobody_there_holds_up_nothing(
    monkeypatch: pytest.MonkeyPatch, impatient: None, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        app = sending_app(f"http://127.0.0.1:{taken.getsockname()[1]}")

        @app.service("reading", on=PagesFound, finishes=Page)
        def read(page: Page, work: Work) -> None:
            raise TypeError("no text")

        app.report_failures()
        with Simulation(app, retry_job=False) as world:
            bring(world, "a")
            world.run_for(HOUR)
            assert only_group(world).dead_letters == 1
            app.stop_reporting()
    assert "ConnectionRefusedError" in caplog.text
    assert "1 error reports were not delivered" in caplog.text


def test_an_answer_that_never_comes_does_not_keep_a_process_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        app = sending_app(f"http://127.0.0.1:{silent.getsockname()[1]}")
        reporter = app.reporter
        reporter.put(ErrorReport(BROKEN), counted=True)
        reporter.put(ErrorReport(BROKEN), counted=True)
        app.stop_reporting(0.05)
        assert app.reporter is not reporter, "a new one for whoever goes on"
        app.close()


def test_of_too_many_the_oldest_go(caplog: pytest.LogCaptureFixture, impatient: None) -> None:
    sent: list[str] = []
    down = threading.Event()
    down.set()

    def send(reports: Any) -> None:
        if down.is_set():
            raise DeliveryFailed("nobody is there")
        sent.extend(one.service for one in reports)

    thread = ReportThread("there", send, size=5)
    thread.put(ErrorReport(BROKEN, "first"))
    poll(lambda: "nobody is there" in caplog.text)
    for number in range(50):
        thread.put(ErrorReport(BROKEN, str(number)))
    down.clear()
    thread.close(PATIENCE)
    assert sent == ["first", "45", "46", "47", "48", "49"]
    assert caplog.text.count("nobody is there") == 1


def test_they_are_sent_in_batches() -> None:
    sizes: list[int] = []
    gate = threading.Event()

    def send(reports: Any) -> None:
        gate.wait(PATIENCE)
        sizes.append(len(reports))

    thread = ReportThread("there", send)
    for number in range(101):
        thread.put(ErrorReport(BROKEN, str(number)))
    gate.set()
    thread.close(PATIENCE)
    assert sum(sizes) == 101
    assert len(sizes) <= 7
    assert max(sizes) == error_reporter.BATCH


# -- to Sentry


class SentryServer:
    """Receives the envelopes of Sentry's protocol."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                _, *items = [json.loads(line) for line in body.splitlines()]
                for header, item in zip(items[::2], items[1::2], strict=True):
                    if (self.path, header["type"]) == ("/api/7/envelope/", "event"):
                        outer.events.append(item)
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.dsn = f"http://publickey@127.0.0.1:{self.server.server_port}/7"


@pytest.fixture
def sentry(monkeypatch: pytest.MonkeyPatch) -> Iterator[SentryServer]:
    monkeypatch.setenv("no_proxy", "*")
    sentry = SentryServer()
    thread = threading.Thread(target=sentry.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield sentry
    sentry.server.shutdown()
    sentry.server.server_close()
    thread.join()


def test_sentry_gets_each_failure_under_its_fingerprint(sentry: SentryServer) -> None:
    app = App(settings=Settings(error_reporter_type="sentry", sentry_dsn=SecretStr(sentry.dsn)), version="shop 2")

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        raise TypeError("no text in postgres://app:hunter2@db/x")

    app.report_failures()
    with Simulation(app, retry_job=False) as world:
        bring(world, "a")
        world.run_for(HOUR)
        app.stop_reporting()
        group = only_group(world)
    (event,) = sentry.events
    (error,) = event["exception"]["values"]
    assert (error["type"], error["value"]) == ("TypeError", "no text in postgres://app:***@db/x")
    assert (event["fingerprint"], event["release"], event["level"]) == ([group.fingerprint], "shop 2", "error")
    assert event["tags"] == {
        "service": "reading",
        "kind": "permanent",
        "collection": "pages",
        "worker": "simulation",
    }
    assert (event["extra"]["documents"], event["extra"]["document_count"]) == (["a"], 1)
    assert "hunter2" not in json.dumps(event)


def test_sentry_gets_an_error_of_your_own_code_and_the_store_counts_it(sentry: SentryServer) -> None:
    with Simulation(
        App(settings=Settings(error_reporter_type="sentry", sentry_dsn=SecretStr(sentry.dsn)))
    ) as world:
        world.app.report_error(TimeoutError("no answer"), context={"retry_count": 3}, service="billing")
        world.app.stop_reporting()
        assert only_group(world).failures == 1
    (event,) = sentry.events
    assert (event["tags"]["service"], event["extra"]["context"]) == ("billing", {"retry_count": 3})


def test_a_dsn_that_is_none_stops_the_start() -> None:
    app = App(settings=Settings(error_reporter_type="sentry", sentry_dsn=SecretStr("sentry.example.org")))
    with pytest.raises(OnwardError, match="SENTRY_DSN"):
        app.engine()
    app.close()


def test_sentry_needs_a_dsn() -> None:
    with pytest.raises(SettingsError, match="SENTRY_DSN"):
        load_settings({"ERROR_REPORTER_TYPE": "sentry"})


# -- Onward's own


def test_observers_get_the_failure_itself() -> None:
    app = new_app()
    seen: list[AnySignal] = []
    app.observe(seen.append)

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        raise ConnectionError("reset") if work.try_number == 1 else TypeError("no text")

    with Simulation(app, retry_job=False) as world:
        bring(world, "a")
        world.run_for(HOUR)
    failures = [one.failure for one in seen if isinstance(one, (outcomes.Retried, outcomes.GaveUp))]
    assert [one.message for one in failures if one] == ["reset", "no text"]


def test_an_unexpected_error_of_the_retry_job_is_reported() -> None:
    with Simulation(new_app(), retry_job=False) as world:
        retrying = RetryJobThread(
            world.retry_job, on_error=lambda error: world.app.report_error(error, service="retry job")
        )

        def fail() -> bool:
            raise RuntimeError("a bug of ours")

        world.retry_job.is_due = fail  # type: ignore[method-assign]
        assert not retrying.step()
        world.app.stop_reporting()
        assert (only_group(world).service, only_group(world).message) == ("retry job", "a bug of ours")


def test_the_command_reports_what_fails_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONWARD_STORE", url)
    monkeypatch.setenv("ONWARD_METRICS_ADDRESS", "off")
    App(store=url, settings=Settings()).store.close()

    def fail(self: RetryJob, *, full: bool | None = None) -> None:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr(RetryJob, "run", fail)
    assert CliRunner().invoke(main, ["retry-job", "--once"]).exit_code == 1
    app = App(store=url, settings=Settings())
    assert [(one.service, one.message) for one in app.store.failure_groups()] == [("retry job", "a bug of ours")]
    app.close()


SCRIPT = """
from onward import App, Settings
app = App(store={url!r}, settings=Settings())
app.report_error(ValueError("at the end"), service="script")
"""


def test_a_script_that_ends_has_its_report_delivered(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    subprocess.run([sys.executable, "-c", SCRIPT.format(url=url)], check=True, timeout=60, cwd=tmp_path)
    app = App(store=url, settings=Settings())
    assert [one.message for one in app.store.failure_groups()] == ["at the end"]
    app.close()
