"""Reports errors: into the store's failure groups, to another Onward over HTTP, or to Sentry."""

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
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from onward.ledger.store_errors import StoreConflict, StoreFull, StoreUnavailable
from onward.model.failures import Failure
from onward.retry import Exponential, OnwardError, redact, redact_error
from onward.retry.iso_time import iso_time
from onward.settings import MissingExtra

if TYPE_CHECKING:
    from onward.ledger.store import Store

log = logging.getLogger("onward")

PATH = "/api/errors"  # the path that takes reports in another Onward, used if ERROR_REPORTER_URL has none
MAX_WAITING = 1_000  # the most reports that wait; beyond it the oldest are dropped
BATCH = 20
HTTP_SECONDS = 10.0
EXIT_SECONDS = 5.0
MAX_DOCUMENTS = 20
BACKOFF = Exponential(1.0, cap=60.0)
_BAD_REPORT = (400, 413, 415, 422)
_REMEDIES = {
    **dict.fromkeys((401, 403), "set ONWARD_TOKEN to the receiver's token, or put that into ERROR_REPORTER_URL"),
    **dict.fromkeys((301, 302, 303, 307, 308, 404, 405), "check ERROR_REPORTER_URL: nothing takes errors there"),
}


class DeliveryFailed(OnwardError):
    """Reports could not be delivered; a later try may succeed."""


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """A failure of a service, and the documents that it is about."""

    failure: Failure
    service: str = ""
    collection: str | None = None
    documents: tuple[str, ...] = ()
    id: str = field(default_factory=lambda: secrets.token_hex(16))  # a report with an id that is known is ignored

    def as_json(self) -> dict[str, Any]:
        """Return the report without secrets and without empty fields."""
        same = ("error_type", "kind", "fingerprint", "place", "worker", "version", "dependency")
        fields = {name: getattr(self.failure, name) for name in same}
        fields |= {name: getattr(self, name) for name in ("id", "service", "collection")}
        fields |= {name: redact_error(getattr(self.failure, name)) for name in ("message", "traceback")}
        fields["at"] = iso_time(self.failure.at)
        fields["documents"] = [redact_error(id) for id in self.documents[:MAX_DOCUMENTS]]
        fields["document_count"] = len(self.documents)
        fields["context"] = json.loads(self.failure.context) if self.failure.context else None
        return {name: value for name, value in fields.items() if value not in ("", None, [], 0)}


class ReportThread:
    """Delivers reports in batches from a background thread, and retries while the target is unavailable.

    `deliver` raises `DeliveryFailed` if it should be called again; another error drops the batch.
    """

    def __init__(
        self, target: str, deliver: Callable[[list[ErrorReport]], None], *, size: int = MAX_WAITING
    ) -> None:
        self._target = target
        self._deliver = deliver
        self._waiting = deque[ErrorReport](maxlen=size)
        self._batch: list[ErrorReport] = []
        self._changed = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None
        self._problem = ""

    def put(self, report: ErrorReport) -> None:
        with self._changed:
            if self._closing:
                return
            self._waiting.append(report)  # a full queue drops its oldest report
            # Started late, as most processes have nothing to report; and again after a fork, which has no threads.
            if self._thread is None or not self._thread.is_alive():
                with suppress(RuntimeError):  # no more threads now; the next report tries again
                    thread = threading.Thread(target=self._run, name="onward-reports", daemon=True)
                    thread.start()
                    self._thread = thread
                    atexit.register(self.close, EXIT_SECONDS)
            self._changed.notify_all()

    def close(self, timeout: float) -> None:
        """Deliver what waits, for at most `timeout` seconds."""
        atexit.unregister(self.close)
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout)
        if left := len(self._waiting) + len(self._batch):
            log.warning("%d error reports were not delivered to %s before the end", left, self._target)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                self._batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            if not self._batch:
                return
            failures = 0
            while not self._try():
                failures += 1
                with self._changed:
                    if self._closing:
                        return
                    self._changed.wait_for(lambda: self._closing, BACKOFF.delay(failures, Random()))

    def _try(self) -> bool:
        """Deliver the batch once; return whether it is done, delivered or dropped."""
        problem = ""
        try:
            self._deliver(self._batch)
        except DeliveryFailed as error:
            problem = f"{error}; they wait"
        except Exception as error:
            # Not tried again: one bad report must not stop all that follow.
            problem = f"{type(error).__name__}: {error}; {len(self._batch)} were dropped"
            self._batch = []
        else:
            self._batch = []
            if self._problem:
                log.info("errors are reported to %s again", self._target)
        if problem and problem != self._problem:
            shown = redact_error(problem)
            log.warning("errors cannot be reported to %s: %s. The work goes on", self._target, shown)
        self._problem = problem
        return not self._batch


