"""A document's page: what it is, what happens to it next and why, its life, and what can be done about it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import Response, StreamingResponse

from onward.app import App
from onward.console.asking import Id, Onward
from onward.console.changes_documents import Discard, Reset, Retry, Schedule, Unschedule
from onward.console.describing import describe
from onward.console.rendering import document_path, fragment, page
from onward.facts.life import original_of, outlook_of, story_of
from onward.facts.listing import find_titles, source_key
from onward.facts.wording import number, one_line, source_name
from onward.model.documents import DocumentState, Status
from onward.recovery.outlook import UNTYPEABLE, Outlook, process_of, rounds_of
from onward.recovery.phrasing import in_utc
from onward.recovery.story import Moment, Story

router = APIRouter()

SHOWN_CHILDREN = 20
MOST_CHILDREN = 1_000
"""Of more children than this only their number is told."""
_ERROR = 600
_TONES = {"processed": "good", "to be tried again": "warn", "set aside": "warn"}
_TIME = re.compile(r"\b(\d{4}-\d\d-\d\d \d\d:\d\d UTC)\b")
_SPAN = re.compile(r"\bin \d[\d ]* (?:s|min|h|days)\b")
_PASSING = re.compile(r"; its lease lasts .*$|(?<=is silent) for \d[\d ]* (?:s|min|h|days)")
"""What changes with every second, and tells a reader nothing."""
_TYPED = ("put it back", "after a fix", "begin anew", UNTYPEABLE)
"""What leads over to a command."""


@router.get("/documents/{collection}/{id:path}")
def show(request: Request, app: Onward, collection: str, id: Id) -> Response:
    """All that is known of a document."""
    part_of = _part(app, collection, id)
    return page(
        request,
        "document.html",
        described=describe(app, collection, id),
        collection=collection,
        id=id,
        part=part_of,
        live="/live/document" + document_path(collection, id).removeprefix("/documents"),
        raw="/raw" + document_path(collection, id).removeprefix("/documents"),
    )


@router.get("/raw/{collection}/{id:path}")
def raw(app: Onward, collection: str, id: Id) -> Response:
    """The bytes of a message or archive as they were fetched: only ever saved, never shown by a browser."""
    name = re.sub(r"[^A-Za-z0-9_-]", "", id)[:40] or "document"
    ending = "eml" if collection == "messages" else "bin"
    headers = {
        "content-disposition": f'attachment; filename="{name}.{ending}"',
        "content-security-policy": "default-src 'none'; sandbox",
    }
    pieces = original_of(app, collection, id)
    return StreamingResponse(pieces, media_type="application/octet-stream", headers=headers)


def part(web: FastAPI, which: str) -> str:
    """How it stands, for who watches it."""
    collection, _, id = which.partition("/")
    return _part(web.state.onward, collection, id)


def _part(app: App, collection: str, id: str) -> str:
    story = story_of(app, collection, id)
    state = story.state
    outlook = outlook_of(app, state, in_words=in_utc)
    return fragment(
        "document_part.html",
        state=state,
        rounds=rounds_of(state),
        source=(source_key(state.source), source_name(state.source)) if state.source else None,
        next=_next(outlook, app.store.now()),
        command=outlook.command,
        problems=outlook.about.get("problems", ()),
        moments=[_moment(one) for one in story.moments],
        story=story,
        parent=_parent(app, story),
        children=_children(app, story),
        actions=_actions(app, state),
    )


# -- what happens next


class Piece(NamedTuple):
    """Some words of a sentence, or a point in time, which the page shows in the reader's own zone."""

    text: str = ""
    at: float | None = None
    far: bool = False
    """Whether it is said how far away it is, which the page keeps fresh."""


def _next(outlook: Outlook, now: float) -> list[Piece]:
    text = _PASSING.sub("", one_line(outlook.text))
    for ending in _TYPED:  # the buttons do that
        text = text.removesuffix(f"; {ending}")
    text = text[:1].upper() + text[1:]
    if outlook.at is not None and outlook.kind in ("due", "outage") and (found := _SPAN.search(text)):
        return [*_told(text[: found.start()]), Piece(at=outlook.at, far=True), *_told(text[found.end() :])]
    pieces = []
    for one in _told(text):
        pieces.append(one)
        if one.at is not None and outlook.at is not None and now < outlook.at < one.at + 60:
            pieces += [Piece(", "), Piece(at=outlook.at, far=True)]
    return pieces


