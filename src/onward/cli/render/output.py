"""Prints JSON for programs and text for people, with control characters of documents escaped."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import click

from onward.ops.text.format import harmless

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_HARMFUL_IN_JSON = re.compile(r"[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_MARKED = re.compile(r"\x02(.*?)\x03", re.DOTALL)


def print_json(facts: object, *, indent: int | None = 2) -> None:
    """Print facts as JSON; without an indent, on one line."""
    text = json.dumps(facts, ensure_ascii=False, indent=indent)
    click.echo(_HARMFUL_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def console(*, stderr: bool = False) -> Console:
    """Return the console for text: coloured on a terminal, without control codes elsewhere."""
    from rich.console import Console

    return Console(highlight=False, emoji=False, stderr=stderr)


def print_entry(out: Console, text: Text) -> None:
    """Print a line of a list; on a terminal it is cut at the edge."""
    if out.is_terminal:
        out.print(text, no_wrap=True, overflow="ellipsis")
    else:
        out.print(text, soft_wrap=True)


def marked(text: str, out: Console) -> Text:
    """Return an excerpt with its matching words marked: by style on a terminal, by `*` elsewhere."""
    from rich.text import Text

    shown = Text()
    at = 0
    for found in _MARKED.finditer(text):
        shown.append(_flat(text[at : found.start()]))
        word = _flat(found[1])
        shown.append(word, "bold yellow") if out.is_terminal else shown.append(f"*{word}*")
        at = found.end()
    shown.append(_flat(text[at:]))
    return shown


def _flat(text: str) -> str:
    """Return the text on one line, with the blanks at its ends."""
    return re.sub(r"\s+", " ", harmless(text))
