"""A trial: supervised workers running the troubles, and a look at the ledger afterwards."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onward.app import App
from onward.model.ledger import DeadLetter
from onward.settings import Settings
from tests.runtime.processes import troubles
from tests.runtime.processes.stage import Noticed, Page, PagesFound, Word
from tests.support.supervised_workers import Supervised, until


@dataclass
class Trial:
    folder: Path
    stack: ExitStack
    app: App = field(init=False)

    def __post_init__(self) -> None:
        self.app = App(store=self.environ[troubles.STORE], settings=Settings())
        self.app.registry = troubles.app.registry
        self.stack.callback(self.app.close)

    @property
    def environ(self) -> dict[str, str]:
        return {
            troubles.STORE: f"sqlite:///{self.folder / 'onward.db'}",
            troubles.FOLDER: str(self.folder),
            "ONWARD_KEEP_COMPLETED_COUNT": "10000",
        }

    def bring(self, *ids: str, trouble: str = "") -> None:
        """Announce pages, each with an event of its own."""
        for id in ids:
            page = Page(id=id, text=trouble)
            self.app.publish(PagesFound.of(page), documents=[page])

    def notice(self, what: str) -> None:
        self.app.publish(Noticed(what=what))

    def start(self, **options: Any) -> Supervised:
        return self.stack.enter_context(
            Supervised(f"{troubles.__name__}:app", self.folder, self.environ, **options)
        )

    def run(self, **options: Any) -> Supervised:
        """Work until nothing is due within a second, and end well."""
        supervised = self.start(idle_within=1.0, **options)
        assert supervised.wait() == 0, supervised.says()
        return supervised

    # -- signals through files, for they pass between processes

    def begun(self, what: str) -> None:
        until((self.folder / f"begun {what}").exists, f"{what} begins")

    def until_run(self, page: str) -> None:
        until(lambda: page in {id for _, id in self.runs()}, f"{page} is run")

    def go_on(self) -> None:
        (self.folder / "go on").touch()

    def word(self, id: str) -> str:
        """What a handler wrote, once it has."""
        until(lambda: self.app.get(Word, id), f"{id} is done")
        word = self.app.get(Word, id)
        assert word is not None
        return word.text

    # -- looking

    def ledger(self, query: str) -> list[Any]:
        with closing(sqlite3.connect(self.folder / "onward.db")) as file:
            return [row[0] if len(row) == 1 else row for row in file.execute(query).fetchall()]

    def runs(self) -> list[tuple[int, str]]:
        """Which process ran which page, in order."""
        file = self.folder / "runs"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(int(pid), page) for pid, page in (line.split(" ") for line in lines)]

    def dead_letter(self) -> DeadLetter:
        """The one and only."""
        (letter,) = self.app.store.dead_letters()
        return letter
