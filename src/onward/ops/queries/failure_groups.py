"""Failure groups with their diagnosis and evidence; failed batches: documents that are retried together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any, NamedTuple

from onward.app import App
from onward.ledger.store import Store
from onward.model.documents import FINAL, Document, DocumentKey, DocumentState, Status
from onward.model.group_life import GroupState
from onward.model.group_rules import GroupRules
from onward.model.ledger import FailedBatch
from onward.model.ledger_views import FailureGroup
from onward.ops.bad_input import BadInput, NotFound
from onward.ops.lookup import PAGE, all_states, read_bodies
from onward.ops.queries.group_life import life_facts, state_of
from onward.ops.text.diagnosis import diagnosis_sentences
from onward.ops.text.format import SHORT_ID, counted, iso, number, one_line
from onward.recovery.diagnosis import Diagnosis
from onward.recovery.evidence import Evidence, EvidenceReader, waiting_events
from onward.recovery.next_step import NextSteps, describe_error
from onward.recovery.remedies import OwnRetries
from onward.recovery.retry_decision import RetryJobRules
from onward.retry.plain_data import plain_data
from onward.retry.redact import redact

MAX_STEPS_READ = 50  # affected documents whose next retry is looked up
KNOWN = 1000  # at most this many groups are read, the last seen first
_MAX_LEVELS = 10  # how far up a document's ancestors are looked for


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
    return one_line(redact(f"{group.error_type}: {group.message}".strip(": ")), most)


def find_group(app: App, given: str) -> FailureGroup:
    """Return the failure group with this fingerprint, or beginning of one, or that it was merged into."""
    given = given.strip()
    if given and (exact := app.store.failure_group(given)) is not None:
        return exact
    known = app.store.failure_groups(limit=KNOWN)
    found = [one for one in known if given and one.fingerprint.startswith(given.lower())]
    if given and not found and (merged := _merged(app, given.lower())):
        found = [one for one in known if one.fingerprint in merged]
    if len(found) == 1:
        return app.store.failure_group(found[0].fingerprint) or found[0]
    listed = sorted(found or known, key=lambda one: (-weight(one), -one.last_seen))
    short = shortened([one.fingerprint for one in known])
    lines = [f"  {short[one.fingerprint]}  {one.service}: {error_text(one, 60)}" for one in listed[:10]]
    lines += [f"  … and {number(len(listed) - 10)} more: onward failures list --all"] if len(listed) > 10 else []
    shown = one_line(given, 40)
    problem = f"there is no failure group {shown!r}. The known ones are:"
    if found:
        problem = f"{shown!r} begins {number(len(found))} failure groups; give more of one:"
    raise BadInput("\n".join([problem, *(lines or ["  (none: nothing has failed)"])]))


def group_with_fingerprint(app: App, fingerprint: str) -> FailureGroup | None:
    """Return the group with exactly this fingerprint, or that it was merged into."""
    return app.store.failure_group(fingerprint) or app.store.failure_group(
        GroupRules(app.store.group_rules()).merged_into(fingerprint)
    )


def _merged(app: App, given: str) -> set[str]:
    """Return the groups that those whose fingerprint begins so were merged into."""
    stored = app.store.group_rules()
    rules = GroupRules(stored)
    return {rules.merged_into(rule.group) for rule in stored if rule.by is None and rule.group.startswith(given)}


def fingerprint_of(app: App, given: str) -> str:
    """Return the fingerprint that was given in whole or in part; documents may have one without a group."""
    given = given.strip()
    return given if app.store.find_states(fingerprint=given, limit=1) else find_group(app, given).fingerprint


def affected(
    store: Store, fingerprint: str, after: DocumentKey = ("", ""), *, at_once: int = PAGE
) -> Iterator[DocumentState]:
    """Yield the unfinished documents whose last error is of this group, after a given one, page by page."""
    found = all_states(store, after, at_once, fingerprint=fingerprint)
    return (state for state in found if state.status not in (Status.PROCESSED, Status.DISCARDED))


class FailureGroupPage(NamedTuple):
    """A page of failure groups: regressions, then what affects most documents."""

    page: list[Evidence]
    total: int  # how many there are on all pages
    hidden: int  # how many more affect nothing any more, and were not asked for
    closed: int  # how many more are closed, and were not asked for
    short: dict[str, str]  # how much of each fingerprint names its group, of hidden ones too


def list_groups(
    app: App,
    *,
    service: str | None = None,
    since: float | None = None,
    everything: bool = False,
    state: GroupState | None = None,
    owner: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> FailureGroupPage:
    """Return failure groups by service, time, state and owner, with their evidence, as `select_groups` does."""
    found = select_groups(app, service=service, since=since, everything=everything, state=state, owner=owner)
    chosen = found.groups[offset : None if limit is None else offset + limit]
    page = EvidenceReader(app.store).of_all(chosen, found.known)
    return FailureGroupPage(page, len(found.groups), found.hidden, found.closed, found.short)


class SelectedGroups(NamedTuple):
    groups: list[FailureGroup]
    known: list[FailureGroup]  # all of this service, time and owner
    hidden: int
    closed: int
    short: dict[str, str]


def select_groups(
    app: App,
    *,
    service: str | None = None,
    since: float | None = None,
    everything: bool = False,
    state: GroupState | None = None,
    owner: str | None = None,
) -> SelectedGroups:
    """Return failure groups by service, time, state and owner; by default, those that need a person.

    With `everything`, also those that are closed, or affect nothing now. `closed` includes those whose fix is
    expected.
    """
    known = app.store.failure_groups(service=service, since=since, limit=KNOWN)
    short = shortened([one.fingerprint for one in known])
    if owner is not None:
        known = [one for one in known if one.life.owner.casefold() == owner.strip().casefold()]
    waiting, seen = waiting_events(app.store, known), app.store.first_seen_versions()
    weights = {group.fingerprint: max(weight(group), waiting.get(group.fingerprint, 0)) for group in known}
    states = {group.fingerprint: group.life.state(seen) for group in known}

    def order(group: FailureGroup) -> tuple[bool, int, float]:
        is_regression = states[group.fingerprint] is GroupState.REGRESSION
        return not is_regression, -weights[group.fingerprint], -group.last_seen

    def is_wanted(group: FailureGroup) -> bool:
        its, affects = states[group.fingerprint], weights[group.fingerprint] > 0
        if state is None:
            # A regression needs a person even if its documents have recovered.
            return everything or its is GroupState.REGRESSION or (affects and its is GroupState.OPEN)
        if state is GroupState.CLOSED and its is GroupState.FIX_EXPECTED:
            return True
        return its is state and (everything or affects or its is not GroupState.OPEN)

    found = sorted(known, key=order)
    left = [one for one in found if is_wanted(one)]
    closed = sum(one.life.closed for one in found) - sum(one.life.closed for one in left)
    hidden = len(found) - len(left) - closed if state is None else 0
    return SelectedGroups(left, known, hidden, closed if state is None else 0, short)


def group_facts(evidence: Evidence, diagnosis: Diagnosis) -> dict[str, Any]:
    group = evidence.group
    facts = asdict(group)
    del facts["life"]
    return facts | {
        **life_facts(group.life, state_of(evidence)),
        "context": plain_data(group.context, redact),
        "waiting": evidence.waiting,
        "message": redact(group.message),
        "traceback": redact(group.traceback),
        "first_seen": iso(group.first_seen),
        "last_seen": iso(group.last_seen),
        "verdict": {"kind": str(diagnosis.kind), "sentences": diagnosis_sentences(diagnosis, group.versions)},
    }


def own_retries(app: App, group: FailureGroup) -> OwnRetries:
    """Return how many affected documents are retried without anybody's help, and when the next one is."""
    statuses = app.store.group_statuses(group.fingerprint)
    count = sum(n for status, n in statuses.items() if status not in FINAL)
    if not count:
        return OwnRetries()
    steps = NextSteps(app.store, RetryJobRules.of(app.settings, app.store.subscriptions()))
    shown = islice(affected(app.store, group.fingerprint), MAX_STEPS_READ)
    times = [step.at for state in shown if state.status not in FINAL and (step := steps.of(state)).at is not None]
    return OwnRetries(count, min(times, default=None))


