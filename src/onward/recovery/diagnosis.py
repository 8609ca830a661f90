"""The probable cause of a failure group, and the findings that it rests on, as data.

Each cause is a contrast: documents that fail and that succeed, before and after, this version and that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from onward.model.failures import names_a_format
from onward.recovery import findings
from onward.recovery.contrasts import (
    is_of_the_text,
    is_older,
    is_stuck,
    load_is_same,
    load_rose,
    only_under_newer,
    part_changed,
    recovered_under_others,
    version_changed_a_part,
)
from onward.recovery.error_names import (
    LOCAL_ERRORS,
    LOCAL_LIBRARIES,
    OWN_TIME_LIMIT,
    PROGRAMMING_ERRORS,
    SYSTEM_ERRORS,
    TEMPLATE_LIBRARIES,
    USE_ERRORS,
    names_a_setting,
    names_something_unknown,
)
from onward.recovery.evidence import Evidence
from onward.recovery.findings import Finding, FindingKind
from onward.retry.library_errors import PLAIN, meaning_of

MANY_TIMES = 3  # what fails while this many times as many succeed is not the program's or a dependency's fault
SEVERAL = 3  # different documents that fail one after the other, and none succeeds: that is not chance
MANY = 5  # documents that fail alike, where nothing has ever succeeded: too many for an accident
ALONE = 2  # up to this many documents may each have a failure of their own, even one that looks like a network's
CHANCE = 0.01  # a version is not the cause if older ones had no such failure with a higher probability than this
PROGRAM_CHANCE = 0.1  # the same for an error of the program, which has a version for its cause more often
LEAST_SHARE = 0.03  # of its documents, for a version that also succeeds: less may as well be the documents


class Cause(StrEnum):
    DEPENDENCY = "dependency"
    POISON = "poison document"
    BUG = "bug or bad deploy"
    OVERLOAD = "overload"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    kind: Cause
    findings: tuple[Finding, ...]


Judgement = tuple[Cause, list[Finding]]
_Rule = Callable[[Evidence], Judgement | None]


def diagnose(evidence: Evidence) -> Diagnosis:
    """Return the first cause that the evidence supports."""
    rules: tuple[_Rule, ...] = (
        *(_crash, _rate_limit, _deploy, _local, _refusal, _capacity, _network, _timeout),
        *(_unreadable, _left_behind, _lacking, _part, _own, _all_fail, _passing, _never_worked, _mixed),
    )
    for rule in rules:
        if (found := rule(evidence)) is not None:
            return Diagnosis(found[0], tuple(found[1]))
    return Diagnosis(Cause.UNCLEAR, tuple(findings.known(evidence)))


# -- the rules, in their order: each returns a cause with its findings, or None


def _crash(evidence: Evidence) -> Judgement | None:
    """A document that kills its process was alone in it at last; many of them are the program's."""
    if evidence.kind != "crash":
        return None
    found = [Finding(FindingKind.CRASHED, evidence.documents)]
    if (deploy := _deploy(evidence)) is not None:
        return Cause.BUG, found + deploy[1]
    if evidence.documents >= SEVERAL and not evidence.since:
        return Cause.BUG, [*found, *findings.succeeded(evidence)]
    return Cause.POISON, [*found, *findings.succeeded(evidence), *findings.traits(evidence)]


def _rate_limit(evidence: Evidence) -> Judgement | None:
    if evidence.kind != "rate_limited":
        return None
    return Cause.OVERLOAD, [*findings.dependency(evidence), *findings.pressure(evidence)]


