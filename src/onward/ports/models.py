"""What the pipeline asks of a model: vectors for texts, and summaries with citations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # only who embeds needs it installed
    import numpy as np
    from numpy.typing import NDArray


class Embedder(Protocol):
    """Turns texts into vectors whose nearness is nearness of meaning; callable from any thread."""

    @property
    def model(self) -> str:
        """The name of the vector space, such as `static:wordllama-l2-256`; spaces never mix."""
        ...

    @property
    def dimensions(self) -> int | None:
        """The length of a vector; None until a remote model has answered once."""
        ...

    @property
    def max_tokens(self) -> int:
        """The longest text that is taken whole; a longer one is embedded in parts."""
        ...

    @property
    def batch(self) -> int:
        """How many texts a call should carry."""
        ...

    @property
    def remote(self) -> bool:
        """Whether it is a dependency that may be down, and has a health call."""
        ...

    def embed(self, texts: Sequence[str], *, key: str = "") -> NDArray[np.float32]:
        """Give one row of length 1 for each text, of length 0 where there is nothing to embed.

        `key` names the call, so that a server that knows it already may answer without working twice.
        """
        ...

    def healthy(self) -> bool:
        """Tell whether it can be used now; what is not remote always can."""
        ...

    def close(self) -> None:
        """Give back its connections."""
        ...


@dataclass(frozen=True, slots=True)
class Passage:
    """What one message adds to its thread."""

    id: str
    author: str
    date: float | None
    text: str
    """Only what the author wrote, without what is quoted."""


@dataclass(frozen=True, slots=True)
class Citation:
    """The sentence, word for word, that a number in a summary stands for."""

    number: int
    message_id: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Written:
    """A summary, what it rests on and what it cost."""

    markdown: str
    citations: tuple[Citation, ...]
    model: str
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float


class Summarizer(Protocol):
    """Writes what a thread is about, citing its messages; callable from any thread."""

    @property
    def model(self) -> str:
        """The name of what writes, such as `extractive` or `http:llama3`."""
        ...

    @property
    def remote(self) -> bool:
        """Whether it is a dependency that may be down, and has a health call."""
        ...

    def summarize(self, subject: str, passages: Sequence[Passage], *, key: str = "") -> Written:
        """Summarise the messages of a thread, given in their order."""
        ...

    def healthy(self) -> bool:
        """Tell whether it can be used now; what is not remote always can."""
        ...

    def close(self) -> None:
        """Give back its connections."""
        ...
