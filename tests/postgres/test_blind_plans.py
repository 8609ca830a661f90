"""What a planner does that knows nothing of a table yet: it must not read all that waits to find the first."""

from __future__ import annotations

from typing import Any

import pytest

from onward.ledger.postgres.statements import statement
from tests.postgres.stage import Opener

WAITING = 1500


@pytest.mark.parametrize(
    ("name", "values"),
    (
        ("priorities", ("listening",)),
        ("pulse", ("{listening}", "{}", "{}", "{}", 0.0)),
        ("next_suspects", ("{listening}",)),
        ("first_of_keys", ("listening", "{ada}", 0.0)),
    ),
)
def test_the_first_is_found_without_reading_the_others(
    name: str, values: tuple[Any, ...], opened: Opener, postgres_url: str
) -> None:
    store = opened(postgres_url)  # a schema of its own: of the shared one, the planner may know something
    with store.db.connections.use() as connection:
        connection.execute("ALTER TABLE ledger SET (autovacuum_enabled = false)")
        connection.execute(
            b"INSERT INTO ledger (id, service, state, event_id, event_type, version, data, timestamp, key, due, "
            b"serial_key, first_due) "
            b"SELECT n, 'listening', 'waiting', 'e', 'Noticed', 1, '{}', 1, 'k' || n, n, 'ada', n "
            b"FROM generate_series(1, $1::int) n",
            [WAITING],
        )
        text = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement(name).text(lock=False)}"
        ((found,),) = connection.execute(text.encode(), list(values)).fetchall()
    assert _most_rows(found[0]["Plan"]) <= 2, "a level, and the end of the levels"


def _most_rows(plan: dict[str, Any]) -> int:
    return max([int(plan["Actual Rows"]), *(_most_rows(step) for step in plan.get("Plans", []))])
