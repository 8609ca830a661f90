"""`onward failures`: what fails for the same reason is shown, put back and given up together."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from onward.cli.action_run import runs_action
from onward.cli.app_access import open_reading_app
from onward.cli.output import Output, events_wait
from onward.cli.params import (
    DATE,
    event_classes_of,
    events_option,
    json_option,
    print_json,
    rate_option,
)
from onward.model.group_life import GroupState
from onward.ops.actions import failure_groups as actions
from onward.ops.actions.group_canary import RetryGroupInSteps
from onward.ops.lookup import check_service, short_ids, show_command
from onward.ops.queries import failure_groups as groups
from onward.ops.queries.group_life import rules_about, state_of
from onward.ops.text.diagnosis import diagnosis_sentences, remedy_command, remedy_text
from onward.ops.text.format import (
    be,
    counted,
    duration,
    harmless,
    local_time,
    moment,
    number,
    one_line,
)
from onward.ops.text.group_life import life_sentences, rule_sentence, state_text
from onward.recovery.diagnosis import Cause, Diagnosis, diagnose
from onward.recovery.evidence import Evidence, evidence_of
from onward.recovery.next_step import describe_error
from onward.recovery.remedies import remedies
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App
    from onward.model.ledger_views import FailureGroup
    from onward.ops.actions.action import Action

LISTED = 50
GROWING = 0  # --canary without a number
_STATES = [str(state).replace("_", "-") for state in GroupState]
_SHOWN_DOCUMENTS, _SHOWN_OPENINGS, _TRACEBACK_LINES = 10, 5, 30
_STYLES = {
    Cause.DEPENDENCY: "yellow",
    Cause.OVERLOAD: "yellow",
    Cause.POISON: "magenta",
    Cause.BUG: "red",
    Cause.UNCLEAR: "dim",
}


class _CanarySize(click.ParamType[int]):
    """How many go first; without a number, in growing steps."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return GROWING if value == "growing" else click.IntRange(1).convert(value, param, ctx)


@click.group()
def failures() -> None:
    """Look at failures that have the same cause, and put them back or give them up together.

    \b
    Examples:
      onward failures list
      onward failures show 5d41402a
      onward failures retry 5d41402a --canary
    """


