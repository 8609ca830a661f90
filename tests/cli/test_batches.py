"""`onward batches` shows what was set aside, retries it now, or gives it up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from onward.pipeline.documents import source_id
from tests.cli import scenes
from tests.cli.scenes import OTHER_SOURCE
from tests.support.command_runs import onward
from tests.support.failed_pages import SOURCE, set_aside, stage
from tests.support.store_pages import page


@pytest.fixture
def aside(home: Path) -> Path:
    scenes.failed_batches(home)
    return home


def listed(home: Path) -> dict[str, dict[str, Any]]:
    result = onward(home, "batches", "--json")
    assert result.exit_code == 0, result.output
    return {one["project_path"]: one for one in json.loads(result.stdout)}


def test_batches_are_listed_with_their_documents_retries_and_errors(aside: Path) -> None:
    found = listed(aside)
    assert {source: one["items"] for source, one in found.items()} == {
        SOURCE: ["aaaa-1", "aaaa-2"],
        OTHER_SOURCE: ["bbbb-1"],
    }
    assert {(one["service"], one["retry_count"], one["persistent"]) for one in found.values()} == {
        ("reading", 0, False)
    }
    assert found[SOURCE]["errors"][-1]["error"] == "ValueError: too long: api_key=***"
    text = onward(aside, "batches").stdout
    assert text == onward(aside, "batches", "list").stdout
    assert "api_key=***" in text
    assert "tinder123" not in text


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
    found = listed(aside)
    assert (found[SOURCE]["persistent"], found[SOURCE]["retry_count"]) == (True, 10)
    assert found[OTHER_SOURCE]["persistent"] is False


def test_one_batch_with_the_error_of_each_document(aside: Path) -> None:
    id = listed(aside)[SOURCE]["id"]
    found = json.loads(onward(aside, "batches", "show", id[:8], "--json").stdout)
    assert found["id"] == id
    assert found["item_errors"] == {
        "aaaa-1": "ValueError: too long: api_key=***",
        "aaaa-2": "ValueError: too long: api_key=***",
    }


def test_a_batch_is_retried_now_without_counting(aside: Path) -> None:
    id = listed(aside)[SOURCE]["id"]
    found = json.loads(onward(aside, "batches", "retry", id[:8], "--json").stdout)
    assert found == {"dry_run": False, "batches": [id], "documents": 2}
    with stage(aside) as on:
        assert {on.state(page).retry_at is not None for page in ("aaaa-1", "aaaa-2")} == {True}
        (action,) = on.store.actions()
    assert (action.action, action.about, action.touched) == ("batches retry", {"batches": [id]}, 2)
    assert listed(aside)[SOURCE]["retry_count"] == 0


def test_all_batches_are_retried(aside: Path) -> None:
    dry = json.loads(onward(aside, "batches", "retry", "--all", "--dry-run", "--json").stdout)
    assert (dry["dry_run"], len(dry["batches"]), dry["documents"]) == (True, 2, 3)
    with stage(aside) as on:
        assert on.store.due_for_check(limit=9) == []
    onward(aside, "batches", "retry", "--all")
    with stage(aside) as on:
        assert len(on.store.due_for_check(limit=9)) == 3


def test_discarding_needs_a_confirmation(aside: Path) -> None:
    id = listed(aside)[SOURCE]["id"]
    refused = onward(aside, "batches", "discard", id)
    assert refused.exit_code == 2
    assert "2 documents" in refused.stderr
    assert "--confirm" in refused.stderr
    dry = json.loads(onward(aside, "batches", "discard", id, "--dry-run", "--json").stdout)
    assert dry == {"dry_run": True, "batches": [id], "documents": 2}
    assert sorted(listed(aside)) == [SOURCE, OTHER_SOURCE]
    done = json.loads(onward(aside, "batches", "discard", id, "--confirm", "--json").stdout)
    assert done == {"dry_run": False, "batches": [id], "documents": 2}
    assert list(listed(aside)) == [OTHER_SOURCE]
    with stage(aside) as on:
        assert on.state("aaaa-1").status == on.state("aaaa-2").status == "discarded"
        assert on.store.actions()[0].touched == 2


def test_without_batches_there_is_nothing_to_retry(home: Path) -> None:
    with stage(home) as on:
        on.bring("aaaa-1")
    assert listed(home) == {}
    result = onward(home, "batches", "retry", "--all", "--json")
    assert (result.exit_code, json.loads(result.stdout)["batches"]) == (0, [])


@pytest.mark.parametrize(
    ("args", "code", "problem"),
    (
        (("show", "nope"), 2, "'nope'; see `onward batches`"),
        (("show", ""), 2, "no failed batch"),
        (("retry",), 2, "or --all"),
        (("retry", "abcd", "--all"), 2, "or --all"),
        (("discard",), 2, "Missing argument 'ID…'"),
        (("--json", "show", "abcd"), 2, "give options behind `show`"),
    ),
)
def test_wrong_usage_is_refused(aside: Path, args: tuple[str, ...], code: int, problem: str) -> None:
    result = onward(aside, "batches", *args)
    assert result.exit_code == code
    assert problem in " ".join(result.stderr.split())
