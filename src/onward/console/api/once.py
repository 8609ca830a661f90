"""Idempotency keys: the same request again gets the same answer, from any server and after a restart."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from onward.app import App
from onward.console.problems import Problem
from onward.facts.wording import one_line
from onward.model.documents import Document
from onward.ports import StoreConflict

KEPT_SECONDS = 86_400.0
SWEPT_AT_ONCE = 200
_KEY = re.compile(r"[!-~]{1,255}")


class KnownRequest(Document, collection="idempotency_keys"):
    """A request that was carried out, and what was answered."""

    body: str
    status: int
    answer: str
    at: float


@dataclass(frozen=True, slots=True)
class Answered:
    """What is answered, and whether that is what was answered before."""

    status: int
    body: dict[str, Any]
    again: bool = False


def digest(body: object) -> str:
    """What a request asked for; the order of its fields says nothing."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def once(app: App, call: str, key: str | None, body: str, do: Callable[[], Answered]) -> Answered:
    """Carry a request out, in one transaction with its key; one whose key is known is not carried out again."""
    if key is None:
        return app.atomically(do)
    if not _KEY.fullmatch(key):
        raise Problem(
            422,
            "This cannot be used",
            f"Idempotency-Key is {one_line(key, 60)!r}: give up to 255 visible characters, new every time.",
        )
    id = Document.make_id("idempotency", call, key)

    def put() -> Answered:
        now = app.store.now()
        known = app.get(KnownRequest, id)
        if known is not None and now - known.at <= KEPT_SECONDS:
            return _same(known, key, body)
        _sweep(app, now, [id] if known is not None else [])
        answered = do()
        kept = KnownRequest(id=id, body=body, status=answered.status, answer=json.dumps(answered.body), at=now)
        if not app.add(kept):
            raise StoreConflict("another server has just had the same key; it is looked at again")
        return answered

    return app.atomically(put)


def _same(known: KnownRequest, key: str, body: str) -> Answered:
    if known.body != body:
        raise Problem(
            409,
            "This key was used for something else",
            f"Idempotency-Key {one_line(key, 60)!r} came with another body before. Give each request its own.",
        )
    return Answered(known.status, json.loads(known.answer), again=True)


def _sweep(app: App, now: float, ids: list[str]) -> None:
    """Forget keys that are too old; a few each time, so that they never pile up."""
    name = KnownRequest.collection
    old = app.store.find_states(collection=name, before=now - KEPT_SECONDS, limit=SWEPT_AT_ONCE)
    keys = {(name, one.id) for one in old} | {(name, id) for id in ids}
    if keys:
        app.store.remove_documents(sorted(keys))
