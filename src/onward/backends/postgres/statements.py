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


WORTH_SPREADING = 32
"""Rows; each way to spread a statement is one more for the server to prepare."""
_COLUMNS = re.compile(r"unnest\(((?:\s*\$\d+::\w+\[\],?){2,})\)(?:\s+AS (\w+) \(([^)]*)\))?")


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
    columns: re.Match[str] | None = None
    """Where it takes all its parameters as columns, if it does."""

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

    def spread(self, columns: Sequence[Sequence[Any]]) -> tuple[str, list[Any]]:
        """Its text and parameters for many rows; a column that holds one value is sent as that value.

        To read a column's thousand equal values back into rows takes the server half as long as to store them.
        """
        worth_it = self.columns is not None and len(columns[0]) >= WORTH_SPREADING
        constant = [worth_it and _is_constant(column) for column in columns]
        if not any(constant) or all(constant):
            return self.text(), self.values(columns)
        values = [
            _value(column[0]) if same else array(column) for column, same in zip(columns, constant, strict=True)
        ]
        return _spread(self.name, tuple(constant)), values


@cache
def _spread(name: str, constant: tuple[bool, ...]) -> str:
    query = statement(name)
    assert query.columns is not None, "only columns are spread"
    listed, alias, names = query.columns.groups()
    kinds = re.findall(r"::(\w+)\[\]", listed)
    chosen = [
        f"${n}::{kind}" if same else f"c{n}" for n, (kind, same) in enumerate(zip(kinds, constant, strict=True), 1)
    ]
    arrays = [
        (f"${n}::{kind}[]", f"c{n}")
        for n, (kind, same) in enumerate(zip(kinds, constant, strict=True), 1)
        if not same
    ]
    rows = f"unnest({', '.join(one for one, _ in arrays)}) AS several ({', '.join(one for _, one in arrays)})"
    given = f"(SELECT {', '.join(chosen)} FROM {rows}) AS {alias or 'given'}" + (f" ({names})" if names else "")
    return query.locking.replace(query.columns[0], given)


def _value(value: Any) -> Any:
    # Numbers as text: the driver would choose a type by the size of each, and prepare one statement more for it.
    return repr(value) if isinstance(value, int | float) else value


def _is_constant(column: Sequence[Any]) -> bool:
    # In this order: of most columns that hold several values, the ends tell.
    return column[0] == column[-1] and column.count(column[0]) == len(column) and len(set(map(type, column))) == 1


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
        _COLUMNS.search(text),
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
