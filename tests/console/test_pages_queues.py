"""Failed queues in the console: letters are found, read without harm, put back, put away and removed."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from onward.model.documents import Status
from onward.model.failures import Failure
from onward.model.ledger import DeadLettered, Subscription
from tests.console.shop import ODD, Shop, open_shop, words
from tests.support.failed_pages import failure

QUEUE = "/queues/reading.failed"
SLOW = Failure(at=0.0, error_type="TimeoutError", message="too slow", fingerprint="510", kind="timeout")
WRONG = Failure(at=0.0, error_type="KeyError", message="no subject", fingerprint="beef", kind="permanent")
HOSTILE = "<script>alert('x')</script>"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """Three pages that were too slow, and two without a subject."""
    with open_shop(tmp_path) as found:
        found.give_up(SLOW, "slow-a", "slow-b", "slow-c")
        found.give_up(WRONG, "wrong-a", ODD)
        yield found


def rows(shop: Shop, *, archived: bool = False) -> list[int]:
    return [one.row for one in shop.on.store.find_dead_letters(archived=archived)]


def listed(shop: Shop, path: str) -> list[str]:
    """The letters on a page."""
    return re.findall(r'<td class="num-left" data-label="Dead letter"><a href="/letters/(\d+)">', shop.page(path))


# -- queues


def test_queues_are_listed_with_what_is_in_them(shop: Shop) -> None:
    text = shop.words("/queues")
    assert "reading.failed reading 5 – TimeoutError: too slow" in text
    assert "Empty: drawing.failed , listening.failed" in text


def test_where_nothing_was_given_up_it_is_said(tmp_path: Path) -> None:
    with open_shop(tmp_path) as shop:
        assert "No failed queue has a dead letter An event" in shop.words("/queues")
        assert "This queue is empty Nothing" in shop.words(QUEUE)
        assert "No dead letter is archived" in shop.words(f"{QUEUE}?archived=yes")


def test_letters_are_filtered_by_error_type_and_group(shop: Shop) -> None:
    assert len(listed(shop, QUEUE)) == 5
    assert len(listed(shop, f"{QUEUE}?error_type=TimeoutError")) == 3
    assert len(listed(shop, f"{QUEUE}?group=beef")) == 2
    assert "2 of 2 dead letters" in shop.words(f"{QUEUE}?group=beef")
    assert "No dead letter matches" in shop.words(f"{QUEUE}?group=beef&error_type=TimeoutError")


def test_what_is_ticked_is_put_back(shop: Shop) -> None:
    first, second, *_ = listed(shop, QUEUE)
    chosen = {"queue": "reading.failed", "selecting": "yes"}
    page = shop.select(QUEUE, "requeue", [first, second], chosen)
    assert "2 dead letters of 2 chosen would go back" in words(page)
    assert "2 dead letters put back" in shop.confirm(page)
    assert len(listed(shop, QUEUE)) == 3


def test_all_that_match_are_archived_without_naming_them(shop: Shop) -> None:
    given = {"queue": "reading.failed", "error_type": "TimeoutError", "selecting": "yes", "all": "yes"}
    page = shop.select(QUEUE, "archive-letters", [], given)
    assert "3 dead letters of reading.failed would be archived" in words(page)
    assert "3 dead letters of reading.failed archived" in shop.confirm(page)
    assert len(listed(shop, QUEUE)) == 2


def test_nothing_ticked_is_said(shop: Shop) -> None:
    for rows, said in (([], "nothing is selected"), (["x"], "'x' is no dead letter")):
        given = {"queue": "reading.failed", "selecting": "yes"}
        assert said in words(shop.select(QUEUE, "requeue", rows, given, status=422)).lower()


def test_fifty_letters_are_a_page_also_of_two_services(shop: Shop) -> None:
    shared = Subscription("hearing", "Noticed", failed_queue="reading.failed")
    shop.on.store.subscribe([shared])
    for number in range(60):
        if number % 2:
            shop.give_up(WRONG, f"page-{number}")
        else:
            shop.on.store.publish([shop.on.noticed(f"{number}")])
            shop.on.settle(shop.on.take(service="hearing"), DeadLettered([], failure=failure("deaf", "dea")))
    mine = [str(one.row) for one in shop.on.store.find_dead_letters(limit=200)]
    first = listed(shop, QUEUE)
    (following,) = (one for one in shop.links(QUEUE) if "after=" in one)
    assert (len(first), first + listed(shop, following)) == (50, mine)
    assert "50 of 65 dead letters" in shop.words(QUEUE)


def test_a_queue_that_is_none_is_not_found(shop: Shop) -> None:
    assert "There is no failed queue 'nothing'" in shop.words("/queues/nothing", 404)
    shop.page("/queues/..%2F..%2Fetc%2Fpasswd", 404)


def test_a_queue_may_be_called_anything(shop: Shop) -> None:
    name = f"{ODD}.failed"
    shop.on.store.subscribe([Subscription("hearing", "Noticed", failed_queue=name)])
    assert f"/queues/{quote(name, safe='')}" in shop.links("/queues")
    assert "This queue is empty Nothing" in shop.words(f"/queues/{quote(name, safe='')}")


@pytest.mark.parametrize("after", ("-1", "x", "99999999999999999999999", "٣"))
def test_a_place_that_makes_no_sense_is_the_beginning(shop: Shop, after: str) -> None:
    assert len(listed(shop, f"{QUEUE}?after={after}")) == 5


# -- one letter


def test_a_letter_tells_its_event_and_errors(shop: Shop) -> None:
    page = shop.page(f"/letters/{rows(shop)[0]}")
    assert "&#34;event_type&#34;: &#34;PagesFound&#34;" in page
    assert "TimeoutError: too slow" in page
    assert 'href="/failures/510"' in page
    assert 'href="/documents/pages/slow-a"' in page
    assert 'href="/queues/reading.failed"' in page


def test_bytes_that_are_no_event_are_shown_without_harm(shop: Shop) -> None:
    wrong = replace(WRONG, at=shop.on.store.now(), message=f"no JSON: {HOSTILE}")
    shop.on.store.keep_malformed(b"\x1b[2J\xff" + HOSTILE.encode() + b" password=tinder" + bytes(3000), wrong)
    page = shop.page(f"/letters/{rows(shop)[-1]}")
    assert HOSTILE not in page
    assert "\x1b" not in page
    assert "\\x1b[2J\\xff&lt;script&gt;" in page
    assert "tinder" not in page
    assert "of which the first are shown" in page
    assert "It cannot be put back: " in page
    assert "/confirm/requeue" not in page


def test_a_message_is_shown_with_what_could_be_decoded_and_its_properties(shop: Shop) -> None:
    wrong = replace(WRONG, at=shop.on.store.now())
    raw = b'{"event_type": "Smelt", "data": {"what": "\\ud800"}}'
    properties = {"routing_key": HOSTILE, "headers": {"authorization": "Bearer tinder-1234567", "x-try": 2}}
    shop.on.store.keep_malformed(raw, wrong, event_type="", event_id="theirs", properties=json.dumps(properties))
    page = shop.page(f"/letters/{rows(shop)[-1]}")
    assert "<h2>Its properties</h2>" in page
    assert "&#34;x-try&#34;: 2" in page
    assert "<dd>Smelt</dd>" in page
    assert "tinder" not in page
    assert HOSTILE not in page
    answer = shop.site.client.get("/v3/failed-queues/events.failed?whole=true").json()["dead_letters"][-1]
    assert answer["original_event"] == {"event_type": "Smelt", "data": {"what": "?"}}
    assert answer["properties"]["headers"] == {"authorization": "***", "x-try": 2}
    assert base64.b64decode(answer["raw"]) == raw
    assert "Smelt" in shop.page("/queues/events.failed")


@pytest.mark.parametrize("row", ("0", "999999", "x", "-1", "9" * 30, "9" * 5000, "٣"))
def test_a_letter_that_is_none_is_not_found(shop: Shop, row: str) -> None:
    assert "There is no such dead letter" in shop.words(f"/letters/{row}", 404)


# -- changes


def test_one_letter_is_put_back(shop: Shop) -> None:
    first = str(rows(shop)[0])
    asked = shop.words(f"/confirm/requeue?row={first}")
    assert "Dead letter" in asked
    assert shop.actions() == []
    done = shop.site.do("requeue", {"row": first})
    assert "1 dead letter put back." in done
    assert "<h1>reading.failed</h1>" in done, "the letter has no page any more"
    assert shop.on.state("slow-a").status == Status.PENDING
    assert shop.actions() == [("console", "failed requeue", 1)]


def test_all_that_match_are_put_back(shop: Shop) -> None:
    fields = {"queue": "reading.failed", "error_type": "TimeoutError"}
    assert "3 dead letters of reading.failed would go back." in shop.words(
        "/confirm/requeue?queue=reading.failed&error_type=TimeoutError"
    )
    said = shop.wait_for(shop.begin("requeue", **fields), "3 dead letters put back.")
    assert "No worker is alive to do it; start one: onward worker --app MODULE:APP" in said
    assert len(rows(shop)) == 2
    assert shop.finish(10) == 3


def test_all_queues_are_put_back_after_a_canary(shop: Shop) -> None:
    operation = shop.begin("requeue", all="yes", canary="1", rate="1000")
    shop.wait_for(operation, "canary: 0 of 1 done")
    assert len(rows(shop)) == 4
    shop.finish()
    shop.wait_for(operation, "5 dead letters put back.")
    about = shop.on.store.actions()[0].about
    assert (about["canary"], about["rate"], about["all"]) == (1, 1000.0, True)


def test_of_a_large_queue_the_letters_are_only_counted(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onward.ops.actions.dead_letters.MAX_QUICK_PLAN", 2)
    assert "Up to 5 dead letters of reading.failed would go back." in shop.words(
        "/confirm/requeue?queue=reading.failed"
    )
    asked = "/confirm/requeue?queue=reading.failed&error_type=TimeoutError"
    assert "Up to 3 dead letters of reading.failed would go back." in shop.words(asked)


def test_letters_are_archived_and_restored(shop: Shop) -> None:
    fields = {"queue": "reading.failed", "group": "beef"}
    assert "2 dead letters of reading.failed would be archived." in shop.words(
        "/confirm/archive-letters?queue=reading.failed&group=beef"
    )
    assert "2 dead letters of reading.failed archived." in shop.site.do("archive-letters", fields)
    assert (len(rows(shop)), len(rows(shop, archived=True))) == (3, 2)
    assert len(listed(shop, f"{QUEUE}?archived=yes")) == 2
    letter = rows(shop, archived=True)[0]
    assert f"/confirm/restore-letters?row={letter}" in shop.links(f"/letters/{letter}")
    assert "2 dead letters of reading.failed restored." in shop.site.do(
        "restore-letters", {"queue": "reading.failed"}
    )
    assert len(rows(shop)) == 5
    assert shop.actions() == [("console", "failed archive", 2)] * 2
    assert shop.on.store.actions()[0].about["restore"] is True


def test_a_queue_that_holds_only_archived_letters_is_listed(shop: Shop) -> None:
    shop.site.do("archive-letters", {"queue": "reading.failed"})
    assert "reading.failed reading – 5" in shop.words("/queues")


def test_removing_is_final_and_says_so(shop: Shop) -> None:
    asked = shop.words("/confirm/purge-letters?queue=reading.failed&group=510")
    assert "3 dead letters of reading.failed would be removed." in asked
    assert "This is final." in asked
    assert len(rows(shop)) == 5
    assert "3 dead letters of reading.failed removed." in shop.site.do(
        "purge-letters", {"queue": "reading.failed", "group": "510"}
    )
    assert (len(rows(shop)), rows(shop, archived=True)) == (2, [])
    assert shop.on.state("slow-a").status == Status.FAILED, "documents stay as they are"
    assert shop.actions() == [("console", "failed purge", 3)]


def test_an_archived_letter_is_removed_from_its_page(shop: Shop) -> None:
    first = rows(shop)[0]
    shop.on.store.archive_dead_letters([first])
    assert f"/confirm/purge-letters?row={first}&archived=yes" in shop.links(f"/letters/{first}")
    assert f"Dead letter {first} removed." in shop.site.do("purge-letters", {"row": str(first), "archived": "yes"})
    assert rows(shop, archived=True) == []


def test_the_last_letter_of_no_service_takes_its_queue_along(shop: Shop) -> None:
    shop.on.store.keep_malformed(b"{", replace(WRONG, at=shop.on.store.now()))
    assert "/queues/events.failed" in shop.links("/queues")
    assert "1 dead letter of events.failed removed." in shop.site.do("purge-letters", {"queue": "events.failed"})


@pytest.mark.parametrize("query", ("", "row=x", "row=999999", "queue=nothing", "queue=reading.failed&group=none"))
def test_letters_that_cannot_be_meant_are_refused(shop: Shop, query: str) -> None:
    for change in ("requeue", "archive-letters", "restore-letters", "purge-letters"):
        answer = shop.site.client.get(f"/confirm/{change}?{query}")
        assert answer.status_code in (404, 422), answer.text