def _deploy(evidence: Evidence) -> Judgement | None:
    """It began with a version, and those before it did the same work without it."""
    group = evidence.group
    new = next((version for version in evidence.versions if version.name in group.versions), None)
    if new is None:
        return None
    older = [one for one in evidence.versions if is_older(one, new) and group.succeeded_now.get(one.name)]
    if not older:
        return None
    successes = sum(group.succeeded_now.get(one.name, 0) for one in older)
    failing = [name for name in group.versions if name in {version.name for version in evidence.versions}]
    good = sum(group.succeeded_now.get(name, 0) for name in failing)
    healed = good and not any(group.succeeded_before.get(name) for name in failing)
    healed = healed and evidence.recovered * 2 >= evidence.documents and evidence.during < evidence.documents
    if healed and not recovered_under_others(evidence):
        return None  # all failed, and the same version does it again: it was something else
    meanwhile = sum(evidence.since_under(one.name) for one in older)
    slow = "timed out" in group.message.lower() and evidence.kind in ("timeout", "unreached")
    slow = slow or (evidence.kind == "timeout" and bool(evidence.needs))
    if meanwhile < SEVERAL and not recovered_under_others(evidence):
        if evidence.kind == "unavailable" or (slow and good):
            return None  # the new version has reached a server that has errors of its own, or is slow
        if slow:  # a wrong address, a wrong time limit, or a server that has stopped at that moment
            return Cause.UNCLEAR, findings.trouble_outside(evidence)
    if good:
        share = evidence.documents / (evidence.documents + good)
        first = sum(group.succeeded_before.get(name, 0) for name in failing)  # succeeded under it before the first
        if evidence.documents < SEVERAL or share < LEAST_SHARE or first * share > MANY_TIMES:
            return None
        chance = PROGRAM_CHANCE if group.error_type in PROGRAMMING_ERRORS else CHANCE
        if (1 - share) ** successes > chance or (evidence.traits and not version_changed_a_part(evidence)):
            return None
    elif successes < MANY_TIMES and evidence.documents < SEVERAL:
        return None
    if evidence.kind in ("unreached", "refused") and evidence.openings and meanwhile < SEVERAL:
        if len(group.versions) > 1 and not recovered_under_others(evidence):
            return None  # several versions are refused, and none is served
        if not recovered_under_others(evidence) and not names_a_setting(group.error_type, group.message):
            return Cause.UNCLEAR, findings.trouble_outside(evidence)
    began = max(0.0, group.first_seen - new.first_seen)
    names = tuple(one.name for one in older)
    found = [
        Finding(FindingKind.NEW_VERSION, names=(new.name, *names), seconds=began),
        Finding(FindingKind.VERSION_FAILS, evidence.documents, good, (new.name,)),
        Finding(FindingKind.OLDER_SUCCEEDED, successes, names=names),
    ]
    return Cause.BUG, [*found, *findings.healing(evidence)]


def _local(evidence: Evidence) -> Judgement | None:
    """An import, a name or a syntax that is wrong wherever it is reached."""
    group = evidence.group
    module = group.error_type == "AttributeError" and group.message.startswith("module ")
    if group.error_type not in LOCAL_ERRORS and not module:
        return None
    return Cause.BUG, [*findings.failed(evidence), *findings.succeeded(evidence), *findings.healing(evidence)]


def _refusal(evidence: Evidence) -> Judgement | None:
    """Refused: a key, a certificate, an account; or documents that are not for us, while others are given."""
    if evidence.kind != "refused":
        return None
    outside = bool(evidence.needs or evidence.group.dependencies)
    many = evidence.since >= MANY_TIMES * evidence.documents
    if many and is_stuck(evidence) and (evidence.documents <= ALONE or not outside) and not part_changed(evidence):
        return Cause.POISON, findings.only_these(evidence)
    outside = outside or part_changed(evidence)
    if not evidence.before and not evidence.since and evidence.documents > 1:
        return None  # nothing was ever accepted: the access may be missing, or a setting wrong
    if evidence.during * 2 > evidence.documents and not evidence.traits:  # a key that is refused stays so
        if load_rose(evidence):
            return Cause.OVERLOAD, findings.pressure(evidence)
        if evidence.recovered * 2 >= evidence.documents:
            return Cause.UNCLEAR, findings.pressure(evidence)
    if evidence.since and not evidence.recovered and evidence.during > evidence.documents and not outside:
        return None
    if not outside and evidence.documents <= ALONE and evidence.before:
        return (Cause.POISON, findings.only_these(evidence)) if evidence.before >= MANY_TIMES else None
    return Cause.DEPENDENCY, findings.trouble_outside(evidence)


def _capacity(evidence: Evidence) -> Judgement | None:
    """Memory, space, connections or locks ran out; a document for which they never suffice is too large."""
    if evidence.kind != "capacity":
        return None
    large = any(trait.name == "size" for trait in evidence.traits)
    alone = evidence.documents <= ALONE and evidence.retried
    if (alone or large) and is_stuck(evidence) and evidence.since >= MANY_TIMES * evidence.documents:
        return Cause.POISON, findings.only_these(evidence)
    found = findings.pressure(evidence)
    if load_rose(evidence) or not only_under_newer(evidence):
        return Cause.OVERLOAD, found
    # Older versions never ran out, and not more was asked of this one: it may keep what it should give back.
    if recovered_under_others(evidence):
        return Cause.BUG, [*found, *findings.healing(evidence)]
    return Cause.UNCLEAR, found


