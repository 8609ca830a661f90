"""Idempotency keys: a repeated request gets the stored response, from any server and after a restart."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from onward.app import App
from onward.console.problems import Problem
from onward.ledger.store_errors import StoreConflict
from onward.model.documents import Document
from onward.ops.text.format import one_line

KEPT_SECONDS = 86_400.0
SWEPT_AT_ONCE = 200
_KEY = re.compile(r"[!-~]{1,255}")


class KnownRequest(Document, collection="idempotency_keys"):
    """A request that was handled: the digest of its body, and its response."""

    body: str
    status: int
    answer: str
    at: float


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response, and whether it was replayed for a repeated key."""

    status: int
    body: dict[str, Any]
    replayed: bool = False


def digest(body: object) -> str:
    """Return a digest of a request, whatever the order of its fields."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def run_once(
    app: App, endpoint: str, key: str | None, body_digest: str, handle: Callable[[], StoredResponse]
) -> StoredResponse:
    """Handle a request in one transaction with its key; return the stored response if the key is known."""
    if key is None:
        return app.atomically(handle)
    if not _KEY.fullmatch(key):
        raise Problem(
            422,
            "This cannot be used",
            f"Idempotency-Key is {one_line(key, 60)!r}: give up to 255 visible characters, new every time.",
        )
    id = Document.make_id("idempotency", endpoint, key)

    def handle_or_replay() -> StoredResponse:
        now = app.store.now()
        request = app.get(KnownRequest, id)
        if request is not None and now - request.at <= KEPT_SECONDS:
            return _replay(request, key, body_digest)
        _sweep(app, now, [id] if request is not None else [])
        response = handle()
        answer = json.dumps(response.body)
        if not app.add(KnownRequest(id=id, body=body_digest, status=response.status, answer=answer, at=now)):
            raise StoreConflict("another server has just stored the same key; the request is tried again")
        return response

    return app.atomically(handle_or_replay)


def _replay(request: KnownRequest, key: str, body_digest: str) -> StoredResponse:
    if request.body != body_digest:
        raise Problem(
            409,
            "This key was used for something else",
            f"Idempotency-Key {one_line(key, 60)!r} came with another body before. Give each request its own.",
        )
    return StoredResponse(request.status, json.loads(request.answer), replayed=True)


def _sweep(app: App, now: float, ids: list[str]) -> None:
    """Remove keys that are too old, at most `SWEPT_AT_ONCE` each time."""
    name = KnownRequest.collection
    old = app.store.find_states(collection=name, before=now - KEPT_SECONDS, limit=SWEPT_AT_ONCE)
    keys = {(name, state.id) for state in old} | {(name, id) for id in ids}
    if keys:
        app.store.remove_documents(sorted(keys))
