"""Sentences about dead letters, for the command line and the console."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from onward.ops.text.format import counted, made_visible, one_line
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward.model.ledger import DeadLetter

MAX_SHOWN_BYTES = 2_000
_NO_ERROR = "no error is known"


def reason_text(dead_letter: DeadLetter) -> str:
    """Return why an event was given up, and after how many tries."""
    return f"{dead_letter.abandoned_reason}, after {tries_text(dead_letter)} in round {dead_letter.round}"


def tries_text(dead_letter: DeadLetter) -> str:
    """Return the number of tries: 1 try, 3 tries."""
    return counted(dead_letter.attempt_count, "try")


def last_error_text(dead_letter: DeadLetter, most: int = 200) -> str:
    """Return the last error on one line."""
    return one_line(_error(dead_letter.error_type, dead_letter.last_error), most) or _NO_ERROR


def error_text(error: Mapping[str, Any]) -> str:
    """Return one of the errors of a dead letter."""
    return _error(error.get("error_type", ""), error.get("message", "")) or _NO_ERROR


def _error(error_type: str, message: str) -> str:
    return redact(f"{error_type}: {message}".strip(": "))


def raw_text(raw: bytes) -> str:
    """Return at most `MAX_SHOWN_BYTES` of bytes that are no event, safe for a terminal."""
    return redact(made_visible(raw[:MAX_SHOWN_BYTES]).decode())
