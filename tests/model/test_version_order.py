"""Which versions have a fix: by when they were first seen, else by their numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.model.version_order import has_fix, parse_version

NUMBERS = st.lists(st.integers(0, 999), min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("version", "fixed_in", "expected"),
    (
        ("2.4.1", "2.4.1", True),
        ("2.4.2", "2.4.1", True),
        ("2.10", "2.9", True),
        ("2.4.0", "2.4.1", False),
        ("v2.4.1", "2.4.1", True),
        ("2.4", "2.4.0", True),
        ("2.4.1-rc1", "2.4.1", False),
        ("2.4.1rc1", "2.4.1b2", True),
        ("2.4.1.post1", "2.4.1", True),
        ("2.4.1+linux", "2.4.1", True),
        ("onward 0.3.1", "0.3.0", True),
        ("onward 0.3.1", "shop 0.3.0", None),
        ("", "2.4.1", None),
        ("nightly", "2.4.1", None),
        ("3f2c1d9", "9d1e86c", None),
    ),
)
def test_without_a_time_the_numbers_decide(version: str, fixed_in: str, expected: bool | None) -> None:
    assert has_fix(version, fixed_in, {}, 0.0) is expected


def test_what_was_seen_later_is_later() -> None:
    seen = {"2.4.1": 10.0, "2.3.9": 20.0}
    assert has_fix("2.3.9", "2.4.1", seen, 15.0) is True
    assert has_fix("2.4.1", "2.3.9", seen, 15.0) is False


def test_what_was_seen_at_the_same_time_is_compared_by_its_numbers() -> None:
    assert has_fix("2.4.0", "2.4.1", {"2.4.1": 10.0, "2.4.0": 10.0}, 15.0) is False


def test_a_version_from_before_the_closing_has_no_fix_that_is_still_to_come() -> None:
    assert has_fix("blue", "green", {"blue": 10.0}, 15.0) is False
    assert has_fix("blue", "green", {"blue": 20.0}, 15.0) is None


@given(NUMBERS, NUMBERS)
def test_one_of_two_versions_has_the_fix_of_the_other(one: list[int], other: list[int]) -> None:
    first, second = (".".join(map(str, numbers)) for numbers in (one, other))
    assert has_fix(first, second, {}, 0.0) or has_fix(second, first, {}, 0.0)
    same = has_fix(first, second, {}, 0.0) and has_fix(second, first, {}, 0.0)
    assert same is (parse_version(first) == parse_version(second))


@given(st.text(max_size=300))
def test_any_text_can_be_a_version(text: str) -> None:
    has_fix(text, "1.0", {}, 0.0)
    assert not text or has_fix(text, text, {}, 0.0) is True
