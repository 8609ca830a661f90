"""GET /v3/threads: threads with their summaries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from onward.pipeline.sources import submit
from tests.support.command_runs import mail, write_mailbox
from tests.support.console_client import Site


def get(site: Site, path: str) -> Any:
    answer = site.client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_threads_come_newest_first_with_their_summaries(library: Site) -> None:
    found = get(library, "/v3/threads?limit=3")
    assert len(found["threads"]) == 3
    dates = [one["latest_message"] for one in found["threads"]]
    assert dates == sorted(dates, reverse=True)
    assert any("**Decision**" in one["summary"] for one in get(library, "/v3/threads?limit=100")["threads"])
    for one in found["threads"]:
        assert one["model"] == "extractive"
        assert [cited["number"] for cited in one["citations"]] == list(range(1, len(one["citations"]) + 1))


def test_pages_of_threads_join(library: Site) -> None:
    everything = [one["id"] for one in get(library, "/v3/threads?limit=100")["threads"]]
    joined: list[str] = []
    after = ""
    while after is not None:
        page = get(library, f"/v3/threads?limit=20&after={after}")
        joined += [one["id"] for one in page["threads"]]
        after = page["next"]
    assert joined == everything
    assert len(everything) > 30


def test_threads_are_found_by_words_and_source(library: Site) -> None:
    found = get(library, '/v3/threads?q="vent tube"')["threads"]
    assert 0 < len(found) < 20
    assert get(library, "/v3/threads?q=xyzzyq")["threads"] == []
    assert library.client.get("/v3/threads?source=nowhere").status_code == 404
    assert library.client.get("/v3/threads?q=%2B").status_code == 400


def test_files_are_listed_only_if_asked_for(site: Site, tmp_path: Path) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "gauge.md").write_text("# The gauge\n\nThe gauge is kept in the boathouse.\n")
    key = mail(1, "Where is the key?", "Who has the key of the boathouse?")
    write_mailbox(tmp_path / "sources" / "list.mbox", [key])
    submit(site.app, str(tmp_path / "sources"))
    site.app.work_until_idle()
    found = get(site, "/v3/threads")
    assert ([one["subject"] for one in found["threads"]], found["files_left_out"]) == (["Where is the key?"], 1)
    found = get(site, "/v3/threads?files=true")
    assert (len(found["threads"]), found["files_left_out"]) == (2, 0)


def test_a_thread_without_a_summary_has_none(site: Site, tmp_path: Path) -> None:
    submit(site.app, str(write_mailbox(tmp_path / "keys.mbox", [mail(1, "Where is the key?", "Who has it?")])))
    site.app.work_until_idle(["ingestion", "parsing", "chunking"])
    (thread,) = get(site, "/v3/threads")["threads"]
    assert (thread["summary"], thread["citations"], thread["model"]) == (None, [], None)
