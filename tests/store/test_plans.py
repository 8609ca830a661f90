"""The cost of a statement grows with what it is about, not with what is stored: each uses its index."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from importlib.resources import files

import pytest

from onward.backends.sqlite.database import queries

HOT = {
    # claiming
    "next_priority": "ledger_due (service=? AND priority<?)",
    "due_rows": "ledger_due (service=? AND priority=? AND due<?)",
    "due_suspects": "ledger_suspect (service=? AND due<?)",
    "under_way": "ledger_claimed",
    "documents": "sqlite_autoindex_documents_1 (collection=? AND id=?)",
    "bodies": "INTEGER PRIMARY KEY",
    "bodies_by_id": "sqlite_autoindex_documents_1 (collection=? AND id=?)",
    "claim_rows": "INTEGER PRIMARY KEY",
    # settling and publishing
    "rows": "INTEGER PRIMARY KEY",
    "done_rows": "INTEGER PRIMARY KEY",
    "update_row": "INTEGER PRIMARY KEY",
    "waiting_keys": "ledger_key (key=?)",
    "twin": "ledger_key (key=?)",
    "known_event": "ledger_event (event_id=?)",
    "unrouted": "ledger_unrouted (event_type=?)",
    "children": "documents_parent (parent=?)",
    # what the supervisor asks all the time
    "renew": "ledger_claimed (worker=?)",
    "claims_of": "ledger_claimed (worker=?)",
    "claimed_rows": "ledger_claimed (worker=?)",
    "lapsed": "ledger_claimed",
    "next_lapse": "ledger_claimed",
    "next_due": "ledger_due (service=? AND priority=?)",
    "next_suspect": "ledger_suspect (service=?)",
    # keeping house
    "prune_old": "ledger_done (settled_at<?)",
    "prune_many": "ledger_done",
    "prune_unrouted": "ledger_unrouted_due (due<?)",
    "documents_of_source": "documents_source (source=?)",
    "rows_of_source": "ledger_source (source=?)",
    "dead_letters": "ledger_dead (id>?)",
    # dead letters
    "find_letters": "ledger_dead (id>?)",
    "find_letters_of_service": "ledger_dead_service (service=? AND id>?)",
    "find_letters_of_group": "ledger_dead_group (fingerprint=? AND id>?)",
    "find_archived_letters": "ledger_archived (id>?)",
    "letter_groups": "ledger_dead_queue",
    "letters": "INTEGER PRIMARY KEY",
    "row_states": "INTEGER PRIMARY KEY",
    "move_letters": "INTEGER PRIMARY KEY",
    # failure groups
    "group_counts": "sqlite_autoindex_failure_groups_1 (fingerprint=?)",
    "failure_groups": "failure_groups_seen (last_seen>?)",
    "failure_group": "documents_fingerprint (fingerprint=?)",
    # the retry job
    "next_look": "documents_look",
    "states_by_id": "sqlite_autoindex_documents_1 (collection=? AND id=?)",
    "due_batches": "failed_batches_due (retry_after<?)",
    "failed_batch": "documents_batch (failed_batch=?)",
    "idle_items": "documents_batch (failed_batch=?)",
    # finding
    "statuses": "sqlite_autoindex_documents_1 (collection=? AND id=?)",
    "found": "keys_value (name=? AND value=?)",
    "keyed_ids": "keys_value (name=? AND value=?)",
    "children_of": "documents_parent (parent=?)",
    "unfinished": "documents_parent (parent=?)",
    "listed": "sqlite_autoindex_documents_1 (collection=? AND id>?)",
    "drop_empty_batches": "documents_batch (failed_batch=?)",
    # steering
    "found_states": "sqlite_autoindex_documents_1 (collection=? AND id>?)",
    "given_up_states": "documents_given_up (collection=? AND status=? AND id>?)",
    "group_states": "documents_fingerprint (fingerprint=? AND (collection,id)>(?,?))",
    "hurry_row": "INTEGER PRIMARY KEY",
    "actions": "actions_at",
}
SORTING = {
    # these put in order, or count, what their index has found
    "to_look_at": ("documents_look (look_at<?)", "documents_scheduled (retry_at>? AND retry_at<?)"),
    "looked_at_later": ("documents_look (look_at>?)",),
    "stuck": ("documents_look (look_at>?)",),
}
USED = [*HOT.values(), *(index for used in SORTING.values() for index in used)]
INDEXES = sorted({index.split()[0] for index in USED if re.match(r"(?!sqlite_)[a-z]+_", index)})


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    for step in sorted(files("onward.backends.sqlite").joinpath("migrations").iterdir(), key=lambda one: one.name):
        connection.executescript(step.read_text())
    yield connection
    connection.close()


def plan(database: sqlite3.Connection, name: str) -> list[str]:
    statement = queries()[name]
    named = dict.fromkeys(re.findall(r":(\w+)", statement))
    numbered = set(re.findall(r"\?\d", statement))
    values = named or [None] * (len(numbered) or statement.count("?"))
    return [step[3] for step in database.execute(f"EXPLAIN QUERY PLAN {statement}", values)]


def is_good(steps: list[str], index: str) -> bool:
    """It uses its index, reads no table from end to end, and sorts nothing."""
    scans = [step for step in steps if re.match(r"SCAN (ledger|documents|bodies|d|b)\b(?! USING)", step)]
    sorts = [step for step in steps if "TEMP B-TREE" in step]
    return any(index in step for step in steps) and not scans and not sorts


@pytest.mark.parametrize("name", HOT)
def test_a_hot_statement_uses_its_index(database: sqlite3.Connection, name: str) -> None:
    steps = plan(database, name)
    assert is_good(steps, HOT[name]), steps


@pytest.mark.parametrize("name", SORTING)
def test_what_sorts_reads_only_what_its_index_has_found(database: sqlite3.Connection, name: str) -> None:
    steps = plan(database, name)
    for index in SORTING[name]:
        assert any(index in step for step in steps), steps
    assert not [step for step in steps if re.match(r"SCAN documents\b(?! USING)", step)], steps


@pytest.mark.parametrize("index", INDEXES)
def test_this_would_fail_without_the_index(database: sqlite3.Connection, index: str) -> None:
    database.execute(f"DROP INDEX {index}")
    for name in (name for name, used in HOT.items() if used.split()[0] == index):
        try:
            steps = plan(database, name)
        except sqlite3.OperationalError:
            continue  # it asked for this index by name
        assert not is_good(steps, HOT[name]), f"{name} does as well without {index}"


def test_every_index_serves_a_statement(database: sqlite3.Connection) -> None:
    found = database.execute("SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")
    assert sorted(name for (name,) in found) == INDEXES
