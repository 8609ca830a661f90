"""An incident from the first failure to the regression: closed, fixed, put back in steps, broken again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onward import App, Document, Event
from onward.model.events import names
from onward.model.group_life import GroupState
from onward.model.group_rules import SplitBy
from onward.ops.actions.action import ActionOutcome, ActionProgress, Actor, Completion
from onward.ops.actions.group_canary import RetryGroupInSteps
from onward.ops.actions.group_life import CloseFailureGroup
from onward.ops.actions.group_rules import SplitFailureGroup
from onward.ops.queries.failure_groups import list_groups
from onward.ops.queries.status import read_status
from onward.runtime.work import Work
from onward.settings import Settings
from onward.testing import Simulation

ANA = Actor("ana", "cli")
HOUR = 3600.0


class Invoice(Document):
    number: int = 0


class InvoiceCame(Event):
    invoice_ids: list[str] = names(Invoice)


class Incident:
    """An app whose versions differ in what they cannot do."""

    def __init__(self) -> None:
        self.app = App(settings=Settings(metrics_backend="noop"), version="1.0")
        self.broken = {"1.0"}  # versions that fail with every second invoice
        self.calls = 0

        @self.app.service("billing", on=InvoiceCame, finishes=Invoice)
        def bill(invoice: Invoice, work: Work) -> None:
            self.calls += 1
            if self.app.version in self.broken and invoice.number % 2:
                raise KeyError(f"no tax rate of country {invoice.number % 4}")

    def arrive(self, *numbers: int) -> None:
        made = [Invoice(id=f"invoice-{number}", number=number) for number in numbers]
        for one in made:
            self.app.publish(InvoiceCame(invoice_ids=[one.id]), documents=[one])

    def deploy(self, version: str, *, broken: bool = False) -> None:
        self.app.version = version
        self.broken |= {version} if broken else set()

    def state(self) -> GroupState:
        (group,) = self.app.store.failure_groups()
        return group.life.state(self.app.store.first_seen_versions())

    def group(self) -> str:
        (group,) = self.app.store.failure_groups()
        return group.fingerprint


class Watched(ActionProgress):
    """Simulated time passes, and workers work, while an action waits."""

    def __init__(self, world: Simulation) -> None:
        self.world = world
        self.texts: list[str] = []

    def show(self) -> None:
        self.texts.append(self.text)

    def sleep(self, seconds: float) -> None:
        self.check()
        self.world.run_for(seconds)


@pytest.fixture
def incident() -> Incident:
    return Incident()


@pytest.fixture
def world(incident: Incident) -> Iterator[Simulation]:
    with Simulation(incident.app) as found:
        incident.arrive(*range(40))
        found.run_for(60)
        yield found


def close(incident: Incident, version: str | None = None) -> None:
    CloseFailureGroup(incident.group(), version).run(incident.app, ActionProgress(), ANA)


def retry(incident: Incident, world: Simulation) -> ActionOutcome:
    world.clock.advance(1)
    return RetryGroupInSteps(incident.group()).run(incident.app, Watched(world), ANA)


def test_from_the_first_failure_to_the_regression(incident: Incident, world: Simulation) -> None:
    assert incident.state() is GroupState.OPEN
    close(incident, "1.1")
    incident.arrive(41, 43)
    world.run_for(60)
    assert incident.state() is GroupState.FIX_EXPECTED, "1.0 goes on failing, as is known"
    assert list_groups(incident.app).total == 0
    incident.deploy("1.1")
    outcome = retry(incident, world)
    world.run_for(60)
    assert (outcome.completion, outcome.facts["put_back"]) == (Completion.WHOLE, 22)
    assert incident.state() is GroupState.CLOSED
    assert world.store.document_counts()["invoices"] == {"processed": 42}
    incident.deploy("1.2", broken=True)
    incident.arrive(51)
    world.run_for(60)
    assert incident.state() is GroupState.REGRESSION
    status = read_status(incident.app)
    assert status.regressions == 1
    assert status.failures[0]["regression"] is True
    assert world.store.totals()["failure_group_regressions_total"] == {"billing": 1}


def test_a_roll_back_is_no_regression(incident: Incident, world: Simulation) -> None:
    incident.deploy("1.1")
    world.run_for(60)
    incident.arrive(100)
    world.run_for(60)
    close(incident, "1.1")
    incident.deploy("1.0")
    incident.arrive(101)
    world.run_for(60)
    assert incident.state() is GroupState.CLOSED


def test_a_fix_that_does_not_help_is_noticed_by_the_first_of_the_canary(
    incident: Incident, world: Simulation
) -> None:
    close(incident, "1.1")
    incident.deploy("1.1", broken=True)
    before = incident.calls
    outcome = retry(incident, world)
    assert outcome.completion is Completion.FAILED
    assert incident.calls - before == 1, "the others were left alone"
    assert "Stopped by the canary in step 1 of 4: 1 of 1 failed again: KeyError" in outcome.text
    assert incident.state() is GroupState.REGRESSION


def test_without_a_release_the_next_failure_is_a_regression(incident: Incident, world: Simulation) -> None:
    close(incident)
    world.clock.advance(1)
    incident.arrive(61)
    world.run_for(60)
    assert incident.state() is GroupState.REGRESSION


def test_a_split_holds_for_the_failures_that_follow(incident: Incident, world: Simulation) -> None:
    SplitFailureGroup(incident.group(), SplitBy.MESSAGE, "country 3").run(incident.app, ActionProgress(), ANA)
    incident.arrive(71, 73)  # of countries 3 and 1
    world.run_for(60)
    counts = {group.message[-3:]: group.affected for group in world.store.failure_groups()}
    assert counts == {" 3'": 11, " 1'": 11}
