"""An embedder behind HTTP: batches, checks, and errors that the retry ladder can judge."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from onward import Settings
from onward.backend_urls import ModelUnknown, open_embedder
from onward.models.http_models import HTTPEmbedder, ModelHTTPError
from onward.retry import Kind, OnwardError, Permanent, Unavailable, classify
from tests.support.model_server import DIMENSIONS, ModelServer, vector

KEY = "k-7f3a99c1d2"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def embedder(server: ModelServer) -> Iterator[HTTPEmbedder]:
    embedder = HTTPEmbedder(server.url, "small", key=KEY, batch=4, max_tokens=100)
    yield embedder
    embedder.close()


def unit(text: str) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    row = np.array(vector(text), np.float32)
    return row / np.linalg.norm(row)


def refused(embedder: HTTPEmbedder, *texts: str) -> OnwardError:
    with pytest.raises(OnwardError) as caught:
        embedder.embed(texts or ["a text"])
    assert KEY not in str(caught.value) + repr(caught.value) + repr(vars(caught.value))
    return caught.value


# What it does


def test_texts_become_rows_of_length_one(server: ModelServer, embedder: HTTPEmbedder) -> None:
    assert embedder.model == "http:small"
    assert embedder.remote
    assert embedder.dimensions is None
    rows = embedder.embed(["first", "second"])
    assert np.allclose(rows, [unit("first"), unit("second")], atol=1e-6)
    assert embedder.dimensions == DIMENSIONS
    assert server.calls[0].body == {"model": "small", "input": ["first", "second"]}
    assert server.calls[0].headers["Authorization"] == f"Bearer {KEY}"


def test_a_call_carries_no_more_texts_than_it_should(server: ModelServer, embedder: HTTPEmbedder) -> None:
    texts = [f"text {number}" for number in range(10)]
    assert np.allclose(embedder.embed(texts), [unit(text) for text in texts], atol=1e-6)
    assert [len(call.body["input"]) for call in server.calls] == [4, 4, 2]


def test_nor_more_characters(server: ModelServer) -> None:
    embedder = HTTPEmbedder(server.url, "small", max_tokens=100_000, batch=64)
    embedder.embed(["x" * 50_000, "y" * 50_000, "z"])
    embedder.close()
    assert [len(call.body["input"]) for call in server.calls] == [1, 2]


def test_vectors_are_put_in_order_by_their_index(server: ModelServer, embedder: HTTPEmbedder) -> None:
    server.shuffled = True
    texts = ["a", "b", "c", "d"]
    assert np.allclose(embedder.embed(texts), [unit(text) for text in texts], atol=1e-6)


def test_a_text_that_is_too_long_is_embedded_in_parts(server: ModelServer, embedder: HTTPEmbedder) -> None:
    """Nothing is cut off: the parts hold every word, and their mean is the vector."""
    text = " ".join(f"word{number}" for number in range(100))
    (row,) = embedder.embed([text])
    parts = server.embedded
    assert len(parts) > 2
    assert " ".join(parts) == text
    assert all(len(part) <= 300 for part in parts)
    mean = sum(unit(part) * len(part) for part in parts)
    assert np.allclose(row, mean / np.linalg.norm(mean), atol=1e-6)


def test_a_script_of_dense_signs_has_more_tokens_for_its_length(
    server: ModelServer, embedder: HTTPEmbedder
) -> None:
    text = "漢字" * 200
    embedder.embed([text])
    assert "".join(server.embedded) == text
    assert all(len(part) <= 100 for part in server.embedded)


def test_a_blank_text_is_a_zero_vector_and_is_not_sent(server: ModelServer, embedder: HTTPEmbedder) -> None:
    rows = embedder.embed(["", "text", " \n"])
    assert server.embedded == ["text"]
    assert not rows[[0, 2]].any()


def test_nothing_but_blank_texts_still_has_the_right_shape(embedder: HTTPEmbedder) -> None:
    assert embedder.embed(["", " "]).shape == (2, DIMENSIONS)


def test_half_a_character_does_not_stop_the_rest(embedder: HTTPEmbedder) -> None:
    assert np.isfinite(embedder.embed(["\ud800 and more", "text"])).all()


def test_the_idempotency_key_names_each_request(server: ModelServer, embedder: HTTPEmbedder) -> None:
    embedder.embed(["text"] * 5, key="work-1")
    embedder.embed(["text"], key="schlüssel")
    embedder.embed(["text"])
    first, second, third, fourth = (call.headers.get("Idempotency-Key") for call in server.calls)
    assert (first, second, fourth) == ("work-1", "work-1-1", None)
    assert third is not None
    assert third.isascii()


def test_only_so_many_calls_are_made_at_a_time(server: ModelServer) -> None:
    embedder = HTTPEmbedder(server.url, "small", concurrency=2)
    server.hang()
    with ThreadPoolExecutor(6) as threads:
        results = [threads.submit(embedder.embed, [f"text {number}"]) for number in range(6)]
        for _ in range(2):
            assert server.arrived.acquire(timeout=60)
        server.release()
        assert all(len(result.result()) == 1 for result in results)
    embedder.close()
    assert server.most_at_once == 2


# What may go wrong, and how it is judged


def test_an_overloaded_server_is_left_alone_for_as_long_as_it_asks(
    server: ModelServer, embedder: HTTPEmbedder
) -> None:
    server.limited = 1
    judged = classify(refused(embedder))
    assert judged.kind is Kind.TRANSIENT
    assert judged.rate_limited
    assert judged.retry_after == 7
    assert len(embedder.embed(["a text"])) == 1


def test_a_refused_key_opens_the_breaker(server: ModelServer, embedder: HTTPEmbedder) -> None:
    server.key = "another"
    error = refused(embedder)
    assert "Incorrect API key" in str(error)
    judged = classify(error)
    assert judged.opens
    assert judged.remedy is not None
    with pytest.raises(Unavailable, match="401"):
        embedder.healthy()


@pytest.mark.parametrize("status", (500, 502, 503, 408))
def test_an_error_of_the_servers_may_pass(server: ModelServer, embedder: HTTPEmbedder, status: int) -> None:
    server.status = status
    error = refused(embedder)
    assert str(status) in str(error)
    assert "out of order" in str(error)
    assert classify(error).kind is Kind.TRANSIENT
    assert classify(error).unavailable


@pytest.mark.parametrize("status", (400, 413, 422))
def test_a_refused_text_is_final(server: ModelServer, embedder: HTTPEmbedder, status: int) -> None:
    server.status = status
    assert classify(refused(embedder)).kind is Kind.PERMANENT


def test_the_server_says_in_its_own_words_what_is_wrong(server: ModelServer, embedder: HTTPEmbedder) -> None:
    """Which text it was is found by halving the batch, not here: the whole call fails."""
    server.poison = "arsenic"
    error = refused(embedder, "bread", "arsenic and lace")
    assert "input[1] cannot be tokenized: arsenic" in str(error)
    assert classify(error).kind is Kind.PERMANENT
    assert len(server.calls) == 1


@pytest.mark.parametrize("status", (301, 402, 404, 405))
def test_what_only_a_person_can_end_opens_the_breaker(
    server: ModelServer, embedder: HTTPEmbedder, status: int
) -> None:
    """A model that is not there is no document's fault: none is given up for it."""
    server.status = status
    judged = classify(refused(embedder))
    assert judged.kind is Kind.TRANSIENT
    assert judged.opens
    assert judged.dependency == "embedder"
    assert judged.remedy is not None


