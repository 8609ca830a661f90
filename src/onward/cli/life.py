"""How a document stands, what happens to it next, and its life so far, printed for people."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.text import Text

from onward.facts.wording import counted, number, one_line
from onward.recovery.outlook import Outlook, process_of, rounds_of
from onward.recovery.story import Moment, Story

if TYPE_CHECKING:
    from rich.console import Console


STATUS_STYLES = {"processed": "green", "pending": "yellow", "discarded": "dim"}
_NAME, _TIME = 12, 21
_LONGEST = 600
"""Of an error so much is shown; all of it is in the JSON."""


def field(out: Console, name: str, value: str, style: str = "") -> None:
    """Print one named value, if there is one."""
    if value:
        out.print(Text.assemble((f"{name:{_NAME}}", "dim"), (one_line(value), style)), soft_wrap=True)


def print_hanging(out: Console, head: Text, text: Text) -> None:
    """Print a text behind its head; on a terminal its lines stay in their column."""
    width = len(head.plain)
    if not out.is_terminal or out.width < 2 * width:
        out.print(Text.assemble(head, text), soft_wrap=True)
        return
    for line in text.wrap(out, out.width - width):
        line.rstrip()
        out.print(Text.assemble(head, line))
        head = Text(" " * width)


# -- for people


def print_state(out: Console, story: Story, outlook: Outlook) -> None:
    """Print how a document stands and what happens to it next."""
    state = story.state
    field(out, "id", f"{state.collection}/{state.id}")
    field(out, "status", str(state.status), STATUS_STYLES.get(state.status, "red"))
    # Not a character of a command is changed: somebody copies it.
    text = one_line(outlook.text) + (f": {outlook.command}" if outlook.command else "")
    print_hanging(out, Text(f"{'next':{_NAME}}", "dim"), Text(text))
    for problem in outlook.about.get("problems", ()):
        field(out, "odd", problem, "yellow")
    rounds = counted(count, "round") if (count := rounds_of(state)) else ""
    told = state.attempts.get("total", 0) if state.attempts else 0
    outcomes = counted(told, "outcome") if told > 1 else ""
    kept = f"{number(told - story.not_kept)} of them kept" if story.not_kept else ""
    parts = (rounds, outcomes, kept, f"revision {state.revision}")
    field(out, "history", ", ".join(part for part in parts if part))
    field(out, "priority", str(state.priority) if state.priority else "")
    field(out, "made from", story.parent or "")
    for collection, counts in sorted(story.children.items()):
        by_status = ", ".join(f"{number(count)} {status}" for status, count in sorted(counts.items()))
        field(out, "made", f"{collection}: {by_status}")
    if story.dead_letter is not None:
        letter = story.dead_letter
        about = f"{letter.abandoned_reason} in {letter.failed_queue}: onward failed inspect {letter.row}"
        field(out, "dead letter", about, "red")


def print_life(out: Console, story: Story) -> None:
    """Print a document's life as a list of moments, the newest last."""
    out.print(Text("Life", "bold"))
    for one in story.moments:
        _print_moment(out, one)


def _print_moment(out: Console, one: Moment) -> None:
    if one.what == "not_kept":
        print_hanging(out, _time(None), Text(f"… {number(one.count)} more are not kept", "dim"))
        return
    if one.what == "created":
        print_hanging(out, _time(one.at), Text("created"))
        return
    if one.what == "event":
        print_hanging(out, _time(one.at), Text(one_line(f"{one.event_type} settled by {one.service}"), "dim"))
        return
    turn = ", ".join(f"{name} {count}" for name, count in (("round", one.round), ("try", one.attempt)) if count)
    failed = bool(one.error_type or one.message)
    style = "red" if failed else STATUS_STYLES.get(one.decided, "")
    head = one.decided or "failed"
    if failed and not head.startswith("failed"):
        head = f"failed, {head}"
    about = Text.assemble((one_line(head), style), (f"  {turn}" if turn else "", "dim"))
    who = " · ".join(part for part in (process_of(one.worker), one.version) if part)
    about.append(f"  {one_line(who)}" if who else "", "dim")
    print_hanging(out, _time(one.at), about)
    if failed:
        error = f"{one.error_type}: {one.message}".strip(": ")
        print_hanging(out, _time(None), Text(one_line(error, _LONGEST)))


def _time(at: float | None) -> Text:
    shown = ""
    if isinstance(at, int | float):
        try:
            shown = datetime.fromtimestamp(at, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        except (OverflowError, OSError, ValueError):
            shown = ""
    return Text(f"{shown:{_TIME}}", "dim")
