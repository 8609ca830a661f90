"""The documents of the incidents, with ids and fields as real ones have."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from random import Random
from typing import Any

from onward import Document, Event, names

AUTHORS = ("m.okafor", "j.lindqvist", "s.haddad", "p.moreau", "t.nakamura", "a.novak", "r.castillo")
FILE_KINDS = ("pdf", "docx", "eml", "html", "xlsx", "txt")
WORDS = ("report", "offer", "minutes", "contract", "notice", "claim", "budget", "survey", "draft", "summary")


class Item(Document):
    """What all kinds of documents here have."""

    author: str = ""
    path: str = ""
    kind: str = ""
    size: int = 0
    text: str = ""
    tenant: str = ""
    number: int = 0


class Invoice(Item):
    """Its ids are numbers with a year."""


class Mail(Item):
    """Its ids are message ids."""


class Upload(Item):
    """Its ids are paths."""


class Page(Item):
    """Its ids are slugs."""


class Order(Item):
    """Its ids are UUIDs."""


class InvoicesFound(Event):
    ids: list[str] = names(Invoice)


class MailsFound(Event):
    ids: list[str] = names(Mail)


class UploadsFound(Event):
    ids: list[str] = names(Upload)


class PagesFound(Event):
    ids: list[str] = names(Page)


class OrdersFound(Event):
    ids: list[str] = names(Order)


class Notice(Event):
    """A fact about no document."""

    number: int
    what: str = ""


EVENTS: dict[type[Item], type[Event]] = {
    Invoice: InvoicesFound,
    Mail: MailsFound,
    Upload: UploadsFound,
    Page: PagesFound,
    Order: OrdersFound,
}


def new_document(kind: type[Item], number: int, dice: Random, fields: Mapping[str, Any]) -> Item:
    """Make a document; a field that is given as a function is called for its value."""
    author, suffix, word = dice.choice(AUTHORS), dice.choice(FILE_KINDS), dice.choice(WORDS)
    suffix = fields.get("kind", suffix)
    path = f"/srv/inbox/{author}/2026/{dice.randrange(1, 13):02}/{word}-{number:04}.{suffix}"
    ids = {
        Invoice: f"INV-2026-{100_000 + number * 7}",
        Mail: f"<{dice.getrandbits(48):x}.{number}@mx{dice.randrange(1, 4)}.example.org>",
        Upload: path.removeprefix("/srv/inbox/"),
        Page: f"{word}-{dice.choice(WORDS)}-{number}",
        Order: str(uuid.UUID(int=dice.getrandbits(128), version=4)),
    }
    values: dict[str, Any] = {
        "author": author,
        "path": path,
        "kind": suffix,
        "size": int(dice.lognormvariate(10, 1.2)),
        "tenant": dice.choice(("acme", "globex", "initech", "umbrella")),
        "number": number,
        "text": f"{word} of {author}",
    }
    values |= {name: value() if callable(value) else value for name, value in fields.items()}
    return kind(id=ids[kind], **values)
