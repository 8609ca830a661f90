"""The probable cause of a failure group, and the findings that it rests on, as data.

Each cause is a contrast: documents that fail and that succeed, before and after, this version and that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from onward.recovery.evidence import Evidence, Version

MANY_TIMES = 3  # what fails while this many times as many succeed is not the program's or a dependency's fault
SEVERAL = 3  # different documents that fail one after the other, and none succeeds: that is not chance
MORE_LOAD = 3.0  # times as much to do as before: more than usual ups and downs
MANY = 5  # documents that fail alike, where nothing has ever succeeded: too many for an accident
ALONE = 2  # up to this many documents may each have a failure of their own, even one that looks like a network's
CHANCE = 0.01  # a version is not the cause if older ones had no such failure with a higher probability than this
PROGRAM_CHANCE = 0.1  # the same for an error of the program, which has a version for its cause more often
LEAST_SHARE = 0.03  # of its documents, for a version that also succeeds: less may as well be the documents
PROGRAMMING_ERRORS = frozenset(
    {
        *("AssertionError", "AttributeError", "ImportError", "IndexError", "KeyError", "ModuleNotFoundError"),
        *("NameError", "NotImplementedError", "RecursionError", "TypeError", "UnboundLocalError"),
        "ZeroDivisionError",
    }
)


# Errors of the program's own text: no document and no dependency can cause them.
LOCAL_ERRORS = frozenset(
    {
        *("ImportError", "IndentationError", "ModuleNotFoundError", "NameError", "NotImplementedError"),
        *("SyntaxError", "TemplateSyntaxError", "UnboundLocalError"),
    }
)
# Errors that a program makes with what it was given: a dependency may have answered something else.
USE_ERRORS = PROGRAMMING_ERRORS | {"ArithmeticError", "LookupError", "OverflowError", "ValidationError"}
FILE_ERRORS = frozenset(
    {
        "FileExistsError",
        "FileNotFoundError",
        "IsADirectoryError",
        "NotADirectoryError",
        "OSError",
        "PermissionError",
    }
)
# Parts of the names of errors that say that something read has not the form it should have.
FORMAT_ERRORS = (
    "BadGzip",
    "BadZip",
    "Decode",
    "Encoding",
    "Format",
    "Parse",
    "Syntax",
    "Unidentified",
    "Validation",
)
# Libraries that only compute, read and write: they ask no server.
LOCAL_LIBRARIES = frozenset(
    {
        *("PIL", "bs4", "docx", "jinja2", "jsonschema", "lxml", "mako", "markdown", "marshmallow", "msgspec"),
        *("numpy", "openpyxl", "orjson", "pandas", "polars", "pyarrow", "pydantic", "pydantic_core", "pypdf"),
        *("shapely", "tokenizers", "yaml"),
    }
)
TEMPLATE_LIBRARIES = frozenset({"jinja2", "mako"})
_NOT_KNOWN = re.compile(r"\b(?:404|405|501)\b|NOT_FOUND|UNIMPLEMENTED|NoSuch")  # an address, a method or a place
# A name that nobody knows, or no key at all: somebody has set the wrong thing.
_WRONG_SETTING = re.compile(
    r"name or service not known|getaddrinfo|nodename nor servname|failed to resolve|name resolution|not resolved"
    r"|NoCredentials|PartialCredentials|KeyError",
    re.IGNORECASE,
)
OWN_TIME_LIMIT = "HandlerTimeout"


class Cause(StrEnum):
    DEPENDENCY = "dependency"
    POISON = "poison document"
    BUG = "bug or bad deploy"
    OVERLOAD = "overload"
    UNCLEAR = "unclear"


class FindingKind(StrEnum):
    """The kind of a finding. The comment behind each kind lists the fields of `Finding` that it uses."""

    POINTS_AT = "points_at"  # count failures, total documents, names: dependency and, if inferred, the service
    ONE_OF = "one_of"  # names: dependencies
    BREAKER_OPENED = "breaker_opened"  # names: dependency; count openings; seconds of the last, None: still open
    LOAD_ROSE = "load_rose"  # count: how many times as much there was to do
    NOT_REACHED = "not_reached"  # count of total failures
    REFUSED = "refused"  # count of total failures
    REJECTED = "rejected"  # count of total failures
    LIBRARY = "library"  # names: package
    EVENTS_WAIT = "events_wait"  # count events
    RATE_LIMITED = "rate_limited"  # count of total failures
    TIMED_OUT = "timed_out"  # count of total failures
    RAN_OUT = "ran_out"  # count of total failures
    CRASHED = "crashed"  # count documents
    OTHERS_PROCESSED = "others_processed"  # count documents
    NONE_SINCE = "none_since"  # count documents
    NONE_EVER = "none_ever"  # names: service
    RECOVERED = "recovered"  # count documents of total
    RECOVERED_UNDER = "recovered_under"  # names: versions
    ONLY_THESE = "only_these"  # count documents, total tries
    DOCUMENTS_FAILED = "documents_failed"  # count documents, total failures
    SHARED_TRAIT = "shared_trait"  # names: field, value; count of total documents
    PART_CHANGED = "part_changed"  # names: field, value; count of total documents
    ROLLED_BACK = "rolled_back"  # names: newer versions
    NEW_VERSION = "new_version"  # names: the version, then the older ones; seconds until the first failure
    VERSION_FAILS = "version_fails"  # names: version; count documents that fail, total that succeed under it
    OLDER_SUCCEEDED = "older_succeeded"  # names: versions; count documents
    SAME_VERSION = "same_version"  # names: version
    WORKED_BEFORE = "worked_before"  # count documents
    PROGRAMMING_ERROR = "programming_error"  # names: error type, place
    SEVERAL_VERSIONS = "several_versions"  # names: versions
    FAILURE_KINDS = "failure_kinds"  # count failures, total documents, counts by kind
    NONE_AFFECTED = "none_affected"
    NO_OTHERS = "no_others"
    NOT_EVERY_TRY = "not_every_try"
    SOME_SUCCEED = "some_succeed"  # count documents that fail, total that succeed
    VERSION_NOT_RECORDED = "version_not_recorded"


@dataclass(frozen=True, slots=True)
class Finding:
    kind: FindingKind
    count: int = 0
    total: int = 0
    names: tuple[str, ...] = ()
    seconds: float | None = None
    counts: tuple[tuple[str, int], ...] = ()


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
        *(_unreadable, _lacking, _part, _own, _all_fail, _passing, _never_worked, _mixed),
    )
    for rule in rules:
        if (found := rule(evidence)) is not None:
            return Diagnosis(found[0], tuple(found[1]))
    return Diagnosis(Cause.UNCLEAR, tuple(_known(evidence)))


# -- the rules, in their order: each returns a cause with its findings, or None


def _crash(evidence: Evidence) -> Judgement | None:
    """A document that kills its process was alone in it at last; many of them are the program's."""
    if evidence.kind != "crash":
        return None
    found = [Finding(FindingKind.CRASHED, evidence.documents)]
    if (deploy := _deploy(evidence)) is not None:
        return Cause.BUG, found + deploy[1]
    if evidence.documents >= SEVERAL and not evidence.since:
        return Cause.BUG, [*found, *_what_succeeded(evidence)]
    return Cause.POISON, [*found, *_what_succeeded(evidence), *_traits(evidence)]


