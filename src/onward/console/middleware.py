"""Checks every request: host, rate, size, origin, and token or session."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import time
from collections import OrderedDict
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import Message, Receive, Scope, Send

from onward.console.problems import Problem, problem_of, send_problem
from onward.console.sessions import Sessions, cookie_of

OPEN_PATHS = ("/login", "/healthz", "/readyz")
"""Paths that need no token, beside `/static`."""
UPLOADS = ("/v3/documents", "/v3/documents/batch", "/ingest")
SAFE = ("GET", "HEAD", "OPTIONS")
MAX_CLIENTS = 10_000
"""Rates are tracked for at most this many clients."""
LOGINS_PER_MINUTE = 20
BODY_SECONDS = 30.0
"""The longest wait for the next part of a body."""
_HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[^\[\]:/@?#\s]*)(?::\d{1,5})?")

HEADERS = {
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
"""Headers of every response."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one client may send."""

    body_bytes: int = 1_000_000
    """Of any request but an upload."""
    upload_bytes: int = 200_000_000
    requests_per_second: float = 50.0
    burst: int = 200


@dataclass(slots=True)
class Bucket:
    """How many requests a client has left."""

    left: float
    at: float


@dataclass(slots=True)
class RateLimiter:
    """Limits the requests of each client (token bucket)."""

    per_second: float
    burst: float
    _known: OrderedDict[str, Bucket] = field(default_factory=OrderedDict)

    def wait(self, client: str, now: float) -> float:
        """Count a request; return how many seconds too early it came, 0 if it is allowed."""
        bucket = self._known.pop(client, None) or Bucket(self.burst, now)
        bucket.left = min(self.burst, bucket.left + (now - bucket.at) * self.per_second)
        bucket.at = now
        self._known[client] = bucket
        while len(self._known) > MAX_CLIENTS:
            self._known.popitem(last=False)
        if bucket.left < 1:
            return (1 - bucket.left) / self.per_second
        bucket.left -= 1
        return 0.0


