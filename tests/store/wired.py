"""A store whose rows are claimed through a RabbitMQ: what no message has told of, nobody gets."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from onward.backends.postgres import PostgresStore
from onward.backends.rabbitmq import RabbitWire
from onward.backends.relational.store import RelationalStore
from onward.model.ledger import Delivery, RowState
from onward.ports import Announcement, Bus, Copy, Queue, Store, WireUnavailable
from onward.runtime.relay import Relay
from tests.store.fragile import FragileStore

SERVICES = ("reading", "listening", "counting", "heeding", "spelling", "scanning", "one", "two", "late")
"""Every service that a contract test subscribes."""
PATIENCE = 60.0
PAUSE = 0.05
NOT_OVER_A_WIRE = {
    "test_any_number_of_events_can_be_published_at_once": "no more than a window of rows is announced at a time",
    "test_what_waits_too_long_in_the_background_gets_every_tenth_turn": "the share is in what is announced, and "
    "here more is announced than claimed",
}
"""Tests of how much one claim brings, and why they make no sense here; see `tests/wire` for both."""


class RecordingWire(RabbitWire):
    """A wire that remembers what was sent through it and has not come out of it yet."""

    def __init__(self, url: str) -> None:
        super().__init__(url, name="the store's tests")
        self.on_the_way: dict[str, set[int]] = {service: set() for service in SERVICES}

    def announce(self, announcements: Sequence[Announcement]) -> None:
        """Other tests kill the broker: here it is waited for, or what is due would be announced only some time."""
        ends = time.monotonic() + PATIENCE
        while True:
            self.come_back(ends)
            try:
                super().announce(announcements)
                break
            except WireUnavailable:
                assert time.monotonic() < ends, f"the broker takes nothing: {self.trouble}"
                time.sleep(PAUSE)
        for one in announcements:
            self.on_the_way[one.service].update(one.rows)

    def come_back(self, ends: float) -> None:
        """Return when the wire hangs together."""
        while self.trouble:
            assert time.monotonic() < ends, f"the broker does not come back: {self.trouble}"
            time.sleep(PAUSE)

    def copy(self, copies: Sequence[Copy]) -> None:
        # Tests of the store subscribe services without a failed queue, or with another one than was declared.
        super().copy([one for one in copies if one.failed_queue.removesuffix(".failed") in SERVICES])


class Post:
    """Announces what is due as the relay does, and hands out what the broker delivers."""

    def __init__(self, wire: RecordingWire) -> None:
        self._wire = wire
        self._sizes = itertools.cycle((1, 2, 3))
        self._heard: dict[str, dict[int, list[Announcement]]] = {service: {} for service in SERVICES}
        """The rows that messages told of, and the messages."""

    def begin_anew(self) -> None:
        """Whatever is still on its way was for somebody else: what comes from now on depends on nothing before."""
        self._collect()
        for service, known in self._heard.items():
            self.forget(service, list(known))
        self._sizes = itertools.cycle((1, 2, 3))

    def deliver(self, store: Store) -> None:
        """Announce all that is due, and wait until the last message has come."""
        self._wire.come_back(time.monotonic() + PATIENCE)  # in trouble, the relay announces nothing
        relay = Relay(store, self._wire, lambda: self._group(store))
        try:
            while relay.announce():
                pass
        finally:
            relay.stop()
        self._collect()

    def _collect(self) -> None:
        ends = time.monotonic() + PATIENCE
        for service, on_the_way in self._wire.on_the_way.items():
            while on_the_way:
                for one in self._wire.take(service, 1000):
                    on_the_way.difference_update(one.rows)
                    for row in one.rows:
                        self._heard[service].setdefault(row, []).append(one)
                if on_the_way:
                    assert time.monotonic() < ends, (
                        f"rows {on_the_way} of {service} are lost: {self._wire.trouble}"
                    )
                    self._wire.wait(1.0)

    def _group(self, store: Store) -> Mapping[str, int]:
        return {service: next(self._sizes) for service in sorted(one.service for one in store.subscriptions())}

    def rows(self, service: str) -> list[int]:
        """The rows of a service that somebody may claim."""
        return sorted(self._heard.get(service, ()))

    def forget(self, service: str, rows: Sequence[int]) -> None:
        """Rows are claimed or gone: a message all of whose rows are is acknowledged."""
        known = self._heard.get(service, {})
        for row in rows:
            for one in known.pop(row, ()):
                if not any(other in known for other in one.rows):
                    self._wire.done([one.tag])


class Wired(RelationalStore):
    """A store that claims only what messages have told of; suspects are nobody's message."""

    post: Post
    wired = True

    def bus(self) -> Bus:
        raise NotImplementedError("each database has its own")

    def close(self) -> None:
        raise NotImplementedError("each database has its own")

    def claim(
        self,
        worker: str,
        service: str,
        *,
        limit: int,
        lease: float,
        needs: Sequence[str] = (),
        healthy_probes: Sequence[str] = (),
        suspects: bool = False,
        among: Sequence[int] | None = None,
    ) -> list[Delivery]:
        if not suspects and among is None:
            self.post.deliver(self)
            among = self._waiting(service, self.post.rows(service))
        found = super().claim(
            worker,
            service,
            limit=limit,
            lease=lease,
            needs=needs,
            healthy_probes=healthy_probes,
            suspects=suspects,
            among=among,
        )
        self.post.forget(service, [one.row for one in found])
        return found

    def _waiting(self, service: str, rows: list[int]) -> list[int]:
        waiting = {row for row, of, state, *_ in self.db.glance("rows", rows) if (of, state) == (service, WAITING)}
        self.post.forget(service, [row for row in rows if row not in waiting])
        return [row for row in rows if row in waiting]


WAITING = str(RowState.WAITING)


class WiredStore(PostgresStore, Wired):
    """The store on PostgreSQL, with RabbitMQ before it."""


class FragileWiredStore(FragileStore, Wired):
    """The same on a database that crashes at a chosen statement."""

    def bus(self) -> Bus:
        return Deaf()


class Deaf:
    """A bus for those who wait for nothing."""

    def wait(self, seconds: float) -> None: ...

    def wake(self) -> None: ...

    def close(self) -> None: ...


@contextmanager
def open_post(url: str) -> Iterator[Post]:
    """A post office for all services of the store's tests."""
    wire = RecordingWire(url)
    wire.open([Queue(one, f"{one}.key", f"{one}.failed", prefetch=1000) for one in SERVICES])
    try:
        yield Post(wire)
    finally:
        wire.close()
