"""A real model, all-MiniLM-L6-v2, gives the vectors that sentence-transformers gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onward import Settings
from onward.backend_urls import open_embedder
from onward.models.onnx_embedder import OnnxEmbedder
from tests.conftest import need_server
from tests.support.minilm import why_missing, write_minilm

pytestmark = pytest.mark.prove

# The first numbers of the vectors that sentence-transformers 6.2 computes with PyTorch.
REFERENCE = {
    "This is an example sentence": [0.06765691, 0.06349594, 0.04871314, 0.07930505, 0.03744803, 0.00265279],
    "Each sentence is converted": [0.08643861, 0.10276261, 0.00539454, 0.00204438, -0.0099634, 0.02538551],
}


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> OnnxEmbedder:
    need_server(why_missing())
    folder: Path = write_minilm(tmp_path_factory.mktemp("models") / "minilm")
    embedder = open_embedder(Settings(embedder=f"local:{folder}"))
    assert isinstance(embedder, OnnxEmbedder)
    return embedder


def test_its_vectors_are_those_of_sentence_transformers(embedder: OnnxEmbedder) -> None:
    rows = embedder.embed(list(REFERENCE))
    np.testing.assert_allclose(rows[:, :6], list(REFERENCE.values()), atol=1e-5)
    assert (embedder.dimensions, embedder.max_tokens) == (384, 256)


def test_a_vector_does_not_depend_on_its_batch(embedder: OnnxEmbedder) -> None:
    texts = [f"Number {n} of the harbour. " * (n % 7 + 1) for n in range(40)]
    rows = embedder.embed(texts)
    for text, row in zip(texts, rows, strict=True):
        np.testing.assert_allclose(embedder.embed([text])[0], row, atol=1e-6)


def test_meanings_are_nearer_than_words(embedder: OnnxEmbedder) -> None:
    asked, answer, other = embedder.embed(
        ["How do I open the door?", "Turn the key twice, then push.", "How do I open the account?"]
    )
    assert asked @ answer > 0.3
    kitten, cat, tax = embedder.embed(["A kitten is napping.", "The cat sleeps.", "Taxes are due in April."])
    assert kitten @ cat > kitten @ tax + 0.4
    assert asked @ other < 0.9
