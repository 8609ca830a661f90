"""Repositories, list archives and buckets go through the whole pipeline."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from onward.pipeline import source_cache
from onward.pipeline.documents import Archive
from onward.pipeline.source_kinds.git_mirror import GitMirror
from onward.pipeline.sources import fetch_report, submit
from tests.pipeline.source_kinds.test_object_stores import BucketSource
from tests.pipeline.source_kinds.test_public_inbox import Inbox
from tests.support.git_repositories import GitRepository
from tests.support.pipeline_runs import Pipeline
from tests.support.servers import ObjectServer


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    return GitRepository(tmp_path / "repo.git")


def counts(pipeline: Pipeline, location: str) -> dict[str, int]:
    pipeline.ingest(location)
    found = fetch_report(pipeline.app, location)
    pipeline.check_at_rest()
    return {} if found is None else {name: count for name, count in found.counts.items() if count}


def test_a_repository_is_ingested_by_what_has_changed(pipeline: Pipeline, repository: GitRepository) -> None:
    repository.commit(
        {"a.txt": "The harbour.", "docs/b.md": "# The pier", "c.txt": "A boat.", "pic.png": "\x89PNG\0"}
    )
    repository.commit({"link": "a.txt"}, modes={"link": "120000"})
    assert counts(pipeline, repository.location) == {"items": 3, "new": 3}
    report = fetch_report(pipeline.app, repository.location)
    assert report is not None
    assert report.passed_over == {"link": 1, "picture": 1}
    assert counts(pipeline, repository.location) == {"items": 3, "unchanged": 3}
    repository.commit({"a.txt": "The harbour at night.", "c.txt": None})
    assert counts(pipeline, repository.location) == {"items": 2, "new": 1, "unchanged": 1, "removed": 1}
    assert pipeline.texts() == ["# The pier", "The harbour at night."]


def test_commits_become_messages_with_authors_and_subjects(pipeline: Pipeline, repository: GitRepository) -> None:
    repository.commit({"a.txt": "one"}, "Add the harbour\n\nBoats need it.")
    submit(pipeline.app, repository.location, {"history": "only"})
    pipeline.run()
    repository.commit({"b.txt": "two"}, "Add the pier")
    pipeline.ingest(repository.location)
    pipeline.check_at_rest()
    found = {one.subject: one for one in pipeline.messages().values()}
    assert set(found) == {"Add the harbour", "Add the pier"}
    assert found["Add the harbour"].author == "Ada <ada@example.org>"
    assert found["Add the harbour"].new_text().startswith("Boats need it.")
    submit(pipeline.app, repository.location, {"history": "off"})
    pipeline.run()
    assert pipeline.texts() == ["one", "two"]


def test_a_copy_goes_with_its_source(pipeline: Pipeline, repository: GitRepository) -> None:
    repository.commit({"a.txt": "one"})
    pipeline.ingest(repository.location)
    folder = source_cache.cache_folder(pipeline.home, repository.location)
    assert folder.is_dir()
    pipeline.forget(repository.location)
    assert not folder.exists()
    assert pipeline.all(Archive) == []


def test_a_copy_that_is_made_while_its_source_is_forgotten_goes_too(
    pipeline: Pipeline, repository: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit({"a.txt": "one"})
    folder = source_cache.cache_folder(pipeline.home, repository.location)
    made: list[bool] = []
    fetched = GitMirror._fetch

    def forget_first(mirror: GitMirror, *arguments: Any) -> str:
        pipeline.forget(repository.location)
        folder.mkdir(parents=True)
        commit = fetched(mirror, *arguments)
        made.append(mirror.folder.is_dir())
        return commit

    monkeypatch.setattr(GitMirror, "_fetch", forget_first)
    pipeline.ingest(repository.location)
    assert made == [True]
    assert not folder.exists()
    assert pipeline.all(Archive) == []


def test_notes_of_a_run_that_waits_go_with_their_source(pipeline: Pipeline, repository: GitRepository) -> None:
    notes = source_cache.notes_file(pipeline.home, repository.location, 1)
    other = source_cache.notes_file(pipeline.home, "git+file:///other", 1)
    for file in (notes, other):
        file.parent.mkdir(exist_ok=True)
        file.write_text("What the crawl has found.")
    pipeline.submit(repository.location)
    pipeline.forget(repository.location)
    assert not notes.exists()
    assert other.exists()


def test_a_copy_that_nobody_uses_is_removed(pipeline: Pipeline, repository: GitRepository, tmp_path: Path) -> None:
    unused = source_cache.cache_folder(pipeline.home, "git+file:///unused")
    used = source_cache.cache_folder(pipeline.home, "git+file:///used")
    for folder in (unused, used):
        folder.mkdir(parents=True)
        os.utime(folder, (0, 0))
    source_cache.mark_used(used)
    repository.commit({"a.txt": "one"})
    pipeline.ingest(repository.location)
    assert not unused.exists()
    assert used.exists()
    pipeline.check_at_rest()


def test_a_wrong_ref_fails_the_source_and_removes_nothing(pipeline: Pipeline, repository: GitRepository) -> None:
    repository.commit({"a.txt": "one"})
    pipeline.ingest(repository.location)
    submit(pipeline.app, repository.location, {"ref": "no-such"})
    pipeline.run()
    assert pipeline.texts() == ["one"]
    [request] = [one for one in pipeline.all(Archive) if one.id == one.source_id]
    state = pipeline.app.store.states(Archive, source=repository.location, limit=10)
    assert "no ref 'no-such'" in str([one.last_error for one in state if one.id == request.id])


def test_a_mail_that_a_list_deletes_is_removed(pipeline: Pipeline, tmp_path: Path) -> None:
    inbox = Inbox(tmp_path / "list")
    inbox.add(1, 2, 3)
    location = f"publicinbox+file://{inbox.folder}"
    pipeline.ingest(location)
    before = pipeline.times("messages")
    inbox.delete(2)
    inbox.add(4)
    pipeline.ingest(location)
    pipeline.check_at_rest()
    assert sorted(pipeline.messages()) == ["1", "3", "4"]
    assert len(before.items() & pipeline.times("messages").items()) == 2, "the others are as they were"


def test_objects_are_ingested_by_what_has_changed(
    object_server: ObjectServer, bucket_url: str, tmp_path: Path
) -> None:
    source = BucketSource(object_server, tmp_path / "runs", "s3")
    source.put("docs/a.txt", "The harbour.")
    source.put("docs/b.txt", "The pier.")
    with Pipeline(tmp_path / "home", ONWARD_FETCH_ALLOW_PRIVATE="true").running() as pipeline:
        assert counts(pipeline, source.runs.location) == {"items": 2, "new": 2}
        source.put("docs/b.txt", "The long pier.")
        assert counts(pipeline, source.runs.location) == {"items": 2, "new": 1, "unchanged": 1}
        assert pipeline.texts() == ["The harbour.", "The long pier."]


@pytest.mark.prove
def test_an_ingestion_that_is_killed_goes_on_where_it_was(repository: GitRepository, tmp_path: Path) -> None:
    """Killed with SIGKILL five times, `onward ingest` comes to the same files, each once."""
    repository.commit({f"d{i % 10}/f{i}.txt": f"File number {i}." for i in range(400)})
    home = tmp_path / "home"
    command = [sys.executable, "-m", "onward", "ingest", repository.location, "--json"]
    environment = {**os.environ, "ONWARD_HOME": str(home)}
    killed = 0
    for seconds in (2.0, 3.0, 4.0, 5.0, 6.0):
        process = subprocess.Popen(
            command, env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL, start_new_session=True
        )
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            killed += 1
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    repository.commit({"d0/f0.txt": "File number 0, changed.", "d1/f1.txt": None})
    for _ in range(2):
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, check=False, timeout=280
        )
        assert done.returncode == 0, done.stderr.decode()[-1000:]
    assert killed
    with closing(sqlite3.connect(home / "onward.db")) as store:
        query = "SELECT b.body FROM documents d JOIN bodies b ON b.doc = d.doc WHERE d.collection = 'messages'"
        bodies = [json.loads(body) for (body,) in store.execute(query)]
    assert sorted(body["path"] for body in bodies) == sorted(repository.files)
