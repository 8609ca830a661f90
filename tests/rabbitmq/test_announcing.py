"""Announcements: sent, heard, acknowledged; whatever is not acknowledged comes again."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from onward.backends.rabbitmq import RabbitWire
from onward.ports.wire import Announcement, WireUnavailable
from tests.rabbitmq.stage import COUNTING, READING, Opener, by_hand, eventually, heard, rows_of, wire_threads


def test_an_announcement_reaches_its_service_and_no_other(opened: Opener, rabbit_url: str) -> None:
    wire = opened(rabbit_url, READING, COUNTING)
    wire.announce([Announcement("reading", (1, 2)), Announcement("counting", (3,))])
    assert rows_of(heard(wire, "reading", 2)) == [1, 2]
    assert rows_of(heard(wire, "counting", 1)) == [3]
    assert wire.trouble == ""


def test_what_is_done_never_comes_again_and_the_rest_does(opened: Opener, rabbit_url: str) -> None:
    first = opened(rabbit_url)
    first.announce([Announcement("reading", (row,)) for row in range(10)])
    taken = heard(first, "reading", 10)
    first.done([one.tag for one in taken if one.rows[0] in (0, 1, 2, 5, 7)])
    first.close()
    second = opened(rabbit_url)
    again = heard(second, "reading", 5)
    assert rows_of(again) == [3, 4, 6, 8, 9]
    second.done([one.tag for one in again])
    second.close()
    assert opened(rabbit_url, replace(READING, prefetch=0)).ready() == {"reading": 0}


def test_done_in_any_order_and_twice(opened: Opener, rabbit_url: str) -> None:
    wire = opened(rabbit_url)
    wire.announce([Announcement("reading", (row,)) for row in range(10)])
    taken = heard(wire, "reading", 10)
    for one in (*taken[::-2], *taken):
        wire.done([one.tag])
    wire.done([])
    wire.announce([Announcement("reading", (10,))])
    assert rows_of(heard(wire, "reading", 1)) == [10]
    assert wire.trouble == ""


def test_tags_of_a_connection_that_is_gone_are_nobodys(opened: Opener, rabbit_url: str) -> None:
    first, second = opened(rabbit_url), opened(rabbit_url, COUNTING)
    first.announce([Announcement("reading", (1,))])
    tags = [one.tag for one in heard(first, "reading", 1)]
    first.close()
    first.done(tags)
    first.open([READING])
    again = heard(first, "reading", 1)
    first.done(tags[:0])
    second.announce([Announcement("counting", (2,))])
    assert rows_of(again) == [1]
    assert rows_of(heard(second, "counting", 1)) == [2]


def test_announcements_are_handed_out_whole(opened: Opener, rabbit_url: str) -> None:
    wire = opened(rabbit_url)
    wire.announce([Announcement("reading", (1, 2, 3))])
    wire.announce([Announcement("reading", (4, 5))])
    wire.announce([Announcement("reading", (6,))])
    assert [one.rows for one in heard(wire, "reading", 6)] == [(1, 2, 3), (4, 5), (6,)]


def test_about_as_many_rows_as_asked_for(opened: Opener, rabbit_url: str) -> None:
    wire, last = opened(rabbit_url, READING, COUNTING), Announcement("counting", (0,))
    wire.announce([Announcement("reading", (row, row + 100, row + 200)) for row in range(4)])
    wire.announce([last])
    heard(wire, "counting", 1)
    eventually(lambda: wire.ready()["reading"] == 0, "all of them delivered")
    assert wire.take("reading", 0) == []
    assert wire.take("unheard of", 10) == []
    assert sum(len(one.rows) for one in wire.take("reading", 4)) in (3, 6)


def test_a_worker_holds_no_more_than_its_prefetch(opened: Opener, rabbit_url: str) -> None:
    wire = opened(rabbit_url, replace(READING, prefetch=3))
    wire.announce([Announcement("reading", (row,)) for row in range(8)])
    eventually(lambda: wire.ready() == {"reading": 5}, "three are held, five wait")
    first = heard(wire, "reading", 3)
    assert wire.take("reading", 10) == []
    wire.done([one.tag for one in first[:2]])
    heard(wire, "reading", 2)
    assert wire.ready() == {"reading": 3}


def test_two_workers_share_the_load(opened: Opener, rabbit_url: str) -> None:
    one, other = (opened(rabbit_url, replace(READING, prefetch=1)) for _ in range(2))
    one.announce([Announcement("reading", (row,)) for row in range(20)])
    rows: dict[RabbitWire, list[int]] = {one: [], other: []}

    def work() -> bool:
        for wire, those in rows.items():
            for announcement in wire.take("reading", 1):
                those.extend(announcement.rows)
                wire.done([announcement.tag])
        return sum(map(len, rows.values())) >= 20

    eventually(work, "twenty rows")
    assert sorted(rows[one] + rows[other]) == list(range(20))
    assert rows[one]
    assert rows[other]


def test_a_service_without_prefetch_is_announced_to_but_not_heard(opened: Opener, rabbit_url: str) -> None:
    wire = opened(rabbit_url, replace(READING, prefetch=0))
    wire.announce([Announcement("reading", (1,)), Announcement("reading", (2,))])
    assert wire.ready() == {"reading": 2}
    assert wire.take("reading", 10) == []


def test_a_purged_queue_is_seen_to_be_empty(opened: Opener, rabbit_url: str) -> None:
    wire = opened(rabbit_url, replace(READING, prefetch=1))
    wire.announce([Announcement("reading", (row,)) for row in range(5)])
    eventually(lambda: wire.ready() == {"reading": 4}, "one is held, four wait")
    by_hand(rabbit_url, lambda channel: channel.queue_purge("reading"))
    assert wire.ready() == {"reading": 0}


def test_waiting_ends_when_something_comes_or_somebody_wakes_it(opened: Opener, rabbit_url: str) -> None:
    wire = opened(rabbit_url)
    wire.wait(0)
    heard_of, woken = threading.Event(), threading.Event()

    def wait() -> None:
        # An hour: the test ends only if waiting does before its time.
        while not wire.take("reading", 1):
            wire.wait(3600)
        heard_of.set()
        wire.wait(3600)
        woken.set()

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    wire.announce([Announcement("reading", (1,))])
    assert heard_of.wait(60)
    wire.wake()
    assert woken.wait(60)


def test_a_closed_wire_ends_its_thread_says_so_and_can_be_closed_again(opened: Opener, rabbit_url: str) -> None:
    wire = opened(rabbit_url)
    wire.close()
    wire.close()
    assert wire_threads() == []
    assert wire.trouble == "closed"
    with pytest.raises(WireUnavailable, match="closed"):
        wire.announce([Announcement("reading", (1,))])
    with pytest.raises(WireUnavailable, match="closed"):
        wire.ready()


def test_more_announcements_than_are_sent_at_once(
    opened: Opener, rabbit_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.backends.rabbitmq.wire.MESSAGES_AT_ONCE", 4)
    wire = opened(rabbit_url, replace(READING, prefetch=0))
    wire.announce([Announcement("reading", (row,)) for row in range(10)])
    assert wire.ready() == {"reading": 10}
