"""The answer to a question as facts for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.ops.lookup import show_command
from onward.ops.text.format import iso
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward.app import App
    from onward.pipeline.answers import Answer
    from onward.pipeline.documents import Message


def answer_facts(app: App, answer: Answer) -> dict[str, Any]:
    """Return the answer with its citations: `body[start:end]` of a message is the passage that answers."""
    return {
        "question": answer.question,
        "answered": bool(answer.passages),
        "answer": answer.text,
        "model": answer.model,
        "note": redact(answer.note),
        "unknown_words": list(answer.unknown),
        "passages": [
            {
                "number": number,
                **_message_facts(app, one.message),
                "start": one.start,
                "end": one.end,
                "text": " ".join(one.text.split()),
                "confidence": one.confidence,
            }
            for number, one in enumerate(answer.passages, start=1)
        ],
        "nearest": [] if answer.passages else [_message_facts(app, hit.message) for hit in answer.nearest],
    }


def _message_facts(app: App, message: Message) -> dict[str, Any]:
    return {
        "message_id": message.id,
        "thread_id": message.thread_id,
        "subject": message.subject,
        "author": message.author,
        "date": iso(message.date),
        "source": redact(message.source),
        "path": message.path,
        "command": show_command(app, message.collection, message.id),
    }
