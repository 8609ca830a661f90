"""Logins that a server has refused: the same password is not sent to it again until a person says so."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from contextlib import AbstractContextManager, nullcontext
from urllib.parse import unquote, urlsplit

from onward import Unavailable

_DIGEST_BYTES = 2
_PREFIX = "login:"


def login_name(user: str, host: str) -> str:
    """Return the name of the dependency that stands for an account of a server."""
    return f"{_PREFIX}{user}@{host.lower()}"


def is_login(dependency: str) -> bool:
    """Return whether a dependency stands for an account of a server: no service needs it, but its sources do."""
    return dependency.startswith(_PREFIX)


def login_of(location: str) -> str:
    """Return the dependency that stands for the account in a canonical location; "" if it has none."""
    try:
        parts = urlsplit(location)
    except ValueError:
        return ""
    user, at, host = parts.netloc.rpartition("@")
    host = host.rpartition(":")[0] if re.search(r":\d+$", host) else host
    return login_name(unquote(user), host) if at and user and "://" in location else ""


class LoginRefused(Unavailable):
    """A server refused the login of an account, and its breaker opens: no service needs it, but a source does."""

    def __init__(self, account: str, message: str = "", remedy: str = "") -> None:
        super().__init__(account, message, opens=True, remedy=remedy)


class RefusedLogins:
    """The refused logins of one run. `StoredRefusals` has those of all runs."""

    def __init__(self) -> None:
        self._refused: dict[str, tuple[str, LoginRefused]] = {}

    def one_at_a_time(self, account: str) -> AbstractContextManager[object]:
        """Return a context in which nobody else logs in, so that several runs do not send one wrong password."""
        return nullcontext(account)

    def check(self, account: str, secret: str) -> None:
        """Raise `LoginRefused` if this secret was refused before, and nobody has closed the account's breaker."""
        mark, error = self._refused.get(account, ("", None))
        if error is not None and is_marked(mark, secret):
            raise error

    def add(self, error: LoginRefused, secret: str) -> None:
        """Store that the server has refused this secret."""
        self._refused[error.dependency] = (mark_of(secret), error)

    def remove(self, account: str) -> None:
        """Remove the refused secret: a login has succeeded."""
        self._refused.pop(account, None)


def mark_of(secret: str) -> str:
    """Return a salted mark by which a secret is recognised.

    It has 16 bits: too few to find or to confirm a password by it, enough to see that it is another one.
    """
    salt = secrets.token_hex(8)
    return f"{salt}:{_digest(salt, secret)}"


def is_marked(mark: str, secret: str) -> bool:
    """Return whether a mark is that of this secret (of another one, too, once in 65,536 times)."""
    salt, _, digest = mark.partition(":")
    return hmac.compare_digest(_digest(salt, secret), digest)


def _digest(salt: str, secret: str) -> str:
    key = secret.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(key, salt=salt.encode(), n=2**14, r=8, p=1, dklen=_DIGEST_BYTES).hex()
