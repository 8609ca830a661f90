"""Of an error its type, message and place are kept, without secrets and without an end to memory."""

from __future__ import annotations

import json
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward import App, NotReady, Unavailable
from onward.model.failures import KEPT_OUTCOMES, Failure, kind_of, outcomes, remember
from onward.model.fingerprints import MAX_MESSAGE, fingerprint, place_of, shape_of
from onward.retry import Classified, Kind, Malformed, Permanent, classify


def raised(message: str) -> ValueError:
    try:
        raise ValueError(message)
    except ValueError as error:
        return error


@given(st.lists(st.integers(), max_size=60))
def test_a_history_keeps_the_first_the_latest_and_the_total(numbers: list[int]) -> None:
    history = None
    for number in numbers:
        history = remember(history, {"n": number})
    kept = [one["n"] for one in outcomes(history)]
    assert len(kept) == min(len(numbers), KEPT_OUTCOMES)
    assert kept == [*numbers[:1], *numbers[1:][-(KEPT_OUTCOMES - 1) :]]
    assert history is None or history["total"] == len(numbers)


def test_failures_that_differ_in_numbers_ids_paths_and_quotes_are_one_group() -> None:
    one, other = raised("row 7 of '/tmp/a' is 'x'"), raised("row 12345 of '/var/b' is 'y'")
    assert fingerprint("s", one) == fingerprint("s", other)


def test_failures_of_another_service_kind_or_message_are_another_group() -> None:
    groups = [
        fingerprint("s", raised("a")),
        fingerprint("t", raised("a")),
        fingerprint("s", raised("b")),
        fingerprint("s", KeyError("a")),
    ]
    assert len(set(groups)) == 4


def test_secrets_are_removed_and_messages_bounded() -> None:
    failure = Failure.of(raised("password=hunter2 " + "x" * 5000), at=0.0, service="s")
    assert "hunter2" not in failure.message + failure.traceback
    assert len(failure.message) <= MAX_MESSAGE


def test_an_error_whose_text_cannot_be_made_is_still_a_failure() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    failure = Failure.of(Broken(), at=0.0, service="s")
    assert (failure.error_type, failure.message) == ("Broken", "(its message cannot be shown: RuntimeError)")


def test_text_that_no_database_keeps_is_made_harmless() -> None:
    message = Failure.of(raised("half \ud800 and \x00"), at=0.0, service="s").message
    assert message == "half \\ud800 and \\x00"


def test_only_what_is_known_is_stored() -> None:
    stored = Failure(at=1.0, error_type="E", message="m", fingerprint="f").as_dict()
    assert stored == {"at": 1.0, "error_type": "E", "message": "m", "fingerprint": "f"}


@pytest.mark.parametrize(
    ("message", "shape"),
    (
        ("row 7 of 12", "row ~ of ~"),
        ("took 1.5 s, -3 left, 1e-9 off", "took ~ s, ~ left, ~ off"),
        ("no user 550e8400-e29b-41d4-a716-446655440000 here", "no user ~ here"),
        ("chunk 9f86d081884c7d65 is gone", "chunk ~ is gone"),
        ("commit e7a9c12 is bad", "commit ~ is bad"),
        ("object at 0x7f3aE1 died", "object at ~ died"),
        ("request req_011CSHoEeqs5C35K2UUqR7Fy failed", "request ~ failed"),
        ("page a1b2 and page p17", "page ~ and page p~"),
        ("GET https://api.example.org/v1/x?page=2&q=a failed", "GET ~ failed"),
        ("GET http://[::1]:8080/health failed", "GET ~ failed"),
        ("no mailbox ada.lovelace+list@example.org at all", "no mailbox ~ at all"),
        ("answer to <CAF=x.1@mail.example.org> lost", "answer to ~ lost"),
        ("read /var/lib/onward/a-b_c.mbox failed", "read ~ failed"),
        ("read ~/mail/2026/march.mbox failed", "read ~ failed"),
        ("read src/onward/app.py: bad", "read ~: bad"),
        ("read mail/march.mbox twice", "read ~ twice"),
        (r"read C:\Users\Ada\mail.mbox failed", "read ~ failed"),
        (r"read \\server\share\mail.mbox failed", "read ~ failed"),
        ("I/O error and/or timeout", "I/O error and/or timeout"),
        ("at 2026-03-09T14:30:00.123Z it ended", "at ~ it ended"),
        ("at 2026-03-09 14:30 it ended", "at ~ it ended"),
        ("on 2026-03-09 it ended", "on ~ it ended"),
        ("at Mon, 02 Mar 2026 09:00:00 +0000 it ended", "at ~ it ended"),
        ("host 127.0.0.1:5432 refused", "host ~ refused"),
        ("cannot read 'it' or \"that\" or `this`", "cannot read ~ or ~ or ~"),
        ("can't read 'a'; it's broken", "can't read ~; it's broken"),
        ("it can't be, and it won't be", "it can't be, and it won't be"),
        ("no field 'the dog's dinner' there", "no field ~ there"),
        (r"no field 'it\'s' there", "no field ~ there"),
        ("bad bytes b'\\x00abc' there", "bad bytes ~ there"),
        ("Unbekannt: „Straße“ und «rue»", "Unbekannt: ~ und ~"),
        ("not found: 'a', 'b', 'c'", "not found: ~"),
        ("not found: 'a'", "not found: ~"),
        ("several\n   lines  here", "several lines here"),
        ("bad: '" + "x y " * 1000, "bad: ~"),
        ("", ""),
    ),
)
def test_of_a_message_only_what_stays_the_same_counts(message: str, shape: str) -> None:
    assert shape_of(message[:MAX_MESSAGE]) == shape


