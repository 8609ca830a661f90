"""Everything that an author sent is found: quotes rank lower, unless there is nothing else."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from onward.ops.queries.document_details import document_facts
from onward.ops.queries.ingestion_report import read_ingestion_report
from onward.ops.queries.status import read_status
from onward.pipeline.documents import Chunk, source_id
from onward.pipeline.search import Query, search
from onward.pipeline.sources import without_text
from tests.support.pipeline_runs import Pipeline, mail, mbox

HEADER = "From: Joe <joe@example.com>\nSent: Monday\nTo: Ann\nSubject: Masts"
MAILS = {
    "original": mail("original", "The walnut mast is broken, send a carpenter."),
    "reply": mail("reply", "He comes tomorrow.\n\nAda wrote:\n> The walnut mast is broken, send a carpenter.\n"),
    "forward": mail("forward", f"{HEADER}\n\nThe pelican was seen again.\n", subject="FW: Masts"),
    "noted": mail("noted", f"FYI\n\n{HEADER}\n\nThe cormorant was seen.\n", subject="WG: Masts"),
    "original-message": mail("original-message", "-----Original Message-----\nFrom: Joe\n\nA heron.\n"),
    "below": mail("below", f"{HEADER}\n\n> A question of ours?\n\nThe answer is a kingfisher.\n"),
    "quotes-alone": mail("quotes-alone", "> The ibis flew off.\n>> So did the stork.\n"),
    "signed": mail("signed", "Thanks.\n-- \nAda, keeper of the flamingos\n"),
    "empty": mail("empty", " \n\n", subject="Nothing inside"),
    **{f"n{n}": mail(f"n{n}", f"Filler number {n} about gardens.", subject=f"Garden {n}") for n in range(8)},
}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def pipeline(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    folder = tmp_path_factory.mktemp("quotes")
    (folder / "list.mbox").write_bytes(mbox(*MAILS.values()))
    store, schema = "", f"t_{secrets.token_hex(6)}"
    if request.param == "postgres":
        store = f"{request.getfixturevalue('postgres_server').url()}?schema={schema}"
    with Pipeline(folder / "home", store=store).running() as running:
        running.ingest(folder / "list.mbox")
        yield running
    if store:
        request.getfixturevalue("postgres_server").execute(f"DROP SCHEMA {schema} CASCADE", "app")


def _found(pipeline: Pipeline, words: str) -> list[str]:
    hits = search(pipeline.app, Query(words), limit=100).hits
    return [one.message.message_id.partition("@")[0] for one in hits if one.text_score > 0]


@pytest.mark.parametrize(
    ("word", "name"),
    (
        ("pelican", "forward"),
        ("cormorant", "noted"),
        ("heron", "original-message"),
        ("kingfisher", "below"),
        ("ibis", "quotes-alone"),
        ("stork", "quotes-alone"),
        ("flamingos", "signed"),
    ),
)
def test_every_word_that_was_sent_is_found(pipeline: Pipeline, word: str, name: str) -> None:
    assert _found(pipeline, word) == [name]
    (hit, *_) = search(pipeline.app, Query(word)).hits
    assert f"\x02{word}\x03" in hit.excerpt


def test_who_said_it_comes_before_who_quotes_it(pipeline: Pipeline) -> None:
    assert _found(pipeline, "walnut carpenter") == ["original", "reply"]
    assert _found(pipeline, '"walnut mast"') == ["original", "reply"]
    assert _found(pipeline, "carpenter -walnut") == []


def _chunks(pipeline: Pipeline) -> dict[str, str]:
    names = {one.id: name for name, one in pipeline.messages().items()}
    found = dict.fromkeys(names.values(), "")
    for chunk in sorted(pipeline.all(Chunk), key=lambda one: one.position):
        found[names[chunk.message_id]] += chunk.text
    return found


def test_what_has_nothing_new_is_chunked_as_a_whole(pipeline: Pipeline) -> None:
    chunks = _chunks(pipeline)
    assert "pelican" in chunks["forward"]
    assert "heron" in chunks["original-message"]
    assert "stork" in chunks["quotes-alone"]


def test_a_forward_is_chunked_with_what_it_forwards(pipeline: Pipeline) -> None:
    assert "FYI" in _chunks(pipeline)["noted"]
    assert "cormorant" in _chunks(pipeline)["noted"]


def test_an_answer_below_the_header_of_what_it_answers_is_chunked(pipeline: Pipeline) -> None:
    assert _chunks(pipeline)["below"] == "The answer is a kingfisher."


def test_quotes_beside_something_new_are_not_chunked_again(pipeline: Pipeline) -> None:
    assert _chunks(pipeline)["reply"] == "He comes tomorrow."


def test_messages_without_text_are_known(pipeline: Pipeline) -> None:
    chunks = _chunks(pipeline)
    assert [name for name, text in chunks.items() if not text] == ["empty"]
    (source,) = pipeline.world.store.sources()
    assert without_text(pipeline.app, source) == [pipeline.messages()["empty"].id]


def test_messages_without_text_are_told_of(pipeline: Pipeline) -> None:
    app, (source,) = pipeline.app, pipeline.world.store.sources()
    empty = pipeline.messages()["empty"].id
    assert read_ingestion_report(app, source, {}).as_dict()["without_text"] == {"total": 1, "ids": [empty]}
    (standing,) = read_status(app).sources
    assert standing["without_text"] == 1
    assert document_facts(app, "archives", source_id(source))["without_text"] == {"total": 1, "ids": [empty]}


def test_what_is_forgotten_or_written_anew_is_not_counted(pipeline: Pipeline, tmp_path: Path) -> None:
    place = tmp_path / "other.mbox"
    place.write_bytes(mbox(mail("blank", ""), mail("other", "Text.")))
    pipeline.ingest(place)
    source = pipeline.source(place)
    assert len(without_text(pipeline.app, source)) == 1
    place.write_bytes(mbox(mail("blank", "Not blank."), mail("other", "Text.")))
    pipeline.ingest(place)
    assert without_text(pipeline.app, source) == []
    pipeline.forget(place)
    assert without_text(pipeline.app, source) == []
