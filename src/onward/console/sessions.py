"""Checks tokens, session cookies and form tokens."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time

from starlette.requests import HTTPConnection

SESSION_SECONDS = 12 * 3600.0  # how long a login is valid
MAX_ENDED_SESSIONS = 10_000  # stored until their cookies expire


class Sessions:
    """Makes and checks cookies; only ended sessions are stored, so a session survives a restart of the server."""

    def __init__(self, token: str | None) -> None:
        self._token = token
        # Without a token a session only ties forms to a browser, and may end when the server stops.
        self._key = hashlib.sha256(b"onward session " + _bytes(token or secrets.token_hex(32))).digest()
        self._ended: dict[str, int] = {}

    @property
    def needs_token(self) -> bool:
        return self._token is not None

    def is_token(self, given: str) -> bool:
        """Return whether this is the token, in constant time."""
        return self._token is not None and hmac.compare_digest(_bytes(given), _bytes(self._token))

    def is_allowed(self, authorization: str | None, cookie: str | None) -> bool:
        if self._token is None:
            return True
        kind, _, given = (authorization or "").partition(" ")
        # Headers are decoded as Latin-1, whatever their bytes mean.
        if kind.lower() == "bearer" and self.is_token(_bytes(given.strip(), "latin-1").decode("utf-8", "replace")):
            return True
        return self.is_valid(cookie)

    def begin(self) -> str:
        """Return a new cookie, after the token was checked or where none is needed."""
        about = f"{int(time.time() + SESSION_SECONDS)}.{secrets.token_urlsafe(16)}"
        return f"{about}.{self._sign('session', about)}"

    def is_valid(self, cookie: str | None) -> bool:
        """Return whether a cookie was signed by this server, and has neither expired nor ended."""
        about, _, signature = (cookie or "").rpartition(".")
        if not about or not hmac.compare_digest(_bytes(signature), _bytes(self._sign("session", about))):
            return False
        return _until(about) > time.time() and about not in self._ended

    def end(self, cookie: str) -> None:
        """End a session: a copy of its cookie is refused, too."""
        if not self.is_valid(cookie):
            return
        now = time.time()
        self._ended = {one: until for one, until in self._ended.items() if until > now}
        while len(self._ended) >= MAX_ENDED_SESSIONS:
            del self._ended[next(iter(self._ended))]
        about = cookie.rpartition(".")[0]
        self._ended[about] = _until(about)

    def form_token(self, cookie: str) -> str:
        """Return the token of the forms of a session: no other site can know it."""
        return self._sign("form", cookie)

    def is_own_form(self, cookie: str, given: str) -> bool:
        return self.is_valid(cookie) and hmac.compare_digest(_bytes(given), _bytes(self.form_token(cookie)))

    def _sign(self, what: str, about: str) -> str:
        return hmac.new(self._key, _bytes(f"{what} {about}"), hashlib.sha256).hexdigest()


def cookie_name(asked: HTTPConnection) -> str:
    """Return the name of the cookie; it has the port, as a browser sends cookies to all ports of a host."""
    port = asked.headers.get("host", "").rpartition(":")[2]
    return f"onward_session_{port}" if port.isascii() and port.isdecimal() else "onward_session"


def cookie_of(asked: HTTPConnection) -> str:
    """Return the session cookie of a request; empty for none."""
    return asked.cookies.get(cookie_name(asked), "")


def _until(about: str) -> int:
    """Return when a session expires; only for a cookie that this server has signed."""
    return int(about.partition(".")[0])


def _bytes(text: str, encoding: str = "utf-8") -> bytes:
    """Return text as bytes that can be compared, whatever was sent."""
    return text.encode(encoding, "replace")
