"""Reporting errors: into the failure groups of the store, and to another Onward over HTTP."""

from __future__ import annotations

import atexit
import http.client
import json
import logging
import secrets
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from onward.model.failures import Failure
from onward.ports import Store, StoreConflict, StoreFull, StoreUnavailable
from onward.retry import Exponential, OnwardError, redact, redact_error

log = logging.getLogger("onward")

PATH = "/api/errors"
"""Where another Onward takes reports, if its URL says nothing else."""
ROOM = 1_000
"""Reports that may wait; then the oldest go."""
BATCH = 20
ANSWER_SECONDS = 10.0
AT_EXIT_SECONDS = 5.0
COMPLAIN_EVERY = 300.0
MOST_DOCUMENTS = 20
"""Of a large batch that failed as a whole, so many are named."""
LONGEST_ANSWER = 300

_BACKOFF = Exponential(1.0, cap=60.0)
_SLOWEST = 300.0
# The report itself is at fault, and would be again.
_REFUSED = (400, 413, 415, 422)
_FOR_A_PERSON = {
    401: "set the token that the receiver wants: ONWARD_TOKEN, or https://:token@host as the URL",
    403: "its token may not report errors: ONWARD_TOKEN, or https://:token@host as the URL",
    404: "check ERROR_REPORTER_URL: nothing takes errors there",
    405: "check ERROR_REPORTER_URL: nothing takes errors there",
}


class TryLater(OnwardError):
    """Reports cannot be delivered now; they may be later."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


@dataclass(frozen=True, slots=True)
class Report:
    """A failure, whose it is, and what it is about."""

    failure: Failure
    service: str = ""
    collection: str | None = None
    documents: tuple[str, ...] = ()
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    """So that the receiver knows one it was sent twice."""

    def as_json(self) -> dict[str, Any]:
        """What is sent of it; whoever made the failure, nothing leaves without a look for secrets."""
        failure = self.failure
        told = {
            "id": self.id,
            "at": datetime.fromtimestamp(failure.at, UTC).isoformat(),
            "service": self.service,
            "error_type": failure.error_type,
            "message": redact_error(failure.message),
            "traceback": redact_error(failure.traceback),
            "kind": failure.kind,
            "fingerprint": failure.fingerprint,
            "place": failure.place,
            "worker": failure.worker,
            "version": failure.version,
            "dependency": failure.dependency,
            "collection": self.collection,
            "documents": [redact_error(id) for id in self.documents[:MOST_DOCUMENTS]],
            "document_count": len(self.documents),
        }
        return {name: value for name, value in told.items() if value not in ("", None, [], 0)}


Send = Callable[[Sequence[Report], float], None]
"""Delivers reports within so many seconds, or raises; `TryLater` if they should be kept."""


class Outbox:
    """Reports that wait for a thread of their own to deliver them: whoever reports never waits."""

    def __init__(self, where: str, send: Send, *, room: int = ROOM) -> None:
        self.where = where
        self.dropped = 0
        self._send = send
        self._room = room
        self._waiting: deque[Report] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closes_at: float | None = None
        self._under_way = 0
        self._last_chance = False
        self._failures = 0
        self._complained: float | None = None

    def put(self, report: Report) -> None:
        with self._changed:
            if self._closes_at is not None:
                return
            self._waiting.append(report)
            self._make_room()
            # Started late, as most processes have nothing to report; and again in a fork, which has no threads.
            if self._thread is None or not self._thread.is_alive():
                self._start()
            self._changed.notify_all()

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="onward-reports", daemon=True)
        with suppress(RuntimeError):  # no more threads now; the next report may be luckier
            thread.start()
            self._thread = thread
            atexit.register(self.close, AT_EXIT_SECONDS)

    def close(self, timeout: float) -> None:
        atexit.unregister(self.close)
        with self._changed:
            self._closes_at = time.monotonic() + timeout
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
        with self._changed:
            left, self._thread = len(self._waiting) + self._under_way, None
            self._waiting.clear()
        if left:
            log.warning("%d error reports were not delivered to %s before the end", left, self.where)

    def _run(self) -> None:
        while batch := self._take():
            try:
                self._send(batch, self._seconds_left())
            except TryLater as error:
                self._put_back(batch, error)
            except Exception as error:
                # Not tried again: what is bad about one must not stop all that come after it.
                self.dropped += len(batch)
                self._complain(f"{type(error).__name__}: {error}")
            else:
                self._went_well()

    def _take(self) -> list[Report]:
        """The next reports, as soon as there are some; none: it is over."""
        with self._changed:
            while not self._waiting and self._closes_at is None:
                self._changed.wait()
            self._last_chance, self._under_way = self._closes_at is not None, 0
            if self._closes_at is not None and time.monotonic() >= self._closes_at:
                return []
            self._under_way = min(BATCH, len(self._waiting))
            return [self._waiting.popleft() for _ in range(self._under_way)]

    def _put_back(self, batch: Sequence[Report], error: TryLater) -> None:
        self._failures += 1
        wait = min(max(error.after, _BACKOFF.delay(self._failures, Random())), _SLOWEST)
        with self._changed:
            self._waiting.extendleft(reversed(batch))
            self._under_way = 0
            self._make_room()
        self._complain(str(error))  # with nothing held: whoever reads the log may be slow
        with self._changed:
            if self._last_chance:
                self._closes_at = 0.0  # it was tried once more, and there is no time for another
            else:
                self._changed.wait_for(lambda: self._closes_at is not None, wait)

    def _make_room(self) -> None:
        while len(self._waiting) > self._room:
            self._waiting.popleft()
            self.dropped += 1

    def _complain(self, problem: str) -> None:
        now = time.monotonic()
        if self._complained is None or now - self._complained >= COMPLAIN_EVERY:
            self._complained = now
            log.warning(
                "errors cannot be reported to %s: %s. The work goes on; %d reports wait, %d were dropped",
                self.where,
                redact_error(problem),
                len(self._waiting),
                self.dropped,
            )

    def _went_well(self) -> None:
        self._failures = 0
        if self._complained is not None:
            self._complained = None
            log.info("errors are reported to %s again; %d reports were dropped", self.where, self.dropped)

    def _seconds_left(self) -> float:
        closes_at = self._closes_at
        return ANSWER_SECONDS if closes_at is None else max(0.1, min(ANSWER_SECONDS, closes_at - time.monotonic()))


class NoReporter:
    """Reports nothing."""

    def report(
        self,
        failure: Failure,
        *,
        service: str = "",
        collection: str | None = None,
        documents: Sequence[str] = (),
        counted: bool = False,
    ) -> None:
        pass

    def close(self, timeout: float) -> None:
        pass


class StoreReporter:
    """Counts what is reported in the failure groups of the store."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self.outbox = Outbox("the store", self._count)

    def report(
        self,
        failure: Failure,
        *,
        service: str = "",
        collection: str | None = None,
        documents: Sequence[str] = (),
        counted: bool = False,
    ) -> None:
        if not counted:
            self.outbox.put(Report(failure, service, collection, tuple(documents)))

    def close(self, timeout: float) -> None:
        self.outbox.close(timeout)

    def _count(self, reports: Sequence[Report], seconds: float) -> None:
        def count() -> None:
            for one in reports:
                store.report_failure(one.service, one.failure, collection=one.collection)

        try:
            store = self._store()
            store.atomically(count)
        except (StoreUnavailable, StoreConflict, StoreFull) as error:
            raise TryLater(str(error)) from error