@given(st.text(max_size=300))
def test_any_message_has_a_shape(message: str) -> None:
    assert len(shape_of(message)) <= len(message)


def test_documents_that_are_not_ready_are_one_group_whatever_they_are_called() -> None:
    one = NotReady("pages not found: home, about", ids=("home", "about"))
    other = NotReady("pages not found: imprint", ids=("imprint",))
    assert fingerprint("s", one) == fingerprint("s", other)


class ReadTimeout(Exception):
    """What HTTP clients call it."""


@pytest.mark.parametrize(
    ("error", "kind"),
    (
        (NotReady("a"), "not_ready"),
        (ValueError("a"), "transient"),
        (KeyError("a"), "permanent"),
        (Permanent("a"), "permanent"),
        (Malformed("a"), "malformed"),
        (Unavailable("model"), "unavailable"),
        (ConnectionRefusedError("a"), "unreached"),
        (
            ConnectionError("Failed to establish a new connection: [Errno -2] Name or service not known"),
            "unreached",
        ),
        (RuntimeError("net::ERR_CONNECTION_TIMED_OUT at https://a.example/"), "unreached"),
        (RuntimeError("CLUSTERDOWN Hash slot not served"), "unavailable"),
        (RuntimeError("Too many simultaneous connections."), "capacity"),
        (RuntimeError("feature OCR_PAGES has expired"), "refused"),
        (RuntimeError("Rate exceeded"), "rate_limited"),
        (TimeoutError("a"), "timeout"),
        (socket.timeout("a"), "timeout"),  # noqa: UP041 - an old name for it
        (ReadTimeout("a"), "timeout"),
    ),
)
def test_a_failure_is_of_one_kind(error: Exception, kind: str) -> None:
    assert Failure.of(error, at=0.0, service="s").kind == kind


def test_what_a_service_says_of_an_error_decides_its_kind() -> None:
    assert kind_of(TimeoutError(), Classified(Kind.PERMANENT)) == "permanent"
    assert kind_of(TimeoutError(), Classified(Kind.TRANSIENT, rate_limited=True)) == "rate_limited"
    assert kind_of(ValueError(), classify(ConnectionError())) == "unavailable"


def test_the_place_is_the_innermost_frame_of_user_code() -> None:
    def read() -> None:
        json.loads("{")

    with pytest.raises(json.JSONDecodeError) as found:
        read()
    place = place_of(found.value)
    assert place.startswith(("tests.model.test_failures:", "test_failures:"))
    assert place.endswith("read")


def test_the_machinery_is_not_user_code_but_the_pipeline_is() -> None:
    def declare() -> None:
        App().service("", on=int)(print)  # type: ignore[type-var]

    with pytest.raises(Exception) as found:  # noqa: PT011 - whatever it is, it comes from the machinery
        declare()
    assert found.value.__traceback__ is not None
    assert place_of(found.value).endswith("declare")

    from onward.pipeline.documents import in_order

    with pytest.raises(AttributeError) as inside:
        in_order(["no message"])  # type: ignore[list-item]
    assert place_of(inside.value).startswith("onward.pipeline.")


def test_an_error_that_was_never_raised_has_no_place() -> None:
    assert place_of(ValueError("a")) == ""