def _rate_limit(evidence: Evidence) -> Judgement | None:
    if evidence.kind != "rate_limited":
        return None
    found = [*_kinds(evidence), *_load(evidence), *_dependency(evidence), *_what_succeeded(evidence)]
    return Cause.OVERLOAD, found


def _deploy(evidence: Evidence) -> Judgement | None:
    """It began with a version, and those before it did the same work without it."""
    group = evidence.group
    new = next((version for version in evidence.versions if version.name in group.versions), None)
    if new is None:
        return None
    older = [one for one in evidence.versions if _is_older(one, new) and group.succeeded_now.get(one.name)]
    if not older:
        return None
    successes = sum(group.succeeded_now.get(one.name, 0) for one in older)
    failing = [name for name in group.versions if name in {version.name for version in evidence.versions}]
    good = sum(group.succeeded_now.get(name, 0) for name in failing)
    healed = good and not any(group.succeeded_before.get(name) for name in failing)
    healed = healed and evidence.recovered * 2 >= evidence.documents and evidence.during < evidence.documents
    if healed and not _recovered_under_others(evidence):
        return None  # all failed, and the same version does it again: it was something else
    meanwhile = sum(evidence.since_under(one.name) for one in older)
    silent = "timed out" in group.message.lower()
    outside = evidence.kind == "unavailable" or (evidence.kind in ("timeout", "unreached") and silent)
    outside = outside or (evidence.kind == "timeout" and bool(evidence.needs))
    if outside and meanwhile < SEVERAL and not _recovered_under_others(evidence):
        return None  # the new version has reached a server that has errors of its own, is slow, or does not answer
    if evidence.openings and evidence.kind in ("unreached", "refused") and meanwhile < SEVERAL:
        if len(group.versions) > 1 and not _recovered_under_others(evidence):
            return None  # several versions are refused, and none is served
        if not _recovered_under_others(evidence) and not _WRONG_SETTING.search(
            f"{group.error_type} {group.message}"
        ):
            return Cause.UNCLEAR, [*_dependency(evidence), *_kinds(evidence), *_what_succeeded(evidence)]
    if good:
        share = evidence.documents / (evidence.documents + good)
        first = sum(group.succeeded_before.get(name, 0) for name in failing)  # succeeded under it before the first
        if evidence.documents < SEVERAL or share < LEAST_SHARE or first * share > MANY_TIMES:
            return None
        chance = PROGRAM_CHANCE if group.error_type in PROGRAMMING_ERRORS else CHANCE
        if (1 - share) ** successes > chance or (evidence.traits and not _version_changed_a_part(evidence)):
            return None
    elif successes < MANY_TIMES and evidence.documents < SEVERAL:
        return None
    began = max(0.0, group.first_seen - new.first_seen)
    names = tuple(one.name for one in older)
    found = [
        Finding(FindingKind.NEW_VERSION, names=(new.name, *names), seconds=began),
        Finding(FindingKind.VERSION_FAILS, evidence.documents, good, (new.name,)),
        Finding(FindingKind.OLDER_SUCCEEDED, successes, names=names),
    ]
    return Cause.BUG, [*found, *_healing(evidence)]


