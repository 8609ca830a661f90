"""A host gets one request at a time, at its rate, and runs that send requests to it have equal shares."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.pipeline.source_kinds import SourceRun
from onward.pipeline.source_kinds.crawl import WebSite
from onward.pipeline.source_kinds.host_turns import GRACE_SECONDS, TURN_SECONDS, GoOnLater
from onward.pipeline.source_kinds.polite_client import Pace
from tests.pipeline.fetch.public import GUARD
from tests.support.crawls import Clock, pace, put, take
from tests.support.web_server import Handler, serve

LATE_SECONDS = 0.5  # a run that is to go on later has to be claimed first


def share_a_host(
    runs: int, *, gap: float, response_seconds: float, seconds: float, cancelled: int = 0
) -> list[tuple[float, str]]:
    """Simulate runs that send requests to one host; return the times and the runs of the requests."""
    clock, slept, sent = Clock(0.0), [0.0], []

    def sleep(seconds: float) -> None:
        slept[0] = seconds

    host = Pace(clock.now, sleep, clock.now)
    due: list[tuple[float, str, ExitStack]] = [(0.0, f"run {number}", ExitStack()) for number in range(runs)]
    waits: list[float] = []
    lost = {f"run {number}" for number in range(cancelled)}
    while due[0][0] < seconds:
        clock.seconds, run, response = heapq.heappop(due)
        response.close()
        if run in lost and clock.seconds > seconds / 4:
            continue
        response, slept[0] = ExitStack(), 0.0
        try:
            response.enter_context(host.request("site.example", gap, run))
        except GoOnLater as later:
            waits.append(later.seconds)
            heapq.heappush(due, (clock.seconds + later.seconds + LATE_SECONDS, run, response))
        else:
            assert slept[0] <= 1.0
            sent.append((clock.seconds + slept[0], run))
            heapq.heappush(due, (sent[-1][0] + response_seconds, run, response))
    assert all(wait >= 1.0 for wait in waits), "else it would be asked again at once"
    return sent


@given(runs=st.integers(1, 5), gap=st.sampled_from((0.1, 1.0, 3.0, 20.0)), took=st.sampled_from((0.01, 0.7, 4.0)))
def test_requests_are_sent_one_at_a_time_in_equal_shares(runs: int, gap: float, took: float) -> None:
    seconds = 40 * max(TURN_SECONDS, gap)
    sent = share_a_host(runs, gap=gap, response_seconds=took, seconds=seconds)
    for (earlier, _), (later, _) in itertools.pairwise(sent):
        assert later - earlier >= max(gap, took) - 1e-6
    counts = Counter(run for _, run in sent)
    assert len(counts) == runs
    assert min(counts.values()) >= 0.6 * len(sent) / runs
    assert len(sent) >= 0.7 * seconds / max(gap + LATE_SECONDS, took), "and hardly any time is lost"


def test_a_run_that_was_cancelled_keeps_nobody_waiting() -> None:
    seconds = 40 * TURN_SECONDS
    sent = share_a_host(3, gap=1.0, response_seconds=0.1, seconds=seconds, cancelled=2)
    since = seconds / 4 + TURN_SECONDS + 4 * GRACE_SECONDS
    counts = Counter(run for at, run in sent if at > since)
    assert counts.keys() == {"run 2"}
    assert counts["run 2"] >= 0.9 * (seconds - since)


def test_a_request_that_fails_ends_the_turn_of_no_one() -> None:
    clock = Clock()
    host = pace(clock)
    for _ in range(3):
        with pytest.raises(ConnectionError), host.request("site.example", 1.0, "a run"):
            raise ConnectionError


def test_two_crawls_of_a_host_send_no_requests_at_the_same_time(tmp_path: Path) -> None:
    clock = Clock()
    kind = WebSite(pace(clock))
    later: list[float | None] = []

    with serve() as site:
        put(site, "/a/", "A")
        put(site, "/b/", "B")
        page = site.answers["/a/"]

        def answer(handler: Handler) -> None:
            """Begin another crawl before the response to this one has ended."""
            other = SourceRun(kind.canonical("crawl+" + site.url("/b/")), guard=GUARD, scratch=tmp_path)
            assert list(kind.entries(other)) == []
            later.append(other.continue_after)
            page(handler)

        site.answers["/a/"] = answer
        assert list(take(kind, "crawl+" + site.url("/a/"), clock=clock).versions) == ["a/"]
        assert site.targets == ["/robots.txt", "/a/"]
        assert len(later) == 1
        assert later[0] is not None
        clock.seconds += later[0]
        assert list(take(kind, "crawl+" + site.url("/b/"), clock=clock).versions) == ["b/"]
