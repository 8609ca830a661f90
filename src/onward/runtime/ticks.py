"""The ticks of a schedule: when it falls due, by a cron expression or an interval."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import takewhile
from typing import Any
from zoneinfo import ZoneInfo

from onward.runtime.service import RegistrationError

_UNITS_SECONDS = {86_400: "days", 3_600: "h", 60: "min", 1: "s"}
# The latest ticks are looked for in growing parts of the past, so that a long pause costs little.
_WINDOWS_SECONDS = (3_600.0, 86_400.0, 32 * 86_400.0, 400 * 86_400.0)


@dataclass(frozen=True, slots=True)
class CronTicks:
    """The ticks of a cron expression in a time zone, as Debian's cron has them, also where clocks are changed."""

    expression: str
    zone: tzinfo

    def __str__(self) -> str:
        return self.expression

    def after(self, moment: float) -> float | None:
        """Return the first tick after a moment; None: there is none within 50 years."""
        return next(self._from(moment), None)

    def latest(self, after: float, until: float, limit: int) -> list[float]:
        """Return the latest ticks after one moment and not after another, at most `limit`, in their order."""
        found: deque[float] = deque(maxlen=limit)
        for window in (*_WINDOWS_SECONDS, until - after):
            start = max(after, until - window)
            found = deque(takewhile(lambda tick: tick <= until, self._from(start)), maxlen=limit)
            if len(found) == limit or start == after:
                break
        return list(found)

    def _from(self, moment: float) -> Iterator[float]:
        last = moment
        start = datetime.fromtimestamp(moment // 1, self.zone)
        for found in _cron_sim()(self.expression, start):
            # In the hour that is repeated, it begins with the first of the two.
            if (tick := found.timestamp()) > last:
                last = tick
                yield tick


@dataclass(frozen=True, slots=True)
class IntervalTicks:
    """Ticks at the whole multiples of an interval since 1970 in UTC, so that all processes have the same."""

    seconds: int
    zone: tzinfo

    def __str__(self) -> str:
        length, unit = next(
            (length, unit) for length, unit in _UNITS_SECONDS.items() if self.seconds % length == 0
        )
        return f"every {self.seconds // length} {unit}"

    def after(self, moment: float) -> float | None:
        """Return the first tick after a moment."""
        return float((moment // self.seconds + 1) * self.seconds)

    def latest(self, after: float, until: float, limit: int) -> list[float]:
        """Return the latest ticks after one moment and not after another, at most `limit`, in their order."""
        first, last = int(after // self.seconds) + 1, int(until // self.seconds)
        return [float(number * self.seconds) for number in range(max(first, last - limit + 1), last + 1)]


Ticks = CronTicks | IntervalTicks


def read_ticks(schedule: object, timezone: str, *, of: str) -> Ticks:
    """Read what a schedule was declared with, or raise `RegistrationError` with the remedy; `of` names it."""
    try:
        zone: tzinfo = UTC if timezone == "UTC" else ZoneInfo(timezone)
    except (KeyError, ValueError, TypeError, OSError):
        raise RegistrationError(
            f"{of} has timezone={timezone!r:.100}, which is not known; give one like 'Europe/Berlin' or 'UTC', "
            "and install tzdata if the machine has no time zones"
        ) from None
    if isinstance(schedule, timedelta):
        seconds = schedule.total_seconds()
        if seconds < 1 or seconds != int(seconds):
            raise RegistrationError(f"{of} runs every {schedule!r}; give whole seconds, at least one")
        return IntervalTicks(int(seconds), zone)
    if not isinstance(schedule, str):
        raise RegistrationError(
            f"{of} has the schedule {schedule!r:.100}; give a cron expression such as '0 7 * * *', or a timedelta"
        )
    _cron_sim()
    from cronsim import CronSimError

    ticks = CronTicks(" ".join(schedule.split()), zone)
    try:
        first = ticks.after(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
    except CronSimError as error:
        raise RegistrationError(
            f"{of} has the cron expression {schedule!r:.100}, which cannot be read: {error}; give minute, hour, "
            "day of the month, month and day of the week, such as '0 7 * * *' (every day at seven) or "
            "'*/15 * * * MON-FRI'"
        ) from None
    if first is None:
        raise RegistrationError(f"{of} has the cron expression {schedule!r:.100}, which never falls due")
    return ticks


def _cron_sim() -> Any:
    try:
        from cronsim import CronSim
    except ImportError:
        raise RegistrationError(
            "cron expressions need the package cronsim: pip install 'onward[schedules]'; a timedelta needs nothing"
        ) from None
    return CronSim
