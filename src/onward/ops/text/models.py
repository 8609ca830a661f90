"""Sentences about models, and about the chunks that have their vectors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from onward.ops.text.format import counted, duration, number, one_line

if TYPE_CHECKING:
    from onward.ops.queries.models import CollectionVectors, ModelFacts
    from onward.pipeline.vector_upgrade import UpgradeProgress


def model_sentence(facts: ModelFacts) -> str:
    """Return what a model is, where, and how fast it is here."""
    if facts.error:
        return f"{facts.model or facts.setting} cannot be used: {one_line(facts.error, 500)}"
    parts = [facts.model, one_line(facts.where)]
    if facts.dimensions:
        parts.append(f"{number(facts.dimensions)} dimensions")
    if facts.chunks_per_second:
        parts.append(f"{rate(facts.chunks_per_second)} here")
    return ", ".join(parts)


def rate(per_second: float, noun: str = "chunk") -> str:
    amount = counted(round(per_second), noun) if per_second >= 10 else f"{per_second:.2g} {noun}s"
    return f"{amount} a second"


def upgrade_sentence(progress: UpgradeProgress) -> str:
    """Return how far the upgrade is, how fast, and when it will be done."""
    text = _share(progress.vectors, progress.chunks)
    if not progress.missing:
        return text
    if progress.paused:
        return f"{text}, paused; to go on: onward models resume"
    if progress.down:
        return f"{text}, waiting: {one_line(progress.down, 200)}"
    if progress.seconds_left is None:
        return f"{text}, computed by workers in the background"
    return f"{text}, {rate(progress.per_second)}, about {duration(math.ceil(progress.seconds_left))} left"


def vector_lines(vectors: CollectionVectors) -> list[str]:
    """Return which chunks have vectors of which model, and which of them a search uses."""
    if not vectors.chunks:
        return ["There are no chunks yet."]
    lines = []
    if vectors.embedder:
        count = min(vectors.counts.get(vectors.embedder, 0), vectors.chunks)
        others = "; to embed the others: onward reembed" if vectors.without else ""
        lines.append(f"{vectors.embedder}: {_share(count, vectors.chunks)}{others}")
    if vectors.upgrade is not None:
        lines.append(f"{vectors.upgrade.model}: {upgrade_sentence(vectors.upgrade)}")
    for model, count in vectors.unused.items():
        lines.append(
            f"{one_line(model)}: {counted(count, 'chunk')}, not used; to remove them: onward models prune"
        )
    return [*lines, search_sentence(vectors)] if vectors.embedder else lines


def _share(count: int, chunks: int) -> str:
    return f"{number(count)} of {counted(chunks, 'chunk')} ({100 * count // chunks if chunks else 100} %)"


def search_sentence(vectors: CollectionVectors) -> str:
    """Return which model a search uses."""
    from onward.pipeline.vector_upgrade import ENOUGH_SHARE

    text = f"Search uses {vectors.search_uses}"
    if vectors.upgrade is not None and not vectors.upgrade.used:
        text += f"; {vectors.upgrade.model} from {ENOUGH_SHARE:.0%} of the chunks on".replace("%", " %")
    return f"{text}."
