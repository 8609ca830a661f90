"""A process that knows of no timeline waits for a busy server before it takes another one."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from onward.ledger.postgres import failover
from onward.ledger.postgres.failover import COMPARE_SECONDS, PATIENT_SECONDS, Hosts


class Server:
    """A connection to a server, which knows its timeline."""

    def __init__(self, timeline: int) -> None:
        self.timeline = timeline

    def execute(self, statement: str) -> Server:
        return self

    def fetchall(self) -> list[tuple[int]]:
        return [(self.timeline,)]

    def close(self) -> None:
        pass


def test_a_busy_server_may_be_the_present_primary(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []

    def connect(conninfo: str) -> Any:
        given = conninfo_to_dict(conninfo)
        timeline, seconds = int(str(given["port"])), int(given["connect_timeout"] or 0)
        if timeline == 2:
            waited.append(seconds)
            if seconds <= COMPARE_SECONDS:
                raise psycopg.errors.ConnectionTimeout("it is busy")
        return Server(timeline)

    monkeypatch.setattr(failover, "_connect", connect)
    found: Any = Hosts("host=a,b port=1,2", "there").connect()
    assert (found.timeline, waited) == (2, [COMPARE_SECONDS, PATIENT_SECONDS])
