"""Acknowledging: as few frames as possible, and never one that the broker takes for a mistake."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from onward.backends.rabbitmq.hearing import settle


def test_everything_up_to_a_number_is_acknowledged_at_once() -> None:
    unacked = dict.fromkeys([4, 5, 6, 9])
    assert settle(unacked, [5, 4, 9]) == (5, [9])
    assert list(unacked) == [6]
    assert settle(unacked, [4, 5, 9, 77]) == (0, [])
    assert settle(unacked, [6]) == (6, [])
    assert unacked == {}


@given(st.lists(st.sets(st.integers(1, 30)), max_size=10), st.integers(0, 30))
def test_the_broker_sees_each_number_exactly_once(groups: list[set[int]], delivered: int) -> None:
    unacked = dict.fromkeys(range(1, delivered + 1))
    outstanding = set(unacked)
    for group in groups:
        up_to, single = settle(unacked, group)
        expected = outstanding - group
        assert not up_to or up_to in outstanding
        outstanding -= {number for number in outstanding if number <= up_to}
        for number in single:
            outstanding.remove(number)  # a number it does not know closes the channel
        assert outstanding == set(unacked) == expected
