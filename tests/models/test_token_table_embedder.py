"""Models that are a table of token vectors: model2vec, and StaticEmbedding of sentence-transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onward import Settings, Unavailable
from onward.backend_urls import open_embedder
from onward.models.token_table_embedder import TokenTableEmbedder
from tests.support.small_models import (
    DIMENSIONS,
    VOCABULARY,
    token_vectors,
    tokens_of,
    write_json,
    write_table_model,
)

TEXT = "harbour ship unheard key"
KNOWN = [token for token in tokens_of(TEXT) if token != VOCABULARY["[UNK]"]]


def open_model(folder: Path) -> TokenTableEmbedder:
    embedder = open_embedder(Settings(embedder=f"local:{folder}"))
    assert isinstance(embedder, TokenTableEmbedder)
    return embedder


def unit(rows: list[int]) -> list[float]:
    mean = token_vectors()[rows].mean(axis=0)
    return list(mean / np.linalg.norm(mean))


def test_a_text_is_the_mean_of_the_tokens_that_are_known(tmp_path: Path) -> None:
    embedder = open_model(write_table_model(tmp_path / "model"))
    rows = embedder.embed([TEXT, "", "unheard"])
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows[0], unit(KNOWN), atol=1e-6)
    assert not rows[1:].any(), "blank, or without a token that has a vector"
    assert embedder.model.startswith("local:model2vec-")


def test_a_static_embedding_of_sentence_transformers_keeps_unknown_tokens(tmp_path: Path) -> None:
    folder = write_table_model(tmp_path / "model", name="embedding.weight")
    write_json(folder / "modules.json", [{"type": "sentence_transformers.models.StaticEmbedding", "path": ""}])
    np.testing.assert_allclose(open_model(folder).embed([TEXT])[0], unit(tokens_of(TEXT)), atol=1e-6)


def test_tokens_may_share_rows_and_have_weights(tmp_path: Path) -> None:
    few = token_vectors(2)[:3]
    mapping = np.arange(len(VOCABULARY)) % 3
    weights = np.linspace(0.5, 2.0, len(VOCABULARY))
    folder = write_table_model(tmp_path / "model", vectors=few, mapping=mapping, weights=weights)
    expected = (few[mapping[KNOWN]] * weights[KNOWN][:, None]).mean(axis=0)
    row = open_model(folder).embed([TEXT])[0]
    np.testing.assert_allclose(row, expected / np.linalg.norm(expected), atol=1e-6)


def test_a_table_of_16_bits_is_used_as_it_is(tmp_path: Path) -> None:
    embedder = open_model(write_table_model(tmp_path / "model", vectors=token_vectors().astype(np.float16)))
    np.testing.assert_allclose(embedder.embed([TEXT])[0], unit(KNOWN), atol=1e-3)
    assert embedder.load().vectors.dtype == np.float16


def test_queries_may_have_a_prompt(tmp_path: Path) -> None:
    folder = write_table_model(tmp_path / "model")
    write_json(folder / "config_sentence_transformers.json", {"prompts": {"query": "query : "}})
    embedder = open_model(folder)
    np.testing.assert_array_equal(embedder.embed(["ship"], query=True), embedder.embed(["query : ship"]))


def test_the_table_is_used_where_model2vec_also_wrote_a_graph(tmp_path: Path) -> None:
    folder = write_table_model(tmp_path / "model")
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.onnx").write_bytes(b"with other inputs")
    assert open_model(folder).embed(["ship"]).shape == (1, DIMENSIONS)


def test_a_damaged_tokenizer_is_an_outage_that_names_the_file(tmp_path: Path) -> None:
    folder = write_table_model(tmp_path / "model")
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(Unavailable, match=r"tokenizer\.json cannot be read"):
        open_model(folder).embed(["ship"])
