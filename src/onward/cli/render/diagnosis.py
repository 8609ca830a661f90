"""Prints a failure group: the probable cause, the evidence, and the next commands."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from rich.text import Text

from onward.cli.render.output import console, print_entry
from onward.ops.lookup import short_ids, show_command
from onward.ops.queries.failure_groups import KNOWN, error_text, shortened
from onward.ops.text.diagnosis import diagnosis_sentences, remedies, remedy_command, remedy_sentence
from onward.ops.text.format import counted, duration, harmless, local_time, moment, number, one_line
from onward.recovery.diagnosis import Cause, Diagnosis, Evidence
from onward.recovery.group_actions import affected
from onward.recovery.next_step import describe_error
from onward.retry.redact import redact

if TYPE_CHECKING:
    from rich.console import Console

    from onward import App
    from onward.model.ledger_views import FailureGroup

SHOWN_DOCUMENTS = 10
SHOWN_OPENINGS = 5
_TRACEBACK_LINES = 30
_STYLES = {
    Cause.DEPENDENCY: "yellow",
    Cause.OVERLOAD: "yellow",
    Cause.POISON: "magenta",
    Cause.BUG: "red",
    Cause.UNCLEAR: "dim",
}


def _affected_count(group: FailureGroup) -> str:
    """Return how many are affected now, of all that ever were."""
    noun = "event" if group.collection is None else "document"
    now = group.affected if group.collection is not None else group.dead_letters
    return f"{number(now)} of {counted(group.documents, noun)} now"


def print_group_entry(out: Console, short: str, evidence: Evidence, verdict: Diagnosis, now: float) -> None:
    """Print a failure group as an entry of a list."""
    group, waiting = evidence.group, evidence.waiting
    held = f"{counted(waiting, 'event')} {'waits' if waiting == 1 else 'wait'}" if waiting else ""
    seen = f"since {local_time(group.first_seen, now)}, last {duration(max(0, int(now - group.last_seen)))} ago"
    line = Text.assemble(
        (f"{short}  ", "green"),
        (f"{verdict.kind:17}  ", _STYLES[verdict.kind]),
        f"{one_line(group.service, 30)}: {held or _affected_count(group)}",
        (f", {seen}", "dim"),
    )
    print_entry(out, line)
    print_entry(out, Text(f"{'':{len(short)}}  {error_text(group, 200)}", "red"))


def print_group(app: App, evidence: Evidence, verdict: Diagnosis) -> None:
    """Print everything about a failure group: the cause first, the next commands last."""
    group = evidence.group
    out = console()
    name = shortened([item.fingerprint for item in app.store.failure_groups(limit=KNOWN)])
    short = name.get(group.fingerprint, group.fingerprint)
    out.print(Text(error_text(group, 600), "bold"), soft_wrap=True)
    out.print()
    if verdict.kind is Cause.UNCLEAR:
        out.print(Text("The cause is unclear:", "bold"))
    else:
        out.print(Text.assemble("Probably: ", (str(verdict.kind), f"bold {_STYLES[verdict.kind]}")))
    for sentence in diagnosis_sentences(verdict):
        out.print(Text(f"  {one_line(sentence)}"), soft_wrap=True)
    out.print()
    now = app.store.now()
    kinds = ", ".join(f"{number(count)} {kind.replace('_', ' ')}" for kind, count in group.kinds.items())
    versions = ", ".join(f"{name} ({number(count)})" for name, count in group.versions.items())
    last = f"{moment(group.last_seen)}, {duration(max(0, int(now - group.last_seen)))} ago"
    letters = f", {counted(group.dead_letters, 'dead letter')}" if group.dead_letters else ""
    for label, value in (
        ("group", group.fingerprint),
        ("service", group.service),
        ("place", group.place),
        ("first seen", moment(group.first_seen)),
        ("last seen", last),
        ("failures", f"{number(group.failures)} ({kinds})" if kinds else number(group.failures)),
        ("affects", f"{_affected_count(group)}{letters}" if group.documents else ""),
        ("waiting", counted(evidence.waiting, "event") if evidence.waiting else ""),
        ("versions", versions),
        ("dependency", ", ".join(f"{item} ({number(count)})" for item, count in group.dependencies.items())),
    ):
        if value:
            out.print(Text.assemble((f"{label:12}", "dim"), one_line(redact(value))), soft_wrap=True)
    for opening in evidence.openings[-SHOWN_OPENINGS:]:
        until = f"until {moment(opening.closed_at)}" if opening.closed_at is not None else "and is still open"
        text = f"{opening.dependency} opened {moment(opening.opened_at)} {until}: {redact(opening.reason)}"
        out.print(Text.assemble((f"{'breaker':12}", "dim"), one_line(text, 300)), soft_wrap=True)
    if group.traceback:
        lines = harmless(redact(group.traceback)).strip().splitlines()
        out.print()
        out.print(Text("The last one" if len(lines) <= _TRACEBACK_LINES else "The end of the last one", "bold"))
        for line in lines[-_TRACEBACK_LINES:]:
            out.print(Text(f"  {line}", "dim"), soft_wrap=True)
    example = _print_documents(app, out, group, short)
    if not example and (found := app.store.find_dead_letters(fingerprint=group.fingerprint, limit=1)):
        example = f"onward failed inspect {found[0].row}"
    out.print()
    out.print(Text("What to type next", "bold"))
    for remedy in remedies(evidence, verdict, example=bool(example)):
        why, command = remedy_sentence(remedy), remedy_command(remedy, short, example)
        out.print(Text.assemble((f"  {why}: " if command else f"  {why}", ""), (command, "bold")), soft_wrap=True)


def _print_documents(app: App, out: Console, group: FailureGroup, short: str) -> str:
    """Print the first affected documents; return the command that shows the first."""
    shown = list(islice(affected(app.store, group.fingerprint), SHOWN_DOCUMENTS))
    if not shown:
        return ""
    ids = short_ids(app, [state.id for state in shown])
    out.print()
    out.print(Text("Affected now", "bold"))
    for state in shown:
        error = one_line(describe_error(state.last_error), 100)
        line = Text.assemble(
            (f"  {one_line(ids[state.id]):8}", "green"),
            f"  {state.collection:10}{state.status:10}  ",
            (error, "dim"),
        )
        print_entry(out, line)
    if (more := group.affected - len(shown)) > 0:
        out.print(Text(f"  … and {number(more)} more: onward failures show {short} --json", "dim"))
    return show_command(app, shown[0].collection, shown[0].id)
