"""Whatever stops on its way through the pipeline is put back by itself, with the event it began with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from onward import Work
from onward.pipeline.documents import Archive, Chunk, Message, Summary, Thread
from onward.pipeline.events import JSONParsed
from onward.pipeline.sources import submit
from tests.support.pipeline_runs import Pipeline, mail, mbox
from tests.support.web_server import serve

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


@contextmanager
def ailing(pipeline: Pipeline, service: str, *, tries: int) -> Iterator[Callable[[], int]]:
    """A service fails so many times before it does its work; answers how often it failed."""
    real = pipeline.services[service]
    failures = 0

    def handle(given: object, work: Work) -> None:
        nonlocal failures
        if failures < tries:
            failures += 1
            raise ConnectionError("not now")
        real.handler(given, work)

    pipeline.services[service] = replace(real, handler=handle)
    try:
        yield lambda: failures
    finally:
        pipeline.services[service] = real


def _two_threads() -> bytes:
    return mbox(mail("a", "The first letter."), mail("b", "An answer.", references=["a"]), mail("c", "Another."))


@pytest.mark.parametrize(("service", "tries"), (("ingestion", 3), ("parsing", 3), ("summarization", 6)))
def test_what_is_given_up_for_now_gets_another_round(
    pipeline: Pipeline, archive: Path, service: str, tries: int
) -> None:
    archive.write_bytes(_two_threads())
    with ailing(pipeline, service, tries=tries) as failures:
        pipeline.submit(archive)
        pipeline.run(within=2 * HOUR)
        assert failures() == tries
    pipeline.check_at_rest()
    assert pipeline.status(archive) == "completed"
    assert pipeline.world.dead_letters() == []
    rounds = {one.attempt_count for kind in (Archive, Thread) for one in pipeline.world.store.states(kind)}
    assert max(rounds) == 2


def test_a_page_that_fails_for_a_while_is_fetched_in_the_end(tmp_path: Path) -> None:
    settings = {"ONWARD_FETCH_ALLOW_PRIVATE": "true", "ONWARD_FETCH_SECONDS": "5"}
    with serve() as site, Pipeline(tmp_path / "home", **settings).running() as pipeline:
        url = site.page("/list.mbox", b"overloaded", 503).replace("site.example", "127.0.0.1")
        submit(pipeline.app, url)
        pipeline.world.run_for(4 * MINUTE)
        assert len(site.requests) == 3
        (request,) = pipeline.world.store.states(Archive)
        assert (request.status, request.attempt_count) == ("pending", 1)
        site.page("/list.mbox", _two_threads())
        pipeline.world.run_for(2 * MINUTE)
        pipeline.check_at_rest()
        assert len(pipeline.all(Message)) == 3


def test_messages_are_put_back_with_their_archive(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(_two_threads())
    pipeline.submit(archive)
    pipeline.run("ingestion", "parsing")
    pipeline.drop_waiting("chunking")
    pipeline.world.clock.advance(DAY)
    pipeline.world.retry_job.run()
    (row,) = pipeline.ask("SELECT event_type, data FROM ledger WHERE service = 'chunking' AND state = 'waiting'")
    found = JSONParsed.model_validate_json(row[1])
    assert row[0] == "JSONParsed"
    assert sorted(found.message_doc_ids) == sorted(one.id for one in pipeline.all(Message))
    assert found.archive_id == pipeline.all(Message)[0].archive_id
    pipeline.run(within=HOUR)
    pipeline.check_at_rest()


@pytest.mark.parametrize("service", ("ingestion", "parsing", "chunking", "embedding", "summarization"))
def test_an_event_that_is_lost_delays_but_loses_nothing(pipeline: Pipeline, archive: Path, service: str) -> None:
    """Nothing of ours loses an event; somebody who edits the ledger by hand may."""
    archive.write_bytes(_two_threads())
    pipeline.submit(archive)
    order = ("ingestion", "parsing", "chunking", "embedding", "orchestration", "summarization")
    before = order[: order.index(service)]
    if before:
        pipeline.run(*before)
    pipeline.drop_waiting(service)
    pipeline.world.run_for(23 * HOUR)
    assert not pipeline.all(Summary), "begun rounds are given a day to be heard of"
    pipeline.world.run_for(3 * HOUR)
    pipeline.check_at_rest()
    assert pipeline.status(archive) == "completed"
    assert len(pipeline.all(Summary)) == 2


def test_a_thread_that_is_not_complete_is_left_alone(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(_two_threads())
    pipeline.submit(archive)
    pipeline.run("ingestion", "parsing")
    pipeline.world.clock.advance(2 * DAY)
    run = pipeline.world.retry_job.run(full=True)
    assert run.requeued == {}
    assert run.held_up == len(pipeline.all(Thread)) == 2
    assert {one.attempt_count for one in pipeline.world.store.states(Thread)} == {0}
    pipeline.run(within=HOUR)
    pipeline.check_at_rest()
    assert {one.attempt_count for one in pipeline.world.store.states(Thread)} == {1}


def test_a_thread_without_messages_is_cleared_away(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(_two_threads())
    pipeline.ingest(archive)
    stray = Thread(id="stray", source=pipeline.source(archive), root="nobody@x")
    pipeline.app.add(stray, source=stray.source)
    pipeline.run(within=HOUR)
    assert pipeline.world.store.state(Thread, "stray") is None
    pipeline.check_at_rest()


def test_a_download_is_called_as_its_server_calls_it(tmp_path: Path) -> None:
    settings = {"ONWARD_FETCH_ALLOW_PRIVATE": "true"}
    with serve() as site, Pipeline(tmp_path / "home", **settings).running() as pipeline:
        disposition = "attachment; filename*=UTF-8''pr%C3%BCfung.txt"
        url = site.page("/get", b"The text.", Content_Type="text/plain", Content_Disposition=disposition)
        url = url.replace("site.example", "127.0.0.1")
        submit(pipeline.app, url)
        pipeline.run()
        (message,) = pipeline.all(Message)
        assert message.subject == "prüfung.txt"


def test_an_unreadable_message_whose_bytes_are_gone_stays_failed(pipeline: Pipeline, archive: Path) -> None:
    """Putting it back finds no text; it must not pass for finished."""
    archive.write_bytes(_two_threads())
    pipeline.ingest(archive)
    unread = pipeline.all(Message)[0].model_copy(update={"id": "unread", "blob": "abc", "body": ""})
    pipeline.app.add(unread)
    pipeline.world.store.schedule([("messages", "unread")], pipeline.world.clock.now())
    pipeline.run(within=HOUR)
    state = pipeline.world.store.state(Message, "unread")
    assert state is not None
    assert (state.status, state.attempt_count) == ("failed", 1)
    assert state.last_error is not None
    assert state.last_error["error_type"] == "BlobMissing"


def test_a_chunk_that_recovers_is_found_and_its_summary_is_written_anew(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(_two_threads())
    with ailing(pipeline, "embedding", tries=12):
        pipeline.submit(archive)
        pipeline.run(within=30.0)
        aside = [one for one in pipeline.world.store.states(Chunk) if one.failed_batch]
        assert aside
        not_embedded = {one.message_id for one in pipeline.app.store.get_many(Chunk, [one.id for one in aside])}
        cited = {one.message_id for summary in pipeline.all(Summary) for one in summary.citations}
        assert not_embedded & cited, "a summary is written from the messages, embedded or not"
        assert pipeline.status(archive) == "partially_completed"
        assert sum(one.missing for one in pipeline.all(Summary)) == len(aside)
        pipeline.run(within=2 * HOUR)
    pipeline.check_at_rest()
    assert pipeline.status(archive) == "completed"
    assert sum(one.missing for one in pipeline.all(Summary)) == 0
    assert pipeline.world.store.totals()["failed_batches_retried_total"]["embedding"] >= 1