def _network(evidence: Evidence) -> Judgement | None:
    """A dependency was not reached, or has an error of its own: all of it, or the part for these documents."""
    if evidence.share("unavailable", "unreached", "refused") <= 0.5 or evidence.kind == "refused":
        return None
    many = evidence.since >= MANY_TIMES * evidence.documents
    outside = bool(evidence.needs or evidence.group.dependencies or part_changed(evidence))
    own = is_stuck(evidence) and not evidence.openings and not evidence.unreached_beside
    if many and own and evidence.retried and (evidence.documents <= ALONE or not outside):
        return Cause.POISON, findings.only_these(evidence)
    if own and evidence.since and evidence.documents <= ALONE and not (many and evidence.retried):
        return None  # too few to tell
    slow = evidence.slow_beside >= SEVERAL and evidence.kind == "unavailable" and not load_is_same(evidence)
    if (slow or load_rose(evidence)) and not evidence.traits and evidence.during * 4 > evidence.documents:
        some = evidence.during > evidence.documents
        return (Cause.OVERLOAD if some else Cause.UNCLEAR), findings.pressure(evidence)
    return Cause.DEPENDENCY, findings.trouble_outside(evidence)


def _timeout(evidence: Evidence) -> Judgement | None:
    """Too slow: these documents, if they always are; what is asked for too much; or a dependency that is stuck."""
    if evidence.kind != "timeout":
        return None
    many = evidence.since >= MANY_TIMES * evidence.documents
    large = any(trait.name == "size" for trait in evidence.traits)
    if many and is_stuck(evidence) and evidence.retried and (evidence.documents <= ALONE or large):
        return Cause.POISON, findings.only_these(evidence)
    found = findings.pressure(evidence)
    stopped = not evidence.during and (evidence.documents >= SEVERAL or evidence.openings or not evidence.after)
    never = not evidence.before and not evidence.since
    if never and evidence.group.error_type == OWN_TIME_LIMIT and evidence.documents >= SEVERAL:
        return (Cause.BUG, found) if not evidence.needs else None
    if stopped and (evidence.needs or evidence.group.dependencies or evidence.group.library):
        return Cause.DEPENDENCY, [*findings.dependency(evidence), *found]
    if evidence.needs and load_is_same(evidence):  # not more was asked: it may as well be broken
        opened = bool(evidence.openings)
        return (Cause.DEPENDENCY, findings.trouble_outside(evidence)) if opened else (Cause.UNCLEAR, found)
    return (Cause.OVERLOAD, found) if evidence.documents > 1 or evidence.recovered else None


def _unreadable(evidence: Evidence) -> Judgement | None:
    """A message of another program that no service could be found for: it is the message's own fault."""
    if evidence.kind != "malformed" or evidence.group.service:
        return None
    return Cause.POISON, [findings.failure_kinds(evidence)]


def _left_behind(evidence: Evidence) -> Judgement | None:
    """Only machines with an older version fail, since a newer one runs beside them."""
    group = evidence.group
    failing = [one for one in evidence.versions if one.name in group.versions]
    newer = [
        one
        for one in evidence.versions
        if failing and all(is_older(two, one) for two in failing) and one.first_seen <= group.first_seen
    ]
    good = sum(evidence.since_under(one.name) for one in newer)
    if evidence.documents < SEVERAL or good < evidence.documents:
        return None
    names = tuple(one.name for one in newer)
    found = [Finding(FindingKind.NEWER_SUCCEEDED, good, names=names)]
    return Cause.BUG, [*findings.failed(evidence), *found, *findings.succeeded(evidence)]


def _lacking(evidence: Evidence) -> Judgement | None:
    """The program looked up a value that only the failing documents have, and does not know it."""
    missing = evidence.group.message.strip("'\"") if evidence.group.error_type == "KeyError" else None
    if missing is None or missing not in {trait.value for trait in evidence.traits}:
        return None
    return Cause.BUG, [*findings.failed(evidence), *findings.succeeded(evidence), *findings.traits(evidence)]


def _part(evidence: Evidence) -> Judgement | None:
    """A part fails that worked before: since an older version is back, or since what it needs is down."""
    if not part_changed(evidence) or not is_stuck(evidence) or evidence.documents < SEVERAL:
        return None
    group = evidence.group
    found = [*findings.failed(evidence), *findings.succeeded(evidence), *findings.traits(evidence)]
    failing = [one for one in evidence.versions if one.name in group.versions]
    newer = [
        one.name
        for one in evidence.versions
        if failing and all(is_older(two, one) for two in failing) and group.succeeded_before.get(one.name)
    ]
    if newer:
        return Cause.BUG, [Finding(FindingKind.ROLLED_BACK, names=tuple(newer)), *found]
    if group.library in TEMPLATE_LIBRARIES:
        return Cause.BUG, found
    ours = group.library in LOCAL_LIBRARIES or group.error_type in (*USE_ERRORS, "ValueError")
    ours = ours or names_a_format(group.error_type) or only_under_newer(evidence)
    if ours or not evidence.needs or evidence.kind != "transient":
        return None
    return Cause.DEPENDENCY, [*findings.dependency(evidence), *found]


