"""`onward retry-job` puts back what its app finishes, and says what in the store is another app's."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from onward import App, Document, Event, names
from onward.settings import load_settings
from onward.testing import SimulatedClock
from tests.support.command_runs import onward, onward_process

OURS = "2 documents of orders are finished by 'ordering', which this app does not have; give --app MODULE:APP\n"


class Order(Document):
    text: str = ""


class OrderPlaced(Event):
    order_id: str = names(Order)


def shop(home: Path) -> App:
    """An app whose only service fails."""
    found = App(settings=load_settings({"ONWARD_HOME": str(home), "ONWARD_MAX_RETRIES": "1"}))

    @found.service("ordering", on=OrderPlaced, finishes=Order)
    def order(one: Order, work: object) -> None:
        raise TimeoutError("too slow")

    return found


@pytest.fixture
def orders(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Two orders that failed a day ago, in the store of a shop that is `app` here."""
    before = shop(home)
    before._clock = SimulatedClock(time.time() - 86_400)
    placed = [Order(id="order-1"), Order(id="order-2")]
    before.publish(*(OrderPlaced(order_id=one.id) for one in placed), documents=placed)
    before.work_until_idle()
    before.close()
    app = shop(home)
    monkeypatch.setattr(sys.modules[__name__], "app", app, raising=False)
    yield home
    app.close()


def test_the_app_s_documents_are_put_back(orders: Path) -> None:
    result = onward(orders, "retry-job", "--once", "--app", f"{__name__}:app")
    assert (result.exit_code, result.stdout) == (0, "orders: 2 put back\n")


@pytest.mark.parametrize("args", (("--once",), ()))
def test_without_its_app_nothing_is_done_and_that_is_told(orders: Path, args: tuple[str, ...]) -> None:
    result = onward_process(orders, "retry-job", *args)
    assert (result.returncode, result.stdout, result.stderr) == (3, "", OURS)


def test_an_app_that_shares_the_store_does_its_own(orders: Path) -> None:
    onward(orders, "ingest", "--no-wait", str(Path(__file__)))
    result = onward_process(orders, "retry-job", "--once", "--json")
    assert (result.returncode, result.stderr) == (3, OURS)
    facts = json.loads(result.stdout)
    assert (facts["led"], len(facts["left"])) == (True, 1)
    assert onward(orders, "retry-job", "--once", "--app", f"{__name__}:app").exit_code == 0


def test_the_services_of_another_app_are_not_made_known_in_the_store(orders: Path) -> None:
    assert onward_process(orders, "retry-job", "--once").returncode == 3
    eye = App(settings=load_settings({"ONWARD_HOME": str(orders)}))
    assert [one.service for one in eye.store.subscriptions()] == ["ordering"]
    eye.close()


def test_without_a_store_none_is_made(home: Path) -> None:
    result = onward_process(home, "retry-job", "--once")
    assert result.returncode == 2
    assert f"there is no store at {home}/onward.db" in result.stderr
    assert not home.exists()


def test_a_worker_of_the_pipeline_leaves_the_store_of_another_app_alone(home: Path) -> None:
    app = shop(home)
    app.add(Order(id="order-1"))
    app.close()
    refused = onward(home, "worker", "--until-idle", "1")
    assert refused.exit_code == 2
    assert "is the store of another app, with the services ordering: give --app MODULE:APP" in refused.stderr
    kept = App(settings=load_settings({"ONWARD_HOME": str(home)}))
    assert [one.service for one in kept.store.subscriptions()] == ["ordering"]
    kept.close()
