"""The SQL files of the two dialects agree with each other, and with the constants that they repeat."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

import pytest

from onward.ledger.named_statements import load_statements
from onward.model.ledger import SUSPECT_DEATHS

DIALECTS = ("onward.ledger.sqlite", "onward.ledger.postgres")


def test_both_dialects_have_the_same_statements() -> None:
    sqlite, postgres = (set(load_statements(package)) for package in DIALECTS)
    assert sqlite == postgres


def test_every_statement_is_used() -> None:
    package = files("onward")
    code = "\n".join(
        file.read_text()
        for folder in ("ledger", "search", "observe", "gateway", "recovery", "runtime")
        for file in _python_files(package.joinpath(folder))
    )
    assert [name for name in load_statements(DIALECTS[0]) if f'"{name}"' not in code] == []


def _python_files(folder: Traversable) -> Iterator[Traversable]:
    for one in folder.iterdir():
        if one.is_dir():
            yield from _python_files(one)
        elif one.name.endswith(".py"):
            yield one


@pytest.mark.parametrize("package", DIALECTS)
def test_statements_and_indexes_compare_deaths_with_the_constant(package: str) -> None:
    # A partial index takes no parameter, so the statements that use it repeat its number.
    folders = [files(package).joinpath(name) for name in ("queries", "migrations")]
    text = "\n".join(
        file.read_text() for folder in folders for file in folder.iterdir() if file.name.endswith(".sql")
    )
    compared = re.findall(r"\bdeaths (<|>=|<=|>|=) (\d+)", text)
    assert {operator for operator, _ in compared} == {"<", ">="}
    assert {int(number) for _, number in compared} == {SUSPECT_DEATHS}
