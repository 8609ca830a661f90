"""`onward failed purge` and `archive`: remove dead letters, or put them away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from onward.cli.actions import log_action
from onward.cli.letters import Choice, all_option, archived_option, choose, dry_run_option, filter_options
from onward.cli.opening import reading
from onward.cli.output import console, json_option, one_line, print_json

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

        if dry_run or not confirm:
            count = sum(wanted(one) for one in choice.letters())
        else:
            count = _change(app, choice, app.store.purge_letters, wanted)
            _log(app, "failed purge", choice.about | {"recovered": recovered}, count)
    done = confirm and not dry_run
    if as_json:
        print_json({"dry_run": not done, "removed": count})
    else:
        verb = "removed" if done else "would be removed"
        console().print(Text(one_line(f"{choice.of(count)} {verb}.")), soft_wrap=True)
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
        if dry_run:
            count = sum(1 for _ in choice.letters())
        else:
            step = app.store.restore_letters if restore else app.store.archive_letters
            count = _change(app, choice, step, lambda letter: True)
            about = {name: value for name, value in choice.about.items() if name != "archived"}
            _log(app, "failed archive", about | {"restore": restore}, count)
    if as_json:
        print_json({"dry_run": dry_run, "restored" if restore else "archived": count})
        return
    verb = ("would be " if dry_run else "") + ("restored" if restore else "archived")
    console().print(Text(one_line(f"{choice.of(count)} {verb}.")), soft_wrap=True)


def _change(
    app: App, choice: Choice, step: Callable[[list[int]], int], wanted: Callable[[DeadLetter], bool]
) -> int:
    """Change letters a transaction at a time; what is wanted is asked in the same one."""
    count = 0
    for page in _pages(choice.letters()):
        with app.store.transaction():
            count += step([one.row for one in page if wanted(one)])
    return count


def _pages(letters: Iterator[DeadLetter]) -> Iterator[list[DeadLetter]]:
    while page := list(islice(letters, AT_ONCE)):
        yield page


def _log(app: App, action: str, about: dict[str, Any], touched: int) -> None:
    if touched:
        log_action(app, action, about, touched)
