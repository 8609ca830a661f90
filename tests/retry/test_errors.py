"""What handlers raise: messages a person understands, and safe passage between processes."""

from __future__ import annotations

import pickle

import pytest

from onward.retry import Malformed, NotReady, OnwardError, Permanent, Unavailable


def test_not_ready_names_the_documents_that_cannot_be_read() -> None:
    error = NotReady(ids=["m1", "m2"])
    assert error.ids == ("m1", "m2")
    assert str(error) == "not readable yet: m1, m2"


def test_a_single_id_is_not_taken_apart_into_letters() -> None:
    assert NotReady("wait", ids="m1").ids == ("m1",)


def test_a_message_of_ones_own_wins() -> None:
    assert str(NotReady("two are missing", ids=("a", "b"))) == "two are missing"
    assert str(NotReady()) == ""


def test_unavailable_says_which_dependency() -> None:
    assert str(Unavailable("embedder")) == "embedder is unavailable"
    assert str(Unavailable("embedder", "502 from the proxy")) == "embedder: 502 from the proxy"


def test_all_are_onward_errors_and_malformed_is_permanent() -> None:
    assert issubclass(Malformed, Permanent)
    assert all(issubclass(error, OnwardError) for error in (NotReady, Permanent, Unavailable))


@pytest.mark.parametrize(
    "error",
    (
        NotReady("soon", ids=("a", "b")),
        Unavailable("embedder", "no", retry_after=7.0, opens=True, remedy="set the key"),
        Malformed("not JSON"),
    ),
)
def test_an_error_crosses_to_another_process_unchanged(error: OnwardError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)
