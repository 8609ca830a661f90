"""The count finds what is lost, doubled, blamed or unfinished; here each is made on purpose."""

from __future__ import annotations

from onward.app import App
from onward.torture.final_count import FinalCount, count_documents
from onward.torture.workload import (
    KILLS_WORKER,
    PERMANENT_ERROR,
    Label,
    Parcel,
    ParcelArrived,
    Piece,
    Receipt,
    Tally,
    WorkloadPlan,
)
from tests.torture.conftest import PARCELS


def counted(app: App, plan: WorkloadPlan) -> FinalCount:
    return count_documents(app.store, plan, PARCELS)


def test_a_run_that_went_well_is_clean(finished: App, plan: WorkloadPlan) -> None:
    found = counted(finished, plan)
    assert found == FinalCount(documents=PARCELS, finished=PARCELS)
    assert found.is_clean


def test_a_parcel_that_is_gone_is_lost(finished: App, plan: WorkloadPlan) -> None:
    gone = plan.parcel(2).id
    finished.store.remove_documents([("parcels", gone)])
    found = counted(finished, plan)
    assert f"parcels/{gone}" in found.lost
    assert (found.finished, found.doubled, found.is_clean) == (PARCELS - 1, [], False)


def test_what_comes_of_a_parcel_is_lost_with_it_or_alone(finished: App, plan: WorkloadPlan) -> None:
    one = plan.parcel(2).id
    finished.store.remove_documents([("labels", one)])
    assert counted(finished, plan).lost == [f"labels/{one}", f"labelled {one} (no receipt)"]


def test_an_effect_without_a_receipt_is_lost(finished: App, plan: WorkloadPlan) -> None:
    receipt = next(id for _, id in finished.store.ids_like(f"weighed {plan.parcel(0).id}.0"))
    finished.store.remove_documents([("receipts", receipt)])
    assert counted(finished, plan).lost == [f"weighed {plan.parcel(0).id}.0 (no receipt)"]


def test_a_parcel_that_nothing_on_the_ledger_goes_on_with_is_lost(finished: App) -> None:
    more = WorkloadPlan(PARCELS + 1, seed=1)
    more.faults.clear()
    late = more.parcel(PARCELS)
    finished.add(late)
    found = count_documents(finished.store, more, PARCELS + 1)
    assert f"parcels/{late.id}" in found.lost
    assert found.unfinished == []


def test_a_parcel_on_the_ledger_is_unfinished_and_not_lost(finished: App) -> None:
    more = WorkloadPlan(PARCELS + 1, seed=1)
    more.faults.clear()
    late = more.parcel(PARCELS)
    finished.publish(ParcelArrived.of(late), documents=[late])
    found = count_documents(finished.store, more, PARCELS + 1)
    assert found.lost == []
    assert found.unfinished[0] == f"parcels/{late.id}"
    assert not found.is_clean


def test_a_second_receipt_is_a_doubled_effect(finished: App, plan: WorkloadPlan) -> None:
    parcel = plan.parcel(3).id
    finished.add(Receipt.of("unpacked", parcel))
    found = counted(finished, plan)
    assert found.doubled == [f"unpacked {parcel} (2 receipts)"]
    assert (found.finished, found.lost, found.is_clean) == (PARCELS - 1, [], False)


def test_a_tally_that_was_counted_up_twice_is_doubled(finished: App, plan: WorkloadPlan) -> None:
    tally = finished.get(Tally, plan.parcel(1).id)
    assert tally is not None
    finished.replace(tally.model_copy(update={"count": tally.count + 1}))
    assert counted(finished, plan).doubled == [f"tallies/{tally.id}"]


def test_a_document_that_nobody_asked_for_is_doubled(finished: App, plan: WorkloadPlan) -> None:
    finished.add(Piece(id="parcel-000000.99", parcel="parcel-000000"), Label(id="nobody's"))
    finished.add(Receipt.of("labelled", "nobody's"))
    assert counted(finished, plan).doubled == [
        "pieces/parcel-000000.99",
        "labels/nobody's",
        "labelled nobody's (not expected)",
    ]


def test_an_innocent_document_that_was_given_up_is_blamed(app: App, plan: WorkloadPlan) -> None:
    """Its fault is not in the plan: whoever counts takes it for innocent."""
    parcels = [plan.parcel(number) for number in range(PARCELS)]
    parcels[4] = Parcel(id=parcels[4].id, pieces=1, fault=PERMANENT_ERROR)
    app.publish(*map(ParcelArrived.of, parcels), documents=parcels)
    app.work_until_idle()
    found = counted(app, plan)
    assert found.blamed == [f"parcels/{parcels[4].id}"]
    assert not found.is_clean


def test_a_fault_that_is_in_the_plan_is_not_blamed(app: App, plan: WorkloadPlan) -> None:
    plan.faults[4] = PERMANENT_ERROR
    parcels = [plan.parcel(number) for number in range(PARCELS)]
    app.publish(*map(ParcelArrived.of, parcels), documents=parcels)
    app.work_until_idle()
    found = counted(app, plan)
    assert (found.finished, found.set_aside, found.blamed) == (PARCELS, 1, [])
    assert found.is_clean


def test_poison_that_was_not_caught_is_no_clean_run(finished: App, plan: WorkloadPlan) -> None:
    plan.faults[0] = KILLS_WORKER
    found = counted(finished, plan)
    assert (found.poison, found.poison_caught) == (1, 0)
    assert f"parcels/{plan.parcel(0).id}" in found.doubled, "it should have killed its process"
    assert not found.is_clean
