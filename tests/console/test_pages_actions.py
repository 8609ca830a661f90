"""What people changed is kept and shown, and so is what is under way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onward.model.operations import OperationStatus
from tests.console.shop import Shop, open_shop, words
from tests.support.console_client import HTML
from tests.support.failed_pages import failure
from tests.support.store_pages import page

READING = {"queue": "reading.failed"}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with open_shop(tmp_path) as found:
        yield found


def test_where_nobody_changed_anything_it_is_said(shop: Shop) -> None:
    assert "No one has changed anything yet" in shop.words("/actions")
    assert "Nothing is under way" in shop.words("/operations")


def test_actions_are_shown_with_who_what_and_how_much(shop: Shop) -> None:
    shop.on.store.log_action("anna", "cli", "failed requeue", READING | {"canary": 3, "note": "<b>\x1b[2J"}, 17)
    page = shop.page("/actions")
    assert "<b>" not in page
    assert "\x1b" not in page
    assert "failed requeue queue reading.failed canary 3 note <b>[2J 17 anna cli" in shop.words("/actions")


def test_a_time_that_a_change_was_about_is_told_in_the_zone_of_whoever_reads(shop: Shop) -> None:
    shop.on.store.log_action("anna", "cli", "retry", {"at": "2026-11-17T14:22:45.344806+00:00"}, 1)
    shop.on.store.log_action("anna", "cli", "retry", {"at": "soon"}, 1)
    page = shop.page("/actions")
    assert (
        '<time datetime="2026-11-17T14:22:45+00:00" title="2026-11-17 14:22:45 UTC">2026-11-17 14:22:45</time>'
        in page
    )
    assert "at soon 1 anna" in shop.words("/actions")


def test_actions_come_fifty_at_a_time_the_latest_first(shop: Shop) -> None:
    for number in range(60):
        shop.on.store.log_action("anna", "cli", f"change {number:02}", {}, 1)
    first = shop.words("/actions")
    (following,) = (one for one in shop.links("/actions") if "before=" in one)
    second = shop.words(following)
    assert "50 changes" in first
    assert "10 changes" in second
    assert first.index("change 59") < first.index("change 10")
    assert "change 09" not in first
    assert second.index("change 09") < second.index("change 00")
    assert "change 10" not in second


@pytest.mark.parametrize("before", ("x", "-1", "9" * 30, "9" * 5000, "٣"))
def test_a_place_that_makes_no_sense_is_the_beginning(shop: Shop, before: str) -> None:
    shop.on.store.log_action("anna", "cli", "failed requeue", READING, 17)
    assert "failed requeue" in shop.words(f"/actions?before={before}")


def test_what_was_changed_here_is_listed_and_linked(shop: Shop) -> None:
    shop.site.do("open-breaker", {"name": "printer", "reason": "new paper"})
    assert "Take printer out of service done printer is out of service" in shop.words("/operations")
    (link,) = {one for one in shop.links("/operations") if one.startswith("/operations/")}
    assert "printer is out of service" in shop.words(link)
    assert "Reason new paper" in shop.words(link)
    shop.site.do("open-breaker", {"name": "printer", "reason": " "})
    assert "Take printer out of service failed BadInput: the reason is empty" in shop.words("/operations")


def begin(shop: Shop, title: str = "Put back", who: str = "anna") -> str:
    """An operation that somebody has begun in another process."""
    parameters = {"selection": {"queue": "reading.failed"}}
    return shop.on.store.begin_operation(
        title, who, "console", action="RequeueDeadLetters", parameters=parameters
    ).id


def post(shop: Shop, path: str) -> None:
    token = shop.page(path.rpartition("/")[0]).partition('name="form_token" value="')[2].partition('"')[0]
    answer = shop.site.client.post(path, data={"form_token": token}, headers=HTML)
    assert answer.status_code == 303, answer.text


def test_operations_are_found_by_status_and_person(shop: Shop) -> None:
    store, done = shop.on.store, OperationStatus.DONE
    store.end_operation(begin(shop, "First"), 1, done, done=1, total=1, text="One put back.")
    begin(shop, "Second", "ben")
    assert shop.words("/operations").index("Second running") < shop.words("/operations").index("First done")
    assert "First" not in shop.words("/operations?status=running")
    assert "Second" not in shop.words("/operations?who=anna&status=nonsense")
    assert "No operation matches" in shop.words("/operations?status=failed&who=%00")


def test_operations_come_fifty_at_a_time(shop: Shop) -> None:
    for number in range(51):
        begin(shop, f"change {number:02}")
    (following,) = (one for one in shop.links("/operations") if "before=" in one)
    assert "change 00" not in shop.words("/operations")
    assert "1 operation" in shop.words(following)
    assert "change 00" in shop.words(following)


def test_an_operation_whose_process_is_gone_says_so_and_goes_on_with_one_click(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.give_up(failure("it broke", "f00d1234"), "page-a", "page-b")
    monkeypatch.setattr("onward.ledger.operations.OPERATION_LEASE_SECONDS", -1.0)
    id = begin(shop)
    monkeypatch.undo()
    page = shop.page(f"/operations/{id}")
    assert "interrupted The process that ran it has ended." in words(page)
    assert f'action="/operations/{id}/continue"' in page
    post(shop, f"/operations/{id}/continue")
    said = shop.wait_for(f"/operations/{id}", "2 dead letters put back")
    assert said.startswith("done run 2")
    assert shop.actions() == [("console", "failed requeue", 2)]
    again = shop.site.client.post(f"/v3/operations/{id}/continue")
    assert (again.status_code, "it is done" in again.json()["detail"]) == (409, True)


def test_an_operation_is_known_after_a_restart(tmp_path: Path) -> None:
    with open_shop(tmp_path) as shop:
        shop.site.do("open-breaker", {"name": "printer", "reason": "new paper"})
        (link,) = {one for one in shop.links("/operations") if one.startswith("/operations/")}
    with open_shop(tmp_path) as shop:
        assert "printer is out of service" in shop.words(link)


def test_what_runs_when_the_server_stops_is_interrupted(tmp_path: Path) -> None:
    with open_shop(tmp_path) as shop:
        shop.give_up(failure("it broke", "f00d1234"), "page-a", "page-b")
        link = shop.begin("requeue", queue="reading.failed", canary="1")
        shop.wait_for(link, "canary:")
    with open_shop(tmp_path) as shop:
        assert "interrupted The process that ran it has ended." in shop.words(link)
        assert shop.site.client.get(f"/v3{link}").json()["status"] == "interrupted"


def test_every_page_has_the_latest_operations(shop: Shop) -> None:
    assert "recent-operations" not in shop.page("/failures")
    for title in ("First", "Second", "Third"):
        begin(shop, title)
    id = begin(shop, "<Fourth>")
    shop.on.store.save_operation(id, 1, 25, 100, "")
    page = shop.page("/failures")
    recent = page.partition('<div class="recent"')[2].partition("</div>")[0]
    assert 'data-live="/live/recent-operations/"' in recent
    assert '&lt;Fourth&gt; <span class="num">25 %</span>' in recent
    assert ("First" in recent, "Second" in recent) == (False, True)
    assert "25 of 100" in next(shop.watch("/recent-operations/"))


def test_an_operation_that_is_not_known_is_refused(shop: Shop) -> None:
    assert "there is no operation 'nothing'" in shop.words("/operations/nothing", 404).lower()
    assert shop.site.client.get("/operations/%00", headers=HTML).status_code == 404


def test_documents_that_an_action_was_about_have_their_titles(shop: Shop) -> None:
    shop.give_up(failure("it broke", "f00d1234"), "page-a")
    shop.on.store.add_documents([page("page-b", "the tide tables")])
    shop.site.do("discard", {"collection": "pages", "id": "page-b"})
    assert "documents discard ids the tide tables (pages/page-b)" in shop.words("/actions")
    (link,) = {one for one in shop.links("/operations") if one.startswith("/operations/")}
    assert "Documents the tide tables (pages/page-b)" in shop.words(link)
    assert "Discard the tide tables?" in shop.words("/operations")
