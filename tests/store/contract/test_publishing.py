"""Putting an event on the ledger: one row for each service that consumes it."""

from __future__ import annotations

import pytest

from onward.model.ledger import KEEP_UNROUTED_SECONDS, Published, Subscription
from tests.support.store_pages import Stage, page

COUNTING = Subscription("counting", "PagesFound")


def test_an_event_becomes_a_row_for_each_service_that_consumes_it(stage: Stage) -> None:
    stage.store.subscribe([COUNTING])
    published = stage.publish("a")
    assert (published.rows, published.duplicates, published.unrouted) == (2, 0, False)
    assert stage.store.counts() == {"reading": {"waiting": 1}, "counting": {"waiting": 1}}


def test_a_delivery_brings_the_event_as_it_was_published(stage: Stage) -> None:
    envelope = stage.noticed("smoke", trace="00-trace", source="s", priority=3)
    stage.store.publish([envelope])
    delivery = stage.take(service="listening")
    assert delivery.event_id == envelope.event_id
    assert (delivery.event_type, delivery.version, delivery.data) == ("Noticed", 1, '{"what":"smoke"}')
    assert (delivery.timestamp, delivery.trace) == (envelope.timestamp, "00-trace")
    assert (delivery.source, delivery.priority, delivery.service) == ("s", 3, "listening")


def test_the_answers_come_in_the_order_of_the_events(stage: Stage) -> None:
    envelopes = [stage.noticed("x"), stage.found("a"), stage.noticed("x")]
    assert stage.store.publish(envelopes) == [
        Published(envelopes[0].event_id, rows=1),
        Published(envelopes[1].event_id, rows=1),
        Published(envelopes[2].event_id, duplicates=1),
    ]


def test_an_event_without_a_consumer_is_kept_and_shown(stage: Stage) -> None:
    stage.bring("a")
    stray = stage.noticed()
    stray.event_type = "Unheard"
    (published,) = stage.store.publish([stray])
    assert published.unrouted
    assert stage.store.counts()[""] == {"unrouted": 1}
    assert len(stage.claim()) == 1, "it blocks nothing"


def test_what_had_no_consumer_is_routed_to_all_who_subscribe_later(stage: Stage) -> None:
    stray = stage.noticed("hello")
    stray.event_type = "Unheard"
    stage.store.publish([stray])
    stage.store.subscribe([Subscription("one", "Unheard"), Subscription("two", "Unheard")])
    assert stage.store.counts() == {"one": {"waiting": 1}, "two": {"waiting": 1}}
    assert stage.take(service="one").event_id == stray.event_id


def test_what_had_no_consumer_begins_its_round_once_it_has_one(stage: Stage) -> None:
    stage.store.add_documents([page("a")])
    envelope = stage.found("a")
    envelope.event_type = "Unheard"
    stage.store.publish([envelope])
    assert stage.state("a").round == 0
    stage.store.subscribe([Subscription("late", "Unheard", finishes="pages", ids_field="page_ids")])
    assert stage.state("a").round == 1


def test_an_unrouted_event_of_a_forgotten_source_is_not_routed(stage: Stage) -> None:
    stray = stage.noticed(source="s")
    stray.event_type = "Unheard"
    stage.store.publish([stray])
    stage.store.forget("s")
    stage.store.subscribe([Subscription("late", "Unheard")])
    assert stage.store.counts() == {}


def test_an_event_without_a_consumer_is_dropped_after_a_while(stage: Stage) -> None:
    stray = stage.noticed()
    stray.event_type = "Unheard"
    stage.store.publish([stray])
    stage.clock.advance(KEEP_UNROUTED_SECONDS)
    assert stage.store.prune(keep_seconds=3600, keep_count=1000) == 0
    stage.clock.advance(1)
    assert stage.store.prune(keep_seconds=3600, keep_count=1000) == 1
    assert stage.store.counts() == {}


def test_subscribing_again_changes_nothing_and_a_changed_subscription_replaces_the_old(stage: Stage) -> None:
    before = stage.store.subscriptions()
    stage.store.subscribe(before)
    assert stage.store.subscriptions() == before
    changed = Subscription("listening", "Noticed", needs=("ears",), failed_queue="elsewhere", version=2)
    stage.store.subscribe([changed])
    assert changed in stage.store.subscriptions()
    assert len(stage.store.subscriptions()) == len(before)


def test_an_event_may_be_put_off(stage: Stage) -> None:
    stage.store.publish([stage.noticed(due_in=30.0)])
    assert stage.claim(service="listening") == []
    stage.clock.advance(30.0)
    assert len(stage.claim(service="listening")) == 1


def test_a_row_belongs_to_one_source_even_if_its_event_names_documents_of_two(stage: Stage) -> None:
    stage.bring("a", source="one")
    stage.bring("b", source="two")
    stage.claim()
    published = stage.publish("a", "b", found_by="both")
    assert published.rows == 2
    deliveries = stage.claim()
    assert {one.source: [given.id for given in one.inputs] for one in deliveries} == {"one": ["a"], "two": ["b"]}


@pytest.mark.parametrize("count", (1, 3, 4, 5, 63, 257, 1000))
def test_any_number_of_events_can_be_published_at_once(stage: Stage, count: int) -> None:
    published = stage.store.publish([stage.noticed(str(n)) for n in range(count)])
    assert sum(one.rows for one in published) == count
    assert len(stage.claim(limit=2000, service="listening")) == count
