"""A reranker orders the best hits of a search anew, on every page; one that fails changes nothing and is named."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onward.pipeline.reranking import MAX_PASSAGE, REASON, RERANKED
from onward.pipeline.search import Query, Results, search
from onward.settings import SettingsError, load_settings
from tests.docs.test_examples import ROOT, blocks
from tests.support.model_server import ModelServer
from tests.support.pipeline_runs import Pipeline, mail, mbox
from tests.support.small_models import VOCABULARY, write_tokenizer

PAGE = ROOT / "docs" / "how-to" / "rerank.md"
HITS = RERANKED + 10


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    """More mails about a harbour than are reranked; number 7 has a key, number 8 is long."""
    folder = tmp_path_factory.mktemp("rerank")
    bodies = [f"The harbour, number {n}." + " It is far away." * (n >= 40) for n in range(HITS)]
    bodies[7] += " A key."
    bodies[8] = "word " * 900 + "The harbour is here, and the end."
    mails = [mail(str(n), body, subject=f"Number {n}") for n, body in enumerate(bodies)]
    (folder / "list.mbox").write_bytes(mbox(*mails))
    with Pipeline(folder / "home").running() as running:
        running.ingest(folder / "list.mbox")
        yield running


@pytest.fixture
def pipeline(archive: Pipeline) -> Iterator[Pipeline]:
    yield archive
    archive.app.reranker = None


def names(found: Results) -> list[str]:
    return [hit.message.message_id.partition("@")[0] for hit in found.hits]


def by_key(query: str, passages: Sequence[str]) -> list[float]:
    return [float("key" in passage) for passage in passages]


def test_the_best_hits_are_ordered_by_the_reranker_on_every_page(pipeline: Pipeline) -> None:
    query = Query("the harbour")
    before = names(search(pipeline.app, query, limit=HITS))
    pipeline.app.reranker = by_key
    after = search(pipeline.app, query, limit=HITS)
    assert 30 < before.index("7") < RERANKED
    assert names(after)[0] == "7"
    assert names(after)[1:] == [name for name in before if name != "7"], (
        "of equal ones, the better hit comes first"
    )
    assert [hit.score for hit in after.hits] == sorted((hit.score for hit in after.hits), reverse=True)
    pages = [names(search(pipeline.app, query, limit=7, offset=offset)) for offset in range(0, HITS, 7)]
    assert [name for page in pages for name in page] == names(after)
    assert after.note == ""


def test_it_gets_the_query_without_operators_and_the_text_around_the_match(pipeline: Pipeline) -> None:
    asked: list[tuple[str, Sequence[str]]] = []

    def record(query: str, passages: Sequence[str]) -> list[float]:
        asked.append((query, passages))
        return [0.0] * len(passages)

    pipeline.app.reranker = record
    search(pipeline.app, Query("where is the harbour -crane after:2020"))
    ((query, passages),) = asked
    assert query == "where is the harbour"
    assert len(passages) == RERANKED
    assert all(passage.startswith("Number ") for passage in passages)
    assert max(map(len, passages)) <= MAX_PASSAGE + 100
    found = search(pipeline.app, Query("harbour end"), limit=1)
    assert names(found) == ["8"]
    assert any(passage.startswith("Number 8\n") and passage.endswith("the end.") for passage in asked[1][1])


def test_its_scores_are_explained(pipeline: Pipeline) -> None:
    pipeline.app.reranker = by_key
    best = search(pipeline.app, Query("harbour"), limit=1, explain=True).hits[0]
    assert best.reasons[-1] == (REASON, 1.0)


def test_it_is_not_asked_for_lists_by_date_or_later_pages(pipeline: Pipeline) -> None:
    def refuse(query: str, passages: Sequence[str]) -> list[float]:
        raise AssertionError("it is asked")

    pipeline.app.reranker = refuse
    assert search(pipeline.app, Query("harbour", sort="date")).note == ""
    assert search(pipeline.app, Query("harbour"), offset=RERANKED).note == ""
    assert search(pipeline.app, Query("xylophone")).note == ""


@pytest.mark.parametrize(
    ("scores", "why"),
    (([1.0], f"1 scores for {RERANKED} passages"), ([float("nan")] * RERANKED, "each needs one finite number")),
)
def test_wrong_scores_change_nothing(pipeline: Pipeline, scores: list[float], why: str) -> None:
    before = names(search(pipeline.app, Query("harbour")))
    pipeline.app.reranker = lambda query, passages: scores
    after = search(pipeline.app, Query("harbour"))
    assert names(after) == before
    assert "not reranked" in after.note
    assert why in after.note


# -- named by the settings


@pytest.fixture
def named(archive: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipeline]:
    """The archive, with a reranker that the settings name; its module is in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = archive.app.settings
    archive.app._settings = before.model_copy(update={"reranker": "my_reranker:rerank"})
    yield archive
    archive.app._settings, archive.app.reranker = before, None
    sys.modules.pop("my_reranker", None)


def test_the_server_of_the_example(named: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer(relevance=lambda query, passage: float("key" in passage)) as server:
        monkeypatch.setenv("RERANK_URL", server.url)
        monkeypatch.setenv("RERANK_MODEL", "judge")
        Path("my_reranker.py").write_text(blocks(PAGE, "python")[1])
        found = search(named.app, Query("harbour"))
        assert (names(found)[0], found.note) == ("7", "")
        assert server.calls[-1].body["model"] == "judge"
        server.status = 500
        failed = search(named.app, Query("harbour"))
        assert "not reranked: the reranker cannot be used (HTTPStatusError" in failed.note
        sys.modules["my_reranker"].client.close()


def test_the_cross_encoder_of_the_example(
    named: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSS_ENCODER", str(write_cross_encoder(tmp_path / "model")))
    Path("my_reranker.py").write_text(blocks(PAGE, "python")[2])
    found = search(named.app, Query("harbour"))
    assert (names(found)[0], found.note) == ("7", "")


def write_cross_encoder(folder: Path) -> Path:
    """Write a model whose score of a pair is the number of its tokens `key`."""
    write_tokenizer(folder)
    weights = np.zeros((len(VOCABULARY), 1), dtype=np.float32)
    weights[VOCABULARY["key"]] = 1.0
    inputs = ("input_ids", "attention_mask", "token_type_ids")
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["weights", "input_ids"], ["tokens"]),
            helper.make_node("ReduceSum", ["tokens", "axes"], ["logits"], keepdims=0),
        ],
        "judge",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in inputs],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1])],
        [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(np.array([1]), "axes")],
    )
    (folder / "onnx").mkdir()
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, folder / "onnx" / "model.onnx")
    return folder


def test_one_that_is_not_there_is_named(named: Pipeline) -> None:
    found = search(named.app, Query("harbour"))
    assert found.hits
    assert "there is no module 'my_reranker'" in found.note


def test_a_setting_that_names_no_function_is_refused() -> None:
    with pytest.raises(SettingsError, match="ONWARD_RERANKER is 'rerank', but must be a function"):
        load_settings({"ONWARD_RERANKER": "rerank"})
