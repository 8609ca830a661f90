"""An entry of a document's history as text."""

from __future__ import annotations

from dataclasses import dataclass

from onward.ops.text.format import number, one_line, worker_process
from onward.recovery.history import FAILED_FOR_GOOD, HistoryEntry

MAX_ERROR_LENGTH = 600
_OUTCOMES = {
    "retried": "to be tried again",
    "given_back": "waits for its dependency, not charged",
    "gave_up": "round given up",
    "set_aside": "set aside",
    "processed": "processed",
    FAILED_FOR_GOOD: "failed for good",
}
_TONES = {"processed": "good", "retried": "warn", "set_aside": "warn"}


@dataclass(frozen=True, slots=True)
class EntryText:
    """An entry of a history, ready to be shown."""

    text: str
    tone: str = ""
    """`good`, `warn`, `bad` or nothing."""
    at: float | None = None
    detail: str = ""
    """The round and try, the worker and its version."""
    error: str = ""
    fingerprint: str = ""


def outcome_text(outcome: str) -> str:
    """Return what an outcome led to."""
    return _OUTCOMES.get(outcome, outcome)


def entry_text(entry: HistoryEntry) -> EntryText:
    """Return an entry of a history as text."""
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
