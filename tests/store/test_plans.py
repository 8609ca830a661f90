"""The cost of a statement grows with what it is about, not with what is stored: each uses its index."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Protocol

import psycopg
import pytest

from onward.ledger.named_statements import load_statements
from onward.ledger.postgres import PostgresStore
from onward.ledger.postgres.statements import statement
from onward.ledger.sqlite import dialect as sqlite_dialect

# Which index each statement uses, and by which columns, in the words of SQLite's plans.
HOT = {
    # claiming
    "priorities": "ledger_due (service=?",
    "due_rows": "ledger_due (service=? AND priority=? AND due>? AND due<?)",
    "due_suspects": "ledger_suspect (service=? AND due<?)",
    "claimed_count": "ledger_claimed",
    "claimed_for_dependency": "ledger_claimed",
    "documents": "sqlite_autoindex_documents_1 (collection=? AND id=?)",
    "documents_without_history": "sqlite_autoindex_documents_1 (collection=? AND id=?)",
    "bodies": "INTEGER PRIMARY KEY",
    "bodies_by_id": "sqlite_autoindex_documents_1 (collection=? AND id=?)",
    "claim_rows": "INTEGER PRIMARY KEY",
    # claiming and settling with keys
    "due_rows_in_order": "ledger_due (service=? AND priority=? AND due>? AND due<?)",
    "row_keys": "INTEGER PRIMARY KEY",
    "live_holders": "INTEGER PRIMARY KEY",
    "first_of_keys": "ledger_serial_key (service=? AND serial_key=?)",
    "first_parked": "ledger_parked (service=? AND serial_key=?)",
    "make_due": "INTEGER PRIMARY KEY",
    "lock_keys": "key_holders USING PRIMARY KEY (service=? AND serial_key=?)",
    "drop_keys": "key_holders USING PRIMARY KEY (service=? AND serial_key=?)",
    "lost_keys": "INTEGER PRIMARY KEY",
    # settling and publishing
    "rows": "INTEGER PRIMARY KEY",
    "done_rows": "INTEGER PRIMARY KEY",
    "close_rows": "INTEGER PRIMARY KEY",
    "delete_closed_rows": "INTEGER PRIMARY KEY",
    "update_row": "INTEGER PRIMARY KEY",
    "waiting_keys": "ledger_key (key=?)",
    "waiting_row": "ledger_key (key=?)",
    "remember_foreign_events": "ledger_event (event_id=?)",
    "unrouted": "ledger_unrouted (event_type=?)",
    "unsettled_rows": "ledger_due (service=?)",
    "children": "documents_parent (parent=?)",
    # what the supervisor asks all the time
    "claims_of": "ledger_claimed (worker=?)",
    "claimed_rows": "ledger_claimed (worker=?)",
    "lapsed": "ledger_claimed (worker=?)",
    "next_lapse": "ledger_claimed (worker=?)",
    "unleased": "ledger_claimed",
    "forget_leases": "ledger_claimed (worker=?)",
    "next_suspects": "ledger_suspect (service=?)",
    "pulse": "ledger_due (service=? AND priority=? AND due>?)",
    # keeping house
    "completed_before": "ledger_done",
    "prune_completed": "ledger_done (settled_at>? AND settled_at<?)",
    "prune_unrouted": "ledger_unrouted_due (due<?)",
    "unrouted_before": "ledger_unrouted_due",
    "forget_foreign_events": "foreign_events_at (at<?)",
    "unique_events": "unique_events USING PRIMARY KEY (key=?)",
    "forget_unique_events": "unique_events_until (until<?)",
    "prune_openings": "openings_opened (dependency=? AND opened_at<?)",
    "prune_groups": "failure_groups_seen",
    "prune_actions": "INTEGER PRIMARY KEY",
    # operations of people
    "operation": "sqlite_autoindex_operations_1 (id=?)",
    "save_operation": "sqlite_autoindex_operations_1 (id=?)",
    "operations": "operations_began",
    "prune_operations": "operations_began (began_at<?)",
    "take_status_counts": "PRIMARY KEY (source=?)",
    "document_counts_of_source": "PRIMARY KEY (source=?)",
    "prune_rollups": "rollups USING PRIMARY KEY (step=? AND bucket<?)",
    "sampled_services": "rollup_parts_bucket (bucket=?)",
    "waiting_counts": "ledger_due (service=?)",
    "documents_of_source": "documents_of_source (source=?)",
    "rows_of_source": "ledger_source (source=?)",
    # what leaves for other programs
    "due_outgoing": "outbox_due (due>? AND due<?)",
    "delete_outgoing": "INTEGER PRIMARY KEY",
    "oldest_outgoing": "outbox_oldest",
    "next_outgoing": "outbox_due",
    "reroute_outgoing": "outbox_unroutable (routing_key=?)",
    # what callers publish in their transactions
    "take_incoming_row": "INTEGER PRIMARY KEY",
    # events that wait for documents
    "open_join": "joins_key (key=?)",
    "lock_joins": "joins_key (key=?)",
    "keep_join": "INTEGER PRIMARY KEY",
    "change_join": "INTEGER PRIMARY KEY",
    "known_members": "m USING PRIMARY KEY (join_id=? AND collection=? AND id=?)",
    "count_members": "join_members_open (collection=? AND id=?)",
    "mark_joined": "INTEGER PRIMARY KEY",
    "complete_joins": "INTEGER PRIMARY KEY",
    "delete_members": "join_members USING PRIMARY KEY (join_id=?",
    "left_joins": "joins_left",
    "open_members": "join_members USING PRIMARY KEY (join_id=?)",
    "joins_of_document": "join_members_open (collection=? AND id=?)",
    # dead letters
    "find_dead_letters": "ledger_dead (id>?)",
    "find_dead_letters_of_service": "ledger_dead_service (service=? AND id>?)",
    "find_dead_letters_of_group": "ledger_dead_group (fingerprint=? AND id>?)",
    "find_archived_dead_letters": "ledger_archived (id>?)",
    "dead_letter_groups": "ledger_dead_queue",
    "dead_letters": "INTEGER PRIMARY KEY",
    "row_states": "INTEGER PRIMARY KEY",
    "move_dead_letters": "INTEGER PRIMARY KEY",
    # failure groups
    "group_counts": "sqlite_autoindex_failure_groups_1 (fingerprint=?)",
    "failure_groups": "failure_groups_seen (last_seen>?)",
    "failure_group": "documents_fingerprint (fingerprint=?)",
    # the retry job
    "next_check": "documents_check",
    "states_by_id": "sqlite_autoindex_documents_1 (collection=? AND id=?)",
    "due_batches": "failed_batches_due (retry_after<?)",
    "failed_batch": "documents_batch (failed_batch=?)",
    "unfinished_states": "documents_unfinished (collection=? AND id>?)",
    "idle_items": "documents_batch (failed_batch=?)",
    # finding
    "statuses": "sqlite_autoindex_documents_1 (collection=? AND id=?)",
    "found": "keys_value (name=? AND value=?)",
    "keyed_ids": "keys_value (name=? AND value=?)",
    "keyed_count": "keys_value (name=? AND value=?)",
    "found_page": "keys_value (name=? AND value=? AND doc>?)",
    "key_values_below": "keys_value (name=? AND value<?)",
    "ids_before": "keys_value (name=? AND value=?)",
    "children_of": "documents_parent (parent=?)",
    "unfinished": "documents_parent (parent=?)",
    "document_page": "sqlite_autoindex_documents_1 (collection=? AND id>?)",
    "drop_empty_batches": "documents_batch (failed_batch=?)",
    # searching
    "text_blocks": "text_blocks USING PRIMARY KEY (space=?)",
    "removed_texts": "removed_texts USING PRIMARY KEY (space=?)",
    "numbers_of_docs": "INTEGER PRIMARY KEY",
    "text_columns": "sqlite_autoindex_text_columns_1 (space=?",
    "postings": "postings_term (space=? AND block=? AND term=?)",
    "docs_of_numbers": "text_numbers_number (space=? AND number=?)",
    "numbers_of_ids": "sqlite_autoindex_documents_1 (collection=? AND id=?)",
    "texts_of_docs": "INTEGER PRIMARY KEY",
    "ids_of_docs": "INTEGER PRIMARY KEY",
    "labels_of_values": "sqlite_autoindex_text_labels_1 (name=? AND value=?)",
    "values_of_labels": "INTEGER PRIMARY KEY",
    "vector_space": "sqlite_autoindex_vector_spaces_1 (model=? AND collection=? AND bytes=? AND texts=?)",
    "searched_vector_spaces": "sqlite_autoindex_vector_spaces_1 (model=? AND collection=? AND bytes=?)",
    "vector_blocks": "sqlite_autoindex_vector_blocks_1 (space=?)",
    "vector_block_contents": "sqlite_autoindex_vector_blocks_1 (space=?",
    "vectors_of_docs": "sqlite_autoindex_vectors_1 (doc=? AND model=?)",
    # indexing
    "mark_removed_texts": "INTEGER PRIMARY KEY",
    "delete_text_numbers": "INTEGER PRIMARY KEY",
    "delete_waiting_texts": "INTEGER PRIMARY KEY",
    "delete_texts": "INTEGER PRIMARY KEY",
    "mark_removed_vectors": "sqlite_autoindex_vectors_1 (doc=?)",
    "mark_replaced_vectors": "sqlite_autoindex_vectors_1 (doc=? AND model=?)",
    "mark_vectors_of_parents": "documents_parent (parent=?)",
    "recode_vectors_of_parents": "documents_parent (parent=?)",
    "delete_waiting_vectors": "waiting_vectors USING PRIMARY KEY (doc=?)",
    "settle_waiting_vectors": "waiting_vectors USING PRIMARY KEY (doc=? AND model=?)",
    "delete_removed_vectors": "removed_vectors USING PRIMARY KEY (doc=? AND model=?)",
    "delete_removed_texts": "removed_texts USING PRIMARY KEY (space=?",
    "delete_vectors": "sqlite_autoindex_vectors_1 (doc=?)",
    "waiting_vectors": "w USING PRIMARY KEY (doc=?)",
    "waiting_without_vector": "w USING PRIMARY KEY (doc=?)",
    "text_columns_of_block": "sqlite_autoindex_text_columns_1 (space=? AND block=?)",
    "postings_after": "postings_term (space=? AND block=? AND term>?)",
    "delete_postings": "postings_term (space=? AND block=? AND term=?)",
    "vector_spaces_of": "sqlite_autoindex_vector_spaces_1 (model=?)",
    # steering
    "found_states": "sqlite_autoindex_documents_1 (collection=? AND id>?)",
    "given_up_states": "documents_given_up (collection=? AND status=? AND id>?)",
    "group_states": "documents_fingerprint (fingerprint=? AND (collection,id)>(?,?))",
    "reschedule_row": "INTEGER PRIMARY KEY",
    "actions": "actions_at",
    # lists and titles of documents
    "changed_documents": "documents_changed (collection=? AND status=?",
    "changed_documents_oldest": "documents_changed (collection=? AND status=?",
    "changed_documents_of_source": "documents_of_source (source=? AND collection=? AND status=?",
    "changed_documents_of_source_oldest": "documents_of_source (source=? AND collection=? AND status=?",
    "keys_of_ids": "sqlite_autoindex_documents_1 (collection=? AND id=?)",
}
SORTING = {
    # these put in order, or count, what their index has found
    "due_among": ("INTEGER PRIMARY KEY",),
    "due_for_check": ("documents_check (check_at<?)", "documents_scheduled (retry_at>? AND retry_at<?)"),
    "waiting_for_backoff": ("documents_check (check_at>?)",),
    "stuck": ("documents_check (check_at>?)",),
    "counts_beside": ("keys_value (name=? AND value=?)",),
    "value_counts": ("keys_value (name=? AND value=?)",),
    "ordered_ids": ("keys_value (name=? AND value=?)",),
    "highest_beside": ("keys_value (name=? AND value=?)",),
    "rollups": (
        "rollups USING PRIMARY KEY (step=? AND bucket>? AND bucket<?)",
        "rollup_parts_bucket (bucket>? AND bucket<?)",
    ),
    "status_counts_page": ("PRIMARY KEY (source>?)",),
    "member_page": (
        "join_members USING PRIMARY KEY ((join_id,collection,id)>(?,?,?))",
        "sqlite_autoindex_documents_1 (collection=? AND id=?)",
    ),
    "terms_between": ("postings_term (space=? AND block=? AND term>? AND term<?)",),
    "vectors_of_parents": ("documents_parent (parent=?)", "sqlite_autoindex_vectors_1 (doc=? AND model=?)"),
    "states_of_source": ("documents_of_source (source=? AND collection=?",),
    "states_of_groups": ("documents_fingerprint (fingerprint=?)",),
    "labels_named": ("sqlite_autoindex_text_labels_1 (name=?)",),
    "ids_without_vector": (
        "sqlite_autoindex_documents_1 (collection=? AND id>?)",
        "sqlite_autoindex_vectors_1 (doc=? AND model=?)",
    ),
}
USED = [*HOT.values(), *(index for used in SORTING.values() for index in used)]
INDEXES = sorted({index.split()[0] for index in USED if re.match(r"(?!sqlite_)[a-z]+_\w+(?! USING)\b", index)})


# In PostgreSQL a primary key and a constraint have an index with a name.
NAMED = {
    "INTEGER PRIMARY KEY": r"\w+_pkey",
    "PRIMARY KEY": "status_counts_pkey",
    "w USING PRIMARY KEY": "waiting_vectors_pkey",
    "m USING PRIMARY KEY": "join_members_pkey",
    "unique_events USING PRIMARY KEY": "unique_events_pkey",
    "sqlite_autoindex_documents_1": "documents_collection_id_key",
    "sqlite_autoindex_failure_groups_1": "failure_groups_pkey",
    "sqlite_autoindex_operations_1": "operations_pkey",
    "sqlite_autoindex_text_columns_1": "text_columns_pkey",
    "sqlite_autoindex_text_labels_1": "text_labels_value",
    "sqlite_autoindex_vectors_1": "vectors_pkey",
    "sqlite_autoindex_vector_blocks_1": "vector_blocks_pkey",
    "sqlite_autoindex_vector_spaces_1": "vector_spaces_model_collection_bytes_texts_key",
}
ORDERED = (
    # these find the first of many, which are never sorted for that
    "due_rows", "due_rows_in_order", "first_of_keys", "first_parked", "due_suspects", "completed_before",
    "prune_completed", "prune_unrouted", "due_batches", "idle_items", "document_page", "dead_letters",
    "find_dead_letters", "find_archived_dead_letters", "failure_groups", "actions",
    "operations", "changed_documents", "changed_documents_oldest", "changed_documents_of_source",
    "changed_documents_of_source_oldest", "states_of_groups", "key_values_below",
)  # fmt: skip
STORED = (
    "ledger|completed|documents|bodies|keys|operations|outbox|texts|text_numbers|text_columns|postings|text_labels|vectors|"
    "vector_blocks|rollups|rollup_parts|joins|join_members"
)


class Planner(Protocol):
    """A database that tells how it would go about a statement."""

    def uses(self, name: str, index: str) -> bool:
        """Whether a statement uses this index as the list says."""
        ...

    def wastes(self, name: str) -> list[str]:
        """Steps that read a table from end to end, or sort what an index could give in order."""
        ...

    def drop(self, index: str) -> None: ...

    def indexes(self) -> list[str]:
        """All that were made by name."""
        ...


class SQLitePlanner:
    """Plans do not depend on what is stored."""

    def __init__(self) -> None:
        self.database = sqlite3.connect(":memory:")
        steps = files("onward.ledger.sqlite").joinpath("migrations").iterdir()
        for step in sorted(steps, key=lambda one: one.name):
            self.database.executescript(step.read_text())

    def plan(self, name: str) -> list[str]:
        text, _ = sqlite_dialect.statement(name)
        values = dict.fromkeys(re.findall(r":(\w+)", text)) or [None] * text.count("?")
        return [step[3] for step in self.database.execute(f"EXPLAIN QUERY PLAN {text}", values)]

    def uses(self, name: str, index: str) -> bool:
        try:
            return any(index in step for step in self.plan(name))
        except sqlite3.OperationalError:
            return False  # it asks for this index by name

    def wastes(self, name: str) -> list[str]:
        steps = self.plan(name)
        scans = [step for step in steps if re.match(rf"SCAN ({STORED}|d|b|v|p|n|t)\b(?! USING| VIRTUAL)", step)]
        return scans + [step for step in steps if "TEMP B-TREE" in step and name in HOT]

    def drop(self, index: str) -> None:
        self.database.execute(f"DROP INDEX {index}")

    def indexes(self) -> list[str]:
        found = self.database.execute("SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")
        return sorted(name for (name,) in found)


@dataclass(frozen=True, slots=True)
class Step:
    """A node of a plan in PostgreSQL."""

    kind: str
    relation: str
    index: str
    condition: str


class PostgresPlanner:
    """Plans follow from how much is stored: there is some of everything, and it is known."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        for table in FILLED.strip().split(";\n"):
            connection.execute(table.encode())

    def plan(self, name: str) -> list[Step]:
        text = statement(name).text()
        self.connection.execute(f"PREPARE one AS {text}".encode())
        values = ", ".join(["NULL"] * max((int(one) for one in re.findall(r"\$(\d+)", text)), default=0))
        explain = f"EXPLAIN (FORMAT JSON) EXECUTE one{f'({values})' if values else ''}"
        found = self.connection.execute(explain.encode()).fetchall()
        self.connection.execute("DEALLOCATE one")
        return list(_steps(found[0][0][0]["Plan"]))

    def uses(self, name: str, index: str) -> bool:
        index, _, condition = index.partition(" (")
        named = re.sub(r"(\w+) USING PRIMARY KEY", r"\1_pkey", NAMED.get(index, index))
        columns = re.findall(r"[a-z_]+", condition)
        return any(
            re.fullmatch(named, step.index) and all(re.search(rf"\b{one}\b", step.condition) for one in columns)
            for step in self.plan(name)
        )

    def wastes(self, name: str) -> list[str]:
        steps = self.plan(name)
        scans = [f"{one.kind} on {one.relation}" for one in steps if one.kind == "Seq Scan"]
        sorts = [one.kind for one in steps if "Sort" in one.kind and name in ORDERED]
        return [one for one in scans if re.search(rf"({STORED})$", one)] + sorts

    def drop(self, index: str) -> None:
        self.connection.execute(f"DROP INDEX {index}".encode())

    def indexes(self) -> list[str]:
        query = """SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = ANY ($1::regclass[])
                   AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE conindid = indexrelid)"""
        tables = "{documents,ledger,completed,failed_batches,failure_groups,keys,actions,foreign_events,openings,"
        tables += "unique_events,"
        tables += (
            "operations,outbox,texts,waiting_texts,text_numbers,text_blocks,text_columns,postings,text_labels,"
        )
        tables += "removed_texts,vectors,waiting_vectors,vector_spaces,vector_blocks,removed_vectors,"
        tables += "rollup_parts,rollups,joins,join_members}"
        return sorted(name for (name,) in self.connection.execute(query.encode(), [tables]).fetchall())


