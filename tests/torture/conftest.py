"""A small workload that has run to its end in this process, for tests that count it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onward.app import App
from onward.settings import Settings
from onward.torture.workload import ParcelArrived, WorkloadPlan, build

PARCELS = 6


@pytest.fixture
def plan() -> WorkloadPlan:
    """Six parcels, none of them with a fault: what kills its process would kill the test."""
    plan = WorkloadPlan(PARCELS, seed=1)
    plan.faults.clear()
    return plan


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    app = build(Settings(home=tmp_path))
    yield app
    app.close()


@pytest.fixture
def finished(app: App, plan: WorkloadPlan) -> App:
    """The workload, after all of its parcels have gone through it."""
    parcels = [plan.parcel(number) for number in range(PARCELS)]
    app.publish(*map(ParcelArrived.of, parcels), documents=parcels)
    app.work_until_idle()
    return app
