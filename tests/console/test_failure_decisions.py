"""What people decide about failure groups, in the console and over HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from onward.model.failures import Failure
from tests.console.shop import Shop, open_shop
from tests.support.console_client import HTML

GROUP, OTHER = "beef1234", "cafe5678"
BROKEN = Failure(at=0.0, error_type="KeyError", message="no subject", fingerprint=GROUP, version="1.0")
SLOW = replace(BROKEN, error_type="Timeout", message="no reply", fingerprint=OTHER)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """Three pages that fail for one reason, two for another."""
    with open_shop(tmp_path) as found:
        deploy(found, "1.0")
        found.give_up(BROKEN, "a", "b", "c")
        found.give_up(SLOW, "x", "y")
        yield found


def deploy(shop: Shop, version: str) -> None:
    shop.on.store.register_worker(f"worker of {version}", {"version": version})


def do(shop: Shop, change: str, **fields: str) -> str:
    """Fill in a form on the page of a group; answers what the next page says."""
    page = shop.page(f"/failures/{GROUP}")
    token = re.findall(r'name="form_token" value="([^"]+)"', page)[0]
    data = {"fingerprint": GROUP, **fields, "form_token": token}
    done = shop.site.client.post(f"/do/{change}", data=data, headers=HTML)
    assert done.status_code == 303, done.text[:2000]
    return shop.words(done.headers["location"])


def get(shop: Shop, path: str) -> dict[str, Any]:
    answer = shop.site.client.get(path)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def post(shop: Shop, path: str, status: int = 200, **body: Any) -> dict[str, Any]:
    answer = shop.site.client.post(path, json=body)
    assert answer.status_code == status, answer.text
    told: dict[str, Any] = answer.json()
    return told


def listed(shop: Shop, query: str = "") -> list[str]:
    return [one["fingerprint"] for one in get(shop, f"/v3/failures{query}")["failures"]]


# -- the console


def test_a_group_is_closed_on_its_page(shop: Shop) -> None:
    said = do(shop, "close-group", version="1.1")
    assert "No worker of 1.1 was seen yet" in said
    assert "fix expected in 1.1" in said
    assert "console closed it" in said
    assert shop.actions()[-1] == ("console", "failures fixed", 1)


def test_a_closed_group_is_listed_only_if_asked_for(shop: Shop) -> None:
    do(shop, "close-group", version="1.1")
    assert "1 group is closed" in shop.words("/failures")
    assert "no subject" not in shop.words("/failures").partition("Closed, but not put back yet")[0]
    assert "no subject" in shop.words("/failures?state=closed")
    assert "no subject" in shop.words("/failures?state=fix_expected")
    assert "no subject" in shop.words("/failures?state=all")
    assert "no subject" not in shop.words("/failures?state=regression")
    assert "no subject" not in shop.words("/")


def test_a_closed_group_is_listed_apart_until_what_it_affects_is_put_back(shop: Shop) -> None:
    do(shop, "close-group", version="1.1")
    assert "Closed, but not put back yet KeyError: no subject fix expected in 1.1" in shop.words("/failures")
    shop.begin("discard-group", fingerprint=GROUP)
    assert "not put back yet" not in shop.words("/failures")


def test_after_a_closing_the_next_step_is_to_put_it_back_when_the_fix_runs(shop: Shop) -> None:
    deploy(shop, "1.1")
    shop.give_up(
        replace(BROKEN, error_type="NameError", version="1.1", fingerprint="feed9999"), "p", "q", "r", "s"
    )
    page, retry = "/failures/feed9999", "/confirm/retry-group?fingerprint=feed9999&growing=yes"
    assert "Say which version has the fix" in shop.words(page)
    assert "will probably fail again" not in shop.words(retry)
    do(shop, "close-group", fingerprint="feed9999", version="1.2")
    text = shop.words(page)
    assert "Say which version has the fix" not in text
    assert "When 1.2 runs (no worker of it was seen yet) Put it back…" in text
    assert "No worker of 1.2, which has the fix, was seen yet: what is put back now will probably" in shop.words(
        retry
    )
    deploy(shop, "1.2")
    assert "1.2 runs, which has the fix Put it back…" in shop.words(page)
    assert "will probably fail again" not in shop.words(retry)


def test_a_regression_is_shown_first_and_needs_a_person(shop: Shop) -> None:
    do(shop, "close-group", fingerprint=OTHER)
    shop.give_up(SLOW, "z")
    text = shop.words("/failures")
    assert text.index("no reply") < text.index("no subject")
    assert "regression in 1.0" in text
    assert "1 failure group that was closed came back" in shop.words("/")
    assert "It came back in 1.0" in shop.words(f"/failures/{OTHER}")


def test_a_group_is_reopened_on_its_page(shop: Shop) -> None:
    assert "Reopen it" not in shop.words(f"/failures/{GROUP}"), "it is open"
    do(shop, "close-group")
    assert "Reopened." in do(shop, "reopen-group")
    assert "no subject" in shop.words("/failures")


def test_a_group_has_notes_and_an_owner(shop: Shop) -> None:
    do(shop, "note-group", text="<b>The vendor</b> knows\npassword=tinder")
    said = do(shop, "assign-group", owner="ana")
    assert "<b>The vendor</b> knows password=***" in said, "as it was written, without its secret"
    assert "Owner ana" in said
    assert "ana · 1 note" in shop.words("/failures?owner=ana")
    assert "no subject" not in shop.words("/failures?owner=ben")
    do(shop, "assign-group", owner="")
    assert "Owner ana" not in shop.words(f"/failures/{GROUP}")


def test_an_empty_note_is_refused(shop: Shop) -> None:
    page = shop.page(f"/failures/{GROUP}")
    token = re.findall(r'name="form_token" value="([^"]+)"', page)[0]
    data = {"fingerprint": GROUP, "text": " ", "form_token": token}
    refused = shop.site.client.post("/do/note-group", data=data, headers=HTML)
    assert refused.status_code == 422
    assert "note is empty" in refused.text


def test_groups_are_merged_after_a_look(shop: Shop) -> None:
    assert "no reply" in shop.words(f"/confirm/merge-group?fingerprint={GROUP}&other={OTHER}")
    said = do(shop, "merge-group", other=OTHER)
    assert "1 group merged into beef1234" in said
    assert "5 of 5 documents" in said
    assert "Failures of cafe5678 count with beef1234" in said
    assert "5 of 5 documents" in shop.words(f"/failures/{OTHER}"), "the old address leads to the merged group"


def test_a_group_is_split_after_a_look_and_put_together_again(shop: Shop) -> None:
    shop.give_up(replace(BROKEN, message="no subject in mail 7"), "d")
    path = f"/confirm/split-group?fingerprint={GROUP}&by=message&value=mail"
    assert "1 of 4 documents would form a group of their own" in shop.words(path)
    assert "The new group is" in do(shop, "split-group", by="message", value="mail")
    (rule,) = shop.on.store.group_rules()
    assert "1 of 1 document" in shop.words(f"/failures/{rule.target}")
    assert f"/confirm/undo-rule?rule={rule.id}&fingerprint={GROUP}" in shop.links(f"/failures/{GROUP}")
    assert "4 of 4 documents" in do(shop, "undo-rule", rule=str(rule.id))


def test_a_split_by_something_else_is_refused(shop: Shop) -> None:
    assert "give one of message, dependency, version" in shop.words(
        f"/confirm/split-group?fingerprint={GROUP}&by=weather&value=rain", 422
    )


# -- over HTTP


def test_a_group_is_closed_and_reopened_over_http(shop: Shop) -> None:
    assert post(shop, f"/v3/failures/{GROUP}/fixed", version="1.1", dry_run=True)["touches"] == 1
    assert get(shop, f"/v3/failures/{GROUP}")["state"] == "open", "that was a dry run"
    post(shop, f"/v3/failures/{GROUP}/fixed", version="1.1")
    told = get(shop, f"/v3/failures/{GROUP}")
    assert told["state"] == "fix_expected"
    assert (told["closed"]["who"], told["closed"]["version"]) == ("api", "1.1")
    assert (listed(shop), listed(shop, "?state=closed"), len(listed(shop, "?all=true"))) == ([OTHER], [GROUP], 2)
    assert get(shop, "/v3/failures")["closed"] == 1
    deploy(shop, "1.1")
    assert get(shop, f"/v3/failures/{GROUP}")["state"] == "closed"
    post(shop, f"/v3/failures/{GROUP}/reopen")
    assert get(shop, f"/v3/failures/{GROUP}")["state"] == "open"
    assert post(shop, f"/v3/failures/{GROUP}/reopen")["touches"] == 0


def test_a_regression_is_told_over_http(shop: Shop) -> None:
    post(shop, f"/v3/failures/{OTHER}/fixed")
    shop.give_up(SLOW, "z")
    told = get(shop, f"/v3/failures/{OTHER}")
    assert (told["state"], told["regression"]["version"], told["regressions"]) == ("regression", "1.0", 1)
    assert listed(shop) == [OTHER, GROUP]
    assert listed(shop, "?state=regression") == [OTHER]


def test_notes_and_owners_over_http(shop: Shop) -> None:
    post(shop, f"/v3/failures/{GROUP}/notes", text="password=tinder")
    post(shop, f"/v3/failures/{GROUP}/owner", owner="ana")
    told = get(shop, f"/v3/failures/{GROUP}")
    assert [(note["who"], note["text"]) for note in told["notes"]] == [("api", "password=***")]
    assert (told["owner"], listed(shop, "?owner=ANA"), listed(shop, "?owner=ben")) == ("ana", [GROUP], [])
    post(shop, f"/v3/failures/{GROUP}/owner", owner=None)
    assert get(shop, f"/v3/failures/{GROUP}")["owner"] is None


def test_groups_are_merged_and_split_over_http(shop: Shop) -> None:
    post(shop, f"/v3/failures/{GROUP}/merge", groups=[OTHER])
    assert get(shop, f"/v3/failures/{OTHER}")["fingerprint"] == GROUP
    post(shop, f"/v3/failures/{GROUP}/split", by="message", value="no reply")
    assert len(listed(shop)) == 2
    merge, split = get(shop, "/v3/failure-rules")["rules"]
    assert (merge["kind"], merge["group"], merge["target"]) == ("merge", OTHER, GROUP)
    assert (split["kind"], split["by"], split["value"]) == ("split", "message", "no reply")
    for rule in (split, merge):
        post(shop, f"/v3/failure-rules/{rule['id']}/undo")
    assert sorted(listed(shop)) == [GROUP, OTHER]
    assert get(shop, "/v3/failure-rules")["rules"] == []


@pytest.mark.parametrize(
    ("path", "body", "status"),
    (
        ("/v3/failures/nothing/fixed", {}, 404),
        (f"/v3/failures/{GROUP}/fixed", {"version": ""}, 422),
        (f"/v3/failures/{GROUP}/fixed", {"in": "1.1"}, 422),
        (f"/v3/failures/{GROUP}/notes", {"text": "x" * 2001}, 422),
        (f"/v3/failures/{GROUP}/owner", {}, 422),
        (f"/v3/failures/{GROUP}/merge", {"groups": [GROUP]}, 422),
        (f"/v3/failures/{GROUP}/merge", {"groups": ["nothing"]}, 404),
        (f"/v3/failures/{GROUP}/split", {"by": "weather", "value": "rain"}, 422),
        ("/v3/failure-rules/7/undo", {}, 404),
    ),
)
def test_what_makes_no_sense_is_refused(shop: Shop, path: str, body: dict[str, Any], status: int) -> None:
    answer = shop.site.client.post(path, json=body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


# -- growing steps


def test_a_group_is_put_back_in_growing_steps(shop: Shop) -> None:
    assert "In growing steps" in shop.words(f"/confirm/retry-group?fingerprint={GROUP}")
    asked = f"/confirm/retry-group?fingerprint={GROUP}&growing=yes"
    assert "3 would be put back: 1, then 2." in shop.words(asked)
    shop.on.clock.advance(1)
    where = shop.begin("retry-group", fingerprint=GROUP, growing="yes")
    shop.wait_for(where, "step 1 of 4: 0 of 1 done")
    shop.on.clock.time = shop.on.store.now()
    assert shop.finish(10) == 1
    shop.wait_for(where, "step 2 of 4")
    assert shop.finish(10) == 2
    said = shop.wait_for(where, "3 put back in all")
    assert "Processed in steps: 3." in said
    assert "What fails again is back in its failure group." in said
    assert "Quick plan" not in said
    assert f'href="/failures/{GROUP}"' in shop.page(where)


def test_growing_steps_are_instead_of_a_number(shop: Shop) -> None:
    asked = f"/confirm/retry-group?fingerprint={GROUP}&growing=yes&canary=3"
    assert "3 would be put back: 1, then 2." in shop.words(asked), "the page of a group suggests a number"
    post(shop, f"/v3/failures/{GROUP}/retry", 422, growing=True, canary=3)
    post(shop, f"/v3/failures/{GROUP}/retry", 422, growing=True, share=0)


def test_growing_steps_over_http_are_an_operation_that_can_be_continued(shop: Shop) -> None:
    begun = post(shop, f"/v3/failures/{GROUP}/retry", 202, growing=True)
    while shop.on.rows("waiting") < 1:
        pass
    post(shop, f"{begun['operation']}/stop", 202)
    while (told := get(shop, begun["operation"]))["running"]:
        pass
    assert (told["status"], told["can_continue"]) == ("stopped", True)
    post(shop, f"{begun['operation']}/continue", 202)
    assert shop.finish(10) == 1
    while shop.on.rows("waiting") < 2:
        pass
    assert shop.finish(10) == 2
    while (told := get(shop, begun["operation"]))["running"]:
        pass
    assert (told["status"], told["runs"], told["done"]) == ("done", 2, 3)