def context_text(group: FailureGroup) -> str:
    """Return the context of the last report, for people; empty if none was given."""
    return json.dumps(plain_data(group.context, redact), indent=2, ensure_ascii=False) if group.context else ""


def evidence_facts(app: App, evidence: Evidence, *, most: int | None = None) -> dict[str, Any]:
    """Return the evidence of a diagnosis, and at most `most` of the affected documents, for programs."""
    return {
        "needs": list(evidence.needs),
        "versions_at_work": [
            {"version": one.name, "first_seen": iso(one.first_seen), "last_seen": iso(one.last_seen)}
            for one in evidence.versions
        ],
        "openings": [
            asdict(opening) | {"opened_at": iso(opening.opened_at), "closed_at": iso(opening.closed_at)}
            for opening in evidence.openings
        ],
        "documents_now": [
            {"collection": one.collection, "id": one.id, "status": str(one.status)}
            | {"error": describe_error(one.last_error)}
            for one in islice(affected(app.store, evidence.group.fingerprint), most)
        ],
    }


# -- failed batches


def find_batch(app: App, id: str) -> FailedBatch:
    """Return the failed batch with this id, or beginning of an id."""
    found = [batch for batch in app.store.failed_batches() if id.strip() and batch.id.startswith(id.strip())]
    if not found:
        raise NotFound(f"no failed batch has an id that begins with {one_line(id)!r}; see `onward batches`")
    if len(found) > 1:
        begins = f"{one_line(id)!r} begins the ids of {counted(len(found), 'failed batch')}"
        raise NotFound("\n".join([f"{begins}; give more of one:", *(f"  {one.id}" for one in found[:10])]))
    return found[0]