def _local(evidence: Evidence) -> Judgement | None:
    """An import, a name or a syntax that is wrong wherever it is reached."""
    group = evidence.group
    module = group.error_type == "AttributeError" and group.message.startswith("module ")
    if group.error_type not in LOCAL_ERRORS and not module:
        return None
    return Cause.BUG, [*_failed(evidence), *_what_succeeded(evidence), *_healing(evidence)]


def _refusal(evidence: Evidence) -> Judgement | None:
    """Refused: a key, a certificate, an account; or documents that are not for us, while others are given."""
    if evidence.kind != "refused":
        return None
    outside = bool(evidence.needs or evidence.group.dependencies)
    many = evidence.since >= MANY_TIMES * evidence.documents
    if (
        many
        and _is_stuck(evidence)
        and (evidence.documents <= ALONE or not outside)
        and not _part_changed(evidence)
    ):
        return Cause.POISON, _only_these(evidence)
    outside = outside or _part_changed(evidence)
    if evidence.since and not evidence.recovered and evidence.during > evidence.documents and not outside:
        return None
    if not outside and evidence.documents <= ALONE and evidence.before:
        return (Cause.POISON, _only_these(evidence)) if evidence.before >= MANY_TIMES else None
    return Cause.DEPENDENCY, [*_dependency(evidence), *_kinds(evidence), *_what_succeeded(evidence)]


