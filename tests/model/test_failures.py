"""Of an error its type, message and place are kept, without secrets and without an end to memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from onward.model.failures import KEPT_OUTCOMES, MAX_MESSAGE, Failure, fingerprint, outcomes, remember


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
