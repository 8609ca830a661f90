"""`onward actions`: what people have changed by hand."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from onward.cli.choosing import Count
from onward.cli.opening import reading
from onward.cli.output import console, json_option, print_entry, print_json
from onward.facts.actions import action_facts, log_action
from onward.facts.wording import moment, number, one_line
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App

LISTED = 50


# -- changes that take a while


@dataclass(slots=True)
class Change:
    """How far a change of many things has come."""

    done: int = 0
    stopped: bool = False
    """Somebody wants it to end after the step that is under way."""


@contextmanager
def changing(app: App, action: str, about: Mapping[str, Any]) -> Iterator[Change]:
    """Make a change step by step, and log what was done of it, however it ends.

    Ctrl-C and SIGTERM let the present step end, so that it is known what was done; a second one does not.
    """
    change = Change()

    def stop() -> None:
        if change.stopped:
            raise KeyboardInterrupt
        change.stopped = True

    with _on_signals(stop, signal.SIGINT, signal.SIGTERM):
        try:
            yield change
        finally:
            log_action(app, action, about, change.done)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM end a command as Ctrl-C does, with all that is to be said and tidied up."""

    def stop() -> None:
        raise KeyboardInterrupt

    with _on_signals(stop, signal.SIGTERM):
        yield


@contextmanager
def _on_signals(handler: Callable[[], None], *numbers: signal.Signals) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may ask for signals
        return
    before = {number: signal.signal(number, lambda *_: handler()) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@click.command()
@click.option("--limit", type=Count(), default=LISTED, show_default=True, help="At most so many.")
@click.option("--before", type=Count(), metavar="NUMBER", help="Go on behind the action of this number.")
@json_option
def actions(limit: int, before: int | None, as_json: bool) -> None:
    """Show what people have changed by hand, the latest first: who, when, what, and how much of it.

    \b
    Examples:
      onward actions
      onward actions --limit 10 --json
    """
    with reading() as app:
        found = app.store.actions(limit=limit + 1, before=before)
    shown = found[:limit]
    if as_json:
        print_json([action_facts(one) for one in shown])
        return
    out = console()
    if not shown:
        out.print(Text("Nothing has been changed by hand." if before is None else "There are no earlier ones."))
        return
    for one in shown:
        about = one_line(redact(" ".join(f"{name}={_brief(value)}" for name, value in one.about.items())), 200)
        line = Text.assemble(
            (f"{one.id:>5}  ", "dim"),
            f"{moment(one.at)}  {one_line(one.who, 20):12}  ",
            (f"{one_line(one.action, 40):18}", "bold"),
            f"  {number(one.touched):>6}  ",
            (about, "dim"),
        )
        print_entry(out, line)
    if len(found) > limit:
        out.print(Text.assemble(("Earlier ones: ", "dim"), f"onward actions --before {shown[-1].id}"))


def _brief(value: object) -> str:
    if isinstance(value, list):
        return ",".join(str(one) for one in value[:3]) + (f",… ({len(value)})" if len(value) > 3 else "")
    return str(value).lower() if isinstance(value, bool) else str(value)
