"""What is seen of a run: computed from the store, drawn on a terminal or told in lines."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from onward import App
from onward.cli.pipeline_run import PlainDisplay, Problems, picture
from onward.model.ledger import Settlement
from onward.pipeline.app import build
from onward.pipeline.progress import OutageProgress, ProgressMeter, RunProgress, StageProgress
from onward.pipeline.sources import submit
from onward.settings import load_settings
from tests.support.command_runs import mail, write_mailbox


@pytest.fixture
def source(tmp_path: Path) -> str:
    mails = [mail(one, f"Round {one % 4}", f"Letter {one} about the lamp.", thread=one % 4) for one in range(20)]
    return str(write_mailbox(tmp_path / "list.mbox", mails))


@pytest.fixture
def app(home: Path, source: str) -> App:
    app = build(load_settings({"ONWARD_HOME": str(home)}))
    submit(app, source)
    return app


def numbers(view: RunProgress, name: str) -> tuple[int, int]:
    return view.stage(name).done, view.stage(name).waiting


def test_each_stage_counts_what_people_know(app: App, source: str) -> None:
    progress = ProgressMeter(app, [source])
    assert numbers(progress.measure(), "ingestion") == (0, 1)
    app.work_until_idle(["ingestion"])
    assert numbers(progress.measure(), "ingestion") == (1, 0)
    assert numbers(progress.measure(), "parsing") == (0, 1)
    app.work_until_idle(["parsing"])
    read = progress.measure()
    assert (read.stage("parsing").unit, *numbers(read, "parsing")) == ("message", 20, 0)
    assert (read.stage("parsing").share, numbers(read, "chunking")) == (1.0, (0, 20))
    app.work_until_idle()
    done = progress.measure()
    assert numbers(done, "chunking") == (20, 0)
    assert numbers(done, "embedding") == (20, 0)
    assert numbers(done, "summarization") == (4, 0)
    assert {one.share for one in done.stages if one.name != "orchestration"} == {1.0}
    app.close()


def test_a_second_run_begins_at_nothing(app: App, source: str) -> None:
    app.work_until_idle()
    submit(app, source)
    view = ProgressMeter(app, [source]).measure()
    assert numbers(view, "ingestion") == (0, 1)
    assert [one.done for one in view.stages] == [0] * 6
    app.close()


def test_a_large_archive_is_read_bit_by_bit(app: App, source: str) -> None:
    progress = ProgressMeter(app, [source])
    app.work_until_idle(["ingestion"])
    (delivery,) = app.store.claim("worker", "parsing", limit=1, lease=60.0)
    archive = delivery.inputs[0].id
    half = json.dumps({archive: {"end": Path(source).stat().st_size // 2}})
    app.store.settle([Settlement(delivery.row, delivery.token, closes=False, cursor=half)])
    assert list(app.store.cursors("parsing")) == [archive]
    assert progress.measure().stage("parsing").share == pytest.approx(0.5, abs=0.01)
    app.store.release("worker")
    assert app.store.cursors("parsing") == {}
    app.close()


def test_an_outage_is_shown_and_no_time_is_promised(app: App, source: str) -> None:
    progress = ProgressMeter(app, [source])
    app.work_until_idle(["ingestion", "parsing", "chunking"])
    app.store.open_breaker("embedder", "Connection refused")
    view = progress.measure()
    (outage,) = view.outages
    assert (outage.dependency, outage.reason) == ("embedder", "Connection refused")
    assert outage.waiting > 0
    assert view.left is None
    app.close()


VIEW = RunProgress(
    stages=[
        StageProgress("ingestion", "source", done=1, share=1.0),
        StageProgress("parsing", "message", done=3000, share=0.5, rate=9),
    ],
    elapsed=12.0,
    outages=[OutageProgress("embedder", 172_800.0, None, "[red]refused", "Start it", 7)],
    left=200.0,
)


def test_one_event_that_waits_is_told_in_the_singular() -> None:
    out = Console(file=io.StringIO(), width=200, emoji=False)
    view = RunProgress([], 1.0, [OutageProgress("embedder", None, None, "refused", "", 1)])
    PlainDisplay(out).show(view, "", 0)
    shown = out.file.getvalue()  # type: ignore[attr-defined]  # it is the StringIO above
    assert "embedder is down: 1 event waits and loses no tries (refused)" in shown


def test_the_picture_has_stages_outages_and_the_last_problem() -> None:
    out = Console(file=io.StringIO(), width=100, emoji=False)
    out.print(picture(VIEW, "list [red].mbox", "parsing: 1a2b failed [bold]", 1))
    drawn = out.file.getvalue()  # type: ignore[attr-defined]  # it is the StringIO above
    assert "list [red].mbox" in drawn
    assert "about 3 min left · 12 s" in drawn
    assert "3 000 messages" in drawn
    assert "embedder is down since 1970-01-0" in drawn
    assert "7 events wait" in drawn
    assert "[red]refused" in drawn
    assert "parsing: 1a2b failed [bold]" in drawn
    assert "Ctrl-C again ends at once" in drawn


def test_lines_tell_each_kind_of_problem_once() -> None:
    out = Console(file=io.StringIO(), width=100)
    display = PlainDisplay(out)
    for problem in ("", "parsing: 1a2b failed", "parsing: 3c4d failed", "embedding: 5e6f failed"):
        display.show(VIEW, problem, 0)
    display.show(RunProgress([], 20.0), "", 1)
    display.end()
    told = out.file.getvalue().splitlines()  # type: ignore[attr-defined]  # it is the StringIO above
    assert [line.partition("  problem: ")[2] for line in told if "problem" in line] == [
        "parsing: 1a2b failed",
        "embedding: 5e6f failed",
    ]
    assert sum("embedder is down" in line for line in told) == 1
    assert any("embedder is available again" in line for line in told)
    assert any("ingestion 1 source, parsing 3 000 messages; about 3 min left" in line for line in told)
    assert any("stopping: running handlers are finished first" in line for line in told)


def test_the_last_problem_is_read_from_the_log(tmp_path: Path) -> None:
    file = tmp_path / "onward.log"
    file.write_text("2026-03-02 09:00:00,000 ERROR   parsing: old given up\n")
    problems = Problems(file)
    assert problems.read() == ""
    id = "0123456789abcdef" * 2
    with file.open("a") as log:
        log.write("2026-03-02 09:00:01,000 INFO    nothing falls due within 60 s\n")
        log.write(
            f"2026-03-02 09:00:02,000 WARNING embedding: {id}, {id} failed, again in 5.0 s: Oops\nTraceback\n"
        )
    assert problems.read() == "embedding: 01234567 and others failed, again in 5.0 s: Oops"
    assert problems.read() == "embedding: 01234567 and others failed, again in 5.0 s: Oops"
