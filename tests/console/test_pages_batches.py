"""Failed batches in the console: what was set aside, when it is retried, and deciding otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onward.model.documents import Status
from tests.console.shop import ODD, Shop, open_shop, words
from tests.support.failed_pages import SOURCE, set_aside

OTHER = "https://anna:tinder@lists.example.org/other.mbox"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """Two pages of one source set aside, and one of another."""
    with open_shop(tmp_path) as found:
        set_aside(found.on, "page-1", ODD, message="too long: api_key=tinder <b>")
        set_aside(found.on, "page-3", source=OTHER)
        yield found


def batch(shop: Shop, source: str = SOURCE) -> str:
    (found,) = shop.on.store.failed_batches(source)
    return found.id


def retried(shop: Shop, id: str, times: int) -> None:
    shop.on.store.reschedule_batch(id, 1000.0)
    for number in range(times):
        assert shop.on.store.claim_batch(id, retry_count=number, until=1001.0 + number)


def test_batches_are_listed_with_how_many_why_and_when(shop: Shop) -> None:
    text = shop.words("/batches")
    assert f"{SOURCE} 2 ValueError: too long: api_key=*** <b> 0 " in text
    assert "2 of 2 batches" in text
    assert "persistent" not in text
    assert "tinder" not in shop.page("/batches"), "no password of a source is shown"


def test_where_nothing_is_set_aside_it_is_said(tmp_path: Path) -> None:
    with open_shop(tmp_path) as shop:
        assert "There are no failed batches" in shop.words("/batches")


def test_a_batch_shows_each_item_with_its_error(shop: Shop) -> None:
    page = shop.page(f"/batches/{batch(shop)}")
    items = page.partition("<tbody>")[2].partition("</tbody>")[0]
    assert items.count("ValueError: too long: api_key=*** &lt;b&gt;") == 2
    assert 'href="/documents/pages/a%2Fb%20%22c%22%20%252F%3F%23%26%3Cd%3E"' in page
    assert SOURCE in page


def test_items_come_fifty_at_a_time(shop: Shop) -> None:
    set_aside(shop.on, *(f"many-{one:03}" for one in range(60)), source="/lists/many.mbox")
    path = f"/batches/{batch(shop, '/lists/many.mbox')}"
    assert f"{path}?page=2" in shop.links(path)
    shown = [[one for one in shop.links(f"{path}?page={page}") if "/many-" in one] for page in (1, 2)]
    assert [len(one) for one in shown] == [50, 10]


def test_the_schedule_is_drawn_with_where_it_is(shop: Shop) -> None:
    id = batch(shop)
    retried(shop, id, 3)
    page = shop.page(f"/batches/{id}")
    drawn = page.partition('<figure class="retries">')[2].partition("</figure>")[0]
    assert drawn.count('class="done"') == 3
    assert "Retry 4, after 20 min" in drawn.partition('class="next"')[2].partition("</circle>")[0]
    assert '<text class="here"' in drawn


def test_from_the_tenth_retry_on_it_is_marked_persistent(shop: Shop) -> None:
    retried(shop, batch(shop), 10)
    assert "1 batch has been retried 10 times or more" in shop.words("/batches")
    page = shop.words(f"/batches/{batch(shop)}")
    assert "persistent It has been retried 10 times" in page
    assert "Retry 11, after 60 min" in page


def test_a_batch_is_retried_now(shop: Shop) -> None:
    id = batch(shop)
    asked = shop.words(f"/confirm/retry-batch?id={id}")
    assert "1 failed batch with 2 documents would be retried." in asked
    assert shop.on.store.due_for_check(limit=9) == []
    assert "will be retried now." in shop.site.do("retry-batch", {"id": id})
    assert len(shop.on.store.due_for_check(limit=9)) == 2
    assert shop.actions() == [("console", "batches retry", 2)]


def test_all_batches_are_retried_now(shop: Shop) -> None:
    assert "2 failed batches with 3 documents will be retried now." in shop.site.do("retry-batch", {"all": "yes"})
    assert len(shop.on.store.due_for_check(limit=9)) == 3


def test_giving_a_batch_up_is_final(shop: Shop) -> None:
    id = batch(shop)
    asked = shop.words(f"/confirm/discard-batch?id={id}")
    assert "2 documents of 1 failed batch would be discarded." in asked
    assert "This is final." in asked
    assert "2 documents of 1 failed batch discarded." in shop.site.do("discard-batch", {"id": id})
    assert shop.on.state("page-1").status == Status.DISCARDED
    assert shop.actions() == [("console", "batches discard", 2)]
    shop.page(f"/batches/{id}", 404)


@pytest.mark.parametrize("id", ("nothing", "..%2F..%2Fetc", "x%00"))
def test_a_batch_that_is_none_is_not_found(shop: Shop, id: str) -> None:
    shop.page(f"/batches/{id}", 404)
    shop.page(f"/confirm/retry-batch?id={id}", 404)


def test_those_that_are_ticked_are_given_up_and_then_all(shop: Shop) -> None:
    set_aside(shop.on, "late-a", source="/lists/late.mbox")
    set_aside(shop.on, "later-a", source="/lists/later.mbox")
    ids = [batch.id for batch in shop.on.store.failed_batches()]
    page = shop.select("/batches", "discard-batch", ids[:2], {})
    assert "of 2 failed batches would be discarded" in words(page)
    assert "of 2 failed batches discarded" in shop.confirm(page)
    assert len(shop.on.store.failed_batches()) == len(ids) - 2
    shop.confirm(shop.select("/batches", "discard-batch", [], {"all": "yes"}))
    assert shop.on.store.failed_batches() == []
