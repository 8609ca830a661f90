"""Requests to web sites that follow robots.txt, keep below a rate, and wait when a server says so."""

from __future__ import annotations

import io
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, Self
from urllib.parse import urlsplit

from protego import Protego

from onward import Permanent, classify
from onward.pipeline.fetch.fetch_errors import EndlessRedirects, HTTPAnswerError, Refused
from onward.pipeline.fetch.http_client import HttpClient, Response
from onward.pipeline.source_kinds.crawl_journal import CrawlJournal, Record
from onward.pipeline.source_kinds.host_turns import HostTurns
from onward.pipeline.source_kinds.page_links import AGENT
from onward.pipeline.source_kinds.source_kind import SourceRun
from onward.pipeline.source_kinds.web_addresses import origin

LONGEST_WAIT_SECONDS = 3_600.0
RETRY_SECONDS = 30.0  # after a 429 that names no time
LONGEST_CRAWL_DELAY_SECONDS = 60.0
PAGE_SECONDS = 60.0
MAX_ROBOTS_BYTES = 512_000  # as RFC 9309 allows
ROBOTS_SECONDS = 86_400.0  # how long robots.txt is kept, as RFC 9309 allows
_MAX_HOSTS = 10_000
_AGENT_LINE = re.compile(r"\s*user(?:-|\s+)?agent\b[\s:]*(.*)", re.IGNORECASE)


class Disallowed(Permanent):
    """The site's robots.txt does not allow a page."""


@dataclass(slots=True, eq=False)
class Pace:
    """When the next request to each host may be sent; shared by all runs of a process."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    wall: Callable[[], float] = time.time  # for what servers say with a date
    _turns: dict[str, HostTurns] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _robots: dict[str, tuple[float, Protego]] = field(default_factory=dict)

    @contextmanager
    def request(self, host: str, gap: float, run: str) -> Iterator[None]:
        """Wait until a run may send a request, and keep others from the host until the response has ended.

        The next request is `gap` seconds later. Raise `GoOnLater` if the wait is long.
        """
        with self._lock:
            now = self.now()
            turns = self._turns_of(host, now)
            at = turns.begin(run, gap, now)
        try:
            if at > now:
                self.sleep(at - now)
            yield
        finally:
            turns.busy = False

    def _turns_of(self, host: str, now: float) -> HostTurns:
        if len(self._turns) >= _MAX_HOSTS:
            self._turns = {name: turns for name, turns in self._turns.items() if turns.busy or turns.free_at > now}
        return self._turns.setdefault(host, HostTurns())

    def pause(self, host: str, seconds: float) -> None:
        """Let the host alone for some time, as it asks."""
        with self._lock:
            turns = self._turns_of(host, now := self.now())
            turns.free_at = max(turns.free_at, now + min(seconds, LONGEST_WAIT_SECONDS))

    def stored_robots(self, site: str) -> Protego | None:
        at, robots = self._robots.get(site, (0.0, None))
        return robots if robots is not None and self.now() - at < ROBOTS_SECONDS else None

    def store_robots(self, site: str, robots: Protego) -> None:
        if len(self._robots) >= _MAX_HOSTS:
            self._robots.clear()
        self._robots[site] = (self.now(), robots)


PACE = Pace()


class PoliteClient:
    """The HTTP client of one run of a web site."""

    def __init__(self, run: SourceRun, rate: float, pace: Pace, journal: CrawlJournal) -> None:
        self._client = HttpClient(run.limits, run.guard)
        self._seconds = min(run.limits.seconds, PAGE_SECONDS)
        self._gap, self._pace, self._journal = 1.0 / rate, pace, journal
        self._robots: dict[str, Protego] = {}
        self._run = str(run.notes or run.location)  # the same in all parts of the run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.__exit__(*error)

    def get(
        self,
        url: str,
        target: BinaryIO,
        *,
        headers: Mapping[str, str] | None = None,
        follow: Callable[[str], bool] = lambda url: False,
        wanted: Callable[[Response], bool] = lambda response: True,
    ) -> Response:
        """Request a page when its host may get a request; raise `Disallowed`, or `GoOnLater` after a long wait."""
        robots = self.robots(url)
        if not robots.can_fetch(url, AGENT):
            raise Disallowed(f"{origin(url)}/robots.txt does not allow {url}: ask its owner")
        seconds = self._seconds
        with self._pace.request(urlsplit(url).netloc, self._gap_of(robots), self._run):
            return self._client.get(url, target, headers=headers, follow=follow, wanted=wanted, seconds=seconds)

    def wall(self) -> float:
        """Return the time by the calendar."""
        return self._pace.wall()

    def pause_if_asked(self, url: str, error: Exception, tries: int) -> bool:
        """Let a host alone if its response asks for it; return whether it does."""
        verdict = classify(error, now=self._pace.wall())
        asked = verdict.rate_limited or bool(verdict.retry_after)
        if asked:
            self._pace.pause(urlsplit(url).netloc, verdict.retry_after or RETRY_SECONDS * 2**tries)
        return asked

    def robots(self, url: str) -> Protego:
        """Return the rules of a site; raise if it cannot give them now: then nothing of it may be requested."""
        site = origin(url)
        if site not in self._robots:
            # Each ingestion requests them once, whatever its parts have to wait for in between.
            key = f"robots {site}"
            stored = self._pace.stored_robots(site) if key in self._journal.records else None
            if stored is None:
                stored = self._request_robots(site)
                self._journal.add(Record(url=key))
            self._robots[site] = stored
        return self._robots[site]

    def _gap_of(self, robots: Protego) -> float:
        delay = robots.crawl_delay(AGENT) or 0.0
        if (rate := robots.request_rate(AGENT)) is not None and rate.requests > 0:
            delay = max(delay, rate.seconds / rate.requests)
        return max(self._gap, min(delay, LONGEST_CRAWL_DELAY_SECONDS))

    def _request_robots(self, site: str) -> Protego:
        target, accept = _Beginning(), {"Accept": "text/plain"}
        try:
            with self._pace.request(urlsplit(site).netloc, self._gap, self._run):
                self._client.get(f"{site}/robots.txt", target, headers=accept, seconds=self._seconds)
        except _Full:
            pass
        except HTTPAnswerError as error:
            message = f"{error}; without robots.txt nothing of the site is requested now"
            raise HTTPAnswerError(message, error.status_code, error.headers.get("Retry-After")) from error
        except (Refused, EndlessRedirects):
            target = _Beginning()  # there are no rules
        robots = Protego.parse(_relevant(target.getvalue().decode("utf-8", "replace")))
        self._pace.store_robots(site, robots)
        return robots


def _relevant(robots: str) -> str:
    """Return robots.txt with one name for all other crawlers.

    The parser stores each rule once for each crawler that it is for: hours for thousands of both.
    """
    return "\n".join(map(_with_known_agent, robots.splitlines()))


def _with_known_agent(line: str) -> str:
    if (match := _AGENT_LINE.match(line)) is None:
        return line
    name = match[1].partition("#")[0].strip().lower()
    name = name if name in ("", "*") else name.replace("*", "")
    return f"User-agent: {name if name == '*' or AGENT.startswith(name) else 'another'}"


class _Full(Exception):
    """Ends the transfer of robots.txt after its first `MAX_ROBOTS_BYTES`."""


class _Beginning(io.BytesIO):
    """Takes the first bytes only."""

    def write(self, data: bytes, /) -> int:  # type: ignore[override]  # only bytes come
        super().write(data[: MAX_ROBOTS_BYTES - self.tell()])
        if self.tell() >= MAX_ROBOTS_BYTES:
            raise _Full
        return len(data)