@dataclass(frozen=True, slots=True)
class ErrorReporter:
    """Takes failures from any thread; it never waits and never raises. Without targets it reports nothing."""

    counts: ReportThread | None = None  # counts failures in the store
    sends: ReportThread | SentryClient | None = None  # sends them to another system

    def put(self, report: ErrorReport, *, counted: bool = False) -> None:
        """Report a failure. `counted`: it is in its failure group already."""
        if self.counts is not None and not counted:
            self.counts.put(report)
        if self.sends is not None:
            self.sends.put(report)

    def close(self, timeout: float) -> None:
        """Deliver what waits, for at most `timeout` seconds."""
        ends = time.monotonic() + timeout
        for target in (self.counts, self.sends):
            if target is not None:
                target.close(max(0.0, ends - time.monotonic()))


def store_counts(open_store: Callable[[], Store]) -> ReportThread:
    """Return what counts failures in the failure groups of the store."""

    def count(reports: list[ErrorReport]) -> None:
        def steps() -> None:
            for report in reports:
                store.report_failure(report.service, report.failure, collection=report.collection)

        try:
            store = open_store()
            store.atomically(steps)
        except (StoreUnavailable, StoreConflict, StoreFull) as error:
            raise DeliveryFailed(str(error)) from error

    return ReportThread("the store", count)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: that would send a GET, and the token to another server."""

    def redirect_request(self, *_: Any) -> None:  # Any: urllib's own types
        return None


def http_posts(url: str, token: str = "") -> ReportThread:
    """Return what posts reports to another Onward; a token in the URL wins."""
    url, url_token = _split_url(url)
    token = url_token or token
    if not (token.isascii() and token.isprintable()):
        raise OnwardError("the token for ERROR_REPORTER_URL has characters that no token has")
    headers = {"Content-Type": "application/json", "User-Agent": "onward"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    opener = urllib.request.build_opener(_NoRedirects)

    def post(reports: list[ErrorReport]) -> None:
        body = json.dumps({"errors": [report.as_json() for report in reports]}).encode()
        try:
            request = urllib.request.Request(url, body, headers, method="POST")
            opener.open(request, timeout=HTTP_SECONDS).close()
        except urllib.error.HTTPError as error:
            error.close()
            problem = f"the response was {error.code} {error.reason}"
            if error.code in _BAD_REPORT:
                raise OnwardError(problem) from None
            remedy = _REMEDIES.get(error.code)
            raise DeliveryFailed(f"{problem}; {remedy}" if remedy else problem) from None
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "reason", error)  # urllib wraps the error that happened
            raise DeliveryFailed(f"{type(why).__name__}: {why}") from None

    return ReportThread(redact(url), post)


def _split_url(url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme not in ("http", "https") or not host or any(map(str.isspace, url)):
        raise OnwardError(
            f"ERROR_REPORTER_URL is {redact(url)!r}, but must be a URL such as https://onward.example.org, with a "
            "token as in https://:token@onward.example.org (in it, / ? # @ are written %2F %3F %23 %40)"
        )
    host = f"[{host}]" if ":" in host else host
    path = parts.path if parts.path not in ("", "/") else PATH
    token = unquote(parts.password or parts.username or "")
    return urlunsplit((parts.scheme, host if port is None else f"{host}:{port}", path, parts.query, "")), token


class SentryClient:
    """Sends failures to Sentry with a client of its own."""

    def __init__(self, dsn: str, version: str) -> None:
        try:
            from sentry_sdk import Client
            from sentry_sdk.utils import BadDsn
        except ModuleNotFoundError as error:
            raise MissingExtra("ERROR_REPORTER_TYPE=sentry", error.name or "", "sentry") from error
        try:
            # Without integrations: an app may use sentry-sdk, too, and this must not change what it sends.
            self._client = Client(dsn, release=version, default_integrations=False, max_breadcrumbs=0)
        except BadDsn:
            problem = "SENTRY_DSN must be a DSN of Sentry, such as https://key@sentry.example.org/7"
            raise OnwardError(problem) from None

    def put(self, report: ErrorReport) -> None:
        fields = report.as_json()
        tags = ("service", "kind", "dependency", "collection", "worker")
        extra = ("documents", "document_count", "place", "traceback", "context")
        self._client.capture_event(
            {
                "event_id": fields["id"],
                "timestamp": fields["at"],
                "level": "error",
                "logger": "onward",
                "platform": "python",
                "fingerprint": [report.failure.fingerprint],
                "exception": {"values": [{"type": fields["error_type"], "value": fields.get("message", "")}]},
                "tags": {name: fields[name] for name in tags if name in fields},
                "extra": {name: fields[name] for name in extra if name in fields},
            }
        )

    def close(self, timeout: float) -> None:
        self._client.close(timeout=timeout)
