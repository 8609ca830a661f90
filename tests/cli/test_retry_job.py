"""`onward retry-job` requeues the documents that its app finishes, and names those of other apps."""

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


def services(home: Path) -> list[str]:
    """The services that the store knows."""
    found = App(settings=load_settings({"ONWARD_HOME": str(home)}))
    names = [one.service for one in found.store.subscriptions()]
    found.close()
    return names


def names_the_app(errors: str) -> bool:
    """Whether one line names the documents, the service that finishes them, and the remedy."""
    (line,) = errors.splitlines()
    return all(part in line for part in ("2 documents of orders", "'ordering'", "--app MODULE:APP"))


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
    result = onward(orders, "retry-job", "--once", "--app", f"{__name__}:app", "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert (facts["led"], facts["requeued"], facts["problems"], facts["left"]) == (True, {"orders": 2}, [], [])
    again = json.loads(onward(orders, "retry-job", "--once", "--app", f"{__name__}:app", "--json").stdout)
    assert again["requeued"] == {}


@pytest.mark.parametrize("args", (("--once",), ()))
def test_without_its_app_nothing_is_done(orders: Path, args: tuple[str, ...]) -> None:
    result = onward_process(orders, "retry-job", *args)
    assert (result.returncode, result.stdout) == (3, "")
    assert names_the_app(result.stderr)


def test_an_app_that_shares_the_store_requeues_its_own_documents(orders: Path) -> None:
    onward(orders, "ingest", "--no-wait", str(Path(__file__)))
    result = onward_process(orders, "retry-job", "--once", "--json")
    assert result.returncode == 3
    assert names_the_app(result.stderr)
    facts = json.loads(result.stdout)
    assert (facts["led"], len(facts["left"])) == (True, 1)
    assert onward(orders, "retry-job", "--once", "--app", f"{__name__}:app").exit_code == 0


def test_the_services_of_another_app_are_not_made_known_in_the_store(orders: Path) -> None:
    assert onward_process(orders, "retry-job", "--once").returncode == 3
    assert services(orders) == ["ordering"]


def test_without_a_store_none_is_made(home: Path) -> None:
    result = onward_process(home, "retry-job", "--once")
    assert result.returncode == 2
    assert f"{home}/onward.db" in result.stderr
    assert not home.exists()


def test_a_worker_of_the_pipeline_leaves_the_store_of_another_app_alone(home: Path) -> None:
    app = shop(home)
    app.add(Order(id="order-1"))
    app.close()
    refused = onward(home, "worker", "--until-idle", "1")
    assert refused.exit_code == 2
    assert "ordering" in refused.stderr
    assert "--app MODULE:APP" in refused.stderr
    assert services(home) == ["ordering"]
