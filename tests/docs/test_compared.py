"""The table of features: every feature of Onward links to its test, every other cell says one of four words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "compared.md"
TEXT = PAGE.read_text(encoding="utf-8")
PEERS = ["Celery", "dramatiq", "procrastinate", "pgqueuer", "Oban", "DBOS", "River"]


def rows() -> list[list[str]]:
    table = TEXT[TEXT.index("| feature |") : TEXT.index("\nNotes\n")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line]


HEAD, _, *BODY = rows()
FEATURES = [row for row in BODY if not row[0].startswith("**")]


def test_all_peers_are_compared() -> None:
    assert ["feature", "Onward", *PEERS] == HEAD
    assert len(FEATURES) >= 30
    assert len({row[0] for row in FEATURES}) == len(FEATURES)


@pytest.mark.parametrize("row", FEATURES, ids=lambda row: row[0])
def test_a_feature_has_its_test(row: list[str]) -> None:
    link = r"\((\.\./\.\./tests/[\w/]+/test_\w+\.py)#(test_\w+)\)"
    assert re.fullmatch(rf"\[yes\]{link}( \[and\]{link})?", row[1]), f"{row[0]}: {row[1]}"
    for path, name in re.findall(link, row[1]):
        defined = re.findall(r"^(?:async )?def (test_\w+)\(", (PAGE.parent / path).read_text(), re.MULTILINE)
        assert name in defined, f"{row[0]}: {path} has no {name}"


@pytest.mark.parametrize("row", FEATURES, ids=lambda row: row[0])
def test_the_others_have_it_or_not_and_a_part_is_explained(row: list[str]) -> None:
    assert len(row) == 2 + len(PEERS)
    for cell in row[2:]:
        assert re.fullmatch(r"(yes|no|\?)( \(\d+\))?|part \(\d+\)", cell), f"{row[0]}: {cell}"


def test_every_note_is_there_and_is_used() -> None:
    notes = re.findall(r"^(\d+)\. .+\.$", TEXT[TEXT.index("\nNotes\n") :], re.MULTILINE)
    used = {number for row in FEATURES for cell in row[2:] for number in re.findall(r"\((\d+)\)", cell)}
    assert notes == [str(number) for number in range(1, len(notes) + 1)]
    assert used == set(notes)


def test_the_versions_that_were_looked_at_are_named() -> None:
    looked_at = TEXT[TEXT.index("Looked at in") :]
    for peer in PEERS:
        assert re.search(rf"^\| {peer} \| [^|]*\d+\.\d+[^|]* \| [^|]+ \|$", looked_at, re.MULTILINE), peer
