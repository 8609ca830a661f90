"""Onward's own part in the races against other queues: every event commits a document."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench.peers_race import Mark
from onward import App, Document, Event, Settings, Work
from onward.worker import tune_process

PUBLISHED_AT_ONCE = 500


class Ping(Event):
    """Something happened."""

    number: int


class Pong(Document):
    """What came of it."""

    number: int


@dataclass(frozen=True)
class Onward:
    """Onward on a store."""

    jobs: int
    store: str

    def fill(self) -> None:
        app = self._app(_ignore)
        for start in range(0, self.jobs, PUBLISHED_AT_ONCE):
            numbers = range(start, min(self.jobs, start + PUBLISHED_AT_ONCE))
            app.publish(*(Ping(number=number) for number in numbers))
        app.close()

    def work(self, mark: Mark) -> None:
        tune_process()
        app = self._app(mark)
        app.engine().run()  # until it is killed: the race is over when all is settled

    @contextmanager
    def left(self) -> Iterator[Callable[[], int]]:
        """Count the documents that are missing: each is committed with the settlement of its event."""
        app = self._app(_ignore)
        yield lambda: self.jobs - sum(app.store.document_counts().get(Pong.collection, {}).values())
        app.close()

    def _app(self, mark: Mark) -> App:
        app = App(store=self.store, settings=Settings(store=self.store))

        @app.service("answering", on=Ping)
        async def answer(event: Ping, work: Work) -> None:
            work.add(Pong(id=f"pong-{event.number}", number=event.number))
            mark(event.number)

        return app


def _ignore(number: int) -> None:
    del number
