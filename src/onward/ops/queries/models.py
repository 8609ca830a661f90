"""The models that are set, their speed on this machine, and how many chunks have vectors of which model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from onward.app import App
from onward.model.documents import Status
from onward.retry.errors import OnwardError
from onward.retry.redact import redact
from onward.settings import variable

if TYPE_CHECKING:
    from onward.models.protocol import Embedder, Model
    from onward.pipeline.vector_upgrade import UpgradeProgress

MEASURE_SECONDS = 1.0
MAX_MEASURED = 2_000
MEASURED_REMOTELY = 16  # texts: a server may charge for them
_SAMPLE = (
    "The crane at the north quay was repaired in week {0}, and ships of up to {0} metres can be unloaded there "
    "again. Until the new cable has arrived, please book the slot a day before, and name the ship, her length and "
    "what she carries. The old forms stay valid; if you have sent one already, nothing more is needed. Berth {0} "
    "is reserved for the ferry from 7 to 9 in the morning. "
)
SAMPLE_REPEATS = 4  # about as long as a chunk


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A model that is set: what it is, where, and how fast."""

    role: str  # `embedder`, `upgrade` or `summarizer`
    setting: str
    model: str = ""
    where: str = ""
    remote: bool = False
    dimensions: int | None = None
    chunks_per_second: float | None = None
    error: str = ""  # why it cannot be used


@dataclass(frozen=True, slots=True)
class CollectionVectors:
    """How many chunks there are, and how many have a vector of which model."""

    chunks: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    embedder: str = ""
    upgrade: UpgradeProgress | None = None

    @property
    def search_uses(self) -> str:
        return self.upgrade.model if self.upgrade is not None and self.upgrade.used else self.embedder

    @property
    def unused(self) -> dict[str, int]:
        """The vectors of models that are not set."""
        used = {self.embedder, self.upgrade.model if self.upgrade else ""}
        return {model: count for model, count in sorted(self.counts.items()) if model not in used}

    @property
    def without(self) -> int:
        """The number of chunks without a vector of the embedder."""
        return max(0, self.chunks - self.counts.get(self.embedder, 0))

    def as_dict(self) -> dict[str, Any]:
        upgrade = self.upgrade.as_dict() if self.upgrade is not None else None
        counts = {"chunks": self.chunks, "vectors": self.counts, "without_vector": self.without}
        return counts | {"unused": self.unused, "search_uses": self.search_uses, "upgrade": upgrade}


def read_models(app: App, *, measure: bool = True) -> list[ModelFacts]:
    """Return the models of the settings; with `measure`, texts are embedded to see how long that takes."""
    return list(_models(app, measure))


def _models(app: App, measure: bool) -> Iterator[ModelFacts]:
    opens: list[tuple[str, str, Callable[[], Model | None]]] = [
        ("embedder", "embedder", lambda: app.embedder),
        ("upgrade", "embedder_upgrade", lambda: app.embedder_upgrade),
        ("summarizer", "summarizer", lambda: app.summarizer),
    ]
    for role, setting, get in opens:
        facts = ModelFacts(role, variable(setting))
        try:
            model = get()
            if model is None:
                continue
            speed: tuple[int | None, float | None] = (None, None)
            facts = ModelFacts(role, variable(setting), model.model, model.where, model.remote)
            if role != "summarizer" and measure:
                speed = measure_embedder(model)  # type: ignore[arg-type] # the other roles are embedders
            yield ModelFacts(role, variable(setting), model.model, model.where, model.remote, *speed)
        except Exception as error:  # whatever a model raises, the others are listed
            wrong = asdict(facts) | {"error": redact(str(error))}
            yield ModelFacts(**wrong)


def measure_embedder(embedder: Embedder, clock: Callable[[], float] = time.perf_counter) -> tuple[int, float]:
    """Embed sample texts; return the dimensions of a vector, and how many texts took one second."""
    size = MEASURED_REMOTELY if embedder.remote else embedder.batch_texts
    texts = [_SAMPLE.format(number) * SAMPLE_REPEATS for number in range(size)]
    dimensions = embedder.embed(texts[:1]).shape[1]  # loads the model
    began, count = clock(), 0
    while True:
        embedder.embed(texts)
        count += len(texts)
        seconds = clock() - began
        if seconds >= MEASURE_SECONDS or embedder.remote or count >= MAX_MEASURED:
            return dimensions, count / max(seconds, 1e-9)


def read_upgrade_status(app: App) -> UpgradeProgress | None:
    """Return how far the vector upgrade is; None if there is none, or its model cannot be opened."""
    from onward.pipeline.vector_upgrade import read_upgrade

    try:
        return read_upgrade(app)
    except OnwardError:  # `onward models` and `onward doctor` say why
        return None


def read_vectors(app: App) -> CollectionVectors:
    """Return how many chunks have a vector of which model."""
    from onward.pipeline.documents import Chunk

    counts = app.store.document_counts().get(Chunk.collection, {})
    chunks = sum(counts.get(status, 0) for status in (Status.PROCESSED, Status.PENDING))
    try:
        embedder = app.embedder.model
    except OnwardError:  # `read_models` says why
        embedder = ""
    return CollectionVectors(chunks, app.store.vector_counts(Chunk), embedder, read_upgrade_status(app))
