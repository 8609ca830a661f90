"""What operators ask and do over HTTP: the same facts and changes as on the command line and in the console."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onward.model.documents import Status
from onward.ops.queries.status import Overdue
from tests.console.shop import Shop, open_shop
from tests.console.test_api_submitting import assert_problem
from tests.support.failed_pages import SOURCE, fail, finish, set_aside

GROUP, QUEUE = "f00d1234", "reading.failed"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """Three pages that failed alike, two that were set aside, and one that went well."""
    with open_shop(tmp_path) as found:
        fail(found.on, "page-a", "page-b", "page-c", message="it broke: password=tinder")
        set_aside(found.on, "page-d", "page-e")
        finish(found.on, "good")
        yield found


def get(shop: Shop, path: str) -> dict[str, Any]:
    answer = shop.site.client.get(path)
    assert answer.status_code == 200, answer.text
    assert "tinder" not in answer.text, "a secret in an error is hidden"
    told: dict[str, Any] = answer.json()
    return told


def post(shop: Shop, path: str, body: Any = None) -> dict[str, Any]:
    answer = shop.site.client.post(path, json=body)
    assert answer.status_code in (200, 202), answer.text
    told: dict[str, Any] = answer.json()
    assert (answer.status_code == 202) == (told["operation"] is not None)
    return told


def ended(shop: Shop, changed: dict[str, Any]) -> dict[str, Any]:
    """A change that takes a while, when it has ended."""
    while (told := get(shop, changed["operation"]))["running"]:
        pass
    return told


def status(shop: Shop, id: str) -> str:
    return str(shop.on.state(id).status)


# -- failures


def test_failure_groups_are_listed_with_their_verdicts(shop: Shop) -> None:
    told = get(shop, "/v3/failures")
    found = {one["fingerprint"]: one for one in told["failures"]}
    assert (found[GROUP]["affected"], found[GROUP]["service"]) == (3, "reading")
    assert found[GROUP]["verdict"]["kind"]
    assert told["total"] == 2
    first = get(shop, "/v3/failures?limit=1")
    assert first["next"] == 1
    second = get(shop, "/v3/failures?limit=1&after=1")
    assert second["next"] is None
    assert {one["failures"][0]["fingerprint"] for one in (first, second)} == set(found)
    assert get(shop, "/v3/failures?service=drawing")["failures"] == []


def test_a_group_is_looked_into(shop: Shop) -> None:
    told = get(shop, f"/v3/failures/{GROUP}")
    assert {one["id"] for one in told["documents_now"]} == {"page-a", "page-b", "page-c"}
    for answer in (
        shop.site.client.get("/v3/failures/nothing"),
        shop.site.client.post("/v3/failures/nothing/retry"),
        shop.site.client.post("/v3/failures/nothing/discard"),
    ):
        assert_problem(answer, 404, "'nothing'", "GET /v3/failures lists them")


def test_a_group_is_put_back_after_a_look(shop: Shop) -> None:
    plan = post(shop, f"/v3/failures/{GROUP}/retry", {"dry_run": True})
    assert (plan["touches"], plan["dry_run"]) == (3, True)
    assert status(shop, "page-a") == Status.FAILED, "nothing was done"
    told = ended(shop, post(shop, f"/v3/failures/{GROUP}/retry"))
    assert "3 dead letters put back" in told["text"]
    assert status(shop, "page-a") == Status.PENDING
    assert shop.actions() == [("api", "failures retry", 3)]


def test_a_canary_goes_first_and_can_be_stopped(shop: Shop) -> None:
    begun = post(shop, f"/v3/failures/{GROUP}/retry", {"canary": 1, "rate": 5})
    while shop.on.state("page-a").status != Status.PENDING:
        pass
    answer = shop.site.client.post(f"{begun['operation']}/stop")
    assert answer.status_code == 202
    assert "Stopped by an operator" in ended(shop, begun)["problem"]
    assert status(shop, "page-c") == Status.FAILED


@pytest.mark.parametrize(
    ("body", "words"),
    (
        ({"canary": 0}, ("canary", "'0'", "greater")),
        ({"rate": -1}, ("rate", "'-1'", "greater")),
        ({"rate": "fast"}, ("rate", "'fast'", "number")),
        ({"canry": 1}, ("canry is not known",)),
    ),
)
def test_a_pace_that_makes_no_sense_is_refused(shop: Shop, body: Any, words: tuple[str, ...]) -> None:
    assert_problem(shop.site.client.post(f"/v3/failures/{GROUP}/retry", json=body), 422, *words)


def test_a_group_is_given_up(shop: Shop) -> None:
    plan = post(shop, f"/v3/failures/{GROUP}/discard", {"dry_run": True})
    assert (plan["final"], status(shop, "page-a")) == (True, Status.FAILED)
    assert post(shop, f"/v3/failures/{GROUP}/discard")["touches"] == plan["touches"]
    assert status(shop, "page-a") == Status.DISCARDED


# -- failed queues


def test_failed_queues_are_read_page_by_page(shop: Shop) -> None:
    counts = {one["queue"]: one["dead_letters"] for one in get(shop, "/v3/failed-queues")["queues"]}
    assert counts[QUEUE] == 3
    rows: list[int] = []
    after: int | None = 0
    while after is not None:
        told = get(shop, f"/v3/failed-queues/{QUEUE}?limit=2&after={after}")
        rows += [one["row"] for one in told["dead_letters"]]
        after = told["next"]
    assert len(rows) == len(set(rows)) == 3
    assert rows == sorted(rows)
    whole = get(shop, f"/v3/failed-queues/{QUEUE}?whole=true&limit=1")["dead_letters"][0]
    assert whole["original_event"]["data"]
    assert get(shop, f"/v3/failed-queues/{QUEUE}?error_type=KeyError")["dead_letters"] == []
    assert_problem(shop.site.client.get("/v3/failed-queues/nothing"), 404, "'nothing'", QUEUE)


def test_letters_are_put_back(shop: Shop) -> None:
    path = f"/v3/failed-queues/{QUEUE}/requeue"
    assert post(shop, path, {"dry_run": True, "group": GROUP})["touches"] == 3
    told = ended(shop, post(shop, path, {"error_type": "ValueError"}))
    assert "3 dead letters put back" in told["text"]
    assert post(shop, path)["touches"] == 0, "nothing is left"
    assert_problem(shop.site.client.post("/v3/failed-queues/nothing/requeue"), 404, "'nothing'")


# -- failed batches


def test_failed_batches_are_looked_into_retried_and_given_up(shop: Shop) -> None:
    (batch,) = get(shop, "/v3/batches")["batches"]
    assert (batch["project_path"], set(batch["items"])) == (SOURCE, {"page-d", "page-e"})
    path = f"/v3/batches/{batch['id']}"
    assert set(get(shop, path)["item_errors"]) == {"page-d", "page-e"}
    assert post(shop, f"{path}/retry", {"dry_run": True})["touches"] == 2
    assert get(shop, path)["retry_after"] == batch["retry_after"]
    post(shop, f"{path}/retry")
    assert shop.on.state(batch["items"][0]).retry_at is not None
    assert get(shop, path)["retry_after"] == batch["retry_after"], "its own schedule goes on"
    assert post(shop, f"{path}/discard")["final"]
    assert status(shop, "page-d") == Status.DISCARDED
    for answer in (
        shop.site.client.get(path),
        shop.site.client.post(f"{path}/retry"),
        shop.site.client.post(f"{path}/discard"),
    ):
        assert_problem(answer, 404, batch["id"], "GET /v3/batches")


# -- breakers


def test_a_dependency_is_taken_out_of_service_and_brought_back(shop: Shop) -> None:
    assert_problem(shop.site.client.post("/v3/breakers/printer/open"), 422, "body is missing")
    assert_problem(shop.site.client.post("/v3/breakers/printer/open", json={"reason": ""}), 422, "reason", "''")
    post(shop, "/v3/breakers/printer/open", {"reason": "new toner"})
    (printer,) = get(shop, "/v3/breakers")["breakers"]
    assert (printer["state"], printer["reason"], printer["by_hand"]) == ("open", "new toner", True)
    post(shop, "/v3/breakers/printer/close")
    (printer,) = get(shop, "/v3/breakers")["breakers"]
    assert (printer["by_hand"], printer["openings"][0]["reason"]) == (False, "new toner")
    assert_problem(shop.site.client.post("/v3/breakers/oven/close"), 404, "'oven'", "printer")
    assert [one[1] for one in shop.actions()] == ["breakers open", "breakers close"]


# -- everything


def test_how_everything_stands_is_told(shop: Shop) -> None:
    told = get(shop, "/v3/status")
    assert "3 documents failed" in [one["text"] for one in told["needs"]]
    assert get(shop, "/v3/workers")["start"] == "onward worker --app MODULE:APP"
    services = {one["service"]: one for one in get(shop, "/v3/services")["services"]}
    assert (services["reading"]["event"], services["reading"]["finishes"]) == ("PagesFound", "pages")


def test_what_is_overdue_is_told_always_and_counted_once_in_a_while(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[Overdue] = []

    def count(*about: object) -> Overdue:
        counted.append(Overdue(len(counted) + 1))
        return counted[-1]

    monkeypatch.setattr("onward.console.pages.overview.overdue", count)
    shop.on.store.register_worker("anna", {"services": ["reading"]})
    told = [get(shop, "/v3/status")["overdue"]["documents"] for _ in range(2)]
    assert told == [1, 1], "with a worker alive it is no need, but a fact"
    finish(shop.on, "better")
    assert get(shop, "/v3/status")["overdue"]["documents"] == 2, "something has become of documents"


def test_an_operation_that_is_not_known_is_said(shop: Shop) -> None:
    assert shop.site.client.get("/v3/operations?status=").status_code == 200, "an empty value is none"
    assert_problem(shop.site.client.get("/v3/operations?status=lost"), 422, "'lost'")
    assert_problem(shop.site.client.get("/v3/operations/nothing"), 404, "'nothing'")
    assert_problem(shop.site.client.post("/v3/operations/nothing/stop"), 404, "'nothing'")


def test_the_pipelines_calls_do_no_harm_to_another_app(shop: Shop) -> None:
    assert get(shop, "/v3/documents")["documents"] == []
    assert get(shop, "/v3/tasks")["tasks"] == []
    assert {one["id"] for one in get(shop, "/v3/documents?collection=pages&status=done")["documents"]} == {"good"}
    assert get(shop, "/v3/documents/pages/page-a")["status"] == "failed"
    assert_problem(shop.site.client.delete("/v3/documents/pages/page-a"), 409, "pages/page-a")


def test_failed_batches_are_listed_page_by_page(shop: Shop) -> None:
    set_aside(shop.on, "page-f", source="/lists/other.mbox")
    pages = [get(shop, f"/v3/batches?limit=1&after={after}") for after in (0, 1)]
    assert [(len(one["batches"]), one["total"], one["next"]) for one in pages] == [(1, 2, 1), (1, 2, None)]
    assert [one["batches"][0]["project_path"] for one in pages] == [SOURCE, "/lists/other.mbox"]