def _own(evidence: Evidence) -> Judgement | None:
    """These documents fail in every try, while many times as many succeed."""
    if not is_stuck(evidence):
        return None
    # Three or more in a row, with nothing in between, are no accident, unless they have something in common.
    block = evidence.documents + evidence.failing_beside >= SEVERAL and not evidence.during and evidence.before
    if (
        block
        and not evidence.traits
        and not is_of_the_text(evidence)
        and (evidence.documents >= SEVERAL or not evidence.after)
    ):
        return None
    if part_changed(evidence) and not is_of_the_text(evidence):
        return None  # something about this part has changed: it may as well be a setting, or what it depends on
    same = sum(evidence.group.succeeded_before.get(name, 0) for name in evidence.group.versions)
    told = is_of_the_text(evidence) or evidence.kind == "rejected" or not evidence.needs
    first = evidence.documents < SEVERAL and told
    compared = max(evidence.since, same) if first else evidence.since
    if compared < MANY_TIMES * evidence.documents:
        return None
    return Cause.POISON, findings.only_these(evidence)


def _all_fail(evidence: Evidence) -> Judgement | None:
    """It worked, and since a moment everything fails, or failed until another moment."""
    failing = evidence.documents + evidence.failing_beside
    if not evidence.before or failing < SEVERAL or evidence.during * 10 > failing or evidence.kind == "not_ready":
        return None
    found = [*findings.succeeded(evidence), *findings.healing(evidence), *findings.same_version(evidence)]
    group, outside = evidence.group, bool(evidence.needs or evidence.group.dependencies)
    # A dependency that rejects what it is sent works: we send the wrong thing.
    bug = Cause.BUG, [*findings.failed(evidence), *findings.kinds(evidence), *found]
    if recovered_under_others(evidence):
        return bug
    if evidence.kind == "rejected":  # but what it does not know any more it may have lost, or not give us now
        lost = names_something_unknown(group.message) or meaning_of(group.message) != PLAIN
        return None if outside and lost else bug
    if group.library in TEMPLATE_LIBRARIES:
        return bug
    if not outside:  # a file or a library may depend on something that the service does not name
        elsewhere = group.library and group.library not in LOCAL_LIBRARIES and group.error_type not in USE_ERRORS
        elsewhere = elsewhere or group.error_type in SYSTEM_ERRORS
        return None if elsewhere else bug
    if (group.error_type in USE_ERRORS or group.library in LOCAL_LIBRARIES) and not evidence.openings:
        return None  # the dependency answers something else, or the program has met its own limit
    return Cause.DEPENDENCY, [*findings.dependency(evidence), *found]


def _passing(evidence: Evidence) -> Judgement | None:
    """Now and then it fails, the same documents succeed later: what is needed is busy, or does not always work."""
    outside = bool(evidence.needs or evidence.group.dependencies)
    few = evidence.documents < SEVERAL or evidence.recovered * 2 < evidence.documents
    if few or not outside or not evidence.during or evidence.kind != "transient":
        return None
    if recovered_under_others(evidence):
        return None  # a version has ended it
    if evidence.group.error_type in (*USE_ERRORS, "ValueError") or evidence.group.library in LOCAL_LIBRARIES:
        return None
    if load_rose(evidence):
        return Cause.OVERLOAD, [*findings.load(evidence), *findings.succeeded(evidence)]
    if load_is_same(evidence):
        return Cause.DEPENDENCY, [*findings.dependency(evidence), *findings.succeeded(evidence)]
    return None


def _never_worked(evidence: Evidence) -> Judgement | None:
    """Nothing has ever succeeded: the program, if it says so itself, or if several documents fail alike."""
    if evidence.before or evidence.since or evidence.kind == "not_ready":
        return None
    program = evidence.group.error_type in PROGRAMMING_ERRORS
    if not program and (evidence.documents < MANY or evidence.needs or evidence.group.error_type in SYSTEM_ERRORS):
        return None
    return Cause.BUG, [*findings.failed(evidence), Finding(FindingKind.NONE_EVER, names=(evidence.group.service,))]


def _mixed(evidence: Evidence) -> Judgement | None:
    """Some succeed, and not many times as many."""
    if evidence.documents < SEVERAL or not evidence.since or evidence.kind == "not_ready":
        return None
    some = Finding(FindingKind.SOME_SUCCEED, evidence.documents, evidence.since)
    if evidence.traits and is_stuck(evidence) and (is_of_the_text(evidence) or not part_changed(evidence)):
        return Cause.POISON, [*findings.failed(evidence), some, *findings.traits(evidence)]
    outside = evidence.needs and not evidence.during  # it may have passed by itself, as an outage does
    if evidence.group.error_type in PROGRAMMING_ERRORS and is_stuck(evidence) and not outside:
        return Cause.BUG, [*findings.failed(evidence), some]
    return None
