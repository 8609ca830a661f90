"""Rules that merge and split failure groups; they are applied on top of the computed fingerprints."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

MAX_RULES = 200  # All of them are read in each transaction that stores a failure
MAX_VALUE_CHARACTERS = 500


class SplitBy(StrEnum):
    """The part of a failure that a split looks at.

    A message is searched for a text, not for a regular expression: rules run in the transactions that store
    failures, and an expression that takes long would stop all workers.
    """

    MESSAGE = "message"  # the message contains the value, whatever the case
    DEPENDENCY = "dependency"
    VERSION = "version"


class RuleState(StrEnum):
    ADDING = "adding"  # effective; earlier failures are still being moved
    ACTIVE = "active"
    REMOVING = "removing"  # no longer effective; earlier failures are still being moved back


@dataclass(frozen=True, slots=True)
class GroupRule:
    """Failures of a group count with another one: all of them (a merge), or those that match (a split)."""

    id: int
    group: str  # The fingerprint of the group that failures leave
    target: str  # The fingerprint of the group that they count with
    by: SplitBy | None  # None: all failures, a merge
    value: str
    at: float
    who: str
    state: RuleState = RuleState.ACTIVE

    def matches(self, error: Mapping[str, Any]) -> bool:
        if self.by is None:
            return True
        found = str(error.get(self.by) or "")
        return self.value.casefold() in found.casefold() if self.by is SplitBy.MESSAGE else found == self.value


def split_fingerprint(group: str, by: SplitBy, value: str) -> str:
    """Return the fingerprint of what is split off a group: the same rule makes the same group again."""
    return hashlib.blake2b("\0".join(("split", group, by, value)).encode(), digest_size=8).hexdigest()


class GroupRules:
    """All rules that are in effect."""

    def __init__(self, rules: Iterable[GroupRule] = ()) -> None:
        self._by_group: dict[str, list[GroupRule]] = {}
        # Splits first: what is split off a group stays apart when the rest is merged into another one.
        for rule in sorted(rules, key=lambda rule: (rule.by is None, rule.id)):
            if rule.state is not RuleState.REMOVING:
                self._by_group.setdefault(rule.group, []).append(rule)

    def __bool__(self) -> bool:
        return bool(self._by_group)

    def group_of(self, fingerprint: str, error: Mapping[str, Any]) -> str:
        """Return the group of a failure with this computed fingerprint; `error` has its message and so on."""
        used: set[int] = set()  # each rule once: two rules may point at each other's groups
        while rule := next(
            (one for one in self._by_group.get(fingerprint, ()) if one.id not in used and one.matches(error)), None
        ):
            used.add(rule.id)
            fingerprint = rule.target
        return fingerprint

    def merged_into(self, fingerprint: str) -> str:
        """Return the group that a group was merged into, by merges of whole groups only; else itself."""
        used: set[int] = set()
        while rule := next(
            (one for one in self._by_group.get(fingerprint, ()) if one.by is None and one.id not in used), None
        ):
            used.add(rule.id)
            fingerprint = rule.target
        return fingerprint

    def reachable(self, fingerprint: str) -> list[str]:
        """Return a group and all groups that its failures may count with."""
        found = [fingerprint]
        for group in found:
            found += [rule.target for rule in self._by_group.get(group, ()) if rule.target not in found]
        return found
