"""A collection may have rounds of its own: how many, how long apart, and when one counts as lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from onward import App, Document, Event, Exponential, Schedule, Settings, Work, names
from onward.cli import main
from onward.recovery.next_step import NextSteps
from onward.recovery.retry_decision import RetryJobRules
from onward.retry.round_rules import MAX_ROUNDS, RoundRules
from onward.runtime.service import RegistrationError
from onward.settings import load_settings
from onward.testing import Simulation
from tests.support.console_client import serving
from tests.support.page_app import DAY, HOUR, MINUTE


class Refund(Document, max_rounds=3, round_backoff=Exponential(MINUTE, cap=2 * MINUTE), stuck_after=HOUR):
    pass


class Letter(Document):
    pass


class RefundAsked(Event):
    refund_id: str = names(Refund)


class LetterWritten(Event):
    letter_id: str = names(Letter)


def new_app(**settings: Any) -> App:
    """An app whose services always fail."""
    app = App(settings=Settings(**settings), version="test 1")

    @app.service("refunding", on=RefundAsked, finishes=Refund)
    def refund(document: Refund, work: Work) -> None:
        raise ValueError("the bank says no")

    @app.service("posting", on=LetterWritten, finishes=Letter)
    def post(document: Letter, work: Work) -> None:
        raise ValueError("no stamp")

    return app


@pytest.fixture(params=("sqlite", "postgres"))
def world(request: pytest.FixtureRequest) -> Iterator[Simulation]:
    url = "sqlite://:memory:" if request.param == "sqlite" else request.getfixturevalue("postgres_store_url")
    with Simulation(new_app(), store=url) as world:
        yield world


def rules_of(app: App) -> RetryJobRules:
    return RetryJobRules.of(app.settings, app.registry.subscriptions())


def test_its_documents_get_their_own_rounds_and_waits(world: Simulation) -> None:
    refund, letter = Refund(id="r"), Letter(id="l")
    world.app.publish(RefundAsked.of(refund), documents=[refund])
    world.app.publish(LetterWritten.of(letter), documents=[letter])
    world.run_for(10 * MINUTE)
    # Each round has three tries within 15 s; the waits are counted from the beginning of a round.
    assert (world.state(refund).attempt_count, world.status(refund)) == (3, "failed_max_retries")
    assert (world.state(letter).attempt_count, world.status(letter)) == (2, "pending")
    world.run_for(DAY)
    assert (world.state(letter).attempt_count, world.status(letter)) == (5, "failed_max_retries")


def test_a_silent_round_counts_as_lost_after_its_own_threshold(world: Simulation) -> None:
    refund, letter = Refund(id="r"), Letter(id="l")
    store = world.store
    for document, event in ((refund, RefundAsked.of(refund)), (letter, LetterWritten.of(letter))):
        world.app.publish(event, documents=[document])
        store.atomically(partial(store.db.send, "delete_rows", [world.state(document).row]))
    store.clear_dangling_rows(after=0, limit=10)
    rules = rules_of(world.app)
    assert rules.stuck(store) == {}
    world.clock.advance(HOUR + 1)
    assert rules.stuck(store) == {"refunds": 1}, "a letter counts as lost after 24 h"
    assert world.retry_job.run(full=True).requeued == {"refunds": 1}
    assert store.totals()["retry_job_stuck_documents"].get("letters", 0) == 0


def test_what_waits_is_counted_with_its_own_waits(world: Simulation) -> None:
    refund, letter = Refund(id="r"), Letter(id="l")
    world.app.publish(RefundAsked.of(refund), documents=[refund])
    world.app.publish(LetterWritten.of(letter), documents=[letter])
    world.run_for(20)  # the first rounds have failed
    for passed, waiting in ((0, {"refunds", "letters"}), (MINUTE, {"letters"})):
        world.clock.advance(passed)
        store, rules = world.store, rules_of(world.app)
        keys = [("refunds", "r"), ("letters", "l")]
        store.defer_checks([(key, store.now() + DAY) for key in keys])
        waits = {(name, 1): rules.backoff(name, 1) for name, _ in keys}
        assert store.waiting_for_backoff(waits).keys() == waiting


def test_the_next_step_is_told_with_the_stored_rules(world: Simulation) -> None:
    refund = Refund(id="r")
    world.app.publish(RefundAsked.of(refund), documents=[refund])
    world.run_for(20)
    # A command that does not know the app: the rules come from the store.
    rules = RetryJobRules.of(Settings(), world.store.subscriptions())
    step = NextSteps(world.store, rules).of(world.state(refund))
    assert step.decision is not None
    assert (step.decision.max_rounds, step.backoff_seconds) == (3, MINUTE)


def test_the_variable_of_a_collection_wins_over_its_class() -> None:
    class Chunk(Document, collection="chunks", max_rounds=9, stuck_after=HOUR):
        pass

    class ChunkMade(Event):
        chunk_id: str = names(Chunk)

    def rules(**environ: str) -> RetryJobRules:
        app = App(settings=load_settings(environ))
        app.service("embedding", on=ChunkMade, finishes=Chunk)(lambda chunk, work: None)
        return rules_of(app)

    assert (rules().max_rounds("chunks"), rules().stuck_after("chunks")) == (9, HOUR)
    set_by_variable = rules(RETRY_JOB_MAX_ATTEMPTS_CHUNKS="2")
    assert (set_by_variable.max_rounds("chunks"), set_by_variable.stuck_after("chunks")) == (2, HOUR)


def test_a_collection_that_declares_nothing_has_the_usual_rules() -> None:
    rules = rules_of(new_app(retry_job_base_delay_seconds=10.0))
    assert (rules.max_rounds("letters"), rules.backoff("letters", 1), rules.stuck_after("letters")) == (5, 10, DAY)
    assert (rules.max_rounds("refunds"), rules.backoff("refunds", 1), rules.stuck_after("refunds")) == (
        3,
        60,
        HOUR,
    )


def test_a_subclass_inherits_what_it_does_not_declare() -> None:
    class Chargeback(Refund, max_rounds=7):
        pass

    rules = Chargeback.round_rules
    assert (rules.max_rounds, rules.stuck_after, rules.backoff) == (7, HOUR, Schedule((60.0, 120.0)))
    assert Refund.round_rules.max_rounds == 3


@pytest.mark.parametrize(
    ("wrong", "allowed"),
    (
        ({"max_rounds": 0}, f"max_rounds=0: must be a whole number from 1 to {MAX_ROUNDS}"),
        ({"max_rounds": MAX_ROUNDS + 1}, "max_rounds=101"),
        ({"max_rounds": True}, "max_rounds=True"),
        ({"max_rounds": 2.0}, "max_rounds=2.0"),
        ({"stuck_after": 0}, "stuck_after=0: must be a number of seconds above 0"),
        ({"stuck_after": float("inf")}, "stuck_after=inf"),
        ({"stuck_after": "1 h"}, "stuck_after='1 h'"),
        ({"round_backoff": 60}, "round_backoff=60: must be a backoff, such as Exponential(300, cap=3600)"),
        ({"round_backoff": Exponential(60, jitter=True)}, "must be without jitter"),
    ),
)
def test_wrong_values_are_refused_where_they_are_declared(wrong: dict[str, Any], allowed: str) -> None:
    with pytest.raises(ValueError, match="class Wrong: ") as raised:
        type("Wrong", (Document,), {}, **wrong)
    assert allowed in str(raised.value)


def test_two_classes_of_a_collection_declare_the_same() -> None:
    class Copy(Document, collection="refunds", max_rounds=9):
        pass

    class CopyAsked(Event):
        copy_id: str = names(Copy)

    with pytest.raises(RegistrationError, match="different max_rounds, round_backoff or stuck_after"):
        new_app().service("copying", on=CopyAsked, finishes=Copy)(lambda copy, work: None)


@given(
    st.none() | st.integers(1, MAX_ROUNDS),
    st.none()
    | st.builds(Exponential, st.floats(0, 1e6), st.floats(1, 10), cap=st.floats(0, 1e6))
    | st.lists(st.floats(0, 1e6), min_size=1, max_size=10).map(lambda waits: Schedule(tuple(waits))),
    st.none() | st.floats(0.1, 1e9),
)
def test_rules_are_stored_without_loss(most: int | None, backoff: Any, stuck: float | None) -> None:
    rules = RoundRules(most, backoff, stuck)
    again = RoundRules.from_json(rules.to_json())
    assert again == rules
    for rounds in range(1, MAX_ROUNDS + 1) if backoff is not None else ():
        assert again.backoff is not None
        assert again.backoff.delay(rounds, Random()) == backoff.delay(rounds, Random())


def test_commands_and_console_show_the_effective_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings({"ONWARD_HOME": str(tmp_path)})
    app = new_app(home=tmp_path, store=settings.store)
    _ = app.store
    result = CliRunner().invoke(main, ["policies", "--json"], env={"ONWARD_HOME": str(tmp_path)})
    shown = {"collection": "refunds", "max_rounds": 3, "waits": [60.0, 120.0], "stuck_after": 3600.0}
    assert json.loads(result.stdout)["collections"] == [shown]
    text = "3 rounds; waits 1, 2 min; lost after 60 min without a report"
    assert (
        text in CliRunner().invoke(main, ["policies"], env={"ONWARD_HOME": str(tmp_path), "COLUMNS": "99"}).stdout
    )
    with serving(app) as site:
        assert text in site.page("/settings")
    app.close()
