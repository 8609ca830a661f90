"""Named statements in the form that SQLite's driver takes."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from onward.ledger.named_statements import load_statements

_NUMBERED = re.compile(r"\?(\d+)")


class Statement(NamedTuple):
    """A statement, and the position of the parameter for each of its placeholders."""

    text: str
    order: tuple[int, ...]  # Empty: the parameters are given in their order, or by name


def names() -> list[str]:
    """List the names of all statements."""
    return list(load_statements(__package__))


@cache
def statement(name: str) -> Statement:
    """Return a named statement."""
    # Python before 3.12.4 takes ?1 for a named placeholder, and warns when it is given a sequence.
    text = load_statements(__package__)[name].text
    return Statement(_NUMBERED.sub("?", text), tuple(int(number) - 1 for number in _NUMBERED.findall(text)))


@cache
def bulk_statement(name: str, width: int, size: int) -> str:
    """Return a named `{values}` statement for a number of rows."""
    row = "(" + ",".join("?" * width) + ")"
    return load_statements(__package__)[name].text.replace("{values}", ",".join([row] * size))
