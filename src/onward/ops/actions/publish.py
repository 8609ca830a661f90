"""Putting the events of files on the ledger, as if another program had sent them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from onward.app import App
from onward.model.events import Envelope, decoded_object
from onward.model.ledger import Published
from onward.ops.actions.action import (
    Action,
    ActionOutcome,
    ActionPlan,
    ActionProgress,
    Actor,
    Completion,
    Messages,
    Tone,
    say,
    worker_hint,
)
from onward.ops.bad_input import BadInput
from onward.ops.text.format import counted, one_line
from onward.retry.errors import Malformed
from onward.retry.redact import redact
from onward.runtime.publisher import ForeignMessage, keep_malformed, read_foreign_event

PAGE = 500  # events in one transaction
_SEPARATORS = re.compile(r"[ \t\r\n,]+")
_TEXTS = {
    "valid": "is valid",
    "duplicate": "is known already: nothing was published",
    "unrouted": "is kept until a service takes it",
    "left_out": "not published: another event of the file cannot be read",
}
_KEPT = {"kept": "; kept as a dead letter", "would_keep": "; would be kept as a dead letter"}


@dataclass(slots=True)
class _FileEvent:
    """An event of a file, what was read of it, and what became of it."""

    file: str
    number: int  # its place in the file, from 1 on
    message: ForeignMessage
    envelope: Envelope | None = None
    error: Malformed | None = None
    result: str = "valid"  # or `published`, `duplicate`, `unrouted`, `malformed`, `kept`, `would_keep`, `left_out`
    published: Published = field(default_factory=lambda: Published(""))

    def facts(self) -> dict[str, Any]:
        sent = decoded_object(self.message.raw) or {}
        return {
            "file": self.file,
            "number": self.number,
            "event_type": self.envelope.event_type if self.envelope else sent.get("event_type"),
            "event_id": self.envelope.event_id if self.envelope else sent.get("event_id"),
            "result": self.result,
            "rows": self.published.rows,
            "duplicates": self.published.duplicates,
            "error": redact(str(self.error)) if self.error else None,
        }

    def sentences(self) -> Messages:
        if self.envelope is None:
            kept = _KEPT.get(self.result, "")
            text = f"{self.file}, event {self.number}: {redact(str(self.error))}{kept}"
            return say(one_line(text, 500), tone=Tone.PROBLEM)
        text = _TEXTS.get(self.result) or f"published for {counted(self.published.rows, 'service')}"
        return say(one_line(f"{self.envelope.event_type} {self.envelope.event_id}: {text}", 500))


@dataclass(frozen=True, slots=True)
class PublishEvents(Action):
    """Publish the events of files. If one event of a file cannot be read, nothing of that file is published."""

    files: Sequence[tuple[str, bytes]]  # names and contents
    keep: bool = False  # what cannot be read becomes a dead letter, and the other events are published
    worker: str = ""  # the command that starts a worker of the app, if it is known

    def plan(self, app: App) -> ActionPlan:
        events = self._read(app, now=0.0)
        for event in events:
            if event.error is not None and self.keep:
                event.result = "would_keep"
        sentences = tuple(sentence for event in events for sentence in event.sentences())
        return ActionPlan("Publish events", len(events), sentences, _facts(events))

    def run(self, app: App, progress: ActionProgress, actor: Actor) -> ActionOutcome:
        store = app.store
        events = self._read(app, store.now())
        progress.total = len(events)

        def publish(page: list[_FileEvent]) -> int:
            for event in page:
                if event.error is not None and self.keep:
                    keep_malformed(store, event.message, event.error)
                    event.result = "kept"
            chosen = [event for event in page if event.result != "left_out"]
            results = iter(store.publish([event.envelope for event in chosen if event.envelope is not None]))
            for event in chosen:
                if event.envelope is not None:
                    event.published = found = next(results)
                    is_known = found.duplicates and not found.rows
                    event.result = "unrouted" if found.unrouted else "duplicate" if is_known else "published"
            return len(page)

        stopped = progress.in_steps(events, PAGE, lambda page: store.atomically(lambda: publish(page)))
        new = sum(event.result in ("published", "unrouted", "kept") for event in events)
        actor.log(app, "publish", {"files": [name for name, _ in self.files]}, new)
        sentences = tuple(sentence for event in events for sentence in event.sentences())
        if any(event.published.rows for event in events):
            sentences += worker_hint(app, command=self.worker)
        is_whole = all(event.error is None for event in events)
        completion = Completion.WHOLE if is_whole else Completion.PARTIAL
        return ActionOutcome(new, sentences, _facts(events), completion, stopped=stopped)

    def _read(self, app: App, now: float) -> list[_FileEvent]:
        kinds = {kind.event_type: kind for kind in app.registry.events()}
        events: list[_FileEvent] = []
        for name, content in self.files:
            of_file = [
                _FileEvent(name, number, ForeignMessage(raw, properties={"file": name}))
                for number, raw in enumerate(split_events(content), start=1)
            ]
            if not of_file:
                raise BadInput(f"{one_line(name)} holds no event; give JSON with event_type and data")
            for event in of_file:
                try:
                    event.envelope = read_foreign_event(kinds, event.message, now)
                except Malformed as error:
                    event.error, event.result = error, "malformed"
            if not self.keep and any(event.error for event in of_file):
                for event in of_file:
                    event.result = event.result if event.error else "left_out"
            events += of_file
        return events


def _facts(events: Sequence[_FileEvent]) -> dict[str, Any]:
    counts = Counter(event.result for event in events)
    return {"events": [event.facts() for event in events], "counts": dict(counts)}


def split_events(content: bytes) -> list[bytes]:
    """Return the bytes of each event in a file: one JSON value, an array of them, or one on each line."""
    if not content.strip():
        return []
    try:
        text = content.decode("utf-8-sig").strip()
        found = json.loads(text)
    except UnicodeDecodeError:
        return [content]
    except (ValueError, RecursionError):
        lines = [line.strip() for line in text.split("\n")]
        return [line.encode() for line in lines if line] if _is_json(lines[0]) else [content]
    return list(_elements(text)) if isinstance(found, list) else [text.encode()]


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _elements(array: str) -> Iterator[bytes]:
    """Yield the elements of a JSON array as they are written."""
    decoder, position = json.JSONDecoder(), 1
    while array[start := _skip_separators(array, position)] != "]":
        _, position = decoder.raw_decode(array, start)
        yield array[start:position].encode()


def _skip_separators(array: str, position: int) -> int:
    found = _SEPARATORS.match(array, position)
    return found.end() if found else position
