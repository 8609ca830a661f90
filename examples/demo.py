"""Watch documents survive crashes, a race, an outage and poison: `make mailroom`."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from rich.console import Console

from examples.display import Display, LiveDisplay, News, PlainDisplay, ServiceView, View
from examples.interpreter import Office
from examples.letters import write_letter
from examples.summary import summary, tally

if TYPE_CHECKING:
    from onward import App

LETTERS = 300
ARRIVAL = 7.0
"""Seconds over which the letters come in."""
TROUBLE = {23: "soft", 41: "soft", 58: "soft", 66: "thick", 77: "torn", 180: "soft", 210: "sealed", 251: "soft"}
EARLY = 33
"""The event of this letter is published before the letter is written."""
WRITTEN_AFTER = 2.5
CLOSES_AFTER = 110
"""So many translations later the interpreter closes; it is back well before its breaker asks again."""
CLOSED_FOR = 6.0
IDLE = 60.0
"""Longer than anything here waits for: the run ends when all is settled."""
TOO_LONG = 120.0


class Demo:
    """One run of the mail room: its letters, its troubles, and who watches it."""

    def __init__(self, app: App, folder: Path, office: Office, display: Display) -> None:
        self.app = app
        self.letters: list[str] = []
        self._office = office
        self._display = display
        self._view = View(LETTERS, [ServiceView(name) for name in app.registry.services])
        self._diary = (folder / "diary.ndjson").open("a+b")
        self._known: set[int] = set()
        self._closed_once = False

    def publish(self) -> None:
        """Put all letters on the ledger, to arrive one after the other, and an event that is no event."""
        from examples.mailroom import Letter, LetterArrived

        random = Random(7)
        with self.app.transaction():
            for number in range(LETTERS):
                trouble = TROUBLE.get(number, "")
                text = b"\xff\xfe" if trouble == "torn" else write_letter(random).encode()
                letter = Letter(id=f"letter-{number:03}", body=text.hex(), trouble=trouble)
                self.letters.append(letter.id)
                if number == EARLY:
                    self._early: Letter | None = letter
                    event = {"event_type": "LetterArrived", "data": {"letter_id": letter.id}}
                    self.app.publish_raw(json.dumps(event).encode())
                else:
                    delay = ARRIVAL * number / LETTERS
                    self.app.publish(LetterArrived.of(letter), documents=[letter], delay=delay)
        self._tell(f"letter-{EARLY:03} is announced, but nobody has written it yet", "wait")
        self.app.publish_raw(b'{"event_type": "LetterArrived", "data": {"leter": 7}}')

    def watch(self, app: App) -> None:
        """Make trouble when its time has come; look at the store, as anyone may, and show it."""
        if self._view.elapsed > TOO_LONG:
            raise TimeoutError(f"the demo takes about 20 s, and is not over after {TOO_LONG:.0f} s")
        self._make_trouble()
        self._look_at_diary()
        self._look_at_ledger()
        self._look_at_breaker()
        self._display.show(self._view)

    def end(self) -> None:
        self._diary.close()
        self._display.end()

    def _make_trouble(self) -> None:
        if self._early is not None and self._view.elapsed > WRITTEN_AFTER:
            self.app.add(self._early)
            self._tell(f"{self._early.id} is written at last; its event has waited for it", "good")
            self._early = None
        if not self._closed_once and self._view.service("translating").done >= CLOSES_AFTER:
            self._closed_once = True
            self._office.open = False
        for breaker in self.app.store.breakers():
            if breaker.opened_at is not None and self.app.store.now() > breaker.opened_at + CLOSED_FOR:
                self._office.open = True

    def _look_at_diary(self) -> None:
        for line in self._diary:
            entry = json.loads(line)
            retried = entry["what"] == "retried"
            self._view.service(entry["service"]).retried += retried
            self._tell(f"{entry['id']} {entry['text']}", "wait" if retried else "bad")

    def _look_at_ledger(self) -> None:
        counts = self.app.store.counts()
        for service in self._view.services:
            found = counts.get(service.name, {})
            service.done, service.set_aside = found.get("done", 0), found.get("dead", 0)
            service.waiting, service.under_way = found.get("waiting", 0), found.get("claimed", 0)
        for letter in self.app.store.dead_letters():
            if letter.row not in self._known:
                self._known.add(letter.row)
                who = letter.documents[0][1] if letter.documents else "an event that cannot be read"
                self._tell(f"{who} is set aside: {letter.abandoned_reason}", "bad")

    def _look_at_breaker(self) -> None:
        view = self._view
        breaker = next((breaker for breaker in self.app.store.breakers() if breaker.open), None)
        if breaker is not None:
            wait = max(0.0, (breaker.next_probe or 0.0) - self.app.store.now())
            held = view.service("translating").waiting
            view.weather = f"is down: {held} letters wait, and lose no tries; asked again in {wait:.0f} s"
        else:
            view.weather = "answers"
        if breaker is not None and not view.outage:
            self._tell("the interpreter is down: its breaker opens, what needs it waits", "wait")
        if breaker is None and view.outage:
            self._tell("the interpreter is back: its breaker closes, work begins again gently", "good")
        view.outage = breaker is not None

    def _tell(self, text: str, mood: str = "plain") -> None:
        self._display.tell(News(self._view.elapsed, text, mood))


def run(console: Console, display: Display) -> None:
    """Run the demo in a temporary folder, and print what came of it."""
    with tempfile.TemporaryDirectory(prefix="onward-demo-") as folder:
        office = Office()
        # The worker processes read these when they import the app.
        os.environ |= {"MAILROOM": folder, "MAILROOM_INTERPRETER": office.url, "MAILROOM_QUIET": "1"}
        from examples.mailroom import app
        from onward.worker import supervise

        demo = Demo(app, Path(folder), office, display)
        try:
            demo.publish()
            supervise("examples.mailroom:app", processes=2, idle_within=IDLE, on_poll=demo.watch)
            demo.watch(app)
        finally:
            demo.end()
            office.end()
        console.print(summary(app, demo.letters))
        if waiting := tally(app, demo.letters).waiting:
            console.print(f"  Stopped early: {waiting} letters wait, and any worker would go on with them.\n")
        app.close()


def main() -> int:
    console = Console(highlight=False, emoji=False)
    display = LiveDisplay(console) if console.is_terminal else PlainDisplay(console)
    try:
        run(console, display)
    except KeyboardInterrupt:
        console.print("Stopped before it began.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
