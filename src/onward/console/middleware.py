"""Checks every request: host, rate, size, origin, and token or session."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import re
import time
from collections import OrderedDict
from collections.abc import MutableMapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import Message, Receive, Scope, Send

from onward.console.problems import Problem, problem_of, send_problem
from onward.console.sessions import Sessions, cookie_of
from onward.console.time_zone import COOKIE, set_viewer_zone
from onward.ledger.replica_reads import ReplicaReads, reading_from_replica
from onward.retry import OnwardError
from onward.settings import Settings

OPEN_PATHS = ("/login", "/healthz", "/readyz")  # need no token; neither does /static
ON_PRIMARY = (*OPEN_PATHS, "/metrics")  # are never read from the replica
UPLOADS = ("/v3/documents", "/v3/documents/batch", "/v3/uploads", "/ingest")
MAX_BODY_BYTES = 1_000_000  # of any request but an upload
BURST = 200
MAX_CLIENTS = 10_000  # rates are tracked for at most this many clients
LOGINS_PER_MINUTE = 20
BODY_SECONDS = 30.0  # the longest wait for the next part of a body
_HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[^\[\]:/@?#\s]*)(?::\d{1,5})?")

HEADERS = {  # of every response
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    # Not `no-referrer`: with that, browsers name no origin either when they send a form of ours.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class RateLimiter:
    """Limits the requests of each client (token bucket)."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._known: OrderedDict[str, tuple[float, float]] = OrderedDict()  # the requests left at a time

    def wait(self, client: str, now: float) -> float:
        """Count a request; return how many seconds too early it came, 0 if it is allowed."""
        left, at = self._known.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._per_second)
        self._known[client] = (left - 1 if left >= 1 else left, now)
        while len(self._known) > MAX_CLIENTS:
            self._known.popitem(last=False)
        return 0.0 if left >= 1 else (1 - left) / self._per_second