class AccessMiddleware:
    """Wraps the whole app; a request that it refuses never reaches a page."""

    def __init__(self, app: FastAPI, *, sessions: Sessions, hosts: frozenset[str], limits: Limits) -> None:
        self.web = app
        self._sessions = sessions
        self._hosts = hosts
        self._limits = limits
        self._requests = RateLimiter(limits.requests_per_second, limits.burst)
        self._logins = RateLimiter(LOGINS_PER_MINUTE / 60, LOGINS_PER_MINUTE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.web(scope, receive, send)
            return
        answer = HeaderedResponse(send, is_static=scope["path"].startswith("/static/"))
        try:
            self._check(scope)
        except Problem as problem:
            await send_problem(problem, scope, receive, answer)
            return
        if scope["method"] == "HEAD" and not _is_stream(scope["path"]):
            # The response to GET; the server leaves the body out.
            scope = {**scope, "method": "GET"}
        try:
            await self.web(scope, _limited(receive, self._most(scope), answer), answer)
        except Exception as error:
            # If the response has begun, the error was logged, and Starlette only raises it again for the server,
            # which would log it once more, with the secrets it may carry.
            if not answer.began:
                await send_problem(problem_of(error), scope, receive, answer)

    # -- the checks

    def _check(self, scope: Scope) -> None:
        asked = HTTPConnection(scope)
        self._check_host(asked.headers)
        self._check_rate(scope, asked)
        self._check_size(scope, asked.headers)
        self._check_origin(scope, asked.headers)
        path = scope["path"]
        if path in OPEN_PATHS or path.startswith("/static/"):
            return
        if not self._sessions.is_allowed(asked.headers.get("authorization"), cookie_of(asked)):
            raise Problem(
                401,
                "A token is needed",
                "Send it as `Authorization: Bearer TOKEN`, or log in at /login. It is what ONWARD_TOKEN "
                "was set to where this server was started.",
                headers={"www-authenticate": 'Bearer realm="onward"'},
            )

    def _check_host(self, headers: Headers) -> None:
        host = host_name(headers.get("host", ""))
        # A name may belong to an attacker and point here (DNS rebinding); an IP address cannot.
        if host not in self._hosts and not _is_address(host):
            raise Problem(
                421,
                "Another host is meant",
                f"This server does not answer for {host[:100]!r}. If it should, add it to ONWARD_SERVE_HOSTS.",
            )

    def _check_rate(self, scope: Scope, asked: HTTPConnection) -> None:
        client = client_name(asked.client.host if asked.client else "")
        now = time.monotonic()
        wait = self._requests.wait(client, now)
        remedy = "ONWARD_SERVE_REQUESTS_PER_SECOND sets how many are taken."
        if not wait and scope["path"] == "/login" and scope["method"] == "POST":
            wait = self._logins.wait(client, now)
            remedy = f"A token can be tried {LOGINS_PER_MINUTE} times a minute."
        if wait:
            seconds = max(1, round(wait))
            raise Problem(
                429,
                "Too many requests",
                f"Come back in {seconds} s. {remedy}",
                headers={"retry-after": str(seconds)},
            )

    def _most(self, scope: Scope) -> int:
        uploads = scope["method"] == "POST" and scope["path"] in UPLOADS
        return self._limits.upload_bytes if uploads else self._limits.body_bytes

    def _check_size(self, scope: Scope, headers: Headers) -> None:
        length = headers.get("content-length", "0")
        # No real length has more digits, and Python refuses to parse numbers of thousands of digits.
        if not length.isdecimal() or len(length) > 18 or int(length) > self._most(scope):
            raise too_large(self._most(scope))

    def _check_origin(self, scope: Scope, headers: Headers) -> None:
        """Refuse requests that a page of another site makes a browser send, with the cookies it has.

        Another site may link to a page. It may not embed a response, measure how long one takes, or change
        anything.
        """
        foreign = headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")
        if scope["method"] in SAFE:
            visits = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
            refused = foreign and not visits
        else:
            refused = foreign or not _is_own(headers.get("origin"), headers.get("host", ""))
        if refused:
            raise Problem(
                403,
                "From another site",
                "A page of another site may not use this server. Send it from the console or a program.",
            )


class HeaderedResponse:
    """Sends a response with the headers that every response has, and records whether it has begun."""

    def __init__(self, send: Send, *, is_static: bool) -> None:
        self._send = send
        self._is_static = is_static
        self.began = False

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.began = True
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("cache-control", "private, max-age=3600" if self._is_static else "no-store")
        await self._send(message)


def _is_stream(path: str) -> bool:
    """Return whether a response may never end, so that a HEAD request is refused."""
    return path.startswith("/live/") or path.endswith("/events")


def too_large(most: int) -> Problem:
    """Return the problem of a body that is too large."""
    return Problem(413, "Too large", f"At most {most:,} bytes are taken; ONWARD_SERVE_MAX_UPLOAD_BYTES sets it.")


def host_name(host: str) -> str:
    """Return the name in a Host header, without its port; empty if it is not valid."""
    found = _HOST.fullmatch(host)
    return found["name"].strip("[]").rstrip(".").lower() if found else ""


def client_name(host: str) -> str:
    """Return who counts as one client: the address, or for IPv6 the /64 network that one customer gets."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host[:100]
    if address.version == 4:
        return str(address)
    return str(address.ipv4_mapped or ipaddress.ip_network((address.packed[:8] + bytes(8), 64)))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_own(origin: str | None, host: str) -> bool:
    """Return whether a request comes from a page of this server; a program sends no origin."""
    if origin is None:
        return True
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
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
            raise Problem(
                408, "Too slow", f"The next part of the body did not come within {BODY_SECONDS:g} s."
            ) from None
        seen += len(message.get("body", b""))
        ended = not message.get("more_body", False)
        if seen > most:
            raise too_large(most)
        return message

    return counted
