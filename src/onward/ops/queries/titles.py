"""Titles of documents: what a person calls a message, file, chunk or source, in place of its id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from onward.app import App
from onward.model.documents import DocumentKey
from onward.ops.lookup import read_bodies
from onward.ops.text.format import display_name, one_line
from onward.pipeline.documents import MAIL
from onward.retry.redact import redact

NO_SUBJECT = "(no subject)"
MAX_TITLE = 140
_FIELDS = ("subject", "title", "name", "path", "text", "source", "url")  # of other apps' documents, the best first
Body = dict[str, Any]


def find_titles(app: App, keys: Iterable[DocumentKey]) -> dict[DocumentKey, str]:
    """Return the title of each of these documents that exists and has one; one query for each collection."""
    found = ((key, title_of(key[0], body)) for key, body in read_bodies(app.store, dict.fromkeys(keys)))
    return {key: title for key, title in found if title}


def titled_ids(app: App, ids: Sequence[str]) -> list[str]:
    """Return documents that are given as COLLECTION/ID for people: by their titles, then their ids."""
    keys = {id: (name, rest) for id in ids for name, slash, rest in (id.partition("/"),) if slash}
    titles = find_titles(app, keys.values())
    return [titled(keys[id], titles) if id in keys else one_line(id) for id in ids]


def titled(key: DocumentKey, titles: dict[DocumentKey, str], id: str = "") -> str:
    """Return a document for a sentence: its title, then its id."""
    name = f"{key[0]}/{id or key[1]}"
    return one_line(f"{titles[key]} ({name})" if key in titles else name)


def title_of(collection: str, body: object) -> str:
    """Return the title of a document on one line, without secrets; empty if it has none."""
    if not isinstance(body, dict):
        return ""
    try:
        title = _TITLES[collection](body) if collection in _TITLES else ""
    except (AttributeError, KeyError, TypeError):
        title = ""  # a document of another app, with other fields
    return one_line(redact(title or _first_text(body)), MAX_TITLE)


def _first_text(body: Body) -> str:
    texts = (body.get(field) for field in _FIELDS)
    return next((text for text in texts if isinstance(text, str) and text.strip()), "")


def _message(body: Body) -> str:
    subject = body["subject"].strip()
    if body["kind"] in MAIL:
        return subject or NO_SUBJECT
    if body.get("attached_to"):
        return f"{subject} – {body['attached_to']['subject']}"
    place: str = body.get("path") or body.get("message_id") or ""
    return f"{place} – {subject}" if place and subject and subject not in place else place or subject


def _chunk(body: Body) -> str:
    return f"chunk {body['position'] + 1} of {body.get('subject', '').strip() or NO_SUBJECT}"


def _archive(body: Body) -> str:
    return body.get("path") or body.get("name") or display_name(body["source"])


_TITLES: dict[str, Callable[[Body], str]] = {
    "messages": _message,
    "chunks": _chunk,
    "threads": lambda body: body["subject"].strip() or NO_SUBJECT,
    "summaries": lambda body: f"summary of {body['subject'].strip() or NO_SUBJECT}",
    "archives": _archive,
    "tasks": lambda body: f"ingestion {body['submission']} of {display_name(body['source'])}",
    "reports": lambda body: f"report on {display_name(body['source'])}",
    "sources": lambda body: f"settings of {display_name(body['location'])}",
    "versions": lambda body: f"versions of entries of {display_name(body['source'])}",
}
