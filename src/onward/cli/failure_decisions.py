"""`onward failures fixed`, `reopen`, `note`, `assign`, `merge`, `split`, `rules` and `undo`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from onward.cli.action_run import runs_action
from onward.cli.app_access import open_store_app
from onward.cli.failures import failures
from onward.cli.output import Output
from onward.cli.params import json_option, print_json
from onward.model.group_rules import SplitBy
from onward.ops.actions import group_life, group_rules
from onward.ops.queries.group_life import rule_facts
from onward.ops.text.format import moment, one_line
from onward.ops.text.group_life import rule_sentence

if TYPE_CHECKING:
    from onward.ops.actions.action import Action


@failures.command("fixed")
@click.argument("group")
@click.option(
    "--in", "version", metavar="VERSION", help="The first version with the fix; it may be still to come."
)
@runs_action()
def close_group(group: str, version: str | None) -> Action:
    """Close a failure group whose cause is fixed: it is listed no more, unless it comes back.

    With --in, failures of older versions do not reopen it. A failure in this version or a later one is a
    regression: the group is reopened and listed first. Without --in, the next try that fails reopens it.

    \b
    Examples:
      onward failures fixed 5d41402a --in 2.4.1
      onward failures fixed 5d41402a
    """
    return group_life.CloseFailureGroup(group, version)


@failures.command("reopen")
@click.argument("group")
@runs_action()
def reopen_group(group: str) -> Action:
    """Reopen a failure group that was closed; a regression becomes an ordinary open group.

    \b
    Examples:
      onward failures reopen 5d41402a
    """
    return group_life.ReopenFailureGroup(group)


@failures.command("note")
@click.argument("group")
@click.argument("text", nargs=-1, required=True)
@runs_action()
def note_group(group: str, text: tuple[str, ...]) -> Action:
    """Add a note to a failure group, for everybody who looks at it.

    \b
    Examples:
      onward failures note 5d41402a "The vendor knows; ticket 4711."
    """
    return group_life.NoteFailureGroup(group, " ".join(text))


@failures.command("assign")
@click.argument("group")
@click.argument("owner", required=False)
@click.option("--nobody", is_flag=True, help="It has no owner any more.")
@runs_action()
def assign_group(group: str, owner: str | None, nobody: bool) -> Action:
    """Give a failure group an owner.

    \b
    Examples:
      onward failures assign 5d41402a ana
      onward failures assign 5d41402a --nobody
    """
    if nobody == (owner is not None):
        raise click.UsageError("give either the name of the owner, or --nobody")
    return group_life.AssignFailureGroup(group, owner)


@failures.command("merge")
@click.argument("group")
@click.argument("others", nargs=-1, required=True, metavar="OTHER…")
@runs_action()
def merge_groups(group: str, others: tuple[str, ...]) -> Action:
    """Let the failures of other groups count with GROUP: those so far, and those to come.

    Their documents and dead letters move, so that lists, retry and discard work on the merged group at once.

    \b
    Examples:
      onward failures merge 5d41402a 7d793037 --dry-run
      onward failures merge 5d41402a 7d793037 9f86d081
    """
    return group_rules.MergeFailureGroups(group, others)


@failures.command("split")
@click.argument("group")
@click.option("--message", metavar="TEXT", help="Failures with this text in their message, whatever the case.")
@click.option("--dependency", metavar="NAME", help="Failures that point at this dependency.")
@click.option("--version", metavar="VERSION", help="Failures of this version of the workers.")
@runs_action()
def split_group(group: str, message: str | None, dependency: str | None, version: str | None) -> Action:
    """Make failures of a group that match a group of their own: those so far, and those to come.

    \b
    Examples:
      onward failures split 5d41402a --message "quota exceeded" --dry-run
      onward failures split 5d41402a --dependency embedder
      onward failures split 5d41402a --version 2.4.0
    """
    given = {SplitBy.MESSAGE: message, SplitBy.DEPENDENCY: dependency, SplitBy.VERSION: version}
    chosen = [(by, value) for by, value in given.items() if value is not None]
    if len(chosen) != 1:
        raise click.UsageError("give one of --message, --dependency and --version")
    return group_rules.SplitFailureGroup(group, *chosen[0])


@failures.command("rules")
@json_option
def list_rules(as_json: bool) -> None:
    """List the rules that merge and split failure groups.

    \b
    Examples:
      onward failures rules
      onward failures undo 3
    """
    with open_store_app() as app:
        found = app.store.group_rules()
    if as_json:
        print_json([rule_facts(rule) for rule in found])
        return
    out = Output()
    for rule in found:
        who = f"  {one_line(rule.who, 40)}, {moment(rule.at)}"
        out.entry((f"{rule.id:>3}  ", "green"), rule_sentence(rule), (who, "dim"))
    if found:
        out.hint("To undo one: ", f"onward failures undo {found[0].id}")
    else:
        out.write("No group was merged or split.")


@failures.command("undo")
@click.argument("rule", type=click.IntRange(1))
@runs_action()
def undo_rule(rule: int) -> Action:
    """Remove a rule that merges or splits failure groups.

    What is affected now goes back to its own group, and so does what fails from now on. Failures of documents that
    have recovered stay counted where they are.

    \b
    Examples:
      onward failures rules
      onward failures undo 3 --dry-run
      onward failures undo 3
    """
    return group_rules.UndoGroupRule(rule)
