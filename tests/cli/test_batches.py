"""`onward batches` shows what was set aside, retries it now, or gives it up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from onward.pipeline.documents import source_id
from tests.support.command_runs import onward
from tests.support.failed_pages import SOURCE, set_aside, stage
from tests.support.store_pages import page

OTHER = "/lists/other.mbox"


@pytest.fixture
def aside(home: Path) -> Path:
    """Two pages of one source set aside, and one of another."""
    with stage(home) as on:
        set_aside(on, "aaaa-1", "aaaa-2", message="too long: api_key=tinder123")
        set_aside(on, "bbbb-1", source=OTHER)
    return home


def listed(home: Path) -> dict[str, dict[str, Any]]:
    result = onward(home, "batches", "--json")
    assert result.exit_code == 0, result.output
    return {one["project_path"]: one for one in json.loads(result.stdout)}


def test_the_list_says_how_many_how_often_and_why(aside: Path) -> None:
    text = onward(aside, "batches").stdout
    assert f"2 documents of {SOURCE} (reading)  0 retries, next at " in text
    assert f"1 document of {OTHER}" in text
    assert "ValueError: too long: api_key=***" in text
    assert "persistent" not in text
    assert "To look at one: onward batches show " in text
    assert text == onward(aside, "batches", "list").stdout


def test_its_fields_have_the_names_of_the_design(aside: Path) -> None:
    batch = listed(aside)[SOURCE]
    assert sorted(batch) == sorted(
        (
            *("id", "task_id", "project_id", "project_path", "failed_files", "items", "errors"),
            *("retry_count", "retry_after", "created_at", "persistent", "service"),
        )
    )
    assert (batch["items"], batch["retry_count"], batch["persistent"]) == (["aaaa-1", "aaaa-2"], 0, False)
    assert [sorted(one) for one in batch["errors"]] == [["error", "timestamp"]] * 2
    assert batch["task_id"] is None, "no task of the pipeline has submitted this source"


def test_the_task_and_the_files_of_a_batch_of_the_pipeline(home: Path) -> None:
    from onward.pipeline.app import build
    from onward.pipeline.sources import submit
    from onward.settings import load_settings

    app = build(load_settings({"ONWARD_HOME": str(home)}))
    task = submit(app, SOURCE)
    app.close()
    with stage(home) as on:
        on.store.add_documents([page("a-page", parent=f"archives/{source_id(SOURCE)}", source=SOURCE)])
        set_aside(on, "a-page")
    batch = listed(home)[SOURCE]
    assert (batch["task_id"], batch["project_id"]) == (task.id, source_id(SOURCE))
    assert batch["failed_files"] == [SOURCE]


def test_from_the_tenth_retry_on_it_is_persistent(aside: Path) -> None:
    id = listed(aside)[SOURCE]["id"]
    with stage(aside) as on:
        on.store.reschedule_batch(id, 1000.0)
        for number in range(10):
            assert on.store.claim_batch(id, retry_count=number, until=1001.0 + number)
    assert listed(aside)[SOURCE]["persistent"] is True
    assert "10 retries" in onward(aside, "batches").stdout
    assert onward(aside, "batches").stdout.count("  persistent") == 1


def test_one_batch_with_the_error_of_each_document(aside: Path) -> None:
    id = listed(aside)[SOURCE]["id"]
    text = onward(aside, "batches", "show", id[:8]).stdout
    for part in (id, "aaaa-1", "aaaa-2", "Errors of the batch", f"onward batches retry {id[:8]}"):
        assert part in text
    found = json.loads(onward(aside, "batches", "show", id, "--json").stdout)
    assert found["item_errors"] == {
        "aaaa-1": "ValueError: too long: api_key=***",
        "aaaa-2": "ValueError: too long: api_key=***",
    }


def test_a_batch_is_retried_now_without_counting(aside: Path) -> None:
    id = listed(aside)[SOURCE]["id"]
    result = onward(aside, "batches", "retry", id[:8])
    assert "1 failed batch with 2 documents will be retried now." in result.stdout
    assert "start one: onward worker --app MODULE:APP" in result.stdout
    with stage(aside) as on:
        assert on.store.due_batches() == [id]
        (action,) = on.store.actions()
    assert (action.action, action.about, action.touched) == ("batches retry", {"batches": [id]}, 2)
    assert listed(aside)[SOURCE]["retry_count"] == 0
    assert "due now" in onward(aside, "batches").stdout


def test_all_batches_are_retried(aside: Path) -> None:
    dry = json.loads(onward(aside, "batches", "retry", "--all", "--dry-run", "--json").stdout)
    assert (dry["dry_run"], len(dry["batches"]), dry["documents"]) == (True, 2, 3)
    with stage(aside) as on:
        assert on.store.due_batches() == []
    onward(aside, "batches", "retry", "--all")
    with stage(aside) as on:
        assert len(on.store.due_batches()) == 2


def test_discarding_needs_a_yes(aside: Path) -> None:
    id = listed(aside)[SOURCE]["id"]
    refused = onward(aside, "batches", "discard", id)
    assert refused.exit_code == 2
    assert "this gives up 2 documents for good; add --confirm" in " ".join(refused.stderr.split())
    assert "2 documents of 1 failed batch would be discarded." in (
        onward(aside, "batches", "discard", id, "--dry-run").stdout
    )
    assert sorted(listed(aside)) == [SOURCE, OTHER]
    done = onward(aside, "batches", "discard", id, "--confirm")
    assert done.stdout == "2 documents of 1 failed batch discarded.\n"
    assert list(listed(aside)) == [OTHER]
    with stage(aside) as on:
        assert on.state("aaaa-1").status == on.state("aaaa-2").status == "discarded"
        assert on.store.actions()[0].touched == 2


def test_without_batches_it_says_so(home: Path) -> None:
    with stage(home) as on:
        on.bring("aaaa-1")
    assert onward(home, "batches").stdout == "There are no failed batches.\n"
    assert onward(home, "batches", "retry", "--all").stdout == "There are no failed batches.\n"
    assert json.loads(onward(home, "batches", "--json").stdout) == []


@pytest.mark.parametrize(
    ("args", "code", "problem"),
    (
        (("show", "nope"), 2, "no failed batch has an id that begins with 'nope'; see `onward batches`"),
        (("show", ""), 2, "no failed batch"),
        (("retry",), 2, "give either the ids of batches, or --all"),
        (("retry", "abcd", "--all"), 2, "give either the ids of batches, or --all"),
        (("discard",), 2, "Missing argument 'ID…'"),
        (("--json", "show", "abcd"), 2, "give options behind `show`"),
    ),
)
def test_wrong_usage_is_told(aside: Path, args: tuple[str, ...], code: int, problem: str) -> None:
    result = onward(aside, "batches", *args)
    assert result.exit_code == code
    assert problem in " ".join(result.stderr.split())
