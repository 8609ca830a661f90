"""Errors that other programs report: counted once, in their groups, and the newest kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onward import App
from onward.console.api.error_reports import Errors
from onward.retry import Exponential
from onward.runtime import error_reporter
from onward.settings import Settings
from tests.console.test_api_submitting import assert_problem
from tests.support.console_client import Site, serving

REPORT = {"id": "r-1", "error_type": "KeyError", "message": "no subject", "service": "billing"}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The apps that send reports have a store of their own in the current folder."""
    monkeypatch.chdir(tmp_path)


def report(site: Site, *reports: dict[str, Any]) -> tuple[int, int]:
    answer = site.client.post("/api/errors", json={"errors": reports})
    assert answer.status_code == 202, answer.text
    told = answer.json()
    return told["taken"], told["known"]


def get(site: Site, path: str) -> dict[str, Any]:
    told: dict[str, Any] = site.client.get(path).json()
    return told


def break_something(app: App, times: int = 1) -> None:
    for number in range(times):
        try:
            raise LookupError(f"no account {number} at postgres://app:hunter2@db/x")
        except LookupError as error:
            app.report_error(error, service="billing")


def test_the_http_reporter_is_understood(site: Site) -> None:
    """The real one, from its own thread, over a real connection."""
    sender = App(settings=Settings(error_reporter_type="http", error_reporter_url=site.url), version="shop 2")
    break_something(sender, times=30)
    sender.stop_reporting()
    (group,) = site.app.store.failure_groups()
    assert (group.service, group.error_type, group.failures) == ("billing", "LookupError", 30)
    assert group.place.endswith("test_api_errors:break_something")
    assert group.versions == {"shop 2": 30}
    assert "hunter2" not in group.message + group.traceback
    kept = get(site, "/api/errors?limit=3")
    assert (kept["total"], len(kept["errors"])) == (30, 3)
    assert kept["errors"][0]["fingerprint"] == group.fingerprint
    assert get(site, "/v3/failures?all=true")["failures"][0]["fingerprint"] == group.fingerprint


def test_the_http_reporter_shows_its_token(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_reporter, "BACKOFF", Exponential(0.001, cap=0.001))
    with serving(site.app, token="s3cret-token") as guarded:
        for url, groups in (
            (guarded.url, 0),
            (guarded.url.replace("://", "://:s3cret-token@"), 1),
        ):
            sender = App(settings=Settings(error_reporter_type="http", error_reporter_url=url))
            break_something(sender)
            sender.stop_reporting()
            assert len(site.app.store.failure_groups()) == groups


def test_one_that_is_sent_twice_is_counted_once(site: Site) -> None:
    assert report(site, REPORT, REPORT, REPORT | {"id": "r-2"}) == (2, 1)
    assert report(site, REPORT) == (0, 1)
    (group,) = site.app.store.failure_groups()
    assert group.failures == 2
    assert report(site, {"error_type": "A"}, {"error_type": "A"}) == (2, 0), "without an id each one counts"


def test_an_error_without_a_fingerprint_joins_those_that_are_alike(site: Site) -> None:
    report(site, REPORT | {"message": "no account 17"}, REPORT | {"id": "r-2", "message": "no account 4711"})
    report(site, REPORT | {"id": "r-3", "service": "mail"})
    assert sorted(one.failures for one in site.app.store.failure_groups()) == [1, 2]


def test_secrets_and_odd_texts_are_cleaned(site: Site) -> None:
    odd = REPORT | {"message": "password=tinder \0 here", "traceback": "api_key=tinder", "at": "yesterday"}
    report(site, odd)
    (kept,) = get(site, "/api/errors")["errors"]
    assert "tinder" not in str(kept) + str(site.app.store.failure_groups())
    assert kept["at"].startswith("20")


def test_what_is_kept_is_bounded_and_counted(site: Site) -> None:
    errors = Errors(most=3)
    site_errors = [f"r-{n}" for n in range(5)]
    from onward.console.api.schemas import ErrorReport

    for id in site_errors:
        errors.take(site.app, [ErrorReport(id=id, error_type="A")])
    assert [one.id for one in errors.newest()] == ["r-4", "r-3", "r-2"]
    assert errors.received == 5


def test_stats_tell_what_was_reported(site: Site) -> None:
    report(
        site, REPORT, REPORT | {"id": "r-2", "error_type": "ValueError"}, REPORT | {"id": "r-3", "service": "mail"}
    )
    told = get(site, "/api/stats")
    assert (told["received"], told["kept"], told["most"]) == (3, 3, 10_000)
    assert told["services"] == {"billing": 2, "mail": 1}
    assert told["error_types"] == {"KeyError": 2, "ValueError": 1}
    assert len(told["groups"]) == 3
    assert [one["id"] for one in get(site, "/api/errors?service=mail")["errors"]] == ["r-3"]


