"""Workers and breakers in the console: who is alive, what nobody does, and what is down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onward.model.dependency_limits import ClaimLimits, DependencyLimit, Rate
from tests.console.shop import ODD, Shop, open_shop

READER = {"host": "box", "pid": 17, "version": "shop 1.1", "services": {"reading": 1}, "alone": False}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with open_shop(tmp_path) as found:
        yield found


def test_where_nobody_works_it_says_how_to_begin(shop: Shop) -> None:
    assert "No worker is alive Start one: onward worker --app MODULE:APP" in shop.words("/workers")


def test_a_worker_is_shown_with_what_it_does(shop: Shop) -> None:
    shop.on.store.register_worker("box:17:f00d", READER)
    assert "box process 17 nothing reading shop 1.1" in shop.words("/workers")
    shop.on.bring(ODD)
    shop.on.claim(worker="box:17:f00d")
    assert f"reading: 1 event pages/{ODD}" in shop.words("/workers")
    assert "/documents/pages/a%2Fb%20%22c%22%20%252F%3F%23%26%3Cd%3E" in shop.links("/workers")


def test_versions_side_by_side_are_said(shop: Shop) -> None:
    shop.on.store.register_worker("box:17:f00d", READER)
    assert "at the same time" not in shop.words("/workers")
    shop.on.store.register_worker("box:18:beef", READER | {"pid": 18, "version": "shop 1.2"})
    assert "2 versions run at the same time: shop 1.1 1 worker , shop 1.2 1 worker" in shop.words("/workers")


def test_one_who_is_silent_and_holds_something_is_said(shop: Shop) -> None:
    shop.on.bring("page-1")
    shop.on.claim(worker="gone:9:dead")
    text = shop.words("/workers")
    assert "gone:9:dead does not report, and still holds events; another worker takes them" in text
    assert "pages/page-1" in text


def test_what_one_who_is_silent_held_too_long_is_taken_by_the_next(shop: Shop) -> None:
    shop.on.bring("page-1")
    shop.on.claim(worker="gone:9:dead", lease=-1.0)
    assert "gone:9:dead does not report, and still holds events; another worker takes them now." in shop.words(
        "/workers"
    )


def test_services_that_nobody_runs_are_said(shop: Shop) -> None:
    shop.on.store.register_worker("box:17:f00d", READER)
    shop.on.store.publish([shop.on.noticed("one"), shop.on.noticed("two")])
    text = shop.words("/workers")
    assert "No worker runs listening: 2 events wait, the oldest fell due" in text
    assert "onward worker --app MODULE:APP --services listening" in text
    assert "No worker runs reading" not in text


def test_a_breaker_is_shown_with_reason_remedy_and_what_waits(shop: Shop) -> None:
    assert "printer closed Needed by drawing." in shop.words("/workers")
    assert "No breaker has been open in the last 30 days." in shop.words("/workers")
    shop.on.store.open_breaker("printer", "it burns: password=tinder <b>", remedy="fetch water")
    page = shop.page("/workers")
    assert "tinder" not in page
    assert "it burns: password=*** &lt;b&gt;" in page
    assert "fetch water" in page
    assert 'aria-label="printer: 1 time, not over yet"' in page


def test_the_limits_of_a_dependency_are_shown(shop: Shop) -> None:
    limit = DependencyLimit("printer", "60/min", Rate(60, 60.0), concurrency=4)
    shop.on.claim(service="drawing", needs=("printer",), limits=ClaimLimits((limit,)))
    assert "Limited to 60/min and 4 at once" in shop.words("/workers")


def test_a_breaker_is_opened_by_hand_with_a_reason(shop: Shop) -> None:
    asked = shop.page("/confirm/open-breaker?name=printer")
    assert 'name="reason"' in asked
    assert "If that was wrong" in asked
    done = shop.site.do("open-breaker", {"name": "printer", "reason": "new paper"})
    assert "printer is out of service" in done
    (breaker,) = shop.on.store.breakers()
    assert (breaker.open, breaker.by_hand, breaker.reason) == (True, True, "new paper")
    assert shop.actions() == [("console", "breakers open", 1)]


def test_without_a_reason_it_stays_closed(shop: Shop) -> None:
    assert "the reason is empty" in shop.site.do("open-breaker", {"name": "printer", "reason": " "})
    assert shop.on.store.breakers() == []


def test_one_that_is_down_already_can_be_taken_in_hand(shop: Shop) -> None:
    shop.on.store.open_breaker("printer", "it burns")
    assert "It is down already (it burns)" in shop.words("/confirm/open-breaker?name=printer")


def test_an_outage_is_left_to_the_probes(shop: Shop) -> None:
    """The button is there for whoever knows that the dependency works; only a breaker in hand needs it."""
    probed = "Repair printer. Nothing else has to be done: it is asked by itself"
    shop.on.store.open_breaker("printer", "it burns")
    page = shop.page("/workers")
    assert probed in page
    assert 'class="button" href="/confirm/close-breaker?name=printer"' in page
    shop.site.do("open-breaker", {"name": "printer", "reason": "new paper"})
    page = shop.page("/workers")
    assert probed not in page
    assert 'class="button main" href="/confirm/close-breaker?name=printer"' in page


def test_a_breaker_is_closed(shop: Shop) -> None:
    assert "nothing to close" in shop.words("/confirm/close-breaker?name=printer")
    shop.on.store.open_breaker("printer", "it burns")
    asked = shop.words("/confirm/close-breaker?name=printer")
    assert "may go on: one at first" in asked
    assert "If it is still down, the first one waits again, and loses no try." in asked
    done = shop.site.do("close-breaker", {"name": "printer"})
    assert "printer is in service again; if it is still down, its breaker opens again" in done
    assert not any(one.open for one in shop.on.store.breakers())
    assert shop.actions() == [("console", "breakers close", 1)]


def test_a_dependency_that_nobody_needs_is_refused(shop: Shop) -> None:
    for change in ("open-breaker", "close-breaker"):
        assert "There is no dependency 'oven'" in shop.words(f"/confirm/{change}?name=oven", 422)


def test_the_page_is_live(shop: Shop) -> None:
    parts = shop.watch("/workers")
    assert "printer closed" in next(parts)
    shop.on.store.open_breaker("printer", "it burns")
    assert "it burns" in next(parts)


def test_where_nothing_happens_nothing_changes(shop: Shop) -> None:
    """Else all of it would be sent to everybody every second."""
    shop.on.store.register_worker("box:17:f00d", READER)
    shop.on.store.publish([shop.on.noticed("one")])
    shop.on.bring("page-1")
    shop.on.claim(worker="gone:9:dead")
    assert shop.words("/workers") == shop.words("/workers")
