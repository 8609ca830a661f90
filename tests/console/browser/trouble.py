"""A pipeline in trouble: of everything that can go wrong, one."""

from __future__ import annotations

from pathlib import Path

from onward import App
from onward.model.failures import Failure
from onward.model.ledger import InFailedBatch, Settlement
from onward.ops.actions.action import Actor
from onward.pipeline.sources import submit
from tests.support.command_runs import SAMPLE, mail, write_mailbox
from tests.support.model_server import ModelServer

POISON = "generator"
"""A word that some mails of the sample have."""


def make_trouble(app: App, server: ModelServer, folder: Path) -> None:
    """Ingest so that a mail cannot be read, some chunks are refused, some set aside, and a model is out."""
    server.poison = POISON
    submit(app, str(SAMPLE))
    app.work_until_idle()
    _set_aside(app, folder)
    submit(app, str(folder / "gone.mbox"))  # there is none
    app.work_until_idle(["ingestion"])
    app.store.open_breaker("summarizer", "Its quota is used up until tomorrow.", by_hand=True)
    Actor("ada", "cli").log(app, "breakers open", {"name": "summarizer"}, 1)
    _wait(app, folder)


def _set_aside(app: App, folder: Path) -> None:
    """Chunks that could not be embedded in all their tries, of a source whose other chunks could."""
    mails = [mail(one, f"Minutes of day {one}", f"The gauge stood at {one} metres.") for one in range(4)]
    submit(app, str(write_mailbox(folder / "minutes.mbox", mails)))
    app.work_until_idle(["ingestion", "parsing", "chunking"])
    (taken,) = app.store.claim("anna", "embedding", limit=1, lease=60.0)
    late = Failure(
        at=app.store.now(),
        error_type="TimeoutError",
        message="embedder: no answer within 60 seconds",
        fingerprint="beef5678",
    )
    inputs = [(one.id, one.revision) for one in taken.inputs]
    aside = InFailedBatch([id for id, _ in inputs], late, after=3600.0)
    app.store.settle([Settlement(taken.row, taken.token, taken.collection, inputs=inputs, parts=[aside])])


def _wait(app: App, folder: Path) -> None:
    """A source that comes as far as the summaries, which nobody writes now."""
    mails = [mail(one, "Where is the key?", "Has anybody seen it?") for one in range(50, 53)]
    submit(app, str(write_mailbox(folder / "keys.mbox", mails)))
    app.work_until_idle(["ingestion", "parsing", "chunking", "embedding", "orchestration"])
