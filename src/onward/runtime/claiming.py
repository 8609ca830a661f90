"""Claiming: what a worker process takes from the ledger for its lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onward.model.ledger import Delivery, Settled
from onward.ports import Store
from onward.runtime.handling import Call, Context, Handling, prepare
from onward.runtime.lanes import Lane
from onward.runtime.orders import EngineSettings

Claimed = list[tuple[Lane, list[Call]]]


class Claiming:
    """Knows how much was claimed so far."""

    def __init__(self, store: Store, context: Context, settings: EngineSettings) -> None:
        self.store = store
        self.context = context
        self.settings = settings
        self.count = 0

    def attempt(self, wanting: Sequence[tuple[Lane, int]], among: Mapping[Lane, list[int] | None]) -> Attempt:
        """Claim so much for each lane; among the rows that a wire told of, or (None) of all that is due."""
        return Attempt(self, wanting, among)


class Attempt:
    """One go at claiming, as a step of a transaction; called again, it forgets what was rolled back."""

    def __init__(
        self, claiming: Claiming, wanting: Sequence[tuple[Lane, int]], among: Mapping[Lane, list[int] | None]
    ) -> None:
        self._claiming = claiming
        self._wanting = wanting
        self._among = among
        self._before = claiming.count
        self.openings: list[tuple[Handling, Settled]] = []
        """What was settled before any call."""
        self.told_of: list[tuple[Lane, list[Delivery]]] = []
        """Of what the wire told of, what was claimed."""

    def __call__(self) -> Claimed:
        self.openings.clear()
        self.told_of.clear()
        self._claiming.count = self._before
        return [(lane, self._claim(lane, room, self._among[lane])) for lane, room in self._wanting]

    def __bool__(self) -> bool:
        """Whether anything was claimed."""
        return self._claiming.count > self._before

    def _claim(self, lane: Lane, room: int, among: list[int] | None) -> list[Call]:
        claiming, service = self._claiming, lane.service
        settings, context = claiming.settings, claiming.context
        if among is not None and not among:
            return []
        if settings.suspects and claiming.count:
            return []  # alone means alone in the process, not in the service
        hints = lane.hints
        deliveries = claiming.store.claim(
            context.worker,
            service.name,
            limit=room if among is None else max(room, len(among)),
            lease=settings.lease,
            needs=service.needs,
            healthy_probes=context.registry.healthy_probes(),
            suspects=settings.suspects,
            among=among,
        )
        if among is not None:
            self.told_of.append((lane, deliveries))
        # Unless somebody has said otherwise meanwhile.
        lane.dry = hints == lane.hints and among is None and len(deliveries) < room
        claiming.count += len(deliveries)
        calls: list[Call] = []
        for delivery in deliveries:
            handling = prepare(service, delivery, context)
            calls += handling.calls
            if handling.opening is not None:
                self.openings.append((handling, claiming.store.settle([handling.opening])[0]))
                lane.look_again()
        return calls
