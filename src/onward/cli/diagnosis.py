"""A failure group printed: what is probably wrong, what speaks for it, and what to type next."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from rich.text import Text

from onward.cli.output import console, print_entry
from onward.facts.accounting import error_of
from onward.facts.diagnosis import KNOWN, error_text, next_steps, shortened
from onward.facts.finding import short_ids, show_command
from onward.facts.wording import counted, duration, harmless, moment, number, one_line
from onward.recovery.groups import affected
from onward.recovery.phrasing import at_time
from onward.recovery.verdicts import Evidence, Suspicion, Verdict
from onward.retry.redact import redact

if TYPE_CHECKING:
    from rich.console import Console

    from onward import App
    from onward.model.recovery import FailureGroup

SHOWN_DOCUMENTS = 10
SHOWN_OPENINGS = 5
_TRACEBACK_LINES = 30
_STYLES = {
    Suspicion.DEPENDENCY: "yellow",
    Suspicion.OVERLOAD: "yellow",
    Suspicion.POISON: "magenta",
    Suspicion.BUG: "red",
    Suspicion.UNCLEAR: "dim",
}


# -- for people


def _now_and_ever(group: FailureGroup) -> str:
    noun = "event" if group.collection is None else "document"
    now = group.affected if group.collection is not None else group.dead_letters
    return f"{number(now)} of {counted(group.documents, noun)} now"


def print_group_entry(out: Console, short: str, evidence: Evidence, verdict: Verdict, now: float) -> None:
    """Print a group as an entry of a list."""
    group, waiting = evidence.group, evidence.waiting
    held = f"{counted(waiting, 'event')} {'waits' if waiting == 1 else 'wait'}" if waiting else ""
    seen = f"since {at_time(group.first_seen, now)}, last {duration(max(0, int(now - group.last_seen)))} ago"
    line = Text.assemble(
        (f"{short}  ", "green"),
        (f"{verdict.kind:17}  ", _STYLES[verdict.kind]),
        f"{one_line(group.service, 30)}: {held or _now_and_ever(group)}",
        (f", {seen}", "dim"),
    )
    print_entry(out, line)
    print_entry(out, Text(f"{'':{len(short)}}  {error_text(group, 200)}", "red"))


def print_group(app: App, evidence: Evidence, verdict: Verdict) -> None:
    """Print all that is known of a group: the verdict first, what to type next last."""
    group = evidence.group
    out = console()
    name = shortened([one.fingerprint for one in app.store.failure_groups(limit=KNOWN)])
    short = name.get(group.fingerprint, group.fingerprint)
    out.print(Text(error_text(group, 600), "bold"), soft_wrap=True)
    out.print()
    if verdict.kind is Suspicion.UNCLEAR:
        out.print(Text("The cause is unclear:", "bold"))
    else:
        out.print(Text.assemble("Probably: ", (str(verdict.kind), f"bold {_STYLES[verdict.kind]}")))
    for sentence in verdict.sentences:
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
        ("affects", f"{_now_and_ever(group)}{letters}" if group.documents else ""),
        ("waiting", counted(evidence.waiting, "event") if evidence.waiting else ""),
        ("versions", versions),
        ("points at", ", ".join(f"{one} ({number(count)})" for one, count in group.dependencies.items())),
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
    for why, command in next_steps(evidence, verdict, short, example):
        out.print(Text.assemble((f"  {why}: " if command else f"  {why}", ""), (command, "bold")), soft_wrap=True)


def _print_documents(app: App, out: Console, group: FailureGroup, short: str) -> str:
    """Print the first affected documents; answer how to look at one."""
    shown = list(islice(affected(app.store, group.fingerprint), SHOWN_DOCUMENTS))
    if not shown:
        return ""
    ids = short_ids(app, [one.id for one in shown])
    out.print()
    out.print(Text("Affected now", "bold"))
    for one in shown:
        error = one_line(redact(error_of(one)), 100)
        line = Text.assemble(
            (f"  {one_line(ids[one.id]):8}", "green"), f"  {one.collection:10}{one.status:10}  ", (error, "dim")
        )
        print_entry(out, line)
    if (more := group.affected - len(shown)) > 0:
        out.print(Text(f"  … and {number(more)} more: onward failures show {short} --json", "dim"))
    return show_command(app, shown[0].collection, shown[0].id)
