"""Unique events in the store: of each key, one is remembered until its time is over."""

from __future__ import annotations

import pytest

from onward.ledger import store
from onward.ledger.unique_events import KEEP_UNIQUE_SECONDS, UniqueEvent
from tests.support.store_pages import Stage


def remember(stage: Stage, *events: UniqueEvent, seconds: float = 60.0) -> dict[str, UniqueEvent]:
    now = stage.store.now()
    return stage.store.atomically(lambda: stage.store.remember_unique(events, at=now, until=now + seconds))


def test_the_first_of_a_key_is_remembered_until_its_time_is_over(stage: Stage) -> None:
    first, second, other = UniqueEvent("k", "1", "call"), UniqueEvent("k", "2"), UniqueEvent("l", "3")
    assert remember(stage, first) == {}
    stage.clock.advance(59.9)
    assert remember(stage, second, other) == {"k": first}, "and it does not last longer for being asked for"
    stage.clock.advance(0.1)
    assert remember(stage, second) == {}
    assert remember(stage, first) == {"k": second}


def test_nothing_is_remembered_of_what_is_rolled_back(stage: Stage) -> None:
    def remember_and_fail() -> None:
        with stage.store.transaction():
            stage.store.remember_unique([UniqueEvent("k", "1")], at=0.0, until=1e12)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        remember_and_fail()
    assert remember(stage, UniqueEvent("k", "2")) == {}


def test_a_key_may_have_any_text(stage: Stage) -> None:
    odd = UniqueEvent("ü 'x' \"y\" {z}", "é", "\\")
    assert remember(stage, odd) == {}
    assert remember(stage, UniqueEvent(odd.key, "2")) == {odd.key: odd}


def test_an_earlier_publication_that_comes_late_is_not_lost(stage: Stage) -> None:
    """A caller's transaction may commit long after it has published."""

    def remember_at(at: float, id: str, seconds: float = 60.0) -> str | None:
        event, until = UniqueEvent("k", id), stage.store.now() + at + seconds
        (store, now) = (stage.store, stage.store.now() + at)
        found = store.atomically(lambda: store.remember_unique([event], at=now, until=until))
        return found["k"].event_id if found else None

    assert remember_at(600.0, "second") is None
    assert remember_at(0.0, "first") is None, "its time was over when the second was published"
    assert remember_at(540.1, "late") == "second", "one of the two within a minute"
    assert remember_at(0.0, "long", 3_600.0) == "second"
    assert remember_at(659.9, "third") == "second", "the late one has not changed what is remembered"
    assert remember_at(660.0, "fourth") is None


def test_each_prune_forgets_a_bounded_number_until_none_is_left(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MAX_FORGOTTEN", 3)
    keys = [f"k{number}" for number in range(10)]
    remember(stage, *(UniqueEvent(key, "1") for key in keys))
    stage.clock.advance(KEEP_UNIQUE_SECONDS + 60.1)
    left = []
    for _ in range(5):
        stage.store.prune(keep_seconds=0, keep_count=0)
        stage.clock.advance(1.0)
        left.append(len(stage.store.db.read("unique_events", keys)))
    assert left == [7, 4, 1, 0, 0]
