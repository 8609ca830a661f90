"""How a document stands, what happens to it next, and its life so far, for `onward show`."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.text import Text

from onward.cli.opening import worker_command
from onward.cli.output import counted, iso, number, one_line
from onward.model.documents import FINAL
from onward.recovery.deciding import Rules
from onward.recovery.outlook import Outlook, Outlooks, process_of, rounds_of
from onward.recovery.story import Moment, Story

if TYPE_CHECKING:
    from rich.console import Console

    from onward import App, DocumentState

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


def outlook_of(app: App, state: DocumentState) -> Outlook:
    """What happens to a document next."""
    outlooks = Outlooks(app.store, Rules.of(app.settings), worker=worker_command(app.store))
    return outlooks.of(state, holdup=_holdup(app, state) if state.collection == "threads" else "")


def _holdup(app: App, state: DocumentState) -> str:
    """What of a thread is still to be finished before it can be summarised."""
    if state.final or state.row is not None:
        return ""
    found = app.store.find("messages", "thread_id", [state.id])
    open_messages = sum(one.status not in FINAL and not one.set_aside for one in found)
    if open_messages:
        return f"{counted(open_messages, 'message')} {'is' if open_messages == 1 else 'are'} still to be finished"
    chunks = sum(
        status_count
        for message in found
        for status, status_count in app.store.children_counts("messages", message.id).get("chunks", {}).items()
        if status not in FINAL
    )
    return f"{counted(chunks, 'chunk')} {'is' if chunks == 1 else 'are'} still to be finished" if chunks else ""


# -- for programs


def next_facts(outlook: Outlook) -> dict[str, Any]:
    """What happens next, for programs."""
    return outlook.as_dict() | {"at": iso(outlook.at)}


def life_facts(story: Story) -> dict[str, Any]:
    """A document's life, for programs."""
    letter, batch, row = story.dead_letter, story.batch, story.row
    return {
        "moments": [one.as_dict() | {"at": time_fact(one.at)} for one in story.moments],
        "not_kept": story.not_kept,
        "row": None
        if row is None
        else asdict(row)
        | {name: iso(getattr(row, name)) for name in ("published_at", "due", "lease", "settled_at")},
        "dead_letter": None
        if letter is None
        else {
            "row": letter.row,
            "failed_queue": letter.failed_queue,
            "reason": letter.abandoned_reason,
            "tries": letter.attempt_count,
            "at": iso(letter.timestamp),
        },
        "failed_batch": None
        if batch is None
        else {
            "id": batch.id,
            "retries": batch.retry_count,
            "retried_at": iso(batch.retry_after),
            "documents": len(batch.items),
        },
        "parent": story.parent,
        "children": {name: dict(counts) for name, counts in story.children.items()},
    }


def time_fact(at: object) -> str | None:
    """A time that others may have written as they like."""
    return iso(at) if isinstance(at, int | float) else str(at) if at else None


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
