"""Claims of services whose dependency has limits, on every store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onward.model.dependency_limits import ClaimLimits, DependencyLimit, Rate
from onward.model.ledger import Delivery, Processed
from tests.support.store_pages import LEASE, LISTENING, READING, Stage, ids

MINUTELY = DependencyLimit("api", "60/min", Rate(60, 60.0))
QUICK = DependencyLimit("api", "600/s", Rate(600, 1.0))  # 12 at once
FOUR = DependencyLimit("api", concurrency=4)


@pytest.fixture
def limited(stage: Stage) -> Stage:
    stage.store.subscribe([replace(READING, needs=("api",))])
    return stage


def claim(stage: Stage, *limits: DependencyLimit, worker: str = "anna", limit: int = 100) -> list[Delivery]:
    return claim_with(stage, ClaimLimits(limits, 1, free_slots=100), worker=worker, limit=limit)


def claim_with(stage: Stage, limits: ClaimLimits, *, worker: str = "anna", limit: int = 100) -> list[Delivery]:
    return stage.claim(limit, worker=worker, needs=("api",), limits=limits)


def bring(stage: Stage, count: int) -> None:
    for number in range(count):
        stage.bring(f"p{number}")


# -- rates


def test_workers_share_the_tokens(limited: Stage) -> None:
    bring(limited, 10)
    assert len(claim(limited, MINUTELY)) == 1
    assert claim(limited, MINUTELY, worker="bert") == []
    assert limited.rows("claimed") == 1, "what waits for a token is not claimed"
    limited.clock.advance(1.02)
    assert len(claim(limited, MINUTELY, worker="bert")) == 1
    assert claim(limited, MINUTELY) == []


def test_a_claim_says_when_the_next_token_comes(limited: Stage) -> None:
    bring(limited, 3)
    request = ClaimLimits((MINUTELY,))
    claim_with(limited, request)
    assert request.next_claim == pytest.approx(limited.clock.now() + 61 / 60, abs=1e-4)
    assert request.next_claim is not None
    limited.clock.advance(request.next_claim - limited.clock.now())
    assert len(claim_with(limited, request)) == 1, "not a moment too early"


def test_a_claim_that_finds_all_that_is_due_waits_for_no_token(limited: Stage) -> None:
    bring(limited, 3)
    request = ClaimLimits((QUICK,))
    assert len(claim_with(limited, request)) == 3
    assert request.next_claim is None


def test_a_claim_that_finds_nothing_takes_no_token(limited: Stage) -> None:
    assert claim(limited, MINUTELY) == []
    bring(limited, 1)
    assert len(claim(limited, MINUTELY)) == 1


def test_what_is_released_has_lost_its_tokens(limited: Stage) -> None:
    bring(limited, 2)
    claim(limited, MINUTELY)
    limited.store.release("anna")
    assert claim(limited, MINUTELY) == []


def test_a_call_has_to_begin_soon(limited: Stage) -> None:
    bring(limited, 1)
    (delivery,) = claim(limited, MINUTELY)
    assert delivery.granted_at == limited.clock.now()
    assert delivery.begin_by == limited.clock.now() + 1.0


def test_the_slowest_of_several_rates_decides(limited: Stage) -> None:
    bring(limited, 20)
    other = DependencyLimit("other", "5/min", Rate(5, 60.0))
    request = ClaimLimits((QUICK, other))
    assert len(claim_with(limited, request)) == 1
    assert request.next_claim == pytest.approx(limited.clock.now() + 61 / 5, abs=1e-4)


# -- events about several documents


@pytest.mark.parametrize(
    ("documents_per_call", "calls"), ((1, [12]), (5, [6]), (64, [1]), (None, [1])), ids=("1", "5", "64", "event")
)
def test_each_call_takes_a_token(limited: Stage, documents_per_call: int | None, calls: list[int]) -> None:
    limited.bring(*(f"p{number}" for number in range(30)))
    deliveries = claim_with(limited, ClaimLimits((QUICK,), documents_per_call))
    assert [one.calls for one in deliveries] == calls
    bring(limited, 20)
    assert len(claim(limited, QUICK)) == 12 - calls[0], "so many tokens are left"


def test_a_delivery_makes_one_call_where_concurrency_is_limited(limited: Stage) -> None:
    limited.bring("a", "b", "c")
    (delivery,) = claim(limited, FOUR)
    assert (delivery.calls, delivery.begin_by) == (1, None)


# -- concurrency


def test_no_more_than_the_concurrency_is_claimed_by_all_workers(limited: Stage) -> None:
    bring(limited, 10)
    first = claim(limited, FOUR, limit=3)
    assert [len(claim(limited, FOUR, worker=name)) for name in ("bert", "carl")] == [1, 0]
    limited.settle(first[0], Processed(*ids(first[:1])))
    assert len(claim(limited, FOUR, worker="carl")) == 1
    assert limited.rows("claimed") == 4


def test_all_services_that_need_it_count(limited: Stage) -> None:
    bring(limited, 3)
    limited.store.subscribe([replace(LISTENING, needs=("other", "api"))])
    for what in "abc":
        limited.store.publish([limited.noticed(what)])
    assert len(claim(limited, FOUR)) == 3
    heard = limited.claim(service="listening", needs=("other", "api"), limits=ClaimLimits((FOUR,), free_slots=3))
    assert len(heard) == 1


def test_a_worker_that_is_gone_holds_its_place_until_its_lease_lapses(limited: Stage) -> None:
    bring(limited, 8)
    claim(limited, FOUR)
    limited.clock.advance(LEASE - 1)
    assert claim(limited, FOUR, worker="bert") == []
    limited.clock.advance(2)
    limited.store.reclaim()
    assert len(claim(limited, FOUR, worker="bert")) == 4


def test_claims_ahead_of_the_slots_leave_room_for_others(limited: Stage) -> None:
    bring(limited, 20)
    eight = replace(FOUR, concurrency=8)
    assert len(claim_with(limited, ClaimLimits((eight,), 1, free_slots=1))) == 4
    assert len(claim_with(limited, ClaimLimits((eight,), 1, free_slots=3), worker="bert")) == 3
    assert len(claim_with(limited, ClaimLimits((eight,), 1, free_slots=3), worker="carl")) == 1


# -- what is shown


def test_limits_are_shown_as_declared_last(limited: Stage) -> None:
    bring(limited, 2)
    assert limited.store.limit_states() == []
    claim(limited, MINUTELY)
    (state,) = limited.store.limit_states()
    assert (state.dependency, state.rate, state.concurrency, state.claimed) == ("api", "60/min", None, 1)
    assert state.holds_claims
    claim(limited, replace(MINUTELY, concurrency=3))
    (state,) = limited.store.limit_states()
    assert (state.rate, state.concurrency) == ("60/min", 3)
    limited.clock.advance(2)
    assert not limited.store.limit_states()[0].holds_claims


def test_without_limits_their_table_is_not_asked(limited: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    fetch = limited.store.db.fetch

    def recorded(name: str, *more: Any) -> Any:
        asked.append(name)
        return fetch(name, *more)

    monkeypatch.setattr(limited.store.db, "fetch", recorded)
    bring(limited, 1)
    assert len(limited.claim(needs=("api",))) == 1
    assert "lock_dependency_limits" not in asked
