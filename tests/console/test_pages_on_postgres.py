"""The pages for operators are the same where the store is PostgreSQL, which takes no NUL in a text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console.shop import ODD, Shop, open_shop
from tests.support.failed_pages import fail, set_aside

LAST = 2**63 - 1


@pytest.fixture
def shop(tmp_path: Path, postgres_store_url: str) -> Iterator[Shop]:
    """Two pages that failed, and one that is set aside."""
    with open_shop(tmp_path, ONWARD_STORE=postgres_store_url) as found:
        fail(found.on, "page-a", ODD, fingerprint="beef1234", message="no subject")
        set_aside(found.on, "page-b")
        found.on.store.open_breaker("printer", "it burns")
        yield found


def test_every_page_is_there(shop: Shop) -> None:
    (letter, _), (batch,) = shop.on.store.find_dead_letters(), shop.on.store.failed_batches()
    for path, text in (
        ("/failures", "no subject"),
        ("/failures/beef1234", "page-a"),
        ("/failures/beef1234?after=pages/page", "page-a"),
        ("/queues", "reading.failed"),
        ("/queues/reading.failed?error_type=ValueError&group=beef1234", "page-a"),
        (f"/letters/{letter.row}", "PagesFound"),
        ("/batches", batch.id[:8]),
        (f"/batches/{batch.id}", "page-b"),
        ("/workers", "it burns"),
        ("/actions", "No one has changed"),
        ("/confirm/retry-group?fingerprint=beef1234", "2 dead letters would be put back."),
        ("/confirm/requeue?queue=reading.failed", "2 dead letters of reading.failed would go back."),
    ):
        assert text in shop.words(path), path


def test_what_no_text_can_hold_is_not_found(shop: Shop) -> None:
    for path in (
        *("/failures/%00", "/queues/%00", f"/letters/{LAST}", f"/letters/{LAST + 1}", "/batches/%00x"),
        *("/confirm/retry-batch?id=%00x", "/confirm/requeue?row=%00", "/confirm/retry-group?fingerprint=%00x"),
        *("/confirm/requeue?queue=%00", "/confirm/requeue?queue=reading.failed&group=%00x"),
        "/confirm/open-breaker?name=%00",
    ):
        assert shop.site.client.get(path).status_code in (404, 422), path
    for path in (
        *("/failures?service=%00", "/failures/beef1234?after=pages/%00", "/queues/reading.failed?group=%00"),
        *("/queues/reading.failed?error_type=%00x", f"/queues/reading.failed?after={'9' * 18}"),
        f"/actions?before={LAST}",
    ):
        shop.page(path)


def test_a_reason_keeps_what_can_be_kept(shop: Shop) -> None:
    assert "to bring it back" in shop.site.do("open-breaker", {"name": "printer", "reason": "a\0b"})
    assert shop.on.store.breakers()[0].reason == "ab"
