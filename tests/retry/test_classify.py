"""Which errors may pass and which are final: the table, row by row."""

from __future__ import annotations

import errno
import json
import smtplib
import socket
import sqlite3
import ssl
import urllib.error
from email.message import Message
from types import SimpleNamespace
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.retry import (
    Classified,
    Kind,
    Malformed,
    NotReady,
    Permanent,
    Unavailable,
    classify,
)
from onward.retry.classify import parse_retry_after


class Model(pydantic.BaseModel):
    n: int


def raised(call: Any) -> Exception:
    """Return what the call raises."""
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("it raised nothing")


def look_alike(name: str, *bases: type[BaseException], **attributes: Any) -> BaseException:
    """Return an exception of a class with this name, as a library that is not installed would raise it."""
    error: BaseException = type(name, bases or (Exception,), {})("failed")
    vars(error).update(attributes)
    return error


def httpx_error(status: int, **headers: str) -> BaseException:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return look_alike("HTTPStatusError", response=SimpleNamespace(status_code=status, headers=named))


def urllib_error(status: int) -> urllib.error.HTTPError:
    # Without a body there is nothing to close.
    return urllib.error.HTTPError("http://example.org", status, "no", Message(), None)


class PsycopgOperationalError(Exception):
    """Stands between a driver's error and the class it is recognised by."""


PsycopgOperationalError.__name__ = "OperationalError"


