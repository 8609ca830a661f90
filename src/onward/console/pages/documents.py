"""The list of documents, by collection, status and source, or by the beginning of their id."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from onward.app import App
from onward.console.page_templates import document_path, page, with_query
from onward.console.request_context import Onward
from onward.model.documents import DocumentState, Status
from onward.ops.bad_input import NotFound
from onward.ops.queries.documents import (
    count_documents,
    find_titles,
    list_documents,
    source_named,
)
from onward.ops.text.format import one_line, source_name
from onward.pipeline.documents import source_id
from onward.recovery.next_step import describe_error

router = APIRouter()

SHOWN = 50
MAX_ID_LENGTH = 512
MAX_SOURCE_CHOICES = 100  # of more sources than this, one is typed and not chosen from a list


# -- filters that several lists share


def source_choices(app: App) -> list[tuple[str, str]] | None:
    """Return the key and the name of every source; None: there are too many to choose from."""
    sources = app.store.sources()
    if len(sources) > MAX_SOURCE_CHOICES:
        return None
    return [(source_id(source), source_name(source)) for source in sorted(sources)]


def chosen_source(app: App, given: str) -> tuple[str | None, str]:
    """Return the source that was typed or chosen, and what is wrong with it, if anything."""
    try:
        return (source_named(app, given) if given else None), ""
    except NotFound as error:
        return None, f"{str(error)[:1].upper()}{str(error)[1:]}."


def page_number(given: str, most: int = 100_000) -> int:
    """Return the number of a page; 1 for anything that is not a number."""
    number = int(given) if given.isascii() and given.isdecimal() and len(given) < 7 else 1
    return min(max(1, number), most)


# -- the list


@dataclass(frozen=True, slots=True)
class DocumentListFilter:
    """The filters of the list."""

    collection: str = ""
    status: str = ""
    source: str = ""
    q: str = ""

    def path(self, after: str = "") -> str:
        """Return the path of the same list after a document."""
        return with_query("/documents", **asdict(self), after=after)

    def matches(self, state: DocumentState, source: str | None) -> bool:
        return (
            self.collection in ("", state.collection)
            and state.status.startswith(self.status)
            and source in (None, state.source)
        )


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
    more = len(found) > SHOWN
    return page(
        request,
        "documents.html",
        wanted=wanted,
        problem=problem,
        rows=[(one, one_line(titles.get((one.collection, one.id), ""), 140), _error(one)) for one in shown],
        total=total,
        more_than=more,
        collections=sorted(counts),
        statuses=[str(one) for one in Status],
        sources=source_choices(app),
        chosen=source_id(chosen) if chosen else "",
        next_path=wanted.path(f"{shown[-1].collection}/{shown[-1].id}") if more and not wanted.q else "",
        first_path=wanted.path() if after else "",
        nothing=not counts,
    )


def _found(app: App, wanted: DocumentListFilter, source: str | None, after: str) -> list[DocumentState]:
    if wanted.q:
        given = wanted.q[: MAX_ID_LENGTH + 1]
        name, slash, rest = given.partition("/")
        found = app.store.states_of(app.store.ids_like(given, limit=SHOWN + 1))
        if not found and slash and name in app.store.document_counts():
            keys = app.store.ids_like(rest, limit=10 * SHOWN)
            found = app.store.states_of([key for key in keys if key[0] == name])
        return [one for one in found if wanted.matches(one, source)]
    behind, _, id = after.partition("/")
    return list_documents(
        app,
        collection=wanted.collection or None,
        status=wanted.status or None,
        source=source,
        after=(behind, id),
        limit=SHOWN + 1,
    )


def _error(state: DocumentState) -> str:
    return one_line(describe_error(state.last_error), 200) if state.status != Status.PROCESSED else ""
