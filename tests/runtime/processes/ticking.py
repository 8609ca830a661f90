"""What a process of the test does: publish ticks on a clock that runs fast, until it is killed."""

from __future__ import annotations

import sys
import time
from datetime import datetime, timedelta

from onward import App, Settings
from onward.runtime.schedules import Ticker

SPEED = 20.0  # Simulated seconds in a real one; a pause of 50 s would be longer than what is made up for


class FastClock:
    """A clock that all processes share, and that runs `SPEED` times as fast as the real one."""

    def __init__(self, began: float) -> None:
        self._began = began

    def now(self) -> float:
        return self._began + (time.time() - self._began) * SPEED


def ticking_app(store: str, began: float) -> App:
    app = App(store=store, settings=Settings(), clock=FastClock(began))

    @app.task(schedule=timedelta(seconds=1), missed="all")
    def beat(tick: datetime) -> None:
        """Not run: only ticks are counted."""

    return app


def main(store: str, began: float) -> None:
    app = ticking_app(store, began)
    ticker = Ticker(lambda: app.store, app.registry)
    while True:
        ticker.run_due()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
