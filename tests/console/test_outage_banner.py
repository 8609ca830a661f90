"""Every page says which dependency is down, and what waits for it; a rate limit gets one quiet line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from onward.model.breaker import LONG_EPISODE_SECONDS
from onward.model.ledger import DependencyReport, RetryLater
from tests.console.shop import Shop, open_shop
from tests.support.store_pages import READING, failure

PAGES = (
    "/",
    "/documents",
    "/failures",
    "/queues",
    "/batches",
    "/tasks",
    "/search",
    "/workers",
    "/settings",
    "/nope",
)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with open_shop(tmp_path) as found:
        found.on.store.subscribe([replace(READING, needs=("printer",))])
        found.on.bring("a")
        found.on.bring("b")
        yield found


def banner(shop: Shop) -> str:
    return shop.words("/outages")


def test_while_nothing_is_down_no_page_says_anything(shop: Shop) -> None:
    assert banner(shop) == ""
    assert 'class="note bad outage"' not in shop.page("/")


def test_an_outage_is_on_every_page_with_what_waits_and_a_link_to_its_breaker(shop: Shop) -> None:
    shop.on.store.open_breaker("printer", "it burns: password=tinder <b>", remedy="fetch water")
    for path in PAGES:
        page = shop.page(path, 404 if path == "/nope" else 200)
        assert page.count('class="note bad outage"') == 1, path
        assert "tinder" not in page
    said = banner(shop)
    assert said.startswith("printer has been down since")
    assert ": it burns: password=*** <b>. 2 events wait; it is asked again" in said
    assert "It needs a person: fetch water" in said
    assert "/workers#breaker-printer" in shop.links("/outages")
    assert 'id="breaker-printer"' in shop.page("/workers")


def test_the_same_number_is_said_everywhere(shop: Shop) -> None:
    shop.on.store.open_breaker("printer", "it burns", remedy="fetch water")
    shop.on.bring("c")
    status = shop.site.client.get("/v3/status").json()
    (outage,) = status["outages"]
    assert (outage["waiting"], outage["services"]) == (3, ["drawing", "reading"])
    assert "3 events wait" in outage["text"]
    assert any("3 events wait" in need["text"] for need in status["needs"])
    assert "3 events wait" in banner(shop)
    assert shop.site.client.get("/v3/breakers").json()["breakers"][0]["waiting"] == 3


def test_a_breaker_that_closes_is_gone_from_the_next_page(shop: Shop) -> None:
    shop.on.store.open_breaker("printer", "it burns", by_hand=True)
    assert "printer has been out of service by hand" in banner(shop)
    shop.on.store.close_breaker("printer")
    assert banner(shop) == ""


def test_a_long_outage_says_that_it_needs_a_person(shop: Shop) -> None:
    shop.on.store.open_breaker("printer", "it burns")
    assert "needs a person" not in banner(shop)
    (breaker,) = shop.on.store.breakers()
    long_ago = shop.on.store.now() - LONG_EPISODE_SECONDS - 60
    shop.on.store.atomically(
        lambda: shop.on.store.db.send(
            "save_breaker", "printer", json.dumps(replace(breaker, episode_began_at=long_ago).as_dict())
        )
    )
    assert "It needs a person" in banner(shop)


def test_a_rate_limit_is_one_quiet_line(shop: Shop) -> None:
    (taken,) = shop.on.claim(1, needs=["printer"])
    paused = DependencyReport(paused="printer", pause=60.0)
    shop.on.settle(taken, RetryLater(after=60.0, failure=failure()), dependencies=paused)
    page = shop.page("/")
    assert 'class="note bad outage"' not in page
    assert banner(shop).startswith("printer has reached its rate limit and is paused until")
