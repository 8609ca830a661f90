"""What can be done about a source: ingest it again, or forget it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from onward.app import App
from onward.console.acting import Plan, change
from onward.console.operations import Operation
from onward.console.sources import called
from onward.console.submitting import check_takes_sources
from onward.facts.accounting import totals
from onward.facts.actions import log_action
from onward.facts.listing import source_called, source_key
from onward.facts.wording import counted, counted_in, one_line

LONG = 2_000
"""To forget more documents than this takes a while."""


@change
class Again:
    """Ingest a source once more."""

    name: ClassVar[str] = "ingest-again"

    def plan(self, app: App, given: Mapping[str, str]) -> Plan:
        check_takes_sources(app)
        source = source_called(app, given.get("source", ""))
        kept = counted(sum(totals(app, source).values()), "document")
        return Plan(
            title=f"Ingest {one_line(called(source), 80)} again?",
            button="Ingest it again",
            touches=1,
            sentences=(
                "It is fetched once more. What has not changed is left as it is, and costs nothing.",
                f"What is new or changed is processed. Of its {kept}, those that it no longer holds are removed.",
            ),
            back=f"/tasks/{source_key(source)}",
        )

    def do(self, app: App, given: Mapping[str, str], operation: Operation, *, who: str, via: str) -> str:
        from onward.pipeline.sources import submit

        source = source_called(app, given.get("source", ""))
        submit(app, source)
        log_action(app, "ingest", {"source": source}, 1, who=who, via=via)
        return f"{called(source)} is ingested again."


@change
class Forget:
    """Remove a source and all that came from it."""

    name: ClassVar[str] = "forget"

    def plan(self, app: App, given: Mapping[str, str]) -> Plan:
        source = source_called(app, given.get("source", ""))
        counts = totals(app, source)
        total = sum(counts.values())
        listed = ", ".join(counted_in(count, name) for name, count in sorted(counts.items()))
        return Plan(
            title=f"Forget {one_line(called(source), 80)}?",
            button=f"Forget {counted(total, 'document')}",
            touches=total,
            sentences=(
                f"{counted(total, 'document')} will be removed, with vectors, summaries and blobs: {listed}.",
                "What is under way for it is refused. The file, folder or page itself is not touched.",
            ),
            back="/tasks",
            long=total > LONG,
        )

    def do(self, app: App, given: Mapping[str, str], operation: Operation, *, who: str, via: str) -> str:
        from onward.pipeline.sources import forget

        source = source_called(app, given.get("source", ""))
        operation.text = f"Removing {counted(sum(totals(app, source).values()), 'document')}."
        removed = forget(app, source)
        log_action(app, "forget", {"source": source}, removed, who=who, via=via)
        return f"{called(source)}: {counted(removed, 'document')} removed."
