"""`onward retry` lets documents be tried again, now or at a time, and reports the outcome of each."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path

import pytest

from tests.cli import scenes
from tests.support.command_runs import onward
from tests.support.failed_pages import SOURCE, fail, finish, stage


def outcomes(home: Path, *args: str) -> dict[str, str]:
    result = onward(home, "retry", *args, "--json")
    assert result.exit_code == 0, result.output
    return {one["id"]: one["outcome"] for one in json.loads(result.stdout)["documents"]}


@pytest.fixture
def pages(home: Path) -> Path:
    scenes.documents_to_retry(home)
    return home


def test_one_document_by_the_beginning_of_its_id(pages: Path) -> None:
    assert outcomes(pages, "bbbb") == {"bbbb-1": "scheduled"}
    with stage(pages) as on:
        state = on.state("bbbb-1")
        assert state.status == "failed", "until the retry job puts it back"
        assert state.retry_at is not None
        assert state.retry_at <= on.store.now()
        assert on.state("aaaa-1").retry_at is None


def test_a_whole_failure_group(pages: Path) -> None:
    assert outcomes(pages, "--group", "f00d1234") == {"aaaa-1": "scheduled", "aaaa-2": "scheduled"}


def test_of_a_source_what_failed_or_is_stuck_is_meant(pages: Path) -> None:
    found = outcomes(pages, "--source", SOURCE)
    assert sorted(found) == ["aaaa-1", "aaaa-2", "bbbb-1", "eeee-1"], "not what is processed or waits already"


def test_a_waiting_document_is_hurried_if_it_is_asked_for(pages: Path) -> None:
    found = outcomes(pages, "--collection", "pages", "--status", "pending")
    assert found == {"dddd-1": "rescheduled", "eeee-1": "scheduled"}
    with stage(pages) as on:
        assert [one.id for one in on.take().inputs] == ["dddd-1"]


def test_what_is_processed_is_left_alone_without_a_reset(pages: Path) -> None:
    assert outcomes(pages, "cccc-1") == {"cccc-1": "processed"}
    assert outcomes(pages, "cccc-1", "--reset") == {"cccc-1": "scheduled"}
    with stage(pages) as on:
        assert (on.state("cccc-1").status, on.state("cccc-1").attempt_count) == ("pending", 0)


def test_what_a_worker_has_is_left_alone(home: Path) -> None:
    with stage(home) as on:
        on.bring("aaaa-1")
        on.take()
    assert outcomes(home, "aaaa-1") == {"aaaa-1": "under way"}
    assert "onward worker" not in onward(home, "retry", "aaaa-1").stdout


def test_at_a_time_and_with_priority(pages: Path) -> None:
    assert onward(pages, "retry", "bbbb", "--at", "2099-03-09T14:30Z", "--priority", "9").exit_code == 0
    with stage(pages) as on:
        state = on.state("bbbb-1")
        assert state.retry_at == datetime.fromisoformat("2099-03-09T14:30+00:00").timestamp()
        assert state.priority == 9


def test_a_time_that_is_past_is_refused(pages: Path) -> None:
    result = onward(pages, "retry", "bbbb", "--at", "2020-01-01")
    assert result.exit_code == 2
    assert "2020-01-01 00:00" in result.stderr
    with stage(pages) as on:
        assert on.state("bbbb-1").retry_at is None


def test_of_an_hour_that_is_past_today_tomorrow_s_is_named(pages: Path) -> None:
    result = onward(pages, "retry", "bbbb", "--at", "today")
    assert result.exit_code == 2
    named = re.search(r"tomorrow's is (\S+);", " ".join(result.stderr.split()))
    assert named is not None
    assert onward(pages, "retry", "bbbb", "--at", named[1]).exit_code == 0


def test_ids_that_somebody_gave_are_shown_whole(home: Path) -> None:
    with stage(home) as on:
        fail(on, "order-plum-17")
    assert (
        "text of order-plum-17 (pages/order-plum-17)\n" in onward(home, "retry", "order-plum", "--dry-run").stdout
    )


def test_a_time_is_taken_back(pages: Path) -> None:
    onward(pages, "retry", "--group", "f00d1234", "--in", "2h")
    assert outcomes(pages, "--source", SOURCE, "--cancel") == {"aaaa-1": "cancelled", "aaaa-2": "cancelled"}
    assert outcomes(pages, "bbbb", "--cancel") == {"bbbb-1": "not scheduled"}
    with stage(pages) as on:
        assert (on.state("aaaa-1").status, on.state("aaaa-1").retry_at) == ("failed", None)


def test_a_dry_run_reports_the_same_and_changes_nothing(pages: Path) -> None:
    with stage(pages) as on:
        before = on.store.find_states()
    dry = outcomes(pages, "--source", SOURCE, "--reset", "--dry-run")
    with stage(pages) as on:
        assert on.store.find_states() == before
        assert on.store.actions() == []
    assert outcomes(pages, "--source", SOURCE, "--reset") == dry


def test_a_change_is_logged(pages: Path) -> None:
    onward(pages, "retry", "--group", "f00d1234", "--priority", "3")
    with stage(pages) as on:
        (action,) = on.store.actions()
    assert (action.via, action.action, action.touched) == ("cli", "retry", 2)
    assert action.about == {"group": "f00d1234", "priority": 3}


def test_without_a_document_that_failed_there_is_nothing_to_try(home: Path) -> None:
    with stage(home) as on:
        finish(on, "aaaa-1")
    assert outcomes(home, "--collection", "pages") == {}


@pytest.mark.parametrize(
    ("args", "problem"),
    (
        ((), "say which documents: give ids, --group, --collection or --source"),
        (("--status", "failed"), "say which documents"),
        (("aaaa", "--group", "f00d1234"), "give either ids, or --group"),
        (("aaaa", "--status", "failed"), "give either ids, or --group"),
        (("--group", "f00d1234", "--source", "x"), "--group goes by itself"),
        (("aaaa", "--at", "18:30", "--in", "1h"), "give either --at or --in"),
        (("aaaa", "--cancel", "--reset"), "--cancel goes without"),
        (("--collection", "pages", "--status", "processed"), "with --reset they begin anew"),
        (("aaaa", "--at", "soon"), "'soon' is no time; give 18:30, tomorrow or 2026-03-09T14:30"),
        (("aaaa", "--at", "25:99"), "'25:99' is no time"),
        (("aaaa", "--in", "10 parsecs"), "'10 parsecs' is no span; give a span such as 90s, 10m, 2h"),
        (("aaaa", "--in", "-5m"), "'-5m' is no span"),
        (("--collection", "books"), "'books' has no documents; there are: pages"),
        (("aa",), "no document has the id 'aa', which is too short"),
    ),
)
def test_wrong_usage_is_refused(pages: Path, args: tuple[str, ...], problem: str) -> None:
    result = onward(pages, "retry", *args)
    assert result.exit_code == 2
    assert problem in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("args", "problem"),
    (
        (("zzzz-1",), "'zzzz-1'"),
        (("--group", "1234"), "'1234'"),
        (("--source", "/nowhere"), "'/nowhere'"),
    ),
)
def test_what_does_not_exist_is_refused(pages: Path, args: tuple[str, ...], problem: str) -> None:
    result = onward(pages, "retry", *args)
    assert result.exit_code == 2
    assert problem in result.stderr
