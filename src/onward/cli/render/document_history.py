"""Prints a document's status, its next step and its history."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.text import Text

from onward.ops.text.format import counted, number, one_line, sentence_text
from onward.ops.text.history import entry_text
from onward.ops.text.next_step import next_step_command, next_step_sentence
from onward.recovery.history import DocumentHistory, HistoryEntry
from onward.recovery.next_step import NextStep, rounds_of

if TYPE_CHECKING:
    from rich.console import Console


STATUS_STYLES = {"processed": "green", "pending": "yellow", "discarded": "dim"}
_NAME, _TIME = 12, 21
_TONES = {"good": "green", "warn": "yellow", "bad": "red"}


def field(out: Console, name: str, value: str, style: str = "") -> None:
    """Print a value after its name, unless it is empty."""
    if value:
        out.print(Text.assemble((f"{name:{_NAME}}", "dim"), (one_line(value), style)), soft_wrap=True)


def print_hanging(out: Console, head: Text, text: Text) -> None:
    """Print a text after its head; on a terminal its lines stay in their column."""
    width = len(head.plain)
    if not out.is_terminal or out.width < 2 * width:
        out.print(Text.assemble(head, text), soft_wrap=True)
        return
    for line in text.wrap(out, out.width - width):
        line.rstrip()
        out.print(Text.assemble(head, line))
        head = Text(" " * width)


def print_state(out: Console, history: DocumentHistory, step: NextStep) -> None:
    """Print the status of a document and what happens to it next."""
    state = history.state
    field(out, "id", f"{state.collection}/{state.id}")
    field(out, "status", str(state.status), STATUS_STYLES.get(state.status, "red"))
    # The command is printed unchanged, because people copy it.
    command = next_step_command(step)
    sentence = one_line(sentence_text(next_step_sentence(step), step.now))
    text = f"{sentence}: {command}" if command else sentence
    print_hanging(out, Text(f"{'next':{_NAME}}", "dim"), Text(text))
    for problem in step.problems:
        field(out, "odd", problem, "yellow")
    rounds = counted(count, "round") if (count := rounds_of(state)) else ""
    total = state.attempts.get("total", 0) if state.attempts else 0
    outcomes = counted(total, "outcome") if total > 1 else ""
    kept = f"{number(total - history.not_kept)} of them kept" if history.not_kept else ""
    parts = (rounds, outcomes, kept, f"revision {state.revision}")
    field(out, "history", ", ".join(part for part in parts if part))
    field(out, "priority", str(state.priority) if state.priority else "")
    field(out, "made from", history.parent or "")
    for collection, counts in sorted(history.children.items()):
        by_status = ", ".join(f"{number(count)} {status}" for status, count in sorted(counts.items()))
        field(out, "made", f"{collection}: {by_status}")
    if history.dead_letter is not None:
        letter = history.dead_letter
        about = f"{letter.abandoned_reason} in {letter.failed_queue}: onward failed inspect {letter.row}"
        field(out, "dead letter", about, "red")


def print_history(out: Console, history: DocumentHistory) -> None:
    """Print the entries of a document's history, the newest last."""
    out.print(Text("History", "bold"))
    for entry in history.entries:
        _print_entry(out, entry)


def _print_entry(out: Console, entry: HistoryEntry) -> None:
    shown = entry_text(entry)
    style = _TONES.get(shown.tone, "" if entry.what == "created" else "dim")
    about = Text.assemble((shown.text, style), (f"  {shown.detail}" if shown.detail else "", "dim"))
    print_hanging(out, _time(shown.at), about)
    if shown.error:
        print_hanging(out, _time(None), Text(shown.error))


def _time(at: float | None) -> Text:
    shown = ""
    if isinstance(at, int | float):
        try:
            shown = datetime.fromtimestamp(at, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        except (OverflowError, OSError, ValueError):
            shown = ""
    return Text(f"{shown:{_TIME}}", "dim")