def _capacity(evidence: Evidence) -> Judgement | None:
    """Memory, space, connections or locks ran out; a document for which they never suffice is too large."""
    if evidence.kind != "capacity":
        return None
    large = any(trait.name == "size" for trait in evidence.traits)
    alone = evidence.documents <= ALONE and evidence.retried
    if (alone or large) and _is_stuck(evidence) and evidence.since >= MANY_TIMES * evidence.documents:
        return Cause.POISON, _only_these(evidence)
    found = [*_kinds(evidence), *_load(evidence), *_what_succeeded(evidence)]
    if evidence.load is None or _load_rose(evidence) or not _only_newer(evidence):
        return Cause.OVERLOAD, found
    # Not more was asked of it, and older versions never ran out: it may keep what it should give back.
    if _recovered_under_others(evidence):
        return Cause.BUG, [*found, *_healing(evidence)]
    return Cause.UNCLEAR, found


def _network(evidence: Evidence) -> Judgement | None:
    """A dependency was not reached, or has an error of its own: all of it, or the part for these documents."""
    if evidence.share("unavailable", "unreached", "refused") <= 0.5 or evidence.kind == "refused":
        return None
    many = evidence.since >= MANY_TIMES * evidence.documents
    outside = bool(evidence.needs or evidence.group.dependencies or _part_changed(evidence))
    own = _is_stuck(evidence) and not evidence.openings and not evidence.unreached_beside
    if many and own and evidence.retried and (evidence.documents <= ALONE or not outside):
        return Cause.POISON, _only_these(evidence)
    if own and evidence.since and evidence.documents <= ALONE and not (many and evidence.retried):
        return None  # too few to tell
    busy = evidence.slow_beside >= SEVERAL or (_load_rose(evidence) and not evidence.traits)
    if busy and evidence.during > evidence.documents and evidence.kind == "unavailable":
        return Cause.OVERLOAD, [*_kinds(evidence), *_load(evidence), *_what_succeeded(evidence)]
    return Cause.DEPENDENCY, [*_dependency(evidence), *_kinds(evidence), *_what_succeeded(evidence)]


def _timeout(evidence: Evidence) -> Judgement | None:
    """Too slow: these documents, if they always are; what is asked for too much; or a dependency that is stuck."""
    if evidence.kind != "timeout":
        return None
    many = evidence.since >= MANY_TIMES * evidence.documents
    large = any(trait.name == "size" for trait in evidence.traits)
    if many and _is_stuck(evidence) and evidence.retried and (evidence.documents <= ALONE or large):
        return Cause.POISON, _only_these(evidence)
    found = [*_kinds(evidence), *_load(evidence), *_what_succeeded(evidence)]
    stopped = not evidence.during and (evidence.documents >= SEVERAL or evidence.openings or not evidence.after)
    never = not evidence.before and not evidence.since
    if never and evidence.group.error_type == OWN_TIME_LIMIT and evidence.documents >= SEVERAL:
        return (Cause.BUG, found) if not evidence.needs else None
    if stopped and (evidence.needs or evidence.group.dependencies or evidence.group.library):
        return Cause.DEPENDENCY, [*_dependency(evidence), *found]
    return (Cause.OVERLOAD, found) if evidence.documents > 1 or evidence.recovered else None


def _unreadable(evidence: Evidence) -> Judgement | None:
    """A message of another program that no service could be found for: it is the message's own fault."""
    if evidence.kind != "malformed" or evidence.group.service:
        return None
    return Cause.POISON, [_failure_kinds(evidence)]


def _lacking(evidence: Evidence) -> Judgement | None:
    """The program looked up a value that only the failing documents have, and does not know it."""
    missing = evidence.group.message.strip("'\"") if evidence.group.error_type == "KeyError" else None
    if missing is None or missing not in {trait.value for trait in evidence.traits}:
        return None
    return Cause.BUG, [*_failed(evidence), *_what_succeeded(evidence), *_traits(evidence)]


