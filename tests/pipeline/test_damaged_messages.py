"""Messages with defects are counted and listed at the end of an ingest, by what is wrong with them."""

from __future__ import annotations

from pathlib import Path

from onward.ops.queries.document_details import document_facts
from onward.ops.queries.ingestion_report import DamagedMessages, read_ingestion_report
from onward.pipeline.documents import source_id
from tests.support.pipeline_runs import Pipeline, mail, mbox

SOUND = mail("sound", "Text.")
BAD_DATES = [mail(name, "Text.", date="tomorrow") for name in ("one", "two")]
GUESSED = mail("guessed", "Text.", headers="Content-Type: text/plain; charset=no-such-charset\n")


def test_they_are_counted_by_their_defects(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(mbox(SOUND, GUESSED, *BAD_DATES))
    pipeline.ingest(archive)
    ids = {name: message.id for name, message in pipeline.messages().items()}
    source = pipeline.source(archive)
    damaged = read_ingestion_report(pipeline.app, source, {}).damaged
    assert set(damaged.ids) == {ids["one"], ids["two"], ids["guessed"]}
    assert damaged.defects == {"bad date 'tomorrow'": 2, "unknown charset 'no-such-charset'": 1}
    assert str(damaged).startswith("3 messages with defects: 2 × bad date 'tomorrow', 1 × unknown charset")
    assert document_facts(pipeline.app, "archives", source_id(source))["damaged"] == damaged.as_dict()

    archive.write_bytes(mbox(SOUND, BAD_DATES[0]))
    pipeline.ingest(archive)
    assert read_ingestion_report(pipeline.app, source, {}).damaged.ids == [ids["one"]]


def test_only_the_most_frequent_defects_are_named() -> None:
    defects = {"no date": 4, "encrypted": 3, "damaged base64": 2, "too many boundaries": 1}
    shown = "5 messages with defects: 4 × no date, 3 × encrypted, 2 × damaged base64, …"
    assert str(DamagedMessages(["a"] * 5, defects)) == shown