class AccessMiddleware:
    """Wraps the whole app; a request that it refuses never reaches a page."""

    def __init__(self, web: Starlette, settings: Settings, sessions: Sessions, hosts: frozenset[str]) -> None:
        self.web = web
        self._has_replica = settings.store_replica is not None
        self._sessions = sessions
        self._hosts = hosts
        self._upload_bytes = settings.serve_max_upload_bytes
        self._time_zone = settings.serve_time_zone
        self._requests = RateLimiter(settings.serve_requests_per_second, BURST)
        self._logins = RateLimiter(LOGINS_PER_MINUTE / 60, LOGINS_PER_MINUTE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.web(scope, receive, send)
            return
        set_viewer_zone(HTTPConnection(scope).cookies.get(COOKIE, ""), self._time_zone)
        answer = HeaderedResponse(send, is_static=scope["path"].startswith("/static/"))
        try:
            self._check(scope)
        except Problem as problem:
            await send_problem(problem, scope, receive, answer)
            return
        is_stream = scope["path"].startswith("/live/") or scope["path"].endswith("/events")
        if scope["method"] == "HEAD" and not is_stream:
            # The response to GET; the server leaves the body out. A stream may never end, so HEAD is refused.
            scope = {**scope, "method": "GET"}
        try:
            with await self._reading(scope) as answer.reads:
                await self.web(scope, _limited(receive, self._max_bytes(scope), answer), answer)
        except Exception as error:
            # If the response has begun, the error was logged, and Starlette only raises it again for the server,
            # which would log it once more, with the secrets it may carry.
            if not answer.began:
                await send_problem(problem_of(error), scope, receive, answer)

    async def _reading(self, scope: Scope) -> AbstractContextManager[ReplicaReads | None]:
        """Let a request that changes nothing read from the replica, if there is one."""
        path = scope["path"]
        if not self._has_replica or scope["method"] != "GET" or path in ON_PRIMARY or path.startswith("/static/"):
            return nullcontext()
        try:
            store = await asyncio.to_thread(lambda: self.web.state.onward.store)
        except OnwardError:  # the page says it
            return nullcontext()
        return reading_from_replica(store)

    def _check(self, scope: Scope) -> None:
        asked, path = HTTPConnection(scope), scope["path"]
        headers = asked.headers
        host = host_name(headers.get("host", ""))
        # A name may belong to an attacker and point here (DNS rebinding); an IP address cannot.
        if host not in self._hosts and _address(host) is None:
            detail = f"This server does not answer for {host[:100]!r}. If it should, add it to ONWARD_SERVE_HOSTS."
            raise Problem(421, "Another host is meant", detail)
        self._check_rate(scope, client_name(asked.client.host if asked.client else ""))
        length = headers.get("content-length", "0")
        # No real length has more digits, and Python refuses to parse numbers of thousands of digits.
        if not length.isdecimal() or len(length) > 18 or int(length) > self._max_bytes(scope):
            raise too_large(self._max_bytes(scope))
        self._check_origin(scope, headers)
        if path in OPEN_PATHS or path.startswith("/static/"):
            return
        if not self._sessions.is_allowed(headers.get("authorization"), cookie_of(asked)):
            raise Problem(
                401,
                "A token is needed",
                "Send it as `Authorization: Bearer TOKEN`, or log in at /login. It is what ONWARD_TOKEN "
                "was set to where this server was started.",
                headers={"www-authenticate": 'Bearer realm="onward"'},
            )

    def _check_rate(self, scope: Scope, client: str) -> None:
        now = time.monotonic()
        wait = self._requests.wait(client, now)
        remedy = "ONWARD_SERVE_REQUESTS_PER_SECOND sets how many are taken."
        if not wait and scope["path"] == "/login" and scope["method"] == "POST":
            wait = self._logins.wait(client, now)
            remedy = f"A token can be tried {LOGINS_PER_MINUTE} times a minute."
        if wait:
            seconds, title = max(1, round(wait)), "Too many requests"
            raise Problem(429, title, f"Come back in {seconds} s. {remedy}", headers={"retry-after": str(seconds)})

    def _max_bytes(self, scope: Scope) -> int:
        uploads = scope["method"] == "POST" and scope["path"] in UPLOADS
        return self._upload_bytes if uploads else MAX_BODY_BYTES

    def _check_origin(self, scope: Scope, headers: Headers) -> None:
        """Refuse requests that a page of another site makes a browser send, with the cookies it has.

        Another site may link to a page. It may not embed a response, measure how long one takes, or change
        anything.
        """
        foreign = headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")
        if scope["method"] in ("GET", "HEAD", "OPTIONS"):
            visits = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
            refused = foreign and not visits
        else:
            refused = foreign or not _is_own(headers.get("origin"), headers.get("host", ""))
        if refused:
            detail = "A page of another site may not use this server. Send it from the console or a program."
            raise Problem(403, "From another site", detail)


class HeaderedResponse:
    """Sends a response with the headers that every response has, and records whether it has begun."""

    def __init__(self, send: Send, *, is_static: bool) -> None:
        self._send = send
        self._is_static = is_static
        self.began = False
        self.reads: ReplicaReads | None = None  # where the response was read from, if there is a replica

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.began = True
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            if self.reads is not None and self.reads.decided_at > 0:
                headers["onward-read-from"] = read_from(self.reads)
            headers.setdefault("cache-control", "private, max-age=3600" if self._is_static else "no-store")
        await self._send(message)


def read_from(reads: ReplicaReads) -> str:
    """Return the value of the header that says where a response was read from."""
    if reads.problem:
        return "primary; replica=unavailable"
    if reads.from_primary or reads.behind_seconds is None:
        return "primary"
    behind = "unknown" if math.isinf(reads.behind_seconds) else f"{reads.behind_seconds:.1f}"
    return f"replica; behind={behind}"


def too_large(most: int) -> Problem:
    return Problem(413, "Too large", f"At most {most:,} bytes are taken; ONWARD_SERVE_MAX_UPLOAD_BYTES sets it.")


def host_name(host: str) -> str:
    """Return the name in a Host header, without its port; empty if it is not valid."""
    found = _HOST.fullmatch(host)
    return found["name"].strip("[]").rstrip(".").lower() if found else ""


def client_name(host: str) -> str:
    """Return who counts as one client: the address, or for IPv6 the /64 network that one customer gets."""
    address = _address(host)
    if isinstance(address, ipaddress.IPv6Address):
        return str(address.ipv4_mapped or ipaddress.ip_network((address.packed[:8] + bytes(8), 64)))
    return str(address) if address else host[:100]


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    with suppress(ValueError):
        return ipaddress.ip_address(host)
    return None


def _is_own(origin: str | None, host: str) -> bool:
    """Return whether a request comes from a page of this server; a program sends no origin."""
    with suppress(ValueError):
        return origin is None or urlsplit(origin).netloc.lower() == host.lower()
    return False


def _limited(receive: Receive, most: int, answer: HeaderedResponse) -> Receive:
    """Limit the size of a body without a length, and the wait for each part of it."""
    seen = 0
    ended = False

    async def counted() -> Message:
        nonlocal seen, ended
        if answer.began or ended:
            # The body is not read any more: this call waits for the client to disconnect.
            message = await receive()
            while message["type"] != "http.disconnect":
                message = await receive()
            return message
        try:
            message = await asyncio.wait_for(receive(), BODY_SECONDS)
        except TimeoutError:
            detail = f"The next part of the body did not come within {BODY_SECONDS:g} s."
            raise Problem(408, "Too slow", detail) from None
        seen += len(message.get("body", b""))
        ended = not message.get("more_body", False)
        if seen > most:
            raise too_large(most)
        return message

    return counted
