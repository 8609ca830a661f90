"""A handler takes its process down: the run goes on, and only the culprit pays for it."""

from __future__ import annotations

import pytest

from tests.runtime.processes.stage import words
from tests.runtime.processes.trial import Trial
from tests.runtime.processes.troubles import Posted
from tests.support.supervised_workers import group_members, until

pytestmark = pytest.mark.prove

INNOCENT = [f"innocent-{n}" for n in range(30)]


@pytest.mark.parametrize("crash", ("segfault", "be_killed", "leave"))
def test_a_crash_loop_ends_as_a_dead_letter_and_blames_no_neighbour(trial: Trial, crash: str) -> None:
    trial.bring(*INNOCENT[:15])
    trial.bring("culprit", trouble=crash)
    trial.bring(*INNOCENT[15:])
    trial.run()

    letter = trial.dead_letter()
    assert (letter.abandoned_reason, letter.deaths, letter.attempt_count) == ("crash_loop", 3, 0)
    assert letter.documents == (("pages", "culprit"),)
    assert trial.app.store.document_counts()["pages"] == {"failed": 1, "processed": 30}
    assert words(trial.app) == 30
    # What had returned and was not committed at two crashes has a death, for its commit might be the cause.
    assert trial.ledger("SELECT id FROM ledger WHERE state = 'done' AND deaths > lapses") == [], (
        "claimed, not running"
    )
    assert trial.ledger("SELECT DISTINCT attempt_count FROM documents WHERE collection = 'pages'") == [1]
    assert [id for _, id in trial.runs()].count("culprit") == 3


@pytest.mark.parametrize(
    ("trouble", "reason", "deaths"), (("segfault", "crash_loop", 3), ("hang", "max_attempts_exceeded", 0))
)
def test_an_event_that_takes_its_process_down_while_it_is_read_pays_for_it_alone(
    trial: Trial, trouble: str, reason: str, deaths: int
) -> None:
    trial.app.publish(Posted.model_construct(trouble=trouble))
    trial.bring(*INNOCENT)
    trial.run()
    letter = trial.dead_letter()
    assert (letter.service_name, letter.abandoned_reason, letter.deaths) == ("posting", reason, deaths)
    assert trial.app.store.document_counts()["pages"] == {"processed": 30}


def test_from_the_second_death_on_an_event_runs_alone(trial: Trial) -> None:
    trial.bring("culprit", trouble="be_killed")
    trial.bring(*INNOCENT)
    trial.run()
    runs = trial.runs()
    last = [pid for pid, id in runs if id == "culprit"][-1]
    assert [id for pid, id in runs if pid == last] == ["culprit"]


def test_a_process_that_dies_after_its_handler_returned_counts_its_death(trial: Trial) -> None:
    trial.bring("culprit", trouble="die_in_the_commit")
    trial.run()
    letter = trial.dead_letter()
    assert (letter.abandoned_reason, letter.deaths, letter.attempt_count) == ("crash_loop", 3, 0)
    assert letter.documents == (("pages", "culprit"),)


def test_what_kills_the_commit_of_a_group_is_found_among_its_neighbours(trial: Trial) -> None:
    trial.bring(*INNOCENT[:15])
    trial.bring("culprit", trouble="die_in_the_commit")
    trial.bring(*INNOCENT[15:])
    trial.run()
    letter = trial.dead_letter()
    assert (letter.abandoned_reason, letter.documents) == ("crash_loop", (("pages", "culprit"),))
    assert trial.app.store.document_counts()["pages"] == {"failed": 1, "processed": 30}
    assert words(trial.app) == 30


def test_running_out_of_memory_is_a_failed_try(trial: Trial) -> None:
    trial.bring("large", trouble="blow_up")
    trial.bring(*INNOCENT)
    trial.run()
    letter = trial.dead_letter()
    assert (letter.abandoned_reason, letter.error_type) == ("max_attempts_exceeded", "MemoryError")
    assert (letter.attempt_count, letter.deaths) == (3, 0)
    assert len({pid for pid, _ in trial.runs()}) == 1, "its process lives on"


def test_a_copy_that_a_handler_forked_does_nothing_and_ends(trial: Trial) -> None:
    trial.bring("forking", trouble="fork")
    trial.bring(*INNOCENT)
    supervised = trial.run()
    assert (trial.folder / "forked").exists()
    assert trial.app.store.document_counts()["pages"] == {"processed": 31}
    assert words(trial.app) == 31
    assert trial.ledger("SELECT DISTINCT token FROM ledger") == [1], "everything was delivered once"
    until(lambda: not group_members(supervised.pid), "nobody of the group is left")
