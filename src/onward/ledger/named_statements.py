"""Loading named SQL statements and migrations from the `queries` and `migrations` folders of a dialect.

Conventions of the `.sql` files:

- A statement begins with `-- name: the_name`. Both dialects have a statement of each name that `ledger` uses, with
  the same parameters in the same order and the same result (tests/store/test_statement_names.py).
- SQLite: parameters are `?`, `?1` or `:name`. A query returns one row, its result as JSON (`json_group_array`). A
  list is one parameter, read by `json_each`. A statement with `{values}` inserts many rows.
- PostgreSQL: parameters are `$1::type` or `:name`. The header has the shape of the result: `:value`, `:row` or
  `:column`; without it, rows. A list is an array parameter, many rows are one array per column, both read by
  `unnest`. `{lock …}` is left out when a query only reads.
- A statement that runs often has its plan in tests/store/test_plans.py.
- Migrations are numbered in each dialect independently. A new one raises `SCHEMA_VERSION` of its dialect.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import NamedTuple

_COMMENT = re.compile(r"^\s*--.*\n", re.MULTILINE)
_HEADER = re.compile(r"^-- name: (\w+)(?: :(\w+))?$", re.MULTILINE)


class MissingObject(NamedTuple):
    """A table, column or index that a database lacks, and the statement that makes a missing or broken index."""

    what: str
    statement: str = ""


@cache
def load_statements(package: str) -> dict[str, tuple[str, str]]:
    """Return the text of each statement, and the shape of its result, by name."""
    parts = _HEADER.split("\n".join(load_scripts(package, "queries")))[1:]
    return {
        name: (_COMMENT.sub("", body + "\n").strip().rstrip(";"), shape or "rows")
        for name, shape, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    }


def load_scripts(package: str, folder: str) -> list[str]:
    """Return the texts of a folder of a dialect, in the order of their names."""
    found = [file for file in files(package).joinpath(folder).iterdir() if file.name.endswith(".sql")]
    return [file.read_text() for file in sorted(found, key=lambda file: file.name)]
