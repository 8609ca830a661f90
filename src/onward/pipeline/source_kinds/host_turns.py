"""Turns of runs that send requests to the same host: one request at a time, and each run has its share."""

from __future__ import annotations

from dataclasses import dataclass, field

LONGEST_SLEEP_SECONDS = 1.0  # a longer wait ends the run, which goes on later: it holds no place of a worker
TURN_SECONDS = 60.0  # then another run that waits has its turn; with short ones, runs would have many parts
IDLE_SECONDS = 5.0  # a run that could send a request, but does not for this time, has lost its turn
LONGEST_REFUSAL_SECONDS = 10.0  # then a run that waits for its turn asks again
GRACE_SECONDS = 10.0  # a run that asks later than that, or never as it was cancelled, has lost its place


class GoOnLater(Exception):
    """The run has to wait longer than it may keep a worker slot."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


@dataclass(slots=True)
class HostTurns:
    """Which run may send the next request to a host, and when."""

    free_at: float = 0.0  # when the next request may be sent
    busy: bool = False  # from the beginning of a request to the end of its response
    _run: str = ""  # whose turn it is
    _until: float = 0.0  # the end of its turn
    _waiting: dict[str, float] = field(default_factory=dict)  # until when a run is expected; the first is the next

    @property
    def ends_at(self) -> float:
        """When another run may have its turn."""
        return min(self._until, self.free_at + IDLE_SECONDS)

    def begin(self, run: str, gap: float, now: float) -> float:
        """Begin a request of a run, and return when it is to be sent; raise `GoOnLater` if that is not soon.

        The caller sets `busy` to False when the response has ended.
        """
        at = max(now, self.free_at)
        if not self._is_turn_of(run, now):
            refusal = min(max(self.ends_at - now, LONGEST_SLEEP_SECONDS), LONGEST_REFUSAL_SECONDS)
            self._refuse(run, now, max(at - now, refusal))
        if at - now > LONGEST_SLEEP_SECONDS:
            self._refuse(run, now, at - now)
        self._waiting.pop(run, None)
        if run != self._run or now >= self._until:
            self._run, self._until = run, now + TURN_SECONDS
        self.free_at, self.busy = at + gap, True
        return at

    def _is_turn_of(self, run: str, now: float) -> bool:
        if self.busy:
            return False
        if now < self.ends_at:
            return run == self._run
        self._waiting = {name: until for name, until in self._waiting.items() if until > now}
        return next(iter(self._waiting), run) == run

    def _refuse(self, run: str, now: float, seconds: float) -> None:
        if run != self._run or now >= self.ends_at:
            self._waiting[run] = now + seconds + GRACE_SECONDS
        raise GoOnLater(seconds)
