"""All sources, with their settings, their last run and their next one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onward.model.breaker import Breaker
from onward.model.documents import Document, DocumentState, Status
from onward.ops.bad_input import NotFound
from onward.ops.text.format import iso, one_line, source_name
from onward.pipeline.documents import Archive, Report, Source, Task, report_id, source_id
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward.app import App

MAX_ERROR_CHARACTERS = 500


def source_facts(app: App, sources: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Return the facts of these sources, or of all; watched ones first, by their next run, the others by name."""
    listed = sorted(app.store.sources() if sources is None else sources)
    ids = {source: source_id(source) for source in listed}
    settings = {one.location: one for one in app.store.get_many(Source, list(ids.values()))}
    requests = {one.source: one for one in app.store.get_many(Archive, list(ids.values()))}
    known = {one.id: one for one in app.store.states_of([("archives", id) for id in ids.values()])}
    tasks = {source: Document.make_id("task", one.id, one.submission) for source, one in requests.items()}
    began = {one.source: one.submitted_at for one in app.store.get_many(Task, list(tasks.values()))}
    reports = app.store.get_many(Report, [report_id(one) for one in requests.values()])
    rows = [state.row for state in known.values() if state.row is not None]
    row_states = app.store.row_states(rows) if rows else {}
    results = {report.source: report for report in reports}
    outages = {one.dependency: one for one in app.store.breakers() if one.open}
    facts = [
        _facts(
            source,
            settings.get(source) or Source(id=ids[source], location=source),
            began.get(source),
            known.get(ids[source]),
            row_states,
            results.get(source),
            _refused_login(source, outages),
        )
        for source in listed
        if source in requests or source in settings  # not those of another app
    ]
    return sorted(facts, key=lambda one: (not one["watched"], one["next_run"] or "", one["source"]))


def settings_text(one: Mapping[str, Any]) -> str:
    """Return the settings of a source that are not the usual ones, from its facts."""
    kept = ["keeps what is no longer there"] if one["on_vanished"] == "keep" else []
    return ", ".join([*kept, *(f"{name}={value}" for name, value in sorted(one["options"].items()))])


def source_with_id(app: App, id: str) -> str:
    """Return the source that a document of settings, or a request, with this id is about."""
    if "\0" not in id:
        settings, request = app.get(Source, id), app.get(Archive, id)
        if settings is not None:
            return settings.location
        if request is not None and request.id == request.source_id:
            return request.source
    raise NotFound(f"there is no source with the id {one_line(id, 60)!r}; GET /v3/sources lists them")


def _facts(
    source: str,
    settings: Source,
    began: float | None,
    state: DocumentState | None,
    rows: Mapping[int, str],
    report: Report | None,
    refused: Breaker | None,
) -> dict[str, Any]:
    error = (state.last_error or {}).get("message", "") if state is not None else ""
    result = _result(state, rows)
    if refused is not None and result in ("waiting", "retrying"):
        error = ": ".join(filter(None, (refused.reason.rstrip("."), refused.remedy)))
    return {
        "id": settings.id,
        "source": source_name(source),
        "options": settings.options,
        "watched": settings.every is not None,
        "every_seconds": settings.every,
        "on_vanished": settings.on_vanished,
        "paused": settings.paused,
        "next_run": iso(settings.next_run if settings.watched else None),
        "last_run": iso(began),
        "result": result,
        "error": one_line(redact(str(error)), MAX_ERROR_CHARACTERS),
        "counts": {} if report is None else report.counts,
        "problems": [{"path": one.path, "reason": one.reason} for one in (report.problems if report else [])],
    }


def _refused_login(source: str, outages: Mapping[str, Breaker]) -> Breaker | None:
    """Return the open breaker of the account of a source, whose password was refused."""
    if not outages:
        return None
    from onward.pipeline.source_kinds.refused_logins import login_of  # imports what fetching needs

    return outages.get(login_of(source))


def _result(state: DocumentState | None, rows: Mapping[int, str]) -> str:
    """Return `never`, `waiting`, `running`, `retrying`, `completed` or `failed`."""
    if state is None:
        return "never"
    if state.status == Status.PROCESSED:
        return "completed"
    if state.status != Status.PENDING:
        return "failed"
    if state.row is not None and rows.get(state.row) == "claimed":
        return "running"
    return "retrying" if state.last_error is not None else "waiting"