@failures.command("list")
@click.option("--service", metavar="NAME", help="Only failures of this service.")
@click.option("--since", type=DATE, metavar="WHEN", help="Only what failed since then: 2026-03-09, today, …")
@click.option("--all", "show_all", is_flag=True, help="Also what is closed, or affects nothing any more.")
@click.option("--state", type=click.Choice(_STATES), help="Only groups in this state.")
@click.option("--owner", metavar="NAME", help="Only groups of this owner.")
@click.option("--limit", type=click.IntRange(1), help=f"At most this many; {LISTED} by default, all with --json.")
@json_option
def list_groups(
    service: str | None,
    since: float | None,
    show_all: bool,
    state: str | None,
    owner: str | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """List failure groups: regressions, then what affects most documents.

    \b
    Examples:
      onward failures list
      onward failures list --service embedding --since today
      onward failures list --state closed
      onward failures list --owner ana
      onward failures list --all --json
    """
    with open_reading_app() as app:
        if service is not None:
            check_service(app, service)
        most = limit or (None if as_json else LISTED)
        wanted = GroupState(state.replace("-", "_")) if state else None
        found = groups.list_groups(
            app, service=service, since=since, everything=show_all, state=wanted, owner=owner, limit=most
        )
        if as_json:
            print_json([groups.group_facts(one, diagnose(one)) for one in found.page])
            return
        now = app.store.now()
    out = Output()
    if not found.total and not found.hidden and not found.closed:
        filtered = any(one is not None for one in (service, since, state, owner))
        out.write("No such failures." if filtered else "Nothing has failed.")
        return
    for evidence in found.page:
        group, waiting, cause = evidence.group, evidence.waiting, diagnose(evidence).kind
        short = found.short[group.fingerprint]
        out.entry(
            (f"{short}  ", "green"),
            (f"{cause:17}  ", _STYLES[cause]),
            f"{one_line(group.service, 30)}: {events_wait(waiting) if waiting else _affected_count(group)}",
            (f", since {local_time(group.first_seen, now)}, last {_ago(group, now)}", "dim"),
        )
        out.entry(f"{'':{len(short)}}  {groups.error_text(group, 200)}", style="red")
        decided = (
            [state_text(group.life, now_state)] if (now_state := state_of(evidence)) != GroupState.OPEN else []
        )
        decided += [f"owner: {one_line(redact(group.life.owner), 60)}"] if group.life.owner else []
        decided += [counted(len(group.life.notes), "note")] if group.life.notes else []
        if decided:
            style = "bold red" if now_state is GroupState.REGRESSION else "dim"
            out.entry(f"{'':{len(short)}}  {', '.join(decided)}", style=style)
    if more := found.total - len(found.page):
        out.write(f"… and {number(more)} more; --limit {found.total} shows them.", style="dim")
    if hidden := found.hidden:
        verb = "affects" if hidden == 1 else "affect"
        out.write(f"{counted(hidden, 'group')} {verb} nothing any more; --all shows them.", style="dim")
    if closed := found.closed:
        out.write(f"{counted(closed, 'group')} {be(closed)} closed; --state closed shows them.", style="dim")
    if found.page:
        first = found.short[found.page[0].group.fingerprint]
        out.hint("To look at one: ", f"onward failures show {first}")


def _ago(group: FailureGroup, now: float) -> str:
    return f"{duration(max(0, int(now - group.last_seen)))} ago"


def _affected_count(group: FailureGroup) -> str:
    """Return how many are affected now, of all that ever were."""
    noun = "event" if group.collection is None else "document"
    now = group.affected if group.collection is not None else group.dead_letters
    return f"{number(now)} of {counted(group.documents, noun)} now"


@failures.command("show")
@click.argument("group")
@json_option
def show_group(group: str, as_json: bool) -> None:
    """Show what is probably wrong with a failure group, why, and what to type next.

    The beginning of its fingerprint will do.

    \b
    Examples:
      onward failures show 5d41402a
    """
    with open_reading_app() as app:
        evidence = evidence_of(app.store, groups.find_group(app, group))
        verdict = diagnose(evidence)
        if as_json:
            print_json(groups.group_facts(evidence, verdict) | groups.evidence_facts(app, evidence))
        else:
            _print_group(app, evidence, verdict)


def _print_group(app: App, evidence: Evidence, verdict: Diagnosis) -> None:
    """Print everything about a failure group: the cause first, the next commands last."""
    group, out = evidence.group, Output()
    known = groups.shortened([item.fingerprint for item in app.store.failure_groups(limit=groups.KNOWN)])
    short = known.get(group.fingerprint, group.fingerprint)
    out.write(groups.error_text(group, 600), style="bold")
    out.print()
    if verdict.kind is Cause.UNCLEAR:
        out.write("The cause is unclear:", style="bold")
    else:
        out.write("Probably: ", (str(verdict.kind), f"bold {_STYLES[verdict.kind]}"))
    for sentence in diagnosis_sentences(verdict, group.versions):
        out.write(f"  {one_line(sentence)}")
    out.print()
    kinds = ", ".join(f"{number(count)} {kind.replace('_', ' ')}" for kind, count in group.kinds.items())
    letters = f", {counted(group.dead_letters, 'dead letter')}" if group.dead_letters else ""
    for label, value in (
        ("group", group.fingerprint),
        ("service", group.service),
        ("place", group.place),
        ("first seen", moment(group.first_seen)),
        ("last seen", f"{moment(group.last_seen)}, {_ago(group, app.store.now())}"),
        ("failures", f"{number(group.failures)} ({kinds})" if kinds else number(group.failures)),
        ("affects", f"{_affected_count(group)}{letters}" if group.documents else ""),
        ("waiting", counted(evidence.waiting, "event") if evidence.waiting else ""),
        ("versions", _counts(group.versions)),
        ("dependency", _counts(group.dependencies)),
        ("state", state_text(group.life, state) if (state := state_of(evidence)) != GroupState.OPEN else ""),
        ("owner", group.life.owner),
    ):
        out.field(label, redact(value))
    for opening in evidence.openings[-_SHOWN_OPENINGS:]:
        until = f"until {moment(opening.closed_at)}" if opening.closed_at is not None else "and is still open"
        text = f"{opening.dependency} opened {moment(opening.opened_at)} {until}: {redact(opening.reason)}"
        out.field("breaker", one_line(text, 300))
    _print_decisions(app, out, evidence)
    if group.traceback:
        lines = harmless(redact(group.traceback)).strip().splitlines()
        out.print()
        out.write("The last one" if len(lines) <= _TRACEBACK_LINES else "The end of the last one", style="bold")
        for line in lines[-_TRACEBACK_LINES:]:
            out.write(f"  {line}", style="dim")
    if group.context:
        out.print()
        out.write("The context of the last report", style="bold")
        for line in harmless(groups.context_text(group)).splitlines():
            out.write(f"  {line}", style="dim")
    example = _print_documents(app, out, group, short)
    if not example and (found := app.store.find_dead_letters(fingerprint=group.fingerprint, limit=1)):
        example = f"onward failed inspect {found[0].row}"
    out.print()
    out.write("What to type next", style="bold")
    now = app.store.now()
    for remedy in remedies(evidence, verdict, example=bool(example), own=groups.own_retries(app, group)):
        command = remedy_command(remedy, short, example)
        out.write(f"  {remedy_text(remedy, now)}{': ' if command else ''}", (command, "bold"))


def _print_decisions(app: App, out: Output, evidence: Evidence) -> None:
    """Print who closed the group, its notes, and its rules."""
    group, state = evidence.group, state_of(evidence)
    if sentences := life_sentences(group.life, state):
        out.print()
        out.write("A regression" if state is GroupState.REGRESSION else "Closed", style="bold")
        for sentence in sentences:
            out.write(f"  {sentence}")
    if group.life.notes:
        out.print()
        out.write("Notes", style="bold")
        for note in group.life.notes:
            first, *more = harmless(redact(note.text)).splitlines() or [""]
            out.write((f"  {moment(note.at)}  {one_line(note.who, 40)}: ", "dim"), first)
            for line in more:
                out.write(f"    {line}")
    if rules := rules_about(app, group.fingerprint):
        out.print()
        out.write("Rules", style="bold")
        for rule in rules:
            out.write(f"  {rule_sentence(rule)}", (f"  (undo: onward failures undo {rule.id})", "dim"))


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({number(count)})" for name, count in counts.items())


def _print_documents(app: App, out: Output, group: FailureGroup, short: str) -> str:
    """Print the first affected documents; return the command that shows the first."""
    shown = list(islice(groups.affected(app.store, group.fingerprint), _SHOWN_DOCUMENTS))
    if not shown:
        return ""
    ids = short_ids(app, [state.id for state in shown])
    out.print()
    out.write("Affected now", style="bold")
    for state in shown:
        out.entry(
            (f"  {one_line(ids[state.id]):8}", "green"),
            f"  {state.collection:10}{state.status:10}  ",
            (one_line(describe_error(state.last_error), 100), "dim"),
        )
    if (more := group.affected - len(shown)) > 0:
        out.write(f"  … and {number(more)} more: onward failures show {short} --json", style="dim")
    return show_command(app, shown[0].collection, shown[0].id)


@failures.command("retry")
@click.argument("group")
@click.option(
    "--canary",
    is_flag=False,
    flag_value="growing",
    type=_CanarySize(),
    metavar="[N]",
    help="Put 1 back, then 5, then 50, then the rest, each only when those before are processed; with N, put N "
    "back, then the rest.",
)
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="SHARE",
    help="A step of --canary has gone well if this share of it is processed, such as 0.9; all of it by default.",
)
@rate_option
@events_option
@click.option(
    "--resume", is_flag=True, help="Go on with the last --canary of this group, from the step it was at."
)
@runs_action()
def retry_group(
    group: str, canary: int | None, share: float | None, rate: float | None, reference: str | None, resume: bool
) -> Action:
    """Put everything that a failure group affects back: dead letters and documents.

    With --canary it waits for the first ones, and leaves the rest where it is if they fail again, or in another
    way. It can be stopped, and continued with --resume: what was done is not done twice.

    \b
    Examples:
      onward failures retry 5d41402a --dry-run
      onward failures retry 5d41402a --canary
      onward failures retry 5d41402a --canary --share 0.9 --rate 5
      onward failures retry 5d41402a --resume
      onward failures retry 5d41402a --canary 3
      onward failures retry 5d41402a --rate 2
    """
    if resume and (canary is not None or share is not None or rate is not None):
        raise click.UsageError("--resume goes on as the canary was begun; leave out --canary, --share and --rate")
    if share is not None and canary != GROWING:
        raise click.UsageError("--share is for the steps of --canary without a number")
    events = event_classes_of(reference)
    if resume or canary == GROWING:
        return RetryGroupInSteps(group, share=share or 1.0, rate=rate, events=events, resume=resume)
    return actions.RetryFailureGroup(group, canary=canary or 0, rate=rate, events=events)


@failures.command("discard")
@click.argument("group")
@runs_action(final=True)
def discard_group(group: str) -> Action:
    """Give up everything that a failure group affects: its documents become `discarded`.

    They are kept, but not tried again; `onward retry ID --reset` takes one back.

    \b
    Examples:
      onward failures discard 5d41402a --dry-run
      onward failures discard 5d41402a --confirm
    """
    return actions.DiscardFailureGroup(group)
