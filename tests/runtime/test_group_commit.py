"""Works share transactions; the bad ones of a group are found by halving, and cost the others little."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import pytest

from onward import App, Work
from onward.ledger.store import Store
from onward.ledger.store_errors import StoreUnavailable
from onward.model.ledger import CommitResult, Processed, Settlement
from onward.runtime import work_loop
from onward.runtime.engine import Engine
from onward.runtime.handler_call import FinishedCall, open_delivery
from tests.support.page_app import Noticed, Page, PagesFound, Word, pages


class Transactions:
    """Counts the transactions of a store that were committed, and all."""

    def __init__(self, app: App) -> None:
        assert isinstance(app.store, Store)
        self._db = app.store.db
        self._transaction = app.store.db.transaction
        self.count = self.committed = 0
        app.store.db.transaction = self._counted  # type: ignore[method-assign]

    @contextmanager
    def _counted(self, *, alone: bool = False) -> Iterator[None]:
        outermost = not self._db.in_transaction()
        self.count += outermost
        with self._transaction(alone=alone):
            yield
        self.committed += outermost


def refuse(app: App, poison: Collection[str], error: Exception) -> None:
    """Let the store refuse to finish these pages; that they failed is written like anything else."""
    settle = app.store.settle

    def settle_others(settlements: Sequence[Settlement]) -> list[CommitResult]:
        done = {id for one in settlements for part in one.parts if isinstance(part, Processed) for id in part.ids}
        if not done.isdisjoint(poison):
            raise error
        return settle(settlements)

    app.store.settle = settle_others  # type: ignore[method-assign]


def finished(app: App, count: int, awaited: int = 0) -> Engine:
    """Have so many works finished, and none of them committed; each waits for some documents."""

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        work.add(Word(id=page.id))
        if awaited:
            work.when_all([Word(id=f"{n}") for n in range(awaited)], then=Noticed(what=page.id))

    found = pages(*(f"{n:04}" for n in range(count)))
    app.publish(*(PagesFound.of(page) for page in found), documents=found)
    engine = app.engine(worker="anna")
    service = app.registry.services["reading"]
    for delivery in app.store.claim("anna", "reading", limit=count, lease=60.0):
        (call,) = open_delivery(service, delivery, engine.context).calls
        settlement = call.run()
        assert settlement is not None
        engine.finished.append(FinishedCall(call, settlement))
    return engine


def test_documents_that_works_wait_for_count_as_those_of_a_transaction(app: App) -> None:
    engine = finished(app, 7, awaited=400)
    transactions = Transactions(app)
    engine.commit_now()
    assert transactions.committed == 4, "two works each, with 800 documents"
    assert app.store.counts()["reading"] == {"done": 7}


@pytest.mark.parametrize("poison", ("0000", "0500", "0999", "0317"))
def test_one_bad_work_of_a_thousand_costs_about_ten_commits(app: App, poison: str) -> None:
    engine = finished(app, 1000)
    refuse(app, {poison}, ValueError("poison"))
    transactions = Transactions(app)
    engine.commit_now()
    halvings = math.ceil(math.log2(1000))
    assert transactions.committed <= halvings + 1, "one half each time, and that the bad one failed"
    assert transactions.count <= 2 * halvings + 3
    assert app.store.document_counts() == {"pages": {"processed": 999, "pending": 1}, "words": {"processed": 999}}
    state = app.state(Page, poison)
    assert state is not None
    assert (state.last_error or {})["message"] == "poison"
    assert app.store.counts()["reading"]["waiting"] == 1, "it alone was charged, and is tried again"


def test_several_bad_works_cost_in_proportion(app: App) -> None:
    engine = finished(app, 512)
    poison = {"0000", "0100", "0101", "0333", "0511"}
    refuse(app, poison, ValueError("poison"))
    transactions = Transactions(app)
    engine.commit_now()
    assert transactions.committed <= len(poison) * (math.ceil(math.log2(512)) + 1)
    assert transactions.count <= len(poison) * (2 * math.ceil(math.log2(512)) + 2)
    assert app.store.document_counts()["pages"] == {"processed": 507, "pending": 5}


def test_a_store_that_goes_away_while_halving_loses_nothing(app: App) -> None:
    engine = finished(app, 16)
    settle, calls = app.store.settle, iter(range(100))

    def settle_for_a_while(settlements: Sequence[Settlement]) -> list[CommitResult]:
        match next(calls):
            case 0:
                raise ValueError("something of the group")
            case 2:
                raise StoreUnavailable("gone")
        return settle(settlements)

    app.store.settle = settle_for_a_while  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        engine.commit_now()
    assert len(engine.finished) == 8, "one half is committed, the other waits"
    engine.commit_now()
    assert app.store.document_counts()["words"] == {"processed": 16}


def test_a_worker_that_is_to_end_does_not_wait_for_ever_for_its_store(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_loop, "TICK_SECONDS", 0.01)
    engine, tries = finished(app, 1), []
    engine.settings.lease = 0.1

    def gone(settlements: Sequence[Settlement]) -> list[CommitResult]:
        tries.append(len(settlements))
        engine.drain()
        raise StoreUnavailable("gone")

    app.store.settle = gone  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        engine.run()
    assert len(tries) > 1, "it was tried again for as long as its lease may hold"
