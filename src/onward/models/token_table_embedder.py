"""An embedder for tables of token vectors: model2vec, and StaticEmbedding of sentence-transformers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onward.models.local_embedder import LocalEmbedder
from onward.models.model_folder import TABLE_TENSORS, LocalModelError
from onward.models.onnx_embedder import open_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class TokenTable(NamedTuple):
    """A loaded model."""

    vectors: NDArray[Any]  # as they are stored, which may be in 16 or 8 bits
    rows: NDArray[np.int64] | None  # the row of each token; None: a row for each
    weights: NDArray[np.float32] | None  # of each token
    tokenizer: Tokenizer
    unknown: int | None  # the token of what the vocabulary does not have, if it is left out


class TokenTableEmbedder(LocalEmbedder[TokenTable]):
    """Computes the mean of token vectors: thousands of texts a second, and each depends on no other."""

    title_repeats = 2  # a mean of words, as the built-in model
    holds_gil = True
    batch_texts = 256

    def load(self) -> TokenTable:
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        (path,) = self.files.weights
        try:
            tensors = load_file(path)
        except (SafetensorError, OSError, AttributeError, TypeError) as error:  # the last: bfloat16
            raise LocalModelError(f"{path} cannot be read: {error}. Download it again, as float32") from error
        name = next(name for name in TABLE_TENSORS if name in tensors)
        weights, rows = tensors.get("weights"), tensors.get("mapping")
        tokenizer = open_tokenizer(self.files.tokenizer, self.max_tokens)
        return TokenTable(
            tensors[name],
            None if rows is None else rows.astype(np.int64),
            None if weights is None else weights.astype(np.float32),
            tokenizer,
            _unknown_token(tokenizer) if name == "embeddings" else None,  # only model2vec leaves it out
        )

    def compute(self, loaded: TokenTable, texts: Sequence[str], prompt: str) -> NDArray[np.float32]:
        rows = np.zeros((len(texts), loaded.vectors.shape[1]), np.float32)
        for row, text in zip(rows, texts, strict=True):
            found = loaded.tokenizer.encode(prompt + text, add_special_tokens=False).ids
            tokens = [token for token in found if token != loaded.unknown]
            if not tokens:
                continue
            vectors = loaded.vectors[tokens if loaded.rows is None else loaded.rows[tokens]].astype(np.float32)
            if loaded.weights is not None:
                vectors *= loaded.weights[tokens][:, None]
            vectors.mean(axis=0, out=row)
        return rows


def _unknown_token(tokenizer: Tokenizer) -> int | None:
    model = json.loads(tokenizer.to_str())["model"]
    token = model.get("unk_token")
    found: int | None = model.get("unk_id") if token is None else tokenizer.token_to_id(token)
    return found
