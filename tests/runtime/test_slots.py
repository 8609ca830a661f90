"""How much a worker claims: what its slots do in a short time, whatever an event is about."""

from __future__ import annotations

from typing import Any

import pytest

from onward import Work
from onward.runtime.service import Service
from onward.runtime.slots import MAX_AHEAD, InlineSlots, RunningSlots
from tests.support.page_app import Page, PagesFound

SLOTS = 2


def read(page: Page, work: Work) -> None:
    raise AssertionError("nothing is run here")


@pytest.fixture
def slots() -> InlineSlots:
    nothing: Any = None
    service = Service("reading", read, on=PagesFound, finishes=Page)
    slots = InlineSlots(service, SLOTS, RunningSlots(), nothing, lambda: None)
    slots._seconds_per_call = 0.001  # as if calls were that quick
    return slots


def test_as_much_is_claimed_as_the_slots_do_in_a_quarter_of_a_second(slots: InlineSlots) -> None:
    assert slots.rows_to_claim(0.0) == SLOTS + 250 * SLOTS


def test_a_backlog_is_left_to_others(slots: InlineSlots) -> None:
    slots._seconds_per_call = 1e-6
    assert slots.rows_to_claim(0.0) == SLOTS + MAX_AHEAD


def test_events_about_many_documents_are_claimed_in_smaller_numbers(slots: InlineSlots) -> None:
    for _ in range(10):
        slots.note_claim(rows=4, calls=200)
    assert slots.rows_to_claim(0.0) == pytest.approx((SLOTS + 250 * SLOTS) / 50, abs=2)
    for _ in range(10):
        slots.note_claim(rows=4, calls=4)
    assert slots.rows_to_claim(0.0) == pytest.approx(SLOTS + 250 * SLOTS, abs=40)
    slots.note_claim(rows=0, calls=0)  # an empty claim says nothing
    slots.note_claim(rows=1, calls=0)  # nor does one of which nothing is to be run
    assert slots.rows_to_claim(0.0) > 250
