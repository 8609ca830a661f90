"""Named statements, as they stand in `queries/*.sql`, and how values are handed to them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any


class Shape(StrEnum):
    """What a query answers."""

    ROWS = "rows"
    COLUMN = "column"
    ROW = "row"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Statement:
    """A named statement. `{lock …}` in it is left out where nothing is to be locked."""

    name: str
    shape: Shape
    locking: str
    plain: str
    names: tuple[str, ...] = ()
    """Of its parameters, where they have names."""
    as_json: frozenset[int] = frozenset()
    """The parameters that it takes as JSON."""

    def text(self, *, lock: bool = True) -> str:
        return self.locking if lock else self.plain

    def values(self, parameters: Sequence[Any]) -> list[Any]:
        """Parameters as the driver takes them: lists are arrays, or JSON where the statement says so."""
        return [
            value
            if not isinstance(value, list | tuple)
            else json.dumps(value)
            if number in self.as_json
            else array(value)
            for number, value in enumerate(parameters, start=1)
        ]


@cache
def statements() -> dict[str, Statement]:
    """All named statements."""
    written = [one for one in files(__package__).joinpath("queries").iterdir() if one.name.endswith(".sql")]
    text = "\n".join(one.read_text() for one in sorted(written, key=lambda one: one.name))
    parts = re.split(r"^-- name: (\w+)(?: :(\w+))?$", text, flags=re.MULTILINE)[1:]
    return {
        name: _parsed(name, shape or "rows", body)
        for name, shape, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    }


def statement(name: str) -> Statement:
    return statements()[name]


def _parsed(name: str, shape: str, body: str) -> Statement:
    lines = [line for line in body.splitlines() if not line.lstrip().startswith("--")]
    text = "\n".join(lines).strip().rstrip(";")
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    text = re.sub(r"(?<!:):([a-z_]+)", number, text)
    return Statement(
        name,
        Shape(shape),
        re.sub(r"\{lock ([^}]*)\}", r"\1", text),
        re.sub(r"\{lock [^}]*\}", "", text),
        tuple(names),
        frozenset(int(one) for one in re.findall(r"\$(\d+)::jsonb?(?![\[b])", text)),
    )


def array(values: Sequence[Any]) -> str:
    """Values as a PostgreSQL array. The driver's own way looks at the type of each value, one by one."""
    kinds = set(map(type, values))
    if len(kinds) != 1:
        return "{" + ",".join([_element(one) for one in values]) + "}"
    if values.count(values[0]) == len(values):  # as in many columns
        return "{" + ",".join([_element(values[0])] * len(values)) + "}"
    (kind,) = kinds
    if kind is str:
        text = '","'.join(values)
        if "\\" not in text and text.count('"') == 2 * (len(values) - 1):
            return '{"' + text + '"}'
    elif kind is int or kind is float:
        return "{" + ",".join(map(repr, values)) + "}"
    return "{" + ",".join([_element(one) for one in values]) + "}"


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, bytes):
        return f'"\\\\x{value.hex()}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)