def _steps(node: dict[str, Any]) -> Iterator[Step]:
    yield Step(
        node["Node Type"], node.get("Relation Name", ""), node.get("Index Name", ""), node.get("Index Cond", "")
    )
    for below in node.get("Plans", ()):
        yield from _steps(below)


FILLED = """
INSERT INTO documents (doc, collection, id, status, source, parent, failed_batch, check_at, fingerprint, retry_at)
SELECT n, 'collection ' || n % 3, 'id ' || n,
       CASE WHEN n % 20 = 0 THEN 'pending' WHEN n % 7 = 0 THEN 'failed' ELSE 'processed' END, 'source ' || n % 200,
       'parent ' || n / 10, CASE WHEN n % 20 = 10 THEN 'batch ' || n % 200 END, n,
       CASE WHEN n % 7 = 0 THEN 'print ' || n % 300 END, CASE WHEN n % 50 = 0 THEN n END
FROM generate_series(1, 8000) n;
INSERT INTO bodies SELECT n, repeat('x', 100) FROM generate_series(1, 8000) n;
INSERT INTO keys SELECT n, 'thread', to_jsonb('thread ' || n / 5) FROM generate_series(1, 8000) n;
INSERT INTO keys SELECT n, 'title', to_jsonb('title ' || n) FROM generate_series(1, 8000) n;
INSERT INTO ledger (id, service, state, event_id, event_type, version, data, timestamp, key, due, deaths, priority,
                    worker, lease, settled_at, source, fingerprint)
SELECT n, 'service ' || n % 6,
       (ARRAY['dead', 'claimed', 'waiting', 'claimed', 'dead', 'dead', 'archived', 'unrouted'])[n % 8 + 1],
       'event ' || n, 'Type ' || n % 300, 1, '{}', n, 'key ' || n, n, n % 19 / 17, n % 3,
       'worker ' || n % 100, n, n, 'source ' || n % 200, 'print ' || n % 300
FROM generate_series(1, 8000) n;
UPDATE ledger SET serial_key = 'key ' || id % 500, first_due = due WHERE id % 4 = 2;
INSERT INTO key_holders SELECT 'service ' || n % 6, 'key ' || n, n FROM generate_series(1, 8000) n;
INSERT INTO completed (settled_at, id, timestamp, due, deaths, tries, not_ready, round, service, event_type,
                       event_id, ids, data)
SELECT n, n, n, n, 0, 0, 0, 1, 'service ' || n % 6, 'Type', 'event ' || n, '[]', '{}'
FROM generate_series(1, 8000) n;
INSERT INTO failed_batches (id, service, source, errors, retry_after, created_at)
SELECT 'batch ' || n, 'service', 'source', '{}', n, n FROM generate_series(1, 2000) n;
INSERT INTO failure_groups (fingerprint, service, error_type, message, place, traceback, first_seen, last_seen,
                            failures, documents, kinds, versions, dependencies)
SELECT 'print ' || n, 'service', '', '', '', '', n, n, 1, 1, '{}', '{}', '{}' FROM generate_series(1, 2000) n;
INSERT INTO openings (dependency, opened_at, reason, remedy)
SELECT 'dependency ' || n % 5, n, '', '' FROM generate_series(1, 2000) n;
INSERT INTO status_counts (source, collection, status, shard, n)
SELECT 'source ' || n / 8, 'pages', 'pending', n % 8, n FROM generate_series(1, 8000) n;
INSERT INTO actions (at, who, via, action, about, touched)
SELECT n, 'ada', 'cli', 'reset', '{}', 1 FROM generate_series(1, 2000) n;
INSERT INTO operations (id, began_at, lease, status, title, action, parameters, who, via, back)
SELECT 'operation ' || n, n, n, 'done', 'title', 'Action', '{}', 'ada', 'cli', '/' FROM generate_series(1, 2000) n;
INSERT INTO outbox (at, due, event_id, routing_key, body)
SELECT n, CASE WHEN n % 2 = 0 THEN n END, 'event ' || n, 'key ' || n % 50, '{}' FROM generate_series(1, 8000) n;
INSERT INTO joins (key, allow_failed, closed, created_at, event_type, event_id, version, data)
SELECT 'key ' || n, 1, CASE WHEN n % 50 = 0 THEN 1 ELSE 0 END, n, 'Type', 'event ' || n, 1, '{}'
FROM generate_series(1, 2000) n;
INSERT INTO join_members (join_id, collection, id, outcome)
SELECT n / 10, 'collection ' || n % 3, 'id ' || n, n % 2 FROM generate_series(1, 8000) n;
INSERT INTO texts SELECT n, 'title', repeat('text ', 20), '' FROM generate_series(1, 8000) n;
INSERT INTO waiting_texts (doc, collection, terms, weights, length, facets)
SELECT n, 'collection ' || n % 3, '', '', 1, '{}' FROM generate_series(7001, 8000) n;
INSERT INTO text_numbers SELECT n, n % 3, n FROM generate_series(1, 7000) n;
INSERT INTO text_blocks SELECT n % 3, n / 3, 9, 9, 9, 1, 0, 1 FROM generate_series(1, 90) n;
INSERT INTO text_columns SELECT n % 3, n / 3, 'column ' || m, ''
FROM generate_series(1, 90) n, generate_series(1, 9) m;
INSERT INTO postings (space, block, part, texts, term, data)
SELECT n % 3, n / 3, 1, 10, 'term ' || m, repeat('x', 40)::bytea
FROM generate_series(1, 90) n, generate_series(1, 200) m;
INSERT INTO text_labels (name, value) SELECT 'facet ' || n % 5, 'value ' || n FROM generate_series(1, 8000) n;
INSERT INTO removed_texts SELECT n % 3, n FROM generate_series(1, 1000) n;
INSERT INTO vectors SELECT n, 'model ' || m, repeat('x', 64)::bytea
FROM generate_series(1, 8000) n, generate_series(1, 2) m;
INSERT INTO waiting_vectors SELECT n, 'model 1' FROM generate_series(1, 1000) n;
INSERT INTO removed_vectors SELECT n, 'model 1' FROM generate_series(8001, 9000) n;
INSERT INTO vector_spaces (model, collection, bytes, texts, mean)
SELECT 'model ' || n, 'collection ' || n, 64, 1, '' FROM generate_series(1, 50) n;
INSERT INTO vector_blocks SELECT n % 50, n / 50, 9, 1, '', '', '', '' FROM generate_series(1, 1000) n;
VACUUM ANALYZE
"""