def _part(evidence: Evidence) -> Judgement | None:
    """A part fails that worked before: since an older version is back, or since what it needs is down."""
    if not _part_changed(evidence) or not _is_stuck(evidence) or evidence.documents < SEVERAL:
        return None
    group = evidence.group
    found = [*_failed(evidence), *_what_succeeded(evidence), *_traits(evidence)]
    failing = [one for one in evidence.versions if one.name in group.versions]
    newer = [
        one.name
        for one in evidence.versions
        if failing and all(_is_older(two, one) for two in failing) and group.succeeded_before.get(one.name)
    ]
    if newer:
        return Cause.BUG, [Finding(FindingKind.ROLLED_BACK, names=tuple(newer)), *found]
    ours = group.library in LOCAL_LIBRARIES or group.error_type in USE_ERRORS or _names_a_format(group.error_type)
    if ours or not evidence.needs or evidence.kind != "transient":
        return None
    return Cause.DEPENDENCY, [*_dependency(evidence), *found]


def _own(evidence: Evidence) -> Judgement | None:
    """These documents fail in every try, while many times as many succeed."""
    if not _is_stuck(evidence):
        return None
    # Three or more in a row, with nothing in between, are no accident, unless they have something in common.
    block = evidence.documents + evidence.failing_beside >= SEVERAL and not evidence.during and evidence.before
    if block and not evidence.traits and (evidence.documents >= SEVERAL or not evidence.after):
        return None
    if _part_changed(evidence) and not _is_of_the_text(evidence):
        return None  # something about this part has changed: it may as well be a setting, or what it depends on
    same = sum(evidence.group.succeeded_before.get(name, 0) for name in evidence.group.versions)
    first = evidence.documents < SEVERAL and (_is_of_the_text(evidence) or not evidence.needs)
    compared = max(evidence.since, same) if first else evidence.since
    if compared < MANY_TIMES * evidence.documents:
        return None
    return Cause.POISON, _only_these(evidence)


def _all_fail(evidence: Evidence) -> Judgement | None:
    """It worked, and since a moment everything fails, or failed until another moment."""
    failing = evidence.documents + evidence.failing_beside
    if not evidence.before or failing < SEVERAL or evidence.during * 10 > failing or evidence.kind == "not_ready":
        return None
    found = [*_what_succeeded(evidence), *_healing(evidence), *_same_version(evidence)]
    group, outside = evidence.group, bool(evidence.needs or evidence.group.dependencies)
    # A dependency that rejects what it is sent works: we send the wrong thing.
    bug = Cause.BUG, [*_failed(evidence), *_kinds(evidence), *found]
    if _recovered_under_others(evidence):
        return bug
    if evidence.kind == "rejected":  # but what it does not know any more it may have lost
        return None if outside and _NOT_KNOWN.search(group.message) else bug
    if group.library in TEMPLATE_LIBRARIES:
        return bug
    if not outside:  # a file or a library may depend on something that the service does not name
        elsewhere = group.library and group.library not in LOCAL_LIBRARIES and group.error_type not in USE_ERRORS
        elsewhere = elsewhere or group.error_type in FILE_ERRORS
        return None if elsewhere else bug
    if (group.error_type in USE_ERRORS or group.library in LOCAL_LIBRARIES) and not evidence.openings:
        return None  # the dependency answers something else, or the program has met its own limit
    return Cause.DEPENDENCY, [*_dependency(evidence), *found]


def _passing(evidence: Evidence) -> Judgement | None:
    """Now and then it fails, the same documents succeed later: what is needed is busy, or does not always work."""
    outside = bool(evidence.needs or evidence.group.dependencies)
    few = evidence.documents < SEVERAL or evidence.recovered * 2 < evidence.documents
    if few or not outside or not evidence.during or evidence.kind != "transient":
        return None
    if evidence.group.error_type in (*USE_ERRORS, "ValueError") or evidence.group.library in LOCAL_LIBRARIES:
        return None
    if _load_rose(evidence):
        return Cause.OVERLOAD, [*_load(evidence), *_what_succeeded(evidence)]
    return Cause.DEPENDENCY, [*_dependency(evidence), *_what_succeeded(evidence)]


