"""What must hold after every step of a fleet, and in the end."""

from __future__ import annotations

import json
from collections import Counter

from tests.simulation.fleet import Fleet


def check_step(fleet: Fleet) -> None:
    """Check the tables: nothing doubled, nobody blamed wrongly, counters equal to a recount."""
    assert not fleet.truth.broken, fleet.truth.broken
    documents = fleet.query(
        "SELECT collection, id, status, round, attempt_count, row FROM documents WHERE collection != 'receipts'"
    )
    rows = fleet.query(
        "SELECT id, service, state, collection, CAST(ids AS text), tries, not_ready, deaths, "
        "(SELECT until FROM leases WHERE leases.worker = ledger.worker), worker "
        "FROM ledger"
    )
    _check_rows(fleet, documents, rows)
    _check_blame(fleet, rows)
    _check_effects(fleet)
    _check_counts(fleet)


def _check_rows(fleet: Fleet, documents: list[tuple], rows: list[tuple]) -> None:  # type: ignore[type-arg]
    live: dict[tuple[str, str, int], list[int]] = {}
    for id, _, state, collection, ids, _, _, _, lease, worker in rows:
        if state in ("waiting", "claimed"):
            for name, round in json.loads(ids):
                live.setdefault((collection, name, round), []).append(id)
        assert state != "claimed" or (lease is not None and worker), f"row {id} is claimed without a lease"
    for collection, id, status, round, attempts, row in documents:
        assert attempts <= round, f"{id} has more attempts than rounds"
        carried = live.get((collection, id, round), []) if round else []
        assert len(carried) <= 1, f"{id} has several live rows: {carried}"
        if status == "pending" and row is not None:
            assert carried == [row], f"{id} waits for row {row}, which does not carry it"


def _check_blame(fleet: Fleet, rows: list[tuple]) -> None:  # type: ignore[type-arg]
    for id, _, _, collection, ids, tries, not_ready, deaths, _, _ in rows:
        assert deaths <= fleet.truth.incidents[id] or fleet.inherits(id), f"row {id} is blamed for {deaths} deaths"
        failures = [fleet.truth.failures[collection, name] for name, _ in json.loads(ids)]
        if failures:
            charged = tries + not_ready
            assert charged <= max(failures), f"row {id} has {charged} tries, {failures} failures"


def _check_effects(fleet: Fleet) -> None:
    effects = Counter(
        id.rpartition("/")[0] for (id,) in fleet.query("SELECT id FROM documents WHERE collection = 'receipts'")
    )
    doubled = [effect for effect, count in effects.items() if count > 1]
    assert not doubled, f"done twice: {doubled}"


def _check_counts(fleet: Fleet) -> None:
    counted = {
        (collection, status): count
        for collection, statuses in fleet.inspector.document_counts().items()
        for status, count in statuses.items()
        if count
    }
    recounted = {
        (collection, status): count
        for collection, status, count in fleet.query(
            "SELECT collection, status, count(*) FROM documents GROUP BY collection, status"
        )
    }
    assert counted == recounted, f"documents are miscounted: {counted} are {recounted}"


def check_end(fleet: Fleet) -> None:
    """Check that every document is final, and that every effect of it exists."""
    check_step(fleet)
    open_documents = fleet.query(
        "SELECT collection, id, status, row, retry_at FROM documents "
        "WHERE collection IN ('pages', 'words') AND status NOT IN ('processed', 'discarded')"
    )
    assert not open_documents, f"stuck: {open_documents[:5]}"
    held = fleet.query("SELECT id, service, worker FROM ledger WHERE state = 'claimed'")
    assert not held, f"held by nobody: {held[:5]}"
    effects = {
        tuple(id.split("/")[::2][:2])
        for (id,) in fleet.query("SELECT id FROM documents WHERE collection = 'receipts'")
    }
    for (id,) in fleet.query("SELECT id FROM documents WHERE collection = 'pages'"):
        assert (id, "read") in effects, f"{id} is processed, but its effect is lost"
        words = fleet.query(f"SELECT id FROM documents WHERE collection = 'words' AND parent = 'pages/{id}'")
        assert len(words) == 2, f"the words of {id} are {words}"
    for (id,) in fleet.query("SELECT id FROM documents WHERE collection = 'words'"):
        assert (id, "spelled") in effects, f"{id} is processed, but its effect is lost"
