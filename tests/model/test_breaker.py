"""A breaker is a frozen value; what it becomes is decided by pure functions."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from onward.model.breaker import (
    DOCUMENTS_TO_OPEN,
    EPISODE_END_SECONDS,
    FIRST_PROBE_SECONDS,
    NO_LIMIT,
    SLOWEST_PROBE_SECONDS,
    STRIKES_TO_OPEN,
    Breaker,
    BreakerRules,
    Strike,
    allowance,
    closed,
    current,
    next_change,
    opened,
    paused,
    probing,
    struck,
    succeeded,
)

NEW = Breaker("model")
strikes = st.builds(Strike, st.integers(1, 9), st.lists(st.sampled_from("abcdef"), max_size=3).map(tuple))


def after(*given: Strike) -> Breaker:
    breaker = NEW
    for strike in given:
        breaker = struck(breaker, strike, 0.0, "down")
    return breaker


@given(st.lists(strikes, max_size=12))
def test_it_opens_only_after_enough_failures_on_enough_documents(given: list[Strike]) -> None:
    breaker = after(*given)
    if breaker.open:
        assert len(given) >= STRIKES_TO_OPEN
        assert len({id for one in given for id in one.ids or (one.row,)}) >= DOCUMENTS_TO_OPEN


@given(st.lists(st.sampled_from(["ab", "bc", "abc"]), max_size=20))
def test_failures_that_overlap_never_open_it(batches: list[str]) -> None:
    assert not after(*[Strike(1, tuple(ids)) for ids in batches]).open


def test_failures_without_documents_count_by_row() -> None:
    assert after(*[Strike(row, ()) for row in (1, 2, 3, 4, 5)]).open
    assert not after(*[Strike(1, ()) for _ in range(9)]).open


@given(st.lists(strikes, max_size=8), st.booleans(), st.none() | st.floats(0, 1e9))
def test_it_survives_being_stored(given: list[Strike], by_hand: bool, until: float | None) -> None:
    breaker = after(*given)
    if by_hand:
        breaker = opened(breaker, 1.5, "maintenance", "wait", by_hand=True)
    if until is not None:
        breaker = paused(breaker, until)
    assert Breaker.from_dict(json.loads(json.dumps(breaker.as_dict()))) == breaker


def test_open_it_allows_nothing_but_its_due_probe() -> None:
    breaker = opened(NEW, 100.0, "down")
    assert [allowance(breaker, now, 0) for now in (100.0, 109.0, 110.0)] == [0, 0, 1]
    assert allowance(probing(breaker, 7, 110.0), 110.0, 0) == 0


def test_probes_come_ever_more_slowly() -> None:
    breaker, now, waits = opened(NEW, 0.0, "down"), 0.0, []
    for _ in range(8):
        assert breaker.next_probe is not None
        waits.append(breaker.next_probe - now)
        now = breaker.next_probe
        breaker = probing(breaker, 1, now)
    assert waits[0] == FIRST_PROBE_SECONDS
    assert waits == sorted(waits)
    assert waits[-1] == SLOWEST_PROBE_SECONDS


def test_only_its_probe_closes_it() -> None:
    breaker = probing(opened(NEW, 0.0, "down"), 7, 10.0)
    assert succeeded(breaker, 8, 11.0).open
    assert not succeeded(breaker, 7, 11.0).open


def test_the_limit_grows_until_it_is_lifted() -> None:
    breaker = closed(opened(NEW, 0.0, "down"), 1.0)
    seen = [breaker.limit]
    while breaker.limit is not None:
        assert allowance(breaker, 0.0, running=1) == breaker.limit - 1
        breaker = succeeded(breaker, 1, 0.0)
        seen.append(breaker.limit)
    assert seen == [*range(1, NO_LIMIT), None]
    assert current(breaker, EPISODE_END_SECONDS + 1.0).quiet


def test_the_numbers_of_its_rules_can_be_set() -> None:
    rules = BreakerRules(failures=2, documents=2, probe_seconds=4.0, probe_max_seconds=6.0)
    breaker = struck(
        struck(NEW, Strike(1, ("a",)), 0.0, "down", rules=rules), Strike(2, ("b",)), 0.0, "down", rules=rules
    )
    assert (breaker.open, breaker.next_probe) == (True, 4.0)
    assert not struck(struck(NEW, Strike(1, ("a",)), 0.0, "down"), Strike(2, ("b",)), 0.0, "down").open
    delays = []
    for _ in range(3):
        breaker = probing(breaker, 1, 0.0, rules)
        delays.append(breaker.next_probe)
    assert delays == [6.0, 6.0, 6.0]


def test_a_slow_restart_doubles_what_may_run_in_a_given_time() -> None:
    rules, began = BreakerRules(restart_seconds=400.0), 1_000.0
    breaker = closed(opened(NEW, 0.0, "down"), began)
    limits = []
    for minutes in range(0, 61, 5):
        for _ in range(100):  # however many succeed
            breaker = succeeded(current(breaker, began + minutes * 60), 1, began + minutes * 60, rules)
        limits.append(breaker.limit)
    assert limits == [1, 1, 2, 4, 8, 13, 22, 38, 64, 107, 181, None, None]
    assert current(breaker, began + EPISODE_END_SECONDS + 4_000.0).quiet


def test_opening_again_changes_nothing_unless_by_hand() -> None:
    breaker = probing(opened(NEW, 0.0, "down"), 7, 10.0)
    assert opened(breaker, 20.0, "still down") == breaker
    by_hand = opened(breaker, 20.0, "maintenance", by_hand=True)
    assert (by_hand.by_hand, by_hand.next_probe, by_hand.opened_at) == (True, None, 0.0)
    assert not succeeded(by_hand, 7, 30.0).quiet, "its old probe cannot close it"


def test_time_alone_brings_the_next_probe_or_the_end_of_a_pause() -> None:
    assert next_change(NEW, 0.0) is None
    assert next_change(opened(NEW, 0.0, "down"), 5.0) == FIRST_PROBE_SECONDS
    assert next_change(opened(NEW, 0.0, "down", by_hand=True), 5.0) is None
    waiting = paused(NEW, 60.0)
    assert (next_change(waiting, 59.0), next_change(waiting, 60.0)) == (60.0, None)
    assert (allowance(waiting, 59.0, 0), allowance(waiting, 60.0, 0)) == (0, None)
    assert succeeded(waiting, 1, 60.0) == replace(waiting, paused_until=None)