def test_what_a_server_says_is_bounded_and_holds_no_secrets(server: ModelServer, embedder: HTTPEmbedder) -> None:
    server.status, server.message = 500, f"key {KEY}, password=hunter2, " + "and so on " * 1000
    error = refused(embedder)
    assert "hunter2" not in str(error)
    assert len(str(error)) < 700


def test_the_key_shows_nowhere(embedder: HTTPEmbedder) -> None:
    assert KEY not in repr(embedder)


def test_errors_survive_the_way_between_processes(server: ModelServer, embedder: HTTPEmbedder) -> None:
    server.limited = 1
    error = refused(embedder)
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert classify(again) == classify(error)


def test_a_server_that_is_down_is_named(server: ModelServer, embedder: HTTPEmbedder) -> None:
    assert embedder.healthy()
    server.down()
    error = refused(embedder)
    assert isinstance(error, Unavailable)
    assert error.dependency == "embedder"
    with pytest.raises(Unavailable):
        embedder.healthy()
    server.up()
    assert embedder.healthy()
    assert len(embedder.embed(["a text"])) == 1


def test_so_is_one_that_closes_the_connection(server: ModelServer, embedder: HTTPEmbedder) -> None:
    server.reset = True
    assert isinstance(refused(embedder), Unavailable)
    with pytest.raises(Unavailable):
        embedder.healthy()


