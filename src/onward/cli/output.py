"""What commands print: text for people, JSON for programs; harmless whatever a document holds."""

from __future__ import annotations

import json
import re

import click
from rich.console import Console
from rich.text import Text

from onward.facts.wording import harmless

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

_HARMFUL_IN_JSON = re.compile(r"[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_MARKED = re.compile(r"\x02(.*?)\x03", re.DOTALL)


def print_json(facts: object, *, indent: int | None = 2) -> None:
    """Print facts as JSON; without an indent, on one line."""
    text = json.dumps(facts, ensure_ascii=False, indent=indent)
    click.echo(_HARMFUL_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def console(*, stderr: bool = False) -> Console:
    """Return where text for people goes: coloured on a terminal, without control codes elsewhere."""
    return Console(highlight=False, emoji=False, stderr=stderr)


def print_entry(out: Console, text: Text) -> None:
    """Print one line of a list: cut at the edge of a terminal, whole elsewhere."""
    if out.is_terminal:
        out.print(text, no_wrap=True, overflow="ellipsis")
    else:
        out.print(text, soft_wrap=True)


def marked(text: str, out: Console) -> Text:
    """An excerpt with its matching words marked: by style on a terminal, by `*` elsewhere."""
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
    """On one line, but with the blanks at its ends."""
    return re.sub(r"\s+", " ", harmless(text))
