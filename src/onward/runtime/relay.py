"""The relay: tells a wire which rows are due, and puts copies of dead letters into their failed queues."""

from __future__ import annotations

import base64
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from onward.model.ledger import DeadLetter
from onward.ports import Announcement, Bus, Copy, Queue, Store, StoreError, Wire, WireUnavailable
from onward.retry import redact

log = logging.getLogger("onward")

AT_ONCE = 1000
"""Rows that are announced with one commit."""
MESSAGES = 256
"""Messages about a service that may be out unclaimed: what is urgent must not queue up behind everything else."""
MOST_IN_MESSAGE = 100
MOST_OUT = 6400
FIRST_OUT = 32
"""Rows that may be out while nothing is known of how long they take, or it is long."""
PATIENCE = 0.25
"""Seconds between two looks while nobody says that there is something to announce."""
LOST_AFTER = 10.0
"""Seconds after which a row that was announced and still waits has lost its message, if its queue is empty."""
CHECK_EVERY = 5.0
LETTERS_AT_ONCE = 100
MAX_COPY = 100_000
"""Bytes of a dead letter's raw event that its copy shows."""
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0


class Relay:
    """Announces due rows of some services, in a thread of its own. Any number of them may be at work."""

    def __init__(self, store: Store, wire: Wire, group: Callable[[], Mapping[str, int]]) -> None:
        """`group` answers how many rows of each service a message should tell of."""
        self._store = store
        self._wire = wire
        self._group = group
        self._bus: Bus = store.bus()
        self._stopped = threading.Event()
        self._queues: list[Queue] = []
        """What the wire is still to be opened for."""
        self._failed_queues: dict[str, str] = {}
        self._checked = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="onward-relay", daemon=True)

    def start(self, queues: Sequence[Queue]) -> None:
        """Open the wire, and begin; while the broker is away, that is tried again and again."""
        self._queues = list(queues)
        # Not those that the letters name: if another release has renamed them, nobody may have declared them yet.
        self._failed_queues = {queue.service: queue.failed_queue for queue in queues}
        try:
            self._open()
        except WireUnavailable as error:
            log.error("%s. Until then workers look in the ledger themselves", error)
        self._thread.start()

    def _open(self) -> None:
        if self._queues:
            self._wire.open(self._queues)
            self._queues = []

    def stop(self) -> None:
        """Announce nothing more."""
        self._stopped.set()
        self._bus.close()
        if self._thread.is_alive():
            self._thread.join(1.0)

    def _run(self) -> None:
        pause = 0.0
        while not self._stopped.is_set():
            try:
                self._open()
                if not self.announce():
                    self._check()
                    self._bus.wait(PATIENCE)
                pause = 0.0
            except StoreError as error:
                pause = min(LONGEST_PAUSE, pause * 2 or FIRST_PAUSE)
                log.debug("nothing is announced: %s", error)  # the wire and the engine say why
                self._stopped.wait(pause)
            except Exception as error:
                log.error("the relay failed, and goes on: %s", redact(f"{type(error).__name__}: {error}"))
                self._stopped.wait(LONGEST_PAUSE)

    def announce(self) -> bool:
        """Announce what is due; True: there may be more."""
        if self._wire.trouble:
            return False
        sent = False
        groups = self._group()
        for service, quickly in groups.items():
            size = max(1, min(quickly, MOST_IN_MESSAGE))
            window = min(size * MESSAGES, MOST_OUT) if quickly else FIRST_OUT
            rows = self._store.to_announce(service, limit=AT_ONCE, window=window)
            if rows:
                sent = self._send(service, rows, size) or sent
        letters = self._store.letters_to_copy(list(groups), limit=LETTERS_AT_ONCE)
        if letters:
            sent = self._copy(letters) or sent
        return sent

    def _send(self, service: str, rows: list[int], size: int) -> bool:
        messages = [
            Announcement(service, tuple(rows[start : start + size])) for start in range(0, len(rows), size)
        ]
        try:
            self._wire.announce(messages)
        except StoreError as error:
            self._store.not_announced(rows)
            return self._refused(error)
        return True

    def _copy(self, letters: list[DeadLetter]) -> bool:
        try:
            self._wire.copy([Copy(self._failed_queue(one), _body(one), f"{one.row}") for one in letters])
        except WireUnavailable as error:
            self._store.not_copied([one.row for one in letters])
            return self._refused(error)
        except StoreError as error:
            # A copy is for people to look at, the row is the truth: one that is too large must not block the rest.
            log.warning("dead letters have no copy in their failed queue: %s", error)
        return True

    def _refused(self, error: StoreError) -> bool:
        """A queue may take nothing, because it is full, while the others are as good as ever."""
        if self._wire.trouble:
            raise error
        log.debug("%s", error)
        return False

    def _failed_queue(self, letter: DeadLetter) -> str:
        return self._failed_queues.get(letter.service_name, letter.failed_queue)

    def _check(self) -> None:
        """A queue that was purged or deleted has lost its messages: what is still due is announced again."""
        now = time.monotonic()
        if now - self._checked < CHECK_EVERY or self._wire.trouble:
            return
        self._checked = now
        ready = self._wire.ready()
        for service in self._group():
            if not ready.get(service, 0):
                again = self._store.announce_again(service, before=self._store.now() - LOST_AFTER)
                if again:
                    log.info("%d events of %s are announced again", again, service)


def _body(letter: DeadLetter) -> bytes:
    about = asdict(letter)
    if letter.raw is not None:
        about["raw"] = base64.b64encode(letter.raw[:MAX_COPY]).decode()
    about["errors"] = letter.errors[-3:]
    return json.dumps(about).encode()