# -- one error, or many


@pytest.mark.parametrize(
    "body",
    (
        REPORT,
        [REPORT, REPORT | {"id": "r-2"}],
        {"errors": [REPORT, REPORT | {"id": "r-2"}]},
    ),
)
def test_one_error_or_many_are_taken(site: Site, body: Any) -> None:
    answer = site.client.post("/api/errors", json=body)
    assert answer.status_code == 202
    taken = 1 if body is REPORT else 2
    assert answer.json() == {"taken": taken, "known": 0, "refused": []}
    (group,) = site.app.store.failure_groups()
    assert group.failures == taken


def test_an_error_without_a_message_is_listed_by_its_type(site: Site) -> None:
    site.client.post("/api/errors", json={"error_type": "SensorLost"})
    assert ">SensorLost</a>" in site.client.get("/failures?all=yes").text


def test_what_is_no_json_is_refused_in_words(site: Site) -> None:
    answer = site.client.post("/api/errors", content=b"oops", headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert answer.json()["detail"] == "body is no JSON: check quotes, commas and brackets"


def test_a_bad_error_does_not_stop_the_others(site: Site) -> None:
    bad = [{"id": "r-9", "message": "no type"}, "an error", REPORT | {"fingerprint": "<b>"}]
    answer = site.client.post("/api/errors", json=[bad[0], REPORT, *bad[1:]])
    assert answer.status_code == 202
    told = answer.json()
    assert (told["taken"], told["known"]) == (1, 0)
    assert [(one["index"], one["id"]) for one in told["refused"]] == [(0, "r-9"), (2, ""), (3, "r-1")]
    assert [one["problem"].partition(" is ")[0] for one in told["refused"]] == ["error_type", "it", "fingerprint"]
    assert [one["id"] for one in get(site, "/api/errors")["errors"]] == ["r-1"]


def test_the_context_of_an_error_is_kept_without_secrets(site: Site) -> None:
    """The context that the design of the error reporter gives as its example: the event and the retries."""
    event = {"event_type": "ChunksPrepared", "data": {"chunk_ids": ["chunk-123", "chunk-456"], "token": "tinder"}}
    assert report(site, REPORT | {"context": {"event": event, "retry_count": 3}}) == (1, 0)
    context = {
        "event": event | {"data": {"chunk_ids": ["chunk-123", "chunk-456"], "token": "***"}},
        "retry_count": 3,
    }
    (kept,) = get(site, "/api/errors")["errors"]
    assert kept["context"] == context
    (group,) = site.app.store.failure_groups()
    assert group.context == context
    assert get(site, f"/v3/failures/{group.fingerprint}")["context"] == context
    page = site.client.get(f"/failures/{group.fingerprint}").text
    assert "chunk-456" in page
    assert "tinder" not in page


def test_the_context_of_another_onward_arrives(site: Site) -> None:
    sender = App(settings=Settings(error_reporter_type="http", error_reporter_url=site.url))
    sender.report_error(TimeoutError("no answer"), context={"retry_count": 3}, service="embedding")
    sender.stop_reporting()
    (group,) = site.app.store.failure_groups()
    assert (group.service, group.context) == ("embedding", {"retry_count": 3})


def test_bad_reports_are_told_what_is_wrong(site: Site) -> None:
    def send(body: Any) -> Any:
        return site.client.post("/api/errors", json=body)

    assert_problem(send({}), 422, "errors.0: error_type is missing")
    assert_problem(send("an error"), 422)
    assert_problem(send([]), 422, "errors", "at least 1")
    assert_problem(send({"errors": []}), 422, "errors", "at least 1")
    assert_problem(send({"errors": [{"message": "x"}]}), 422, "errors.0: error_type is missing")
    assert_problem(send({"errors": [REPORT | {"fingerprint": "<b>"}]}), 422, "fingerprint", "'<b>'")
    assert_problem(send({"errors": [REPORT] * 1_001}), 422, "errors", "at most 1000")
    assert site.app.store.failure_groups() == []


# -- the address of an error tracking service


def test_ui_leads_to_the_page_with_reported_errors(site: Site) -> None:
    report(site, REPORT)
    answer = site.client.get("/ui", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/failures?all=yes")
    page = site.client.get("/ui", follow_redirects=True).text
    assert "KeyError: no subject" in page


def test_ui_needs_a_login_like_every_page(site: Site) -> None:
    with serving(site.app, token="s3cret-token") as guarded:
        answer = guarded.client.get("/ui", headers={"accept": "text/html"}, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=%2Fui")
        assert guarded.client.get("/ui").status_code == 401
