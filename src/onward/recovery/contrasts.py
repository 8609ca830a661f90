"""Contrasts in the evidence: what fails against what succeeds, before against after, this version against that."""

from __future__ import annotations

from onward.model.failures import names_a_format
from onward.recovery.error_names import PROGRAMMING_ERRORS, USE_ERRORS
from onward.recovery.evidence import Evidence, Version

MORE_LOAD = 3.0  # times as much to do as before: more than usual ups and downs
SAME_LOAD = 1.5  # less than this many times as much: not more than before


def is_older(version: Version, new: Version) -> bool:
    """Return whether a version is another one, and ran first."""
    return version.first_seen < new.first_seen and version.name != new.name


def is_stuck(evidence: Evidence) -> bool:
    """Return whether the documents fail in every try, and few have recovered."""
    return evidence.always and evidence.recovered * 2 < evidence.documents


def part_changed(evidence: Evidence) -> bool:
    """Return whether those that fail belong to a part, such as a tenant, of which documents succeeded before."""
    return any(trait.changed for trait in evidence.traits)


def load_rose(evidence: Evidence) -> bool:
    """Return whether there was much more to do than before when the failures began."""
    return evidence.load is not None and evidence.load >= MORE_LOAD


def load_is_same(evidence: Evidence) -> bool:
    """Return whether there was not more to do than before when the failures began."""
    return evidence.load is not None and evidence.load < SAME_LOAD


def only_under_newer(evidence: Evidence) -> bool:
    """Return whether it never happened under older versions, which did at least as much."""
    failing = [one for one in evidence.versions if one.name in evidence.group.versions]
    older = [one for one in evidence.versions if failing and all(is_older(one, two) for two in failing)]
    return sum(evidence.group.succeeded_now.get(one.name, 0) for one in older) >= evidence.documents


def version_changed_a_part(evidence: Evidence) -> bool:
    """Return whether a part that worked before fails, and nothing outside can be the cause."""
    outside = evidence.needs and evidence.group.error_type not in USE_ERRORS
    return part_changed(evidence) and not outside


def is_of_the_text(evidence: Evidence) -> bool:
    """Return whether the error is about the form of what was read, and nothing but the document was."""
    wrong = evidence.kind in ("malformed", "permanent") and evidence.group.error_type not in PROGRAMMING_ERRORS
    return not evidence.needs and (wrong or names_a_format(evidence.group.error_type))


def recovered_under_others(evidence: Evidence) -> tuple[str, ...]:
    """Return the versions under which it goes well again, if the versions that failed have no part in that."""
    group = evidence.group
    again = [
        name
        for name, count in group.succeeded_now.items()
        if count > group.succeeded_at_last.get(name, 0) and evidence.after
    ]
    return () if not again or any(name in group.versions for name in again) else tuple(sorted(again))
