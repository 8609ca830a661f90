"""`onward publish` puts the events of files on the ledger, or says why it does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from onward.cli import main
from onward.ops.actions.publish import split_events
from tests.cli.scenes import opened
from tests.support.command_runs import environment, onward

GOOD = {"event_type": "ArchiveIngested", "event_id": "theirs-1", "version": "1.0", "data": {"archive_id": "a"}}
BAD = {"event_type": "ArchiveIngested", "event_id": "theirs-2", "data": {"archive": "a"}}
OWN_APP = """
from onward import App, Event


class Rung(Event):
    bell: int


app = App()
app.service("hearing", on=Rung)(lambda event, work: None)
"""


def published(home: Path, *args: str, code: int = 0, given: str | None = None) -> list[dict[str, Any]]:
    """Run `onward publish`; return what became of each event."""
    command = ["publish", *args, "--json"]
    result = CliRunner().invoke(main, command, env=environment(home), input=given)
    assert result.exit_code == code, result.output
    events: list[dict[str, Any]] = json.loads(result.stdout)["events"]
    return events


def rows(home: Path) -> dict[str, dict[str, int]]:
    with opened(home) as stage:
        return {name: states for name, states in stage.store.counts().items() if states}


def test_an_event_is_published_once(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "event.json"
    file.write_text(json.dumps(GOOD, indent=2))
    (event,) = published(home, str(file))
    assert event == {
        "file": str(file),
        "number": 1,
        "event_type": "ArchiveIngested",
        "event_id": "theirs-1",
        "result": "published",
        "rows": 1,
        "duplicates": 0,
        "error": None,
    }
    assert [one["result"] for one in published(home, str(file))] == ["duplicate"]
    assert rows(home) == {"parsing": {"waiting": 1}}
    with opened(home) as stage:
        assert [(one.action, one.touched) for one in stage.store.actions()] == [("publish", 1)]


def test_standard_input_lines_and_arrays_may_hold_several(home: Path, tmp_path: Path) -> None:
    events = [GOOD | {"event_id": f"{n}", "data": {"archive_id": f"{n}"}} for n in range(4)]
    lines = "\n\n".join(json.dumps(event) for event in events[:2])
    (tmp_path / "array.json").write_text(json.dumps(events[2:], indent=1))
    found = published(home, "-", str(tmp_path / "array.json"), given=lines)
    assert [(one["event_id"], one["number"]) for one in found] == [("0", 1), ("1", 2), ("2", 1), ("3", 2)]
    assert rows(home) == {"parsing": {"waiting": 4}}


def test_a_dry_run_reads_and_writes_nothing(home: Path) -> None:
    assert [one["result"] for one in published(home, "-", "--dry-run", given=json.dumps(GOOD))] == ["valid"]
    assert [one["result"] for one in published(home, "-", "--dry-run", given=json.dumps(BAD), code=2)] == [
        "malformed"
    ]
    assert not home.exists()


def test_a_file_with_an_event_that_cannot_be_read_is_not_published_the_others_are(
    home: Path, tmp_path: Path
) -> None:
    (tmp_path / "bad.json").write_text(json.dumps([GOOD, BAD]))
    good = json.dumps(GOOD | {"event_id": "theirs-3"})
    found = published(home, str(tmp_path / "bad.json"), "-", given=good, code=2)
    assert [one["result"] for one in found] == ["left_out", "malformed", "published"]
    assert found[1]["error"] == "ArchiveIngested fails its schema: archive_id: Field required"
    assert rows(home) == {"parsing": {"waiting": 1}}


def test_with_keep_it_becomes_a_dead_letter_with_its_bytes(home: Path) -> None:
    found = published(home, "-", "--keep", given=f"{json.dumps(GOOD)}\n{json.dumps(BAD)}\nno JSON", code=3)
    assert [one["result"] for one in found] == ["published", "kept", "kept"]
    with opened(home) as stage:
        (unread,) = stage.store.dead_letters("parsing")
        (stray,) = stage.store.dead_letters("")
    assert (unread.raw, unread.idempotency_key) == (json.dumps(BAD).encode(), "theirs-2")
    assert (stray.raw, stray.properties) == (b"no JSON", {"file": "standard input"})


def test_the_events_of_an_app_of_ones_own(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bells_app.py").write_text(OWN_APP)
    monkeypatch.chdir(tmp_path)
    more = {"ONWARD_HOME": str(home)}
    rung = '{"event_type": "Rung", "event_id": "1", "data": {"bell": "seven"}}'
    (tmp_path / "rung.json").write_text(rung)
    kept = onward(home, "publish", "rung.json", "--app", "bells_app:app", "--keep", more=more)
    assert kept.exit_code == 3, kept.output
    refused = onward(home, "failed", "requeue", "hearing.failed", "--app", "bells_app:app", "--json", more=more)
    assert (refused.exit_code, json.loads(refused.stdout)["unreadable"]) == (3, 1)
    assert "Rung fails its schema: bell" in json.loads(refused.stdout)["refused"][0]["reason"]
    put_back = onward(home, "failed", "requeue", "hearing.failed", "--json", more=more)
    assert (put_back.exit_code, json.loads(put_back.stdout)["requeued"]) == (0, 1), (
        "without the app, the worker decides"
    )


def test_the_hint_names_the_app_that_was_given(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ringing_app.py").write_text(OWN_APP)
    (tmp_path / "rung.json").write_text('{"event_type": "Rung", "data": {"bell": 2}}')
    monkeypatch.chdir(tmp_path)
    done = onward(home, "publish", "rung.json", "--app", "ringing_app:app", more={"ONWARD_HOME": str(home)})
    assert "start one: onward worker --app ringing_app:app\n" in done.output


def test_a_dry_run_with_keep_says_what_would_be_kept(home: Path) -> None:
    (event,) = published(home, "-", "--keep", "--dry-run", given=json.dumps(BAD), code=3)
    assert event["result"] == "would_keep"


def test_the_pipelines_events_do_not_go_to_the_store_of_another_app(home: Path) -> None:
    with opened(home):
        pass
    result = CliRunner().invoke(main, ["publish", "-"], env=environment(home), input=json.dumps(GOOD))
    assert result.exit_code == 2
    assert "is the store of another app" in result.output


@pytest.mark.parametrize("given", ("", " \n"))
def test_nothing_is_no_event(home: Path, given: str) -> None:
    result = CliRunner().invoke(main, ["publish", "-"], env=environment(home), input=given)
    assert result.exit_code == 2
    assert "holds no event" in result.output


@pytest.mark.parametrize(
    ("content", "events"),
    (
        (b"", []),
        (b'{"a": 1}', [b'{"a": 1}']),
        (b'\xef\xbb\xbf {\n "a": 1}\n', [b'{\n "a": 1}']),
        (b'[{"a": 1.10}, {"b": "]"} ,\n[2]]', [b'{"a": 1.10}', b'{"b": "]"}', b"[2]"]),
        (b"[]", []),
        (b'{"a": 1}\r\n\n{"b": 2}\nhm\n', [b'{"a": 1}', b'{"b": 2}', b"hm"]),
        (b'{\n "a": 1,\n', [b'{\n "a": 1,\n']),
        (b"\xff\n{}", [b"\xff\n{}"]),
        (b"7", [b"7"]),
    ),
)
def test_a_file_is_split_without_a_change_to_its_events(content: bytes, events: list[bytes]) -> None:
    assert split_events(content) == events


def test_a_large_array_is_split_in_one_pass() -> None:
    events = [b'{"event_type": "Rung", "data": {"text": "%s"}}' % (b"x" * 200)] * 50_000
    assert split_events(b"[" + b",\n".join(events) + b"]") == events
