"""The SQL files of the two dialects agree with each other, and with the constants that they repeat."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from onward.ledger.named_statements import load_statements
from onward.model.ledger import SUSPECT_DEATHS

DIALECTS = ("onward.ledger.sqlite", "onward.ledger.postgres")
ONLY_SQLITE = {
    # full-text search by FTS5, and old vector changes, which PostgreSQL deletes in `delete_vectors`
    "found_texts",
    "ranked_texts",
    "term_counts",
    "prune_vector_changes",
}
ONLY_POSTGRES = {
    # full-text search by tsvector
    "match_texts",
    "stems",
}


def test_both_dialects_have_the_same_statements() -> None:
    sqlite, postgres = (set(load_statements(package)) for package in DIALECTS)
    assert sqlite - postgres == ONLY_SQLITE
    assert postgres - sqlite == ONLY_POSTGRES


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
