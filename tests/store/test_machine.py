"""Whatever happens in whatever order: nothing is lost, doubled, stuck, or back from the dead.

Hypothesis drives a store on a file through publishing, claiming, settling, crashing and an operator's
decisions, next to a plain model of what each document should be. After every step the file is read
with an eye of its own and compared.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from onward.ledger.dialect import Database
from onward.ledger.postgres.dialect import PostgresDatabase
from onward.ledger.sqlite.dialect import SQLiteDatabase
from onward.model.documents import Status
from onward.model.events import Envelope
from onward.model.ledger import (
    Charge,
    CommitStatus,
    DeadLettered,
    Delivery,
    DependencyReport,
    IndexedVector,
    InFailedBatch,
    InputStatus,
    NewDocument,
    Processed,
    RetryLater,
    Settlement,
    SettlementPart,
)
from tests.store.library import indexed
from tests.support.crashing_database import Crash, FragileStore
from tests.support.store_pages import LEASE, LISTENING, READING, Clock, Noticed, PagesFound, failure, page

A = TypeVar("A")

MEMORY = Path("/dev/shm")
"""Where it exists, a folder that is never synced: the machine crashes in many ways, but not the power."""
PAGES = [f"p{n}" for n in range(5)]
SOURCES = [None, "s", "t"]
WORKERS = ["anna", "bert"]
a_page = st.sampled_from(PAGES)
some_pages = st.lists(a_page, min_size=1, max_size=4, unique=True)
a_worker = st.sampled_from(WORKERS)
DISTURBANCES = [
    "write", "change", "decide", "requeue", "requeue", "forget", "outage", "checkpoint", "restart", "fuse", "fuse",
    "pack",
]  # fmt: skip
seldom = st.sampled_from([False, False, False, True])
fates = st.lists(
    st.sampled_from(["done", "done", "done", "wait", "try", "dead", "failed", "aside", "nothing"]),
    min_size=4,
    max_size=4,
)


@dataclass
class Known:
    """What a document should be."""

    source: str | None
    text: str = ""
    status: str = Status.PENDING
    round: int = 0
    attempts: int = 0
    revision: int = 1
    row: int | None = None
    letter: int | None = None
    promised: bool = False
    """An event asked for it and has not been answered yet: it must not be forgotten."""
    finished: set[int] = field(default_factory=set)

    @property
    def final(self) -> bool:
        return self.status != Status.PENDING

    @property
    def untouched(self) -> bool:
        return self.round == 0 and self.row is None and not self.final

    def begin(self, row: int | None) -> None:
        self.round += 1
        self.attempts += 1
        self.row = row
        self.promised = True


class StoreMachine(RuleBasedStateMachine):
    status_counts = "status_counts"

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.prepare()
        self.store = self.open_store()
        self.docs: dict[str, Known] = {}
        self.held: list[Delivery] = []
        self.live: dict[int, tuple[int, str]] = {}
        """Claimed rows: token and worker."""
        self.leases: dict[str, float] = {}
        """When the lease of each worker ends."""
        self.sources: dict[int, str | None] = {}
        self.emitted: set[str] = set()
        self.words: dict[str, str] = {}
        """What works have made, and from which page."""
        self.works = 0

    @initialize(sources=st.lists(st.sampled_from(SOURCES), min_size=len(PAGES), max_size=len(PAGES)))
    def begin(self, sources: list[str | None]) -> None:
        self.store.subscribe([READING, LISTENING])
        for id, source in zip(PAGES[:-1], sources, strict=False):
            self.write([id], source)
        self.publish(PAGES[:2], "")
        self.publish(PAGES[2:], "")

    def teardown(self) -> None:
        try:
            self.store.db.fuse = 0
            self._drain()
        finally:
            self.store.close()
            self.clear_away()

    # -- the database, and looking at it

    def prepare(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="onward-", dir=MEMORY if MEMORY.is_dir() else None))
        self.eye = sqlite3.connect(self.folder / "onward.db", isolation_level=None)

    def open_store(self) -> FragileStore:
        return FragileStore(self.open_database(), self.clock)

    def open_database(self) -> Database:
        return SQLiteDatabase(self.folder / "onward.db")

    def clear_away(self) -> None:
        self.eye.close()
        shutil.rmtree(self.folder)

    def ask(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.eye.execute(query, values).fetchall()

    def dump(self) -> list[list[tuple[Any, ...]]]:
        tables = ("documents", "bodies", "ledger", "sources", "breakers", "openings", "workers")
        return [sorted(self.ask(f"SELECT * FROM {table}"), key=repr) for table in tables]

    def row_of(self, id: str) -> int | None:
        ((row,),) = self.ask("SELECT \"row\" FROM documents WHERE collection = 'pages' AND id = ?", id)
        return row if row is None else int(row)

    def pairs(self, row: int) -> dict[str, int]:
        found = self.ask("SELECT CAST(ids AS text) FROM ledger WHERE id = ?", row)
        return dict(json.loads(found[0][0])) if found else {}

    def attempt(self, act: Callable[[], A]) -> A | None:
        """Do it; if it crashes on the way, nothing of it has happened."""
        before = self.dump() if self.store.db.fuse else None
        try:
            return act()
        except Crash:
            assert self.dump() == before
            self.reopen()
            return None
        finally:
            self.store.db.fuse = 0

    # -- what happens

    @rule(what=st.sampled_from(DISTURBANCES), data=st.data())
    def disturb(self, what: str, data: st.DataObject) -> None:
        """Whatever is not the daily work; one rule, so that the daily work gets its turns."""
        yes = data.draw(st.booleans())
        match what:
            case "write":
                self.write(data.draw(some_pages), data.draw(st.sampled_from(SOURCES)))
            case "change":
                self.content_changes(data.draw(a_page), data.draw(st.sampled_from(["", "new", "newer"])))
            case "decide":
                self.an_operator_decides(data.draw(a_page), discards=yes)
            case "requeue":
                self.requeue(data)
            case "forget":
                self.forget("s" if yes else "t")
            case "outage":
                self.an_outage(begins=yes)
            case "checkpoint":
                self.checkpoint(data, data.draw(st.sampled_from(['"x"', "7"])), starts=yes)
            case "restart":
                self.a_new_process(prunes=yes)
            case "pack":
                self.attempt(lambda: self.store.atomically(lambda: self.store.pack_index(everything=yes)))
            case "fuse":
                self.light_a_fuse(data.draw(st.integers(1, 12)))

    def light_a_fuse(self, fuse: int) -> None:
        self.store.db.fuse = fuse

    def a_new_process(self, prunes: bool) -> None:
        self.reopen()
        if prunes:
            self.store.prune(keep_seconds=10, keep_count=3)

    def reopen(self) -> None:
        self.store.close()
        self.store = self.open_store()

    def write(self, ids: list[str], source: str | None) -> None:
        added = self.attempt(lambda: self.store.add_documents([page(id, source=source) for id in ids]))
        if added is not None:
            new = [id for id in ids if id not in self.docs]
            assert added == len(new)
            self.docs |= {id: Known(source) for id in new}

    @rule(ids=some_pages, found_by=st.sampled_from(["", "x"]))
    def publish(self, ids: list[str], found_by: str) -> None:
        envelopes = Envelope.of(PagesFound(page_ids=ids, found_by=found_by), now=self.clock.now())
        answer = self.attempt(lambda: self.store.publish(envelopes))
        if answer is None:
            return
        (published,) = answer
        assert published.rows + published.duplicates > 0
        self.begun(ids, sure=not published.duplicates, maybe=published.rows > 0)

    def begun(self, ids: Iterable[str], *, sure: bool, maybe: bool) -> None:
        """These documents were put on the ledger; where an event counts as a duplicate, one had them."""
        for id in ids:
            doc = self.docs.get(id)
            if doc is None or doc.final:
                continue
            row = self.row_of(id)
            assert row is not None, "what was published or called a duplicate is under way"
            if sure or (maybe and row != doc.row):
                doc.begin(row)
            assert row == doc.row

    @rule(worker=a_worker, limit=st.integers(1, 3), suspects=seldom, needs=seldom)
    def claim(self, worker: str, limit: int, suspects: bool, needs: bool) -> None:
        waiting = self.ask("SELECT id, due FROM ledger WHERE service = 'reading' AND state = 'waiting'")
        due = {row for row, due in waiting if due <= self.clock.now()}
        deliveries = self.attempt(
            lambda: self.store.claim(
                worker,
                "reading",
                limit=limit,
                lease=LEASE,
                suspects=suspects,
                needs=["model"] if needs else [],
            )
        )
        if deliveries and self.leases.get(worker, -LEASE) <= self.clock.now() + LEASE - 1:
            self.leases[worker] = self.clock.now() + LEASE
        for delivery in deliveries or []:
            assert delivery.row in due
            assert (delivery.deaths >= 2) == suspects
            self.handed_over(delivery, worker)

    def handed_over(self, delivery: Delivery, worker: str) -> None:
        self.held.append(delivery)
        self.live[delivery.row] = (delivery.token, worker)
        self.sources[delivery.row] = delivery.source
        for one in delivery.inputs:
            doc = self.docs.get(one.id)
            if one.status is InputStatus.MISSING:
                assert doc is None
            elif one.status is InputStatus.FINAL:
                assert doc is not None
                assert doc.final
            elif one.status is InputStatus.READY:
                assert doc is not None
                if doc.untouched:
                    doc.begin(delivery.row)
                assert (doc.final, doc.row, doc.revision) == (False, delivery.row, one.revision)
                assert one.body == page(one.id, doc.text).body
            else:
                assert doc is None or doc.row != delivery.row

    @precondition(lambda self: self.held)
    @rule(data=st.data(), fates=fates, stays=seldom, strikes=seldom, removes=seldom)
    def settle(self, data: st.DataObject, fates: list[str], stays: bool, strikes: bool, removes: bool) -> None:
        """A worker, maybe a zombie, comes back with its work."""
        delivery = data.draw(st.sampled_from(self.held))
        self.works += 1
        parts, done = self._parts(delivery, fates)
        revisions = {one.id: one.revision for one in delivery.inputs}
        settlement = Settlement(
            delivery.row,
            delivery.token,
            delivery.collection,
            inputs=[(id, revisions[id]) for id in done],
            adds=[
                NewDocument("words", f"{id}-{self.works}", "{}", parent=f"pages/{id}", keys=[("page", id)])
                for id in done
            ],
            texts=[indexed(f"{id}-{self.works}", id, collection="words") for id in done],
            vectors=[IndexedVector("pages", id, "model", b"") for id in revisions],
            emits=Envelope.of(Noticed(what=str(self.works)), now=self.clock.now()),
            removes=[("pages", id) for id in PAGES if id not in revisions][: 1 if removes else 0],
            parts=parts,
            closes=not stays,
            dependencies=self._report(strikes, parts),
        )
        named = self.pairs(delivery.row)
        answer = self.attempt(lambda: self.store.settle([settlement]))
        if answer is None:
            return
        verdict = answer[0].status
        if self._fenced(delivery):
            assert verdict is CommitStatus.FENCED
            self.held.remove(delivery)
        elif self._stale(delivery, settlement):
            assert verdict is CommitStatus.STALE
            self.held.remove(delivery)
            self.live.pop(delivery.row)
            self._moved(delivery.row)
        else:
            assert verdict is CommitStatus.COMMITTED
            self._committed(delivery, settlement, answer[0].parts or settlement.parts, named)

    def _parts(self, delivery: Delivery, fates: Sequence[str]) -> tuple[list[SettlementPart], list[str]]:
        parts: list[SettlementPart] = []
        done: list[str] = []
        for one, fate in zip(delivery.inputs, fates, strict=False):
            if fate == "nothing":
                continue  # nobody speaks for it
            if one.status is InputStatus.MISSING:
                parts.append(
                    DeadLettered([one.id], failure=failure(), charge=Charge.NOT_READY)
                    if fate in ("dead", "failed")
                    else RetryLater([one.id], after=1.0, charge=Charge.NOT_READY)
                )
            elif one.status is InputStatus.READY:
                if fate == "done":
                    done.append(one.id)
                    parts.append(Processed([one.id]))
                elif fate == "wait":
                    parts.append(RetryLater([one.id], after=5.0))
                elif fate == "try":
                    parts.append(RetryLater([one.id], after=5.0, charge=Charge.TRY, failure=failure()))
                elif fate == "aside":
                    parts.append(InFailedBatch([one.id], failure()))
                else:
                    final = fate == "failed"
                    parts.append(DeadLettered([one.id], final=final, charge=Charge.TRY, failure=failure()))
        return parts, done

    def _report(self, strikes: bool, parts: Sequence[SettlementPart]) -> DependencyReport:
        if strikes and any(not isinstance(part, Processed) for part in parts):
            return DependencyReport(struck="model", reason="down")
        return DependencyReport(succeeded=["model"] if any(isinstance(one, Processed) for one in parts) else [])

    def _fenced(self, delivery: Delivery) -> bool:
        return self.live.get(delivery.row, (None,))[0] != delivery.token

    def _stale(self, delivery: Delivery, settlement: Settlement) -> bool:
        for id, revision in settlement.inputs:
            doc = self.docs.get(id)
            if doc is None or doc.final or doc.row != delivery.row or doc.revision != revision:
                return True
        return False

    def _committed(
        self, delivery: Delivery, settlement: Settlement, parts: Sequence[SettlementPart], named: dict[str, int]
    ) -> None:
        """Follow the parts that were committed: in an outage, failures are given back instead."""
        self.emitted.add(str(self.works))
        self.words |= {new.id: (new.parent or "").removeprefix("pages/") for new in settlement.adds}
        for _, id in settlement.removes:
            self._removed([id])
        for part in parts:
            for id in part.ids:
                doc = self.docs.get(id)
                if doc is not None and doc.untouched and named.get(id) == 0 and not isinstance(part, Processed):
                    doc.begin(delivery.row)  # it came while its event was told that it was missing
                if doc is not None and doc.row == delivery.row and not doc.final:
                    self._fate(doc, id, part)
        if settlement.closes:
            self.held.remove(delivery)
            self.live.pop(delivery.row, None)
            spoken_for = {id for part in parts for id in part.ids}
            for id in named.keys() - spoken_for:
                if (doc := self.docs.get(id)) and doc.row == delivery.row:
                    doc.row, doc.promised = None, False
        self._revived()

    def _fate(self, doc: Known, id: str, part: SettlementPart) -> None:
        if isinstance(part, Processed):
            assert doc.round not in doc.finished, "finished twice in one round"
            doc.finished.add(doc.round)
            doc.status, doc.row, doc.letter, doc.promised = Status.PROCESSED, None, None, False
        elif isinstance(part, RetryLater):
            doc.row = self.row_of(id)
            assert doc.row is not None
        elif isinstance(part, InFailedBatch):
            doc.row = doc.letter = None
            assert id in self.set_aside()
        elif isinstance(part, DeadLettered):
            ((letter, row),) = self.ask('SELECT dead_letter, "row" FROM documents WHERE id = ?', id)
            doc.row, doc.letter = None, letter
            if part.final:
                doc.status = Status.FAILED
            if letter is None:
                assert row is not None, "given up, unless its outage brought it back at once"

    def _revived(self) -> None:
        """An outage may have brought dead letters back, in the same round."""
        for id, doc in self.docs.items():
            if doc.letter is None and doc.row is not None:
                continue
            ((letter, row),) = self.ask('SELECT dead_letter, "row" FROM documents WHERE id = ?', id)
            if doc.row is None and row is not None and not doc.final and doc.promised:
                assert letter is None
                doc.row, doc.letter = row, None
            elif doc.letter is not None and letter is None and row == doc.row and row is not None:
                doc.letter = None  # the others of its letter came back; it has a newer round

    def _moved(self, row: int) -> None:
        """A row came back to the queue, perhaps into a twin: its documents went with it."""
        for id, doc in self.docs.items():
            if doc.row == row:
                doc.row = self.row_of(id)
                assert doc.row is not None

    def _removed(self, ids: Iterable[str]) -> None:
        gone = set(ids)
        for id in gone:
            self.docs.pop(id, None)
        self._unmade(gone)
        for row in list(self.live):
            found = self.ask("SELECT state FROM ledger WHERE id = ?", row)
            if not found or found[0][0] != "claimed":
                held = [one for one in self.held if one.row == row and one.token == self.live[row][0]]
                if all(one.id not in self.docs or self.docs[one.id].row != row for one in held[0].inputs):
                    self.live.pop(row)

    def _unmade(self, pages: Iterable[str]) -> None:
        self.words = {word: made_from for word, made_from in self.words.items() if made_from not in set(pages)}

    def checkpoint(self, data: st.DataObject, cursor: str, starts: bool) -> None:
        if not self.held:
            return
        delivery = data.draw(st.sampled_from(self.held))
        settlement = Settlement(delivery.row, delivery.token, "pages", closes=False, cursor=cursor, starts=starts)
        answer = self.attempt(lambda: self.store.settle([settlement]))
        if answer is not None:
            assert (answer[0].status is CommitStatus.FENCED) == self._fenced(delivery)
            if self._fenced(delivery):
                self.held.remove(delivery)

    @rule(seconds=st.sampled_from([-20.0, 0.5, 5.0, 12.0, LEASE, 3600.0]), reaps=st.booleans())
    def time_passes(self, seconds: float, reaps: bool) -> None:
        self.clock.advance(seconds)
        count = self.attempt(self.store.reclaim) if reaps else None
        if count is not None:
            lapsed = [row for row, (_, worker) in self.live.items() if self.leases[worker] <= self.clock.now()]
            assert count == len(lapsed)
            self._returned(lapsed)

    def _returned(self, rows: Iterable[int]) -> None:
        for row in rows:
            self.live.pop(row)
            self._moved(row)

    @rule(worker=a_worker, fate=st.sampled_from(["dies", "stops", "goes on"]), innocent=st.booleans())
    def a_worker(self, worker: str, fate: str, innocent: bool) -> None:
        mine = self._claims_of(worker)
        if fate == "dies":
            count = self.attempt(lambda: self.store.record_crash(worker, [] if innocent else mine))
        elif fate == "stops":
            count = self.attempt(lambda: self.store.release(worker))
        else:
            self.attempt(lambda: self._renew(worker))
            return
        if count is None:
            return
        assert count == len(mine)
        if fate == "dies":
            self.leases[worker] = min(self.leases.get(worker, self.clock.now()), self.clock.now())
        self._returned(mine)

    def _renew(self, worker: str) -> None:
        self.store.renew(worker, LEASE)
        self.leases[worker] = self.clock.now() + LEASE

    def _claims_of(self, worker: str) -> list[int]:
        return [row for row, (_, owner) in self.live.items() if owner == worker]

    def content_changes(self, id: str, text: str) -> None:
        known = self.docs.get(id)
        source = known.source if known else None
        changed = self.attempt(lambda: self.store.replace_document(page(id, text, source=source)))
        if changed is None:
            return
        assert changed == (known is None or known.text != text)
        if known is None:
            self.docs[id] = Known(None, text)
        elif changed:
            known.text, known.status, known.attempts = text, Status.PENDING, 0
            known.revision += 1
            self._unmade([id])

    def an_operator_decides(self, id: str, discards: bool) -> None:
        decide = self.store.discard if discards else self.store.reset
        answer = self.attempt(lambda: decide("pages", id))
        if answer is None:
            return
        assert answer == (id in self.docs)
        if doc := self.docs.get(id):
            doc.row, doc.promised = None, False
            doc.round += 1
            if discards:
                doc.status, doc.letter = Status.DISCARDED, None
            else:
                doc.status, doc.attempts = Status.PENDING, 0

    def requeue(self, data: st.DataObject) -> None:
        letters = [row for (row,) in self.ask("SELECT id FROM ledger WHERE state = 'dead' ORDER BY id")]
        if not letters:
            return
        letter = data.draw(st.sampled_from(letters))
        named = self.pairs(letter)
        answer = self.attempt(lambda: self.store.requeue(letter))
        if answer is None:
            return
        returning = [id for id, round in named.items() if self._returns(id, letter, round)]
        assert answer == bool(returning)
        for id in named if answer else ():
            doc = self.docs.get(id)
            if doc is None:
                continue
            if doc.letter == letter:
                doc.letter = None
            if id in returning:
                doc.status = Status.PENDING
                doc.begin(self.row_of(id))
                assert doc.row is not None

    def _returns(self, id: str, letter: int, round: int) -> bool:
        doc = self.docs.get(id)
        if doc is None:
            return round == 0
        return doc.row is None and (doc.letter == letter or doc.round == 0)

    def forget(self, source: str) -> None:
        try:
            self.store.forget(source)
        except Crash:  # between two of its transactions: it goes on when it is asked again
            self.reopen()
            self.store.forget(source)
        finally:
            self.store.db.fuse = 0
        gone = [id for id, doc in self.docs.items() if doc.source == source]
        for row, token in [(row, one[0]) for row, one in self.live.items()]:
            if self.sources[row] == source and not any(doc.row == row for doc in self.kept(source)):
                self.live.pop(row)
                self.held = [one for one in self.held if (one.row, one.token) != (row, token)]
        self._removed(gone)
        assert not self.ask("SELECT 1 FROM documents WHERE source = ?", source)
        assert not self.ask("SELECT 1 FROM ledger WHERE source = ?", source)
        self.emitted = {
            what for what in self.emitted
            if self.ask("SELECT 1 FROM ledger WHERE data = ?", json.dumps({"what": what}, separators=(",", ":")))
        }  # fmt: skip

    def kept(self, forgotten: str) -> list[Known]:
        return [doc for doc in self.docs.values() if doc.source != forgotten]

    def an_outage(self, begins: bool) -> None:
        if begins:
            self.attempt(lambda: self.store.open_breaker("model", "down"))
            self._revived()
        else:
            self.attempt(lambda: self.store.close_breaker("model"))

    # -- what must hold

    @invariant()
    def all_is_well(self) -> None:
        self.every_document_is_what_it_should_be()
        self.nothing_is_lost()
        self.rows_and_documents_name_each_other()
        self.nothing_waits_without_a_time_or_a_name()
        self.claims_are_known()
        self.each_work_is_told_of_once()
        self.each_effect_is_there_exactly_if_its_work_was_committed()
        self.each_document_has_a_body()
        self.tallies_equal_a_count()
        self.only_documents_are_found()
        self.failed_batches_have_members()

    def every_document_is_what_it_should_be(self) -> None:
        found = self.ask(
            'SELECT id, status, round, attempt_count, revision, "row", dead_letter FROM documents '
            "WHERE collection = 'pages'"
        )
        wanted = {
            id: (str(doc.status), doc.round, doc.attempts, doc.revision, doc.row, doc.letter)
            for id, doc in self.docs.items()
        }
        assert {one[0]: one[1:] for one in found} == wanted

    def nothing_is_lost(self) -> None:
        for id, doc in self.docs.items():
            if doc.promised and not doc.final:
                known = doc.row is not None or doc.letter is not None or id in self.set_aside()
                assert known, f"{id} is neither under way, nor given up, nor set aside"

    def rows_and_documents_name_each_other(self) -> None:
        states = dict(self.ask("SELECT id, state FROM ledger"))
        for id, doc in self.docs.items():
            if doc.row is not None:
                assert not doc.final
                assert states.get(doc.row) in ("waiting", "claimed"), f"{id} points to {states.get(doc.row)}"
                assert self.pairs(doc.row).get(id) == doc.round
            if doc.letter is not None:
                assert states.get(doc.letter) == "dead"
                assert id in self.pairs(doc.letter)
        for row, names in self.ask("SELECT id, CAST(ids AS text) FROM ledger WHERE state = 'dead'"):
            for id, round in json.loads(names):
                assert round == 0 or self.docs[id].letter == row, "a dead letter that nobody can close"

    def nothing_waits_without_a_time_or_a_name(self) -> None:
        assert not self.ask("SELECT id FROM ledger WHERE state = 'waiting' AND (due IS NULL OR due > 9e9)")
        held = "EXISTS (SELECT 1 FROM leases WHERE leases.worker = ledger.worker)"
        assert not self.ask(f"SELECT id FROM ledger WHERE state = 'claimed' AND NOT {held}")
        assert not self.ask("SELECT id FROM ledger WHERE state IN ('done', 'dead') AND settled_at IS NULL")
        assert not self.ask("SELECT id FROM ledger WHERE state = 'dead' AND reason IS NULL")
        assert not self.ask(
            "SELECT key FROM ledger WHERE state = 'waiting' GROUP BY service, key HAVING count(*) > 1"
        )

    def claims_are_known(self) -> None:
        found = self.ask("SELECT id, token, worker FROM ledger WHERE state = 'claimed'")
        assert {row: (token, worker) for row, token, worker in found} == {
            row: (token, worker) for row, (token, worker) in self.live.items()
        }

    def each_work_is_told_of_once(self) -> None:
        told = [
            json.loads(data)["what"] for (data,) in self.ask("SELECT data FROM ledger WHERE service = 'listening'")
        ]
        assert sorted(told) == sorted(self.emitted)

    def each_effect_is_there_exactly_if_its_work_was_committed(self) -> None:
        found = self.ask("SELECT id FROM documents WHERE collection = 'words'")
        assert sorted(id for (id,) in found) == sorted(self.words)

    def each_document_has_a_body(self) -> None:
        assert self.ask("SELECT doc FROM documents ORDER BY 1") == self.ask("SELECT doc FROM bodies ORDER BY 1")

    def set_aside(self) -> set[str]:
        return {id for (id,) in self.ask("SELECT id FROM documents WHERE failed_batch IS NOT NULL")}

    def tallies_equal_a_count(self) -> None:
        counted = "SELECT coalesce(source, ''), collection, status, count(*) FROM documents GROUP BY 1, 2, 3"
        sums = "GROUP BY 1, 2, 3 HAVING sum(n) <> 0"
        kept = f"SELECT source, collection, status, sum(n) FROM {self.status_counts} {sums}"
        assert sorted(self.ask(kept)) == sorted(self.ask(counted))

    def only_documents_are_found(self) -> None:
        for table in ("keys", "texts", "waiting_texts", "text_numbers", "vectors", "waiting_vectors"):
            assert not self.ask(f"SELECT doc FROM {table} EXCEPT SELECT doc FROM documents"), table
        waiting, packed = "SELECT doc FROM waiting_texts", "SELECT doc FROM text_numbers"
        assert sorted(self.ask(f"{waiting} UNION ALL {packed}")) == sorted(self.ask("SELECT doc FROM texts"))

    def failed_batches_have_members(self) -> None:
        members = "SELECT failed_batch FROM documents WHERE failed_batch IS NOT NULL"
        assert sorted(self.ask("SELECT id FROM failed_batches")) == sorted(set(self.ask(members)))

    def live_rows(self) -> list[tuple[int]]:
        return self.ask("SELECT id FROM ledger WHERE service = 'reading' AND state IN ('waiting', 'claimed')")

    def _drain(self) -> None:
        """At rest, with good workers, everything comes to its end."""
        if not self.store.subscriptions():
            return
        self.store.close_breaker("model")
        for _ in range(200):
            self.clock.advance(LEASE)
            self.store.reclaim()
            deliveries = self.store.claim("carl", "reading", limit=100, lease=LEASE)
            deliveries += self.store.claim("carl", "reading", limit=1, lease=LEASE, suspects=True)
            for one in deliveries:
                ready = [given.id for given in one.inputs if given.status is InputStatus.READY]
                missing = [given.id for given in one.inputs if given.status is InputStatus.MISSING]
                parts: list[SettlementPart] = [
                    Processed(ready),
                    *([DeadLettered(missing, failure=failure())] if missing else []),
                ]
                self.store.settle([Settlement(one.row, one.token, one.collection, parts=parts)])
            if not deliveries and not self.live_rows():
                break
        assert not self.live_rows(), "something never comes to its end"
        for id, doc in self.docs.items():
            if doc.promised:
                ((status, letter),) = self.ask("SELECT status, dead_letter FROM documents WHERE id = ?", id)
                known = status != "pending" or letter is not None or id in self.set_aside()
                assert known, f"{id} was never finished"


EXAMPLES = settings().max_examples
TestMachine = StoreMachine.TestCase
TestMachine.settings = settings(
    max_examples=EXAMPLES // 4, stateful_step_count=50, suppress_health_check=list(HealthCheck)
)


class PostgresMachine(StoreMachine):
    """The same on PostgreSQL."""

    url: ClassVar[str]
    status_counts = "all_status_counts"

    def prepare(self) -> None:
        address, _, schema = self.url.partition("?schema=")
        self.server = psycopg.connect(address, autocommit=True, options=f"-c search_path={schema}")
        for (table,) in self.ask("SELECT tablename FROM pg_tables WHERE schemaname = ?", schema):
            if table != "schema_version":
                self.ask(f"DELETE FROM {table} RETURNING 1")

    def open_database(self) -> Database:
        return PostgresDatabase(self.url)

    def clear_away(self) -> None:
        self.server.close()

    def ask(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self.server.execute(query.replace("?", "%s").encode(), values).fetchall()


@pytest.fixture
def postgres_machine(postgres_store_url: str) -> None:
    PostgresMachine.url = postgres_store_url


TestPostgresMachine = pytest.mark.usefixtures("postgres_machine")(PostgresMachine.TestCase)
TestPostgresMachine.settings = settings(TestMachine.settings, max_examples=EXAMPLES // 20)
