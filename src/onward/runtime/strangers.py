"""Events of programs that know nothing of Onward: entered into the ledger, or kept with their bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable

from onward.model.events import Envelope, Event, decode, is_text, new_id, read_event
from onward.model.failures import Failure
from onward.model.ledger import Published
from onward.ports import Store
from onward.retry import Malformed
from onward.runtime.tracing import accepted

MAX_VERSION = 2**31
MAX_ID = 200


def take_in(store: Store, events: Iterable[type[Event]], raw: bytes, *, message_id: str = "") -> Published | None:
    """Put a stranger's event on the ledger, once by its `event_id`, or by what its message is called.

    What cannot be read becomes a dead letter with its bytes; the answer is None then.
    """
    event_type = ""
    kinds = {one.event_type: one for one in events}
    try:
        envelope = decode(raw)
        event_type = str(envelope["event_type"])
        data = json.dumps(envelope.get("data", {}))
        kind = kinds.get(event_type)
        if kind is None:
            known = ", ".join(sorted(kinds)) or "none"
            raise Malformed(f"the event type {event_type!r} is unknown; known are: {known}")
        version = envelope.get("version", kind.version)
        if not isinstance(version, int) or not 0 < version < MAX_VERSION:
            raise Malformed(f"the field 'version' is {version!r:.50}, not a whole number from 1 on")
        if version <= kind.version:
            data = read_event(kind, data).model_dump_json()
    except Malformed as error:
        store.publish_malformed(raw, Failure.of(error, at=store.now(), service=""), event_type=event_type)
        return None
    given = next((one for one in (envelope.get("event_id"), message_id) if _is_id(one)), None)
    trace = accepted(envelope.get("trace"))
    taken = Envelope(event_type, data, given or new_id(), store.now(), version, trace, foreign=given is not None)
    return store.publish([taken])[0]


def _is_id(given: object) -> bool:
    return is_text(given) and 0 < len(given) <= MAX_ID
