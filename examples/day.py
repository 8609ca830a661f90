"""A day in the life of an operator: an outage, two poison documents and a bad deploy, told apart: `make day`.

Workers, store and commands are real; only the waits between tries are shorter than usual.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Self

from rich.console import Console
from rich.text import Text

from examples.invoices import Amount, Booking, Invoice, InvoiceArrived
from examples.rates import RATES, Exchange
from onward import App
from onward.recovery.diagnosis import Cause, diagnose
from onward.recovery.evidence import evidence_of
from onward.settings import load_settings

ROOT = Path(__file__).parents[1]
MORNING, FINE, BROKEN = 300, 120, 200
"""How many invoices come: first, and to version 1.1, which can read these but not those."""
POISON = 2
ALL = MORNING + FINE + BROKEN + POISON
SHORT_WAIT = "0.1"
DONE = 0
TOO_LONG = 60.0
GRACE = 10.0


class Day:
    """One day: its workers, its documents, and the commands that an operator types."""

    def __init__(self, console: Console, folder: Path) -> None:
        self._console = console
        self._log = folder / "worker.log"
        self._exchange = Exchange()
        # The day is the same for everybody.
        own = {name: value for name, value in os.environ.items() if not name.startswith(("ONWARD_", "RETRY_"))}
        self._environment = own | {
            "ONWARD_HOME": str(folder),
            "ONWARD_RETRY_BACKOFF_SECONDS": SHORT_WAIT,
            "INVOICES_RATES": self._exchange.url,
        }
        self.app = App(settings=load_settings(self._environment))
        self.groups: dict[Cause, str] = {}
        """The failure group of each verdict, by the beginning of its fingerprint."""
        self._worker: subprocess.Popen[bytes] | None = None
        self._came = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with ExitStack() as stack:
            stack.callback(self._exchange.end)
            stack.callback(self.app.close)
            stack.callback(self._end_worker)

    def run(self) -> None:
        """The whole day."""
        self.begin()
        self.break_things()
        self.look()
        self.mend()

    # -- the day

    def begin(self) -> None:
        self._say(
            "Invoices are read, then converted into euros by rates that another company serves. A try that fails "
            f"is repeated after {SHORT_WAIT} s here, not 5 s as usual; all else is as in real life."
        )
        self._deploy("1.0")
        self._publish(self._invoice(vat=number % 2 == 0) for number in range(MORNING))
        self._until(lambda: self._processed(Amount) == MORNING, "the first invoices are done")
        self._tell(f"{MORNING} invoices come and are booked")

    def break_things(self) -> None:
        self._publish(self._invoice(currency=name) for name in ("XQX", "FLR"))
        self._until(lambda: len(self.app.store.dead_letters("reading")) == POISON, "two have had their tries")
        self._tell("two invoices come in currencies that nobody knows")
        self._deploy("1.1")
        # Last of all, as a breaker asks again after 10 s, and there is much to look at until then.
        self._exchange.open = False
        mixed = [True] * FINE + [False] * BROKEN
        Random(7).shuffle(mixed)
        self._publish(self._invoice(vat=vat) for vat in mixed)
        self._until(lambda: self._count(Invoice, "failed") == BROKEN, "the bad version has met all of them")
        self._until(lambda: self._processed(Invoice) == MORNING + FINE and self._is_down(), "an outage is noticed")
        self._tell(f"the rates go down, and {FINE + BROKEN} invoices come")

    def look(self) -> None:
        self._say("Much is wrong at once. What is going on?")
        self.enter("status")
        self._say("Three stories, each with a verdict:")
        self.enter("failures", "list")
        for group in self.app.store.failure_groups():
            self.groups[diagnose(evidence_of(self.app.store, group)).kind] = group.fingerprint[:8]
        self._say("The rates are down. Nobody has to do anything; what waits loses no try:")
        self.enter("failures", "show", self.groups[Cause.DEPENDENCY])
        self._exchange.open = True
        self._tell("the rates are up again; within seconds they will be asked")
        self._say("Two invoices are to blame themselves:")
        self.enter("failures", "show", self.groups[Cause.POISON])
        self._say("The rest came with version 1.1:")
        self.enter("failures", "show", self.groups[Cause.BUG])

    def mend(self) -> None:
        self._until(lambda: self._processed(Amount) == MORNING + FINE, "what waited for the rates is done")
        self._tell(f"the {FINE} that waited for the rates are booked, and nobody has done anything")
        self._deploy("1.2")
        self._say(f"Five of the {BROKEN} go first; the others follow when these are well, 50 a second:")
        self.enter("failures", "retry", self.groups[Cause.BUG], "--canary", "5", "--rate", "50")
        self._until(lambda: self._processed(Amount) == ALL - POISON, "all are home")
        self._tell(f"all {BROKEN} are booked")
        self._say("The two poison documents are given up:")
        self.enter("failures", "discard", self.groups[Cause.POISON], "--confirm")
        self.enter("status")
        self._say("Who did what?")
        self.enter("actions")
        booked, discarded = self._count(Booking), self._count(Invoice, "discarded")
        self._say(
            f"{self._came} invoices came: {booked} are booked, {discarded} were discarded by a person, "
            f"{self._came - booked - discarded} are lost."
        )

    # -- what people type

    def enter(self, *args: str) -> None:
        """Run a command as at this terminal, and show its output."""
        self._console.print(Text.assemble(("$ ", "dim"), (f"onward {shlex.join(args)}", "bold")), soft_wrap=True)
        look = {"COLUMNS": str(self._console.width)} | ({"FORCE_COLOR": "1"} if self._console.is_terminal else {})
        ran = subprocess.run(
            [sys.executable, "-m", "onward", *args],
            cwd=ROOT,
            env=self._environment | look,
            check=False,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._console.print(Text.from_ansi(ran.stdout.rstrip("\n")), soft_wrap=True)
        self._console.print()
        if ran.returncode != DONE:
            raise RuntimeError(f"`onward {shlex.join(args)}` ended with {ran.returncode}; it says above why")

    def _say(self, text: str) -> None:
        self._console.print(Text(text, "cyan"))
        self._console.print()

    def _tell(self, text: str) -> None:
        self._console.print(Text.assemble(("● ", "cyan"), text))
        self._console.print()

    # -- what happens

    def _deploy(self, version: str) -> None:
        """End the worker that runs, as a deployment would, and start another one."""
        self._end_worker()
        # In a group of its own: so that all of it can be ended, whatever happens here.
        with self._log.open("ab") as log:
            self._worker = subprocess.Popen(
                [sys.executable, "-m", "onward", "worker", "--app", "examples.invoices:app"],
                cwd=ROOT,
                env=self._environment | {"INVOICES_VERSION": version},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._until(
            lambda: version in {worker["version"] for worker in self.app.store.workers()}, f"{version} works"
        )
        self._tell(f"version {version} is deployed")

    def _end_worker(self) -> None:
        worker, self._worker = self._worker, None
        if worker is None:
            return
        worker.terminate()
        try:
            with suppress(subprocess.TimeoutExpired):
                worker.wait(GRACE)
        finally:
            with suppress(ProcessLookupError):  # all of them have ended, as they should
                os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()

    def _publish(self, invoices: Iterable[Invoice]) -> None:
        with self.app.transaction():
            for invoice in invoices:
                self.app.publish(InvoiceArrived.of(invoice), documents=[invoice])

    def _invoice(self, *, currency: str = "", vat: bool = True) -> Invoice:
        self._came += 1
        fields = {
            "total": f"{self._came * 7 % 500}.50",
            "currency": currency or list(RATES)[self._came % len(RATES)],
        }
        fields |= {"vat": f"DE{self._came:09}"} if vat else {}
        return Invoice(
            id=f"invoice-{self._came:04}", text="\n".join(f"{name}: {one}" for name, one in fields.items())
        )

    def _count(self, kind: type[Invoice | Amount | Booking], status: str = "") -> int:
        counts = self.app.store.document_counts().get(kind.collection, {})
        return counts.get(status, 0) if status else sum(counts.values())

    def _processed(self, kind: type[Invoice | Amount]) -> int:
        return self._count(kind, "processed")

    def _is_down(self) -> bool:
        return any(breaker.open for breaker in self.app.store.breakers())

    def _until(self, true: Callable[[], bool], what: str) -> None:
        ends = time.monotonic() + TOO_LONG
        while not true():
            if time.monotonic() > ends or (self._worker is not None and self._worker.poll() is not None):
                end = "\n".join(self._log.read_text(errors="replace").splitlines()[-10:])
                raise RuntimeError(f"waited in vain until {what}; the worker says:\n{end}")
            time.sleep(0.05)


def main() -> int:
    console = Console(highlight=False, emoji=False)
    with tempfile.TemporaryDirectory(prefix="onward-day-") as folder:
        try:
            with Day(console, Path(folder)) as day:
                day.run()
        except KeyboardInterrupt:
            console.print("\nStopped early; `make day` begins anew.")
        except RuntimeError as error:
            console.print(Text(f"Error: {error}"), soft_wrap=True)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
