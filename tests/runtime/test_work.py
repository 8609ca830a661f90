"""A work: what a handler says should be true, written all at once when it returns, or not at all."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from onward import Document, Event, Status, Work
from onward.testing import Simulation
from tests.support.page_app import (
    HOUR,
    Noticed,
    Page,
    PagesFound,
    Word,
    WordsFound,
    all_processed,
    bring,
    how_many,
    new_app,
    statuses,
)


class Counter(Document):
    count: int = 0


def test_what_is_added_is_written_and_announced_when_the_handler_returns() -> None:
    app, counted = new_app(), list[str]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        for text in page.text.split():
            work.add(Word(id=text, text=text))
        assert work.store.get(Word, "hello") is None, "nothing is written yet"
        work.emit(WordsFound.of(work.added(Word)))

    @app.service("counting", on=WordsFound, finishes=Word)
    def count(word: Word, work: Work) -> None:
        counted.append(word.text)

    with Simulation(app) as world:
        page = Page(id="a", text="hello world")
        app.publish(PagesFound.of(page), documents=[page])
        world.drain()
        assert counted == ["hello", "world"]
        state = world.store.state(Word, "hello")
        assert state is not None
        assert state.parent == "pages/a", "it descends from what was handled"
        assert state.status == Status.PROCESSED


def test_a_document_that_exists_is_skipped_but_still_announced() -> None:
    app, announced = new_app(), list[list[str]]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        work.add(Word(id="same", text=f"from {page.id}"))
        work.emit(WordsFound.of(work.added(Word)), delay=float(page.text or 0))

    @app.service("listening", on=WordsFound)
    def listen(event: WordsFound, work: Work) -> None:
        announced.append(event.word_ids)

    with Simulation(app) as world:
        bring(world, "a", "b")
        world.drain()
        bring(world, "c")
        world.drain()
        assert app.get(Word, "same") == Word(id="same", text="from a")
        assert announced == [["same"], ["same"]], "a and b's were the same while it waited, c's came later"


def test_a_handler_that_fails_leaves_nothing_behind() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        work.add(Word(id="half"))
        work.emit(Noticed(what="half"))
        raise ValueError("and then it broke")

    with Simulation(app) as world:
        bring(world, "a")
        world.drain()
        assert app.get(Word, "half") is None
        assert world.store.counts() == {"reading": {"waiting": 1}}


def test_replacing_gives_a_document_new_content() -> None:
    app = new_app()

    @app.service("counting", on=PagesFound, finishes=Page)
    def count(page: Page, work: Work) -> None:
        counter = work.store.get(Counter, "all") or Counter(id="all")
        if not counter.count:
            work.add(Counter(id="all", count=1))
        else:
            work.replace(counter.model_copy(update={"count": counter.count + 1}))

    with Simulation(app) as world:
        bring(world, *"abcd")
        world.drain()
        assert app.get(Counter, "all") == Counter(id="all", count=4)


def test_a_replacement_of_what_changed_meanwhile_is_dropped_and_redone() -> None:
    app, reads = new_app(), list[int]()

    @app.service("counting", on=PagesFound, finishes=Page)
    def count(page: Page, work: Work) -> None:
        counter = work.store.get(Counter, "all")
        assert counter is not None
        reads.append(counter.count)
        if len(reads) == 1:
            app.replace(Counter(id="all", count=10))  # somebody else is quicker
        work.replace(Counter(id="all", count=counter.count + 1))

    with Simulation(app) as world:
        app.add(Counter(id="all"))
        (page,) = bring(world, "a")
        world.drain()
        assert reads == [0, 10]
        assert app.get(Counter, "all") == Counter(id="all", count=11)
        assert world.state(page).attempt_count == 1, "that was nobody's failure"


def test_a_page_that_changes_while_it_is_read_is_read_again() -> None:
    app, seen = new_app(), list[str]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        seen.append(page.text)
        if len(seen) == 1:
            app.replace(Page(id="a", text="new"))
        work.add(Word(id=page.text))

    with Simulation(app) as world:
        page = Page(id="a", text="old")
        app.publish(PagesFound.of(page), documents=[page])
        world.drain()
        assert seen == ["old", "new"]
        assert app.get(Word, "old") is None
        assert app.get(Word, "new") is not None


def test_a_handler_may_replace_the_document_it_was_given() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        work.replace(page.model_copy(update={"text": page.text.upper()}))
        work.add(Word(id=page.id))

    with Simulation(app) as world:
        page = Page(id="a", text="quiet")
        app.publish(PagesFound.of(page), documents=[page])
        world.drain()
        assert app.get(Page, "a") == Page(id="a", text="QUIET")
        assert world.status(page) == Status.PROCESSED
        assert app.get(Word, "a") is not None, "what descends from the new content stays"


def test_changed_content_takes_its_descendants_with_it() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        work.add(Word(id=f"{page.id} {page.text}"))

    with Simulation(app) as world:
        (page,) = bring(world, "a")
        world.drain()
        assert app.replace(Page(id="a", text="new"))
        assert world.status(page) == Status.PENDING
        assert app.get(Word, "a ") is None
        app.publish(PagesFound.of(page))
        world.drain()
        assert app.get(Word, "a new") is not None


def test_removing_a_document_removes_what_descended_from_it() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        work.add(Word(id=f"word of {page.id}"))

    @app.service("burning", on=Noticed)
    def burn(event: Noticed, work: Work) -> None:
        page = work.store.get(Page, event.what)
        assert page is not None
        work.remove(page)

    with Simulation(app) as world:
        bring(world, "a", "b")
        world.drain()
        app.publish(Noticed(what="a"))
        world.drain()
        assert statuses(world, "a", "b") == {"b": Status.PROCESSED}
        assert app.get(Word, "word of a") is None
        assert app.get(Word, "word of b") is not None


def test_a_handler_may_remove_the_document_it_was_given() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        work.remove(page)

    with Simulation(app) as world:
        bring(world, "a")
        world.run_for(HOUR)
        assert statuses(world, "a") == {}
        assert world.calls == 1


@pytest.mark.parametrize(
    ("ids", "sizes"),
    (
        ([f"{n}" for n in range(1001)], [500, 500, 1]),
        ([f"{n:0500}" for n in range(130)], [64, 64, 2]),
    ),
    ids=["more than 500 ids", "more than 64 kB"],
)
def test_an_event_that_names_too_many_is_cut_into_several(ids: list[str], sizes: list[int]) -> None:
    app, heard = new_app(), list[list[str]]()

    @app.service("announcing", on=Noticed)
    def announce(event: Noticed, work: Work) -> None:
        work.emit(WordsFound(word_ids=ids))

    @app.service("listening", on=WordsFound)
    def listen(event: WordsFound, work: Work) -> None:
        heard.append(event.word_ids)

    with Simulation(app) as world:
        app.publish(Noticed())
        world.drain()
        assert [len(one) for one in heard] == sizes
        assert [id for one in heard for id in one] == ids
        assert all(len(WordsFound(word_ids=one).model_dump_json()) <= 64_000 for one in heard)


@pytest.mark.parametrize("delay", (90, timedelta(seconds=90)))
def test_an_emitted_event_can_be_delayed_and_preferred(delay: float | timedelta) -> None:
    app, heard = new_app(), list[tuple[str, float]]()

    @app.service("announcing", on=PagesFound)
    def announce(event: PagesFound, work: Work) -> None:
        work.emit(Noticed(what="later"), delay=delay, expires=100)
        work.emit(Noticed(what="now"))
        work.emit(Noticed(what="first"), priority=5)

    @app.service("listening", on=Noticed)
    def listen(event: Noticed, work: Work) -> None:
        heard.append((event.what, round(world.clock.now() - began)))

    with Simulation(app) as world:
        began = world.clock.now()
        app.publish(PagesFound(page_ids=[]))
        world.run_for(HOUR)
        assert heard == [("first", 0), ("now", 0), ("later", 90)]


def test_waiting_is_no_failure_and_costs_nothing() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        if world.clock.now() < opens:
            work.wait(opens)

    with Simulation(app) as world:
        opens = world.clock.now() + 2 * HOUR
        (page,) = bring(world, "a")
        assert world.run_for(HOUR) == 1
        assert world.status(page) == Status.PENDING
        assert world.run_for(HOUR) == 1
        state = world.state(page)
        assert (state.status, state.attempt_count, state.last_error) == (Status.PROCESSED, 1, None)


def test_a_handler_may_wait_for_some_seconds() -> None:
    app, times = new_app(), list[float]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        times.append(work.now)
        if len(times) < 3:
            work.wait(seconds=90)

    with Simulation(app) as world:
        bring(world, "a")
        world.run_for(HOUR)
        assert [round(one - times[0]) for one in times] == [0, 90, 180]


def test_some_of_a_batch_may_fail_while_the_others_wait() -> None:
    app, calls = new_app(), list[list[str]]()

    @app.service("reading", on=PagesFound, finishes=Page, batch=8)
    def read(batch: Sequence[Page], work: Work) -> None:
        calls.append([page.id for page in batch])
        if len(calls) == 1:
            work.fail(batch[0], ValueError("torn"))
            work.wait(world.clock.now() + 60)

    with Simulation(app) as world:
        bring(world, "a", "b", "c")
        world.run_for(HOUR)
        assert calls == [["a", "b", "c"], ["a"], ["b", "c"]], "a after 5 s, the others after 60"
        assert all_processed(world, "a", "b", "c")


def test_the_key_is_the_same_for_every_try_and_round_of_a_work() -> None:
    app, keys = new_app(), dict[str, list[str]]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        keys.setdefault(page.id, []).append(work.key)
        if work.round == 1:
            raise ConnectionError

    with Simulation(app) as world:
        bring(world, "a", "b", "c")
        world.run_for(HOUR)
        for letter in world.dead_letters():
            world.store.requeue(letter.row)
        world.run_for(HOUR)
        assert all_processed(world, "a", "b", "c")
        assert [len(of_page) for of_page in keys.values()] == [4, 4, 4]
        assert all(len(set(of_page)) == 1 for of_page in keys.values())
        assert len({of_page[0] for of_page in keys.values()}) == 3, "each page has its own"
        app.replace(Page(id="a", text="new"))
        app.publish(PagesFound(page_ids=["a"]))
        world.drain()
        assert keys["a"][-1] != keys["a"][0], "new content is other work"


def test_two_events_that_say_the_same_are_two_works() -> None:
    app, keys = new_app(), list[str]()

    @app.service("listening", on=Noticed)
    def listen(event: Noticed, work: Work) -> None:
        keys.append(work.key)
        if work.try_number == 1:
            raise ConnectionError

    with Simulation(app) as world:
        for _ in range(2):
            app.publish(Noticed(what="rain"))
            world.run_for(HOUR)
        first, again, second, once_more = keys
        assert first == again != second == once_more


# -- what a work refuses


class Cursor(Event):
    blob: str = ""


# What the types forbid is tried all the same: not everybody checks them.
MISUSES: dict[str, tuple[Callable[[Any, Page], Any], str]] = {
    "add": (lambda work, page: work.add("text"), r"work can add a Document, not 'text' \(str\)"),
    "emit": (lambda work, page: work.emit({"a": 1}), r"work can emit a Event, not \{'a': 1\} \(dict\)"),
    "emit a document": (lambda work, page: work.emit(page), "work can emit a Event, not Page"),
    "replace": (lambda work, page: work.replace(None), "work can replace a Document, not None"),
    "remove": (lambda work, page: work.remove("a"), "work can remove a Document, not 'a'"),
    "wait": (lambda work, page: work.wait("noon"), "work can wait until .*, not 'noon'"),
    "wait for ever": (lambda work, page: work.wait(math.inf), "work cannot wait until inf s"),
    "wait until the past": (
        lambda work, page: work.wait(work.now - 60),
        r"work cannot wait until 1799999940.0: it is 1800000000.0, .* work.wait\(seconds=…\)",
    ),
    "wait until now": (lambda work, page: work.wait(work.now), "work cannot wait until 1800000000.0"),
    "wait for no time": (lambda work, page: work.wait(seconds=0), "work cannot wait for 0: it is"),
    "wait until nothing": (lambda work, page: work.wait(), "either a time or seconds"),
    "wait twice": (lambda work, page: work.wait(work.now + 1, seconds=1), "either a time or seconds"),
    "delay": (lambda work, page: work.emit(Noticed(), delay=math.nan), "a delay is .* or a timedelta, not nan"),
    "priority": (
        lambda work, page: work.add(page, priority="high"),
        "a priority is a whole number .* not 'high'",
    ),
    "fail with": (lambda work, page: work.fail(page, "bad"), "work can fail a document with a BaseException"),
    "fail another": (
        lambda work, page: work.fail(Page(id="z"), ValueError()),
        "work can fail what the handler was given, not pages/z",
    ),
    "replace unread": (
        lambda work, page: work.replace(Page(id="z")),
        r"work replaces pages/z without having read it; read it first with work.store.get\(\)",
    ),
    "cursor": (lambda work, page: work.checkpoint({1, 2}), r"the cursor \{1, 2\} cannot be written as JSON"),
    "cursor that is no number": (
        lambda work, page: work.checkpoint({"at": math.nan}),
        "the cursor {'at': nan} cannot be written as JSON",
    ),
    "large event": (lambda work, page: work.emit(Cursor(blob="x" * 70_000)), "event Cursor takes 70,0.. bytes"),
}


@pytest.mark.parametrize(("misuse", "complaint"), MISUSES.values(), ids=MISUSES)
def test_misuse_is_a_clear_and_final_failure(misuse: Callable[[Any, Page], Any], complaint: str) -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        work.add(Word(id="before"))
        misuse(work, page)

    with Simulation(app) as world:
        bring(world, "a")
        world.drain()
        (letter,) = world.dead_letters()
        assert letter.last_error.startswith("service 'reading', document pages/a: ")
        assert re.search(complaint, letter.last_error)
        assert (letter.abandoned_reason, letter.attempt_count) == ("non_retryable", 1)
        assert statuses(world, "a") == {"a": Status.FAILED}
        assert app.get(Word, "before") is None, "no part of it was written"


def test_a_work_ends_with_its_handler() -> None:
    app, kept = new_app(), list[Work]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        kept.append(work)

    with Simulation(app) as world:
        bring(world, "a")
        world.drain()
        too_late: list[Callable[[Work], object]] = [
            lambda work: work.add(Word(id="late")),
            lambda work: work.emit(Noticed()),
            lambda work: work.remove(Word(id="late")),
            lambda work: work.wait(0),
            lambda work: work.checkpoint(1),
        ]
        for late in too_late:
            with pytest.raises(Exception, match=r"document pages/a: .* after the handler returned"):
                late(kept[0])


def add_words(work: Work, count: int) -> None:
    for n in range(count):
        work.add(Word(id=f"{n}"))


TOO_LARGE: dict[str, tuple[Callable[[Any], Any], str]] = {
    "documents": (
        lambda work: add_words(work, 1001),
        "a work of more than 1,000 documents or 8 MB; call",
    ),
    "bytes": (
        lambda work: [work.add(Word(id=f"{n}", text="x" * 2_000_000)) for n in range(5)],
        "a work of more than 1,000 documents or 8 MB; call work.checkpoint",
    ),
    "one document": (
        lambda work: work.add(Word(id="w", text="x" * 9_000_000)),
        "document words/w takes 9,0.* bytes, more than 8,000,000; keep what is so large in a file",
    ),
    "events": (
        lambda work: [work.emit(Cursor(blob=f"{n} {'x' * 60_000}")) for n in range(140)],
        "a work of more than 1,000 documents or 8 MB",
    ),
}


@pytest.mark.parametrize(("say", "complaint"), TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_work_has_a_size(say: Callable[[Any], Any], complaint: str) -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        say(work)

    with Simulation(app) as world:
        bring(world, "a")
        world.drain()
        (letter,) = world.dead_letters()
        assert letter.error_type == "WorkTooLarge"
        assert re.search(complaint, letter.last_error)
        assert world.store.document_counts() == {"pages": {"failed": 1}}


def test_a_thousand_documents_are_not_too_many() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        add_words(work, 1000)

    with Simulation(app) as world:
        bring(world, "a")
        world.drain()
        assert how_many(world, Word) == 1000