@pytest.fixture(scope="module")
def filled(request: pytest.FixtureRequest) -> Iterator[PostgresPlanner]:
    """Tables that are filled once; what a test drops comes back."""
    server = request.getfixturevalue("postgres_server")
    store = PostgresStore(f"{server.url()}?schema=plans")
    with store.db.connections.use() as connection:
        yield PostgresPlanner(connection)
        connection.execute("DROP SCHEMA plans CASCADE")
    store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def planner(request: pytest.FixtureRequest) -> Iterator[Planner]:
    if request.param == "sqlite":
        sqlite = SQLitePlanner()
        yield sqlite
        sqlite.database.close()
        return
    postgres: PostgresPlanner = request.getfixturevalue("filled")
    with postgres.connection.transaction(force_rollback=True):
        yield postgres


@pytest.mark.parametrize("name", HOT)
def test_a_hot_statement_uses_its_index_and_sorts_nothing(planner: Planner, name: str) -> None:
    assert planner.uses(name, HOT[name])
    assert planner.wastes(name) == []


@pytest.mark.parametrize("name", SORTING)
def test_what_sorts_reads_only_what_its_index_has_found(planner: Planner, name: str) -> None:
    assert [index for index in SORTING[name] if not planner.uses(name, index)] == []
    assert planner.wastes(name) == []


