"""`onward failed purge` and `archive`: remove dead letters, or put them away."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from onward.cli import INTERRUPTED
from onward.cli.actions import Change, changing
from onward.cli.letters import all_option, archived_option, dry_run_option, filter_options
from onward.cli.opening import reading
from onward.cli.output import console, json_option, print_json
from onward.facts.letters import Choice, choose
from onward.facts.wording import number, one_line

if TYPE_CHECKING:
    from onward import App
    from onward.model.ledger import DeadLetter

AT_ONCE = 200


@click.command()
@click.argument("queue", required=False, metavar="[QUEUE]")
@all_option
@filter_options
@archived_option
@click.option("--recovered", is_flag=True, help="Only letters about nothing that is still unfinished.")
@click.option("--confirm", is_flag=True, help="Really remove them.")
@dry_run_option
@json_option
def purge(
    queue: str | None,
    everything: bool,
    archived: bool,
    recovered: bool,
    confirm: bool,
    dry_run: bool,
    as_json: bool,
    **filters: Any,
) -> None:
    """Remove letters for ever. Their documents stay as they are; export first what may be wanted.

    \b
    Examples:
      onward failed purge parsing.failed --dry-run
      onward failed purge --all --archived --confirm
    """
    with reading() as app:
        choice = choose(app, queue, everything=everything, archived=archived, **filters)

        def wanted(letter: DeadLetter) -> bool:
            return not recovered or app.store.is_recovered(letter)

        change = Change()
        if dry_run or not confirm:
            change.done = sum(wanted(one) for one in choice.letters())
        else:
            with changing(app, "failed purge", choice.about | {"recovered": recovered}) as change:
                _change(app, choice, change, app.store.purge_letters, wanted)
        done = confirm and not dry_run
        if as_json:
            print_json({"dry_run": not done, "removed": change.done, "interrupted": change.stopped})
        elif recovered and choice.row is not None and not change.done:
            _say(f"Letter {choice.row} is about something unfinished: it {'stays' if done else 'would stay'}.")
        else:
            _tell(choice, change, "removed" if done else "would be removed", wanted)
    if change.stopped:
        raise SystemExit(INTERRUPTED)
    if not done and not dry_run:
        raise click.UsageError("removing is for ever: add --confirm")


@click.command()
@click.argument("queue", required=False, metavar="[QUEUE]")
@all_option
@filter_options
@click.option("--restore", is_flag=True, help="Bring archived letters back to their queue.")
@dry_run_option
@json_option
def archive(
    queue: str | None, everything: bool, restore: bool, dry_run: bool, as_json: bool, **filters: Any
) -> None:
    """Put letters away: they are kept, but counted and shown no more, unless asked for with --archived.

    \b
    Examples:
      onward failed archive parsing.failed --error-type UnreadableMail
      onward failed archive parsing.failed --restore
    """
    with reading() as app:
        choice = choose(app, queue, everything=everything, archived=restore, **filters)
        change = Change()
        if dry_run:
            change.done = sum(1 for _ in choice.letters())
        else:
            step = app.store.restore_letters if restore else app.store.archive_letters
            about = {name: value for name, value in choice.about.items() if name != "archived"}
            with changing(app, "failed archive", about | {"restore": restore}) as change:
                _change(app, choice, change, step, _any)
        verb = "restored" if restore else "archived"
        if as_json:
            print_json({"dry_run": dry_run, verb: change.done, "interrupted": change.stopped})
        else:
            _tell(choice, change, f"would be {verb}" if dry_run else verb, _any)
    if change.stopped:
        raise SystemExit(INTERRUPTED)


def _any(letter: DeadLetter) -> bool:
    return True


def _change(
    app: App,
    choice: Choice,
    change: Change,
    step: Callable[[Sequence[int]], int],
    wanted: Callable[[DeadLetter], bool],
) -> None:
    """Change letters a transaction at a time; what is wanted is asked in the same one."""
    for page in _pages(choice.letters()):
        if change.stopped:
            return
        change.done += app.store.atomically(partial(_changed, page, step, wanted))
    change.stopped = False  # too late: all of it is done


def _changed(
    page: Sequence[DeadLetter], step: Callable[[Sequence[int]], int], wanted: Callable[[DeadLetter], bool]
) -> int:
    return step([one.row for one in page if wanted(one)])


def _tell(choice: Choice, change: Change, verb: str, wanted: Callable[[DeadLetter], bool]) -> None:
    if not change.stopped:
        _say(f"{choice.of(change.done)} {verb}.")
        return
    # What was changed is not found any more.
    most = None if choice.limit is None else choice.limit - change.done
    total = change.done + sum(1 for _ in islice(filter(wanted, choice.letters()), most))
    done = f"{number(change.done)} of {choice.of(total)} {verb}, then stopped."
    _say(f"{done} The same command goes on with the rest.")


def _say(text: str) -> None:
    console().print(Text(one_line(text)), soft_wrap=True)


def _pages(letters: Iterator[DeadLetter]) -> Iterator[list[DeadLetter]]:
    while page := list(islice(letters, AT_ONCE)):
        yield page
