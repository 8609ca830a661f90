"""Questions over HTTP: passages with their places, or that nothing answers."""

from __future__ import annotations

from urllib.parse import quote

from tests.console.test_api_documents import get
from tests.console.test_api_submitting import assert_problem
from tests.support.command_runs import SAMPLE
from tests.support.console_client import Site


def test_a_passage_answers_with_its_place(library: Site) -> None:
    answer = get(library, f"/v3/ask?q={quote('Why did the tide gauge drift?')}&limit=1")
    assert answer["answered"]
    (best,) = answer["passages"]
    assert "vent tube" in best["text"]
    body = get(library, f"/v3/documents/messages/{best['message_id']}")["content"]["body"]
    assert " ".join(body[best["start"] : best["end"]].split()) == best["text"]


def test_nothing_answers(library: Site) -> None:
    answer = get(library, "/v3/ask?q=who+wrote+Hamlet")
    assert not answer["answered"]
    assert answer["passages"] == []
    assert answer["unknown_words"] == ["Hamlet"]
    assert len(answer["nearest"]) == 3


def test_filters_and_wrong_questions(library: Site) -> None:
    assert not get(library, "/v3/ask?q=why+did+the+gauge+drift&since=2100-01-01")["answered"]
    assert get(library, f"/v3/ask?q=why+did+the+gauge+drift&source={SAMPLE.name}&passages=true")["answered"]
    ask = library.client.get
    assert_problem(ask("/v3/ask"), 422, "q is missing")
    assert_problem(ask("/v3/ask?q=%3F"), 400, "'?'", "give at least one")
    assert_problem(ask("/v3/ask?q=tide&limit=6"), 422, "limit")
    assert_problem(ask("/v3/ask?q=tide&source=nothing"), 404, "'nothing'")


def test_an_empty_store_answers_nothing(site: Site) -> None:
    answer = get(site, "/v3/ask?q=why")
    assert (answer["answered"], answer["nearest"]) == (False, [])