@pytest.mark.parametrize("index", INDEXES)
def test_this_would_fail_without_the_index(planner: Planner, index: str) -> None:
    planner.drop(index)
    for name in (name for name, used in HOT.items() if used.split()[0] == index):
        assert not planner.uses(name, HOT[name]), f"{name} does as well without {index}"


def test_every_index_serves_a_statement(planner: Planner) -> None:
    # In SQLite a table has a constraint for what is an index here, as a value may be longer than an entry of it.
    own = [] if isinstance(planner, SQLitePlanner) else ["text_labels_value", "keys_title"]
    assert planner.indexes() == sorted([*INDEXES, *own])


def test_a_title_is_found_by_its_beginning(planner: Planner) -> None:
    # Values in PostgreSQL are JSON, in which a beginning is no range: titles have an index of their own there.
    sqlite = isinstance(planner, SQLitePlanner)
    assert planner.uses(
        "titled", "keys_value (name=? AND value>? AND value<?)" if sqlite else "keys_title (value)"
    )
    assert planner.wastes("titled") == []


def test_sqlite_is_given_no_placeholder_that_python_takes_for_a_named_one() -> None:
    """Python before 3.12.4 warns when a statement with `?1` is given a list."""
    for name in load_statements("onward.ledger.sqlite"):
        text, order = sqlite_dialect.statement(name)
        assert not re.search(r"\?\d", text), name
        assert not order or text.count("?") == len(order), name


def test_vectors_are_counted_by_their_blocks_and_by_those_that_wait() -> None:
    steps = SQLitePlanner().plan("vector_counts")
    assert any("b USING INDEX sqlite_autoindex_vector_blocks_1 (space=?)" in step for step in steps)
    assert "SCAN w" in steps, "few wait"
    assert "SEARCH d USING INTEGER PRIMARY KEY (rowid=?)" in steps, "not all documents of the collection are read"
