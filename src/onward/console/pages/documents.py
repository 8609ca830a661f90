"""The list of documents, by collection, status and source, or by the beginning of their id."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from onward.app import App
from onward.console.page_templates import document_path, page
from onward.console.pages.list_filters import chosen_source, source_choices
from onward.console.request_context import Onward
from onward.model.documents import DocumentState, Status
from onward.ops.queries.documents import (
    count_documents,
    find_by_id,
    find_titles,
    list_documents,
    source_key,
)
from onward.ops.text.format import one_line
from onward.recovery.next_step import describe_error

router = APIRouter()

SHOWN = 50
MAX_ID_LENGTH = 512


@dataclass(frozen=True, slots=True)
class DocumentListFilter:
    """The filters of the list."""

    collection: str = ""
    status: str = ""
    source: str = ""
    q: str = ""

    def path(self, after: str = "") -> str:
        """Return the path of the same list after a document."""
        given = {**asdict(self), "after": after}
        return "/documents?" + urlencode({name: value for name, value in given.items() if value})


@router.get("/documents")
def show(
    request: Request,
    app: Onward,
    collection: str = "",
    status: str = "",
    source: str = "",
    q: str = "",
    after: str = "",
) -> Response:
    """Show a page of documents."""
    wanted = DocumentListFilter(collection, status, source.strip(), q.strip())
    chosen, problem = chosen_source(app, wanted.source)
    found = [] if problem else _found(app, wanted, chosen, after)
    if len(found) == 1 and wanted.q in (found[0].id, f"{found[0].collection}/{found[0].id}"):
        return RedirectResponse(document_path(found[0].collection, found[0].id), 303)
    shown = found[:SHOWN]
    titles = find_titles(app, shown)
    counts = app.store.document_counts()
    total = None
    if not wanted.q and not problem:
        total = count_documents(app, collection=collection or None, status=status or None, source=chosen)
    last = shown[-1] if shown else None
    more = len(found) > SHOWN and last is not None and not wanted.q
    return page(
        request,
        "documents.html",
        wanted=wanted,
        problem=problem,
        rows=[(one, one_line(titles.get((one.collection, one.id), ""), 140), _error(one)) for one in shown],
        total=total,
        more_than=len(found) > SHOWN,
        collections=sorted(counts),
        statuses=[str(one) for one in Status],
        sources=source_choices(app),
        chosen=source_key(chosen) if chosen else "",
        next_path=wanted.path(f"{last.collection}/{last.id}") if more and last else "",
        first_path=wanted.path() if after else "",
        nothing=not counts,
    )


def _found(app: App, wanted: DocumentListFilter, source: str | None, after: str) -> list[DocumentState]:
    if wanted.q:
        given = wanted.q[: MAX_ID_LENGTH + 1]
        name, slash, rest = given.partition("/")
        in_collection = bool(slash) and name in app.store.document_counts()
        found = find_by_id(app, given, limit=SHOWN + 1)
        if not found and in_collection:
            found = [one for one in find_by_id(app, rest, limit=10 * SHOWN) if one.collection == name]
        return [one for one in found if _matches(one, wanted, source)]
    behind, _, id = after.partition("/")
    return list_documents(
        app,
        collection=wanted.collection or None,
        status=wanted.status or None,
        source=source,
        after=(behind, id),
        limit=SHOWN + 1,
    )


def _matches(state: DocumentState, wanted: DocumentListFilter, source: str | None) -> bool:
    return (
        (not wanted.collection or state.collection == wanted.collection)
        and (not wanted.status or state.status.startswith(wanted.status))
        and (source is None or state.source == source)
    )


def _error(state: DocumentState) -> str:
    return one_line(describe_error(state.last_error), 200) if state.status != Status.PROCESSED else ""
