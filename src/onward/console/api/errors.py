"""Errors that other programs report: counted in failure groups, and the newest kept to be looked at."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from onward.app import App
from onward.console.api import schemas
from onward.console.api.openapi import problems
from onward.console.request_context import Onward
from onward.model.failures import MAX_MESSAGE, MAX_SHAPE, MAX_TRACEBACK, Failure, shape_of
from onward.ops.text.format import iso
from onward.retry import redact_error

router = APIRouter(prefix="/api", tags=["Errors"])

MOST = 10_000
"""At most this many errors are kept; then the oldest are removed."""
UNKNOWN = "unknown"


class Errors:
    """List the newest errors that were reported to this server, by their ids."""

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.received = 0
        self._kept: OrderedDict[str, schemas.ErrorReport] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, app: App, reports: Sequence[schemas.ErrorReport]) -> int:
        """Count those that are not known, in one transaction; answer how many there were."""
        with self._lock:  # a report that is sent once more while the first is counted must wait for that
            now = app.store.now()
            new: dict[str, schemas.ErrorReport] = {}
            for one in reports:
                report = _without_secrets(one, now)
                id = one.id or f"{self.received + len(new)} without an id"
                if id not in self._kept:
                    new.setdefault(id, report)

            def count() -> None:
                for one in new.values():
                    app.store.report_failure(one.service, _failure(one), collection=one.collection)

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
    """Return a report without secrets, as it is kept."""
    message = _clean(one.message)[:MAX_MESSAGE]
    service, kind = _clean(one.service) or UNKNOWN, _clean(one.error_type)
    return one.model_copy(
        update={
            "id": _clean(one.id),
            "at": iso(min(_seconds(one.at, now), now)),
            "service": service,
            "error_type": kind,
            "message": message,
            "traceback": _clean(one.traceback)[-MAX_TRACEBACK:],
            "fingerprint": one.fingerprint or _fingerprint(service, kind, one.place, message),
            "documents": [_clean(id) for id in one.documents],
            **{
                name: _clean(value)
                for name in ("kind", "place", "worker", "version", "dependency", "collection")
                if (value := getattr(one, name))
            },
        }
    )


def _seconds(text: str, now: float) -> float:
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return now


def _fingerprint(service: str, kind: str, place: str, message: str) -> str:
    """Return a fingerprint for an error that was sent without one, made from the same parts as our own."""
    parts = (service, kind, place, shape_of(message)[:MAX_SHAPE])
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=8).hexdigest()


def _failure(one: schemas.ErrorReport) -> Failure:
    return Failure(
        at=datetime.fromisoformat(one.at).timestamp(),
        error_type=one.error_type,
        message=one.message,
        fingerprint=one.fingerprint,
        worker=one.worker,
        version=one.version,
        traceback=one.traceback,
        dependency=one.dependency,
        kind=one.kind,
        place=one.place,
    )


@router.post(
    "/errors",
    summary="Report errors",
    status_code=202,
    response_model=schemas.ErrorsCounted,
    responses=problems(413, 422),
)
def report(request: Request, app: Onward, reports: schemas.ErrorReports) -> dict[str, Any]:
    """Count errors of another program in failure groups; `ERROR_REPORTER_TYPE=http` sends them here.

    One whose id is known, because it was sent before, is not counted again.
    """
    errors: Errors = request.app.state.errors
    taken = errors.take(app, reports.errors)
    return {"taken": taken, "known": len(reports.errors) - taken}


@router.get("/errors", summary="List reported errors", response_model=schemas.KeptErrors, responses=problems(422))
def recent(
    request: Request,
    service: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    fingerprint: Annotated[str | None, Query(min_length=1, max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> dict[str, Any]:
    """List the newest errors that were reported to this server since it was started, the last one first."""
    errors: Errors = request.app.state.errors
    found = [
        one for one in errors.newest() if service in (None, one.service) and fingerprint in (None, one.fingerprint)
    ]
    return {"errors": list(islice(found, limit)), "total": len(found)}


@router.get("/stats", summary="Count reported errors", response_model=schemas.ErrorStats)
def stats(request: Request) -> dict[str, Any]:
    """Count the kept errors by service, type and failure group."""
    errors: Errors = request.app.state.errors
    found = errors.newest()
    return {
        "received": errors.received,
        "kept": len(found),
        "most": errors.most,
        "services": dict(Counter(one.service for one in found).most_common(100)),
        "error_types": dict(Counter(one.error_type for one in found).most_common(100)),
        "groups": dict(Counter(one.fingerprint for one in found).most_common(100)),
        "oldest": min((one.at for one in found), default=None),
        "newest": max((one.at for one in found), default=None),
    }