@pytest.mark.parametrize(
    ("error", "kind"),
    (
        (NotReady("soon"), Kind.NOT_READY),
        (Malformed("not JSON"), Kind.MALFORMED),
        (Permanent("no such model"), Kind.PERMANENT),
        (raised(lambda: Model.model_validate({"n": "x"})), Kind.PERMANENT),
        (sqlite3.IntegrityError("UNIQUE"), Kind.PERMANENT),
        (look_alike("UniqueViolation", sqlite3.IntegrityError), Kind.PERMANENT),
        (look_alike("IntegrityConstraintViolationError"), Kind.PERMANENT),
        (look_alike("ValidationError"), Kind.PERMANENT),
        (raised(b"\xff".decode), Kind.PERMANENT),
        (TypeError(), Kind.PERMANENT),
        (AttributeError(), Kind.PERMANENT),
        (KeyError(), Kind.PERMANENT),
        (AssertionError(), Kind.PERMANENT),
        (NotImplementedError(), Kind.PERMANENT),
        (Unavailable("embedder"), Kind.TRANSIENT),
        (ConnectionResetError(), Kind.TRANSIENT),
        (ConnectionRefusedError(), Kind.TRANSIENT),
        (TimeoutError(), Kind.TRANSIENT),
        (urllib.error.URLError("no route"), Kind.TRANSIENT),
        (sqlite3.OperationalError("database is locked"), Kind.TRANSIENT),
        (look_alike("AdminShutdown", PsycopgOperationalError), Kind.TRANSIENT),
        (MemoryError(), Kind.TRANSIENT),
        (RecursionError(), Kind.TRANSIENT),
        (OSError(28, "No space left on device"), Kind.TRANSIENT),
        (ValueError("who knows"), Kind.TRANSIENT),
        (raised(lambda: json.loads("{")), Kind.TRANSIENT),
        (RuntimeError("who knows"), Kind.TRANSIENT),
    ),
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
def test_errors_by_type(error: BaseException, kind: Kind) -> None:
    assert classify(error).kind is kind


@pytest.mark.parametrize(
    ("status", "expected"),
    (
        (400, Classified(Kind.PERMANENT)),
        (404, Classified(Kind.PERMANENT)),
        (410, Classified(Kind.PERMANENT)),
        (422, Classified(Kind.PERMANENT)),
        (408, Classified(Kind.TRANSIENT, unavailable=True)),
        (425, Classified(Kind.TRANSIENT, unavailable=True)),
        (429, Classified(Kind.TRANSIENT, unavailable=True, rate_limited=True)),
        (500, Classified(Kind.TRANSIENT, unavailable=True)),
        (502, Classified(Kind.TRANSIENT, unavailable=True)),
        (503, Classified(Kind.TRANSIENT, unavailable=True)),
        (599, Classified(Kind.TRANSIENT, unavailable=True)),
        (302, Classified(Kind.TRANSIENT)),
    ),
)
@pytest.mark.parametrize(
    "library",
    (
        httpx_error,
        urllib_error,
        lambda status: look_alike("ClientResponseError", status=status),
        lambda status: look_alike("HTTPError", OSError, response=SimpleNamespace(status_code=status)),
        lambda status: look_alike("APIStatusError", status_code=status),
    ),
    ids=("httpx", "urllib", "aiohttp", "requests", "openai"),
)
def test_errors_by_http_status(library: Any, status: int, expected: Classified) -> None:
    assert classify(library(status)) == expected


@pytest.mark.parametrize("status", (401, 403))
def test_a_bare_refusal_opens_nothing_but_says_what_to_do(status: int) -> None:
    failure = classify(httpx_error(status))
    assert failure.kind is Kind.TRANSIENT
    assert not failure.opens, "it may be one page that is not for us"
    assert failure.remedy is not None
    assert str(status) in failure.remedy


@pytest.mark.parametrize(
    ("text", "limited"),
    (
        ("API rate limit exceeded for user 4711", True),  # GitHub
        ("Quota exceeded for quota metric 'Queries'", True),  # Google
        ("dailyLimitExceeded", True),
        ("you are not allowed to read this page", False),
    ),
)
def test_a_403_may_be_a_limit(text: str, limited: bool) -> None:
    error = type("HTTPError", (Exception,), {})(f"403 Forbidden: {text}")
    error.response = SimpleNamespace(status_code=403)
    failure = classify(error)
    assert failure.rate_limited is limited
    assert failure.refused is not limited


@pytest.mark.parametrize(
    ("text", "kind"),
    (
        (b"5.7.1 Client host [203.0.113.7] blocked, see https://mail.example/why", Kind.TRANSIENT),
        (b"5.7.1 listed by Spamhaus", Kind.TRANSIENT),
        (b"5.1.1 User unknown", Kind.PERMANENT),
    ),
)
def test_a_mail_server_that_refuses_the_sender_may_change_its_mind(text: bytes, kind: Kind) -> None:
    failure = classify(smtplib.SMTPSenderRefused(550, text, "us@example.org"))
    assert failure.kind is kind
    assert failure.refused is (kind is Kind.TRANSIENT)


def test_an_index_that_is_read_only_is_not_a_limit() -> None:
    error = type("ApiError", (Exception,), {})(
        "ApiError(429, 'cluster_block_exception', 'index [pages] blocked by …')"
    )
    error.status_code = 429
    failure = classify(error)
    assert failure.unavailable
    assert not failure.rate_limited


def test_a_wrong_clock_is_not_a_wrong_key() -> None:
    error = type("ClientError", (Exception,), {})("RequestTimeTooSkewed")
    error.response = {"Error": {"Code": "RequestTimeTooSkewed"}}
    failure = classify(error)
    assert failure.refused
    assert "clock" in str(failure.remedy)


@pytest.mark.parametrize(
    "error",
    (
        look_alike("HTTPError", response=None),  # requests, before an answer came
        look_alike("ConnectTimeout", type("HTTPError", (Exception,), {})),  # httpx
        look_alike("RpcError", code=404),
        look_alike("HTTPError", code="404"),
        look_alike("HTTPError", status=7),
        look_alike("HTTPError", status=True),
    ),
)
def test_what_only_resembles_a_status_is_none(error: BaseException) -> None:
    assert classify(error) == Classified(Kind.TRANSIENT)


@pytest.mark.parametrize(
    ("error", "unavailable"),
    (
        (Unavailable("embedder"), True),
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (socket.gaierror(-2, "Name or service not known"), True),
        (urllib.error.URLError("no route"), True),
        (sqlite3.OperationalError("database is locked"), True),
        (look_alike("ReadTimeout", type("TransportError", (Exception,), {})), True),  # httpx
        (look_alike("ReadTimeout", type("Timeout", (OSError,), {})), True),  # requests
        (look_alike("ClientOSError", type("ClientConnectionError", (OSError,), {})), True),  # aiohttp
        (ExceptionGroup("two", [ValueError(), TimeoutError()]), True),
        (ValueError("who knows"), False),
        (MemoryError(), False),
        (OSError(28, "No space left on device"), False),
        (Permanent("no"), False),
    ),
)
def test_some_failures_may_be_a_dependency_s_fault(error: BaseException, unavailable: bool) -> None:
    assert classify(error).unavailable is unavailable


@pytest.mark.parametrize(
    ("error", "unreached"),
    (
        (Unavailable("embedder"), True),
        (ConnectionRefusedError(), True),
        (socket.gaierror(-2, "Name or service not known"), True),
        (OSError(113, "No route to host"), True),
        (urllib.error.URLError(ConnectionRefusedError()), True),
        (look_alike("ConnectError", type("TransportError", (Exception,), {})), True),  # httpx
        (look_alike("ClientConnectorError", type("ClientConnectionError", (OSError,), {})), True),  # aiohttp
        (ExceptionGroup("two", [ConnectionRefusedError(), Unavailable("embedder")]), True),
        (ExceptionGroup("two", [ConnectionRefusedError(), TimeoutError()]), False),
        (ConnectionResetError(), False),
        (TimeoutError(), False),
        (urllib.error.URLError(TimeoutError()), False),
        (httpx_error(503), False),
        (httpx_error(403), False),
        (ValueError(), False),
    ),
)
def test_some_failures_show_that_the_dependency_was_not_reached(error: BaseException, unreached: bool) -> None:
    assert classify(error).unreached is unreached


def test_unavailable_passes_on_all_it_knows() -> None:
    error = Unavailable("embedder", retry_after=9.0, opens=True, remedy="set OPENAI_API_KEY")
    assert classify(error) == Classified(
        Kind.TRANSIENT,
        unavailable=True,
        unreached=True,
        dependency="embedder",
        retry_after=9.0,
        opens=True,
        remedy="set OPENAI_API_KEY",
    )


def test_a_cause_does_not_count() -> None:
    error = RuntimeError("the call failed")
    error.__cause__ = Permanent("bad key")
    assert classify(error).kind is Kind.TRANSIENT


@pytest.mark.parametrize(
    ("members", "kind"),
    (
        ([KeyError(), TypeError()], Kind.PERMANENT),
        ([NotReady(), NotReady()], Kind.NOT_READY),
        ([Malformed(), Malformed()], Kind.MALFORMED),
        ([Malformed(), KeyError()], Kind.PERMANENT),
        ([NotReady(), KeyError()], Kind.TRANSIENT),
        ([KeyError(), TimeoutError()], Kind.TRANSIENT),
        ([ExceptionGroup("inner", [KeyError()]), TypeError()], Kind.PERMANENT),
    ),
)
def test_a_group_is_final_only_if_all_of_it_is(members: list[Exception], kind: Kind) -> None:
    assert classify(ExceptionGroup("several", members)).kind is kind


def test_a_group_waits_for_its_most_patient_member() -> None:
    both = [Unavailable("embedder", retry_after=2.0), Unavailable("embedder", retry_after=8.0)]
    assert classify(ExceptionGroup("two", both)) == Classified(
        Kind.TRANSIENT, unavailable=True, unreached=True, dependency="embedder", retry_after=8.0
    )
    mixed = ExceptionGroup("two", [Unavailable("a", opens=True, remedy="pay"), Unavailable("b")])
    assert classify(mixed) == Classified(
        Kind.TRANSIENT, unavailable=True, unreached=True, opens=True, remedy="pay"
    )


def test_a_rate_limit_tells_how_long_to_wait() -> None:
    assert classify(httpx_error(429, Retry_After="30")).retry_after == 30.0
    assert classify(httpx_error(503, retry_after="1.5")).retry_after == 1.5
    aiohttp_error = look_alike("ClientResponseError", status=429, headers={"Retry-After": b"12"})
    assert classify(aiohttp_error).retry_after == 12.0


def test_a_date_needs_to_know_what_time_it_is() -> None:
    error = httpx_error(503, Retry_After="Wed, 21 Oct 2015 07:28:00 GMT")
    noticed_at = 1445412450.0  # 30 s before that date
    assert classify(error).retry_after is None
    assert classify(error, now=noticed_at).retry_after == 30.0
    assert classify(error, now=noticed_at + 3600).retry_after == 0.0


@pytest.mark.parametrize(
    "value", ("", "soon", "-5", "nan", "inf", "9" * 400, "Wed, 99 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 99999")
)
def test_a_retry_after_that_says_nothing_is_ignored(value: str) -> None:
    assert parse_retry_after(value, now=0.0) is None


@given(st.text(max_size=40), st.none() | st.floats(0, 1e10))
def test_no_header_of_a_server_can_break_us(value: str, now: float | None) -> None:
    seconds = parse_retry_after(value, now=now)
    assert seconds is None or seconds >= 0


@pytest.mark.parametrize(
    "error",
    (
        ssl.SSLCertVerificationError("certificate has expired"),
        ssl.SSLError("handshake failure"),
        OSError(errno.ENETUNREACH, "Network is unreachable"),
        OSError(errno.EHOSTUNREACH, "No route to host"),
        OSError(errno.ENETDOWN, "Network is down"),
    ),
    ids=str,
)
def test_a_network_that_leads_nowhere_is_an_outage(error: OSError) -> None:
    assert classify(error).unavailable


@pytest.mark.parametrize("number", (errno.ENOSPC, errno.EACCES, errno.ENOENT))
def test_a_disk_or_a_file_is_no_dependency(number: int) -> None:
    assert not classify(OSError(number, "no")).unavailable
