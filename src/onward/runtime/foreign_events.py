"""Events of other programs: entered into the ledger, or kept as dead letters with their bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from onward.ledger.store_errors import StoreFull, StoreUnavailable
from onward.model.events import Envelope, Event, data_text, decode, is_text, new_id, read_event, storable_data
from onward.model.failures import Failure
from onward.model.ledger import Published
from onward.retry import Malformed
from onward.runtime.tracing import valid_trace

if TYPE_CHECKING:
    from onward.ledger.store import Store

MAX_VERSION = 2**31
MAX_ID = 200


def enter_foreign_event(
    store: Store, events: Iterable[type[Event]], raw: bytes, *, message_id: str = ""
) -> Published | None:
    """Put an event of another program on the ledger, once by its `event_id`, or by the id of its message.

    An event that cannot be read or stored becomes a dead letter with its bytes; then this returns None.
    """
    event_type = ""
    kinds = {kind.event_type: kind for kind in events}
    try:
        envelope = decode(raw)
        event_type = str(envelope["event_type"])
        kind = kinds.get(event_type)
        if kind is None:
            known = ", ".join(sorted(kinds)) or "none"
            raise Malformed(f"the event type {event_type!r} is unknown; known are: {known}")
        return store.publish([_envelope(kind, envelope, message_id, store.now())])[0]
    except (StoreUnavailable, StoreFull):
        raise
    except Exception as error:
        store.publish_malformed(raw, Failure.of(error, at=store.now(), service=""), event_type=event_type)
        return None


def _envelope(kind: type[Event], envelope: dict[str, Any], message_id: str, now: float) -> Envelope:
    version = envelope.get("version", kind.version)
    if not isinstance(version, int) or not 0 < version < MAX_VERSION:
        raise Malformed(f"the field 'version' is {version!r:.50}, not a whole number from 1 on")
    data = data_text(envelope)
    if version <= kind.version:
        data = storable_data(read_event(kind, data))
    given = next((id for id in (envelope.get("event_id"), message_id) if _is_id(id)), None)
    trace = valid_trace(envelope.get("trace"))
    return Envelope(kind.event_type, data, given or new_id(), now, version, trace, foreign=given is not None)


def _is_id(given: object) -> bool:
    return is_text(given) and 0 < len(given) <= MAX_ID and "\x00" not in given
