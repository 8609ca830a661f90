"""Orders the best hits of a search anew, by a function that the app or its settings name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from onward import App
from onward.search.fusion import Reason

if TYPE_CHECKING:
    from onward.pipeline.search import Hit

RERANKED = 50  # The best hits, whose order a reranker decides
MAX_PASSAGE = 2_000  # characters of a message that a reranker gets: those around the match
_BEFORE = 400  # of them, before the match
REASON = "(reranker)"


def reranked(app: App, text: str, hits: list[Hit], *, explain: bool) -> tuple[list[Hit], str]:
    """Return hits in the order of the reranker, and a note if it cannot be used: then the order is as before.

    The place of a hit keeps its score: the first has the highest one.
    """
    first, rest = hits[:RERANKED], hits[RERANKED:]
    if not first:
        return hits, ""
    try:
        scores = _scores(app, text, first)
    except Exception as error:  # of any kind: it is not ours
        return hits, f"not reranked: the reranker cannot be used ({type(error).__name__}: {error})"
    # Of equal ones, the better hit of the search.
    order = sorted(range(len(first)), key=lambda place: -scores[place])
    found = []
    for place, hit in zip(order, first, strict=True):
        reasons = (*first[place].reasons, Reason(REASON, round(scores[place], 3))) if explain else ()
        found.append(replace(first[place], score=hit.score, reasons=reasons))
    return found + rest, ""


def _scores(app: App, text: str, hits: Sequence[Hit]) -> list[float]:
    if app.reranker is None:
        raise ValueError("there is none")
    scores = [float(score) for score in app.reranker(text, [_passage(hit) for hit in hits])]
    if len(scores) != len(hits) or not all(map(math.isfinite, scores)):
        raise ValueError(
            f"it returned {len(scores)} scores for {len(hits)} passages; each needs one finite number"
        )
    return scores


def _passage(hit: Hit) -> str:
    """Return the subject of a message, and its own text around the match."""
    text = " ".join(hit.message.new_text().split())
    if len(text) > MAX_PASSAGE:
        match = hit.excerpt.replace("\x02", "").replace("\x03", "").strip("…")[:80]
        start = max(0, text.find(match) - _BEFORE)
        text = text[start : start + MAX_PASSAGE]
    return f"{hit.message.subject}\n{text}"