class HTTPReporter:
    """Sends all failures to another Onward, and counts here what is not counted yet."""

    def __init__(self, url: str, *, counting: StoreReporter, token: str | None = None) -> None:
        self._url, own = _address(url)
        self._token = own or token
        if self._token is not None and not (self._token.isascii() and self._token.isprintable()):
            raise OnwardError(
                "the token for ERROR_REPORTER_URL holds characters no token has; was it copied whole?"
            )
        self._counting = counting
        self._opener = urllib.request.build_opener(_Stay)
        self.outbox = Outbox(redact(self._url), self._post)

    def report(
        self,
        failure: Failure,
        *,
        service: str = "",
        collection: str | None = None,
        documents: Sequence[str] = (),
        counted: bool = False,
    ) -> None:
        self.outbox.put(Report(failure, service, collection, tuple(documents)))
        self._counting.report(
            failure, service=service, collection=collection, documents=documents, counted=counted
        )

    def close(self, timeout: float) -> None:
        ends = time.monotonic() + timeout
        self._counting.close(timeout)
        self.outbox.close(max(0.0, ends - time.monotonic()))

    def _post(self, reports: Sequence[Report], seconds: float) -> None:
        body = json.dumps({"errors": [one.as_json() for one in reports]}).encode()
        headers = {"Content-Type": "application/json", "User-Agent": "onward"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        request = urllib.request.Request(self._url, body, headers, method="POST")
        try:
            with self._opener.open(request, timeout=seconds) as answer:
                answer.read(LONGEST_ANSWER)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(error) from None
        except (OSError, http.client.HTTPException) as error:
            # urllib wraps what happened; that it did so says nothing.
            why = getattr(error, "reason", error)
            raise TryLater(self._hide(f"{type(why).__name__}: {why}")) from None

    def _refused(self, error: urllib.error.HTTPError) -> OnwardError:
        try:
            said = error.read(LONGEST_ANSWER).decode("utf-8", "replace")
        except (OSError, http.client.HTTPException):
            said = ""
        text = self._hide(f"it answered {error.code} {' '.join(said.split())}".strip())
        if error.code in _REFUSED:
            return OnwardError(text)
        remedy = _FOR_A_PERSON.get(error.code)
        if 300 <= error.code < 400:
            remedy = f"set ERROR_REPORTER_URL to {redact(error.headers.get('Location', 'the right one'))}"
        after = _seconds(error.headers.get("Retry-After"))
        return TryLater(f"{text}; {remedy}" if remedy else text, _BACKOFF.cap if remedy else after)

    def _hide(self, text: str) -> str:
        return redact(text.replace(self._token, "***") if self._token else text)


class _Stay(urllib.request.HTTPRedirectHandler):
    """A redirect would make a GET of it, and take the token to somebody else."""

    # Any: as urllib has it.
    def redirect_request(self, *_: Any) -> None:
        return None


def _address(url: str) -> tuple[str, str | None]:
    """Where to send reports, and the token that the URL has for it."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not host or any(one.isspace() for one in url):
        raise OnwardError(
            f"ERROR_REPORTER_URL is {redact(url)!r}, but must be a URL such as https://onward.example.org, with a "
            "token as in https://:token@onward.example.org (in it, / ? # @ are written %2F %3F %23 %40)"
        )
    where = f"[{host}]" if ":" in host else host
    path = parts.path if parts.path not in ("", "/") else PATH
    token = unquote(parts.password or parts.username or "") or None
    return urlunsplit((parts.scheme, where if port is None else f"{where}:{port}", path, parts.query, "")), token


def _seconds(retry_after: str | None) -> float:
    try:
        return max(0.0, float(retry_after or 0))
    except ValueError:  # a date: the usual wait will do
        return 0.0
