"""The stored form of an error, chosen field by field, without secrets."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any

from onward.retry.classify import classify
from onward.retry.errors import Classified, Kind, NotReady
from onward.retry.library_errors import (
    PLAIN,
    chain_of,
    classify_code,
    error_code,
    http_status,
    is_rejection,
    meaning_of,
    names_missing_schema,
    status_in,
)
from onward.retry.redact import redact_error

MAX_MESSAGE = 2_000
MAX_TRACEBACK = 8_000
KEPT_OUTCOMES = 20  # Outcomes of a document that are kept: the first and the last ones; the total is counted

MAX_SHAPE = 500
MAX_CALL_VALUES = 200  # Values of a call that are recognised in a message
MAX_VALUE_CHARACTERS = 300  # A longer value of a call is not looked for
MAX_GROUP_MEMBERS = 3  # Different errors of an exception group that count
MIN_CALL_VALUE = 3  # A shorter value is likely to be part of an ordinary word

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
_TIMED_OUT = re.compile(r"\btime[d -]?out\b|deadline exceeded|took too long", re.IGNORECASE)
_CONNECTING = re.compile(
    r"connect call failed|connect(?:ion)? timed? ?out|timed out while connecting|\[errno (?:110|60)\]",
    re.IGNORECASE,
)
_NO_LIBRARIES = frozenset({"builtins", "onward", "__main__", "__mp_main__"})
_TELLING_STANDARD = frozenset(
    {"sqlite3", "smtplib", "ssl", "socket", "urllib", "http", "imaplib", "ftplib", "zipfile"}
)
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
    # `not_ready`, `transient`, `permanent`, `rejected`, `malformed`, `unavailable`, `unreached`, `refused`,
    # `rate_limited`, `timeout`, `capacity`, `crash`
    kind: str = ""
    place: str = ""  # The innermost frame of user code, as `module:function`
    context: str = ""  # The JSON object that was reported with an error of other code
    trace: str = ""  # Its place in a trace, as two `traceparent`s: the parent span of the try, then the try itself
    library: str = ""  # The package that the error came from, if it is not the standard library's or the user's

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
        values: Collection[str] = (),
    ) -> Failure:
        """Describe an error without its secrets and without the memory it holds on to.

        `values` are those of the call, such as ids, names and paths: they do not make another failure group.
        """
        # Cut first, as looking for secrets takes a while; but further on: a secret cut in two is not recognised.
        message = redact_error(message_of(error)[: 10 * MAX_MESSAGE])[:MAX_MESSAGE]
        lines = _clean("".join(traceback.format_exception(error, limit=-20))) if error.__traceback__ else ""
        return cls(
            at=at,
            error_type=type(error).__name__,
            message=message,
            fingerprint=fingerprint(service, error, message, values),
            worker=worker,
            version=version,
            traceback=redact_error(lines[-10 * MAX_TRACEBACK :])[-MAX_TRACEBACK:],
            dependency=getattr(error, "dependency", None),
            kind=kind_of(error, classify(error) if classified is None else classified),
            place=place_of(error),
            trace=trace,
            context=context,
            library=library_of(error),
        )


def kind_of(error: BaseException, classified: Classified) -> str:
    """Return the kind of a failure, for its diagnosis; the words of a message count where its type says little."""
    if classified.kind in (Kind.NOT_READY, Kind.MALFORMED):
        return str(classified.kind)
    if any(is_rejection(one, http_status(one)) for one in chain_of(error)) and not classified.unavailable:
        return "rejected"
    if classified.kind is not Kind.TRANSIENT:
        return str(classified.kind)
    texts = [message_of(one) for one in chain_of(error)]
    meaning = classified
    told = classified.rate_limited or classified.refused or classified.capacity
    if any(names_missing_schema(text) for text in texts) and not told:
        return str(classified.kind)
    if not told and (classified.dependency or not _has_meaning(error)):
        meaning = next((found for text in texts if (found := meaning_of(text)) != PLAIN), classified)
    for name in ("rate_limited", "refused", "capacity"):
        if getattr(meaning, name):
            return name
    names = [cls.__name__.lower() for one in chain_of(error) for cls in type(one).__mro__]
    if any("connecttimeout" in name for name in names) or any(_CONNECTING.search(text) for text in texts):
        return "unreached"  # nobody answered: a server that is slow accepts connections
    if any(word in name for name in names for word in _TIMEOUTS) or (
        meaning.unavailable and not meaning.unreached and any(_TIMED_OUT.search(text) for text in texts)
    ):
        return "timeout"
    if (classified.unreached and classified.dependency is None) or (
        meaning.unreached and not classified.unavailable
    ):
        return "unreached"
    statuses = [status for text in texts if (status := status_in(text)) is not None]
    if meaning.unavailable or any(status >= 500 for status in statuses):
        return "unavailable"
    return str(classified.kind)


def _has_meaning(error: BaseException) -> bool:
    """Return whether a code of its library says what an error means."""
    return bool(code := error_code(error)) and classify_code(code, "") is not None


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


def fingerprint(
    service: str, error: BaseException, message: str | None = None, values: Collection[str] = ()
) -> str:
    """Name the group of failures of an error.

    What counts is the service and, of the error and of what it was raised from: the type, the innermost frame of
    user code, the code (an HTTP status, a missing key, …) and the shape of the message without values of the call.
    """
    if isinstance(error, NotReady):
        values = [*values, *error.ids]
    text = message_of(error) if message is None else message
    parts = [service, *_identity(error, text, values)]
    for cause in chain_of(error):
        if cause is not error:
            parts += _identity(cause, message_of(cause), values)
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()


def _identity(error: BaseException, message: str, values: Collection[str]) -> tuple[str, ...]:
    """Return what tells an error apart from others, without what it was raised from."""
    shape = shape_of(without_values(message, values))[:MAX_SHAPE]
    if isinstance(error, BaseExceptionGroup):
        members = sorted({"/".join(_identity(one, message_of(one), values)) for one in error.exceptions})
        return (type(error).__qualname__, *members[:MAX_GROUP_MEMBERS])
    return type(error).__qualname__, place_of(error), _code(error, message, values), shape


def _code(error: BaseException, message: str, values: Collection[str]) -> str:
    """Return what separates errors of one type and message: a status, a key, a name, the line of a bare assert."""
    dependency = getattr(error, "dependency", None)
    if isinstance(dependency, str):
        return dependency
    if isinstance(error, KeyError) and error.args:
        key = str(error.args[0])[:MAX_MESSAGE]
        return "~" if key in values else shape_of(without_values(key, values))
    if isinstance(error, AttributeError | NameError | ImportError) and isinstance(name := error.name, str):
        return name
    if isinstance(error, AssertionError) and not message:
        return str(_line_in_function(error))
    status = http_status(error) or status_in(message)
    return f"{error_code(error)} {status or ''}".strip()


def without_values(message: str, values: Collection[str]) -> str:
    """Return a message with the values of its call replaced, where they stand as words of their own."""
    known = sorted({value for value in values if len(value) >= MIN_CALL_VALUE and value in message}, key=len)
    if not known:
        return message
    # The longest first, so that a path is replaced before a name within it.
    pattern = "|".join(re.escape(value) for value in reversed(known[-MAX_CALL_VALUES:]))
    return re.sub(rf"(?<!\w)(?:{pattern})(?!\w)", "~", message)


def call_values(body: object, *, depth: int = 3) -> Iterator[str]:
    """Yield the texts of a document or an event by which a message may name it, and the ends of its paths."""
    if isinstance(body, str):
        text = body.strip()
        if len(text) <= MAX_VALUE_CHARACTERS:
            yield text
            if "/" in text:
                name = text.rstrip("/").rpartition("/")[2]
                yield from (name, name.rpartition(".")[0])
    elif isinstance(body, int | float) and not isinstance(body, bool):
        yield str(body)
    elif depth and isinstance(body, dict):
        for value in body.values():
            yield from call_values(value, depth=depth - 1)
    elif depth and isinstance(body, list):
        for value in body[:MAX_CALL_VALUES]:
            yield from call_values(value, depth=depth - 1)


def shape_of(message: str) -> str:
    """Return a message without what differs from failure to failure: numbers, ids, paths, quoted parts."""
    shape = _VOLATILE.sub("~", message)
    if len(message) >= MAX_MESSAGE:
        shape = _CUT_QUOTE.sub("~", shape)
    return " ".join(_SEVERAL.sub("~", shape).split())


def place_of(error: BaseException) -> str:
    """Return the innermost frame of user code, as `module:function`; empty if there is none."""
    frame = _user_frame(error)
    if frame is None:
        return ""
    code, module = frame.tb_frame.f_code, _module_of(frame)
    # A script has different module names in the processes of a worker.
    name = Path(code.co_filename).stem if module in ("__main__", "__mp_main__") else module
    return f"{name}:{code.co_qualname}"


def _user_frame(error: BaseException) -> TracebackType | None:
    found, tb = None, error.__traceback__
    while tb is not None:
        if _is_user_code(_module_of(tb), tb.tb_frame.f_code.co_filename):
            found = tb
        tb = tb.tb_next
    return found


def _module_of(tb: TracebackType) -> str:
    return str(tb.tb_frame.f_globals.get("__name__", ""))


def _line_in_function(error: BaseException) -> int:
    """Return the line counted from the beginning of its function: changes elsewhere in the file do not move it."""
    frame = _user_frame(error)
    return frame.tb_lineno - frame.tb_frame.f_code.co_firstlineno if frame is not None else 0


def library_of(error: BaseException) -> str:
    """Return the package that an error, or what it was raised from, belongs to; empty: the user's own code."""
    chain = list(chain_of(error))
    modules, frames, tb = [type(one).__module__ for one in chain], list[str](), chain[-1].__traceback__
    while tb is not None:
        frames.insert(0, _module_of(tb))  # the innermost first
        tb = tb.tb_next
    return next((package for module in (*modules, *frames) if (package := _library_package(module))), "")


@lru_cache(maxsize=1024)
def _library_package(module: str) -> str:
    package = module.partition(".")[0]
    if package.lstrip("_") in sys.stdlib_module_names or package in _NO_LIBRARIES:
        # Of the standard library, only what is about something outside of the program.
        return package if package in _TELLING_STANDARD else ""
    file = getattr(sys.modules.get(module), "__file__", None)
    return package if file is None or _INSTALLED.search(file) else ""


@lru_cache(maxsize=1024)
def _is_user_code(module: str, file: str) -> bool:
    """Return whether it is not of a package, the standard library or Onward; the pipeline's services are."""
    if module.startswith("onward.") or module == "onward":
        return module.startswith("onward.pipeline")
    if file.startswith("<frozen") or _INSTALLED.search(file):
        return False
    return not os.path.normcase(file).startswith(_STANDARD)


SUCCEEDED = "succeeded"  # In an outcome: how much its service had finished until then


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
