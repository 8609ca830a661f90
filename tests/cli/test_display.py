"""The progress of a run: measured in the store, drawn as a table on a terminal, or printed in lines."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from onward import App
from onward.cli.pipeline_run import PlainDisplay, Problems, picture
from onward.model.ledger import Settlement
from onward.pipeline.app import build
from onward.pipeline.progress import ProgressMeter, RunProgress, StageProgress
from onward.pipeline.sources import submit
from onward.settings import load_settings
from tests.cli import scenes
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


def stage_of(view: RunProgress, name: str) -> StageProgress:
    return next(stage for stage in view.stages if stage.name == name)


def numbers(view: RunProgress, name: str) -> tuple[int, int]:
    return stage_of(view, name).done, stage_of(view, name).waiting


def test_each_stage_counts_its_own_unit(app: App, source: str) -> None:
    progress = ProgressMeter(app, [source])
    assert numbers(progress.measure(), "ingestion") == (0, 1)
    app.work_until_idle(["ingestion"])
    assert numbers(progress.measure(), "ingestion") == (1, 0)
    assert numbers(progress.measure(), "parsing") == (0, 1)
    app.work_until_idle(["parsing"])
    read = progress.measure()
    assert (stage_of(read, "parsing").unit, *numbers(read, "parsing")) == ("message", 20, 0)
    assert (stage_of(read, "parsing").share, numbers(read, "chunking")) == (1.0, (0, 20))
    app.work_until_idle()
    done = progress.measure()
    assert numbers(done, "chunking") == (20, 0)
    assert numbers(done, "embedding") == (20, 0)
    assert numbers(done, "summarization") == (4, 0)
    assert {one.share for one in done.stages if one.name != "orchestration"} == {1.0}
    app.close()


def test_a_second_run_begins_at_zero(app: App, source: str) -> None:
    app.work_until_idle()
    submit(app, source)
    view = ProgressMeter(app, [source]).measure()
    assert numbers(view, "ingestion") == (0, 1)
    assert [one.done for one in view.stages] == [0] * 6
    app.close()


def test_the_share_of_an_archive_that_is_parsed_grows(app: App, source: str) -> None:
    progress = ProgressMeter(app, [source])
    app.work_until_idle(["ingestion"])
    (delivery,) = app.store.claim("worker", "parsing", limit=1, lease=60.0)
    archive = delivery.inputs[0].id
    half = json.dumps({archive: {"end": Path(source).stat().st_size // 2}})
    app.store.settle([Settlement(delivery.row, delivery.token, closes=False, cursor=half)])
    assert list(app.store.cursors("parsing")) == [archive]
    assert stage_of(progress.measure(), "parsing").share == pytest.approx(0.5, abs=0.01)
    app.store.release("worker")
    assert app.store.cursors("parsing") == {}
    app.close()


def test_during_an_outage_no_time_left_is_estimated(app: App, source: str) -> None:
    progress = ProgressMeter(app, [source])
    app.work_until_idle(["ingestion", "parsing", "chunking"])
    app.store.open_breaker("embedder", "Connection refused")
    view = progress.measure()
    (outage,) = view.outages
    assert (outage.dependency, outage.reason) == ("embedder", "Connection refused")
    assert outage.waiting > 0
    assert view.left is None
    app.close()


def printed(width: int = 100) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, width=width, emoji=False), file


def test_titles_problems_and_reasons_are_no_markup_and_fit_the_width() -> None:
    out, file = printed()
    out.print(picture(scenes.PROGRESS, "list [red].mbox", "parsing: 1a2b failed [bold]", 1))
    drawn = file.getvalue()
    for text in ("list [red].mbox", "[red]refused", "parsing: 1a2b failed [bold]"):
        assert text in drawn
    assert max(map(len, drawn.splitlines())) <= 100


def test_lines_name_each_kind_of_problem_once() -> None:
    out, file = printed()
    display = PlainDisplay(out)
    for problem in ("", "parsing: 1a2b failed", "parsing: 3c4d failed", "embedding: 5e6f failed"):
        display.show(scenes.PROGRESS, problem, 0)
    display.end()
    problems = re.findall("problem: (.*)", file.getvalue())
    assert problems == ["parsing: 1a2b failed", "embedding: 5e6f failed"]


def test_lines_name_an_outage_at_its_begin_and_its_end() -> None:
    out, file = printed()
    display, over = PlainDisplay(out), replace(scenes.PROGRESS, outages=[])
    for view, lines in ((scenes.PROGRESS, 1), (scenes.PROGRESS, 1), (over, 2), (over, 2)):
        display.show(view, "", 0)
        assert file.getvalue().count("embedder is ") == lines


def test_lines_show_the_progress_at_intervals() -> None:
    out, file = printed()
    display = PlainDisplay(out)
    for elapsed, lines in ((1.0, 0), (6.0, 1), (15.0, 1), (16.0, 2)):
        display.show(replace(scenes.PROGRESS, elapsed=elapsed, outages=[]), "", 0)
        assert file.getvalue().count("parsing") == lines


def test_lines_show_each_request_to_stop_once() -> None:
    out, file = printed()
    display = PlainDisplay(out)
    for stopping, lines in ((0, 0), (1, 1), (1, 1), (2, 2)):
        display.show(RunProgress([], 1.0), "", stopping)
        assert file.getvalue().count("stopping") == lines


def test_the_last_problem_is_read_from_the_log(tmp_path: Path) -> None:
    file = tmp_path / "onward.log"
    file.write_text("2026-03-02 09:00:00,000 ERROR   parsing: old given up\n")
    problems = Problems(file)
    assert problems.read() == ""
    id = "0123456789abcdef" * 2
    with file.open("a") as log:
        log.write("2026-03-02 09:00:01,000 INFO    nothing falls due within 60 s\n")
        said = f"embedding: {id}, {id} failed, again in 5.0 s, key {id}: Oops"
        log.write(f"2026-03-02 09:00:02,000 WARNING {said}\nTraceback\n")
    assert problems.read() == "embedding: 01234567 and others failed, again in 5.0 s: Oops"
    assert problems.read() == "embedding: 01234567 and others failed, again in 5.0 s: Oops"
