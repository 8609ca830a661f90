"""What the processes and threads of a test do; processes are spawned, so it is importable."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from random import Random

from onward.ledger.store import Store
from onward.model.events import Envelope
from onward.model.ledger import (
    Charge,
    CommitResult,
    CommitStatus,
    DeadLettered,
    Delivery,
    InFailedBatch,
    InputStatus,
    NewDocument,
    Processed,
    RetryLater,
    Settlement,
    SettlementPart,
)
from tests.support.store_pages import LEASE, PagesFound, failure, settlement, word


class Witness:
    """Sees who holds which row, and who has failed how often."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[int, str] = {}
        self.failures = 0

    def took(self, worker: str, deliveries: Sequence[Delivery]) -> None:
        with self._lock:
            for one in deliveries:
                holder = self._held.get(one.row)
                assert holder is None, f"{worker} was given row {one.row}, which {holder} holds"
                self._held[one.row] = worker

    def lets_go(self, deliveries: Sequence[Delivery]) -> None:
        """Said before it is settled: from then on it may be another's."""
        with self._lock:
            for one in deliveries:
                del self._held[one.row]

    def saw(self, settled: CommitResult, noted: int) -> None:
        if settled.status is CommitStatus.COMMITTED:
            with self._lock:
                self.failures += noted


class Clumsy:
    """A worker that does everything a worker may, in any order: fails, dies, settles twice, publishes again."""

    def __init__(self, name: str, store: Store, pages: Sequence[str], witness: Witness, seed: int) -> None:
        self.name = name
        self.store = store
        self.pages = pages
        self.witness = witness
        self.random = Random(f"{seed} {name}")
        self.receipts = 0

    def work(self, steps: int) -> None:
        actions = [self.publish, self.settle, self.settle, self.settle, self.die, self.put_back, self.keep_house]
        for _ in range(steps):
            self.random.choice(actions)()

    def publish(self) -> None:
        chosen = self.random.sample(self.pages, self.random.randint(1, 4))
        self.store.publish(Envelope.of(PagesFound(page_ids=chosen), now=self.store.now()))

    def claim(self) -> list[Delivery]:
        limit = self.random.randint(1, 6)
        found = self.store.claim(self.name, "reading", limit=limit, lease=LEASE)
        self.witness.took(self.name, found)
        return found

    def settle(self) -> None:
        """Settle some in a group, and some of them once more, as one does who has not heard the answer."""
        deliveries = self.claim()
        if not deliveries:
            return
        outcomes = [self.outcome(one) for one in deliveries]
        self.witness.lets_go(deliveries)
        for settled, (_, noted) in zip(self.store.settle([one for one, _ in outcomes]), outcomes, strict=True):
            self.witness.saw(settled, noted)
        if self.random.random() < 0.3:
            again = self.random.choice(deliveries)
            (settled,) = self.store.settle([self.outcome(again)[0]])
            assert settled.status is CommitStatus.FENCED, "it is settled, or another's"

    def outcome(self, delivery: Delivery) -> tuple[Settlement, int]:
        """What becomes of a delivery, and how many failures that makes."""
        ready = [one.id for one in delivery.inputs if one.status is InputStatus.READY]
        failed = [id for id in ready if self.random.random() < 0.4]
        done = [id for id in ready if id not in failed]
        parts: list[SettlementPart] = [Processed(done)]
        if failed:
            troubles: list[SettlementPart] = [
                RetryLater(failed, charge=Charge.TRY, failure=failure()),
                DeadLettered(failed, failure=failure()),
                InFailedBatch(failed, failure()),
            ]
            parts.append(self.random.choice(troubles))
        return settlement(delivery, *parts, adds=[self.receipt(id) for id in done]), 1 if failed else 0

    def receipt(self, id: str) -> NewDocument:
        self.receipts += 1
        return word(f"{id}:{self.name}:{self.receipts}", parent=f"pages/{id}")

    def die(self) -> None:
        """All that it holds goes back."""
        deliveries = self.claim()
        self.witness.lets_go(deliveries)
        self.store.record_crash(self.name, [])

    def put_back(self) -> None:
        for letter in self.store.dead_letters(limit=3):
            self.store.requeue(letter.row)

    def keep_house(self) -> None:
        self.store.renew(self.name, LEASE)
        self.store.reclaim()
        self.store.prune(keep_seconds=0, keep_count=5)

    def finish(self) -> None:
        """Do the rest without clumsiness."""
        self.store.publish(Envelope.of(PagesFound(page_ids=list(self.pages)), now=self.store.now()))
        # Not until nothing is claimed: what others have returned to the queue is found after a while.
        while self.store.next_due(["reading"]) is not None:
            for one in self.store.claim(self.name, "reading", limit=50, lease=LEASE):
                ready = [given.id for given in one.inputs if given.status is InputStatus.READY]
                self.store.settle([settlement(one, Processed(ready), adds=[self.receipt(id) for id in ready])])
