"""Tokens and sessions: who may use the console, and which forms are its own."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time

from starlette.requests import HTTPConnection

LASTS = 12 * 3600.0
"""Seconds a login is good for."""
MOST_ENDED = 10_000
"""So many logouts are remembered until their cookies are too old anyway."""


class Sessions:
    """Makes and checks cookies; only logouts are kept, so they outlive the server as long as its token does."""

    def __init__(self, token: str | None) -> None:
        self._token = token
        # Without a token a session only ties forms to a browser, and may end with the server.
        self._key = hashlib.sha256(b"onward session " + _bytes(token or secrets.token_hex(32))).digest()
        self._ended: dict[str, int] = {}

    @property
    def needs_token(self) -> bool:
        return self._token is not None

    def is_token(self, given: str) -> bool:
        """Whether this is the token; it takes as long to say no as to say yes."""
        return self._token is not None and hmac.compare_digest(_bytes(given), _bytes(self._token))

    def lets_in(self, authorization: str | None, cookie: str | None) -> bool:
        """Whether somebody with this header or cookie may come in."""
        if self._token is None:
            return True
        kind, _, given = (authorization or "").partition(" ")
        # A header comes as Latin-1, whatever its bytes were meant to be.
        if kind.lower() == "bearer" and self.is_token(_bytes(given.strip(), "latin-1").decode("utf-8", "replace")):
            return True
        return self.is_valid(cookie)

    def begin(self) -> str:
        """A cookie for somebody who has shown the token, or needs none."""
        about = f"{int(time.time() + LASTS)}.{secrets.token_urlsafe(16)}"
        return f"{about}.{self._sign('session', about)}"

    def is_valid(self, cookie: str | None) -> bool:
        """Whether a cookie is one of ours, and not too old."""
        about, _, signature = (cookie or "").rpartition(".")
        if not about or not hmac.compare_digest(_bytes(signature), _bytes(self._sign("session", about))):
            return False
        return _until(about) > time.time() and about not in self._ended

    def end(self, cookie: str) -> None:
        """Somebody logs out: whoever has copied the cookie is out, too."""
        if not self.is_valid(cookie):
            return
        now = time.time()
        self._ended = {one: until for one, until in self._ended.items() if until > now}
        while len(self._ended) >= MOST_ENDED:
            del self._ended[next(iter(self._ended))]
        about = cookie.rpartition(".")[0]
        self._ended[about] = _until(about)

    def form_token(self, cookie: str) -> str:
        """What a form of this session carries: no other site can know it."""
        return self._sign("form", cookie)

    def is_own_form(self, cookie: str | None, given: str) -> bool:
        if not self.is_valid(cookie):
            return False
        return hmac.compare_digest(_bytes(given), _bytes(self.form_token(cookie or "")))

    def _sign(self, what: str, about: str) -> str:
        return hmac.new(self._key, _bytes(f"{what} {about}"), hashlib.sha256).hexdigest()


def cookie_name(asked: HTTPConnection) -> str:
    """What the cookie is called: with the port, as a browser sends cookies to all ports of a host."""
    port = asked.headers.get("host", "").rpartition(":")[2]
    return f"onward_session_{port}" if port.isascii() and port.isdecimal() else "onward_session"


def cookie_of(asked: HTTPConnection) -> str:
    """The session that somebody comes with; empty for none."""
    return asked.cookies.get(cookie_name(asked), "")


def _until(about: str) -> int:
    """When a session ends; asked only of what this server has signed."""
    return int(about.partition(".")[0])


def _bytes(text: str, encoding: str = "utf-8") -> bytes:
    """What can be compared, whatever somebody has sent."""
    return text.encode(encoding, "replace")
