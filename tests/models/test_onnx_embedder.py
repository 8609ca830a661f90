"""An ONNX model from a folder: pooled as its files say, the same vector in every batch, with bounded threads."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from onward import Settings, Unavailable
from onward.backend_urls import open_embedder
from onward.models import onnx_embedder
from onward.models.onnx_embedder import OnnxEmbedder, pool
from onward.settings import MissingExtra
from tests.support.small_models import (
    DIMENSIONS,
    VOCABULARY,
    WORDS,
    token_vectors,
    tokens_of,
    write_dense,
    write_json,
    write_onnx_model,
)

TEXTS = st.lists(st.lists(st.sampled_from((*WORDS, "unheard")), max_size=30).map(" ".join), max_size=12)


def open_model(folder: Path, **settings: object) -> OnnxEmbedder:
    embedder = open_embedder(Settings.model_validate({"embedder": f"local:{folder}", **settings}))
    assert isinstance(embedder, OnnxEmbedder)
    return embedder


def between_marks(text: str, most: int = 16) -> list[int]:
    return [VOCABULARY["[CLS]"], *tokens_of(text)[: most - 2], VOCABULARY["[SEP]"]]


def unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    return vector / np.linalg.norm(vector)


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> OnnxEmbedder:
    return open_model(write_onnx_model(tmp_path_factory.mktemp("model")))


def test_a_text_is_the_mean_of_its_tokens_with_length_one(embedder: OnnxEmbedder) -> None:
    (row,) = embedder.embed(["the ship : a door"])
    expected = unit(token_vectors()[between_marks("the ship : a door")].mean(axis=0))
    np.testing.assert_allclose(row, expected, atol=1e-6)
    assert row.dtype == np.float32


@given(texts=TEXTS)
def test_a_vector_is_the_same_in_every_batch(embedder: OnnxEmbedder, texts: list[str]) -> None:
    rows = embedder.embed(texts)
    assert rows.shape == (len(texts), DIMENSIONS)
    for text, row in zip(texts, rows, strict=True):
        np.testing.assert_array_equal(row, embedder.embed([text])[0])
        assert np.linalg.norm(row) == pytest.approx(1.0 if text else 0.0, abs=1e-6)


def test_blank_texts_are_zero_even_if_all_are(embedder: OnnxEmbedder) -> None:
    rows = embedder.embed(["", "ship", " \n"])
    assert [row.any() for row in rows] == [False, True, False]
    assert embedder.embed(["", "\t"]).tolist() == np.zeros((2, DIMENSIONS)).tolist()
    assert embedder.embed([]).shape == (0, DIMENSIONS)


def test_nothing_breaks_it(embedder: OnnxEmbedder) -> None:
    rows = embedder.embed(["x" * 100_000, "\ud800 half a character", "[SEP] [PAD]", "\x00", "ship " * 100_000])
    assert np.isfinite(rows).all()


def test_marks_in_a_text_are_words_of_the_text(embedder: OnnxEmbedder) -> None:
    row = embedder.embed(["ship [SEP] door"])[0]
    assert not np.allclose(row, unit(token_vectors()[[2, 5, 3, 10, 3]].mean(axis=0)))


def test_a_longer_text_is_cut_at_the_maximum_of_the_model_or_of_the_settings(tmp_path: Path) -> None:
    folder = write_onnx_model(tmp_path / "model", max_tokens=6)
    embedder = open_model(folder)
    assert embedder.max_tokens == 6
    expected = unit(token_vectors()[between_marks("ship door key crane harbour", 6)].mean(axis=0))
    np.testing.assert_allclose(embedder.embed(["ship door key crane harbour"])[0], expected, atol=1e-6)
    assert open_model(folder, embedder_max_tokens=4).max_tokens == 4


def test_long_batches_are_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = open_model(write_onnx_model(tmp_path / "model"), embedder_batch=3)
    sizes: list[tuple[int, int]] = []
    run = OnnxEmbedder._run

    def count(self: OnnxEmbedder, loaded: onnx_embedder.Graph, tokens: Sequence[list[int]]) -> NDArray[np.float32]:
        sizes.append((len(tokens), max(map(len, tokens))))
        return run(self, loaded, tokens)

    monkeypatch.setattr(OnnxEmbedder, "_run", count)
    monkeypatch.setattr(onnx_embedder, "MAX_BATCH_TOKENS", 20)
    embedder.embed(["ship"] * 5 + ["ship " * 10] * 2)
    assert sizes == [(1, 12), (1, 12), (3, 3), (2, 3)], "the longest first, at most 3 texts and 20 tokens"


def test_a_graph_that_scales_a_whole_batch_gets_one_text_at_a_time(tmp_path: Path) -> None:
    embedder = open_model(write_onnx_model(tmp_path / "model", scales_batches=True))
    texts = ["ship", "door key", "crane : harbour"]
    alone = [embedder.embed([text])[0] for text in texts]
    np.testing.assert_array_equal(embedder.embed(texts), alone)


def test_queries_and_documents_get_the_prompts_of_the_model(tmp_path: Path) -> None:
    plain = open_model(write_onnx_model(tmp_path / "plain"))
    prompts = {"query": "query : ", "passage": "passage : "}
    prompted = open_model(write_onnx_model(tmp_path / "prompted", prompts=prompts))
    np.testing.assert_array_equal(prompted.embed(["ship"]), plain.embed(["passage : ship"]))
    np.testing.assert_array_equal(prompted.embed(["ship"], query=True), plain.embed(["query : ship"]))
    np.testing.assert_array_equal(plain.embed(["ship"], query=True), plain.embed(["ship"]))
    assert not prompted.embed([" "], query=True).any(), "a prompt alone is no text"
    assert prompted.model != plain.model, "another prompt of documents is another vector space"


def test_other_weights_are_another_vector_space_wherever_the_folder_is(tmp_path: Path) -> None:
    names = {
        "one": open_model(write_onnx_model(tmp_path / "one")).model,
        "same": open_model(write_onnx_model(tmp_path / "elsewhere" / "same")).model,
        "trained": open_model(write_onnx_model(tmp_path / "trained", seed=2)).model,
        "pooled": open_model(write_onnx_model(tmp_path / "pooled", pooling={"pooling_mode": "cls"})).model,
    }
    assert names["one"] == names["same"]
    assert len(set(names.values())) == 3
    assert names["one"].startswith("local:bert-")


def test_a_dense_layer_follows_pooling(tmp_path: Path) -> None:
    kinds = (("Transformer", ""), ("Pooling", "1_Pooling"), ("Dense", "2_Dense"))
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in kinds]
    folder = write_onnx_model(tmp_path / "model", modules=modules)
    weight, bias = token_vectors(3)[:4], token_vectors(4)[0, :4]
    write_dense(folder / "2_Dense", weight, bias, "Tanh")
    mean = token_vectors()[between_marks("ship door")].mean(axis=0)
    (row,) = open_model(folder).embed(["ship door"])
    np.testing.assert_allclose(row, unit(np.tanh(weight @ mean + bias)), atol=1e-6)


def test_a_graph_that_pools_by_itself_is_not_pooled_again(tmp_path: Path) -> None:
    (row,) = open_model(write_onnx_model(tmp_path / "model", pools=True)).embed(["ship door"])
    np.testing.assert_allclose(row, unit(token_vectors()[between_marks("ship door")].mean(axis=0)), atol=1e-6)


TOKENS = np.array([[[1, 9], [2, 8], [30, 70]], [[4, 6], [5, 50], [6, 4]]], np.float32)
MASK = np.array([[1, 1, 0], [1, 1, 1]])


@pytest.mark.parametrize(
    ("modes", "expected"),
    (
        (("mean",), [[1.5, 8.5], [5, 20]]),
        (("cls",), [[1, 9], [4, 6]]),
        (("lasttoken",), [[2, 8], [6, 4]]),
        (("max",), [[2, 9], [6, 50]]),
        (("mean_sqrt_len_tokens",), [[3 / 2**0.5, 17 / 2**0.5], [15 / 3**0.5, 60 / 3**0.5]]),
        (("weightedmean",), [[5 / 3, 25 / 3], [32 / 6, 118 / 6]]),
        (("cls", "mean"), [[1, 9, 1.5, 8.5], [4, 6, 5, 20]]),
    ),
)
def test_tokens_are_pooled_without_padding(modes: tuple[str, ...], expected: list[list[float]]) -> None:
    np.testing.assert_allclose(pool(TOKENS, MASK, modes), expected, rtol=1e-6)


def test_only_the_inputs_of_the_graph_are_given(tmp_path: Path) -> None:
    folder = write_onnx_model(tmp_path / "model", inputs=("input_ids",))
    assert open_model(folder).embed(["ship"]).any()


def test_a_graph_with_other_inputs_is_refused_as_an_outage_that_needs_a_person(tmp_path: Path) -> None:
    embedder = open_model(write_onnx_model(tmp_path / "model", inputs=("input_ids", "past_keys")))
    with pytest.raises(Unavailable, match="wants the inputs past_keys") as caught:
        embedder.embed(["ship"])
    assert caught.value.opens
    with pytest.raises(Unavailable, match="task feature-extraction"):
        embedder.healthy()


def test_a_graph_that_is_damaged_names_its_file(tmp_path: Path) -> None:
    folder = write_onnx_model(tmp_path / "model")
    (folder / "onnx" / "model.onnx").write_bytes(b"nothing")
    with pytest.raises(Unavailable, match=r"onnx/model\.onnx cannot be run"):
        open_model(folder).embed(["ship"])


def test_it_uses_as_many_threads_as_were_asked_for(tmp_path: Path) -> None:
    folder = write_onnx_model(tmp_path / "model")
    one = open_model(folder, embedder_threads=1)
    assert one.threads == 1
    options = one.load().session.get_session_options()
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (1, 1)
    assert open_model(folder).threads >= 1


def test_threads_take_turns(embedder: OnnxEmbedder) -> None:
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda _: embedder.embed(["ship", "door key"]), range(8)))
    for rows in results:
        np.testing.assert_array_equal(rows, results[0])


def test_a_closed_model_is_loaded_again(tmp_path: Path) -> None:
    embedder = open_model(write_onnx_model(tmp_path / "model"))
    before = embedder.embed(["ship"])
    embedder.close()
    assert embedder.healthy()
    np.testing.assert_array_equal(embedder.embed(["ship"]), before)


def test_without_the_runtime_the_error_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_onnx_model(tmp_path / "model")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'onward\[local-models\]'"):
        open_model(folder)


def test_weights_that_compute_no_numbers_fail_the_text(tmp_path: Path) -> None:
    folder = write_onnx_model(tmp_path / "model", pooling={"pooling_mode": "mean"})
    write_json(folder / "1_Pooling" / "config.json", {"pooling_mode": "mean"})
    embedder = open_model(folder)
    embedder.compute = lambda *_: np.full((1, 2), np.nan, np.float32)  # type: ignore[method-assign]
    with pytest.raises(Exception, match="computes no numbers"):
        embedder.embed(["ship"])
