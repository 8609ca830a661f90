"""Embedders whose models are files on this machine: ONNX graphs, tables of token vectors, PyTorch weights."""

from __future__ import annotations

import os
import threading
from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from onward.models.model_folder import LocalModelError, ModelFolder
from onward.models.protocol import Embedder
from onward.models.tokenizer import encodable
from onward.retry import Permanent, Unavailable

MAX_CHARACTERS_PER_TOKEN = 50  # the rest of a text is cut off before it is tokenized; real tokens are shorter
Loaded = TypeVar("Loaded")


class LocalEmbedder(Embedder, Generic[Loaded]):
    """Loads a model at its first use, and computes with one text or batch at a time in at most `threads` threads.

    A subclass loads the files and computes vectors; this class adds prompts, and checks and normalises the result.
    """

    remote = False
    holds_gil = False
    batch_texts = 32

    def __init__(
        self,
        files: ModelFolder,
        *,
        batch: int = 64,
        max_tokens: int = 512,
        threads: int | None = None,
        dependency: str = "embedder",
    ) -> None:
        self.files, self.batch, self.dependency = files, batch, dependency
        self.max_tokens = min(files.max_tokens, max_tokens)
        self.threads = threads or available_cores()
        self.where = str(files.folder)
        # Other weights are another vector space, wherever the folder is and whatever its name.
        self.model = f"local:{files.architecture}-{files.digest()}"
        self.dimensions: int | None = None
        self._lock = threading.Lock()
        self._loaded: Loaded | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.where!r})"

    @abstractmethod
    def load(self) -> Loaded:
        """Load the model; raise `LocalModelError` if its files cannot be used."""

    @abstractmethod
    def compute(self, loaded: Loaded, texts: Sequence[str], prompt: str) -> NDArray[np.float32]:
        """Return a vector, of any length, for each text."""

    def embed(self, texts: Sequence[str], *, key: str = "", query: bool = False) -> NDArray[np.float32]:
        prompt = self.files.query_prompt if query else self.files.document_prompt
        chosen = [place for place, text in enumerate(texts) if text and not text.isspace()]
        longest = self.max_tokens * MAX_CHARACTERS_PER_TOKEN
        # Calls of several threads would use more threads than were asked for.
        with self._lock:
            loaded = self._open()
            # Nothing to embed, but the length of a vector must be known.
            given = [encodable(texts[place][:longest]) for place in chosen] or ["."]
            if self.files.lower_case:
                given = [text.lower() for text in given]
            vectors = self.compute(loaded, given, prompt)
        self.dimensions = vectors.shape[1]
        if not np.isfinite(vectors).all():
            raise Permanent(f"the model in {self.where} computes no numbers for a text; choose other weights")
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        rows[chosen] = vectors[: len(chosen)]
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        np.divide(rows, lengths, out=rows, where=lengths > 0)
        return rows

    def healthy(self) -> bool:
        """Return True if the model is loaded or can be; raise with the reason if not."""
        with self._lock:
            self._open()
        return True

    def close(self) -> None:
        with self._lock:
            self._loaded = None

    def _open(self) -> Loaded:
        if self._loaded is None:
            try:
                self._loaded = self.load()
            except LocalModelError as error:
                # Every text would fail in the same way, so events wait until a person acts.
                raise Unavailable(self.dependency, str(error), opens=True, remedy=str(error)) from error
        return self._loaded


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS
    return len(affinity(0)) if affinity else os.cpu_count() or 1