def _never_worked(evidence: Evidence) -> Judgement | None:
    """Nothing has ever succeeded: the program, if it says so itself, or if several documents fail alike."""
    if evidence.before or evidence.since or evidence.kind == "not_ready":
        return None
    program = evidence.group.error_type in PROGRAMMING_ERRORS
    if not program and (evidence.documents < MANY or evidence.needs or evidence.group.error_type in FILE_ERRORS):
        return None
    return Cause.BUG, [*_failed(evidence), Finding(FindingKind.NONE_EVER, names=(evidence.group.service,))]


def _mixed(evidence: Evidence) -> Judgement | None:
    """Some succeed, and not many times as many."""
    if evidence.documents < SEVERAL or not evidence.since or evidence.kind == "not_ready":
        return None
    some = Finding(FindingKind.SOME_SUCCEED, evidence.documents, evidence.since)
    if evidence.traits and _is_stuck(evidence) and (_is_of_the_text(evidence) or not _part_changed(evidence)):
        return Cause.POISON, [*_failed(evidence), some, *_traits(evidence)]
    if evidence.group.error_type in PROGRAMMING_ERRORS and _is_stuck(evidence) and evidence.during:
        return Cause.BUG, [*_failed(evidence), some]
    return None


# -- contrasts


def _is_older(version: Version, new: Version) -> bool:
    return version.first_seen < new.first_seen and version.name != new.name


def _is_stuck(evidence: Evidence) -> bool:
    """Return whether the documents fail in every try, and few have recovered."""
    return evidence.always and evidence.recovered * 2 < evidence.documents


def _part_changed(evidence: Evidence) -> bool:
    """Return whether those that fail belong to a part, such as a tenant, of which documents succeeded before."""
    return any(trait.changed for trait in evidence.traits)


def _load_rose(evidence: Evidence) -> bool:
    return evidence.load is not None and evidence.load >= MORE_LOAD


def _only_newer(evidence: Evidence) -> bool:
    """Return whether it never happened under older versions, which did at least as much."""
    failing = [one for one in evidence.versions if one.name in evidence.group.versions]
    older = [one for one in evidence.versions if failing and all(_is_older(one, two) for two in failing)]
    return sum(evidence.group.succeeded_now.get(one.name, 0) for one in older) >= evidence.documents


def _version_changed_a_part(evidence: Evidence) -> bool:
    """Return whether a part that worked before fails, and nothing outside can be the cause."""
    outside = evidence.needs and evidence.group.error_type not in USE_ERRORS
    return _part_changed(evidence) and not outside


def _is_of_the_text(evidence: Evidence) -> bool:
    """Return whether the error is about the form of what was read, and nothing but the document was."""
    wrong = evidence.kind in ("malformed", "permanent") and evidence.group.error_type not in PROGRAMMING_ERRORS
    return not evidence.needs and (wrong or _names_a_format(evidence.group.error_type))


def _names_a_format(error_type: str) -> bool:
    return any(part in error_type for part in FORMAT_ERRORS)


def _recovered_under_others(evidence: Evidence) -> tuple[str, ...]:
    """Return the versions under which it goes well again, if the versions that failed have no part in that."""
    group = evidence.group
    again = [
        name
        for name, count in group.succeeded_now.items()
        if count > group.succeeded_at_last.get(name, 0) and evidence.after
    ]
    return () if not again or any(name in group.versions for name in again) else tuple(sorted(again))


# -- findings


def _dependency(evidence: Evidence) -> Iterator[Finding]:
    group, names = evidence.group, evidence.suspects
    if len(names) > 1:
        yield Finding(FindingKind.ONE_OF, names=names)
    for name in names[:1] if len(names) == 1 else ():
        inferred = () if group.dependencies else (group.service,)
        yield Finding(FindingKind.POINTS_AT, group.failures, group.documents, (name, *inferred))
    for name in names:
        opened = [opening for opening in evidence.openings if opening.dependency == name]
        if opened:
            last = opened[-1]
            lasted = None if last.closed_at is None else last.closed_at - last.opened_at
            yield Finding(FindingKind.BREAKER_OPENED, len(opened), names=(name,), seconds=lasted)
    if group.library:
        yield Finding(FindingKind.LIBRARY, names=(group.library,))
    if evidence.waiting:
        yield Finding(FindingKind.EVENTS_WAIT, evidence.waiting)