def test_what_no_database_keeps_is_cleaned_wherever_it_stands() -> None:
    def fail() -> None:
        raise ValueError("bad \udc80 \x00 text")

    with pytest.raises(ValueError, match="bad") as caught:
        fail()
    failure = Failure.of(caught.value, at=0.0, service="reading")
    for text in (failure.message, failure.traceback):
        assert r"bad \udc80 \x00 text" in text
        assert text.encode()


def test_a_huge_message_is_cut_and_its_secrets_are_still_found() -> None:
    failure = Failure.of(ValueError("password=hunter2hunter2 " + "x" * 5_000_000), at=0.0, service="reading")
    assert len(failure.message) <= 2000
    assert failure.message.startswith("password=*** x")


def raise_it(error: BaseException, cause: BaseException | None = None) -> BaseException:
    """Return an error as a handler raises it."""
    try:
        raise error from cause
    except BaseException as found:
        return found


CALL = {"inv-acme-spring", "acme corp", "incoming/acme/spring.pdf", "spring.pdf", "spring"}
OTHER_CALL = {"inv-oak-autumn", "oak & sons", "incoming/oak/autumn.pdf", "autumn.pdf", "autumn"}


@pytest.mark.parametrize(
    "message",
    (
        "cannot read {id}",
        "no customer {name} in the index",
        "unpacking {file} failed: bad header",
        "service 'reading', document invoices/{id} took longer than its time limit of 600 s",
        "template {stem} has no total",
    ),
)
def test_values_of_the_call_do_not_make_another_group(message: str) -> None:
    values = {"id": "inv-acme-spring", "name": "acme corp", "file": "spring.pdf", "stem": "spring"}
    others = {"id": "inv-oak-autumn", "name": "oak & sons", "file": "autumn.pdf", "stem": "autumn"}
    one, other = raise_it(ValueError(message.format(**values))), raise_it(ValueError(message.format(**others)))
    assert fingerprint("s", one, values=CALL) == fingerprint("s", other, values=OTHER_CALL)
    assert fingerprint("s", one) != fingerprint("s", other), "only because they are values of the call"


def test_a_key_that_is_a_value_of_the_call_does_not_make_another_group() -> None:
    one, other = raise_it(KeyError("inv-acme-spring")), raise_it(KeyError("inv-oak-autumn"))
    assert fingerprint("s", one, values=CALL) == fingerprint("s", other, values=OTHER_CALL)


class Answered(Exception):
    """An error of an HTTP library."""

    def __init__(self, status: int) -> None:
        super().__init__(f"{status} for url https://example.org/")
        self.status_code = status


def bare_asserts(which: int) -> None:
    assert which != 1
    assert which != 2


def failing_assert(which: int) -> BaseException:
    with pytest.raises(AssertionError) as found:
        bare_asserts(which)
    return AssertionError().with_traceback(found.value.__traceback__)  # without the message that pytest adds


@pytest.mark.parametrize(
    ("one", "other"),
    (
        (raise_it(Answered(403)), raise_it(Answered(503))),
        (raise_it(RuntimeError("HTTP 404 from the shop")), raise_it(RuntimeError("HTTP 500 from the shop"))),
        (raise_it(KeyError("vat")), raise_it(KeyError("total"))),
        (raise_it(AttributeError("no", name="a")), raise_it(AttributeError("no", name="b"))),
        (raise_it(Unavailable("db")), raise_it(Unavailable("api"))),
        (raise_it(OSError(28, "no")), raise_it(OSError(24, "no"))),
        (raise_it(RuntimeError("failed"), KeyError("a")), raise_it(RuntimeError("failed"), TimeoutError())),
        (failing_assert(1), failing_assert(2)),
        (ExceptionGroup("two", [KeyError("a")]), ExceptionGroup("two", [TimeoutError()])),
    ),
    ids=("status", "status in text", "key", "name", "dependency", "errno", "cause", "assert", "group"),
)
def test_codes_keys_names_and_causes_make_another_group(one: BaseException, other: BaseException) -> None:
    assert fingerprint("s", one) != fingerprint("s", other)


def test_an_exception_group_is_known_by_the_kinds_of_its_members() -> None:
    few, many = ([TimeoutError(f"call {n}") for n in range(number)] for number in (2, 5))
    assert fingerprint("s", ExceptionGroup("in a group", few)) == fingerprint(
        "s", ExceptionGroup("in a group", many)
    )
