"""What travels over the wire: announcements, which are ours, and everything else, which is a stranger's."""

from __future__ import annotations

import json
from collections.abc import Container
from typing import Any, Final

from aiormq.abc import DeliveredMessage
from pamqp.commands import Basic

from onward.ports.wire import Announcement, Copy, Stranger

ANNOUNCEMENT: Final = "application/vnd.onward.rows+json"
_PERSISTENT = 2
_LARGEST_ROW = 2**63 - 1
_LONGEST_SHORT_STRING = 255


def write_announcement(announcement: Announcement) -> tuple[bytes, Basic.Properties]:
    """The message that says which rows of a service are due."""
    body = {"service": announcement.service, "rows": announcement.rows}
    properties = Basic.Properties(content_type=ANNOUNCEMENT, delivery_mode=_PERSISTENT)
    return json.dumps(body, separators=(",", ":")).encode(), properties


def write_copy(copy: Copy) -> tuple[bytes, Basic.Properties]:
    """The message that shows a dead letter to people who look at the broker."""
    properties = Basic.Properties(
        content_type="application/json",
        delivery_mode=_PERSISTENT,
        # Longer ones do not fit into the protocol; it is for people to see, nothing is found by it.
        message_id=copy.message_id.encode()[:_LONGEST_SHORT_STRING].decode(errors="ignore"),
    )
    return copy.body, properties


def read(message: DeliveredMessage, tag: Any, services: Container[str]) -> Announcement | Stranger:
    """The announcement for one of these services that a message is, or else the stranger; nothing in it raises."""
    properties = message.header.properties
    if properties.content_type == ANNOUNCEMENT:
        announcement = _read_announcement(message.body, tag)
        if announcement is not None and announcement.service in services:
            return announcement
    return Stranger(message.body, properties.message_id or "", message.routing_key or "", tag)


def _read_announcement(body: bytes, tag: Any) -> Announcement | None:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return None
    match said:
        case {"service": str(service), "rows": list(rows)} if all(_is_row(row) for row in rows):
            return Announcement(service, tuple(rows), tag)
    return None


def _is_row(value: object) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST_ROW
