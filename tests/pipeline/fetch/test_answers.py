"""What an answer means, or none: to try again, or to give up."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path

import pytest

from onward import Kind, classify
from onward.pipeline.fetch import FetchLimits
from onward.pipeline.fetch.fetch_errors import HTTPAnswerError, Refused
from tests.pipeline.fetch.public import fetch_url
from tests.support.web_server import Handler, Site, serve


@pytest.mark.parametrize("status", (400, 401, 403, 404, 410, 418, 451, 300, 304))
def test_a_refusal_is_final(site: Site, scratch: Path, status: int) -> None:
    with pytest.raises(Refused, match=rf"site\.example:\d+/x answered {status}") as caught:
        fetch_url(site.page("/x", b"", status), scratch)
    assert caught.value.status_code == status
    assert classify(caught.value).kind is Kind.PERMANENT


@pytest.mark.parametrize("status", (408, 425, 429, 500, 502, 503, 504))
def test_a_server_in_trouble_is_tried_again(site: Site, scratch: Path, status: int) -> None:
    with pytest.raises(HTTPAnswerError, match=str(status)) as caught:
        fetch_url(site.page("/", b"", status, Retry_After="120"), scratch)
    verdict = classify(caught.value)
    assert (verdict.kind, verdict.unavailable, verdict.retry_after) == (Kind.TRANSIENT, True, 120.0)
    assert verdict.rate_limited == (status == 429)


@pytest.mark.parametrize(
    "error", (Refused("no", 404), HTTPAnswerError("busy", 503, "5"), HTTPAnswerError("busy", 500))
)
def test_errors_survive_the_way_between_processes(error: Refused | HTTPAnswerError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.status_code, classify(copy)) == (str(error), error.status_code, classify(error))


def test_a_server_that_never_answers(site: Site, scratch: Path) -> None:
    def silent(handler: Handler) -> None:
        site.over.wait(60)

    site.answers["/"] = silent
    with pytest.raises(TimeoutError, match=r"site\.example.* did not answer within 0\.1 s") as caught:
        fetch_url(site.url("/"), scratch, FetchLimits(connect_seconds=0.1))
    assert classify(caught.value).kind is Kind.TRANSIENT


@pytest.mark.parametrize("part", ("head", "body"))
def test_a_server_that_drips_is_stopped_by_the_time_for_the_whole(site: Site, scratch: Path, part: str) -> None:
    def drip(handler: Handler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + (b"" if part == "head" else b"\r\n"))
        while not site.over.wait(0.01):
            handler.wfile.write(b"x")

    site.answers["/"] = drip
    with pytest.raises(TimeoutError, match=r"not answer completely within 0\.2 s: raise ONWARD_FETCH_SECONDS"):
        fetch_url(site.url("/"), scratch, FetchLimits(seconds=0.2))


def test_a_server_that_is_not_there(scratch: Path) -> None:
    with serve() as gone:
        url = gone.url("/")
    with pytest.raises(ConnectionError, match=r"site\.example") as caught:
        fetch_url(url, scratch)
    assert classify(caught.value).unavailable


def test_a_server_that_speaks_something_else(site: Site, scratch: Path) -> None:
    def greet(handler: Handler) -> None:
        handler.wfile.write(b"220 smtp ready\r\n")

    site.answers["/"] = greet
    with pytest.raises(ConnectionError, match="could not be fetched"):
        fetch_url(site.url("/"), scratch)


def test_what_a_server_writes_cannot_drive_a_terminal(site: Site, scratch: Path) -> None:
    def painted(handler: Handler) -> None:
        handler.wfile.write(b"HTTP/1.1 404 \x1b[31mGone\r\nContent-Length: 0\r\n\r\n")

    site.answers["/"] = painted
    with pytest.raises(Refused, match=r"answered 404 \[31mGone: there is nothing there"):
        fetch_url(site.url("/"), scratch)


def test_no_log_holds_a_password(site: Site, scratch: Path, caplog: pytest.LogCaptureFixture) -> None:
    url = site.page("/", b"Hello", Content_Type="text/plain").replace("://", "://ada:secret@")
    with caplog.at_level(logging.INFO):
        assert fetch_url(f"{url}?token=hidden", scratch).data
    assert "secret" not in caplog.text
    assert "hidden" not in caplog.text
