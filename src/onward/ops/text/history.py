"""Entries of a document's history and dead letters as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from onward.model.ledger import DeadLetter
from onward.ops.text.format import counted, made_visible, number, one_line, worker_process
from onward.recovery.history import FAILED_FOR_GOOD, HistoryEntry
from onward.retry.redact import redact

MAX_ERROR_LENGTH = 600
MAX_SHOWN_BYTES = 2_000
_NO_ERROR = "no error is known"
_OUTCOMES = {
    "retried": "to be tried again",
    "given_back": "waits for its dependency, not charged",
    "gave_up": "round given up",
    "gave_up_for_good": "no round is left",
    "set_aside": "set aside",
    "processed": "processed",
    FAILED_FOR_GOOD: "failed for good",
}
_TONES = {"processed": "good", "retried": "warn", "set_aside": "warn"}


class EntryText(NamedTuple):
    text: str
    tone: str = ""  # `good`, `warn`, `bad` or nothing
    at: float | None = None
    detail: str = ""  # the round and try, the worker and its version
    error: str = ""
    fingerprint: str = ""


def outcome_text(outcome: str) -> str:
    """Return what an outcome led to."""
    return _OUTCOMES.get(outcome, outcome)


def entry_text(entry: HistoryEntry) -> EntryText:
    at = entry.at if isinstance(entry.at, int | float) else None
    if entry.what == "not_kept":
        return EntryText(f"… {number(entry.count)} more are not stored")
    if entry.what == "created":
        return EntryText("created", at=at)
    if entry.what == "event":
        return EntryText(one_line(f"{entry.event_type} settled by {entry.service}"), at=at)
    error = one_line(f"{entry.error_type}: {entry.message}".strip(": "), MAX_ERROR_LENGTH)
    text = outcome_text(entry.outcome) or "failed"
    if error and not text.startswith("failed"):
        text = f"failed, {text}"
    turn = [f"{name} {count}" for name, count in (("round", entry.round), ("try", entry.attempt)) if count]
    detail = " · ".join(filter(None, (", ".join(turn), worker_process(entry.worker), entry.version)))
    tone = _TONES.get(entry.outcome, "bad" if error else "")
    return EntryText(one_line(text), tone, at, one_line(detail), error, entry.fingerprint)


# -- dead letters


def reason_text(dead_letter: DeadLetter) -> str:
    """Return why an event was given up, and after how many tries."""
    return f"{dead_letter.abandoned_reason}, after {tries_text(dead_letter)} in round {dead_letter.round}"


def tries_text(dead_letter: DeadLetter) -> str:
    return counted(dead_letter.attempt_count, "try")


def last_error_text(dead_letter: DeadLetter, most: int = 200) -> str:
    text = error_text({"error_type": dead_letter.error_type, "message": dead_letter.last_error})
    return one_line(text, most) or _NO_ERROR


def error_text(error: Mapping[str, Any]) -> str:
    text = f"{error.get('error_type', '')}: {error.get('message', '')}"
    return redact(text.strip(": ")) or _NO_ERROR


def raw_text(raw: bytes) -> str:
    """Return at most `MAX_SHOWN_BYTES` of bytes that are no event, safe for a terminal."""
    return redact(made_visible(raw[:MAX_SHOWN_BYTES]).decode())
