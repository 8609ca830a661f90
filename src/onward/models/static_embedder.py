"""An embedder that needs no server: the mean of token vectors, read from an installed wheel."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from onward.models.protocol import Embedder
from onward.models.tokenizer import ModelMissing, model_folder, open_tokenizer

WEIGHTS = "weights/l2_supercat_256.safetensors"


class StaticEmbedder(Embedder):
    """Embeds thousands of texts a second on one core; deterministic."""

    model = "static:wordllama-l2-256"
    dimensions = 256
    remote = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._weights: NDArray[np.float32] | None = None  # the vector of each token

    def embed(self, texts: Sequence[str], *, key: str = "") -> NDArray[np.float32]:
        with self._lock:
            weights = self._weights = _load_weights() if self._weights is None else self._weights
        tokens = open_tokenizer().tokens
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in zip(rows, texts, strict=True):
            if ids := tokens(text):
                # One text at a time stays in the processor's cache, and its vector depends on no other text.
                np.add.reduce(weights[ids], axis=0, out=row)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        np.divide(rows, lengths, out=rows, where=lengths > 0)
        return rows

    def close(self) -> None:
        self._weights = None


def _load_weights() -> NDArray[np.float32]:
    folder = model_folder()
    try:
        from safetensors.numpy import load_file

        weights: NDArray[np.float32] = load_file(folder / WEIGHTS)["embedding.weight"].astype(np.float32)
    except ImportError as error:
        raise ModelMissing(f"{error.name} is not installed") from error
    except (FileNotFoundError, KeyError) as error:
        raise ModelMissing(f"{folder} does not hold what is expected ({error})") from error
    return weights
