"""A made-up app that leaves every kind of row behind: a harbour where crates land and parts are packed."""

from __future__ import annotations

import secrets
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from onward import App, Permanent, Settings, Work
from onward.ledger.store import Store
from onward.model.documents import Document, DocumentState, Status
from onward.model.events import Event, names
from onward.model.group_rules import SplitBy
from onward.model.ledger import GatewayReport, NewDocument, OutgoingEvents
from onward.model.operations import OperationStatus
from onward.model.rollups import MINUTE, ServiceCounts
from onward.testing import Simulation
from tests.store.library import rank

HOUR = 3600.0
MODEL = "made-up-2"
LOST_MACHINE = "lost-machine-1"
FAULTS = ("", "transient", "permanent", "half")


class Crate(Document):
    keys = ("owner", "weight")
    owner: str = ""
    weight: float = 0.0
    fault: str = ""


class Part(Document):
    fault: str = ""


class Stamp(Document):
    pass


class Slip(Document):
    """One committed effect; its id is the effect and a random number."""


class CratesLanded(Event):
    crate_ids: list[str] = names(Crate)


class PartsFound(Event):
    part_ids: list[str] = names(Part)


class StampWanted(Event):
    stamp_id: str = names(Stamp)


class ShipSeen(Event):
    """An event that no service takes."""

    name: str = ""


def harbour(*, repaired: bool = False) -> App:
    """Return the app. Until it is repaired, documents with a fault fail."""
    app = App(settings=Settings(), version="2.0" if repaired else "1.0")

    def leave_slip(work: Work, what: str, document: Document) -> None:
        work.add(Slip(id=f"{what} {document.id} {secrets.token_hex(6)}"), parent=None)

    @app.service("unloading", on=CratesLanded, finishes=Crate)
    def unload(crate: Crate, work: Work) -> None:
        if crate.fault == "half" and work.cursor is None:
            leave_slip(work, "opened", crate)
            work.checkpoint({"opened": True})
        if crate.fault and not repaired:
            raise (
                Permanent(f"{crate.id} is empty")
                if crate.fault == "permanent"
                else OSError(f"{crate.id} is stuck")
            )
        leave_slip(work, "unloaded", crate)
        facets = {"owner": crate.owner}
        work.index(crate, title=crate.id, text=f"a crate of {crate.owner}", facets=facets, date=crate.weight)
        work.place(crate, struct.pack("<2f", crate.weight, 1.0), model=MODEL)

    @app.service("packing", on=PartsFound, finishes=Part, batch=8, sets_aside=True)
    def pack(parts: Sequence[Part], work: Work) -> None:
        for part in parts:
            if part.fault and not repaired:
                work.set_aside(part, ValueError(f"{part.id} does not fit"))
            else:
                leave_slip(work, "packed", part)

    @app.service("stamping", on=StampWanted, finishes=Stamp, needs="customs")
    def stamp(stamp: Stamp, work: Work) -> None:
        leave_slip(work, "stamped", stamp)

    return app


def fill(url: str) -> None:
    """Make a store in which everything is under way."""
    with Simulation(harbour(), store=url) as world:
        app, store = world.app, world.store
        land(app, "early", "", "", "transient", "permanent", "half", source="ship-1")
        land(app, "gone", "", source="ship-0")
        world.run_for(12 * HOUR)  # a crate that cannot be unloaded has had all of its rounds
        store.forget("ship-0")
        store.pack_index(everything=True)
        land(app, "later", "", "", "transient", "permanent", "half", source="ship-2")
        parts = [Part(id=f"part-{n}", fault="aside" if n in (2, 5) else "") for n in range(8)]
        app.publish(PartsFound.of(parts), documents=parts, source="ship-2")
        world.drain(within=60.0)  # three tries, then they are dead letters
        world.fail("customs", for_seconds=10 * HOUR)
        want_stamps(app, range(8))
        world.drain(within=120.0)
        decide(store)
        leave_rows(app, store)


def land(app: App, name: str, *faults: str, source: str) -> None:
    owners = ("Ada", "Bert")
    crates = [
        Crate(id=f"{name}-{n}", owner=owners[n % 2], weight=float(n), fault=fault)
        for n, fault in enumerate(faults)
    ]
    for crate in crates:
        app.publish(CratesLanded.of([crate]), documents=[crate], source=source)


def want_stamps(app: App, numbers: range) -> None:
    for number in numbers:
        stamp = Stamp(id=f"stamp-{number}")
        app.publish(StampWanted.of(stamp), documents=[stamp])


