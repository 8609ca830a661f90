"""A diagnosis in sentences, and its remedies as text and commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onward.ops.text.format import counted, one_line, whole_duration
from onward.recovery.diagnosis import SEVERAL, Diagnosis
from onward.recovery.findings import Finding
from onward.recovery.findings import FindingKind as Kind
from onward.recovery.remedies import Remedy, RemedyKind
from onward.retry.redact import redact

_SENTENCES = {
    Kind.ONE_OF: "The failures do not say which of them it was: {either}.",
    Kind.NOT_REACHED: "It was not reached or could not respond in {of_failures}.",
    Kind.REJECTED: "It works, and rejected what it was sent, in {of_failures}.",
    Kind.REFUSED: "It refused the call in {of_failures}.",
    Kind.LIBRARY: "The error came from the package {names[0]}.",
    Kind.RATE_LIMITED: "It was refused for too many requests in {of_failures}.",
    Kind.TIMED_OUT: "It took too long in {of_failures}.",
    Kind.RAN_OUT: "Memory, disk space, file handles, connections or locks ran out in {of_failures}.",
    Kind.NONE_SINCE: "Since it began, nothing of the service has succeeded.",
    Kind.NONE_EVER: "Nothing of the service {names[0]} has ever succeeded.",
    Kind.DOCUMENTS_FAILED: "{documents} failed this way, {times} in all.",
    Kind.WORKED_BEFORE: "Before it began, {documents} succeeded.",
    Kind.RECOVERED_UNDER: "It works again since another version runs: {versions}.",
    Kind.SHARED_TRAIT: "{count} of {total} that fail, and nearly none that succeed, share: {names[0]} = {value}.",
    Kind.PART_CHANGED: (
        "{count} of {total} that fail share: {names[0]} = {value}. Such ones succeeded before, and none since."
    ),
    Kind.LOAD_ROSE: "When it began, the service had {count} times as much to do as before.",
    Kind.ROLLED_BACK: "A newer version ran before: {versions}. What it wrote, an older one may not read.",
    Kind.OLDER_SUCCEEDED: "Under {versions}, {documents} succeeded, and none failed this way.",
    Kind.NEWER_SUCCEEDED: "Since then, under the newer {versions}, {documents} succeeded, and none failed so.",
    Kind.SAME_VERSION: "The same version, {names[0]}, worked before.",
    Kind.PROGRAMMING_ERROR: "{names[0]} is an error of the program, and the last one came from {names[1]}.",
    Kind.SEVERAL_VERSIONS: "It happens under {versions}.",
    Kind.NONE_AFFECTED: "None of them fails any more.",
    Kind.NO_OTHERS: "Nothing else has succeeded since, so it is not known whether all would fail.",
    Kind.NOT_EVERY_TRY: "The documents also failed in other ways, or some have succeeded.",
    Kind.SOME_SUCCEED: "Since it began, {documents} failed this way, and {successes} of the service succeeded.",
    Kind.VERSION_NOT_RECORDED: "The version of the workers was not recorded, so versions cannot be compared.",
}
_REMEDIES = {
    RemedyKind.NONE_NEEDED: "Nothing: it affects nothing any more.",
    RemedyKind.SHOW_EXAMPLE: "look at one",
    RemedyKind.SHOW_BREAKERS: "see whether it is down",
    RemedyKind.RETRY_WHEN_BACK: "when it works again",
    RemedyKind.RETRY_SLOWLY: "put it back slowly",
    RemedyKind.CLOSE: "say which version has the fix",
    RemedyKind.RETRY_WHEN_FIXED: "when it is deployed",
    RemedyKind.RETRY_ONCE: "try it once more",
    RemedyKind.RETRY_FEW: "try a few of them",
    RemedyKind.DISCARD: "give it up for good",
}


def diagnosis_sentences(diagnosis: Diagnosis, failing: Iterable[str] = ()) -> list[str]:
    """Return the findings as sentences; `failing` are the versions under which the group failed."""
    # Documents whose events wait for their dependency do not fail, but have not recovered either.
    waits = any(finding.kind is Kind.EVENTS_WAIT for finding in diagnosis.findings)
    found = [one for one in diagnosis.findings if not (waits and one.kind is Kind.RECOVERED)]
    return [_sentence(finding, list(failing)) for finding in found]


def _sentence(finding: Finding, failing: Sequence[str]) -> str:
    count, total, names = finding.count, finding.total, finding.names
    documents = counted(count, "document")
    match finding.kind:
        case Kind.POINTS_AT:
            many = f"All {count} failures point" if count > 1 else "The only failure points"
            where = f", on {counted(total, 'document')}" if total else ""
            only = f", as the service {names[1]} needs nothing else" if len(names) > 1 else ""
            return f"{many} at {names[0]}{where}{only}."
        case Kind.BREAKER_OPENED:
            often = "" if count == 1 else f" {count} times"
            lasted = "and is still open"
            if finding.seconds is not None:
                lasted = f"{'' if count == 1 else 'the last time '}for {whole_duration(finding.seconds)}"
            return f"The breaker of {names[0]} opened{often} in that time, {lasted}."
        case Kind.EVENTS_WAIT:
            return f"{count} {'event waits, and loses' if count == 1 else 'events wait, and lose'} no tries."
        case Kind.OTHERS_PROCESSED:
            others = f"{counted(count, 'other')} of the same service {'has' if count == 1 else 'have'}"
            return f"Since it began, {others} been processed."
        case Kind.ONLY_THESE:
            only = f"Only {documents} {'fails' if count == 1 else 'fail'} this way"
            return f"{only}, and in every one of {total} tries." if total > 1 else f"{only}, in the only try."
        case Kind.NEW_VERSION:
            began = finding.seconds or 0.0
            after = "as soon as" if began < 1 else f"{whole_duration(began)} after"
            older = _versions(names[1:])
            return f"It began {after} version {names[0]} appeared, and never happened under {older}."
        case Kind.FAILURE_KINDS:
            kinds = ", ".join(f"{number} {kind.replace('_', ' ')}" for kind, number in finding.counts)
            failures = f"{counted(count, 'failure')} of {counted(total, 'document')}"
            return f"{failures}: {kinds or 'of no known kind'}."
        case Kind.CRASHED:
            what = "The document" if count == 1 else f"Each of the {count} documents"
            return f"{what} ended its process again and again, the last time alone in it."
        case Kind.RECOVERED:
            return f"{count} of the {total} documents {'has' if count == 1 else 'have'} recovered since."
        case Kind.VERSION_FAILS:
            good = f"{counted(total, 'other')} succeeded" if total else "nothing has succeeded"
            under = _versions(failing if names[0] in failing else names)
            return f"Under {under}, {documents} failed this way, and {good}."
    return _SENTENCES[finding.kind].format(
        documents=documents,
        of_failures=f"{count} of {counted(total, 'failure')}",
        times=counted(total, "time"),
        names=names,
        either=" or ".join(names),
        value=(names[1] or "(none)") if len(names) > 1 else "",
        successes=total,
        count=count,
        total=total,
        versions=_versions(names),
    )


def _versions(names: Sequence[str]) -> str:
    shown = names if len(names) <= SEVERAL else [*names[:SEVERAL], f"{len(names) - SEVERAL} more"]
    return f"version{'s' if len(names) > 1 else ''} {' and '.join(shown)}"


def remedy_text(remedy: Remedy, now: float) -> str:
    """Return when or why to apply a remedy."""
    if remedy.kind is RemedyKind.CHANGE_ACCESS:
        return redact(remedy.text)
    if remedy.kind is RemedyKind.RETRIED_ANYWAY:
        soon = remedy.at is None or remedy.at <= now
        when = "now" if soon else f"in {whole_duration((remedy.at or now) - now)}"
        one = remedy.count == 1
        who = "One is" if one else f"{remedy.count} are"
        return f"{who} retried without your help, {'' if one else 'the first '}{when}."
    if remedy.kind is RemedyKind.CLOSE and remedy.again:
        return "roll back, or fix it again and say which version has the fix"
    if remedy.kind is RemedyKind.RETRY_WHEN_FIXED and remedy.version:
        fixed_in = one_line(redact(remedy.version), 40)
        seen = f"{fixed_in} runs, which has the fix"
        return seen if remedy.ready else f"when {fixed_in} runs (no worker of it was seen yet)"
    if remedy.kind is RemedyKind.RETRY_WHEN_FIXED and remedy.ready:
        return "it is fixed"
    if remedy.kind is RemedyKind.WAIT:
        return f"Nothing: waiting events go on by themselves when {remedy.dependency} is back."
    return _REMEDIES[remedy.kind]


def remedy_command(remedy: Remedy, fingerprint: str, example: str) -> str:
    """Return the command of a remedy; `example` is the command that shows one affected document or dead letter."""
    match remedy.kind:
        case RemedyKind.NONE_NEEDED | RemedyKind.WAIT | RemedyKind.RETRIED_ANYWAY | RemedyKind.CHANGE_ACCESS:
            return ""
        case RemedyKind.SHOW_EXAMPLE:
            return example
        case RemedyKind.SHOW_BREAKERS:
            return "onward breakers"
        case RemedyKind.CLOSE:
            return f"onward failures fixed {fingerprint} --in VERSION"
        case RemedyKind.DISCARD:
            return f"onward failures discard {fingerprint} --confirm"
    canary = " --canary" if remedy.growing else f" --canary {remedy.canary}" if remedy.canary else ""
    rate = f" --rate {remedy.rate:g}" if remedy.rate else ""
    return f"onward failures retry {fingerprint}{canary}{rate}"
