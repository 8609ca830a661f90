"""`onward cancel` takes documents that are not finished off the ledger, and says which were final already."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli import scenes
from tests.support.command_runs import onward
from tests.support.failed_pages import stage


@pytest.fixture
def pages(home: Path) -> Path:
    scenes.documents_to_retry(home)  # aaaa and bbbb failed, cccc is processed, dddd waits, eeee is set aside
    return home


def test_what_waits_is_cancelled(pages: Path) -> None:
    result = onward(pages, "cancel", "pages/dddd-1", "eeee")
    assert (result.exit_code, result.stdout) == (0, "2 documents cancelled.\n")
    with stage(pages) as on:
        assert (on.state("dddd-1").status, on.state("eeee-1").status) == ("discarded", "discarded")
        assert on.state("dddd-1").attempts["first"]["by"], "who did it"
        assert (on.rows("waiting"), on.store.failed_batches()) == (0, [])
    assert "cancel" in onward(pages, "actions").stdout
    assert "cancelled by " in onward(pages, "show", "dddd-1").stdout


def test_a_retry_that_has_not_begun_is_cancelled(pages: Path) -> None:
    onward(pages, "cancel", "dddd-1")
    onward(pages, "retry", "pages/dddd-1")
    with stage(pages) as on:
        assert on.state("dddd-1").retry_at is not None
    assert onward(pages, "cancel", "dddd-1", "--dry-run").stdout == "1 document would be cancelled.\n"
    assert onward(pages, "cancel", "dddd-1").stdout == "1 document cancelled.\n"
    with stage(pages) as on:
        assert (on.state("dddd-1").status, on.state("dddd-1").retry_at) == ("discarded", None)
    assert onward(pages, "cancel", "dddd-1").exit_code == 1


def test_a_dry_run_changes_nothing(pages: Path) -> None:
    result = onward(pages, "cancel", "dddd-1", "cccc-1", "--dry-run", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (
        0,
        {"dry_run": True, "cancelled": ["pages/dddd-1"], "final": {"pages/cccc-1": "processed"}},
    )
    with stage(pages) as on:
        assert on.state("dddd-1").status == "pending"


def test_what_is_final_is_named_and_the_exit_code_says_so(pages: Path) -> None:
    result = onward(pages, "cancel", "cccc-1", "aaaa-1")
    assert result.exit_code == 1
    assert "pages/cccc-1 is processed already: there is nothing to cancel." in result.stdout
    assert "pages/aaaa-1 is failed already" in result.stdout
    some = onward(pages, "cancel", "cccc-1", "dddd-1", "--json")
    assert (some.exit_code, json.loads(some.stdout)) == (
        3,
        {"dry_run": False, "cancelled": ["pages/dddd-1"], "final": {"pages/cccc-1": "processed"}},
    )


def test_an_unknown_document_is_an_error_and_nothing_is_cancelled(pages: Path) -> None:
    result = onward(pages, "cancel", "dddd-1", "pages/nobody")
    assert result.exit_code == 2
    assert "no document of pages has an id that begins with 'nobody'" in result.output
    assert (
        "no document has an id that begins with 'books/nobody'" in onward(pages, "cancel", "books/nobody").output
    )
    with stage(pages) as on:
        assert on.state("dddd-1").status == "pending"
    assert onward(pages, "cancel").exit_code == 2
