"""The protocols of models: vectors for texts, and summaries with citations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # numpy comes with the extra that embeds
    import numpy as np
    from numpy.typing import NDArray


BUILT_IN = "built in"


class Model(Protocol):
    """A model of any kind; callable from any thread."""

    model: str  # the name: of an embedder's vector space (`static:wordllama-l2-256`), or of a summarizer
    where: str  # `BUILT_IN`, the folder of its files, or its address
    remote: bool  # whether it is a dependency that may be down, and has a health call

    def healthy(self) -> bool:
        """Return whether it can be used now; a local model always can."""
        return True

    def close(self) -> None:
        """Close its connections; a local model has none."""
        return


class Embedder(Model, Protocol):
    """Turns texts into vectors: the closer two vectors, the closer the meanings."""

    title_repeats: int = 1  # how often the title stands before a text that is embedded
    holds_gil: bool  # whether other threads of the process wait while it computes
    batch_texts: int  # texts of one call: enough to be fast, few enough that a stop need not wait long

    def embed(self, texts: Sequence[str], *, key: str = "", query: bool = False) -> NDArray[np.float32]:
        """Return a vector of length 1 for each text, 0 if it is blank.

        A server may store results by `key`. Some models expect another prompt before a `query` than before the
        texts that it is compared with.
        """


@dataclass(frozen=True, slots=True)
class Passage:
    """The text that one message adds to its thread."""

    id: str
    author: str
    date: float | None
    text: str  # without quotes and signature, unless there is nothing else
    language: str = ""  # its ISO 639-1 code, if known


@dataclass(frozen=True, slots=True)
class Citation:
    """The sentence, word for word, that a number in a summary cites."""

    number: int
    message_id: str
    sentence: str


@dataclass(frozen=True, slots=True)
class WrittenSummary:
    """A summary, its citations and its cost."""

    markdown: str
    citations: tuple[Citation, ...]
    model: str
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float


class Summarizer(Model, Protocol):
    """Writes what a thread is about, with citations of its messages."""

    def summarize(self, subject: str, passages: Sequence[Passage], *, key: str = "") -> WrittenSummary:
        """Summarise the messages of a thread, given in their order."""


Reranker = Callable[[str, Sequence[str]], Sequence[float]]
"""Scores each passage for a query: the higher, the better it fits. Callable from any thread."""
