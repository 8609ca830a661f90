"""Named statements in the form that PostgreSQL's driver takes, and the parameters for them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from onward.ledger.named_statements import load_statements

# From this many rows, a constant column is sent as one value. The server prepares each variant of a statement.
MIN_ROWS_TO_SPREAD = 32
_COLUMNS = re.compile(r"unnest\(((?:\s*\$\d+::\w+\[\],?){2,})\)(?:\s+AS (\w+) \(([^)]*)\))?")


@dataclass(frozen=True, slots=True)
class Statement:
    """A named statement. Its `{lock …}` is left out where nothing is to be locked."""

    name: str
    shape: str  # `rows`, `column`, `row` or `value`
    locking: str
    plain: str
    names: tuple[str, ...] = ()  # The names of its parameters, if they have names
    as_json: frozenset[int] = frozenset()  # The numbers of the parameters that it takes as JSON
    columns: re.Match[str] | None = None  # The part that takes all parameters as columns, if there is one

    def text(self, *, lock: bool = True) -> str:
        return self.locking if lock else self.plain

    def values(self, parameters: Sequence[Any]) -> list[Any]:
        """Return parameters for the driver: lists become arrays, or JSON where the statement says so."""
        values = list(parameters)
        for position, value in enumerate(values):
            if isinstance(value, list | tuple):
                values[position] = json.dumps(value) if position + 1 in self.as_json else array(value)
        return values

    def spread(self, columns: Sequence[Sequence[Any]]) -> tuple[str, list[Any]]:
        """Return text and parameters for many rows; a column of equal values is sent as one value."""
        # Unnesting a column of a thousand equal values takes the server half as long as storing them.
        worth_it = self.columns is not None and len(columns[0]) >= MIN_ROWS_TO_SPREAD
        constant = [worth_it and _is_constant(column) for column in columns]
        if not any(constant) or all(constant):
            return self.text(), self.values(columns)
        values = [
            # Numbers as text: the driver would choose a type by size, and prepare another statement for each type.
            (repr(column[0]) if isinstance(column[0], int | float) else column[0]) if same else array(column)
            for column, same in zip(columns, constant, strict=True)
        ]
        return _spread(self.name, tuple(constant)), values


@cache
def _spread(name: str, constant: tuple[bool, ...]) -> str:
    query = statement(name)
    assert query.columns is not None, "only statements with columns are spread"
    listed, alias, names = query.columns.groups()
    kinds = list(enumerate(zip(re.findall(r"::(\w+)\[\]", listed), constant, strict=True), start=1))
    chosen = ", ".join(f"${n}::{kind}" if same else f"c{n}" for n, (kind, same) in kinds)
    arrays = ", ".join(f"${n}::{kind}[]" for n, (kind, same) in kinds if not same)
    array_names = ", ".join(f"c{n}" for n, (_, same) in kinds if not same)
    rows = f"(SELECT {chosen} FROM unnest({arrays}) AS several ({array_names})) AS {alias or 'given'}"
    return query.locking.replace(query.columns[0], f"{rows} ({names})" if names else rows)


def _is_constant(column: Sequence[Any]) -> bool:
    # In this order: in most columns with several values, the first and the last differ.
    return column[0] == column[-1] and column.count(column[0]) == len(column) and len(set(map(type, column))) == 1


@cache
def statements() -> dict[str, Statement]:
    """Return all named statements."""
    return {name: _parsed(name, shape, text) for name, (text, shape) in load_statements(__package__).items()}


def statement(name: str) -> Statement:
    return statements()[name]


def _parsed(name: str, shape: str, text: str) -> Statement:
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    text = re.sub(r"(?<!:):([a-z_]+)", number, text)
    return Statement(
        name,
        shape,
        re.sub(r"\{lock ([^}]*)\}", r"\1", text),
        re.sub(r"\{lock [^}]*\}", "", text),
        tuple(names),
        frozenset(int(number) for number in re.findall(r"\$(\d+)::jsonb?(?![\[b])", text)),
        _COLUMNS.search(text),
    )


def array(values: Sequence[Any]) -> str:
    """Return values as text of a PostgreSQL array. The driver's own way checks the type of each value."""
    kinds = set(map(type, values))
    if len(kinds) == 1:
        if values.count(values[0]) == len(values):  # as many columns are
            return "{" + ",".join([_element(values[0])] * len(values)) + "}"
        if kinds == {str}:
            text = '","'.join(values)
            if "\\" not in text and text.count('"') == 2 * (len(values) - 1):
                return '{"' + text + '"}'
        elif kinds <= {int, float}:
            return "{" + ",".join(map(repr, values)) + "}"
    return "{" + ",".join([_element(value) for value in values]) + "}"


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
