"""What `onward torture` prints: the counts, the first of what is wrong, and how to see it again."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from onward.cli.torture import TortureLiveDisplay, TorturePlainDisplay, print_report
from onward.torture.fault_injection import FaultCounts
from onward.torture.final_count import FinalCount
from onward.torture.torture_run import TortureProgress, TortureReport

CLEAN = FinalCount(documents=300, finished=300, set_aside=4, poison=2, poison_caught=2)
DONE = FaultCounts(
    workers_killed=10, supervisors_killed=1, groups_killed=1, zombies=1, sent_again=6, duplicates_reported=2
)


def report(count: FinalCount, *, stalled: bool = False) -> TortureReport:
    return TortureReport(
        where="sqlite:///scratch.db",
        seed=17,
        seconds=60.0,
        count=count,
        faults=DONE,
        refused=9,
        stalled=stalled,
    )


def test_a_clean_run_says_what_was_done(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(report(CLEAN))
    said = capsys.readouterr().out
    assert "300 published, 300 finished; 4 of them with a fault, and the right result" in said
    assert "10 workers, 1 supervisor, 1 supervisor with all workers (12 kills a minute)" in said
    assert "1 until others had done their work; 9 late works refused" in said
    assert said.endswith("lost 0, doubled 0, wrongly charged 0\n")


def test_what_is_lost_is_named_with_the_seed_that_shows_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    lost = [f"labels/parcel-{number}" for number in range(8)]
    print_report(report(FinalCount(documents=300, finished=292, lost=lost, blamed=["parcels/parcel-9"])))
    said = capsys.readouterr().out
    assert "lost 8, doubled 0, wrongly charged 1" in said
    assert f"lost: {', '.join(lost[:5])} and 3 more\n" in said
    assert "blamed: parcels/parcel-9\n" in said
    assert "onward torture --seed 17 --keep" in said


def test_a_run_that_stood_still_says_where(capsys: pytest.CaptureFixture[str]) -> None:
    stuck = report(FinalCount(documents=300, finished=300, rows_left={"labelling": 5}), stalled=True)
    assert not stuck.is_clean
    print_report(stuck)
    said = capsys.readouterr().out
    assert "nothing changed any more" in said
    assert "events still on the ledger: labelling 5" in said


def test_programs_get_the_same_facts() -> None:
    facts = report(FinalCount(documents=300, finished=299, doubled=["unpacked parcel-1 (2 receipts)"])).as_dict()
    assert (facts["documents"], facts["finished"], facts["lost"], facts["doubled"]) == (300, 299, 0, 1)
    assert (facts["kills"], facts["kills_a_minute"], facts["zombies"], facts["seed"]) == (12, 12.0, 1, 17)
    assert facts["examples"] == {"doubled": ["unpacked parcel-1 (2 receipts)"]}
    assert not facts["clean"]


SEEN = TortureProgress(elapsed=12.0, documents=300, finished=150, kills_wanted=20, counts=DONE, note="a note")


def test_elsewhere_than_on_a_terminal_a_line_comes_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    display = TorturePlainDisplay(Console(highlight=False))
    display.show(SEEN)
    display.show(SEEN)
    display.end()
    line = "  12.0 s  150 of 300 documents finished, 12 kills, 1 paused and resumed, 6 events sent again, a note\n"
    assert capsys.readouterr().out == line, "once: the same again says nothing new"


def test_on_a_terminal_there_are_bars() -> None:
    drawn = io.StringIO()
    display = TortureLiveDisplay(
        Console(width=120, file=drawn, force_terminal=True), "torture on sqlite:///scratch.db"
    )
    display.show(SEEN)
    display.end()
    for part in ("torture on sqlite:///scratch.db", "150/300", "12/20", "a note"):
        assert part in drawn.getvalue()
