"""The whole runtime under everything at once: whatever happens, in the end every document is final.

Three services read pages, spell their words and count what was spelled, while Hypothesis publishes,
changes, breaks, kills and forgets. `--hypothesis-profile=nightly` runs more examples.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ClassVar, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from onward import App, Document, DocumentState, Event, NotReady, Permanent, Status, Work, names
from onward.model.documents import DocumentKey
from onward.recovery.retry_decision import RetryJobRules
from onward.recovery.retry_job import RetryJob
from onward.testing import SimulatedClock, Simulation
from tests.support.killed_worker import crashing
from tests.support.page_app import (
    DAY,
    HOUR,
    MINUTE,
    Page,
    PagesFound,
    Word,
    WordsFound,
    how_many,
    new_app,
    raw_event,
)
from tests.support.store_cleanup import sweep_store

PAGES = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "n1": None, "n2": None}
"""Each page and its source."""
TEXTS = ("five little words are here", "two one two", "one", "")
MOST_WORDS = 5
DEEDS = ("others", "others", "lapse", "change", "reset", "forget", "publish")
FAULTS = {
    "transient": ValueError("a bad moment"),
    "permanent": Permanent("a photograph"),
    "not ready": NotReady("still being written"),
    "timeout": TimeoutError("it never ends"),
}


class Entry(Document, collection="entries"):
    text: str


class Tally(Document, collection="tallies"):
    count: int = 0


class Receipt(Document): ...


class Spelled(Event):
    word_ids: list[str] = names(Word)
    number: int


def word_id(page: str, position: int) -> str:
    return f"{page}.{position}"


def key_of(id: str) -> DocumentKey:
    return ("words" if "." in id else "pages", id)


class Press:
    """The app, and what goes wrong in it."""

    def __init__(self) -> None:
        self.app = new_app()
        self.faults: dict[str, list[str]] = {}
        self.midway: list[Callable[[], None]] = []
        """What happens while the next handler is at work."""
        self.spelled: dict[int, set[str]] = {}
        """Which words may have been spelled under which number; works that came to nothing count, too."""
        self._declare(self.app)

    def _trip(self, *ids: str) -> None:
        if self.midway:
            self.midway.pop()()
        for id in ids:
            if waiting := self.faults.get(id):
                raise FAULTS[waiting.pop()]

    def _declare(self, app: App) -> None:
        @app.service("reading", on=PagesFound, finishes=Page, needs="website")
        async def read(page: Page, work: Work) -> None:
            start = work.cursor or 0
            words = page.text.split()
            for position, text in enumerate(words[start:], start):
                work.add(Word(id=word_id(page.id, position), text=text))
                if position == 1:
                    work.emit(WordsFound.of(work.added(Word)))
                    await work.checkpoint(position + 1)
            self._trip(page.id)
            if words:
                work.emit(WordsFound.of([Word(id=word_id(page.id, n)) for n in range(len(words))]))

        @app.service("spelling", on=WordsFound, finishes=Word, batch=3, sets_aside=True)
        def spell(batch: Sequence[Word], work: Work) -> None:
            number = self._tally(work, "spelled")
            self.spelled.setdefault(number, set()).update(word.id for word in batch)
            for word in batch:
                work.add(Entry(id=word.id, text=word.text.upper()), parent=word)
            work.emit(Spelled.of(batch, number=number))
            self._trip(*(word.id for word in batch))

        @app.service("counting", on=Spelled)
        def count(event: Spelled, work: Work) -> None:
            self._tally(work, "counted")
            work.add(Receipt(id=f"{event.number}"))
            self._trip(f"{event.number}")

    def _tally(self, work: Work, name: str) -> int:
        """Count one more; a work that is dropped or redone must not count twice."""
        tally = work.store.get(Tally, name)
        assert tally is not None, "both tallies are there from the start"
        work.replace(Tally(id=name, count=tally.count + 1))
        return tally.count + 1


pages = st.sampled_from(sorted(PAGES))
some_pages = st.lists(pages, min_size=1, max_size=4, unique=True)
words = st.builds(word_id, pages, st.integers(0, MOST_WORDS - 1))
texts = st.sampled_from(TEXTS)
pauses = st.sampled_from([0, None, MINUTE, 2 * HOUR])
delays = st.sampled_from([0.0, MINUTE, HOUR, 2 * DAY])
seldom = st.sampled_from([False, False, False, True])
victims = pages | words | st.integers(1, 20).map(str)


class RuntimeMachine(RuleBasedStateMachine):
    """Everything that may happen to a press, in any order."""

    store: ClassVar[str] = "sqlite://:memory:"

    @initialize()
    def open(self) -> None:
        self.press = Press()
        self.app = self.press.app
        self.prepare()
        self.world = Simulation(self.app, store=self.store)
        self.world.__enter__()
        self.fragile = crashing(self.world)
        self.app.add(Tally(id="spelled"), Tally(id="counted"))
        self.known: dict[str, DocumentState] = {}
        self.begun_anew: set[str] = set()
        """Pages whose count of attempts was just set to 0."""
        self.forgotten: set[str] = set()
        self.forgot = False
        self.sent = 0

    def prepare(self) -> None:
        """A store in memory is empty."""

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.heal_and_check()
            self.world.__exit__(None, None, None)

    # -- publishing

    @rule(ids=some_pages, text=texts, pause=pauses)
    def publish_and_wait(self, ids: list[str], text: str, pause: float | None) -> None:
        self.publish(ids, text)
        self.rest(pause)

    def publish(self, ids: list[str], text: str) -> None:
        for id in ids:
            page = Page(id=id, text=text)
            self.forgotten.discard(id)
            self.app.publish(PagesFound.of(page), documents=[page], source=PAGES[id])

    @rule(ids=some_pages, how=st.sampled_from(["the same", "otherwise", "from outside", "the same from outside"]))
    def publish_again(self, ids: list[str], how: str) -> None:
        if "outside" in how:
            self.sent += how == "from outside"
            self.app.publish_raw(raw_event(event_id=f"theirs-{self.sent}", data={"page_ids": ids}))
        else:
            self.app.publish(PagesFound(page_ids=ids, found_by=how))

    @rule(id=pages, text=texts, pause=pauses)
    def change_and_wait(self, id: str, text: str, pause: float | None) -> None:
        self.change(id, text)
        self.app.publish(PagesFound(page_ids=[id]))
        self.rest(pause)

    def change(self, id: str, text: str) -> None:
        if self.app.get(Page, id) is not None:
            self.begun_anew.add(id)
            self.app.replace(Page(id=id, text=text))

    # -- trouble

    @rule(id=victims, fault=st.sampled_from(sorted(FAULTS)), times=st.integers(1, 4))
    def fail_next(self, id: str, fault: str, times: int) -> None:
        self.press.faults[id] = [fault] * times

    @rule(id=pages, times=st.integers(3, 40), pause=pauses)
    def set_aside(self, id: str, times: int, pause: float | None) -> None:
        """A word fails for so long that it joins a failed batch, and maybe stays there for some retries."""
        self.press.faults[word_id(id, 0)] = ["transient"] * times
        self.change(id, "")
        self.publish([id], TEXTS[0])
        self.change(id, TEXTS[0])
        self.app.publish(PagesFound(page_ids=[id]))
        self.rest(pause)

    @rule(minutes=st.sampled_from([10, 0, 180]), pause=pauses)
    def begin_or_end_outage(self, minutes: int, pause: float | None) -> None:
        self.world.fail("website", for_seconds=minutes * MINUTE)
        self.rest(pause)

    @rule(ids=some_pages, text=texts, statements=st.integers(0, 300))
    def crash(self, ids: list[str], text: str, statements: int) -> None:
        """Kill the worker at any statement on the way of some pages."""
        self.publish(ids, text)
        self.fragile.crash_after(statements)
        self.fragile.crashes(lambda: self.world.run_for(20 * MINUTE))

    @rule(id=pages | words, text=texts, what=st.sampled_from(DEEDS), times=st.integers(1, 6))
    def interfere(self, id: str, text: str, what: str, times: int) -> None:
        """Do something while the next handler is at work."""
        page = id.partition(".")[0]
        deeds: dict[str, Callable[[], None]] = {
            "change": partial(self.change, page, text),
            "reset": partial(self.operate, id, "reset"),
            "forget": partial(self.forget, page),
            "publish": partial(self.publish_again, [page], text),
            "lapse": self.lose_leases,
            "others": self.let_others_work,
        }
        self.press.midway += [deeds[what]] * times

    def lose_leases(self) -> None:
        """Whoever is at work now is taken for dead."""
        self.world.clock.advance(61)
        self.world.store.reclaim()

    def let_others_work(self) -> None:
        """Another worker is at it at the same time; in a thread, as a handler may be inside a loop."""
        with ThreadPoolExecutor(1) as pool:
            for _ in range(3):
                pool.submit(self.world._pass).result()

    # -- the retry job

    @rule(statements=st.none() | st.integers(0, 80), full=st.booleans(), led=st.booleans())
    def run_retry_job(self, statements: int | None, full: bool, led: bool) -> None:
        """Run the retry job of another process, and kill it at any statement."""
        store = self.world.store
        if led:
            store.release_role("retry job", "another")  # else the lease of one that was killed may hold
        job = RetryJob(
            store,
            self.app.registry,
            RetryJobRules.of(self.app.settings, self.app.registry.subscriptions()),
            holder="another",
        )
        if statements is None:
            job.run(full=full)
        else:
            self.fragile.crash_after(statements)
            self.fragile.crashes(lambda: job.run(full=full))

    # -- the operator

    @rule(id=pages | words, what=st.sampled_from(["requeue", "reset", "discard"]))
    def operate(self, id: str, what: str) -> None:
        self.begun_anew.add(id)
        collection, _ = key_of(id)
        if what == "reset":
            self.world.store.reset(collection, id)
        elif what == "discard":
            self.world.store.discard(collection, id)
        else:
            self.requeue()

    def requeue(self) -> None:
        for letter in self.world.dead_letters():
            self.world.store.requeue(letter.row)

    @rule(
        id=pages | words, after=st.sampled_from([0.0, MINUTE, HOUR, 2 * DAY]), reset=st.booleans(), urgent=seldom
    )
    def schedule(self, id: str, after: float, reset: bool, urgent: bool) -> None:
        if reset:
            self.begun_anew.add(id)
        at = self.world.clock.now() + after
        self.world.store.schedule([key_of(id)], at, reset=reset, priority=5 if urgent else None)

    @rule(id=pages | words)
    def unschedule(self, id: str) -> None:
        self.world.store.unschedule([key_of(id)])

    @rule(what=st.sampled_from(["archive", "restore", "purge"]), which=st.integers(0, 3))
    def put_away(self, what: str, which: int) -> None:
        """Archive a dead letter, bring one back, or purge one, unless nothing else knows what it is about."""
        store = self.world.store
        letters = store.find_dead_letters(archived=what == "restore")
        if what == "purge":
            letters = [one for one in letters if all(store.state(*key) for key in one.documents or [("", "")])]
        for letter in letters[which : which + 1]:
            {
                "archive": store.archive_dead_letters,
                "restore": store.restore_dead_letters,
                "purge": store.purge_dead_letters,
            }[what]([letter.row])

    @rule()
    def hurry_batches(self) -> None:
        for batch in self.world.store.failed_batches():
            self.world.store.reschedule_batch(batch.id, self.world.clock.now())

    @rule(page=pages)
    def forget(self, page: str) -> None:
        if (source := PAGES[page]) is not None:
            self.forgot = True
            gone = {id for id, of in PAGES.items() if of == source}
            self.begun_anew |= gone
            self.world.store.forget(source)
            self.forgotten |= gone

    # -- time

    def rest(self, pause: float | None) -> None:
        """Of most examples some rules are left out, so time must not pass by rules of its own alone."""
        if pause is not None:
            self.world.run_for(pause)

    @rule(seconds=st.sampled_from([MINUTE, 1, 20 * MINUTE, 0]))
    def let_some_time_pass(self, seconds: float) -> None:
        self.world.run_for(seconds)

    @rule(seconds=st.sampled_from([HOUR, DAY, 3 * DAY]))
    def let_much_time_pass(self, seconds: float) -> None:
        self.world.run_for(seconds)

    @rule(steps=st.integers(1, 5))
    def work_a_little(self, steps: int) -> None:
        for _ in range(steps):
            self.world._pass()

    # -- what always holds

    @invariant()
    def attempts_are_rounds_begun(self) -> None:
        if not hasattr(self, "world"):
            return
        states = {id: state for id in PAGES if (state := self.world.store.state(Page, id))}
        for id, state in states.items():
            before = self.known.get(id)
            assert state.attempt_count <= state.round
            if before is not None and id not in self.begun_anew and before.created_at == state.created_at:
                begun = state.round - before.round
                assert state.attempt_count - before.attempt_count == begun >= 0, f"page {id}"
        self.known = states
        self.begun_anew.clear()

    def look(self, query: str) -> list[tuple[Any, ...]]:
        """Look into the database, past the code that is tested."""
        connection = cast(Any, self.world.store).db._writer
        return cast(list[tuple[Any, ...]], connection.execute(query).fetchall())

    @invariant()
    def every_unfinished_document_is_in_somebodys_hands(self) -> None:
        if not hasattr(self, "world"):
            return
        live: dict[tuple[str, str, int], list[int]] = {}
        for row, collection, ids in self.look(
            "SELECT id, collection, CAST(ids AS text) FROM ledger "
            "WHERE state IN ('waiting', 'claimed') AND collection IS NOT NULL"
        ):
            for id, round in json.loads(ids):
                live.setdefault((collection, id, round), []).append(row)
        batches = {id for (id,) in self.look("SELECT id FROM failed_batches")}
        seen = self.looked_at_some_time()
        for collection, id, round, row, batch in self.look(
            "SELECT collection, id, round, row, failed_batch FROM documents "
            "WHERE collection IN ('pages', 'words') AND status = 'pending'"
        ):
            rows = live.get((collection, id, round), []) if round else []
            if row is not None:
                assert row in rows, f"{id} waits for a row that does not bring it"
                # Rounds begin anew with a document that was removed and added again; its old rows are superseded.
                assert row == max(rows), f"{id} has several live rows"
            else:
                assert batch in batches or (collection, id) in seen, f"{id} is stuck"

    def looked_at_some_time(self) -> set[DocumentKey]:
        store = cast(Any, self.world.store)
        store.clock = SimulatedClock(self.world.clock.now() + 30 * DAY)
        try:
            return set(store.due_for_check(limit=1000))
        finally:
            store.clock = self.world.clock

    @invariant()
    def failed_batches_have_items(self) -> None:
        if not hasattr(self, "world"):
            return
        for batch in self.world.store.failed_batches():
            assert batch.items

    @invariant()
    def a_document_has_one_dead_letter(self) -> None:
        if not hasattr(self, "world"):
            return
        letters = Counter(
            (service, collection, id)
            for service, collection, ids in self.look(
                "SELECT service, collection, CAST(ids AS text) FROM ledger "
                "WHERE state IN ('dead', 'archived') AND collection IS NOT NULL"
            )
            for id, round in json.loads(ids)
            if round
        )
        assert max(letters.values(), default=0) <= 1, letters

    @invariant()
    def nothing_forgotten_is_back(self) -> None:
        if not hasattr(self, "world"):
            return
        for id in self.forgotten:
            assert self.app.get(Page, id) is None
            assert not self.words_of(id)

    def words_of(self, page: str) -> dict[str, str]:
        found = self.world.store.get_many(Word, [word_id(page, n) for n in range(MOST_WORDS)])
        return {word.id: word.text for word in found}

    # -- in the end

    def heal_and_check(self) -> None:
        self.press.faults.clear()
        self.press.midway.clear()
        self.begin_or_end_outage(0, None)
        for _ in range(9):  # longer than an operator has put anything off
            self.put_right()
            self.world.run_for(6 * HOUR)
        self.every_document_is_final()
        self.every_effect_exists_once()

    def put_right(self) -> None:
        """What an operator does in the end; all else comes back by itself."""
        store = self.world.store
        store.restore_dead_letters([one.row for one in store.find_dead_letters(archived=True)])
        self.requeue()
        for status in (Status.FAILED, Status.FAILED_MAX_RETRIES):
            given_up = [(one.collection, one.id) for one in store.find_states(status=status)]
            store.schedule(given_up, self.world.clock.now(), reset=True)

    def every_document_is_final(self) -> None:
        over = {Status.PROCESSED, Status.DISCARDED}
        for id in PAGES:
            for state in (
                self.world.store.state(Page, id),
                *(self.world.store.state(Word, word) for word in self.words_of(id)),
            ):
                assert state is None or state.status in over, state
        for service, rows in self.world.store.counts().items():
            assert not rows.keys() & {"waiting", "claimed"} or service == "reading", rows
        for letter in self.world.dead_letters():
            assert letter.last_error.startswith("pages not found: "), letter
            assert all(self.app.get(Page, id) is None for _, id in letter.documents)

    def every_effect_exists_once(self) -> None:
        entries = receipts = 0
        for id in PAGES:
            page, found = self.app.get(Page, id), self.words_of(id)
            state = self.world.store.state(Page, id)
            if page is not None and state is not None and state.status == Status.PROCESSED:
                expected = {word_id(id, n): text for n, text in enumerate(page.text.split())}
                assert found == expected, f"page {id}"
            for word, text in found.items():
                entry = self.app.get(Entry, word)
                entries += entry is not None
                spelled = self.world.store.state(Word, word)
                assert spelled is not None
                assert entry == Entry(id=word, text=text.upper()) or spelled.status == Status.DISCARDED
        assert how_many(self.world, Entry) == entries
        spelled_count, counted = (self.app.get(Tally, name) for name in ("spelled", "counted"))
        assert spelled_count is not None
        assert counted is not None
        for number in range(1, spelled_count.count + 1):
            if self.app.get(Receipt, f"{number}") is not None:
                receipts += 1
            else:
                assert self.forgot, f"number {number} was lost: {self.press.spelled[number]}"
                assert any(PAGES[word.partition(".")[0]] for word in self.press.spelled[number])
        assert receipts <= counted.count <= spelled_count.count
        assert self.forgot or receipts == counted.count, "counted once each"
        assert how_many(self.world, Receipt) == receipts, "and nothing was counted that was not spelled"


def test_a_row_of_an_earlier_document_of_the_same_id_brings_nothing() -> None:
    machine = RuntimeMachine()
    machine.open()
    machine.interfere(id="a1", text=TEXTS[0], times=1, what="others")
    machine.set_aside(id="a2", pause=0, times=28)
    machine.change_and_wait(id="a2", pause=0, text="one")
    machine.every_unfinished_document_is_in_somebodys_hands()
    machine.teardown()


TestRuntime = RuntimeMachine.TestCase
EXAMPLES = settings().max_examples
TestRuntime.settings = settings(
    max_examples=EXAMPLES // 20,
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


class PostgresRuntime(RuntimeMachine):
    """The same on PostgreSQL."""

    def prepare(self) -> None:
        sweep_store(self.store)

    def look(self, query: str) -> list[tuple[Any, ...]]:
        with cast(Any, self.world.store).db.connections.use() as connection:
            return cast(list[tuple[Any, ...]], connection.execute(query).fetchall())


@pytest.fixture
def postgres_runtime(postgres_store_url: str) -> None:
    PostgresRuntime.store = postgres_store_url


TestPostgresRuntime = pytest.mark.usefixtures("postgres_runtime")(PostgresRuntime.TestCase)
TestPostgresRuntime.settings = settings(TestRuntime.settings, max_examples=EXAMPLES // 100)
