"""What is kept of an error, chosen field by field, with secrets removed."""

from __future__ import annotations

import hashlib
import re
import traceback
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

from onward.retry.redact import redact

MAX_MESSAGE = 2_000
MAX_TRACEBACK = 8_000
KEPT_OUTCOMES = 20
"""Of all outcomes of a document the first, the last 19 and the total are kept."""

_VOLATILE = re.compile(r"""'[^']*'|"[^"]*"|(?:/[\w.@-]+)+|\b[0-9a-fA-F]{8,}\b|\d+""")


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed try, as it is stored, logged and shown."""

    at: float
    error_type: str
    message: str
    fingerprint: str
    worker: str = ""
    version: str = ""
    traceback: str = ""
    dependency: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value not in ("", None)}

    @classmethod
    def of(cls, error: BaseException, *, at: float, service: str, worker: str = "", version: str = "") -> Failure:
        """Describe an error without its secrets and without the memory it holds on to."""
        message = redact(_text_of(error))[:MAX_MESSAGE]
        lines = "".join(traceback.format_exception(error, limit=-20)) if error.__traceback__ else ""
        return cls(
            at=at,
            error_type=type(error).__name__,
            message=message,
            fingerprint=fingerprint(service, error, message),
            worker=worker,
            version=version,
            traceback=redact(lines)[-MAX_TRACEBACK:],
            dependency=getattr(error, "dependency", None),
        )


def _text_of(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception as broken:  # an exception's own __str__ may raise; that must not hide the failure
        text = f"(its message cannot be shown: {type(broken).__name__})"
    return text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")


def fingerprint(service: str, error: BaseException, message: str | None = None) -> str:
    """Name the group of failures an error belongs to.

    Made from the service, the error's type, the innermost frame of user code and the message without
    its numbers, ids, paths and quoted parts.
    """
    shape = _VOLATILE.sub("~", _text_of(error) if message is None else message)
    parts = (service, type(error).__qualname__, _innermost_frame(error.__traceback__), shape[:500])
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()


def _innermost_frame(tb: TracebackType | None) -> str:
    frame = ""
    while tb is not None:
        code = tb.tb_frame.f_code
        if "site-packages" not in code.co_filename and not code.co_filename.startswith("<frozen"):
            frame = f"{tb.tb_frame.f_globals.get('__name__', '')}:{code.co_qualname}"
        tb = tb.tb_next
    return frame


def remember(history: dict[str, Any] | None, outcome: dict[str, Any]) -> dict[str, Any]:
    """Add an outcome to a bounded history: the first, the last 19 and how many there were."""
    if not history:
        return {"total": 1, "first": outcome, "last": []}
    last = [*history["last"], outcome][-(KEPT_OUTCOMES - 1) :]
    return {"total": history["total"] + 1, "first": history["first"], "last": last}


def outcomes(history: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The kept outcomes of a history in order, the first one included."""
    return [history["first"], *history["last"]] if history else []
