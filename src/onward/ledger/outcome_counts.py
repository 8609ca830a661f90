"""What one transaction counts: failures in their groups, and what each service and version has finished."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from onward.ledger.dialect import Database
from onward.ledger.failure_groups import CountedFailure, write_failures


@dataclass(slots=True)
class OutcomeCounts:
    """Failures and successes of a transaction, in their order, until they are written."""

    db: Database
    _failures: list[CountedFailure] = field(default_factory=list)
    _successes: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    _until_failure: dict[str, dict[str, int]] = field(default_factory=dict)  # Of them, by group and version
    _before: dict[str, int] = field(default_factory=dict)  # Successes by service before this transaction

    def add_failure(self, counted: CountedFailure) -> None:
        """Count a failure in its group."""
        self._failures.append(counted)
        if counted.failure.fingerprint not in self._until_failure:
            self._until_failure[counted.failure.fingerprint] = self._successes_of(counted.by or counted.service)

    def add_success(self, service: str, version: str, n: int) -> None:
        """Count documents that a service has finished, or an event of a service that finishes none."""
        if n and service:
            self._successes[service, version] += n

    def success_count(self, service: str) -> int:
        """Return how much a service has finished until now."""
        if service not in self._before:
            self._before[service] = sum(n for _, _, n, *_ in self.db.read("successes", [service]))
        return self._before[service] + sum(self._successes_of(service).values())

    def write(self, now: float) -> None:
        if self._successes:
            self.db.bulk("add_successes", [(*by, n, now, now) for by, n in sorted(self._successes.items())])
        if self._failures:
            write_failures(self.db, self._failures, self._after_first_failures())
        for counted in (self._successes, self._before, self._failures, self._until_failure):
            counted.clear()

    def _successes_of(self, service: str) -> dict[str, int]:
        """Return by version what a service has finished in this transaction until now."""
        return {version: n for (name, version), n in self._successes.items() if name == service}

    def _after_first_failures(self) -> dict[str, dict[str, int]]:
        """Return by group and version what was finished in this transaction after the first failure."""
        services = {one.failure.fingerprint: one.by or one.service for one in reversed(self._failures)}
        return {
            group: {
                version: n - until.get(version, 0) for version, n in self._successes_of(services[group]).items()
            }
            for group, until in self._until_failure.items()
        }
