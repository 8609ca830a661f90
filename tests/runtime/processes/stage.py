"""The stage for engines: an app on a file, run by real threads and a real loop."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Self

from onward.app import App
from onward.model.documents import Document, DocumentState
from onward.model.events import Event, names
from onward.retry import RetryPolicy
from onward.retry.policy import Exponential
from onward.runtime import outcomes
from onward.runtime.engine import Ending

PATIENCE = 60.0
"""Seconds that a test waits for what must come; reaching it is a failure."""
AT_ONCE = RetryPolicy(Exponential(0.001), max_tries=3, name="at once")


class Page(Document):
    text: str = ""


class Word(Document):
    text: str = ""


class PagesFound(Event):
    page_ids: list[str] = names(Page)


class Noticed(Event):
    what: str = ""


class Heard(Event):
    what: str = ""


def bring(app: App, *ids: str) -> None:
    """Write pages and announce each with an event of its own."""
    for id in ids:
        page = Page(id=id)
        app.publish(PagesFound.of(page), documents=[page])


def state(app: App, id: str) -> DocumentState:
    found = app.state(Page, id)
    assert found is not None, f"page {id} should exist"
    return found


def words(app: App) -> int:
    """How many words the handlers have written."""
    return sum(app.store.document_counts().get("words", {}).values())


def came(signal: threading.Event) -> bool:
    """Wait for a signal; False: it did not come."""
    return signal.wait(PATIENCE)


class Running:
    """An engine at work in a thread. Leaving drains it."""

    def __init__(self, app: App, services: list[str] | None = None, **options: Any) -> None:
        self.engine = app.engine(services, **options)
        self.ending: Ending | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.ending = self.engine.run()
        except BaseException as error:
            self.error = error

    def join(self) -> Ending | None:
        """How it ended."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the engine does not end"
        return self.ending

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.engine.drain()
        if kind is not None:
            self.engine.release()
        self.join()


class Observed:
    """What an app's observers were told, with a signal for each kind of it."""

    def __init__(self, app: App) -> None:
        self.all: list[outcomes.AnySignal] = []
        self._news = threading.Condition()
        app.observe(self._note)

    def _note(self, signal: outcomes.AnySignal) -> None:
        with self._news:
            self.all.append(signal)
            self._news.notify_all()

    def of(self, kind: type[outcomes.AnySignal]) -> list[tuple[str, tuple[str, ...]]]:
        """Service and documents of each signal of a kind."""
        return [
            (one.service, one.ids)
            for one in self.all
            if isinstance(one, kind) and isinstance(one, outcomes.Signal)
        ]

    def finished(self, count: int, service: str | None = None) -> bool:
        """Wait until so many works are committed."""

        def enough() -> bool:
            done = self.of(outcomes.Finished)
            return sum(service in (None, name) for name, _ in done) >= count

        with self._news:
            return self._news.wait_for(enough, PATIENCE)

    def saw(self, kind: type[outcomes.AnySignal]) -> bool:
        """Wait for a signal of a kind."""
        with self._news:
            return self._news.wait_for(lambda: any(isinstance(one, kind) for one in self.all), PATIENCE)
