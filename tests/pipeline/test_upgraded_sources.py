"""Sources that an older Onward has ingested: without versions of entries, and without the later keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from onward.pipeline.documents import Archive, Thread, VersionPart
from onward.pipeline.stages.stored_versions import StoredVersions
from tests.support.pipeline_runs import Pipeline, mail, mbox

QUESTION = mail("1", "Who has the key?")
REPLY = mail("2", "Ada has it.", references=["1"])
SECOND_REPLY = mail("3", "Thank you.", references=["1", "2"])
_NEW_KEYS = "name IN ('place', 'head', 'linked', 'lone') OR name LIKE 'subject %' OR name LIKE 'lone %'"


@pytest.fixture
def old(pipeline: Pipeline, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that was ingested by the version before versions, thread keys and keys of places."""
    (folder / "list.mbox").write_bytes(mbox(QUESTION, REPLY))
    (folder / "a.txt").write_text("Apples.")
    (folder / "b.txt").write_text("Berries.")
    with monkeypatch.context() as before:
        before.setattr(StoredVersions, "write", lambda self, work: None)
        pipeline.ingest(folder)
    pipeline.ask(f"DELETE FROM keys WHERE {_NEW_KEYS}")
    assert not pipeline.all(VersionPart)
    return folder


def blobs_by_path(pipeline: Pipeline) -> list[str]:
    return sorted(one.path for one in pipeline.all(Archive) if one.blob)


def test_nothing_changes_if_the_source_has_not_changed(pipeline: Pipeline, old: Path) -> None:
    before = pipeline.times("archives", "messages", "chunks", "threads", "summaries")
    request = pipeline.source(old)
    pipeline.ingest(old)
    pipeline.check_at_rest()
    after = pipeline.times("archives", "messages", "chunks", "threads", "summaries")
    changed = {key for key in before | after if before.get(key) != after.get(key)}
    assert {pipeline.app.get(Archive, id).source for _, id in changed} == {request}  # type: ignore[union-attr]
    assert len(changed) == 1, "only the request"


def test_what_has_changed_replaces_what_was_there(pipeline: Pipeline, old: Path) -> None:
    (old / "list.mbox").write_bytes(mbox(QUESTION, REPLY, SECOND_REPLY))
    (old / "a.txt").write_text("Apricots.")
    (old / "b.txt").unlink()
    for _ in range(2):
        pipeline.ingest(old)
        pipeline.check_at_rest()
        assert blobs_by_path(pipeline) == ["a.txt", "list.mbox"]
        assert pipeline.texts() == ["Ada has it.", "Apricots.", "Thank you.", "Who has the key?"]
        assert pipeline.report(old)["messages"] == {"messages": 4, "parsed": 4, "failed": 0, "duplicates": 0}
        assert sorted(thread.messages for thread in pipeline.all(Thread)) == [1, 3]
    threads = {pipeline.messages()[id].thread_id for id in ("1", "2", "3")}
    assert len(threads) == 1