def decide(store: Store) -> None:
    """What people, the gateway and the roll-ups leave in a store."""
    stuck, *_ = [group for group in store.failure_groups() if "stuck" in group.message]
    empty, *_ = [group for group in store.failure_groups() if "empty" in group.message]
    store.note_group(stuck.fingerprint, "ana", "the lid is nailed")
    store.assign_group(stuck.fingerprint, "ana")
    store.close_group(empty.fingerprint, "ana", "2.0")
    store.split_group(stuck.fingerprint, SplitBy.VERSION, "1.0", "ana")
    store.add_documents(list(_new(Crate(id="discarded", owner="Ada"))))
    store.discard("crates", "discarded")
    done = store.begin_operation("Retry", "ana", "cli", action="RetryDocuments", parameters={"keys": []})
    store.end_operation(done.id, 1, OperationStatus.DONE, done=3, total=3, text="3 put back.", problem="")
    store.begin_operation("Discard", "bert", "console", action="DiscardDocuments", parameters={"keys": []})
    store.log_action("ana", "cli", "retry", {"collection": "crates"}, 3)
    counts = ServiceCounts(events=5, documents=7)
    counts.add_tries([0.02] * 5)
    store.add_counts({(int(store.now()) // MINUTE * MINUTE, "unloading"): counts})
    store.count("made_up_total", "crates", 5.0)
    store.acquire_role("retry_job", LOST_MACHINE, 30.0)
    store.report_gateway(GatewayReport(holder=LOST_MACHINE, at=store.now(), trouble="the broker is away"))


def _new(*documents: Document) -> Iterator[NewDocument]:
    for one in documents:
        yield NewDocument(one.collection, one.id, one.to_json(), keys=one.key_values())


def leave_rows(app: App, store: Store) -> None:
    """Rows in all states: claimed by a worker that is gone, suspect, unrouted, malformed, leaving, not yet due."""
    land(app, "claimed", *[""] * 4, source="ship-3")
    about = {"worker": LOST_MACHINE, "host": "lost", "pid": 1, "version": "1.0"}
    for _ in range(2):  # the process of the first ones died twice: from now on, each is run alone
        rows = [one.row for one in store.claim(LOST_MACHINE, "unloading", limit=2, lease=60.0)]
        store.record_crash(LOST_MACHINE, rows)
    store.register_worker(LOST_MACHINE, about)
    store.claim(LOST_MACHINE, "unloading", limit=1, lease=60.0)
    app.publish(ShipSeen(name="Hope"))
    app.publish_raw(b'{"event_type": "CratesLanded", "event_id": "m-1", "data": {"crate_ids": 5}}')
    app.add(Crate(id="foreign-0", owner="Ada"), source="ship-3")
    app.publish_raw(b'{"event_type": "CratesLanded", "event_id": "f-1", "data": {"crate_ids": ["foreign-0"]}}')
    store.outgoing = OutgoingEvents(None)
    land(app, "waiting", *[""] * 3, source="ship-3")
    store.outgoing = OutgoingEvents()
    app.publish(CratesLanded(crate_ids=["not-landed-yet"]))


# -- what a store has


def facts(store: Store) -> dict[str, Any]:
    """Return what a store has, as far as it can be seen through its methods."""
    found = rank(store, "crate", document=Crate)
    return {
        "documents": store.document_counts(),
        "ledger": store.counts(),
        "dead_letters": sorted(f"{one.service_name} {one.abandoned_reason}" for one in store.dead_letters()),
        "failed_batches": sorted(f"{one.service} {one.source} {len(one.items)}" for one in store.failed_batches()),
        "openings": [f"{one['dependency']} {one['reason']}" for one in store.openings()],
        "subscriptions": sorted(one.service for one in store.subscriptions()),
        "sources": sorted(store.sources()),
        "groups": sorted(
            f"{one.error_type} {one.failures} {one.documents} {one.life.owner} {len(one.life.notes)}"
            for one in store.failure_groups()
        ),
        "rules": [str(one.state) for one in store.group_rules()],
        "operations": sorted(f"{one.title} {one.done}/{one.total}" for one in store.operations()),
        "actions": [one.action for one in store.actions()],
        "rollups": sum(one.events for one in store.service_counts(MINUTE, 0.0, "unloading").values()),
        "totals": store.totals()["made_up_total"],
        "outbox": store.outbox_status().waiting,
        "gateway": store.gateway_report().trouble,
        "versions": sorted(version for version, _, _ in store.versions()),
        "found": sorted(hit.id for hit in found.hits),
        "vectors": store.vector_counts(Crate),
        "of_ada": sorted(store.ids(Crate, "owner", "Ada")),
        "rounds": {state.id: state.attempt_count for state in all_states(store, Crate)},
    }


def all_states(store: Store, kind: type[Document]) -> list[DocumentState]:
    return store.states(kind, limit=1000)


EFFECTS: dict[type[Document], str] = {Crate: "unloaded", Part: "packed", Stamp: "stamped"}


def work_off(url: str) -> dict[str, Any]:
    """Let a repaired app finish everything; return what is lost, doubled and left."""
    with Simulation(harbour(repaired=True), store=url) as world:
        world.clock.advance(14 * HOUR)  # after what `fill` has done
        world.run_for(10 * 24 * HOUR)
        store = world.store
        slips = Counter(state.id.rpartition(" ")[0] for state in all_states(store, Slip))
        lost: list[str] = []
        for kind, effect in EFFECTS.items():
            for state in all_states(store, kind):
                done = slips.pop(f"{effect} {state.id}", 0)
                if done > 1:
                    slips[f"{effect} {state.id}"] = done
                if (state.status == Status.PROCESSED) != (done > 0) or state.status == Status.PENDING:
                    lost.append(f"{state.collection}/{state.id} {state.status}")
        # A crate that is opened is opened again in each round.
        doubled = [f"{effect} {count}" for effect, count in slips.items() if not effect.startswith("opened ")]
        return {
            "lost": lost,
            "doubled": doubled,
            "documents": store.document_counts(),
            "left": {
                service: {state: count for state, count in states.items() if state != "done"}
                for service, states in store.counts().items()
            },
            "failed_batches": len(store.failed_batches()),
            "open": [one.dependency for one in store.breakers() if one.open],
            "found": sorted(hit.id for hit in rank(store, "crate", document=Crate).hits),
        }
