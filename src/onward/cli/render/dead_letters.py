"""Prints dead letters."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rich.text import Text

from onward.ops.text.format import counted, harmless, moment, one_line, size
from onward.ops.text.history import (
    MAX_SHOWN_BYTES,
    error_text,
    last_error_text,
    raw_text,
    reason_text,
    tries_text,
)
from onward.retry.redact import redact

if TYPE_CHECKING:
    from rich.console import Console

    from onward.model.ledger import DeadLetter


def dead_letter_line(dead_letter: DeadLetter) -> Text:
    """Return a dead letter as one line."""
    named = ", ".join(one_line(f"{collection}/{id}", 60) for collection, id in dead_letter.documents[:1])
    more = len(dead_letter.documents) - 1
    documents = f"{named} and {more} more" if more > 0 else named or "no document"
    return Text.assemble(
        (f"{dead_letter.row:>7}", "green"),
        f"  {moment(dead_letter.timestamp)}  {documents}  ",
        (f"{tries_text(dead_letter)}, {dead_letter.abandoned_reason}  ", "dim"),
        (last_error_text(dead_letter), "red"),
    )


def print_dead_letter(out: Console, dead_letter: DeadLetter) -> None:
    """Print everything about a dead letter."""
    event = dead_letter.original_event
    out.print(
        Text(f"Dead letter {dead_letter.row} in {one_line(dead_letter.failed_queue)}", "bold"), soft_wrap=True
    )
    facts = [
        ("given up", f"{moment(dead_letter.timestamp)}, {reason_text(dead_letter)}"),
        ("deaths", f"{dead_letter.deaths}" if dead_letter.deaths else ""),
        ("event", f"{event['event_type']} {event['event_id']} of {moment(event['timestamp'])}"),
        ("documents", ", ".join(f"{collection}/{id}" for collection, id in dead_letter.documents)),
        ("group", dead_letter.fingerprint),
        ("key", dead_letter.idempotency_key),
    ]
    for name, value in facts:
        if value:
            out.print(Text.assemble((f"  {name:10}", "dim"), one_line(value)), soft_wrap=True)
    data = json.dumps(event["data"], ensure_ascii=False, indent=2)
    out.print(Text(_indented(data)), soft_wrap=True)
    for error in dead_letter.errors:
        where = " ".join(one_line(str(error[name])) for name in ("worker", "version") if error.get(name))
        text = one_line(error_text(error), 1_000)
        line = Text.assemble(
            (f"  {moment(error.get('at')):18}", "dim"), (text, "red"), (f"  {where}".rstrip(), "dim")
        )
        out.print(line, soft_wrap=True)
    if dead_letter.errors and (trace := dead_letter.errors[-1].get("traceback")):
        out.print(Text(_indented(redact(str(trace)).rstrip()), "dim"), soft_wrap=True)
    if dead_letter.raw is not None:
        cut = (
            f", of which the first {counted(MAX_SHOWN_BYTES, 'byte')}"
            if len(dead_letter.raw) > MAX_SHOWN_BYTES
            else ""
        )
        out.print(Text(f"  raw, {size(len(dead_letter.raw))}{cut}:", "dim"))
        out.print(Text(_indented(raw_text(dead_letter.raw))), soft_wrap=True)
    out.print()


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in harmless(text).split("\n"))
