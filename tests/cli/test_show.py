"""`onward show` tells everything that is known of one document."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from onward import App, Document
from onward.settings import load_settings
from tests.cli.stage import SAMPLE, onward


def find(library: Path, *words: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(onward(library, "search", *words, "--json").stdout)["results"][0]
    return found


def test_a_message_with_its_headers_text_and_state(library: Path) -> None:
    message = find(library, "comparing the predictions for my thesis daily means attached", "--author", "priya")
    shown = onward(library, "show", message["id"]).stdout
    assert "subject     Tide gauge reads high since the storm\n" in shown
    assert "from        Priya Raman <priya.raman@ocean.example.org>\n" in shown
    assert "attached    gauge-daily-means.csv (text/csv, 645 bytes, found by search)\n" in shown
    assert "Does anybody know why the tide gauge drifts?" in shown
    assert "status      processed\n" in shown
    assert f"onward show {message['thread_id'][:8]}" in shown


def test_a_thread_with_its_summary_and_messages(library: Path) -> None:
    message = find(library, "why did the tide gauge drift")
    shown = onward(library, "show", message["thread_id"]).stdout
    assert "by extractive" in shown
    assert "10 messages\n" in shown
    assert message["id"][:8] in shown
    facts = json.loads(onward(library, "show", message["thread_id"], "--json").stdout)
    assert (facts["collection"], len(facts["message_ids"])) == ("threads", 10)
    assert facts["summary"]["thread_id"] == message["thread_id"]


def test_the_bytes_of_a_message_as_they_were_fetched(library: Path) -> None:
    message = find(library, "comparing the predictions for my thesis daily means attached", "--author", "priya")
    raw = onward(library, "show", "--raw", message["id"]).stdout_bytes
    assert raw.startswith((b"From priya.raman@ocean.example.org", b"From: Priya Raman"))
    assert raw.strip() in SAMPLE.read_bytes()
    assert b"Message-ID: <gauge-1.20260303@ocean.example.org>" in raw


def test_a_failed_message_with_its_error_and_its_bytes(library: Path) -> None:
    (failed,) = onward(library, "documents", "--status", "failed", "--json").stdout.splitlines()
    id = json.loads(failed)["id"]
    shown = onward(library, "show", id[:10]).stdout
    assert "status      failed\n" in shown
    assert "UnreadableMail: no headers in a mail of 401 bytes" in shown
    raw = onward(library, "show", "--raw", id).stdout_bytes
    assert len(raw) > 400
    assert raw in SAMPLE.read_bytes()


def test_every_kind_of_document_can_be_shown(library: Path) -> None:
    lines = onward(library, "documents", "--json").stdout.splitlines()
    one_each = {one["collection"]: one["id"] for one in map(json.loads, lines)}
    assert set(one_each) == {"archives", "chunks", "messages", "reports", "summaries", "tasks", "threads"}
    for id in one_each.values():
        result = onward(library, "show", id)
        assert result.exit_code == 0
        assert f"/{id}\nstatus " in result.stdout


def test_what_has_no_bytes_says_so(library: Path) -> None:
    thread = find(library, "tide gauge")["thread_id"]
    result = onward(library, "show", "--raw", thread)
    assert result.exit_code == 1
    assert "has no bytes of its own" in result.stderr


def test_an_unknown_id_and_one_too_short(library: Path) -> None:
    unknown = onward(library, "show", "zzzz")
    assert unknown.exit_code == 1
    assert "no document has an id that begins with 'zzzz'" in unknown.stderr
    assert onward(library, "show", "zz\udcffzz").exit_code == 1
    short = onward(library, "show", "a")
    assert short.exit_code == 2
    assert "give at least the first 4 characters" in short.stderr


class Note(Document):
    text: str


def test_an_ambiguous_beginning_lists_what_it_matches(home: Path) -> None:
    app = App(settings=load_settings({"ONWARD_HOME": str(home)}))
    app.add(*(Note(id=f"abcd{one:02}", text="Hello") for one in range(12)))
    app.close()
    result = onward(home, "show", "abcd")
    assert result.exit_code == 1
    assert "'abcd' begins the ids of 12 documents; give more of one:\n  abcd00  (notes)\n" in result.stderr
    assert "… and 2 more" in result.stderr
    assert "text        Hello\n" in onward(home, "show", "abcd07").stdout


@given(
    ids=st.sets(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=4), min_size=1)
)
def test_the_store_finds_every_id_that_begins_so_and_no_other(ids: set[str]) -> None:
    app = App(store=":memory:")
    app.add(*(Note(id=id, text="") for id in ids))
    for id in ids:
        for length in range(len(id) + 1):
            prefix = id[:length]
            expected = [("notes", one) for one in sorted(ids, key=str.encode) if one.startswith(prefix)]
            assert app.store.ids_like(prefix) == expected
    app.close()
