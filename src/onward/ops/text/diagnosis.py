"""The diagnosis of a failure group as sentences, and its remedies as sentences and commands."""

from __future__ import annotations

from collections.abc import Sequence

from onward.ops.queries.remedies import Remedy, RemedyKind
from onward.ops.text.format import counted, whole_duration
from onward.recovery.diagnosis import SEVERAL, Diagnosis, Finding, FindingKind


def diagnosis_sentences(diagnosis: Diagnosis) -> list[str]:
    """Return the findings of a diagnosis, a sentence each."""
    return [finding_sentence(finding) for finding in diagnosis.findings]


def finding_sentence(finding: Finding) -> str:
    """Return a finding as a sentence."""
    count, total, names = finding.count, finding.total, finding.names
    documents = counted(count, "document")
    of_failures = f"{count} of {counted(total, 'failure')}"
    match finding.kind:
        case FindingKind.POINTS_AT:
            many = f"All {count} failures point" if count > 1 else "The only failure points"
            where = f", on {counted(total, 'document')}" if total else ""
            only = f", as the service {names[1]} needs nothing else" if len(names) > 1 else ""
            return f"{many} at {names[0]}{where}{only}."
        case FindingKind.BREAKER_OPENED:
            return f"The breaker of {names[0]} {_opened(count, finding.seconds)}."
        case FindingKind.NOT_REACHED:
            return f"It was not reached or could not respond in {of_failures}."
        case FindingKind.EVENTS_WAIT:
            return f"{count} {'event waits, and loses' if count == 1 else 'events wait, and lose'} no tries."
        case FindingKind.RATE_LIMITED:
            return f"It was refused for too many requests in {of_failures}."
        case FindingKind.TIMED_OUT:
            return f"It took too long in {of_failures}."
        case FindingKind.NOT_THE_DOCUMENTS:
            return f"{documents} failed this way, so the documents are not the cause."
        case FindingKind.OTHERS_PROCESSED:
            others = f"{counted(count, 'other')} of the same service {'has' if count == 1 else 'have'}"
            return f"Since it began, {others} been processed."
        case FindingKind.ONLY_THESE:
            only = f"Only {documents} {'fails' if count == 1 else 'fail'} this way"
            return f"{only}, and in every one of {total} tries." if total > 1 else f"{only}, in the only try."
        case FindingKind.DOCUMENTS_FAILED:
            return f"{documents} failed this way, {counted(total, 'time')} in all."
        case FindingKind.NEW_VERSION:
            began = finding.seconds or 0.0
            after = "as soon as" if began < 1 else f"{whole_duration(began)} after"
            return (
                f"It began {after} version {names[0]} appeared, and never happened under {_versions(names[1:])}."
            )
        case FindingKind.WORKED_BEFORE:
            return f"Before it began, {documents} succeeded."
        case FindingKind.PROGRAMMING_ERROR:
            return f"{names[0]} is an error of the program, and all of them come from {names[1]}."
        case FindingKind.OLDER_VERSIONS_TOO:
            return f"It happens under {_versions(names)}: an older one would not help."
        case FindingKind.FAILURE_KINDS:
            kinds = ", ".join(f"{number} {kind.replace('_', ' ')}" for kind, number in finding.counts)
            failures = f"{counted(count, 'failure')} of {counted(total, 'document')}"
            return f"{failures}: {kinds or 'of no known kind'}."
        case FindingKind.NONE_AFFECTED:
            return "None of them fails any more."
        case FindingKind.SEVERAL_DEPENDENCIES:
            return f"They point at several dependencies: {', '.join(names)}."
        case FindingKind.PARTLY_NAMED:
            return f"Only {of_failures} name {names[0]}."
        case FindingKind.SERVICE_NEEDS_SEVERAL:
            return f"The service needs {' and '.join(names)}, and no failure says which one it was."
        case FindingKind.NO_DEPENDENCY:
            return f"The service {names[0]} declares no dependency that they could point at."
        case FindingKind.NO_OTHERS:
            why = f"the service {names[0]} finishes no documents" if names else "none was processed since it began"
            return f"Whether other documents are processed would show if it is this document or all: {why}."
        case FindingKind.NOT_EVERY_TRY:
            return "It did not fail in every try, so the document alone is not the cause."
        case FindingKind.BETWEEN:
            return f"{documents} are too many for chance and too few for a bug."
        case FindingKind.LOOK_FOR_COMMON:
            return "Look for what those that fail have in common."
        case FindingKind.VERSION_FORGOTTEN:
            unknown = "is" if len(names) == 1 else "are"
            return f"{_versions(names).capitalize()} {unknown} not stored any more, so nothing can be compared."
        case FindingKind.VERSION_NOT_RECORDED:
            return "The version of the workers was not recorded, so nothing can be compared."
        case FindingKind.ONLY_VERSION:
            return f"Only version {names[0]} has ever run: nothing can be compared with it."
        case FindingKind.NO_NEW_VERSION:
            return f"It happens under {_versions(names)}, so it did not come with a newer one."


def _opened(count: int, seconds: float | None) -> str:
    often = "opened in that time" if count == 1 else f"opened {count} times in that time"
    if seconds is None:
        return f"{often}, and is still open"
    lasted = whole_duration(seconds)
    return f"{often}, for {lasted}" if count == 1 else f"{often}, the last time for {lasted}"


def _versions(names: Sequence[str]) -> str:
    shown = names if len(names) <= SEVERAL else [*names[:SEVERAL], f"{len(names) - SEVERAL} more"]
    return f"version{'s' if len(names) > 1 else ''} {' and '.join(shown)}"


# -- what to do


def remedy_sentence(remedy: Remedy) -> str:
    """Return when or why to apply a remedy."""
    match remedy.kind:
        case RemedyKind.NONE_NEEDED:
            return "Nothing: it affects nothing any more."
        case RemedyKind.WAIT:
            return f"Nothing: waiting events go on by themselves when {remedy.dependency} is back."
        case RemedyKind.SHOW_BREAKERS:
            return "see whether it is down"
        case RemedyKind.SHOW_EXAMPLE:
            return "look at one"
        case RemedyKind.RETRY_WHEN_BACK:
            return "when it is back"
        case RemedyKind.RETRY_SLOWLY:
            return "put it back slowly"
        case RemedyKind.RETRY_WHEN_FIXED:
            return "when it is fixed and deployed"
        case RemedyKind.RETRY_ONCE:
            return "try it once more"
        case RemedyKind.RETRY_FEW:
            return "try a few of them"
        case RemedyKind.DISCARD:
            return "give it up for good"


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
