"""Which service of a process claims first, if several share what limits their claims.

What one of them takes is missing for those after it: calls of a dependency that has a rate or a limit of
concurrency, or one whose breaker lets a few calls through after an outage.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from typing import TYPE_CHECKING

from onward.runtime.service import Service
from onward.runtime.slots import ClaimRequest, ServiceSlots

if TYPE_CHECKING:
    from onward.ledger.store import Store


class ClaimTurns:
    """Orders the claims of services that share a limit."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._shared: Set[str] = frozenset()  # what more than one service needs
        self._declared: Set[str] = frozenset()  # dependencies with a declared rate or concurrency
        self.recovering: Set[str] = frozenset()  # dependencies whose breakers limited claims at the last tick
        self._taken = 0  # claims that got something

    def declare(self, services: Iterable[Service], limited: Set[str]) -> None:
        """Take the services of this process, and the dependencies with a declared limit."""
        users = Counter(name for service in services for name in set(service.needs))
        self._shared = {name for name, count in users.items() if count > 1}
        self._declared = limited

    def sharers(self, requests: Sequence[ClaimRequest], all_slots: Iterable[ServiceSlots]) -> list[ServiceSlots]:
        """Return the slots of services that do not ask, and share a limit with one that does.

        They have to ask as well, even if their last claim found nothing or no token. Else a service that always
        asks first would always be alone, and take each place that becomes free.
        """
        limits = self._limits()
        limits = limits and limits & {name for slots, _, _ in requests for name in slots.service.needs}
        if not limits:
            return []
        asking = {id(slots) for slots, _, _ in requests}
        others = (slots for slots in all_slots if id(slots) not in asking and not slots.service.background)
        return [slots for slots in others if not limits.isdisjoint(slots.service.needs)]

    def in_turn(self, requests: Sequence[ClaimRequest]) -> Sequence[ClaimRequest]:
        """Order the requests of services that share a limit.

        The service whose due row has the highest priority is first; of several, the one that got nothing for the
        longest time.
        """
        limits = self._limits() if len(requests) > 1 else frozenset[str]()
        sharing = [one for one in requests if not one[0].service.background and limits & {*one[0].service.needs}]
        if len(sharing) < 2:
            return requests

        def place(request: ClaimRequest) -> tuple[float, int]:
            priority = self._store.due_priority(request[0].service.name)
            return math.inf if priority is None else -priority, request[0].turn

        ordered = iter(sorted(sharing, key=place))
        return [next(ordered) if request in sharing else request for request in requests]

    def took(self, slots: ServiceSlots) -> None:
        """Note that a claim of these slots got something: others are first now."""
        self._taken += 1
        slots.turn = self._taken

    def _limits(self) -> Set[str]:
        """Return what limits the claims of more than one service here."""
        return self._shared and self._shared & (self._declared | self.recovering)
