"""The stored form of an error, chosen field by field, without secrets."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sysconfig
import traceback
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

from onward.retry.errors import Classified, Kind, NotReady, classify
from onward.retry.redact import redact_error

MAX_MESSAGE = 2_000
MAX_TRACEBACK = 8_000
KEPT_OUTCOMES = 20  # Outcomes of a document that are kept: the first and the last ones; the total is counted

MAX_SHAPE = 500
_NAMED_IDS = 20

_MONTHS = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}"
_TIME = r"\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?"
_ZONE = r"(?: ?(?:z|gmt|utc|[+-]\d\d:?\d\d))?\b"
# What differs between failures that are the same. The first that fits counts; each is linear in the text.
_VOLATILE = re.compile(
    "|".join(
        (
            # A quote begins where no word ends, and ends where none begins: "can't" and "it's" have none.
            r"(?<!\w)[bru]{0,2}'(?:\\.|[^'\\\n]|(?<=\w)'(?=\w))*+'(?!\w)",
            r'(?<!\w)[bru]{0,2}"(?:\\.|[^"\\])*+"',
            r"`[^`\n]*+`|[“„«][^”“»]*+[”“»]|‘[^’\n]*+’",
            r"<[^<>\s@]*+@[^<>\s]*+>",  # a Message-ID
            r"\b[a-z][a-z0-9+.-]{1,20}://[^\s'\"<>]++",
            r"(?<![\w.+-])[\w.+-]{1,64}@\w[\w.-]*+",
            r"\*{3}@\*{3}[\w.-]*+",  # a mail address that was hidden: its group stays the same
            r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b",
            rf"\b\d{{4}}-\d\d-\d\d(?:[t ]{_TIME}{_ZONE})?",
            rf"(?:\b[a-z]{{3}}, )?\b\d{{1,2}}[ -]{_MONTHS}[ -]\d{{4}}(?: {_TIME}{_ZONE})?",
            r"\b[a-z]:[\\/][^\s'\"<>|:*?]*+|\\\\[\w.$-]++\\[^\s'\"<>|:*?]++",
            r"(?<![\w.])(?:~|\.{1,2})?(?:/[\w.@%+~=,-]++)++/?",
            # A relative path, but not "and/or".
            r"(?<![\w.-])(?:[\w.-]{1,80}/){2,}[\w.@-]*+|(?<![\w.-])[\w.-]{1,80}/(?=[\w-]*+[.\d]\w)[\w.@-]++",
            r"\b0x[0-9a-f]++|\b[0-9a-f]{8,}\b|\b(?=[a-f]*\d)[0-9a-f]{6,}\b",
            r"(?<![\w-])(?=[\w-]*\d)[\w-]{16,}+",
            r"\b(?=\w*?\d\w*?[a-z_]\w*?\d)\w++",
            r"[-+]?\d++(?:[.,:]\d++)*+(?:e[-+]?\d++)?",
        )
    ),
    re.IGNORECASE,
)
_CUT_QUOTE = re.compile(r"""(?<!\w)[bru]{0,2}['"][^'"]*+\Z""")
_SEVERAL = re.compile(r"~(?:[\s,;]*~)+")
# By name, as drivers and HTTP libraries have errors of their own for this.
_TIMEOUTS = ("timeout", "deadlineexceeded")
_INSTALLED = re.compile(r"[\\/](?:site|dist)-packages[\\/]")
_STANDARD = tuple({os.path.normcase(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib")})


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
    # `not_ready`, `transient`, `permanent`, `malformed`, `unavailable`, `rate_limited`, `timeout`, `crash`
    kind: str = ""
    place: str = ""  # The innermost frame of user code, as `module:function`
    context: str = ""  # The JSON object that was reported with an error of other code
    trace: str = ""  # Its place in a trace, as two `traceparent`s: the parent span of the try, then the try itself

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value not in ("", None)}

    @classmethod
    def of(
        cls,
        error: BaseException,
        *,
        at: float,
        service: str,
        worker: str = "",
        version: str = "",
        classified: Classified | None = None,
        trace: str = "",
        context: str = "",
    ) -> Failure:
        """Describe an error without its secrets and without the memory it holds on to."""
        # Cut first, as looking for secrets takes a while; but further on: a secret cut in two is not recognised.
        message = redact_error(message_of(error)[: 10 * MAX_MESSAGE])[:MAX_MESSAGE]
        lines = _clean("".join(traceback.format_exception(error, limit=-20))) if error.__traceback__ else ""
        return cls(
            at=at,
            error_type=type(error).__name__,
            message=message,
            fingerprint=fingerprint(service, error, message),
            worker=worker,
            version=version,
            traceback=redact_error(lines[-10 * MAX_TRACEBACK :])[-MAX_TRACEBACK:],
            dependency=getattr(error, "dependency", None),
            kind=kind_of(error, classify(error) if classified is None else classified),
            place=place_of(error),
            trace=trace,
            context=context,
        )


def kind_of(error: BaseException, classified: Classified) -> str:
    if classified.kind is not Kind.TRANSIENT:
        return str(classified.kind)
    if classified.rate_limited:
        return "rate_limited"
    names = [cls.__name__.lower() for cls in type(error).__mro__]
    if any(word in name for name in names for word in _TIMEOUTS):
        return "timeout"
    return "unavailable" if classified.unavailable else str(classified.kind)


def message_of(error: BaseException) -> str:
    """Return an error's message as every database keeps it; secrets are still in it."""
    try:
        text = str(error)
    except Exception as broken:  # an exception's own __str__ may raise; that must not hide the failure
        text = f"(its message cannot be shown: {type(broken).__name__})"
    return _clean(text)


def _clean(text: str) -> str:
    """Return text that every database stores: without lone surrogates and NULs."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")


def fingerprint(service: str, error: BaseException, message: str | None = None) -> str:
    """Name the group of failures of an error: its service, type, innermost frame of user code, and shape."""
    text = message_of(error) if message is None else message
    if isinstance(error, NotReady):
        for id in sorted(error.ids, key=len, reverse=True)[:_NAMED_IDS]:
            text = text.replace(id, "~") if id else text
    parts = (service, type(error).__qualname__, place_of(error), shape_of(text)[:MAX_SHAPE])
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()


def shape_of(message: str) -> str:
    """Return a message without what differs from failure to failure: numbers, ids, paths, quoted parts."""
    shape = _VOLATILE.sub("~", message)
    if len(message) >= MAX_MESSAGE:
        shape = _CUT_QUOTE.sub("~", shape)
    return " ".join(_SEVERAL.sub("~", shape).split())


def place_of(error: BaseException) -> str:
    """Return the innermost frame of user code, as `module:function`; empty if there is none."""
    place = ""
    tb = error.__traceback__
    while tb is not None:
        code = tb.tb_frame.f_code
        module = str(tb.tb_frame.f_globals.get("__name__", ""))
        if _is_user_code(module, code.co_filename):
            # A script has different module names in the processes of a worker.
            name = Path(code.co_filename).stem if module in ("__main__", "__mp_main__") else module
            place = f"{name}:{code.co_qualname}"
        tb = tb.tb_next
    return place


@lru_cache(maxsize=1024)
def _is_user_code(module: str, file: str) -> bool:
    """Return whether it is not of a package, the standard library or Onward; the pipeline's services are."""
    if module.startswith("onward.") or module == "onward":
        return module.startswith("onward.pipeline")
    if file.startswith("<frozen") or _INSTALLED.search(file):
        return False
    return not os.path.normcase(file).startswith(_STANDARD)


class Outcome(StrEnum):
    """The outcome of a try, as the history of a document stores it."""

    RETRIED = "retried"
    GIVEN_BACK = "given_back"  # a dependency made it fail: kept, but not charged
    GAVE_UP = "gave_up"
    SET_ASIDE = "set_aside"
    PROCESSED = "processed"
    GAVE_UP_FOR_GOOD = "gave_up_for_good"  # no try: the retry job found that no round is left


def remember(history: dict[str, Any] | None, outcome: dict[str, Any]) -> dict[str, Any]:
    """Add an outcome to a bounded history: the first, the last ones and the total."""
    if not history:
        return {"total": 1, "first": outcome, "last": []}
    last = [*history["last"], outcome][-(KEPT_OUTCOMES - 1) :]
    return {"total": history["total"] + 1, "first": history["first"], "last": last}


def read_history(text: str | None) -> dict[str, Any] | None:
    """Read a stored history; return None for what other programs wrote there."""
    try:
        found = json.loads(text) if text else None
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    shapes = {"total": int, "first": dict, "last": list}
    return found if all(isinstance(found.get(name), shape) for name, shape in shapes.items()) else None


def outcomes(history: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the kept outcomes of a history in order, including the first."""
    return [history["first"], *history["last"]] if history else []
