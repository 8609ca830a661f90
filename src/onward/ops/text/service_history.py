"""What services did over time, in sentences: of a bucket, and of a whole time range."""

from __future__ import annotations

from onward.ops.queries.service_history import P95, HistoryPoint, ServiceHistory
from onward.ops.text.format import counted, duration, number, whole_duration


def latency(seconds: float) -> str:
    """Return how long a try took: 3 ms, 1.5 s, 9 min."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.0005 else "under 1 ms"
    return duration(float(seconds))


def rate(a_second: float) -> str:
    """Return a rate: 12 a second, 3.5 a minute."""
    scaled, span = (a_second, "second") if a_second >= 1 else (a_second * 60, "minute")
    return f"{number(scaled) if scaled >= 10 or scaled == int(scaled) else f'{scaled:.1f}'} a {span}"


def tries_text(mean: float | None, p95: float | None) -> str:
    if mean is None or p95 is None:
        return "no try"
    return f"a try took {latency(mean)} on average, 95 % took at most {latency(p95)}"


def point_text(history: ServiceHistory, point: HistoryPoint) -> str:
    """Return what was done in a bucket."""
    counts = point.counts
    if counts is None:
        return "no worker ran"
    finished = getattr(counts, history.unit)
    parts = [
        f"{counted(finished, history.unit[:-1])} finished, {rate(point.rate(history.unit) or 0.0)}",
        tries_text(counts.mean_seconds, counts.quantile_seconds(P95)),
        failures_text(counts.failures, counts.dead_letters),
        "" if counts.waiting is None else f"{counted(counts.waiting, 'event')} waiting",
    ]
    return "; ".join(filter(None, parts))


def failures_text(failures: int, dead_letters: int) -> str:
    tries = f"{number(failures)} failed {'try' if failures == 1 else 'tries'}" if failures else "no failed try"
    return f"{tries}, {counted(dead_letters, 'dead letter')}" if dead_letters else tries


def history_sentences(history: ServiceHistory) -> list[str]:
    """Say in a few sentences what charts of the same time range show."""
    whole, ran = history.total(), [point for point in history.points if point.counts is not None]
    if not ran:
        return [f"No worker has run {'it ' if history.service else ''}in the {history.over.title}."]
    fastest = max(point.rate(history.unit) or 0.0 for point in ran)
    finished = getattr(whole, history.unit)
    first = f"In the {history.over.title}, {counted(finished, history.unit[:-1])} {_was(finished)} finished"
    sentences = [f"{first}, at most {rate(fastest)}." if finished else f"{first}."]
    if whole.tries:
        sentences.append(f"{tries_text(whole.mean_seconds, whole.quantile_seconds(P95)).capitalize()}.")
    sentences.append(f"{failures_text(whole.failures, whole.dead_letters).capitalize()}.")
    if whole.waiting:
        sentences.append(f"At most {counted(whole.waiting, 'event')} waited.")
    if missing := len(history.points) - len(ran):
        sentences.append(f"No worker ran for about {whole_duration(missing * history.over.step)} of it.")
    return sentences


def _was(count: int) -> str:
    return "was" if count == 1 else "were"
