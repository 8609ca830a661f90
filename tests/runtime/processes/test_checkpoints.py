"""Large handlers commit along the way, in threads and on the loop; a later try goes on from there."""

from __future__ import annotations

import pytest

from onward.app import App
from onward.runtime import outcomes
from onward.runtime.work import Work
from tests.runtime.processes.stage import AT_ONCE, Observed, Page, PagesFound, Word, bring, state, words


@pytest.mark.parametrize("kind", ("def", "async def"))
def test_a_later_try_goes_on_from_the_last_checkpoint(app: App, kind: str) -> None:
    cursors = []

    def write(page: Page, work: Work, start: int) -> None:
        for n in range(start, start + 10):
            work.add(Word(id=f"{page.id}{n}"))
        if start == 20 and work.try_number == 1:
            raise ConnectionError("just now")

    def read(page: Page, work: Work) -> None:
        cursors.append(work.cursor)
        for start in range(work.cursor or 0, 40, 10):
            write(page, work, start)
            work.checkpoint(start + 10)

    async def read_async(page: Page, work: Work) -> None:
        cursors.append(work.cursor)
        for start in range(work.cursor or 0, 40, 10):
            write(page, work, start)
            await work.checkpoint(start + 10)

    app.service("reading", on=PagesFound, finishes=Page, policy=AT_ONCE)(read if kind == "def" else read_async)
    bring(app, "a", "b", "c")
    app.work_until_idle()
    assert cursors.count(None) == 3
    assert cursors.count(20) == 3
    assert app.store.document_counts()["pages"] == {"processed": 3}
    assert words(app) == 120
    assert state(app, "a").attempt_count == 1


def test_what_a_checkpoint_committed_can_be_seen_by_others_at_once(app: App, neighbour: App) -> None:
    seen = []

    @app.service("reading", on=PagesFound, finishes=Page)
    async def read(page: Page, work: Work) -> None:
        work.add(Word(id="first"))
        await work.checkpoint(1)
        work.add(Word(id="second"))
        seen.extend([neighbour.get(Word, "first") is not None, neighbour.get(Word, "second") is not None])

    bring(app, "a")
    app.work_until_idle()
    assert seen == [True, False]


@pytest.mark.parametrize("kind", ("def", "async def"))
def test_a_checkpoint_that_is_refused_is_told_as_a_dropped_work(app: App, neighbour: App, kind: str) -> None:
    observed, tries = Observed(app), list[int]()

    def is_taken_over(work: Work) -> bool:
        tries.append(work.try_number)
        if len(tries) > 1:
            return False
        (worker,) = [one["worker"] for one in neighbour.store.workers()]
        neighbour.store.release(worker)
        return True

    def read(page: Page, work: Work) -> None:
        if is_taken_over(work):
            work.checkpoint(1)

    async def read_async(page: Page, work: Work) -> None:
        if is_taken_over(work):
            await work.checkpoint(1)

    app.service("reading", on=PagesFound, finishes=Page)(read if kind == "def" else read_async)
    bring(app, "a")
    app.work_until_idle()
    assert observed.of(outcomes.Dropped) == [("reading", ("a",))], "once: nothing more came of it"
    assert observed.of(outcomes.Finished) == [("reading", ("a",))], "by whoever took it over"
