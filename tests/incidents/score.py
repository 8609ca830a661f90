"""Score the verdicts on the staged incidents: `python -m tests.incidents.score [SET | NAME …]`.

Prints a confusion table, what was judged wrong or unclear with the sentences of the verdict, and the causes that
were split into several failure groups or merged into one.
"""

from __future__ import annotations

import importlib
import logging
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.incidents.staging import INCIDENTS, CauseResult, Incident, IncidentResult
from tests.support.store_template import copied_stores

SETS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh")
"""The folders of incidents: the rules were first written with those of the first one."""
LABELS = ("dependency", "overload", "poison document", "bug or bad deploy", "unclear")


def incidents() -> list[Incident]:
    """Return all staged incidents."""
    for path in sorted(Path(__file__).parent.glob("*/*.py")):
        importlib.import_module(f"tests.incidents.{path.parent.name}.{path.stem}")
    return INCIDENTS


def count(causes: Sequence[CauseResult]) -> tuple[int, int, int]:
    """Return how many verdicts are right, wrong and unclear."""
    right = sum(cause.verdict == cause.label for cause in causes)
    wrong = sum(cause.verdict not in (cause.label, "unclear", "none") for cause in causes)
    return right, wrong, sum(cause.verdict == "unclear" != cause.label for cause in causes)


def table(causes: Sequence[CauseResult]) -> str:
    """Return the confusion table: a row for each label, a column for each verdict."""
    counts = Counter[tuple[str, str]]((cause.label, cause.verdict) for cause in causes)
    columns = [*LABELS, "none"] if any(verdict == "none" for _, verdict in counts) else [*LABELS]
    lines = [f"{'label':18}" + "".join(f"{name:>19}" for name in columns) + f"{'causes':>8}{'right':>8}"]
    for label in LABELS:
        total = sum(count for (one, _), count in counts.items() if one == label)
        cells = "".join(f"{counts[label, name] or '·':>19}" for name in columns)
        share = f"{counts[label, label] / total:.0%}" if total else ""
        lines.append(f"{label:18}{cells}{total:8}{share:>8}")
    right, wrong, unclear = count(causes)
    none = sum(cause.verdict == "none" for cause in causes)
    share = f"{right / max(1, len(causes)):.0%}"
    summary = f"{len(causes)} causes: {right} right ({share}), {wrong} wrong, {unclear} unclear"
    return "\n".join([*lines, "", summary + (f", {none} without a failure group" if none else "")])


def describe(cause: CauseResult) -> str:
    lines = [f"{cause.name} ({cause.incident.theme}): {cause.label}, judged {cause.verdict}"]
    lines.append(f"    {cause.incident.story}")
    for group in cause.groups:
        lines.append(f"    {group.verdict}: {group.error[:150]}")
        lines += [f"        {sentence}" for sentence in group.sentences]
    return "\n".join(lines)


def main(chosen: Sequence[str]) -> int:
    logging.disable(logging.CRITICAL)
    known = incidents()
    if unknown := set(chosen) - {one.name for one in known} - {*SETS}:
        print(f"there is no incident and no set {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    began, results, crashed = time.process_time(), list[IncidentResult](), list[str]()
    with copied_stores():
        for one in known:
            if not chosen or {one.name, one.set} & {*chosen}:
                try:
                    results.append(one.play())
                except Exception as error:
                    crashed.append(f"{one.name} ({one.theme}): {type(error).__name__}: {error}")
                    if chosen:
                        raise
    causes = [cause for result in results for cause in result.causes]
    wrong = [one for one in causes if one.verdict not in (one.label, "unclear")]
    unclear = [one for one in causes if one.verdict == "unclear" != one.label]
    sections = {
        "Wrong": [describe(one) for one in wrong],
        "Unclear": [describe(one) for one in unclear],
        "One cause in more groups than it shows as": [describe(one) for one in causes if one.is_split],
        "Several causes in one group": [
            f"{result.causes[0].incident.name}: {group.error[:150]}"
            for result in results
            for group in result.merged
        ],
        "Failure groups of no cause: a fault of the incident": [
            f"{result.causes[0].incident.name}: {group.error[:150]}"
            for result in results
            for group in result.stray
        ],
        "Could not be played": crashed,
    }
    for title, entries in sections.items():
        if entries:
            print(f"== {title}: {len(entries)}", *entries, "", sep="\n")
    print(table(causes))
    for name in SETS:
        if of_set := [one for one in causes if one.incident.set == name]:
            print("{}: {} causes, {} right, {} wrong, {} unclear".format(name, len(of_set), *count(of_set)))
    print(f"{len(results)} incidents in {time.process_time() - began:.1f} s of processor time")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
