"""A replica for reads: what may be a little old is read from a standby, all else from the primary."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from click.testing import Result

from onward.ledger.postgres import PostgresStore, replica
from onward.ledger.replica_reads import ReplicaReads, current_reads, reading_from_replica
from onward.ledger.store_errors import StoreError
from tests.postgres.stage import eventually
from tests.support.command_runs import onward
from tests.support.console_client import Site, pipeline, serving
from tests.support.servers import PostgresServer
from tests.support.store_pages import page

pytestmark = [pytest.mark.prove, pytest.mark.usefixtures("needs_postgres")]


@dataclass
class Pair:
    primary: PostgresServer
    standby: PostgresServer

    def store(self) -> PostgresStore:
        return PostgresStore(self.primary.url(), replica=self.standby.url())

    def pause(self) -> None:
        """From now on, the standby shows nothing new."""
        self.standby.execute("SELECT pg_wal_replay_pause()")

    def resume(self) -> None:
        self.standby.execute("SELECT pg_wal_replay_resume()")


@pytest.fixture(scope="module")
def servers(needs_postgres: None) -> Iterator[Pair]:
    with PostgresServer(fsync=False) as primary, primary.standby() as standby:
        PostgresStore(primary.url()).close()
        yield Pair(primary, standby)


@pytest.fixture
def pair(servers: Pair, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    monkeypatch.setattr(replica, "RETRY_SECONDS", 0.0)
    servers.standby.start()
    yield servers
    servers.standby.start()
    servers.resume()


@pytest.fixture
def store(pair: Pair) -> Iterator[PostgresStore]:
    store = pair.store()
    store.remove_documents([("pages", state.id) for state in store.states("pages", limit=1000)])
    yield store
    store.close()


def where(store: PostgresStore) -> int:
    """On which port a read is executed."""
    ((port,),) = store.db._fetch("SELECT inet_server_port()")
    return int(port)


def caught_up(store: PostgresStore) -> None:
    def is_caught_up() -> bool:
        assert store.db.replica is not None
        return store.db.replica.position().behind_seconds == 0.0

    eventually(is_caught_up, "the standby has caught up")


def test_reads_in_a_scope_go_to_the_standby_and_all_others_to_the_primary(
    pair: Pair, store: PostgresStore
) -> None:
    caught_up(store)
    assert where(store) == pair.primary.port
    with reading_from_replica(store) as reads:
        assert where(store) == pair.standby.port
        with store.transaction():
            assert where(store) == pair.primary.port
    assert reads.behind_seconds is not None
    assert reads.note == ""
    assert where(store) == pair.primary.port


def test_what_this_process_has_written_is_read_even_if_the_standby_does_not_have_it(
    pair: Pair, store: PostgresStore
) -> None:
    caught_up(store)
    with reading_from_replica(store):
        assert where(store) == pair.standby.port
    pair.pause()
    with reading_from_replica(store):
        assert where(store) == pair.standby.port, "nothing was written"
        store.add_documents([page("mine")])
        assert store.document_counts() == {"pages": {"processed": 1}}, "also in the same scope"
    with reading_from_replica(store) as reads:
        assert store.document_counts() == {"pages": {"processed": 1}}
        assert where(store) == pair.primary.port
    assert reads.note == ""
    pair.resume()
    caught_up(store)
    with reading_from_replica(store):
        assert where(store) == pair.standby.port
        assert store.document_counts() == {"pages": {"processed": 1}}


def test_a_standby_that_is_behind_is_read_and_says_so(pair: Pair, store: PostgresStore) -> None:
    caught_up(store)
    with reading_from_replica(store):
        assert store.document_counts() == {}
    pair.pause()
    other = PostgresStore(pair.primary.url())
    other.add_documents([page("of another process")])
    other.close()

    def behind() -> float:
        with reading_from_replica(store) as reads:
            assert store.document_counts() == {}, "it is not there yet"
        assert reads.behind_seconds is not None
        return reads.behind_seconds

    seconds = eventually(lambda: behind() >= 1.0 and behind(), "it is a second behind")
    assert ReplicaReads(seconds).note.startswith("This was read from a replica that is ")


def test_an_old_last_transaction_does_not_make_the_standby_look_older(
    pair: Pair, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    caught_up(store)
    age = "clock_timestamp() - pg_last_xact_replay_timestamp()"
    an_hour_ago = replica._REPLICA_POSITION.replace(age, "interval '1 hour'")
    assert an_hour_ago != replica._REPLICA_POSITION
    monkeypatch.setattr(replica, "_REPLICA_POSITION", an_hour_ago)
    pair.pause()
    pair.primary.execute("SELECT pg_create_restore_point('log without a transaction')")
    assert store.db.replica is not None
    assert 0.0 < store.db.replica.position().behind_seconds < 3600.0


def test_without_its_standby_a_store_reads_from_the_primary_and_says_so(pair: Pair, store: PostgresStore) -> None:
    caught_up(store)
    store.add_documents([page("a")])
    pair.standby.kill()
    with reading_from_replica(store) as reads:
        assert store.document_counts() == {"pages": {"processed": 1}}
    assert reads.note.startswith("The replica cannot be used, so this was read from the primary: postgresql://")
    pair.standby.start()
    caught_up(store)
    with reading_from_replica(store) as reads:
        assert where(store) == pair.standby.port
    assert reads.note == ""


def test_nothing_can_be_written_on_the_standby_even_if_it_is_a_primary(pair: Pair) -> None:
    with PostgresServer(fsync=False) as other:
        PostgresStore(other.url()).close()
        wrong = PostgresStore(pair.primary.url(), replica=other.url())
        try:
            with reading_from_replica(wrong) as reads:
                assert where(wrong) == pair.primary.port
            assert "is no standby; ONWARD_STORE_REPLICA names a hot standby" in reads.note
            assert wrong.db.replica is not None
            with (
                wrong.db.replica.connections.use() as connection,
                pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
            ):
                connection.execute("CREATE TABLE written (n integer)")
        finally:
            wrong.close()


def test_every_read_of_the_store_works_on_a_standby(pair: Pair, store: PostgresStore) -> None:
    """A standby takes no locks on rows and makes no temporary tables."""
    store.add_documents([page("a")])
    store.pack_index(everything=True)
    caught_up(store)
    with reading_from_replica(store) as reads:
        assert where(store) == pair.standby.port
        for read in (
            store.counts,
            store.document_counts,
            store.breakers,
            store.openings,
            store.dead_letters,
            store.failed_batches,
            store.failure_groups,
            store.operations,
            store.actions,
            store.workers,
            store.totals,
            store.outbox_status,
            store.sources,
            store.subscriptions,
            store.next_change,
            lambda: store.states("pages"),
            lambda: store.texts("pages"),
            lambda: store.vector_counts("pages"),
        ):
            read()
            assert (reads.problem, reads.from_primary) == ("", False), read


def test_a_file_has_no_replica() -> None:
    from onward.backend_urls import open_store

    with pytest.raises(StoreError, match="ONWARD_STORE is a file"):
        open_store("sqlite://:memory:", replica="postgresql://host/name")
    store = open_store("sqlite://:memory:")
    with reading_from_replica(store) as reads:
        assert store.document_counts() == {}
        assert current_reads() is None
    assert reads.note == ""
    store.close()


# -- what people see


def settings_of(pair: Pair) -> dict[str, str]:
    return {"ONWARD_STORE": pair.primary.url(), "ONWARD_STORE_REPLICA": pair.standby.url()}


@pytest.fixture
def site(pair: Pair, store: PostgresStore, tmp_path: Path) -> Iterator[Site]:
    with serving(pipeline(tmp_path, **settings_of(pair))) as site:
        _ = site.app.store  # subscribes its services, if they are not yet
        site.page("/documents")
        caught_up(store)
        yield site
    site.app.close()


def write_elsewhere(pair: Pair, *ids: str) -> None:
    """Another process writes."""
    other = PostgresStore(pair.primary.url())
    other.add_documents([page(id) for id in ids])
    other.close()


def test_pages_and_api_are_read_from_the_standby_until_something_is_changed_here(pair: Pair, site: Site) -> None:
    def read_from(path: str) -> str:
        answer = site.client.get(path)
        assert answer.status_code == 200
        return answer.headers.get("onward-read-from", "")

    for path in ("/documents", "/v3/status", "/v3/failures", "/queues", "/", "/threads", "/workers"):
        # The primary's log grows by itself: a busy standby may be a moment behind.
        eventually(lambda: read_from(path) == "replica; behind=0.0", path)  # noqa: B023
    assert read_from("/healthz") == ""
    pair.pause()
    site.app.store.add_documents([page("changed here")])
    assert read_from("/documents") == "primary"
    assert "changed here" in site.page("/documents?collection=pages")
    pair.resume()
    eventually(lambda: read_from("/documents").startswith("replica"), "the standby has it")
    assert "changed here" in site.page("/documents?collection=pages")


def test_a_request_that_changes_something_reads_from_the_primary(pair: Pair, site: Site) -> None:
    pair.pause()
    write_elsewhere(pair, "elsewhere")
    assert "elsewhere" not in site.page("/documents?collection=pages")
    asked = {"collection": "pages", "id": "elsewhere"}
    answer = site.client.post("/v3/documents/pages/elsewhere/retry", json={})
    assert answer.status_code != 404, f"{asked} is there: {answer.text[:500]}"
    assert "onward-read-from" not in answer.headers


def test_pages_say_how_old_they_are(pair: Pair, site: Site) -> None:
    assert "replica" not in site.page("/documents")
    pair.pause()
    write_elsewhere(pair, "elsewhere")
    old = "This was read from a replica that is "
    eventually(lambda: old in site.page("/documents"), "the page says so")
    pair.standby.kill()
    broken = "The replica cannot be used, so this was read from the primary: "
    eventually(lambda: broken in site.page("/documents"), "the page says so")
    assert "elsewhere" in site.page("/documents?collection=pages")


def test_commands_read_from_the_standby_and_say_how_old_that_is(
    pair: Pair, store: PostgresStore, tmp_path: Path
) -> None:
    def run(*args: str) -> Result:
        return onward(tmp_path, *args, more=settings_of(pair))

    def replica_check() -> tuple[str, str]:
        (check,) = [
            one for one in json.loads(run("doctor", "--json").stdout)["checks"] if one["name"] == "replica"
        ]
        return check["level"], check["text"]

    caught_up(store)
    assert (run("documents", "--json").stderr, run("status").stderr) == ("", "")
    # On a busy machine it may have been asked in the moment after a write.
    as_new = ("ok", f"{pair.standby.url()} is as new as the primary")
    eventually(lambda: replica_check() == as_new, "the standby has caught up")
    pair.pause()
    write_elsewhere(pair, "elsewhere")
    note = "This was read from a replica that is "
    eventually(lambda: note in run("documents").stderr, "it is a second behind")
    assert "elsewhere" not in run("documents").stdout
    assert note in run("status").stderr
    pair.standby.kill()
    result = run("documents")
    assert result.exit_code == 0
    assert "elsewhere" in result.stdout
    assert result.stderr.startswith("The replica cannot be used, so this was read from the primary: ")
    level, text = replica_check()
    assert (level, "read from the primary meanwhile" in text) == ("warning", True)
