"""Search finds messages by words and meaning, in the same order on every page, whatever is asked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onward import OnwardError
from onward.pipeline.query_language import EmptyQuery, QueryError
from onward.pipeline.search import Query, Results, search, similar
from tests.support.pipeline_runs import Pipeline, mail, mbox

ATTACHED = """Content-Type: multipart/mixed; boundary=x

--x
Content-Type: text/plain

See the notes.
--x
Content-Type: text/plain; name=notes.txt
Content-Disposition: attachment; filename=notes.txt

The zeppelin leaves at noon.
--x--
"""
MAILS = mbox(
    mail("1", "The harbour is frozen, no ship can leave.", subject="Winter in the harbour"),
    mail(
        "2",
        "> The harbour is frozen, no ship can leave.\nThen we take the railway.",
        subject="Re: Winter",
        author="Bert <bert@example.org>",
        date="Tue, 3 Mar 2026 10:00:00 +0000",
        references=["1"],
    ),
    mail("3", "A railway is slower than a ship.", subject="Travel", date="Wed, 4 Mar 2026 10:00:00 +0000"),
    "From: Carla <carla@example.org>\nDate: Thu, 5 Mar 2026 10:00:00 +0000\n"
    "Subject: Notes\nMessage-ID: <4@example.org>\n" + ATTACHED,
    *(mail(f"n{n}", f"Filler number {n} about gardens.", subject=f"Garden {n}") for n in range(25)),
)
OTHER = mbox(mail("other", "Another harbour, far away.", subject="Elsewhere"))


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """One archive for all tests here: searching changes nothing."""
    folder = tmp_path_factory.mktemp("search")
    (folder / "list.mbox").write_bytes(MAILS)
    (folder / "other.mbox").write_bytes(OTHER)
    with Pipeline(folder / "home").running() as running:
        running.ingest(folder / "list.mbox")
        running.ingest(folder / "other.mbox")
        yield running


def _names(found: Results) -> list[str]:
    return [hit.message.message_id.partition("@")[0] for hit in found.hits if hit.text_score > 0]


def _find(pipeline: Pipeline, text: str, **filters: object) -> set[str]:
    return set(_names(search(pipeline.app, Query(text, **filters), limit=100)))  # type: ignore[arg-type]


def _day(day: int) -> float:
    return datetime.fromisoformat(f"2026-03-{day:02}T00:00:00+00:00").timestamp()


def test_words_are_found_in_subjects_and_in_what_was_written(pipeline: Pipeline) -> None:
    assert _find(pipeline, "railway") == {"2", "3"}
    assert _find(pipeline, "winter") == {"1", "2"}
    assert _find(pipeline, "RAILWAYS") == {"2", "3"}, "neither case nor ending matters"


def test_what_is_quoted_is_found_where_it_was_said_first(pipeline: Pipeline) -> None:
    assert _names(search(pipeline.app, Query("frozen"))) == ["1", "2"]


def test_attachments_are_found(pipeline: Pipeline) -> None:
    assert _find(pipeline, "zeppelin") == {"4"}


def test_a_phrase_is_found_as_a_whole(pipeline: Pipeline) -> None:
    assert _find(pipeline, '"no ship"') == {"1", "2"}
    assert _find(pipeline, '"ship no"') == set()


def test_what_is_excluded_is_not_found(pipeline: Pipeline) -> None:
    assert _find(pipeline, "railway -slower") == {"2"}
    assert _find(pipeline, 'ship -"can leave"') == {"3"}
    everything = search(pipeline.app, Query("harbour ship -railway"), limit=100)
    assert {hit.message.message_id for hit in everything.hits} == {"1@example.org", "other@example.org"}


@pytest.mark.parametrize(
    ("filters", "found"),
    (
        ({"author": "bert"}, {"2"}),
        ({"author": "%"}, set()),
        ({"author": "ada@example.org"}, {"3"}),
        ({"since": _day(4)}, {"3"}),
        ({"until": _day(4)}, {"2"}),
        ({"since": _day(3), "until": _day(4)}, {"2"}),
        ({"since": _day(20)}, set()),
    ),
    ids=str,
)
def test_filters_narrow_what_is_found(pipeline: Pipeline, filters: dict[str, object], found: set[str]) -> None:
    assert _find(pipeline, "railway", **filters) == found


def test_only_one_thread_or_one_source_is_searched_if_asked(pipeline: Pipeline) -> None:
    assert _find(pipeline, "harbour winter", thread=pipeline.messages()["1"].thread_id) == {"1", "2"}
    (source,) = [one for one in pipeline.world.store.sources() if one.endswith("other.mbox")]
    assert _find(pipeline, "harbour", source=source) == {"other"}
    every = search(pipeline.app, Query("harbour ship travel", source=source), limit=100)
    assert {hit.message.source for hit in every.hits} == {source}, "also of what is only near in meaning"


def test_what_matches_is_marked(pipeline: Pipeline) -> None:
    (hit,) = search(pipeline.app, Query("frozen")).hits[:1]
    assert "\x02frozen\x03" in hit.excerpt
    (hit,) = search(pipeline.app, Query("travel")).hits[:1]
    assert hit.title == "\x02Travel\x03"


@pytest.mark.parametrize("sort", ("relevance", "date"))
def test_pages_are_disjoint_and_complete_and_in_one_order(
    pipeline: Pipeline, sort: Literal["relevance", "date"]
) -> None:
    query = Query("garden number filler", sort=sort)
    whole = [hit.message.id for hit in search(pipeline.app, query, limit=1_000).hits]
    assert len(whole) >= 25
    pages = [search(pipeline.app, query, limit=4, offset=start) for start in range(0, len(whole) + 4, 4)]
    assert [hit.message.id for page in pages for hit in page.hits] == whole
    assert {page.total for page in pages} == {len(whole)}
    assert len(set(whole)) == len(whole)


def test_what_is_found_is_the_same_before_and_after_packing(
    pipeline: Pipeline, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Another archive, so that the index of the first one stays as it is."""
    folder = tmp_path_factory.mktemp("packed")
    (folder / "list.mbox").write_bytes(MAILS)
    queries = [
        Query(text)
        for text in ("frozen harbour", "railway", '"no ship"', "from:bert ship", "has:attachment", "gard*")
    ]
    with Pipeline(folder / "home").running() as running:
        running.ingest(folder / "list.mbox")
        waiting = [search(running.app, query, limit=100, facets=True, explain=True) for query in queries]
        running.world.store.pack_index(everything=True)
        packed = [search(running.app, query, limit=100, facets=True, explain=True) for query in queries]
    assert all(one.hits for one in waiting)
    assert packed == waiting


