"""What came of every letter, read from the store when the demo is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from onward import App, DeadLetter, DocumentState

COLLECTIONS = ("letters", "notes", "cards")


@dataclass(slots=True)
class Tally:
    """Count the published events by state; nothing may be left over."""

    published: int
    done: int = 0
    waiting: int = 0
    set_aside: int = 0
    retried: int = 0
    tries_lost_to_outage: int = 0

    @property
    def lost(self) -> int:
        return self.published - self.done - self.waiting - self.set_aside


def tally(app: App, letters: Sequence[str]) -> Tally:
    """Look for each letter by its id, and for events that could not be read."""
    dead = app.store.dead_letters(limit=1000)
    aside = {id for letter in dead for _, id in letter.documents}
    unreadable = sum(letter.raw is not None for letter in dead)
    count = Tally(published=len(letters) + unreadable, set_aside=unreadable)
    ahead = _events_ahead(app, letters)
    for id in letters:
        states = {name: state for name in COLLECTIONS if (state := app.state(name, id)) is not None}
        retries = {name: _outcomes(state).count("retried") for name, state in states.items()}
        count.retried += sum(retries.values())
        count.tries_lost_to_outage += retries.get("notes", 0)
        if app.state("drawer", id) is not None:
            count.done += 1
        elif id in aside:
            count.set_aside += 1
        elif any(state.row is not None for state in states.values()):
            count.waiting += 1
        elif ahead and states.keys() <= {COLLECTIONS[0]}:
            ahead -= 1
            count.waiting += 1
    return count


def _events_ahead(app: App, letters: Sequence[str]) -> int:
    """How many events wait for a letter that does not know of them, because they came before it."""
    rows = app.store.counts().get("sorting", {})
    states = [app.state(COLLECTIONS[0], id) for id in letters]
    known = sum(state is not None and state.row is not None for state in states)
    return rows.get("waiting", 0) + rows.get("claimed", 0) - known


def _outcomes(state: DocumentState) -> list[str]:
    """Return the outcomes of a document, without those of events that came before it."""
    kept = [state.attempts.get("first"), *state.attempts.get("last", ())]
    return [entry["outcome"] for entry in kept if entry and entry.get("kind") != "not_ready"]


def summary(app: App, letters: Sequence[str]) -> RenderableType:
    """Draw the summary: counts, dead letters, openings, and what to type next."""
    count = tally(app, letters)
    parts: list[RenderableType] = [_counts(count), "", _heading("Set aside, with their history")]
    parts += [_dead_letters(app.store.dead_letters(limit=1000)), "", _heading("Outages"), _openings(app, count)]
    parts += ["", _heading("Next"), _next()]
    return Padding(Group(*parts), (1, 2))


def _grid(*styles: str | None) -> Table:
    """Columns of one line each; the last one gives way where the terminal is narrow."""
    table = Table.grid(padding=(0, 2), expand=True)
    for style in styles[:-1]:
        table.add_column(style=style, no_wrap=True)
    table.add_column(style=styles[-1], no_wrap=True, overflow="ellipsis", ratio=1)
    return table


def _heading(text: str) -> Text:
    return Text(text, style="bold")


def _counts(count: Tally) -> Table:
    table = Table(box=box.ROUNDED, border_style="dim", header_style="dim")
    for name, style in (
        ("published", "bold"),
        ("done", "green"),
        ("waiting", "yellow"),
        ("set aside", "red"),
        ("lost", "bold green" if count.lost == 0 else "bold red"),
        ("retried", "magenta"),
    ):
        table.add_column(name, justify="right", style=style, min_width=9)
    table.add_row(
        *(str(n) for n in (count.published, count.done, count.waiting, count.set_aside, count.lost, count.retried))
    )
    return table


def _dead_letters(letters: Sequence[DeadLetter]) -> Table:
    table = _grid(None, "dim", "red", None)
    for dead_letter in letters:
        who = dead_letter.documents[0][1] if dead_letter.documents else "an event"
        why = (
            f"its {len(dead_letter.raw)} bytes are kept" if dead_letter.raw is not None else dead_letter.last_error
        )
        table.add_row(who, dead_letter.service_name, dead_letter.abandoned_reason, Text(why))
    return table


def _openings(app: App, count: Tally) -> RenderableType:
    table = _grid(None, "yellow", None, "dim")
    for one in app.store.openings():
        lasted = (one["closed_at"] or app.store.now()) - one["opened_at"]
        lost = f"tries lost: {count.tries_lost_to_outage}"
        table.add_row(one["dependency"], f"breaker open for {lasted:.1f} s", lost, Text(one["reason"]))
    return table if table.row_count else Text("none", style="dim")


def _next() -> Table:
    table = _grid("cyan", "dim")
    table.add_row(".venv/bin/onward policies", "what is retried when, and until when")
    table.add_row("examples/mailroom.py", "the three services you have just watched")
    table.add_row("docs/tutorial.md", "your own, in a quarter of an hour")
    return table
