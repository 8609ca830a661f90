"""Refused logins, as they are stored: for all runs of all workers."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onward import App, Document
from onward.pipeline.documents import RefusedLogin
from onward.pipeline.source_kinds.refused_logins import LoginRefused, RefusedLogins, is_marked, mark_of


class StoredRefusals(RefusedLogins):
    """Opens the breaker of an account whose login is refused; while it is open, only another password is tried."""

    def __init__(self, app: App) -> None:
        super().__init__()
        self._app = app

    @contextmanager
    def one_at_a_time(self, account: str) -> Iterator[object]:
        """Hold the lock of an account, for all runs that share this data folder."""
        folder = Path(self._app.settings.home) / "scratch"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{_id(account)}.login").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file

    def check(self, account: str, secret: str) -> None:
        breakers = (one for one in self._app.store.breakers() if one.dependency == account and one.open)
        if (breaker := next(breakers, None)) is None:
            return
        refused = self._app.get(RefusedLogin, _id(account))
        if breaker.by_hand or (refused is not None and is_marked(refused.mark, secret)):
            raise LoginRefused(account, breaker.reason, breaker.remedy)

    def add(self, error: LoginRefused, secret: str) -> None:
        refused = RefusedLogin(id=_id(error.dependency), dependency=error.dependency, mark=mark_of(secret))

        def put() -> None:
            self._app.replace(refused)
            reason = str(error.args[1])
            self._app.store.open_breaker(error.dependency, reason, remedy=error.remedy or "", probed=False)

        self._app.atomically(put)

    def remove(self, account: str) -> None:
        if any(one.dependency == account for one in self._app.store.breakers()):
            self._app.store.remove_breaker(account)


def _id(account: str) -> str:
    return Document.make_id("login", account)
