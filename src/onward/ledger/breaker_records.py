"""The breakers that one transaction reads and changes."""

from __future__ import annotations

import json
from dataclasses import dataclass

from onward.ledger.dialect import Database
from onward.model.breaker import Breaker, current

MAX_OPENINGS = 1_000  # Openings of a breaker that are kept, for each dependency


@dataclass(slots=True)
class BreakerRecords:
    """All breakers, read when the first one is asked for."""

    db: Database
    now: float
    _found: dict[str, Breaker] | None = None
    _locked: bool = False

    def of(self, dependency: str) -> Breaker:
        return self._all().get(dependency) or Breaker(dependency)

    def _all(self) -> dict[str, Breaker]:
        if self._found is None:
            found = [current(Breaker.from_dict(stored), self.now) for stored in self.db.read("breakers")]
            self._found = {breaker.dependency: breaker for breaker in found}
        return self._found

    def lock(self) -> None:
        """Lock all breakers until the end, and read them again, for they may have changed before."""
        if not self._locked:
            self._locked = True
            if self.db.lock("breakers"):
                self._found = None

    def save(self, breaker: Breaker) -> None:
        before = self.of(breaker.dependency)
        if breaker == before:
            return
        self._all()[breaker.dependency] = breaker
        if breaker.quiet:
            self.db.send("drop_breaker", breaker.dependency)
        else:
            self.db.send("save_breaker", breaker.dependency, json.dumps(breaker.as_dict()))
        if breaker.open and not before.open:
            self.db.send("log_opening", breaker.dependency, self.now, breaker.reason, breaker.remedy)
            self.db.send("prune_openings", breaker.dependency, MAX_OPENINGS)
        elif before.open and not breaker.open:
            self.db.send("log_closing", self.now, breaker.dependency)
