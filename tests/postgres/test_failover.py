"""Failover: a standby is promoted under load, and a former primary that comes back is not written to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import psycopg
import pytest

from onward.ledger.postgres import PostgresStore, failover
from onward.ledger.postgres.failover import Hosts
from onward.ledger.postgres.store_url import read_url
from onward.ledger.store_errors import StoreUnavailable
from onward.torture.fault_injection import TortureHooks
from onward.torture.torture_run import TortureOptions, open_scratch, torture
from tests.postgres.stage import Opener, eventually
from tests.support.servers import PostgresServer
from tests.support.servers.private import HOST
from tests.support.store_pages import page

pytestmark = [pytest.mark.prove, pytest.mark.timeout(600), pytest.mark.usefixtures("needs_postgres")]

DOCUMENTS, KILLS = 160, 4
STREAMING = b"SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"


@contextmanager
def primary_and_standby(*, fsync: bool = False) -> Iterator[tuple[PostgresServer, PostgresServer, str]]:
    """A primary whose commits wait for its standby, and the URL that names both."""
    with PostgresServer(fsync=fsync) as primary, primary.standby() as standby:
        primary.wait_for_standby()
        with psycopg.connect(primary.url(), autocommit=True) as connection:
            eventually(lambda: connection.execute(STREAMING).fetchone(), "commits wait for the standby")
        yield primary, standby, f"postgresql://app@{HOST}:{primary.port},{HOST}:{standby.port}/app"


def documents(server: PostgresServer) -> int:
    """How many documents a server has, whatever the others have."""
    with psycopg.connect(server.url()) as connection:
        ((count,),) = connection.execute("SELECT count(*) FROM onward.documents").fetchall()
    return int(count)


def test_nothing_is_lost_or_doubled_when_the_primary_is_killed_under_load(report: Callable[[str], None]) -> None:
    with primary_and_standby(fsync=True) as (primary, standby, url):

        def fail_over() -> None:
            primary.kill()
            standby.promote()

        def come_back() -> None:
            """Both take writes from now on."""
            primary.execute_offline("ALTER SYSTEM RESET synchronous_standby_names")
            primary.start()

        options = TortureOptions(documents=DOCUMENTS, kills=KILLS, seed=Random().randrange(10**9))
        with open_scratch(url) as scratch:
            facts = torture(options, scratch, lambda _: None, TortureHooks([fail_over, come_back])).as_dict()
            schema = scratch.store.rpartition("=")[2]
            newest = f"SELECT max(updated_at) FROM {schema}.documents".encode()
            with psycopg.connect(primary.url()) as old, psycopg.connect(standby.url()) as new:
                (written_to_old,), (written_to_new,) = (
                    one.execute(newest).fetchone() or (0.0,) for one in (old, new)
                )
                promoted = old.execute("SELECT extract(epoch FROM pg_postmaster_start_time())::float8").fetchone()
    report(" ".join(f"{name} {value}" for name, value in facts.items() if isinstance(value, int | float)))
    assert (facts["lost"], facts["doubled"], facts["blamed"], facts["unfinished"]) == (0, 0, 0, 0)
    assert (facts["finished"], facts["kills"], facts["extra_faults"]) == (DOCUMENTS, KILLS, 2)
    assert facts["clean"]
    assert promoted is not None
    assert written_to_old < promoted[0], "nobody has written to the former primary since it came back"
    assert written_to_new > written_to_old


def test_a_former_primary_that_comes_back_is_not_written_to(opened: Opener) -> None:
    with primary_and_standby() as (primary, standby, url):
        store = opened(url)
        store.add_documents([page("before")])
        primary.kill()
        standby.promote()
        eventually(lambda: added(store, "after"), "the store follows")
        primary.execute_offline("ALTER SYSTEM RESET synchronous_standby_names")
        primary.start()
        store.db.connections._close_idle()  # so that it connects again, to whoever comes first
        store.add_documents([page("later")])
        opened(url).add_documents([page("of a process that knows of no failover")])
        assert (documents(primary), documents(standby)) == (1, 4)
        standby.kill()
        store.db.connections._close_idle()
        with pytest.raises(StoreUnavailable, match="the only server that can be reached is a former primary"):
            store.add_documents([page("to nobody")])
        assert documents(primary) == 1


def test_a_process_that_slept_through_a_failover_does_not_write_to_the_former_primary(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    with primary_and_standby() as (primary, standby, url):
        store = opened(url)
        store.add_documents([page("before")])
        primary.kill()
        standby.promote()
        primary.execute_offline("ALTER SYSTEM RESET synchronous_standby_names")
        primary.start()
        monkeypatch.setattr(failover, "COMPARED_FOR_SECONDS", 0.0)  # as if it had slept for that long
        store.db.connections._close_idle()
        eventually(lambda: added(store, "after"), "the store follows")
        assert (documents(primary), documents(standby)) == (1, 2)


def added(store: PostgresStore, id: str) -> bool:
    try:
        store.add_documents([page(id)])
    except StoreUnavailable:
        return False
    return True


def test_the_url_may_name_the_hosts_in_any_order_and_some_may_be_away() -> None:
    with primary_and_standby() as (primary, standby, _):
        for ports in ((standby.port, primary.port), (1, primary.port), (primary.port, 1)):
            places = ",".join(f"{HOST}:{port}" for port in ports)
            with Hosts(read_url(f"postgresql://app@{places}/app").conninfo, "there").connect() as connection:
                assert connection.info.port == primary.port
