"""An engine that hears of its rows by a wire: what it claims, what it acknowledges, whom it takes in."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from onward.model.failures import Failure
from onward.model.ledger import Delivery
from onward.ports import Store, StoreFull, StoreUnavailable, Stranger, Wire
from onward.runtime.carrying import Carrier
from onward.runtime.lanes import Lane
from onward.runtime.relay import Relay
from onward.runtime.service import Registry
from onward.runtime.strangers import take_in

LOOK_EVERY = 15.0
"""Seconds after which a service looks in the ledger itself, for whatever has been lost on its way."""
STRANGERS_AT_ONCE = 100
LEAST_PREFETCH = 4


class Wiring:
    """Between an engine and its wire. The ledger is the truth: without the wire, the engine looks there itself."""

    def __init__(self, store: Store, registry: Registry, wire: Wire) -> None:
        self._store = store
        self._registry = registry
        self.wire = wire
        self._carrier = Carrier(wire)
        self._relay = Relay(store, wire, self._rows_in_message)
        self._lanes: Sequence[Lane] = ()
        self._looked: dict[str, float] = {}
        self._strangers: deque[Stranger] = deque()
        """Those that are to be taken in: the store may be away just now."""
        self._troubled: dict[str, bool] = {}
        """Dependencies whose breaker is not quiet, and whether it is open."""

    def start(self, lanes: Sequence[Lane]) -> None:
        self._lanes = lanes
        self._relay.start([one.service.queue(prefetch=max(LEAST_PREFETCH, 2 * one.slots)) for one in lanes])

    def stop(self) -> None:
        self._relay.stop()

    def announced(self, lane: Lane, room: int) -> list[int] | None:
        """The rows that the wire tells of; None: look in the ledger.

        That is done where a breaker says what may be claimed, while the wire is in trouble, and now and then.
        """
        now, name = time.monotonic(), lane.service.name
        if now - self._looked.get(name, 0.0) > LOOK_EVERY:
            self._looked[name] = now
            return None
        troubled = self._troubled  # which may be another from one moment to the next
        open_ones = [troubled[one] for one in lane.service.needs if one in troubled]
        if open_ones and not any(open_ones):
            # It recovers: what messages tell of is found in the ledger, and what is left is announced again.
            self._carrier.take(name, room)
            self._carrier.claimed(name, ())
        if open_ones or self.wire.trouble:
            return None
        lane.dry = True  # unless something comes from now on
        return self._carrier.take(name, room)

    def claimed(self, lane: Lane, deliveries: Sequence[Delivery]) -> None:
        """Of what it told of, these were claimed; the rest is told of again as long as that brings something."""
        self._carrier.claimed(lane.service.name, [one.row for one in deliveries])

    def acknowledge_all_but(self, under_way: set[int]) -> None:
        """Acknowledge the messages whose rows are all settled, or were somebody else's."""
        self._carrier.release(self._carrier.rows() - under_way)

    def look_at_breakers(self) -> None:
        troubled = {one.dependency: one.open for one in self._store.breakers() if not one.quiet}
        calmed = self._troubled.keys() - troubled.keys()
        self._troubled = troubled
        for lane in self._lanes:
            if not calmed.isdisjoint(lane.service.needs):
                self._store.announce_again(lane.service.name, before=self._store.now())

    def next_stranger(self) -> Stranger | None:
        """What somebody else has published; the same again until it is taken in."""
        if not self._strangers:
            self._strangers.extend(self.wire.strangers(STRANGERS_AT_ONCE))
        return self._strangers[0] if self._strangers else None

    def take_in(self, stranger: Stranger) -> None:
        """Enter what somebody else has published into the ledger; acknowledged once it is there."""
        try:
            take_in(self._store, self._registry.events(), stranger.raw, message_id=stranger.message_id)
        except (StoreUnavailable, StoreFull):
            raise
        except Exception as error:  # the next one is not to blame for it
            failure = Failure.of(error, at=self._store.now(), service="")
            self._store.publish_malformed(stranger.raw, failure)
        self._strangers.popleft()
        self.wire.done([stranger.tag])

    def _rows_in_message(self) -> dict[str, int]:
        """How many rows one worker may be told of at a time: what takes long is shared out one by one."""
        return {lane.service.name: lane.quickly() for lane in self._lanes}
