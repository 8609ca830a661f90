"""A diagnosis in sentences, and its remedies as text and commands."""

from __future__ import annotations

from collections.abc import Sequence

from onward.ops.text.format import counted, whole_duration
from onward.recovery.diagnosis import SEVERAL, Diagnosis, Finding, Remedy, RemedyKind
from onward.recovery.diagnosis import FindingKind as Kind

_SENTENCES = {
    Kind.NOT_REACHED: "It was not reached or could not respond in {of_failures}.",
    Kind.RATE_LIMITED: "It was refused for too many requests in {of_failures}.",
    Kind.TIMED_OUT: "It took too long in {of_failures}.",
    Kind.NOT_THE_DOCUMENTS: "{documents} failed this way, so the documents are not the cause.",
    Kind.DOCUMENTS_FAILED: "{documents} failed this way, {times} in all.",
    Kind.WORKED_BEFORE: "Before it began, {documents} succeeded.",
    Kind.PROGRAMMING_ERROR: "{names[0]} is an error of the program, and all of them come from {names[1]}.",
    Kind.OLDER_VERSIONS_TOO: "It happens under {versions}: an older one would not help.",
    Kind.NONE_AFFECTED: "None of them fails any more.",
    Kind.SEVERAL_DEPENDENCIES: "They point at several dependencies: {listed}.",
    Kind.PARTLY_NAMED: "Only {of_failures} name {names[0]}.",
    Kind.SERVICE_NEEDS_SEVERAL: "The service needs {joined}, and no failure says which one it was.",
    Kind.NO_DEPENDENCY: "The service {names[0]} declares no dependency that they could point at.",
    Kind.NOT_EVERY_TRY: "It did not fail in every try, so the document alone is not the cause.",
    Kind.BETWEEN: "{documents} are too many for chance and too few for a bug.",
    Kind.LOOK_FOR_COMMON: "Look for what those that fail have in common.",
    Kind.VERSION_NOT_RECORDED: "The version of the workers was not recorded, so nothing can be compared.",
    Kind.ONLY_VERSION: "Only version {names[0]} has ever run: nothing can be compared with it.",
    Kind.NO_NEW_VERSION: "It happens under {versions}, so it did not come with a newer one.",
}
_REMEDIES = {
    RemedyKind.NONE_NEEDED: "Nothing: it affects nothing any more.",
    RemedyKind.SHOW_EXAMPLE: "look at one",
    RemedyKind.SHOW_BREAKERS: "see whether it is down",
    RemedyKind.RETRY_WHEN_BACK: "when it is back",
    RemedyKind.RETRY_SLOWLY: "put it back slowly",
    RemedyKind.RETRY_WHEN_FIXED: "when it is fixed and deployed",
    RemedyKind.RETRY_ONCE: "try it once more",
    RemedyKind.RETRY_FEW: "try a few of them",
    RemedyKind.DISCARD: "give it up for good",
}


def diagnosis_sentences(diagnosis: Diagnosis) -> list[str]:
    return [_sentence(finding) for finding in diagnosis.findings]


def _sentence(finding: Finding) -> str:
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
        case Kind.NO_OTHERS:
            why = f"the service {names[0]} finishes no documents" if names else "none was processed since it began"
            return f"Whether other documents are processed would show if it is this document or all: {why}."
        case Kind.VERSION_FORGOTTEN:
            unknown = "is" if len(names) == 1 else "are"
            return f"{_versions(names).capitalize()} {unknown} not stored any more, so nothing can be compared."
    return _SENTENCES[finding.kind].format(
        documents=documents,
        of_failures=f"{count} of {counted(total, 'failure')}",
        times=counted(total, "time"),
        names=names,
        listed=", ".join(names),
        joined=" and ".join(names),
        versions=_versions(names),
    )


def _versions(names: Sequence[str]) -> str:
    shown = names if len(names) <= SEVERAL else [*names[:SEVERAL], f"{len(names) - SEVERAL} more"]
    return f"version{'s' if len(names) > 1 else ''} {' and '.join(shown)}"


def remedy_text(remedy: Remedy) -> str:
    """Return when or why to apply a remedy."""
    if remedy.kind is RemedyKind.WAIT:
        return f"Nothing: waiting events go on by themselves when {remedy.dependency} is back."
    return _REMEDIES[remedy.kind]


def remedy_command(remedy: Remedy, fingerprint: str, example: str) -> str:
    """Return the command of a remedy; `example` is the command that shows one affected document or dead letter."""
    match remedy.kind:
        case RemedyKind.NONE_NEEDED | RemedyKind.WAIT:
            return ""
        case RemedyKind.SHOW_EXAMPLE:
            return example
        case RemedyKind.SHOW_BREAKERS:
            return "onward breakers"
        case RemedyKind.DISCARD:
            return f"onward failures discard {fingerprint} --confirm"
    canary = f" --canary {remedy.canary}" if remedy.canary else ""
    rate = f" --rate {remedy.rate:g}" if remedy.rate else ""
    return f"onward failures retry {fingerprint}{canary}{rate}"
