"""The buckets of histograms."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0)
LONG_SECONDS = (0.25, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 21600.0, 86400.0)
TIMES = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 50.0)
TOKENS = (16.0, 32.0, 64.0, 128.0, 192.0, 256.0, 320.0, 384.0, 448.0, 512.0, 1024.0)
BUCKETS: Mapping[str, Sequence[float]] = {
    "event_retry_latency_seconds": LONG_SECONDS,
    "event_retry_attempt_count": TIMES,
    "failed_batch_retries": TIMES,
    "failed_batch_recovery_seconds": (*LONG_SECONDS, 604_800.0),
    "chunk_size_tokens": TOKENS,
}
"""Upper limits of histograms that do not measure short times."""


def buckets_of(name: str) -> Sequence[float]:
    """Return the upper limits of a histogram's buckets, without the last bucket, which has none."""
    return BUCKETS.get(name, SECONDS)


def bucket_label(name: str, value: float) -> str:
    """Return the label of a value's bucket in the store's totals: its upper limit."""
    limits = buckets_of(name)
    place = bisect_left(limits, value)
    return f"le:{limits[place]:g}" if place < len(limits) else "le:inf"
