"""A handler that never comes back: its time limit is a failed try, whatever it blocks."""

from __future__ import annotations

from signal import Signals

import pytest

from tests.runtime.processes.stage import Heard, words
from tests.runtime.processes.trial import Trial
from tests.runtime.processes.troubles import BLOCKED_SECONDS

pytestmark = pytest.mark.prove

INNOCENT = [f"innocent-{n}" for n in range(10)]


@pytest.mark.parametrize("hang", ("hang", "hang_holding_the_interpreter"))
def test_a_hang_is_a_failed_try_of_that_event_alone(trial: Trial, hang: str) -> None:
    trial.bring("culprit", trouble=hang)
    trial.bring(*INNOCENT)
    trial.run()
    letter = trial.dead_letter()
    assert (letter.abandoned_reason, letter.attempt_count, letter.deaths) == ("max_attempts_exceeded", 3, 0)
    assert letter.error_type == "HandlerTimeout"
    assert trial.app.store.document_counts()["pages"] == {"pending": 1, "processed": 10}
    assert words(trial.app) == 10
    assert trial.ledger("SELECT max(deaths) FROM ledger") == [0]


def test_a_hang_of_the_whole_loop_is_a_failed_try_too(trial: Trial) -> None:
    trial.bring(*INNOCENT)
    trial.app.publish(Heard())
    trial.run()
    letter = trial.dead_letter()
    assert (letter.service_name, letter.abandoned_reason, letter.deaths) == (
        "listening",
        "max_attempts_exceeded",
        0,
    )
    assert trial.app.store.document_counts()["pages"] == {"processed": 10}


def test_a_hang_does_not_keep_a_drain_from_ending(trial: Trial) -> None:
    trial.bring("culprit", trouble="hang_holding_the_interpreter")
    supervised = trial.start()
    trial.until_run("culprit")
    supervised.signal(Signals.SIGTERM)
    assert supervised.wait() == 0
    assert trial.ledger("SELECT tries, deaths, state FROM ledger") == [(1, 0, "waiting")]


def test_leases_are_renewed_while_a_handler_blocks_its_whole_process(trial: Trial) -> None:
    lease = BLOCKED_SECONDS / 2
    trial.notice("blocks")
    with trial.start(lease=lease, idle_within=1.0) as first, trial.start(lease=lease, idle_within=1.0) as second:
        assert (first.wait(), second.wait()) == (0, 0)
    assert trial.ledger("SELECT state, token, lapses FROM ledger") == [("done", 1, 0)], "no lease has lapsed"
