"""The store on a relational database."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from onward.backends.relational import claiming, operating, publishing, settling
from onward.backends.relational.announcing import AnnouncingStore
from onward.backends.relational.base import transactional
from onward.backends.relational.database import Database
from onward.backends.relational.grouping import GroupStore
from onward.backends.relational.letters import LetterStore, read_letter
from onward.backends.relational.retrying import RetryStore, read_batch, read_state
from onward.backends.relational.searching import FullText, TextSearch
from onward.backends.relational.spaces import Spaces
from onward.backends.relational.steering import SteeringStore
from onward.backends.relational.telling import TellingStore
from onward.model import breaker as breaker_rules
from onward.model.breaker import Breaker
from onward.model.documents import Document, DocumentState
from onward.model.events import Envelope
from onward.model.failures import Failure
from onward.model.ledger import (
    KEEP_UNROUTED_SECONDS,
    TURNS,
    DeadLetter,
    Delivery,
    FailedBatch,
    Found,
    NewDocument,
    Published,
    Settled,
    Settlement,
    Subscription,
)
from onward.model.search import Filter, Matches, VectorHit
from onward.ports import Clock
from onward.ports.store import D
from onward.retry import redact

_HIGHEST = 2**31
KEEP_STRANGERS_SECONDS = 7 * 86_400.0
"""For so long a stranger's event is known, and not taken in twice when it is brought again."""
KEEP_WORKERS_SECONDS = 86_400.0
"""For so long a worker is known that has disappeared."""
_LAST_CHARACTER = "\U0010ffff"
_LONGEST_ID = 512