def documents_in(chosen: Sequence[FailedBatch]) -> int:
    return sum(len(one.items) for one in chosen)


def batch_facts(app: App, batch: FailedBatch) -> dict[str, Any]:
    from onward.pipeline.documents import Archive, source_id

    project = source_id(batch.source) if batch.source is not None else None
    request = app.get(Archive, project) if project else None
    return {
        "id": batch.id,
        "service": batch.service,
        "task_id": Document.make_id("task", request.id, request.submission) if request else None,
        "project_id": project if request else None,
        "project_path": redact(batch.source) if batch.source else None,
        "failed_files": files_of(app, batch),
        "items": [id for _, id in batch.items],
        "errors": [
            {"timestamp": iso(error.get("timestamp")), "error": redact(str(error.get("error", "")))}
            for error in batch.errors
        ],
        "retry_count": batch.retry_count,
        "retry_after": iso(batch.retry_after),
        "created_at": iso(batch.created_at),
        "persistent": is_persistent(app, batch),
    }


def is_persistent(app: App, batch: FailedBatch) -> bool:
    """Return whether a batch has been retried so often that an operator should look at it."""
    return app.settings.ladder().failed_batch.persistent(batch.retry_count)


def files_of(app: App, batch: FailedBatch) -> list[str]:
    """Return the files that the items came from, sorted, by their paths in the source; without one, the source."""
    from onward.pipeline.documents import find_archives

    keys, roots = list(batch.items), set[DocumentKey]()
    for _ in range(_MAX_LEVELS):
        above: set[DocumentKey] = set()
        for state in app.store.states_of(keys):
            if state.parent:
                name, _, id = state.parent.partition("/")
                above.add((name, id))
            else:
                roots.add((state.collection, state.id))
        if not above:
            break
        keys = sorted(above)
    bodies = [body for _, body in read_bodies(app.store, roots)]
    # A message has no parent, but names its archive, which has the path, and the place that it was read from.
    named = {("archives", str(body["archive_id"])) for body in bodies if body.get("archive_id")}
    paths = {body.get("origin"): body.get("path") for _, body in read_bodies(app.store, named)}
    # An archive that was fetched again has another id.
    origins = sorted({str(body["origin"]) for body in bodies if body.get("origin")} - set(map(str, paths)))
    archives = [("archives", found.id) for found in find_archives(app.store, origins)] if origins else []
    paths |= {body.get("origin"): body.get("path") for _, body in read_bodies(app.store, archives)}
    files = (paths.get(str(body.get("origin"))) or body.get("path") or body.get("source") or "" for body in bodies)
    return sorted({redact(str(file)) for file in files} - {""})


def item_errors(app: App, items: Sequence[DocumentKey]) -> Iterator[tuple[str, str]]:
    for state in app.store.states_of(items):
        yield state.id, describe_error(state.last_error)
