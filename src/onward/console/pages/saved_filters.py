"""Filters of lists that were saved under a name, for everybody: saving, renaming and removing them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from fastapi import APIRouter
from starlette.responses import RedirectResponse, Response

from onward.app import App
from onward.console.action_forms import clean
from onward.console.request_context import Onward, OwnForm
from onward.ops.bad_input import BadInput
from onward.ops.text.format import one_line, printable
from onward.pipeline.documents import SavedSearch
from onward.pipeline.saved_searches import BadSearchName, read_searches, remove_search, save_filter

router = APIRouter(include_in_schema=False)

LISTS = ("documents", "failures", "queues")
MAX_SAVED = 100  # filters of a list that are shown
MAX_ADDRESS = 2_000


class SavedFilters(NamedTuple):
    """The saved filters of a list, and the address of what is shown now."""

    page: str
    here: str
    found: list[SavedSearch]


def saved_filters(app: App, page: str, here: str) -> SavedFilters:
    return SavedFilters(page, here, read_searches(app, page)[:MAX_SAVED])


@router.post("/filters/save")
def save(app: Onward, form: OwnForm) -> Response:
    """Save the filters of a list, and show it."""
    page, here = _list(form)
    with _refused_names():
        return RedirectResponse(save_filter(app, page, _text(form, "name"), here).text, 303)


@router.post("/filters/rename")
def rename(app: Onward, form: OwnForm) -> Response:
    page, here = _list(form)
    with _refused_names():
        save_filter(app, page, _text(form, "name"), "", instead_of=_text(form, "former"))
    return RedirectResponse(here, 303)


@router.post("/filters/remove")
def remove(app: Onward, form: OwnForm) -> Response:
    page, here = _list(form)
    with _refused_names():
        remove_search(app, _text(form, "former"), page)
    return RedirectResponse(here, 303)


@contextmanager
def _refused_names() -> Iterator[None]:
    """Refuse a name as bad input, not as a query that cannot be read."""
    try:
        yield
    except BadSearchName as error:
        raise BadInput(str(error)) from None


def _text(form: OwnForm, name: str) -> str:
    return one_line(clean(printable(str(form.get(name, "")))))


def _list(form: OwnForm) -> tuple[str, str]:
    """Return which list the form is about, and its address with filters; refuse the address of anything else."""
    page, here = _text(form, "page"), _text(form, "here")
    path = here.partition("?")[0]
    if page not in LISTS or not (path == f"/{page}" or path.startswith(f"/{page}/")) or len(here) > MAX_ADDRESS:
        raise BadInput(
            f"{one_line(here, 80)!r} is no list whose filters can be saved; there are: {', '.join(LISTS)}"
        )
    return page, here