class RelationalStore(AnnouncingStore, RetryStore, LetterStore, SteeringStore, GroupStore, TellingStore):
    """Documents and ledger on a relational database; see `onward.ports.Store`."""

    def __init__(self, db: Database, clock: Clock, texts: FullText) -> None:
        super().__init__(db, clock)
        self._texts = texts
        self._spaces = Spaces(db)
        self._turns: dict[str, int] = {}
        """Claims of each service since what waits in the background last had its turn."""

    # -- reading

    def get(self, document: type[D], id: str) -> D | None:
        found = self.get_many(document, [id])
        return found[0] if found else None

    def get_many(self, document: type[D], ids: Sequence[str]) -> list[D]:
        bodies = {id: body for id, _, body in self.read_bodies(document.collection, ids)}
        return [document.from_json(bodies[id]) for id in ids if id in bodies]

    def read_bodies(self, collection: str, ids: Sequence[str]) -> list[tuple[str, int, str]]:
        return [(id, revision, body) for id, revision, body in self.db.read("bodies_by_id", collection, list(ids))]

    def state(self, document: type[Document] | str, id: str) -> DocumentState | None:
        collection = _collection(document)
        found = self.db.read("document", collection, id)
        return None if found is None else read_state(collection, [id, *found])

    def statuses(self, document: type[Document] | str, ids: Sequence[str]) -> dict[str, str]:
        return dict(self.db.read("statuses", _collection(document), list(ids)))

    def find(self, document: type[Document] | str, key: str, values: Sequence[str | float]) -> list[Found]:
        return [Found(*one) for one in self.db.read("found", key, list(values), _collection(document))]

    def ids(self, document: type[Document] | str, key: str, value: str | float) -> list[str]:
        return [id for (id,) in self.db.fetch("keyed_ids", key, [value], _collection(document))]

    def related(
        self, document: type[Document] | str, key: str, values: Sequence[str | float], other: str
    ) -> list[tuple[str | float, str | float]]:
        found = self.db.read("related", key, list(values), other, _collection(document))
        return [(value, with_it) for value, with_it in found]

    def unfinished(
        self,
        document: type[Document],
        key: str,
        values: Sequence[str | float],
        *,
        children: type[Document],
    ) -> set[str | float]:
        found = self.db.read("unfinished", key, list(values), document.collection, children.collection)
        return set(found)

    def children(
        self,
        document: type[Document] | str,
        of: type[Document] | str,
        ids: Sequence[str],
        *,
        unlike: str | None = None,
    ) -> list[Found]:
        prefix = f"{_collection(of)}/"
        found = self.db.read("children_of", [prefix + id for id in ids], _collection(document), unlike)
        return [Found(parent.removeprefix(prefix), *more) for parent, *more in found]

    def states(
        self,
        document: type[Document] | str,
        *,
        status: str | None = None,
        source: str | None = None,
        after: str = "",
        limit: int = 100,
    ) -> list[DocumentState]:
        collection = _collection(document)
        if status is not None:
            behind = (collection, after)
            return self.find_states(collection=collection, status=status, source=source, after=behind, limit=limit)
        found = self.db.read("listed", collection, status, source, after, limit)
        return [read_state(collection, values) for values in found]

    def sources(self) -> list[str]:
        return list(self.db.read("sources"))

    def key_values(self, key: str) -> list[str | float]:
        return list(self.db.read("keyed", key))

    def match(
        self,
        wanted: Sequence[str],
        unwanted: Sequence[str],
        document: type[Document] | str,
        *,
        titles: bool = True,
        source: str | None = None,
        filters: Sequence[Filter] = (),
        limit: int | None = None,
        besides: Sequence[str] = (),
    ) -> Matches:
        asked = TextSearch(wanted, unwanted, _collection(document), titles, source, filters, limit, besides)
        return self._texts.match(self.db, asked)

    def excerpts(
        self,
        wanted: Sequence[str],
        unwanted: Sequence[str],
        document: type[Document] | str,
        ids: Sequence[str],
    ) -> dict[str, tuple[str, str]]:
        return self._texts.excerpts(self.db, wanted, unwanted, _collection(document), ids)

    def nearest(
        self,
        vector: bytes,
        document: type[Document] | str,
        *,
        model: str,
        parents: type[Document] | str,
        source: str | None = None,
        filters: Sequence[Filter] = (),
        each_parent: bool = False,
        limit: int | None = None,
        among: Sequence[str] | None = None,
    ) -> list[VectorHit]:
        return self._spaces.nearest(
            vector,
            model=model,
            collection=_collection(document),
            parents=_collection(parents),
            source=source,
            filters=filters,
            each_parent=each_parent,
            limit=limit,
            among=among,
        )

    def not_placed(
        self, document: type[Document] | str, model: str, *, after: str = "", limit: int = 500
    ) -> list[str]:
        return list(self.db.read("not_placed", model, _collection(document), after, limit))

    # -- putting events on the ledger

    def subscribe(self, subscriptions: Sequence[Subscription]) -> None:
        if self._to_subscribe(subscriptions):  # else without waiting for whoever writes
            self.atomically(lambda: self._subscribe(self._to_subscribe(subscriptions)), alone=True)

    def _subscribe(self, new: Sequence[Subscription]) -> None:
        for one in new:
            self._take_over(one)
            self.db.send(
                "subscribe",
                one.service,
                one.event_type,
                one.finishes,
                one.ids_field,
                json.dumps(one.naming),
                json.dumps(one.needs),
                one.failed_queue,
                one.version,
            )
        books = self._books()
        for event_type in {one.event_type for one in new}:
            publishing.route_unrouted(books, event_type)
        books.write()

    def _to_subscribe(self, subscriptions: Sequence[Subscription]) -> list[Subscription]:
        """Those that are new, without those whose duty a service by another name has, while it is at work."""
        known = self.subscriptions()
        newer = {old.service: old.version for old in known}
        # During an upgrade both are at work: the old release does not undo what the new one has said.
        new = [one for one in subscriptions if one not in known and one.version >= newer.get(one.service, 0)]
        if not new:
            return []
        served = {name for worker in self.workers() for name in worker.get("services", ())}
        return [one for one in new if not any(_same_duty(one, old) and old.service in served for old in known)]

    def _take_over(self, new: Subscription) -> None:
        """A document is one service's responsibility: one by another name was renamed, and its rows with it."""
        for old in self.subscriptions():
            if _same_duty(new, old):
                self.db.send("unsubscribe", old.service)
                self.db.send("rename_rows", new.service, old.service)
                self.db.send("rename_batches", new.service, old.service)

    def subscriptions(self) -> list[Subscription]:
        return self._books().subscriptions()

    @transactional
    def publish(self, envelopes: Sequence[Envelope]) -> list[Published]:
        books = self._books()
        published = publishing.publish(books, envelopes)
        books.write()
        return published

    @transactional
    def publish_malformed(self, raw: bytes, failure: Failure, *, event_type: str = "") -> None:
        publishing.keep_malformed(self._books(), raw, failure, event_type)

    @transactional
    def add_documents(self, documents: Sequence[NewDocument]) -> int:
        return settling.add_outside(self._books(), documents)

    @transactional
    def replace_document(self, document: NewDocument) -> bool:
        books = self._books()
        if books.document((document.collection, document.id)) is None:
            settling.add_outside(books, [document])
            return True
        key = (document.collection, document.id)
        changed = settling.replace_content(books, key, document.body, document.keys)
        books.write()
        return changed

    # -- claiming and settling

    @transactional
    def claim(
        self,
        worker: str,
        service: str,
        *,
        limit: int,
        lease: float,
        needs: Sequence[str] = (),
        healthy_probes: Sequence[str] = (),
        suspects: bool = False,
        among: Sequence[int] | None = None,
    ) -> list[Delivery]:
        turns = self._turns.get(service, 0)
        found = claiming.claim(
            self._books(),
            worker,
            service,
            limit=limit,
            lease=lease,
            needs=needs,
            healthy_probes=healthy_probes,
            suspects=suspects,
            turns=turns,
            among=among,
        )
        self._turns[service] = (turns + len(found)) % TURNS
        return found

    @transactional
    def claimed(self, worker: str) -> list[Delivery]:
        return claiming.claimed(self._books(), worker)

    @transactional
    def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        return settling.settle(self._books(), settlements)

    @transactional
    def renew(self, worker: str, lease: float) -> int:
        self.db.send("seen", self.now(), worker)
        return self.db.run("renew", self.now() + lease, worker)

    @transactional
    def release(self, worker: str, rows: Sequence[int] | None = None) -> int:
        claims: list[int] = self.db.read("claims_of", worker)
        mine = claims if rows is None else [row for row in rows if row in claims]
        return operating.take_back(self._books(), mine)

    @transactional
    def bury(self, worker: str, running: Sequence[int]) -> int:
        self.db.send("retire", worker)
        return operating.take_back(self._books(), self.db.read("claims_of", worker), running=running)

    def reap(self, gone: str | None = None) -> int:
        if gone is not None:
            return self._take_over_from(gone)
        return self._take_lapsed() if self.db.read("lapsed", self.now()) else 0

    @transactional
    def _take_over_from(self, gone: str) -> int:
        self.db.send("retire", gone)
        return operating.take_back(self._books(), self.db.read("claims_of", gone), lapsed=True)

    @transactional
    def _take_lapsed(self) -> int:
        return operating.take_back(self._books(), self.db.read("lapsed", self.now()), lapsed=True)

    @transactional
    def prune(self, *, keep_seconds: float, keep_count: int) -> int:
        gone = self.db.run("prune_many", keep_count)
        gone += self.db.run("prune_old", self.now() - keep_seconds)
        gone += self.db.run("prune_unrouted", self.now() - KEEP_UNROUTED_SECONDS)
        self.db.send("forget_strangers", self.now() - KEEP_STRANGERS_SECONDS)
        self.db.send("forget_workers", self.now() - KEEP_WORKERS_SECONDS)
        return gone

    def next_due(self, services: Sequence[str], *, suspects: bool = False) -> float | None:
        due: list[float] = []
        for service in services:
            level = self.db.read("next_priority", service, _HIGHEST)
            while level is not None:
                due.append(self.db.read("next_due", service, level))
                level = self.db.read("next_priority", service, level)
            if suspects and (alone := self.db.read("next_suspect", service)) is not None:
                due.append(alone)
        return min(due, default=None)

    def next_change(self) -> float | None:
        now = self.now()
        times = [breaker_rules.next_change(breaker, now) for breaker in self.breakers()]
        times.append(self.db.read("next_lapse"))
        return min((one for one in times if one is not None), default=None)

    def under_way(self, services: Sequence[str]) -> int:
        return int(self.db.read("under_way", list(services)))

    def is_quiet(self, services: Sequence[str], free: Sequence[str], *, until: float) -> bool:
        return not self.db.read("in_hand", list(services), list(free), until)

    def overdue_suspects(self, services: Sequence[str]) -> list[str]:
        now = self.now()
        return [one for one in services if (due := self.db.read("next_suspect", one)) is not None and due <= now]

    # -- workers

    @transactional
    def enlist(self, worker: str, about: Mapping[str, Any]) -> None:
        self.db.send("enlist", worker, json.dumps(dict(about)), self.now())
        if version := about.get("version"):
            self.db.send("see_version", version, self.now())

    @transactional
    def retire(self, worker: str) -> None:
        self.db.send("retire", worker)

    def workers(self, alive_within: float = 90.0) -> list[dict[str, Any]]:
        found = self.db.read("workers", self.now() - alive_within)
        return [{"worker": worker, "last_seen": seen, **about} for worker, about, seen in found]

    # -- dependencies

    def breakers(self) -> list[Breaker]:
        return [Breaker.from_dict(stored) for stored in self.db.read("breakers")]

    def openings(self, dependency: str | None = None) -> list[dict[str, Any]]:
        fields = ("dependency", "opened_at", "closed_at", "reason", "remedy")
        return [dict(zip(fields, one, strict=True)) for one in self.db.read("openings", dependency)]

    @transactional
    def open_breaker(self, dependency: str, reason: str, *, remedy: str = "", by_hand: bool = False) -> None:
        books = self._books()
        settling.open_breaker(books, dependency, redact(reason), redact(remedy), by_hand=by_hand)
        books.write()

    @transactional
    def close_breaker(self, dependency: str, *, probed: bool = False) -> bool:
        books = self._books()
        books.lock_breakers()
        breaker = books.breaker(dependency)
        closes = breaker.open and not (probed and breaker.by_hand)
        if closes:
            books.save_breaker(breaker_rules.closed(breaker))
        return closes

    @transactional
    def take_probe(self, dependency: str) -> bool:
        books = self._books()
        books.lock_breakers()
        breaker = books.breaker(dependency)
        if not breaker.open or breaker_rules.allowance(breaker, books.now, 0) == 0:
            return False
        books.save_breaker(breaker_rules.probing(breaker, None, books.now))
        return True

    # -- the operator

    def dead_letters(self, service: str | None = None, *, limit: int = 100, after: int = 0) -> list[DeadLetter]:
        queues = {one.service: one.failed_queue for one in self.subscriptions()}
        return [read_letter(values, queues) for values in self.db.read("dead_letters", service, after, limit)]

    @transactional
    def requeue(self, row: int) -> bool:
        return operating.requeue(self._books(), row)

    @transactional
    def reset(self, collection: str, id: str) -> bool:
        return operating.reset(self._books(), collection, id)

    @transactional
    def discard(self, collection: str, id: str) -> bool:
        return operating.discard(self._books(), collection, id)

    def forget(self, source: str) -> int:
        self.atomically(lambda: self.db.send("bump_generation", source), alone=True)
        removed = 0
        while (some := self._forget_some(source)) is not None:
            removed += some
        return removed

    @transactional
    def _forget_some(self, source: str) -> int | None:
        return operating.forget_some(self._books(), source)

    def counts(self) -> dict[str, dict[str, int]]:
        return _nested(self.db.read("row_counts"))

    def document_counts(self, source: str | None = None) -> dict[str, dict[str, int]]:
        return _nested(self.db.read("document_counts", source))

    def ids_like(self, prefix: str, *, limit: int = 100) -> list[tuple[str, str]]:
        found = self.db.read("ids_like", prefix, prefix + _LAST_CHARACTER * _LONGEST_ID, limit)
        return [(collection, id) for collection, id in found]

    def cursors(self, service: str) -> dict[str, Any]:
        return {ids: cursor for found in self.db.read("cursors", service) for ids, cursor in found.items()}

    def failed_batches(self, source: str | None = None) -> list[FailedBatch]:
        found = self.db.read("failed_batches", source)
        return [read_batch(values) for values in found]


def _same_duty(one: Subscription, other: Subscription) -> bool:
    same = (one.event_type, one.finishes) == (other.event_type, other.finishes)
    return same and one.finishes is not None and one.service != other.service


def _collection(document: type[Document] | str) -> str:
    return document if isinstance(document, str) else document.collection


def _nested(triples: list[list[Any]]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for outer, inner, count in triples:
        counts.setdefault(outer, {})[inner] = count
    return counts