def _told(text: str) -> list[Piece]:
    """Words, and the points in time that stand among them."""
    return [Piece(one, _point(one)) for one in _TIME.split(text)]


def _point(text: str) -> float | None:
    try:
        return datetime.strptime(text, "%Y-%m-%d %H:%M UTC").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


# -- its life


class Told(NamedTuple):
    """One moment of a life, in words."""

    text: str
    tone: str = ""
    at: Any = None
    about: str = ""
    """Which round and try, which worker and version."""
    error: str = ""
    group: str = ""
    """The fingerprint of its failure."""


def _moment(one: Moment) -> Told:
    if one.what == "not_kept":
        return Told(f"… {number(one.count)} more are not kept")
    at = one.at if isinstance(one.at, int | float) else None
    if one.what == "created":
        return Told("Created", at=at)
    if one.what == "event":
        return Told(one_line(f"{one.event_type} settled by {one.service}"), at=at)
    error = one_line(f"{one.error_type}: {one.message}".strip(": "), _ERROR)
    head = one.decided or "failed"
    if error and not head.startswith("failed"):
        head = f"failed, {head}"
    turn = [f"{name} {count}" for name, count in (("round", one.round), ("try", one.attempt)) if count]
    about = " · ".join(filter(None, (", ".join(turn), process_of(one.worker), one.version)))
    tone = "bad" if error and one.decided not in _TONES else _TONES.get(one.decided, "")
    return Told(one_line(f"{head[:1].upper()}{head[1:]}"), tone, at, one_line(about), error, one.fingerprint)


# -- what it was made from, and what from it


class Relative(NamedTuple):
    """A document that this one was made from, or that was made from it."""

    path: str
    title: str
    status: str


class Kin(NamedTuple):
    """All documents of one collection that were made from this one."""

    collection: str
    counts: dict[str, int]
    shown: list[Relative]
    more: int


def _relatives(app: App, states: list[DocumentState]) -> list[Relative]:
    titles = find_titles(app, states)
    return [
        Relative(
            document_path(one.collection, one.id),
            one_line(titles.get((one.collection, one.id), ""), 80) or f"{one.collection}/{one_line(one.id, 40)}",
            str(one.status),
        )
        for one in states
    ]


def _parent(app: App, story: Story) -> Relative | None:
    if not story.parent:
        return None
    collection, _, id = story.parent.partition("/")
    return next(iter(_relatives(app, app.store.states_of([(collection, id)]))), None)


def _children(app: App, story: Story) -> list[Kin]:
    kin = []
    for name, counts in sorted(story.children.items()):
        total, shown = sum(counts.values()), []
        if total <= MOST_CHILDREN:
            found = app.store.children(name, story.state.collection, [story.state.id])
            keys = [(name, one.id) for one in found[:SHOWN_CHILDREN]]
            shown = _relatives(app, app.store.states_of(keys))
        kin.append(Kin(name, dict(counts), shown, total - len(shown)))
    return kin


# -- what can be done


class Action(NamedTuple):
    """A button that leads to a change."""

    path: str
    title: str
    look: str = ""


def _actions(app: App, state: DocumentState) -> list[Action]:
    """What fits how a document stands; the best first."""
    given = urlencode({"collection": state.collection, "id": state.id})
    finished_by = any(one.finishes == state.collection for one in app.store.subscriptions())
    found = []
    if finished_by and state.status != Status.PROCESSED:
        look = "main" if state.status in (Status.FAILED, Status.FAILED_MAX_RETRIES) else ""
        found.append(Action(f"/confirm/{Retry.name}?{given}", "Retry now", look))
        found.append(Action(f"/confirm/{Schedule.name}?{given}", "Schedule"))
    if state.retry_at is not None:
        found.append(Action(f"/confirm/{Unschedule.name}?{given}", "Cancel the schedule"))
    if finished_by:
        found.append(Action(f"/confirm/{Reset.name}?{given}", "Reset and retry"))
    if state.status not in (Status.PROCESSED, Status.DISCARDED):
        found.append(Action(f"/confirm/{Discard.name}?{given}", "Discard", "danger"))
    return found
