"""Failure groups, and the facts of one with its diagnosis and evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from onward.app import App
from onward.model.ledger_views import FailureGroup
from onward.ops.text.diagnosis import diagnosis_sentences
from onward.ops.text.format import SHORT_ID, iso, one_line
from onward.recovery.diagnosis import Diagnosis, Evidence, Version, evidence_of, waiting_events
from onward.recovery.group_actions import affected
from onward.recovery.next_step import describe_error
from onward.retry.redact import redact

KNOWN = 1000
"""At most this many groups are read, the last seen first."""


def shortened(fingerprints: Sequence[str]) -> dict[str, str]:
    """Return the shortest prefixes that name fingerprints: 8 characters, or more where two begin the same."""
    length = SHORT_ID
    while length < 64 and len({fingerprint[:length] for fingerprint in fingerprints}) < len(set(fingerprints)):
        length += 4
    return {fingerprint: fingerprint[:length] for fingerprint in fingerprints}


def weight(group: FailureGroup) -> int:
    """Return how many documents or dead letters a group affects now."""
    return max(group.affected, group.dead_letters)


def error_text(group: FailureGroup, most: int) -> str:
    """Return the type and message of its last error on one line."""
    return one_line(redact(f"{group.error_type}: {group.message}"), most)


# -- lists


@dataclass(frozen=True, slots=True)
class FailureGroupPage:
    """A page of failure groups, what affects most documents first."""

    page: list[Evidence]
    total: int
    """How many there are on all pages."""
    hidden: int
    """How many more affect nothing any more, and were not asked for."""
    short: dict[str, str]
    """How much of each fingerprint names its group, of hidden ones too."""


def list_groups(
    app: App,
    *,
    service: str | None = None,
    since: float | None = None,
    everything: bool = False,
    limit: int | None = None,
    offset: int = 0,
) -> FailureGroupPage:
    """Return failure groups by service and time; with `everything`, also those that affect nothing now."""
    known = app.store.failure_groups(service=service, since=since, limit=KNOWN)
    waiting = waiting_events(app.store, known)
    weights = {group.fingerprint: max(weight(group), waiting.get(group.fingerprint, 0)) for group in known}
    found = sorted(known, key=lambda group: (-weights[group.fingerprint], -group.last_seen))
    left = [one for one in found if everything or weights[one.fingerprint]]
    page = left[offset:] if limit is None else left[offset : offset + limit]
    seen = [evidence_of(app.store, one) for one in page]
    return FailureGroupPage(seen, len(left), len(found) - len(left), shortened([one.fingerprint for one in known]))


# -- one of them


def group_facts(evidence: Evidence, diagnosis: Diagnosis) -> dict[str, Any]:
    """Return a failure group and its diagnosis, for programs."""
    group = evidence.group
    return asdict(group) | {
        "waiting": evidence.waiting,
        "message": redact(group.message),
        "traceback": redact(group.traceback),
        "first_seen": iso(group.first_seen),
        "last_seen": iso(group.last_seen),
        "verdict": {"kind": str(diagnosis.kind), "sentences": diagnosis_sentences(diagnosis)},
    }


def evidence_facts(app: App, evidence: Evidence, *, most: int | None = None) -> dict[str, Any]:
    """Return the evidence of a diagnosis, and at most `most` of the affected documents, for programs."""
    return {
        "needs": list(evidence.needs),
        "versions_at_work": [_version_facts(version) for version in evidence.versions],
        "openings": [
            asdict(opening) | {"opened_at": iso(opening.opened_at), "closed_at": iso(opening.closed_at)}
            for opening in evidence.openings
        ],
        "documents_now": [
            {
                "collection": one.collection,
                "id": one.id,
                "status": str(one.status),
                "error": describe_error(one.last_error),
            }
            for one in islice(affected(app.store, evidence.group.fingerprint), most)
        ],
    }


def _version_facts(version: Version) -> dict[str, Any]:
    return {"version": version.name, "first_seen": iso(version.first_seen), "last_seen": iso(version.last_seen)}