def _kinds(evidence: Evidence) -> Iterator[Finding]:
    group = evidence.group
    named = {
        FindingKind.RATE_LIMITED: ("rate_limited",),
        FindingKind.REFUSED: ("refused",),
        FindingKind.REJECTED: ("rejected",),
        FindingKind.TIMED_OUT: ("timeout",),
        FindingKind.RAN_OUT: ("capacity",),
        FindingKind.NOT_REACHED: ("unavailable", "unreached"),
    }
    for finding, kinds in named.items():
        if count := sum(group.kinds.get(kind, 0) for kind in kinds):
            yield Finding(finding, count, group.failures)


def _load(evidence: Evidence) -> Iterator[Finding]:
    if evidence.load is not None and _load_rose(evidence):
        yield Finding(FindingKind.LOAD_ROSE, round(evidence.load))


def _what_succeeded(evidence: Evidence) -> Iterator[Finding]:
    if evidence.since:
        yield Finding(FindingKind.OTHERS_PROCESSED, evidence.since)
    elif evidence.before:
        yield Finding(FindingKind.WORKED_BEFORE, evidence.before)
        yield Finding(FindingKind.NONE_SINCE)
    else:
        yield Finding(FindingKind.NONE_EVER, names=(evidence.group.service,))
    if evidence.recovered and evidence.group.documents > 1:
        yield Finding(FindingKind.RECOVERED, evidence.recovered, evidence.documents)


def _healing(evidence: Evidence) -> Iterator[Finding]:
    if again := _recovered_under_others(evidence):
        yield Finding(FindingKind.RECOVERED_UNDER, names=again)


def _same_version(evidence: Evidence) -> Iterator[Finding]:
    both = [name for name in evidence.group.versions if evidence.group.succeeded_before.get(name)]
    if both:
        yield Finding(FindingKind.SAME_VERSION, names=(both[-1],))


def _only_these(evidence: Evidence) -> list[Finding]:
    tries = sum(total for _, total in evidence.outcomes)
    found = [Finding(FindingKind.ONLY_THESE, evidence.documents, tries)]
    return [*found, *_what_succeeded(evidence), *_traits(evidence)]


def _traits(evidence: Evidence) -> Iterator[Finding]:
    for trait in evidence.traits[:SEVERAL]:
        kind = FindingKind.PART_CHANGED if trait.changed else FindingKind.SHARED_TRAIT
        yield Finding(kind, trait.failing, trait.of_failing, (trait.name, trait.value))


def _failed(evidence: Evidence) -> Iterator[Finding]:
    group = evidence.group
    if group.documents:  # none, if the error was only reported
        yield Finding(FindingKind.DOCUMENTS_FAILED, group.documents, group.failures)
    if group.error_type in PROGRAMMING_ERRORS and group.place:
        yield Finding(FindingKind.PROGRAMMING_ERROR, names=(group.error_type, group.place))
    if len(group.versions) > 1:
        yield Finding(FindingKind.SEVERAL_VERSIONS, names=tuple(group.versions))


def _failure_kinds(evidence: Evidence) -> Finding:
    group = evidence.group
    kinds = tuple(sorted(group.kinds.items(), key=lambda kind: (-kind[1], kind[0])))
    return Finding(FindingKind.FAILURE_KINDS, group.failures, group.documents, counts=kinds)


def _known(evidence: Evidence) -> Iterator[Finding]:
    """Yield what is known where no cause follows from it."""
    group = evidence.group
    yield _failure_kinds(evidence)
    if not group.affected and not group.dead_letters:
        yield Finding(FindingKind.NONE_AFFECTED)
    elif not evidence.since:
        yield Finding(FindingKind.NO_OTHERS)
    else:
        yield Finding(FindingKind.SOME_SUCCEED, evidence.documents, evidence.since)
        if not evidence.always:
            yield Finding(FindingKind.NOT_EVERY_TRY)
    yield from _traits(evidence)
    if not group.versions:
        yield Finding(FindingKind.VERSION_NOT_RECORDED)
