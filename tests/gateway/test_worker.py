"""`onward worker` reads the inbox beside its worker processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from onward.backend_urls import open_store
from onward.gateway.inbox import INBOX
from onward.model.events import Envelope
from onward.model.ledger import Subscription
from tests.support.gateway_broker import RecordingGateway, publish, waiting_in_inbox

SHOP = """
from onward import App, Document, Event

class Rang(Event):
    number: int

class Call(Document):
    pass

app = App(store="sqlite:///onward.db")

@app.service("answering", on=Rang)
def answer(event, work):
    work.add(Call(id=f"{event.number}"))
"""


def worker(folder: Path, bus: str) -> subprocess.CompletedProcess[str]:
    """Run a worker until nothing is due."""
    (folder / "shop.py").write_text(SHOP)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ONWARD_")}
    return subprocess.run(
        [sys.executable, "-m", "onward", "worker", "--app", "shop:app", "--until-idle", "0"],
        cwd=folder,
        env=environment | {"ONWARD_GATEWAY": bus},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_worker_until_idle_ends_after_the_inbox_was_read_empty(tmp_path: Path, rabbit_url: str) -> None:
    RecordingGateway(rabbit_url, "rang").check()
    for number in range(20):
        body = f'{{"event_type": "Rang", "event_id": "{number}", "data": {{"number": {number}}}}}'
        publish(rabbit_url, body.encode(), exchange="", key=INBOX)
    ended = worker(tmp_path, rabbit_url)
    assert ended.returncode == 0, ended.stderr
    assert waiting_in_inbox(rabbit_url) == 0
    store = open_store(f"sqlite:///{tmp_path}/onward.db")
    assert store.document_counts() == {"calls": {"processed": 20}}
    store.close()


@pytest.mark.prove
def test_a_worker_works_without_its_broker_and_reports_that_the_inbox_was_not_read(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/onward.db")
    store.subscribe([Subscription("answering", "Rang")])
    store.publish([Envelope("Rang", '{"number": 1}', "e1", store.now())])
    ended = worker(tmp_path, "amqp://me:sesame@127.0.0.1:9/")
    assert store.document_counts() == {"calls": {"processed": 1}}
    assert ended.returncode == 1
    assert "nothing listens at 127.0.0.1:9. Start RabbitMQ there" in ended.stderr
    assert "sesame" not in ended.stderr
    store.close()


def test_a_worker_does_not_start_with_a_broker_that_refuses_it(tmp_path: Path, rabbit_url: str) -> None:
    ended = worker(tmp_path, rabbit_url.replace("guest:guest", "me:sesame"))
    assert ended.returncode == 1
    assert "refused to let user 'me' in" in ended.stderr
    assert "Traceback" not in ended.stderr
