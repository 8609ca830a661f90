"""Workers and the broker are killed again and again: every event leaves, every foreign event is handled once."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random
from signal import SIGKILL
from typing import Any

import psycopg
import pytest

from onward.backend_urls import open_store
from tests.support.gateway_broker import RecordingGateway, eventually
from tests.support.other_programs import Consumer, Producer
from tests.support.servers import PostgresServer, RabbitServer

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("GATEWAY_KILLS", "50"))
SEED = int(os.environ.get("GATEWAY_SEED", "0")) or Random().randrange(1, 10**6)
BROKER_EVERY = 10  # with one of this many kills, the broker is killed, too
SECONDS = 240.0

pytestmark = [
    pytest.mark.prove,
    pytest.mark.timeout(900),
    # The library of the other programs leaves this coroutine behind when a broker is killed.
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <coroutine object Connection.close:pytest.PytestUnraisableExceptionWarning"
    ),
]


class Fleet:
    """An `onward` command that is killed with all its processes, and started again."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self._folder, self._arguments = folder, arguments
        clean = {name: value for name, value in os.environ.items() if not name.startswith("ONWARD_")}
        self._environment = clean | environment
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self._folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "onward", *self._arguments],
                cwd=self._folder,
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def kill(self) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, SIGKILL)
            self.process.wait()

    @contextmanager
    def killed_at_the_end(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.kill()


def kill_again_and_again(
    fleet: Fleet, rabbit: RabbitServer, progress: Callable[[], int], between: tuple[int, int]
) -> None:
    """Kill the fleet `KILLS` times, sometimes after the broker, each time after a random part of the work.

    An event that runs at three kills in a row counts as their cause, so enough is done `between` two kills.
    """
    random = Random(SEED)
    for number in range(KILLS):
        if fleet.ended:
            fleet.start()
        target = progress() + random.randint(*between)
        eventually(partial(_has_got_to, progress, target), f"the work gets to {target}", SECONDS)
        assert not fleet.ended, f"there is too little work for {KILLS} kills"
        kills_broker = number % BROKER_EVERY == BROKER_EVERY - 1
        if kills_broker:
            rabbit.kill()
            eventually(partial(_has_got_to, progress, progress() + 1), "work goes on without the broker", SECONDS)
        fleet.kill()
        if kills_broker:
            rabbit.start()


def _has_got_to(progress: Callable[[], int], target: int) -> bool:
    return progress() >= target


def write_archive(path: Path, copies: int) -> None:
    """Write the sample several times over; every copy has Message-IDs of its own."""
    sample = (ROOT / "examples/sample/harbour-list.mbox").read_bytes()
    with path.open("wb") as file:
        for copy in range(copies):
            file.write(re.sub(rb"<(?=[^<>@\s]+@)", b"<%d." % copy, sample))


def count_documents(file: Path) -> int:
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        (done,) = database.execute("SELECT count(*) + sum(status <> 'pending') FROM documents").fetchone()
    return int(done or 0)


# What is put into the outbox is written down in the same transaction, by the database itself.
SQLITE_RECORD = """
CREATE TABLE put_into_outbox (event_id TEXT NOT NULL, body TEXT NOT NULL);
CREATE TRIGGER record_outbox AFTER INSERT ON outbox BEGIN
  INSERT INTO put_into_outbox VALUES (NEW.event_id, NEW.body);
END;
"""
POSTGRES_RECORD = """
CREATE TABLE onward.put_into_outbox (event_id text NOT NULL);
CREATE FUNCTION onward.record_outbox() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO onward.put_into_outbox VALUES (NEW.event_id); RETURN NULL; END $$;
CREATE TRIGGER record_outbox AFTER INSERT ON onward.outbox FOR EACH ROW
WHEN (NEW.routing_key = 'answered') EXECUTE FUNCTION onward.record_outbox();
"""


def test_every_event_of_an_ingest_leaves(
    tmp_path: Path, rabbit_server: RabbitServer, rabbit_url: str, report: Callable[[str], None]
) -> None:
    archive, home = tmp_path / "list.mbox", tmp_path / "home"
    write_archive(archive, copies=KILLS)
    file = home / "onward.db"
    store = open_store(f"sqlite:///{file}")
    with closing(sqlite3.connect(file)) as database:
        database.executescript(SQLITE_RECORD)

    def progress() -> int:
        # What ran at three kills counts as their cause. It is put back, as an operator would.
        for dead_letter in store.dead_letters():
            if dead_letter.abandoned_reason == "crash_loop":
                store.requeue(dead_letter.row)
        return count_documents(file)

    consumer = Consumer(rabbit_url)
    assert consumer.bound.wait(60)
    RecordingGateway(rabbit_url).check()
    rabbit_server.settle()
    fleet = Fleet(tmp_path, "ingest", str(archive), ONWARD_HOME=str(home), ONWARD_GATEWAY=rabbit_url)
    with closing(store), closing(consumer), fleet.killed_at_the_end():
        kill_again_and_again(fleet, rabbit_server, progress, between=(100, 300))
        if fleet.ended:
            fleet.start()
        eventually(lambda: fleet.ended, "the ingest ends", SECONDS)
        assert fleet.process is not None
        assert fleet.process.returncode in (0, 3), (tmp_path / "log").read_text()[-2000:]
        with closing(sqlite3.connect(file)) as database:
            put = dict(database.execute("SELECT event_id, body FROM put_into_outbox"))
            left = database.execute("SELECT count(*) FROM outbox WHERE due IS NOT NULL").fetchone()
            documents = database.execute(
                "SELECT collection, count(*) FROM documents GROUP BY collection"
            ).fetchall()
            named = {
                name: {id for (id,) in database.execute("SELECT id FROM documents WHERE collection = ?", [name])}
                for name in ("messages", "chunks", "threads")
            }
        assert left == (0,)
        eventually(lambda: consumer.ids >= set(put), "every event has arrived", 60)
    assert consumer.ids == set(put)
    kinds = Counter(event["event_type"] for event in {e["event_id"]: e for e in consumer.events}.values())
    heard: dict[str, set[str]] = {"messages": set(), "chunks": set(), "threads": set()}
    for event in consumer.events:
        data = event["data"]
        heard["messages"].update(data.get("message_doc_ids", ()) if event["event_type"] == "JSONParsed" else ())
        heard["chunks"].update(data.get("chunk_ids", ()) if event["event_type"] == "EmbeddingsGenerated" else ())
        heard["threads"].update(data.get("thread_ids", ()) if event["event_type"] == "SummaryComplete" else ())
    for name, ids in named.items():
        failed = _failed(file, name)
        assert ids - failed <= heard[name], f"{name} that no event has named"
    report(
        f"ingest with {KILLS} kills of worker and broker (seed {SEED}): {dict(documents)}; "
        f"{len(put):,} events left in {len(consumer.events):,} messages: {dict(kinds)}"
    )


def _failed(file: Path, collection: str) -> set[str]:
    query = "SELECT id FROM documents WHERE collection = ? AND status <> 'processed'"
    with closing(sqlite3.connect(file)) as database:
        return {id for (id,) in database.execute(query, [collection])}


SHOP = """
import secrets
import time
from onward import App, Document, Event

class Rang(Event):
    number: int

class Answered(Event):
    number: int

class Call(Document):
    number: int

app = App()

@app.service("answering", on=Rang)
def answer(event, work):
    time.sleep(0.01)  # so that there is something to kill
    # Another id each time: an event that is handled twice to the end leaves two documents.
    work.add(Call(id=f"{event.number}-{secrets.token_hex(4)}", number=event.number))
    work.emit(Answered(number=event.number))
"""


def test_every_foreign_event_is_handled_once_and_its_result_leaves(
    tmp_path: Path,
    rabbit_server: RabbitServer,
    rabbit_url: str,
    postgres_server: PostgresServer,
    report: Callable[[str], None],
) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    many = KILLS * 120
    url = postgres_server.create_database("kills")
    store = open_store(url)
    with psycopg.connect(url) as connection:
        connection.execute(POSTGRES_RECORD)
    consumer = Consumer(rabbit_url, "answered")
    assert consumer.bound.wait(60)
    RecordingGateway(rabbit_url, "rang").check()
    rabbit_server.settle()
    events: list[dict[str, Any]] = [
        {"event_type": "Rang", "event_id": f"ring-{number}", "version": "1.0", "data": {"number": number}}
        for number in range(many)
    ]
    producer = Producer(rabbit_url, events, "rang")
    fleet = Fleet(
        tmp_path, "worker", "--app", "shop:app", "--processes", "2",
        ONWARD_STORE=url, ONWARD_GATEWAY=rabbit_url, ONWARD_METRICS_ADDRESS="off",
    )  # fmt: skip

    def handled() -> int:
        return sum(store.document_counts().get("calls", {}).values())

    with closing(consumer), closing(producer), fleet.killed_at_the_end():
        kill_again_and_again(fleet, rabbit_server, handled, between=(20, 80))
        if fleet.ended:
            fleet.start()
        producer.join(SECONDS)
        eventually(lambda: handled() + len(store.dead_letters(limit=many)) >= many, "all are settled", SECONDS)
        set_aside = store.dead_letters(limit=many)
        # What ran at three kills counts as their cause. It is put back, as an operator would.
        assert {dead_letter.abandoned_reason for dead_letter in set_aside} <= {"crash_loop"}
        for dead_letter in set_aside:
            assert store.requeue(dead_letter.row)
        eventually(lambda: handled() >= many, f"all are handled; set aside: {len(set_aside)}", SECONDS)
        eventually(lambda: store.oldest_outgoing() is None, "all have left", SECONDS)
        with psycopg.connect(url) as connection:
            put = {id for (id,) in connection.execute("SELECT event_id FROM onward.put_into_outbox")}
        eventually(lambda: consumer.ids >= put, "every event has arrived", 60)
    with psycopg.connect(url) as connection:
        ids = [id for (id,) in connection.execute("SELECT id FROM onward.documents WHERE collection = 'calls'")]
    numbers = Counter(int(id.partition("-")[0]) for id in ids)
    assert numbers == Counter(range(many)), "each once, none lost, none doubled"
    assert store.dead_letters() == []
    assert consumer.ids == put
    assert {event["data"]["number"] for event in consumer.events} == set(range(many))
    store.close()
    report(
        f"{many:,} foreign events with {KILLS} kills of worker and broker (seed {SEED}): each handled once; "
        f"{len(put):,} events left in {len(consumer.events):,} messages"
    )