def test_so_is_one_that_does_not_answer(server: ModelServer) -> None:
    embedder = HTTPEmbedder(server.url, "small", read_timeout=0.05)
    server.hang()
    assert "Timeout" in str(refused(embedder))
    embedder.close()


def test_so_is_one_that_answers_something_else(server: ModelServer, embedder: HTTPEmbedder) -> None:
    server.raw = b"<html>Please log in to the network</html>"
    error = refused(embedder)
    assert isinstance(error, Unavailable)
    assert "Please log in" in str(error)


def test_a_server_that_lists_no_models_is_up_all_the_same(server: ModelServer, embedder: HTTPEmbedder) -> None:
    server.lists_models = False
    assert embedder.healthy()


@pytest.mark.parametrize(
    ("answer", "what"),
    (
        (b'{"data": []}', "0 vectors for 2 texts"),
        (b'{"object": "list"}', "no list of vectors"),
        (b'{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}', "indexes"),
        (b'{"data": [{"embedding": []}, {"embedding": []}]}', "empty vectors"),
        (b'{"data": [{"embedding": [1, NaN]}, {"embedding": [1, 2]}]}', "not finite"),
        (b'{"data": [{"embedding": [1, 2]}, {"embedding": [1]}]}', "not rows of numbers"),
        (b'{"data": [{"embedding": ["one"]}, {"embedding": ["two"]}]}', "not rows of numbers"),
        (b'{"data": [{"index": 0}, {"index": 1}]}', "not rows of numbers"),
    ),
)
def test_vectors_that_are_none_are_refused(
    server: ModelServer, embedder: HTTPEmbedder, answer: bytes, what: str
) -> None:
    server.raw = answer
    error = refused(embedder, "one", "two")
    assert what in str(error)
    assert isinstance(error, Permanent)


@pytest.mark.parametrize("missing", (1, -1))
def test_so_is_a_wrong_number_of_them(server: ModelServer, embedder: HTTPEmbedder, missing: int) -> None:
    server.missing_vectors = missing
    assert f"{2 - missing} vectors for 2 texts" in str(refused(embedder, "one", "two"))


def test_so_are_vectors_of_another_length_than_before(server: ModelServer, embedder: HTTPEmbedder) -> None:
    embedder.embed(["before"])
    server.dimensions = 8
    error = refused(embedder)
    assert "8 dimensions, after others of 16" in str(error)
    assert isinstance(error, Permanent)


def test_a_share_of_failures_is_drawn_the_same_way_each_time() -> None:
    def outcomes() -> list[bool]:
        with ModelServer(fail_share=0.5, seed=3) as server:
            embedder = HTTPEmbedder(server.url, "small")
            found = []
            for number in range(20):
                try:
                    found.append(len(embedder.embed([f"text {number}"])) == 1)
                except ModelHTTPError:
                    found.append(False)
            embedder.close()
            return found

    first = outcomes()
    assert 0 < sum(first) < 20
    assert outcomes() == first


# Settings that make no sense


def test_a_server_needs_the_name_of_a_model() -> None:
    with pytest.raises(ModelUnknown, match="set ONWARD_EMBEDDER_MODEL"):
        open_embedder(Settings(embedder="http://localhost:11434/v1"))
    url = "http://localhost:11434/v1"
    settings = Settings(embedder=url, embedder_model="small", embedder_batch=3, embedder_max_tokens=99)
    embedder = open_embedder(settings)
    assert isinstance(embedder, HTTPEmbedder)
    assert (embedder.model, embedder.batch, embedder.max_tokens) == ("http:small", 3, 99)
    embedder.close()


def test_an_unknown_embedder_names_what_there_is() -> None:
    with pytest.raises(ModelUnknown, match=r"ONWARD_EMBEDDER='sttic' names no embedder; use 'static'"):
        open_embedder(Settings(embedder="sttic"))


def test_a_key_that_cannot_be_one_is_refused_but_not_shown() -> None:
    with pytest.raises(ValueError, match="was it copied whole") as caught:
        HTTPEmbedder("http://localhost:1/v1", "small", key="secret\n")
    assert "secret" not in str(caught.value)
    with pytest.raises(ValueError, match="give one like http"):
        HTTPEmbedder("localhost:1/v1", "small")
