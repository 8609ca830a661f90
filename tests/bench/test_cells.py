"""The cells of chaos and pressure: what their records mean, and that each disturbs a queue and loses nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from bench.cells_definitions import CELLS, Cell, Disturbance
from bench.cells_measures import chaos, effects_per_second, first_effects, latency, pressure
from bench.cells_peers import PEERS, Onward, Standing
from bench.cells_records import (
    EFFECT,
    OFFER,
    Control,
    OfferLog,
    Records,
    count_effects,
    open_effects,
    read_records,
)
from bench.cells_report import sheets
from bench.cells_run import CellRun, Phase, run_cell
from bench.cells_server import Watch, private_server
from bench.table import between, put_between
from tests.support.servers import PostgresServer


def effects(*pairs: tuple[int, float]) -> Records:
    return np.array(list(pairs), EFFECT)


def offers(*triples: tuple[int, float, float]) -> Records:
    return np.array(list(triples), OFFER)


def cell(disturbance: Disturbance) -> Cell:
    return next(one for one in CELLS if one.disturbance == disturbance)


def chaos_run(offered: Records, done: Records, standing: Standing, up: float = 20.0) -> CellRun:
    """A run with ten clean seconds, ten disturbed ones and ten of recovery."""
    phases = [Phase("clean", 0, 10), Phase("disturbed", 10, 20), Phase("recovery", 20, 30), Phase("drain", 30, 31)]
    chosen = cell(Disturbance.SERVER_RESTART)
    return CellRun(
        chosen, "onward", 600, phases, offered, done, standing, Watch("postgresql://nowhere"), {"up": up}
    )


def every_second(begun: int, ended: int, first: int = 0) -> list[tuple[int, float]]:
    return [(first + at - begun, at + 0.5) for at in range(begun, ended)]


# -- records


def test_a_record_that_its_killed_writer_has_not_finished_is_left_out(tmp_path: Path) -> None:
    effect = open_effects(tmp_path / "effects")
    effect(7)
    effect(8)
    os.truncate(tmp_path / "effects", EFFECT.itemsize * 2 - 1)
    assert count_effects(tmp_path / "effects") == 1
    assert read_records(tmp_path / "effects", EFFECT)["number"].tolist() == [7]


def test_an_offer_says_whether_it_was_acknowledged(tmp_path: Path) -> None:
    log = OfferLog(tmp_path / "offers")
    log.add([1, 2], 5.0, acknowledged=True)
    log.add([3], 6.0, acknowledged=False)
    assert read_records(tmp_path / "offers", OFFER).tolist() == [(1, 5.0, 1.0), (2, 5.0, 1.0), (3, 6.0, 0.0)]


def test_nothing_was_offered_where_there_is_no_file(tmp_path: Path) -> None:
    assert len(read_records(tmp_path / "offers", OFFER)) == count_effects(tmp_path / "effects") == 0


def test_the_producer_follows_what_the_run_says(tmp_path: Path) -> None:
    said = Control.create(tmp_path / "control")
    heard = Control.open(tmp_path / "control")
    said.keep(800.5)
    assert (heard.rate, heard.depth) == (800.5, 0)
    said.keep(depth=2000)
    assert (heard.rate, heard.depth) == (0.0, 2000)


def test_a_producer_that_has_not_noticed_the_end_does_not_rest(tmp_path: Path) -> None:
    run = Control.create(tmp_path / "control")
    producer = Control.open(tmp_path / "control")
    run.keep(800.5)
    before = producer.changes
    run.keep()
    producer.note_rest(before)
    assert not run.rests
    producer.note_rest(producer.changes)
    assert run.rests


# -- measures


def test_only_the_first_effect_of_an_event_counts_as_done() -> None:
    done = effects((1, 4.0), (2, 1.5), (1, 1.0), (1, 2.0))
    assert first_effects(done).tolist() == [(1, 1.0), (2, 1.5)]
    assert effects_per_second(done, 1.0, 3.0) == 1.0


def test_latency_is_that_of_acknowledged_events_of_the_time_asked_for() -> None:
    offered = offers((1, 1.0, 1), (2, 1.0, 1), (3, 1.0, 0), (4, 9.0, 1))
    done = effects((1, 1.1), (2, 1.3), (3, 5.0), (4, 9.9))
    found = latency(offered, done, 0.0, 2.0)
    assert (found.p50, found.longest) == pytest.approx((200.0, 300.0))


def test_an_event_without_an_effect_waits_until_the_end() -> None:
    found = latency(offers((1, 1.0, 1), (2, 2.0, 1)), effects((2, 5.0)), 0.0, 1.5)
    assert found.longest == pytest.approx(4000.0)


def test_lost_is_what_was_acknowledged_and_neither_ran_nor_waits() -> None:
    offered = offers(*((number, 1.0, 1) for number in range(10)), (10, 1.0, 0))
    done = effects(*every_second(0, 6), (0, 9.0))
    found = chaos(chaos_run(offered, done, Standing(waiting=2, running=1, doubled_commits=0)))
    assert (found.offered, found.unknown, found.completed, found.waiting, found.lost) == (10, 1, 6, 3, 1)
    assert (found.doubled_effects, found.doubled_commits) == (1, 0)


def test_a_queue_has_recovered_in_the_first_second_at_its_clean_rate() -> None:
    # One effect a second; the server was up again at 15, the first effect came in the fourth second after that.
    done = effects(*every_second(0, 10), *every_second(18, 30, first=10))
    found = chaos(chaos_run(offers((0, 0.0, 1)), done, Standing(0, 0), up=15.0))
    assert (found.recovery_seconds, found.recovered) == (3.0, 1.0)


def test_a_queue_that_does_nothing_any_more_has_not_recovered() -> None:
    found = chaos(chaos_run(offers((0, 0.0, 1)), effects(*every_second(0, 10)), Standing(0, 0)))
    assert (found.recovery_seconds, found.recovered) == (None, 0.0)


# -- definitions and tables


def test_there_are_five_cells_of_chaos_and_four_of_pressure() -> None:
    assert [len([one for one in CELLS if one.chaos is chaos]) for chaos in (True, False)] == [5, 4]
    assert {one.disturbance for one in CELLS} == set(Disturbance)


def test_the_old_snapshot_is_held_for_two_minutes_or_longer() -> None:
    assert cell(Disturbance.OPEN_TRANSACTION).seconds >= 120


def test_a_shorter_cell_is_shorter_in_all_its_parts() -> None:
    short = cell(Disturbance.REPEATED_KILLS).lasting(4)
    assert (short.seconds, short.period_seconds, short.warmup_seconds, short.clean_seconds) == (4, 1, 2, 4)
    assert short.rate == cell(Disturbance.REPEATED_KILLS).rate


def test_a_table_is_put_between_its_marks_and_nothing_else_changes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- a -->\nold\n<!-- /a -->\nafter\n")
    put_between(page, "<!-- a -->", "<!-- /a -->", "new")
    assert page.read_text() == "before\n<!-- a -->\nnew\n<!-- /a -->\nafter\n"
    assert between(page, "<!-- a -->", "<!-- /a -->") == "\nnew\n"
    with pytest.raises(ValueError, match=r"page\.md has no <!-- b -->"):
        put_between(page, "<!-- b -->", "<!-- /b -->", "new")


# -- each cell with a real server


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with private_server() as started:
        yield started


SECONDS = 3.0


@pytest.mark.prove
@pytest.mark.parametrize("chosen", [one for one in CELLS if one.chaos], ids=lambda one: one.name)
def test_chaos_loses_nothing_and_commits_nothing_twice(server: PostgresServer, chosen: Cell) -> None:
    run = run_cell(server, Onward, chosen.lasting(SECONDS), capacity=400)
    found = chaos(run)
    assert found.offered > 0
    assert (found.completed, found.waiting, found.lost, found.doubled_commits) == (found.offered, 0, 0, 0)
    assert run.standing.commits is not None
    assert found.offered <= run.standing.commits <= found.offered + found.unknown
    assert _disturbed(run)
    (sheet,) = sheets([run])
    _check_shape(sheet.columns, sheet.rows)


@pytest.mark.prove
@pytest.mark.parametrize("chosen", [one for one in CELLS if not one.chaos], ids=lambda one: one.name)
def test_pressure_loses_nothing_and_counts_dead_rows(server: PostgresServer, chosen: Cell) -> None:
    run = run_cell(server, Onward, chosen.lasting(SECONDS), capacity=400)
    found = pressure(run)
    assert (run.standing.unfinished, found.lost, found.doubled_effects) == (0, 0, 0)
    assert found.clean_capacity > 0
    assert found.capacity > 0
    assert found.peak_dead > 0
    assert run.watch.statements["disturbed flood"]
    (sheet,) = sheets([run])
    _check_shape(sheet.columns, sheet.rows)


@pytest.mark.prove
@pytest.mark.parametrize("name", [name for name in PEERS if name != "onward"])
def test_the_other_queues_run_too(server: PostgresServer, name: str) -> None:
    pytest.importorskip(name, reason="comes with the extra for benchmarks")
    run = run_cell(server, PEERS[name], cell(Disturbance.OPEN_TRANSACTION).lasting(SECONDS), capacity=100)
    assert pressure(run).lost == 0
    assert pressure(run).clean_rate > 0


def _disturbed(run: CellRun) -> bool:
    """Return whether the run says that its disturbance took place."""
    match run.cell.disturbance:
        case Disturbance.KILL | Disturbance.SERVER_RESTART:
            return run.times["down"] < run.times["up"]
        case Disturbance.REPEATED_KILLS:
            return "0 kills" not in run.notes
        case Disturbance.BACKENDS_TERMINATED:
            return any(note.endswith("terminated") for note in run.notes)
        case _:
            return run.notes == []  # all connections were held


def _check_shape(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    assert [len(row) for row in rows] == [len(columns)]
