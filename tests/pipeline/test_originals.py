"""The bytes of a message are found in whatever took the place of its archive, without reading all of it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward import App
from onward.pipeline.app import build
from onward.pipeline.documents import Archive, Message, Report
from onward.pipeline.read.mbox import RawMessage
from onward.pipeline.sources import collect_blobs, forget, submit
from onward.pipeline.stages import parsing
from onward.pipeline.stages.parsing import ID_BYTES, find_offset, find_original, write_index
from onward.settings import load_settings
from tests.support.pipeline_runs import mail, mbox

MAILS = [mail(str(n), f"Mail number {n}.") for n in range(60)]
NEWEST = mail("new", "The newest.")


@pytest.fixture(params=["folder", "postgres"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[App]:
    """A pipeline in SQLite with blobs in a folder, or all of it in PostgreSQL."""
    given = {"ONWARD_HOME": str(tmp_path / "home")}
    if request.param == "postgres":
        given["ONWARD_STORE"] = request.getfixturevalue("postgres_store_url")
    found = build(load_settings(given))
    yield found
    found.close()


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The offsets of the messages in mailboxes that were looked at."""
    offsets: list[int] = []
    real = parsing.message_id

    def message_id(archive: Archive, raw: RawMessage) -> str:
        offsets.append(raw.offset)
        return real(archive, raw)

    monkeypatch.setattr(parsing, "message_id", message_id)
    return offsets


def ingest(app: App, place: Path, *mails: str) -> None:
    place.write_bytes(mbox(*mails))
    submit(app, str(place))
    app.work_until_idle(["ingestion", "parsing"])


def messages(app: App) -> dict[str, Message]:
    found = app.store.get_many(Message, [one.id for one in app.store.states(Message, limit=1000)])
    return {one.message_id.partition("@")[0]: one for one in found}


@pytest.mark.parametrize(
    ("later", "why"),
    (
        ([*MAILS, NEWEST], "it has grown"),
        ([NEWEST, *MAILS], "a mail was put before all others"),
        ([*MAILS[1:30], NEWEST, *MAILS[30:]], "its first mail is gone, and one came in between"),
        ([*reversed(MAILS), NEWEST], "it was sorted anew"),
    ),
    ids=("grown", "preceded", "changed", "sorted"),
)
def test_one_message_of_a_mailbox_is_looked_at_to_find_an_older_one(
    app: App, archive: Path, looked_at: list[int], later: list[str], why: str
) -> None:
    ingest(app, archive, *MAILS)
    ingest(app, archive, *later)
    known = messages(app)
    assert "new" in known
    for name in ("1", "30", "59", "new"):
        looked_at.clear()
        found = find_original(app, known[name])
        assert found is not None, why
        assert len(looked_at) <= 1, why
        blob, offset, length = found
        with closing(app.blobs.open(blob)) as stream:
            stream.seek(offset)
            assert stream.read(length) == mbox(next(one for one in later if f"<{name}@" in one))


def test_the_index_is_kept_and_goes_with_its_source(app: App, archive: Path) -> None:
    ingest(app, archive, *MAILS[:3])
    ingest(app, archive, *MAILS[:5])
    reports = app.store.get_many(Report, [one.id for one in app.store.states(Report, limit=1000)])
    (index,) = [one.index for one in reports if one.index]
    collect_blobs(app, older_than=-60.0)
    assert app.blobs.find(index) is not None
    forget(app, str(archive))
    assert app.blobs.find(index) is None
    assert list(app.blobs.older_than(-60.0)) == []


@given(st.dictionaries(st.binary(min_size=ID_BYTES, max_size=ID_BYTES), st.integers(0, 2**64 - 1), max_size=50))
def test_an_index_knows_what_it_holds_and_nothing_else(offsets: dict[bytes, int]) -> None:
    table = io.BytesIO()
    write_index(offsets, table)
    assert {id: find_offset(table, id) for id in offsets} == offsets
    for other in (b"\0" * ID_BYTES, b"\xff" * ID_BYTES, b"between".ljust(ID_BYTES)):
        assert find_offset(table, other) == offsets.get(other)
