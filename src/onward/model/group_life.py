"""What people decide about a failure group: closed or open, its owner, its notes; and when it comes back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from onward.model.version_order import has_fix

MAX_NOTES = 50  # Notes of a group that are kept; the oldest are removed first
MAX_NOTE_CHARACTERS = 2_000
MAX_NAME_CHARACTERS = 100  # Of an owner, or a version


class GroupState(StrEnum):
    OPEN = "open"
    CLOSED = "closed"
    FIX_EXPECTED = "fix_expected"  # closed, and the version with the fix was not seen yet
    REGRESSION = "regression"  # it was closed, and has failed again


@dataclass(frozen=True, slots=True)
class GroupNote:
    at: float
    who: str
    text: str


@dataclass(frozen=True, slots=True)
class Closing:
    """A person's statement that the cause of a group is fixed."""

    at: float
    who: str
    version: str = ""  # The first version with the fix; empty: no release is needed
    uncertain: int = 0  # Failures since then, of which it is not known whether their version has the fix


@dataclass(frozen=True, slots=True)
class GroupLife:
    closing: Closing | None = None  # The last one; None: the group was never closed, or was reopened by hand
    regressed_at: float | None = None  # When it failed again although it was closed
    regressed_in: str = ""  # The version that it failed in
    regressions: int = 0
    owner: str = ""
    notes: tuple[GroupNote, ...] = ()

    @property
    def closed(self) -> bool:
        return self.closing is not None and self.regressed_at is None

    def state(self, seen: Mapping[str, float]) -> GroupState:
        """Return the state; `seen` has the time when each version was first seen."""
        if self.closing is None:
            return GroupState.OPEN
        if self.regressed_at is not None:
            return GroupState.REGRESSION
        fixed_in, at = self.closing.version, self.closing.at
        if fixed_in and not any(has_fix(version, fixed_in, seen, at) for version in seen):
            return GroupState.FIX_EXPECTED
        return GroupState.CLOSED

    def after_failures(self, failures: Iterable[tuple[str, float, float]], seen: Mapping[str, float]) -> GroupLife:
        """Return it after failures: the version of each, when its try began, and when it failed.

        A group that was closed without a version is reopened by a try that began after that. One that was closed
        with a version is reopened by a failure of a version that has the fix. If it is not known whether a version
        has the fix, the failure is counted, and a person decides.
        """
        closing = self.closing
        if closing is None or self.regressed_at is not None:
            return self
        uncertain = closing.uncertain
        for version, began, at in failures:
            back = has_fix(version, closing.version, seen, closing.at) if closing.version else began > closing.at
            if back:
                return replace(self, regressed_at=at, regressed_in=version[:200], regressions=self.regressions + 1)
            uncertain += back is None
        return replace(self, closing=replace(closing, uncertain=uncertain))

    def with_note(self, note: GroupNote) -> GroupLife:
        return replace(self, notes=tuple(sorted((*self.notes, note), key=lambda one: one.at))[-MAX_NOTES:])

    def joined_by(self, other: GroupLife) -> GroupLife:
        """Return it with the notes of a group that is merged into it, and with its owner if it has none."""
        notes = sorted((*self.notes, *other.notes), key=lambda one: one.at)[-MAX_NOTES:]
        return replace(self, notes=tuple(notes), owner=self.owner or other.owner)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) if self != GroupLife() else {}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> GroupLife:
        if not stored:
            return cls()
        closing = stored["closing"]
        return cls(
            **{
                **stored,
                "closing": Closing(**closing) if closing else None,
                "notes": tuple(GroupNote(**note) for note in stored["notes"]),
            }
        )
