"""Changes of failed batches: retried now, or given up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import quote

from onward.app import App
from onward.console import fields
from onward.console.acting import Plan, change
from onward.console.operations import Operation
from onward.facts.batches import counted_batches, discard_batches, documents_in, find_batch, retry_batches
from onward.facts.finding import worker_command
from onward.facts.wording import counted, source_name
from onward.model.ledger import FailedBatch


def batch_path(id: str) -> str:
    """Where a failed batch's page is."""
    return f"/batches/{quote(id, safe='')}"


def _chosen(app: App, given: Mapping[str, str]) -> list[FailedBatch]:
    """The batches that a change is about: fields `id`, or `all`."""
    if fields.ticked(given, "all"):
        return app.store.failed_batches()
    id = fields.needed(given, "id")
    exact = app.store.failed_batch(id)
    return [exact if exact is not None else find_batch(app, id)]


def _back(given: Mapping[str, str], chosen: list[FailedBatch]) -> str:
    return "/batches" if fields.ticked(given, "all") or not chosen else batch_path(chosen[0].id)


def _what(chosen: list[FailedBatch]) -> str:
    which = f" of {source_name(chosen[0].source or 'no source')}" if len(chosen) == 1 else ""
    return f"{counted_batches(len(chosen))}{which}, with {counted(documents_in(chosen), 'document')},"


@change
class RetryBatch:
    """Retry failed batches now: field `id`, or `all`."""

    name: ClassVar[str] = "retry-batch"

    def plan(self, app: App, given: Mapping[str, str]) -> Plan:
        chosen = _chosen(app, given)
        return Plan(
            "Retry a failed batch now" if len(chosen) == 1 else "Retry failed batches now",
            "Retry it now" if len(chosen) == 1 else "Retry them now",
            documents_in(chosen),
            (f"{_what(chosen)} would be retried now.", "This is not counted as a retry."),
            undo="what fails again is set aside again, and its schedule goes on.",
            back=_back(given, chosen),
        )

    def do(self, app: App, given: Mapping[str, str], operation: Operation, *, who: str, via: str) -> str:
        hurried = retry_batches(app, _chosen(app, given), who=who, via=via)
        if not hurried:
            return "There was nothing to retry."
        alive = "" if app.store.workers() else f" No worker is alive; start one: {worker_command(app.store)}"
        return f"{_what(hurried)} will be retried now.{alive}"


@change
class DiscardBatch:
    """Give up all documents of a failed batch: field `id`."""

    name: ClassVar[str] = "discard-batch"

    def plan(self, app: App, given: Mapping[str, str]) -> Plan:
        chosen = _chosen(app, {"id": fields.needed(given, "id")})
        return Plan(
            "Give a failed batch up",
            "Give it up for good",
            documents_in(chosen),
            (
                f"{_what(chosen)} would be given up for good.",
                "The documents become discarded: they are kept, but nobody tries them again.",
            ),
            back="/batches",  # it is gone with its last document
        )

    def do(self, app: App, given: Mapping[str, str], operation: Operation, *, who: str, via: str) -> str:
        count = discard_batches(app, _chosen(app, {"id": fields.needed(given, "id")}), who=who, via=via)
        return f"{counted(count, 'document')} given up for good."
