"""An action that is stopped reports and logs what it has done, and continues when it is repeated."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.scenes import stop_in
from tests.support.command_runs import onward
from tests.support.failed_pages import fail, stage

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def safe() -> Iterator[None]:
    """A signal that a command does not take fails a test, and does not end all of them."""

    def fail_test(number: int, frame: object) -> None:
        raise AssertionError(f"nobody has taken signal {number}")

    before = {number: signal.signal(number, fail_test) for number in SIGNALS}
    yield
    for number, handler in before.items():
        assert signal.getsignal(number) is fail_test, "the command has put back what was there"
        signal.signal(number, handler)


@pytest.fixture
def pages(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three pages that failed, changed two at a time."""
    monkeypatch.setattr("onward.ops.actions.dead_letters.PAGE", 2)
    monkeypatch.setattr("onward.ops.actions.documents.PAGE", 2)
    with stage(home) as on:
        fail(on, "aaaa-1", "aaaa-2", "aaaa-3")
    return home


def logged(home: Path) -> list[tuple[str, int]]:
    with stage(home) as on:
        return [(one.action, one.touched) for one in on.store.actions()]


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(
    ("command", "method", "count"),
    (
        (("failed", "purge", "reading", "--confirm"), "purge_dead_letters", "removed"),
        (("failed", "archive", "reading"), "archive_dead_letters", "archived"),
        (("documents", "purge", "--status", "failed", "--confirm"), "remove_documents", "documents"),
        (("documents", "discard", "--status", "failed", "--confirm"), "discard", "documents"),
    ),
)
def test_what_was_done_is_reported_and_logged_and_the_same_command_continues(
    pages: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    method: str,
    count: str,
    number: signal.Signals,
) -> None:
    stop_in(monkeypatch, method, number)
    result = onward(pages, *command, "--json")
    assert result.exit_code == 130
    facts = json.loads(result.stdout)
    assert (facts[count], facts["interrupted"]) == (2, True)
    assert logged(pages) == [(" ".join(command[:2]), 2)]
    again = onward(pages, *command, "--json")
    facts = json.loads(again.stdout)
    assert (again.exit_code, facts[count], facts["interrupted"]) == (0, 1, False)
    assert [touched for _, touched in logged(pages)] == [1, 2]
    assert onward(pages, *command).exit_code == 0
    assert len(logged(pages)) == 2, "nothing was left to do"


@pytest.mark.parametrize("number", SIGNALS)
def test_what_was_archived_is_in_the_file_and_the_rest_is_left(
    pages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    stop_in(monkeypatch, "remove_documents", number)
    file = tmp_path / "failed.ndjson"
    result = onward(pages, "documents", "archive", "--status", "failed", "--output", str(file), "--json")
    assert result.exit_code == 130
    facts = json.loads(result.stdout)
    assert (facts["exported"], facts["removed"], facts["interrupted"]) == (3, 2, True)
    assert len(file.read_text().splitlines()) == 3
    assert logged(pages) == [("documents archive", 2)]


def test_a_signal_in_the_last_step_stops_nothing(pages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onward.ops.actions.dead_letters.PAGE", 100)
    stop_in(monkeypatch, "purge_dead_letters", signal.SIGINT)
    result = onward(pages, "failed", "purge", "reading", "--confirm", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"dry_run": False, "removed": 3, "interrupted": False}


def test_sigterm_ends_the_wait_for_a_canary(pages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: signal.raise_signal(signal.SIGTERM))
    result = onward(pages, "failed", "requeue", "reading", "--canary", "1", "--json")
    assert result.exit_code == 130
    facts = json.loads(result.stdout)
    assert (facts["requeued"], facts["left_untouched"], facts["interrupted"]) == (1, 2, True)
    assert logged(pages) == [("failed requeue", 1)]
