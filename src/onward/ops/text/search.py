"""Why a message was found, and names of authors, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onward.ops.text.format import one_line
from onward.pipeline.reranking import REASON

if TYPE_CHECKING:
    from onward.pipeline.search import Hit


def why_found(hit: Hit) -> list[str]:
    """Return sentences that say why a message was found, and how its score is made."""
    if not hit.text_score and not hit.similarity:
        return ["It has what the filters ask for."]
    sentences = []
    words = ", ".join(f"{one_line(one.word, 60)} {one.score:.2f}" for one in hit.reasons if one.word != REASON)
    if words:
        sentences.append(f"Words: {words}; {hit.text_score:.2f} of the best by words.")
    elif hit.text_score:
        sentences.append(f"Words that the best messages share: {hit.text_score:.2f} of the best by words.")
    if hit.similarity:
        sentences.append(f"Similar meaning: {hit.similarity:.2f} of 1.")
    sentences += [f"Reranker: {one.score:.2f}." for one in hit.reasons if one.word == REASON]
    sentences.append(f"Score, with other hits of its thread: {hit.score:.2f} of 1.")
    return sentences


def author_names(authors: Sequence[str]) -> list[str]:
    """Return the names of authors without their addresses, unless two of them have the same name."""
    names = [one_line(author.partition("<")[0]).strip('" ') or one_line(author) for author in authors]
    seen = Counter(names)
    return [name if seen[name] == 1 else one_line(author) for name, author in zip(names, authors, strict=True)]
