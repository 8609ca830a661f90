"""Logs: JSON lines that name the call they were written in, text on a terminal; no secrets, never in the way."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import structlog

from onward import (
    App,
    Document,
    Event,
    Exponential,
    NotReady,
    RetryPolicy,
    Settings,
    Status,
    Work,
    names,
)
from onward.cli.pipeline_run import Problems, _logging_to
from onward.observe.logs import LogHandler, set_up_logs
from onward.retry.redact import HIDDEN
from onward.runtime.handler_call import CURRENT
from onward.settings import SettingsError, load_settings
from onward.testing import Simulation
from tests.support.page_app import HOUR, Noticed, Page, PagesFound, bring, new_app

SECRET = "hunter2-is-my-secret"
TRACE = "0af7651916cd43dd8448eb211c80319c"
ESCAPE = "\x1b"
Lines = Callable[[], list[dict[str, Any]]]
log = logging.getLogger("shop.orders")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    level, token = root.level, CURRENT.set(None)  # a simulation leaves its last call behind in this thread
    structlog.reset_defaults()
    yield
    for handler in [one for one in root.handlers if isinstance(one, LogHandler | logging.NullHandler)]:
        root.removeHandler(handler)
    root.setLevel(level)
    CURRENT.reset(token)
    structlog.reset_defaults()


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def lines(stream: io.StringIO) -> Lines:
    """Logs as JSON; answers what was logged so far."""
    set_up_logs(logging.DEBUG, format="json", stream=stream, worker="box:1:aa")
    return lambda: [json.loads(line) for line in stream.getvalue().splitlines()]


def by_level(found: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    return {level: [one for one in found if one["level"] == level] for level in ("info", "warning", "error")}


# -- what a line holds


def test_a_line_is_json_with_its_time_level_logger_and_worker(lines: Lines) -> None:
    before = datetime.now(UTC)
    log.warning("%s parcels wait", 3)
    (line,) = lines()
    at = datetime.fromisoformat(line.pop("timestamp"))
    assert at.utcoffset() is not None
    assert abs((at - before).total_seconds()) < 3600
    assert line == {
        "level": "warning",
        "logger": "shop.orders",
        "message": "3 parcels wait",
        "worker": "box:1:aa",
    }


def say_all() -> None:
    log.info("by logging", extra={"parcels": 2})
    structlog.get_logger("shop.parcels").info("by structlog", parcels=3)


def test_lines_of_a_def_handler_name_its_call(lines: Lines) -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        say_all()

    with Simulation(app, retry_job=False) as world:
        bring(world, "a")
        world.drain()
    said = {one["message"]: one for one in lines()}
    for message, logger, parcels in (("by logging", "shop.orders", 2), ("by structlog", "shop.parcels", 3)):
        line = said[message]
        assert (line["logger"], line["level"], line["parcels"]) == (logger, "info", parcels)
        assert (line["worker"], line["service"]) == ("simulation", "reading")
        assert (line["documents"], line["round"], line["try"]) == (["pages/a"], 1, 1)
        assert re.fullmatch("[0-9a-f]{32}", line["event"])
    assert said["by logging"]["event"] == said["by structlog"]["event"]


def test_lines_of_async_handlers_that_take_turns_name_each_its_own_call(lines: Lines) -> None:
    app = new_app()

    @app.service("listening", on=Noticed)
    async def listen(event: Noticed, work: Work) -> None:
        await asyncio.gather(asyncio.create_task(asyncio.sleep(0)), asyncio.to_thread(say_all))
        log.info("%s", event.what)

    with Simulation(app, retry_job=False) as world:
        app.publish(Noticed(what="one"))
        app.publish(Noticed(what="two"))
        world.drain()
    own = {one["message"]: one["event"] for one in lines() if one["message"] in ("one", "two")}
    assert len(set(own.values())) == 2
    found = [one for one in lines() if one["message"].startswith("by ")]
    assert len(found) == 4
    assert {one["event"] for one in found} == set(own.values())
    assert {(one["service"], "documents" in one) for one in found} == {("listening", False)}


def test_of_a_batch_five_documents_are_named_and_all_are_counted(lines: Lines) -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page, batch=10)
    def read(batch: list[Page], work: Work) -> None:
        log.info("together")

    with Simulation(app, retry_job=False) as world:
        bring(world, *"abcdefg")
        world.drain()
    (line,) = [one for one in lines() if one["message"] == "together"]
    assert line["documents"] == [f"pages/{id}" for id in "abcde"]
    assert line["document_count"] == 7


def test_the_trace_is_named_by_its_id(lines: Lines) -> None:
    log.info("in a trace", extra={"onward": {"service": "reading", "trace": f"00-{TRACE}-b7ad6b7169203331-01"}})
    log.info("in two", extra={"onward": {"trace": f"00-{TRACE}-{'b' * 16}-01 00-{'c' * 32}-{'d' * 16}-01"}})
    assert [one["trace"] for one in lines()] == [TRACE, TRACE]


def test_a_retry_is_info_the_last_chance_a_warning_and_the_end_one_error_with_its_traceback(lines: Lines) -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page, policy=RetryPolicy(Exponential(1.0), max_tries=3))
    def read(page: Page, work: Work) -> None:
        raise ConnectionError("reset")

    with Simulation(app, retry_job=False) as world:
        bring(world, "a")
        world.run_for(HOUR)
    found = [one for one in lines() if one["logger"] == "onward"]
    levels = by_level(found)
    assert [len(levels[one]) for one in ("info", "warning", "error")] == [1, 1, 1]
    for tries, level in enumerate(("info", "warning", "error"), start=1):
        (line,) = levels[level]
        assert (line["service"], line["documents"], line["try"]) == ("reading", ["pages/a"], tries)
        assert (line["error_type"], line["worker"]) == ("ConnectionError", "simulation")
        assert ("traceback" in line) == (level == "error")
    assert "for the last time" in levels["warning"][0]["message"]
    (end,) = levels["error"]
    assert end["message"].endswith("ConnectionError: reset")
    assert end["traceback"].startswith("Traceback (most recent call last):")
    assert 'raise ConnectionError("reset")' in end["traceback"]


def test_a_success_after_retries_says_how_many_tries_and_how_long(stream: io.StringIO) -> None:
    """The example of the event-retry design: three retries, after 250 ms, 500 ms and 1 s."""
    set_up_logs(logging.INFO, format="json", stream=stream)
    app, errors = new_app(), [NotReady("no messages found")] * 3
    waits = RetryPolicy(Exponential(0.25), max_tries=9)

    @app.service("chunking", on=PagesFound, finishes=Page, not_ready=waits)
    def chunk(page: Page, work: Work) -> None:
        if errors:
            raise errors.pop()

    with Simulation(app, retry_job=False) as world:
        bring(world, "123")
        world.run_for(HOUR)
    *retried, done = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [one["level"] for one in (*retried, done)] == ["info"] * 4
    assert [one["attempts"] for one in retried] == [1, 2, 3]
    assert [one["retry_in_seconds"] for one in retried] == [0.25, 0.5, 1.0]
    key = done["idempotency_key"]
    assert {one["idempotency_key"] for one in retried} == {key}
    assert retried[2]["message"].startswith(
        f"chunking: 123 failed, try 3 of 9, again in 1.0 s, key {key}: NotReady"
    )
    assert (done["attempts"], done["latency_seconds"]) == (4, pytest.approx(1.75, abs=0.01))
    assert re.search(
        r"^chunking: 123 processed after 4 tries, 1\.75\d* s after the first failure, key ", done["message"]
    )


@pytest.mark.parametrize("level", (logging.INFO, logging.DEBUG))
def test_a_start_and_a_plain_success_are_debug(level: int, stream: io.StringIO) -> None:
    set_up_logs(level, format="json", stream=stream)
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    with Simulation(app, retry_job=False) as world:
        bring(world, "a")
        world.drain()
    found = [json.loads(line) for line in stream.getvalue().splitlines()]
    if level == logging.INFO:
        assert found == []
        return
    start, end = found
    assert start["message"].startswith("reading: try 1 of a begins, key ")
    assert end["message"].startswith("reading: a processed at try 1, in ")
    assert (start["attempt"], end["attempts"], start["level"], end["level"]) == (1, 1, "debug", "debug")


class Archive(Document, collection="archives"):
    url: str


class ArchiveFound(Event):
    archive_id: str = names(Archive)


@pytest.mark.parametrize("tool", ("grep", "jq"))
def test_the_recipe_of_the_manual_shows_each_try_of_a_document(tool: str, tmp_path: Path) -> None:
    """A URL that is never fetched: three tries, 2 s and 4 s apart, then its document is marked failed."""
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    app = App(settings=Settings(retry_job_max_attempts_archives=1))

    @app.service("ingestion", on=ArchiveFound, finishes=Archive, rung="fetching")
    def fetch(archive: Archive, work: Work) -> None:
        raise ConnectionError("getaddrinfo ENOTFOUND")

    with (tmp_path / "worker.log").open("w") as file:
        set_up_logs(logging.DEBUG, format="json", stream=file)
        with Simulation(app) as world:
            archive = Archive(id="8f2c1d", url="https://this-domain-does-not-exist-12345.invalid")
            app.publish(ArchiveFound.of(archive), documents=[archive])
            world.run_for(HOUR)
            assert world.status(archive) == Status.FAILED_MAX_RETRIES
    manual = (Path(__file__).parents[2] / "docs" / "how-to" / "logs.md").read_text()
    (block,) = [one for one in re.findall(r"```sh\n(.*?)```", manual, re.DOTALL) if "archives/8f2c1d" in one]
    command = next(one for one in re.split(r"\n(?! )", block) if one.startswith(tool))
    shown = subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    if tool == "grep":
        tries = [line for n in (1, 2, 3) for line in (f'"attempt": {n}', f'"attempts": {n}')]
        assert shown.splitlines() == [*tries, '"status": "failed_max_retries"']
    else:
        (example,) = [one for one in re.findall(r"```json\n(.*?)```", manual, re.DOTALL) if "retry_in" in one]
        assert [*map(json.loads, shown.splitlines())] == [*map(json.loads, example.splitlines())]


def test_an_exception_that_a_handler_logs_is_one_line(lines: Lines) -> None:
    for logger in (log, structlog.get_logger("shop.parcels")):
        try:
            raise KeyError("ink")
        except KeyError:
            logger.exception("no ink")
    found = lines()
    assert [(one["message"], one["error_type"], one["level"]) for one in found] == 2 * [
        ("no ink", "KeyError", "error")
    ]
    assert all('raise KeyError("ink")' in one["traceback"] for one in found)


def test_a_field_of_the_user_s_does_not_hide_one_of_ours(lines: Lines) -> None:
    structlog.get_logger("shop").info("sold", level="top", service="till", total=float("nan"), at={"x": {1}})
    structlog.get_logger("shop").info("packed", attempt=2, idempotency_key="k")
    line, packed = lines()
    assert (packed["attempt"], packed["idempotency_key"]) == (2, "k"), "only lines of ours have these fields"
    assert (line["level"], line["level_"], line["service_"]) == ("info", "top", "till")
    assert (line["total"], line["at"]) == ("nan", {"x": [1]})


# -- secrets


def test_secrets_are_redacted_in_messages_fields_and_tracebacks(lines: Lines, stream: io.StringIO) -> None:
    url = f"https://me:{SECRET}@example.org/"
    log.info("asked %s", url, extra={"url": url})
    log.info("Authorization: Bearer %s", SECRET)
    structlog.get_logger("shop").info("asked", password=SECRET, headers={"api_key": SECRET}, urls=[url])
    try:
        raise ConnectionError(f"no route to {url}")
    except ConnectionError as error:
        log.exception("failed", extra={"error": error})
    first, second, third, fourth = lines()
    assert SECRET not in stream.getvalue()
    assert first["message"] == f"asked https://me:{HIDDEN}@example.org/"
    assert first["url"] == f"https://me:{HIDDEN}@example.org/"
    assert HIDDEN in second["message"]
    assert (third["password"], third["headers"]) == (HIDDEN, {"api_key": HIDDEN})
    assert fourth["error"] == f"ConnectionError: no route to https://me:{HIDDEN}@example.org/"
    assert f"me:{HIDDEN}@example.org" in fourth["traceback"]


@pytest.mark.parametrize("hide", (True, False))
def test_mail_addresses_are_hidden_if_that_is_wanted(stream: io.StringIO, hide: bool) -> None:
    set_up_logs(logging.INFO, format="json", stream=stream, addresses=hide)
    log.info("a letter from ada@example.org", extra={"to": ["bo@example.org"]})
    assert ("ada@" in stream.getvalue(), "bo@" in stream.getvalue()) == (not hide, not hide)


# -- for people


def on_terminal(monkeypatch: pytest.MonkeyPatch, **environ: str) -> str:
    """What is logged to a terminal."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in ({"TERM": "xterm"} | environ).items():
        monkeypatch.setenv(name, value)
    ours, theirs = pty.openpty()
    try:
        with os.fdopen(theirs, "w") as terminal:
            set_up_logs(logging.INFO, stream=terminal)
            logging.getLogger("onward").error("reading: a failed")
            return os.read(ours, 10_000).decode()
    finally:
        os.close(ours)


