"""One delivery at a time for each key: who is claimed, who waits for its key, and who gets it next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onward.ledger import claim
from onward.ledger.store import Store
from onward.model.dependency_limits import ClaimLimits, DependencyLimit, Rate
from onward.model.ledger import (
    PARKED_DUE,
    Charge,
    CommitStatus,
    DeadLettered,
    Delivery,
    Processed,
    RetryLater,
    Settlement,
)
from onward.retry import Reason
from tests.support.store_pages import LISTENING, READING, Clock, Noticed, Page, Stage, failure, ids, page

ONE = replace(READING, per_key="one")
ORDERED = replace(READING, per_key="ordered")


def key_of(delivery: Delivery) -> str | None:
    """The key of a page is its text."""
    text = Page.from_json(delivery.inputs[0].body or "").text
    if text == "wrong":
        raise ValueError("no key")
    return text or None


def key_of_event(delivery: Delivery) -> str | None:
    return Noticed.model_validate_json(delivery.data).what.partition(":")[0]


@pytest.fixture(params=["one", "ordered"])
def per_key(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class KeyedStage(Stage):
    """Pages and notices that run one at a time for each key."""

    def __init__(self, store: Store, clock: Clock, per_key: str) -> None:
        super().__init__(store, clock, subscribe=False)
        self.ordered = per_key == "ordered"
        store.subscribe([replace(READING, per_key=per_key), replace(LISTENING, per_key=per_key)])

    def take_all(self, limit: int = 100, **more: Any) -> list[Delivery]:
        given: dict[str, Any] = {"key_of": key_of, "ordered": self.ordered, **more}
        return self.claim(limit, **given)

    def take_notices(self, limit: int = 100, **more: Any) -> list[Delivery]:
        given: dict[str, Any] = {"key_of": key_of_event, "ordered": self.ordered, **more}
        return self.claim(limit, service="listening", **given)

    def bring_each(self, key: str, *ids: str) -> None:
        """Publish pages with a key, one after the other."""
        for id in ids:
            self.bring(id, text=key)
            self.clock.advance(1)

    def notice(self, *what: str) -> None:
        for one in what:
            self.store.publish([self.noticed(one)])
            self.clock.advance(1)

    def holders(self) -> dict[str, int]:
        found = self.store.db.fetch("lock_keys", "reading", ["a", "b", "c"])
        return dict(found)


@pytest.fixture
def keyed(store: Store, clock: Clock, per_key: str) -> KeyedStage:
    return KeyedStage(store, clock, per_key)


@pytest.fixture
def one(store: Store, clock: Clock) -> KeyedStage:
    return KeyedStage(store, clock, "one")


@pytest.fixture
def ordered(store: Store, clock: Clock) -> KeyedStage:
    return KeyedStage(store, clock, "ordered")


def whats(deliveries: list[Delivery]) -> list[str]:
    return [Noticed.model_validate_json(delivery.data).what for delivery in deliveries]


# -- one at a time


def test_of_rows_with_the_same_key_one_is_claimed(keyed: KeyedStage) -> None:
    keyed.bring_each("a", "1", "2", "3")
    keyed.bring_each("b", "4")
    assert ids(keyed.take_all()) == [["1"], ["4"]]
    assert not keyed.take_all(worker="bert")


def test_a_settled_row_hands_its_key_over_and_wakes_its_service(keyed: KeyedStage) -> None:
    keyed.bring_each("a", "1", "2", "3")
    (first,) = keyed.take_all()
    settled = keyed.settle(first, Processed(("1",)))
    assert settled.woken == {"reading"}
    assert ids(keyed.take_all()) == [["2"]]


def test_without_a_row_that_waits_the_key_is_deleted_and_nobody_is_woken(keyed: KeyedStage) -> None:
    keyed.bring_each("a", "1")
    (first,) = keyed.take_all()
    assert keyed.holders() == {"a": first.row}
    assert keyed.settle(first, Processed(("1",))).woken == frozenset()
    assert keyed.holders() == {}


def test_events_without_documents_hand_over_in_the_fast_path(keyed: KeyedStage) -> None:
    keyed.notice("a:1", "a:2", "b:3")
    first, other = keyed.take_notices()
    assert whats([first, other]) == ["a:1", "b:3"]
    settlements = [Settlement(one.row, one.token, None, parts=[Processed(())]) for one in (first, other)]
    keyed.store.completed.left = 1  # one is kept as completed, the other deleted at once
    results = keyed.store.settle(settlements)
    assert [result.status for result in results] == [CommitStatus.COMMITTED] * 2
    assert results[0].woken == {"listening"}
    assert whats(keyed.take_notices()) == ["a:2"]
    assert keyed.store.db.fetch("lock_keys", "listening", ["b"]) == []


def test_rows_without_a_key_are_not_limited(keyed: KeyedStage) -> None:
    keyed.bring_each("", "1", "2", "3")
    assert ids(keyed.take_all()) == [["1"], ["2"], ["3"]]
    assert keyed.holders() == {}


def test_an_event_with_several_documents_gets_a_row_for_each(keyed: KeyedStage) -> None:
    keyed.store.add_documents([page("1", text="a"), page("2", text="b"), page("3", text="a")])
    assert keyed.publish("1", "2", "3").rows == 3
    assert ids(keyed.take_all()) == [["1"], ["2"]]


def test_rows_from_before_the_service_had_a_key_are_divided(store: Store, clock: Clock, per_key: str) -> None:
    stage = Stage(store, clock)
    store.add_documents([page("1", text="a"), page("2", text="b"), page("3", text="a")])
    stage.publish("1", "2", "3")
    keyed = KeyedStage(store, clock, per_key)
    (first,) = keyed.take_all()
    assert ids([first]) == [["1"]]
    assert ids(keyed.take_all()) == [["2"]]
    keyed.settle(first, Processed(("1",)))
    (last,) = keyed.take_all()
    assert ids([last]) == [["3"]]
    keyed.settle(last, Processed(("3",)))
    assert keyed.state("3").status == "processed"


def test_a_key_that_cannot_be_computed_is_the_failure_of_its_delivery_alone(keyed: KeyedStage) -> None:
    keyed.bring_each("wrong", "1", "2")
    keyed.bring_each("a", "3")
    first, second, third = keyed.take_all()
    assert [str(one.key_error) for one in (first, second, third)] == ["no key", "no key", "None"]


def test_a_document_whose_content_is_replaced_while_it_waits_gets_its_new_key(keyed: KeyedStage) -> None:
    keyed.bring_each("a", "1", "2", "3")
    keyed.bring_each("b", "4")
    first, other = keyed.take_all()
    keyed.store.replace_document(page("2", text="b"))
    keyed.settle(first, Processed(("1",)))
    assert ids(keyed.take_all()) == [["3"]], "4 has the new key of 2"
    assert keyed.settle(other, Processed(("4",))).woken == {"reading"}
    assert ids(keyed.take_all()) == [["2"]]


@pytest.mark.parametrize("text", ("", "wrong"))
def test_a_document_that_has_no_key_any_more_needs_none(keyed: KeyedStage, text: str) -> None:
    keyed.bring_each("a", "1", "2", "3")
    (first,) = keyed.take_all()
    keyed.store.replace_document(page("2", text=text))
    keyed.settle(first, Processed(("1",)))
    second, third = sorted(keyed.take_all(), key=lambda delivery: delivery.row)
    assert ids([second, third]) == [["2"], ["3"]]
    assert isinstance(second.key_error, ValueError) == (text == "wrong")


def test_a_work_on_content_that_was_replaced_is_done_again_with_the_new_key(keyed: KeyedStage) -> None:
    keyed.bring_each("a", "1")
    keyed.bring_each("b", "2")
    first, other = keyed.take_all()
    keyed.store.replace_document(page("1", text="b"))
    assert keyed.settle(first, Processed(("1",))).status is CommitStatus.STALE
    assert ids(keyed.take_all()) == []
    keyed.settle(other, Processed(("2",)))
    assert ids(keyed.take_all()) == [["1"]]
    assert keyed.holders() == {"b": first.row}


def test_missing_documents_are_claimed_without_a_key(keyed: KeyedStage) -> None:
    keyed.publish("1")
    keyed.publish("2")
    assert len(keyed.take_all()) == 2


def test_a_document_that_comes_later_gets_its_key_then(keyed: KeyedStage) -> None:
    keyed.publish("1")
    (missing,) = keyed.take_all()
    keyed.store.add_documents([page("1", text="a")])
    keyed.settle(missing, RetryLater(("1",), after=5, charge=Charge.NOT_READY))
    keyed.bring_each("a", "2")
    (second,) = keyed.take_all()
    keyed.clock.advance(10)
    assert not keyed.take_all(), "2 has the key"
    keyed.settle(second, Processed(("2",)))
    assert ids(keyed.take_all()) == [["1"]]


# -- parked rows


def test_a_parked_row_is_not_looked_at_again(keyed: KeyedStage) -> None:
    keyed.bring_each("a", "1", "2")
    keyed.take_all()
    assert keyed.store.next_due(["reading"]) is None, "nothing falls due: the row waits for its key"
    (queue,) = keyed.store.queues(["reading"])
    assert (queue.waiting, queue.claimed, queue.oldest_due) == (1, 1, None)
    row = keyed.store.ledger_row(keyed.state("2").row or 0)
    assert row is not None
    assert row.due == PARKED_DUE
    assert (row.waits_for_key, row.serial_key) == (True, "a")
    assert row.first_due == pytest.approx(keyed.clock.now() - 1)


def test_a_claim_goes_on_behind_rows_that_it_parks(keyed: KeyedStage) -> None:
    keyed.bring_each("a", *(f"a{number}" for number in range(10)))
    keyed.bring_each("b", "b1")
    keyed.bring_each("c", "c1")
    assert ids(keyed.take_all(2)) == [["a0"], ["b1"]]


def test_a_claim_parks_a_bounded_number_of_rows(keyed: KeyedStage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim, "MAX_PARKING_ROWS", 6)
    keyed.bring_each("a", *(f"a{number}" for number in range(10)))
    keyed.bring_each("b", "b1")
    assert ids(keyed.take_all(3)) == [["a0"]]
    assert keyed.store.next_due(["reading"]) is not None, "some were not looked at"
    assert ids(keyed.take_all(3)) == [["b1"]]


# -- who is next


@pytest.mark.parametrize("part", (DeadLettered(reason=Reason.NON_RETRYABLE, failure=failure(), final=True), None))
def test_given_up_or_done_the_next_one_goes_on(keyed: KeyedStage, part: DeadLettered | None) -> None:
    keyed.bring_each("a", "1", "2", "3")
    (first,) = keyed.take_all()
    keyed.settle(first, part or Processed(("1",)))
    assert ids(keyed.take_all()) == [["2"]]


def test_while_one_waits_for_a_retry_others_may_run(one: KeyedStage) -> None:
    one.bring_each("a", "1", "2", "3")
    (first,) = one.take_all()
    one.settle(first, RetryLater(("1",), after=60, charge=Charge.TRY, failure=failure()))
    (second,) = one.take_all()
    assert ids([second]) == [["2"]]
    one.clock.advance(100)
    assert not one.take_all(), "2 has the key; 1 waits for it, too"
    one.settle(second, Processed(("2",)))
    assert ids(one.take_all()) == [["1"]], "it was published before 3"


def test_an_ordered_row_that_waits_for_a_retry_holds_its_key(ordered: KeyedStage) -> None:
    ordered.bring_each("a", "1", "2")
    ordered.bring_each("b", "3")
    first, other = ordered.take_all()
    ordered.settle(first, RetryLater(("1",), after=60, charge=Charge.TRY, failure=failure()))
    ordered.settle(other, Processed(("3",)))
    assert not ordered.take_all()
    ordered.clock.advance(100)
    ordered.bring_each("a", "4")
    (again,) = ordered.take_all()
    assert ids([again]) == [["1"]]
    ordered.settle(again, Processed(("1",)))
    (second,) = ordered.take_all()
    assert ids([second]) == [["2"]]
    ordered.settle(second, Processed(("2",)))
    assert ids(ordered.take_all()) == [["4"]]


@pytest.mark.parametrize("lapsed", (False, True))
def test_an_ordered_row_that_returns_after_a_crash_holds_its_key(ordered: KeyedStage, lapsed: bool) -> None:
    ordered.bring_each("a", "1", "2")
    (first,) = ordered.take_all()
    if lapsed:
        ordered.clock.advance(1000)
        assert ordered.store.reclaim() == 1
    else:
        ordered.store.record_crash("anna", [first.row])
    assert ids(ordered.take_all(worker="bert")) == [["1"]]


def test_a_suspect_that_has_its_key_is_claimed_alone(ordered: KeyedStage) -> None:
    ordered.bring_each("a", "1", "2")
    for _ in range(2):
        (first,) = ordered.take_all()
        ordered.store.record_crash("anna", [first.row])
    assert not ordered.take_all(), "the suspect has the key"
    assert ids(ordered.take_all(suspects=True)) == [["1"]]


def test_a_suspect_waits_for_its_key(one: KeyedStage) -> None:
    one.bring_each("a", "1")
    for _ in range(2):
        (first,) = one.take_all()
        one.store.record_crash("anna", [first.row])
    one.bring_each("a", "2")
    (second,) = one.take_all()
    assert not one.take_all(suspects=True)
    one.settle(second, Processed(("2",)))
    assert ids(one.take_all(suspects=True)) == [["1"]]


def test_an_ordered_service_knows_no_priorities(ordered: KeyedStage) -> None:
    ordered.bring_each("a", "1")
    ordered.store.add_documents([page("2", text="a")])
    ordered.publish("2", priority=5)
    assert ids(ordered.take_all(1)) == [["1"]]


def test_the_order_is_that_of_due_times(ordered: KeyedStage) -> None:
    ordered.store.add_documents([page("1", text="a"), page("2", text="a")])
    ordered.publish("1", due_in=60)
    ordered.publish("2")
    (second,) = ordered.take_all()
    assert ids([second]) == [["2"]]
    ordered.clock.advance(100)
    assert not ordered.take_all()
    ordered.settle(second, Processed(("2",)))
    assert ids(ordered.take_all()) == [["1"]]


def test_events_from_before_their_service_come_in_the_order_of_due_times(store: Store, clock: Clock) -> None:
    stage = Stage(store, clock, subscribe=False)
    store.publish([stage.noticed("a:1", due_in=60)])
    store.publish([stage.noticed("a:2")])
    clock.advance(100)
    ordered = KeyedStage(store, clock, "ordered")
    (first,) = ordered.take_notices()
    assert whats([first]) == ["a:2"]
    ordered.settle(first, Processed(()))
    assert whats(ordered.take_notices()) == ["a:1"]


def test_a_row_that_is_rescheduled_to_now_keeps_its_place(ordered: KeyedStage) -> None:
    ordered.bring_each("a", "1", "2", "3")
    (first,) = ordered.take_all()
    ordered.store.schedule([("pages", "2")], ordered.clock.now())
    ordered.settle(first, Processed(("1",)))
    assert ids(ordered.take_all()) == [["2"]], "3 has got the key, and both are due"


def test_a_requeued_dead_letter_comes_back_at_the_end(ordered: KeyedStage) -> None:
    ordered.bring_each("a", "1", "2", "3")
    (first,) = ordered.take_all()
    ordered.settle(
        first, DeadLettered(("1",), reason=Reason.MAX_ATTEMPTS_EXCEEDED, failure=failure(), final=False)
    )
    assert ordered.store.requeue(first.row)
    for expected in ("2", "3", "1"):
        (found,) = ordered.take_all()
        assert ids([found]) == [[expected]]
        ordered.settle(found, Processed((expected,)))


def test_the_same_event_published_again_does_not_change_the_order(ordered: KeyedStage) -> None:
    ordered.notice("a:1")
    (first,) = ordered.take_notices()
    ordered.notice("a:2", "a:1")
    for _ in range(2):
        ordered.settle(first, RetryLater(after=1, charge=Charge.TRY, failure=failure()))
        ordered.clock.advance(2)
        (first,) = ordered.take_notices()
        assert whats([first]) == ["a:1"]
    seen = whats(claimed := [first])
    while claimed:
        ordered.settle(claimed[0], Processed(()))
        seen += whats(claimed := ordered.take_notices())
    assert seen == ["a:1", "a:2", "a:1"]


# -- keys whose holder is gone


def test_forgetting_a_source_hands_its_keys_over(keyed: KeyedStage) -> None:
    keyed.store.add_documents(
        [page("1", text="a", source="s"), page("2", text="a"), page("3", text="a", source="s")]
    )
    for id in ("1", "2", "3"):
        keyed.publish(id)
        keyed.clock.advance(1)
    (first,) = keyed.take_all()
    assert ids([first]) == [["1"]]
    keyed.store.forget("s")
    (second,) = keyed.take_all()
    assert ids([second]) == [["2"]]
    keyed.settle(second, Processed(("2",)))
    assert keyed.holders() == {}


def test_forgetting_a_source_hands_the_keys_of_its_events_over(keyed: KeyedStage) -> None:
    keyed.store.publish([keyed.noticed("a:1", source="s")])
    keyed.clock.advance(1)
    keyed.notice("a:2")
    assert whats(keyed.take_notices()) == ["a:1"]
    keyed.store.forget("s")
    assert whats(keyed.take_notices()) == ["a:2"]


def test_removing_a_document_hands_its_key_over(keyed: KeyedStage) -> None:
    keyed.bring_each("a", "1", "2")
    keyed.take_all()
    keyed.store.remove_documents([("pages", "1")])
    assert ids(keyed.take_all()) == [["2"]]


def settle_as_an_older_version(keyed: KeyedStage, delivery: Delivery) -> None:
    """Settle a row without releasing its key."""
    with keyed.store.transaction():
        keyed.store.db.send("delete_rows", [delivery.row])


def test_a_claim_takes_over_the_key_of_a_row_that_is_gone(keyed: KeyedStage) -> None:
    keyed.bring_each("a", "1")
    (first,) = keyed.take_all()
    settle_as_an_older_version(keyed, first)
    keyed.bring_each("a", "2")
    assert ids(keyed.take_all()) == [["2"]]


def test_a_claim_that_takes_over_a_key_lets_older_rows_go_first(ordered: KeyedStage) -> None:
    ordered.bring_each("a", "1", "2")
    (first,) = ordered.take_all()
    settle_as_an_older_version(ordered, first)
    ordered.bring_each("a", "3")
    (second,) = ordered.take_all()
    assert ids([second]) == [["2"]]
    ordered.settle(second, Processed(("2",)))
    assert ids(ordered.take_all()) == [["3"]]


def test_housekeeping_releases_lost_keys(keyed: KeyedStage) -> None:
    keyed.bring_each("a", "1", "2")
    keyed.bring_each("b", "3", "4")
    keyed.bring_each("c", "5")
    first, _, third = keyed.take_all()
    settle_as_an_older_version(keyed, first)
    settle_as_an_older_version(keyed, third)
    assert not keyed.take_all()
    assert keyed.store.release_lost_keys() == 2
    assert ids(keyed.take_all()) == [["2"]]
    assert set(keyed.holders()) == {"a", "b"}
    assert keyed.store.release_lost_keys() == 0


def test_an_operator_who_schedules_a_row_frees_its_key_unless_order_counts(keyed: KeyedStage) -> None:
    keyed.bring_each("a", "1", "2", "3")
    (first,) = keyed.take_all()
    keyed.settle(first, Processed(("1",)))
    keyed.store.schedule([("pages", "2")], keyed.clock.now() + 1000)
    assert ids(keyed.take_all()) == ([] if keyed.ordered else [["3"]])


def test_a_renamed_service_keeps_its_keys(keyed: KeyedStage, per_key: str) -> None:
    keyed.bring_each("a", "1", "2")
    (first,) = keyed.take_all()
    keyed.store.subscribe([replace(READING, service="studying", per_key=per_key, was=("reading",))])
    assert not keyed.take_all(service="studying")
    keyed.settle(first, Processed(("1",)))
    assert ids(keyed.take_all(service="studying")) == [["2"]]


def test_retiring_a_service_gives_up_rows_that_wait_for_their_keys(keyed: KeyedStage) -> None:
    keyed.bring_each("a", "1", "2", "3")
    keyed.take_all()
    assert keyed.store.retire_service("reading") == 3
    assert keyed.holders() == {}


def test_a_service_whose_key_was_removed_goes_on(keyed: KeyedStage) -> None:
    keyed.bring_each("a", "1", "2", "3")
    (first,) = keyed.take_all()
    keyed.store.subscribe([READING])
    keyed.settle(first, Processed(("1",)))
    for expected in ("2", "3"):
        (found,) = keyed.claim()
        assert ids([found]) == [[expected]]
        keyed.settle(found, Processed((expected,)))
    assert keyed.holders() == {}


def test_an_envelope_of_a_service_without_a_key_is_not_divided(stage: Stage) -> None:
    stage.store.add_documents([page("1"), page("2")])
    assert stage.publish("1", "2").rows == 1


def test_what_waits_for_its_key_takes_no_token_of_a_rate(keyed: KeyedStage) -> None:
    limits = ClaimLimits((DependencyLimit("api", "600/s", Rate(600, 1.0)),), 1, free_slots=100)  # 12 at once
    keyed.bring_each("a", *(f"a{number}" for number in range(8)))
    keyed.bring_each("b", *(f"b{number}" for number in range(8)))
    assert ids(keyed.take_all(needs=("api",), limits=limits)) == [["a0"], ["b0"]]
    others = [f"c{number:02}" for number in range(20)]
    for id in others:
        keyed.bring(id, text=id)
    assert ids(keyed.take_all(needs=("api",), limits=limits)) == [[id] for id in others[:10]]


def test_what_has_expired_needs_no_key(keyed: KeyedStage) -> None:
    keyed.bring_each("a", "1", "2")
    (first,) = keyed.take_all()
    keyed.store.add_documents([page("3", text="a")])
    event = keyed.found("3")
    event.expires_in = 5.0
    keyed.store.publish([event])
    keyed.clock.advance(6)
    (expired,) = keyed.take_all()
    assert (ids([expired]), expired.expired) == ([["3"]], True)
    assert first.row in keyed.holders().values()


def test_the_next_row_of_a_key_is_not_put_behind_a_backlog(keyed: KeyedStage) -> None:
    keyed.bring_each("a", "1", "2")
    keyed.bring_each("b", "3")
    keyed.bring_each("c", "4")
    (first,) = keyed.take_all(limit=1)
    assert ids(keyed.take_all(limit=1)) == [["3"]], "the second waits for its key"
    keyed.settle(first, Processed(["1"]))
    assert ids(keyed.take_all(limit=1)) == [["2"]], "it came before the fourth"
