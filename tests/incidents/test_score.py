"""The verdicts on staged incidents: right as often as the docs say, no cause split, no two merged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.incidents.score import SETS, count, describe, incidents
from tests.incidents.staging import CauseResult, IncidentResult

PAGE = Path(__file__).parents[2] / "docs/explanation/verdicts.md"
QUICK = (
    *("outage_that_came_back", "ten_percent_bug", "too_slow_since_the_deploy", "flapping_broker"),
    *("server_busy_503_and_timeouts", "file_server_that_hangs_up_on_many"),
)


def causes(results: list[IncidentResult]) -> list[CauseResult]:
    return [cause for result in results for cause in result.causes]


@pytest.mark.parametrize("name", QUICK)
def test_a_verdict_is_the_label(name: str) -> None:
    found = causes([one.play() for one in incidents() if one.name == name])
    assert found, f"there is no incident {name}"
    assert [one.verdict for one in found] == [one.label for one in found]


def test_the_table_of_all_sets_is_the_sum_of_the_rows() -> None:
    page = PAGE.read_text()
    rows = [
        line.strip("| ").split(" | ")
        for line in page.splitlines()
        if line.startswith(tuple(f"| {one} |" for one in SETS))
    ]
    assert [row[0] for row in rows] == [*SETS]
    table = page.split("```text")[2].split("```")[0].strip().splitlines()[1:]
    counts = [[int(one.replace("·", "0")) for one in line[18:].split()[:6]] for line in table]
    right, unclear = sum(line[place] for place, line in enumerate(counts)), sum(line[4] for line in counts[:4])
    causes = sum(line[5] for line in counts)
    sums = [sum(int(row[place]) for row in rows) for place in (1, -3, -2, -1)]
    assert sums == [causes, right, causes - right - unclear, unclear]
    assert f"now: {right} right ({right / causes:.0%}".replace("%", " %") in page


@pytest.mark.prove
@pytest.mark.parametrize("name", SETS)
def test_the_page_has_the_true_score_and_the_groups_are_right(name: str) -> None:
    results = [one.play() for one in incidents() if one.set == name]
    found = causes(results)
    assert not [one.name for one in found if one.is_split]
    assert not [result.causes[0].name for result in results if result.merged or result.stray]
    right, wrong, unclear = count(found)
    (row,) = (line for line in PAGE.read_text().splitlines() if line.startswith(f"| {name} | {len(found)} |"))
    others = "\n".join(describe(one) for one in found if one.verdict != one.label)
    score = f"| {right} | {wrong} | {unclear} |"
    assert row.endswith(score), f"make the row anew, python -m tests.incidents.score: {score}\n{others}"
    assert right >= 0.9 * len(found)
    assert wrong <= 2
