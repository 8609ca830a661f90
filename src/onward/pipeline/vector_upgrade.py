"""The progress of the vector upgrade, its rounds, and which model a search uses.

Each chunk has a vector of the embedder as soon as it is ingested. If the settings name a better model, chunks get
a vector of that model, too, in the background (`stages/vector_upgrade.py`). A search compares vectors of one model
only: of the better one when most chunks have such a vector.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from onward import App, OnwardError, Status
from onward.pipeline.documents import Chunk
from onward.pipeline.events import VectorUpgradeRequested
from onward.pipeline.stages.vector_upgrade import DEPENDENCY, LANES, SERVICE

if TYPE_CHECKING:
    from onward.models.protocol import Embedder

ENOUGH_SHARE = 0.95  # search uses the better model when this share of all chunks has a vector of it
CHECK_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class UpgradeProgress:
    """How many chunks have a vector of the better model."""

    model: str
    vectors: int
    chunks: int
    per_second: float = 0.0
    down: str = ""  # why it does not go on, if it does not
    paused: bool = False  # by an operator

    @property
    def missing(self) -> int:
        return max(0, self.chunks - self.vectors)

    @property
    def used(self) -> bool:
        """Whether search uses the vectors of the better model."""
        return self.vectors > 0 and self.vectors >= ENOUGH_SHARE * self.chunks

    @property
    def seconds_left(self) -> float | None:
        return self.missing / self.per_second if self.per_second and not self.down else None

    def as_dict(self) -> dict[str, object]:
        return asdict(self) | {"missing": self.missing, "used": self.used, "seconds_left": self.seconds_left}


def check_upgrade(app: App, stopped: Callable[[], bool] = lambda: False) -> None:
    """Measure the rate, and begin a round if chunks have no vector of the better model and none is under way."""
    try:
        progress = read_upgrade(app)
    except OnwardError:
        return  # a process that cannot open the model leaves this to others; `onward models` says why
    if progress is not None and not stopped():
        _measure(app, progress)
        begin_upgrade(app, progress)


def begin_upgrade(app: App, progress: UpgradeProgress) -> int:
    """Begin a round, if one is needed and none is under way; return how many chunks it is about."""
    rows = app.store.counts().get(SERVICE, {})
    # A dead letter is a lane that an operator puts back.
    if progress.missing and not any(rows.get(state) for state in ("waiting", "claimed", "dead")):
        requests = [VectorUpgradeRequested(model=progress.model, lane=lane, after=lane) for lane in LANES]
        app.publish(*requests)
    return progress.missing


def _measure(app: App, progress: UpgradeProgress) -> None:
    store, model, now = app.store, progress.model, app.store.now()
    kept = {name: values.get(model) for name, values in store.totals().items()}
    vectors, at = kept.get("vector_upgrade_vectors"), kept.get("vector_upgrade_counted_at")
    if vectors is not None and at is not None and now > at:
        rate = max(0.0, (progress.vectors - vectors) / (now - at))
        before = kept.get("vector_upgrade_per_second") or rate
        store.set_gauge("vector_upgrade_per_second", model, (rate + before) / 2 if rate else 0.0)
    store.set_gauge("vector_upgrade_vectors", model, progress.vectors)
    store.set_gauge("vector_upgrade_counted_at", model, now)


def read_upgrade(app: App) -> UpgradeProgress | None:
    """Return the progress of the upgrade; None if the settings name no other model for it."""
    embedder = app.embedder_upgrade
    if embedder is None or embedder.model == app.embedder.model:
        return None
    store, model = app.store, embedder.model
    counts = store.document_counts().get(Chunk.collection, {})
    chunks = sum(counts.get(status, 0) for status in (Status.PROCESSED, Status.PENDING))
    breaker = next((one for one in store.breakers() if one.dependency == DEPENDENCY and one.open), None)
    return UpgradeProgress(
        model,
        min(chunks, store.vector_counts(Chunk).get(model, 0)),
        chunks,
        store.totals().get("vector_upgrade_per_second", {}).get(model, 0.0),
        breaker.reason if breaker else "",
        breaker is not None and breaker.by_hand,
    )


def better_embedder(app: App) -> Embedder | None:
    """Return the better model, if a search uses its vectors."""
    progress = read_upgrade(app)
    return app.embedder_upgrade if progress is not None and progress.used else None