def test_facets_count_what_matches(pipeline: Pipeline) -> None:
    facets = search(pipeline.app, Query("railway harbour"), facets=True, limit=1).facets
    assert [count for _, count in facets["year"]] == [search(pipeline.app, Query("railway harbour")).total]
    authors = {name.partition(" ")[0]: count for name, count in facets["author"]}
    assert authors["Bert"] == 1
    assert len(facets["source"]) == 2


def test_messages_about_the_same_are_found(pipeline: Pipeline) -> None:
    about = similar(pipeline.app, pipeline.messages()["1"].id)
    assert "1" not in _names(about)
    assert {"2", "other"} & set(_names(about)), "they have the harbour in common"
    assert similar(pipeline.app, "missing").hits == []


HOSTILE = (
    '"', '""', "*", "har*", "NEAR(", "NEAR(a b, 2)", "-", "--", "-a", "AND", "OR NOT", "title : x",
    "title:harbour", "^harbour", "{title} : x", "(", ")", "a)", '"unclosed', '-"unclosed', "🚢", "🚢 harbour",
    "\x00", "har\x00bour", '"a\x00b"', "\ud800", "har\ud800bour", "'; DROP TABLE texts; --", "x" * 10_000,
    "x " * 5_000, '" ' * 5_000, "a OR b" * 2_000, "\x02\x03", "+", "a+b", "ﬁ", "İ", "\u0301", "_", "-_",
    "harbour -🚢", 'harbour -"\x00"', "harbour -a\x00", "%", "\\", "",
)  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text)[:20])
def test_whatever_is_asked_is_answered_or_refused_politely(pipeline: Pipeline, text: str) -> None:
    assert _refusal(pipeline, Query(text)) in (None, EmptyQuery)


@given(st.text(st.characters() | st.sampled_from('"*-() :^+NEARORT'), max_size=40))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_text_is_answered_or_refused_politely(pipeline: Pipeline, text: str) -> None:
    refused = _refusal(pipeline, Query(text, author=text, thread=text))
    assert refused is None or issubclass(refused, QueryError)


def _refusal(pipeline: Pipeline, query: Query) -> type[OnwardError] | None:
    try:
        search(pipeline.app, query)
    except OnwardError as error:
        return type(error)
    return None