def test_on_a_terminal_it_is_text_in_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    said = on_terminal(monkeypatch)
    assert re.sub(r"\x1b\[[\d;]*m", "", said)[24:] == "ERROR   reading: a failed\r\n"
    assert f"{ESCAPE}[31mERROR" in said


@pytest.mark.parametrize("environ", ({"NO_COLOR": "1"}, {"TERM": "dumb"}))
def test_colours_can_be_declined(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    said = on_terminal(monkeypatch, **environ)
    assert ESCAPE not in said
    assert re.fullmatch(r"[\d-]{10} [\d:]{8},\d{3} ERROR   reading: a failed\r\n", said)


def test_text_elsewhere_has_no_colours_and_says_which_call(stream: io.StringIO) -> None:
    set_up_logs(logging.INFO, format="text", stream=stream)
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        structlog.get_logger("shop").info("read", words=7)
        raise KeyError("ink")

    with Simulation(app, retry_job=False) as world:
        bring(world, "a")
        world.drain()
    said = stream.getvalue()
    assert ESCAPE not in said
    assert " INFO    read words=7 (reading: pages/a)\n" in said
    assert " ERROR   reading: a given up (non_retryable) at try 1 of 3, key " in said


def test_without_a_terminal_it_is_json_by_itself(stream: io.StringIO) -> None:
    set_up_logs(logging.INFO, stream=stream)
    log.info("sold")
    assert json.loads(stream.getvalue())["message"] == "sold"


def test_nothing_that_is_said_commands_a_terminal_or_passes_for_another_line(stream: io.StringIO) -> None:
    set_up_logs(logging.INFO, format="text", stream=stream)
    log.info("a\x1b[2Jb\r\n2026-01-01 00:00:00,000 ERROR   all failed")
    first, second = stream.getvalue().splitlines()
    assert first.endswith(r"a\x1b[2Jb")
    assert second == "  2026-01-01 00:00:00,000 ERROR   all failed"


def test_the_log_of_a_run_that_is_watched_stays_text(tmp_path: Path) -> None:
    problems = Problems(tmp_path / "onward.log")
    with _logging_to(tmp_path / "onward.log"):
        logging.getLogger("onward").error("worker died of https://me:%s@example.org/", SECRET)
    assert problems.read() == f"worker died of https://me:{HIDDEN}@example.org/"


# -- whose lines


def test_installed_packages_are_heard_from_warning_on(lines: Lines) -> None:
    asyncio_log = logging.getLogger("asyncio")

    def says(level: int, logger: logging.Logger, file: str) -> None:
        logger.handle(logger.makeRecord(logger.name, level, file, 1, f"{logger.name} {level}", (), None))

    installed = json.__file__
    says(logging.INFO, asyncio_log, installed)
    says(logging.WARNING, asyncio_log, installed)
    says(logging.INFO, log, __file__)
    says(logging.DEBUG, logging.getLogger("onward"), installed)
    chosen = logging.getLogger("chosen.part")
    logging.getLogger("chosen").setLevel(logging.INFO)
    says(logging.INFO, chosen, installed)
    logging.getLogger("chosen").setLevel(logging.NOTSET)
    assert [one["message"] for one in lines()] == ["asyncio 30", "shop.orders 20", "onward 10", "chosen.part 20"]


def test_the_app_s_own_package_is_heard_wherever_it_is_installed(stream: io.StringIO) -> None:
    set_up_logs(logging.INFO, format="json", stream=stream, own=["shop.orders:app"])
    log.handle(log.makeRecord("shop.parcels", logging.INFO, json.__file__, 1, "sold", (), None))
    assert json.loads(stream.getvalue())["message"] == "sold"


def test_logging_that_somebody_has_set_up_stays_as_it_is() -> None:
    logging.getLogger().addHandler(logging.NullHandler())
    set_up_logs(logging.DEBUG)
    assert not [one for one in logging.getLogger().handlers if isinstance(one, LogHandler)]


def test_setting_it_up_again_replaces_what_was(lines: Lines, stream: io.StringIO) -> None:
    again = io.StringIO()
    set_up_logs(logging.INFO, format="json", stream=again)
    log.info("once")
    assert (stream.getvalue(), again.getvalue().count("\n")) == ("", 1)


@pytest.mark.parametrize("given", ("xml", "JSON"))
def test_a_format_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings({"ONWARD_LOG_FORMAT": given})
    said = str(refused.value)
    assert given in said
    assert all(one in said for one in ("ONWARD_LOG_FORMAT", "auto", "text", "json"))


def test_a_field_by_the_name_of_structlog_s_message_does_not_replace_the_message(lines: Lines) -> None:
    log.info("sold %d", 3, extra={"event": "a sale"})
    (line,) = lines()
    assert (line["message"], line["event_"]) == ("sold 3", "a sale")


# -- what cannot be written


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_a_line_that_makes_no_sense_is_told_as_far_as_it_goes(
    lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()  # other handlers fail at such lines
    monkeypatch.setattr(root, "handlers", [one for one in root.handlers if isinstance(one, LogHandler)])
    log.info("%d parcels", "many")
    log.info("a parcel", extra={"what": Unprintable()})
    log.info("\ud800", extra={"long": "x" * 1_000_000})
    first, second, third = lines()
    assert first["message"].startswith("%d parcels (the rest cannot be shown: TypeError)")
    assert second["what"] == "<Unprintable that cannot be shown: RuntimeError>"
    assert third["message"] == r"\ud800"
    assert len(third["long"]) < 200_000


def test_a_line_that_cannot_be_written_fails_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    handled = list[str]()
    app = new_app()

    @app.service("listening", on=Noticed)
    def listen(event: Event, work: Work) -> None:
        log.info("nobody reads this")
        handled.append("yes")

    with os.fdopen(writer, "w", buffering=1) as broken:
        set_up_logs(logging.INFO, stream=broken)
        with Simulation(app, retry_job=False) as world:
            app.publish(Noticed())
            world.drain()
            assert world.dead_letters() == []
        with pytest.raises(BrokenPipeError):
            broken.write("it is broken\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), writer)  # so that it can be closed
    log.info("nor this, to a stream that is closed")
    assert handled == ["yes"]
    assert capfd.readouterr().err == ""


# -- worker processes

SHOP = """
import logging
from onward import App, Event

class Rang(Event):
    pass

app = App(store="sqlite:///onward.db")

@app.service("answering", on=Rang)
def answer(event, work):
    logging.getLogger("shop").info("who is there?")
    open("answered", "w").close()

if __name__ == "__main__":
    app.engine(["answering"])
    app.publish(Rang())
"""


def work_through(folder: Path, stderr: int, **environ: str) -> subprocess.CompletedProcess[str]:
    (folder / "shop.py").write_text(SHOP)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ONWARD_")} | environ
    subprocess.run([sys.executable, "shop.py"], cwd=folder, env=environment, check=True)
    command = [sys.executable, "-m", "onward", "worker", "--app", "shop:app", "--until-idle", "1"]
    return subprocess.run(command, cwd=folder, env=environment, stderr=stderr, text=True, check=False)


def test_every_line_of_a_worker_and_its_processes_is_json(tmp_path: Path) -> None:
    ran = work_through(tmp_path, subprocess.PIPE, ONWARD_LOG_FORMAT="json")
    assert ran.returncode == 0, ran.stderr
    found = [json.loads(line) for line in ran.stderr.splitlines()]
    (said,) = [one for one in found if one["logger"] == "shop"]
    assert (said["message"], said["service"], said["level"]) == ("who is there?", "answering", "info")
    assert found[0]["message"].startswith("Running answering in 1 process")
    assert found[-1]["message"].startswith("The worker has ended")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_worker_whose_log_is_full_does_its_work(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        ran = work_through(tmp_path, full.fileno(), ONWARD_LOG_FORMAT="json")
    assert (tmp_path / "answered").exists()
    assert ran.returncode == 0
