"""`onward failures`: what fails for the same reason, why that probably is, and what to do about it."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from onward.cli.dates import Date
from onward.cli.diagnosis import print_group, print_group_entry
from onward.cli.opening import reading
from onward.cli.output import console, json_option, print_json
from onward.cli.requeueing import Display
from onward.facts.actions import log_action
from onward.facts.diagnosis import evidence_facts, group_facts
from onward.facts.diagnosis import list_groups as find_groups
from onward.facts.finding import check_service, find_group, worker_command
from onward.facts.wording import counted, number, one_line
from onward.model.recovery import Scheduled
from onward.recovery.groups import GroupPlan, GroupRetry, discard_group, plan, put_back
from onward.recovery.requeueing import CanaryOutcome
from onward.recovery.verdicts import evidence_of, judge
from onward.retry.redact import redact

if TYPE_CHECKING:
    from rich.console import Console

    from onward import App
    from onward.model.recovery import FailureGroup

LISTED = 50
SOME_LEFT = 3
_BAD_CANARY = (CanaryOutcome.FAILED, CanaryOutcome.UNANSWERED)


def _finite(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is no rate; give how many a second, such as 10 or 0.5")
    return value


@click.group()
def failures() -> None:
    """Look at failures that have the same cause, and put them back or give them up together.

    \b
    Examples:
      onward failures list
      onward failures show 5d41402a
      onward failures retry 5d41402a --canary 3
    """


@failures.command("list")
@click.option("--service", metavar="NAME", help="Only failures of this service.")
@click.option("--since", type=Date(), metavar="WHEN", help="Only what failed since then: 2026-03-09, today, …")
@click.option("--all", "show_all", is_flag=True, help="Also what affects nothing any more.")
@click.option("--limit", type=click.IntRange(1), help=f"At most so many; {LISTED} by default, all with --json.")
@json_option
def list_groups(
    service: str | None, since: float | None, show_all: bool, limit: int | None, as_json: bool
) -> None:
    """List failure groups: what affects most documents first.

    \b
    Examples:
      onward failures list
      onward failures list --service embedding --since today
      onward failures list --all --json
    """
    with reading() as app:
        if service is not None:
            check_service(app, service)
        most = limit or (None if as_json else LISTED)
        found = find_groups(app, service=service, since=since, everything=show_all, limit=most)
        if as_json:
            print_json([group_facts(one, judge(one)) for one in found.page])
            return
        now = app.store.now()
    out = console()
    if not found.total and not found.hidden:
        out.print(Text("Nothing has failed." if service is None and since is None else "No such failures."))
        return
    for evidence in found.page:
        print_group_entry(out, found.short[evidence.group.fingerprint], evidence, judge(evidence), now)
    if more := found.total - len(found.page):
        out.print(Text(f"… and {number(more)} more; --limit {found.total} shows them.", "dim"))
    if hidden := found.hidden:
        verb = "affects" if hidden == 1 else "affect"
        out.print(Text(f"{counted(hidden, 'group')} {verb} nothing any more; --all shows them.", "dim"))
    if found.page:
        first = found.short[found.page[0].group.fingerprint]
        out.print(Text.assemble(("To look at one: ", "dim"), f"onward failures show {first}"))


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
    with reading() as app:
        found = find_group(app, group)
        evidence = evidence_of(app.store, found)
        verdict = judge(evidence)
        if as_json:
            print_json(group_facts(evidence, verdict) | evidence_facts(app, evidence))
            return
        print_group(app, evidence, verdict)


@failures.command("retry")
@click.argument("group")
@click.option("--canary", type=click.IntRange(1), metavar="N", help="Try N first, and the rest if they go well.")
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    metavar="PER_SECOND",
    callback=_finite,
    help="At most so many a second.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be put back.")
@json_option
def retry_group(group: str, canary: int | None, rate: float | None, dry_run: bool, as_json: bool) -> None:
    """Put everything that a failure group affects back: dead letters and documents.

    With --canary it waits for the first ones, and leaves the rest where it is if one of them fails again.

    \b
    Examples:
      onward failures retry 5d41402a --dry-run
      onward failures retry 5d41402a --canary 3
      onward failures retry 5d41402a --rate 2
    """
    with reading() as app:
        found = find_group(app, group)
        planned = plan(app.store, found.fingerprint)
        result = GroupRetry()
        if not dry_run:
            _put_back(app, found.fingerprint, len(planned.letters), result, canary=canary or 0, rate=rate)
        if as_json:
            print_json(_retry_facts(found, planned, result, dry_run=dry_run))
        elif dry_run:
            _print_plan(console(), planned, canary)
        else:
            start = "" if app.store.workers() else worker_command(app.store)
            _print_retry(console(), found, result, start=start)
    if result.letters.canary.outcome in _BAD_CANARY:
        raise SystemExit(1)
    if not result.complete:
        raise SystemExit(SOME_LEFT)


@failures.command("discard")
@click.argument("group")
@click.option("--confirm", is_flag=True, help="Yes, give all of it up for good.")
@click.option("--dry-run", is_flag=True, help="Only say what would be given up.")
@json_option
def discard_all(group: str, confirm: bool, dry_run: bool, as_json: bool) -> None:
    """Give up everything that a failure group affects: its documents become `discarded`.

    They are kept, but nobody tries them again; `onward retry ID --reset` takes one back.

    \b
    Examples:
      onward failures discard 5d41402a --dry-run
      onward failures discard 5d41402a --confirm
    """
    with reading() as app:
        found = find_group(app, group)
        if not dry_run and not confirm:
            raise click.UsageError(
                f"this gives up {_amount(found.affected, found.dead_letters)} for good; "
                "add --confirm, or look first with --dry-run"
            )
        documents, letters = found.affected, found.dead_letters
        if not dry_run:
            discarded = discard_group(app.store, found.fingerprint)
            documents, letters = discarded.documents, discarded.letters
            if documents or letters:
                about = {"group": found.fingerprint, "service": found.service, "error_type": found.error_type}
                log_action(app, "failures discard", about, documents + letters)
    if as_json:
        facts = {"dry_run": dry_run, "fingerprint": found.fingerprint}
        print_json(facts | {"documents": documents, "dead_letters": letters})
        return
    would = "would be given up" if dry_run else "given up for good"
    done = f"{_amount(documents, letters)} {would}." if documents or letters else ""
    console().print(Text(done or "Nothing of this group is left to give up."), soft_wrap=True)


# -- putting back


def _put_back(
    app: App, fingerprint: str, letters: int, result: GroupRetry, *, canary: int, rate: float | None
) -> None:
    display = Display(letters)
    try:
        put_back(
            app.store,
            fingerprint,
            result,
            sleep=time.sleep,
            rate=rate,
            canary=canary,
            report=display.report,
            waiting=display.waiting,
        )
    finally:  # also what was done until somebody stopped it
        display.end()
        if result.touched:
            about = {"group": fingerprint, "canary": canary or None, "rate": rate}
            log_action(app, "failures retry", about, result.touched)


def _amount(documents: int, letters: int) -> str:
    if not letters:
        return counted(documents, "document")
    found = counted(letters, "dead letter")
    return f"{counted(documents, 'document')} and {found}" if documents else found


def _retry_facts(group: FailureGroup, planned: GroupPlan, result: GroupRetry, *, dry_run: bool) -> dict[str, Any]:
    """What was done, or would be, counted alike."""
    canary, letters = result.letters.canary, result.letters
    refused = planned.refused if dry_run else letters.refused
    return {
        "dry_run": dry_run,
        "fingerprint": group.fingerprint,
        "dead_letters": len(planned.letters),
        "documents_without_letter": len(planned.documents),
        "requeued": len(planned.letters) if dry_run else letters.requeued,
        "skipped_recovered": planned.recovered if dry_run else letters.skipped_recovered,
        "refused": [{"row": one.row, "reason": one.reason} for one in refused],
        "documents": {str(outcome): count for outcome, count in result.documents.items()},
        "canary": {"outcome": str(canary.outcome), "message": redact(canary.message)},
        "left_untouched": result.letters.left_untouched + result.held_back,
    }


def _print_plan(out: Console, planned: GroupPlan, canary: int | None) -> None:
    first = f", {number(canary)} of them first" if canary else ""
    if planned.letters:
        out.print(Text(f"{counted(len(planned.letters), 'dead letter')} would be put back{first}."))
    if planned.documents:
        count = counted(len(planned.documents), "document")
        out.print(Text(f"{count} without a dead letter would be tried again{first}."))
    _print_refused(out, [one.reason for one in planned.refused])
    if not (planned.letters or planned.documents or planned.refused):
        out.print(Text("Nothing of this group is left to put back."))


def _print_retry(out: Console, group: FailureGroup, result: GroupRetry, *, start: str) -> None:
    letters, canary = result.letters, result.letters.canary
    said = (
        (letters.requeued, "dead letter", "put back"),
        (letters.skipped_recovered, "dead letter", "had recovered already, or is being tried"),
        (result.documents[Scheduled.SCHEDULED], "document", "will be tried again now"),
        (result.documents[Scheduled.HURRIED], "document", "waited already, and falls due now"),
        (result.documents[Scheduled.UNDER_WAY], "document", "left alone: a worker has it just now"),
    )
    if canary.outcome is CanaryOutcome.PASSED:
        first = "first one" if len(canary.rows) == 1 else f"first {number(len(canary.rows))}"
        out.print(Text(f"The {first} went well.", "green"))
    for count, noun, what in said:
        if count:
            out.print(Text(f"{counted(count, noun)} {what}."), soft_wrap=True)
    _print_refused(out, [one.reason for one in letters.refused])
    if canary.outcome in _BAD_CANARY:
        out.print(Text(f"Stopped by the canary: {one_line(redact(canary.message), 500)}", "red"), soft_wrap=True)
    if left := letters.left_untouched + result.held_back:
        out.print(Text(f"{number(left)} left where they are."))
        if canary.outcome is CanaryOutcome.NONE:
            text = f"When the first are processed: onward failures retry {group.fingerprint[:16]}"
            out.print(Text(text, "dim"), soft_wrap=True)
    if not (result.touched or left or letters.refused or letters.skipped_recovered):
        out.print(Text("Nothing of this group is left to put back."))
    elif result.touched and start:
        out.print(Text(f"No worker is alive to do it; start one: {start}", "yellow"), soft_wrap=True)


def _print_refused(out: Console, reasons: list[str]) -> None:
    for reason in dict.fromkeys(reasons):
        count = counted(reasons.count(reason), "dead letter")
        out.print(Text(f"{count} cannot go back: {one_line(redact(reason), 300)}", "red"), soft_wrap=True)
