"""Errors that other programs report: counted in failure groups, and the newest kept to be looked at."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from onward.app import App
from onward.console.api import schemas
from onward.console.api.openapi import problems, reads
from onward.console.problems import LISTED_ERRORS, Problem, describe_field_errors
from onward.console.request_context import Onward
from onward.model.failures import MAX_TRACEBACK, Failure
from onward.model.fingerprints import MAX_MESSAGE, MAX_SHAPE, shape_of
from onward.ops.text.format import iso
from onward.retry import redact_error
from onward.retry.plain_data import context_json

router = APIRouter(prefix="/api", tags=["Errors"])

MOST = 10_000  # errors that are kept; then the oldest are removed


class Errors:
    """The newest errors that were reported to this server, by their ids."""

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.received = 0
        self._kept: OrderedDict[str, schemas.ErrorReport] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, app: App, reports: Sequence[schemas.ErrorReport]) -> int:
        """Count those that are not known, in one transaction; return how many there were."""
        with self._lock:  # a report that is sent once more while the first is counted must wait for that
            now = app.store.now()
            new: dict[str, schemas.ErrorReport] = {}
            for one in reports:
                id = one.id or f"{self.received + len(new)} without an id"
                if id not in self._kept:
                    new.setdefault(id, _without_secrets(one, now))

            def count() -> None:
                for one in new.values():
                    fields = one.model_dump(include={field.name for field in dataclasses.fields(Failure)})
                    fields["context"] = json.dumps(one.context) if one.context else ""
                    failure = Failure(**fields | {"at": datetime.fromisoformat(one.at).timestamp()})
                    app.store.report_failure(one.service, failure, collection=one.collection)

            app.atomically(count)
            self.received += len(new)
            self._kept |= new
            while len(self._kept) > self.most:
                self._kept.popitem(last=False)
            return len(new)

    def newest(self) -> list[schemas.ErrorReport]:
        with self._lock:
            return list(reversed(self._kept.values()))


def _clean(text: str) -> str:
    """Text that every store keeps, without its secrets."""
    return redact_error(text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00"))


def _without_secrets(one: schemas.ErrorReport, now: float) -> schemas.ErrorReport:
    texts = ("id", "error_type", "kind", "place", "worker", "version", "dependency", "collection")
    fields: dict[str, Any] = {name: _clean(value) for name in texts if (value := getattr(one, name))}
    fields["service"] = _clean(one.service) or "unknown"
    fields["message"] = _clean(one.message)[:MAX_MESSAGE]
    fields["traceback"] = _clean(one.traceback)[-MAX_TRACEBACK:]
    fields["documents"] = [_clean(id) for id in one.documents]
    fields["context"] = json.loads(context_json(one.context)) if one.context else None
    try:
        at = datetime.fromisoformat(one.at)
        fields["at"] = iso(min((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp(), now))
    except (ValueError, OverflowError):
        fields["at"] = iso(now)
    # A report without a fingerprint gets one that is made from the same parts as our own.
    parts = (fields["service"], fields["error_type"], one.place, shape_of(fields["message"])[:MAX_SHAPE])
    made = hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=8).hexdigest()
    return one.model_copy(update=fields | {"fingerprint": one.fingerprint or made})


@router.post(
    "/errors",
    summary="Report errors",
    status_code=202,
    response_model=schemas.ErrorsCounted,
    responses=problems(413, 422),
)
def report(request: Request, app: Onward, reports: schemas.ErrorReports) -> dict[str, Any]:
    """Count errors of another program in failure groups; `ERROR_REPORTER_TYPE=http` sends them here.

    The body is one error, a list of errors, or an object with `errors`. One whose id is known, because it was
    sent before, is not counted again. Of several, invalid ones are refused and the others are taken.
    """
    given: list[schemas.ErrorReport | schemas.InvalidReport] = list(reports.errors)
    valid = [one for one in given if isinstance(one, schemas.ErrorReport)]
    refused = [
        {"index": index, "id": _clean(one.id), "problem": describe_field_errors(one.errors)}
        for index, one in enumerate(given)
        if isinstance(one, schemas.InvalidReport)
    ]
    if not valid:
        listed = "; ".join(f"errors.{one['index']}: {one['problem']}" for one in refused[:LISTED_ERRORS])
        raise Problem(422, "This cannot be used", listed, errors=refused[:100])
    taken = request.app.state.errors.take(app, valid)
    return {"taken": taken, "known": len(valid) - taken, "refused": refused}


@reads(router, "/errors", "List reported errors", schemas.KeptErrors, 422)
def recent(
    request: Request,
    service: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    fingerprint: Annotated[str | None, Query(min_length=1, max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> dict[str, Any]:
    """List the newest errors that were reported to this server since it was started, the last one first."""
    kept = request.app.state.errors.newest()
    found = [one for one in kept if service in (None, one.service) and fingerprint in (None, one.fingerprint)]
    return {"errors": found[:limit], "total": len(found)}


@reads(router, "/stats", "Count reported errors", schemas.ErrorStats)
def stats(request: Request) -> dict[str, Any]:
    """Count the kept errors by service, type and failure group."""
    errors: Errors = request.app.state.errors
    found = errors.newest()
    grouped = {"services": "service", "error_types": "error_type", "groups": "fingerprint"}
    return {
        "received": errors.received,
        "kept": len(found),
        "most": errors.most,
        **{
            key: dict(Counter(getattr(one, name) for one in found).most_common(100))
            for key, name in grouped.items()
        },
        "oldest": min((one.at for one in found), default=None),
        "newest": max((one.at for one in found), default=None),
    }
