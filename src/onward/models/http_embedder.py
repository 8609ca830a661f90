"""Embeddings by any server that speaks the OpenAI protocol."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from onward.models.http_endpoint import BYTES_PER_TOKEN, HTTPModel, fitting_characters
from onward.retry import Permanent

MAX_REQUEST_CHARACTERS = 96_000


class HTTPEmbedder(HTTPModel):
    """Embeds texts by calling a server; a text that is too long for its model is embedded in parts."""

    def __init__(
        self,
        url: str,
        name: str,
        *,
        key: str | None = None,
        batch: int = 64,
        max_tokens: int = 2048,
        concurrency: int = 4,
        read_timeout: float = 60.0,
    ) -> None:
        super().__init__(
            url, name, dependency="embedder", key=key, concurrency=concurrency, read_timeout=read_timeout
        )
        self.dimensions: int | None = None
        self.max_tokens = max_tokens
        self.batch = batch
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str], *, key: str = "") -> NDArray[np.float32]:
        parts: list[str] = []
        owners: list[int] = []
        for number, text in enumerate(texts):
            for part in _parts(text, self.max_tokens * BYTES_PER_TOKEN):
                parts.append(part)
                owners.append(number)
        if texts and not parts and self.dimensions is None:
            self._request(["."], key)  # nothing to embed, but the length of a vector must be known
        rows = np.zeros((len(texts), self.dimensions or 0), np.float32)
        start = 0
        for number, group in enumerate(self._requests(parts)):
            vectors = _normalised(self._request(group, f"{key}-{number}" if key and number else key))
            if rows.shape[1] != vectors.shape[1]:
                rows = np.zeros((len(texts), vectors.shape[1]), np.float32)
            weights = np.array([len(part) for part in group], np.float32)[:, None]
            np.add.at(rows, owners[start : start + len(group)], vectors * weights)
            start += len(group)
        return _normalised(rows)

    def _requests(self, parts: list[str]) -> Iterator[list[str]]:
        """Group texts into requests of at most `batch` texts and `MAX_REQUEST_CHARACTERS` characters."""
        group: list[str] = []
        size = 0
        for part in parts:
            if group and (len(group) >= self.batch or size + len(part) > MAX_REQUEST_CHARACTERS):
                yield group
                group, size = [], 0
            group.append(part)
            size += len(part)
        if group:
            yield group

    def _request(self, texts: list[str], key: str) -> NDArray[np.float32]:
        answer = self.post("embeddings", {"input": texts}, key=key)
        vectors = self._checked(answer.get("data"), len(texts))
        with self._lock:
            if self.dimensions is None:
                self.dimensions = vectors.shape[1]
        if vectors.shape[1] != self.dimensions:
            raise self._wrong(f"vectors of {vectors.shape[1]} dimensions, after others of {self.dimensions}")
        return vectors

    def _checked(self, data: object, count: int) -> NDArray[np.float32]:
        """Return the vectors in the order of the texts; raise if they cannot be used."""
        if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
            raise self._wrong("no list of vectors")
        if len(data) != count:
            raise self._wrong(f"{len(data)} vectors for {count} texts")
        order = [item.get("index", place) for place, item in enumerate(data)]
        if sorted(map(str, order)) != sorted(map(str, range(count))):
            raise self._wrong(f"vectors with the indexes {str(order)[:80]} for {count} texts")
        by_index = dict(zip(order, data, strict=True))
        try:
            vectors = np.array([by_index[place]["embedding"] for place in range(count)], np.float32)
        except (KeyError, TypeError, ValueError) as error:
            raise self._wrong(f"vectors that are not rows of numbers ({type(error).__name__})") from None
        if vectors.ndim != 2 or vectors.shape[1] == 0:
            raise self._wrong("empty vectors")
        if not np.isfinite(vectors).all():
            raise self._wrong("vectors with numbers that are not finite")
        return vectors

    def _wrong(self, what: str) -> Permanent:
        return Permanent(
            f"{self.dependency}: {self.address} answered {what}; check that {self.name!r} is an embedding model"
        )


def _parts(text: str, size: int) -> Iterator[str]:
    """Cut a text into parts of about `size` bytes, at a space if one is near; a blank text has none."""
    text = text.strip()
    while (longest := fitting_characters(text, size)) < len(text):
        cut = max(text.rfind(" ", longest // 2, longest), text.rfind("\n", longest // 2, longest))
        cut = cut if cut > 0 else longest
        yield text[:cut].rstrip()
        text = text[cut:].lstrip()
    if text:
        yield text


def _normalised(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths: NDArray[np.float32] = np.linalg.norm(rows, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    return rows / lengths
