"""Logs: text on a terminal, one JSON object a line elsewhere, each with the call it was written in.

Everything is logged with `logging`, also by users of structlog; what is rendered has passed `redact`.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, Final, Literal, TextIO

import structlog
from structlog.stdlib import ExtraAdder, ProcessorFormatter
from structlog.typing import EventDict

from onward.retry.redact import HIDDEN, redact, redact_error
from onward.runtime.current import CURRENT
from onward.runtime.outcomes import log_fields
from onward.settings import Settings

LogFormat = Literal["auto", "text", "json"]

MOST_TEXT: Final = 100_000
"""Characters of one field; of a longer one the middle is left out."""
MOST_ITEMS: Final = 50
DEEPEST: Final = 4
_OWN_FIELDS: Final = ("worker", "service", "event", "documents", "document_count", "round", "try", "trace")
_RESERVED: Final = frozenset({"timestamp", "level", "logger", "message", "error_type", "traceback", *_OWN_FIELDS})
_COLOURS: Final = {"WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[1;31m"}
_ADD_EXTRA: Final = ExtraAdder()
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
_TRACEBACK: Final = re.compile(r"\n(?=(?:  \+ Exception Group )?Traceback \(most recent call last\):)")
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_OBEYED: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""What a terminal would act upon."""
_INSTALLED: Final = tuple(
    {
        folder + os.sep
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
        if (folder := sysconfig.get_path(name))
    }
)


def set_up_logs(
    level: int,
    *,
    format: LogFormat = "auto",
    stream: TextIO | None = None,
    addresses: bool = False,
    worker: str = "",
    own: Sequence[str] = (),
) -> None:
    """Send what this process logs to `stream`, or to stderr where nobody has set up logging yet.

    `addresses` hides mail addresses, too. `worker` is named in lines that no call wrote. Packages that are
    neither `own` nor the user's files are heard from WARNING on, unless their loggers have a level of their own.
    """
    root = logging.getLogger()
    for handler in [one for one in root.handlers if isinstance(one, LogHandler)]:
        root.removeHandler(handler)
    if stream is None and root.handlers:
        return
    handler = LogHandler(stream)
    handler.setFormatter(log_formatter(handler.stream, format=format, addresses=addresses, worker=worker))
    handler.addFilter(_Wanted(own))
    root.addHandler(handler)
    root.setLevel(level)
    if not structlog.is_configured():  # whoever has done so wants it so
        structlog.configure(
            processors=[
                structlog.stdlib.filter_by_level,
                structlog.contextvars.merge_contextvars,
                structlog.stdlib.PositionalArgumentsFormatter(),
                ProcessorFormatter.wrap_for_formatter,
            ],
            wrapper_class=structlog.stdlib.BoundLogger,
            logger_factory=structlog.stdlib.LoggerFactory(),
        )


def chosen_logs(settings: Settings, reference: str) -> dict[str, Any]:
    """Return what settings say of logs, as arguments of `set_up_logs`, for the app that a reference names."""
    return {"format": settings.log_format, "addresses": settings.redact_addresses, "own": [reference]}


def log_formatter(
    stream: TextIO | None = None, *, format: LogFormat = "auto", addresses: bool = False, worker: str = ""
) -> logging.Formatter:
    """Return what renders lines for a stream; None stands for a file."""
    terminal = _is_terminal(stream)
    as_json = format == "json" or (format == "auto" and not terminal)
    colours = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return _Formatter(
        processors=[_Line(_cleaner(addresses), worker), _as_json if as_json else _Text(colours=colours)],
        foreign_pre_chain=[_with_fields],
    )


class LogHandler(logging.StreamHandler[TextIO]):
    """A handler that never fails the work: a line that cannot be written is lost."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # logging's own name
        pass

    def flush(self) -> None:
        with suppress(OSError, ValueError):  # nobody reads, the disk is full, the stream is closed
            super().flush()


class _Wanted(logging.Filter):
    """Leaves out what installed packages say below WARNING."""

    def __init__(self, own: Sequence[str]) -> None:
        super().__init__()
        self._own = frozenset({"onward", *(re.split("[.:]", name)[0] for name in own)})

    def filter(self, record: logging.LogRecord) -> bool:
        return (
            record.levelno >= logging.WARNING
            or record.name.partition(".")[0] in self._own
            or not record.pathname.startswith(_INSTALLED)
            or _has_level(record.name)
        )


def _has_level(name: str) -> bool:
    """Somebody has asked for this logger, or one above it."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None and logger.parent is not None:
        if logger.level != logging.NOTSET:
            return True
        logger = logger.parent
    return False


class _Formatter(ProcessorFormatter):
    """A formatter that always finds something to say."""

    def format(self, record: logging.LogRecord) -> str:
        try:
            return super().format(record)
        except Exception as error:  # arguments that do not fit the message, fields that cannot be asked
            kept = {name: getattr(record, name) for name in ("name", "levelno", "levelname", "created", "msecs")}
            said = f"{_text(record.msg)} (the rest cannot be shown: {type(error).__name__})"
            return super().format(logging.makeLogRecord(kept | {"msg": said, "args": ()}))


# -- what a line holds


def _with_fields(logger: Any, method: str, said: EventDict) -> EventDict:
    """Add a record's `extra`, without what other handlers have rendered and left on it."""
    message = said["event"]
    said = _ADD_EXTRA(logger, method, said)
    said.pop("message", None)
    said.pop("asctime", None)
    if said["event"] is not message:  # what structlog calls its message is somebody's field
        said["event_"], said["event"] = said["event"], message
    return said


class _Line:
    """Gathers the fields of a line, in their order, and takes secrets out of them."""

    def __init__(self, clean: Callable[[str], str], worker: str) -> None:
        self._clean = clean
        self._worker = worker

    def __call__(self, logger: Any, method: str, said: EventDict) -> EventDict:
        record: logging.LogRecord = said.pop("_record")
        del said["_from_structlog"]
        error = _error_of(said.pop("exc_info", None))
        stack = said.pop("stack_info", None)
        about = said.pop("onward", None)
        about = dict(about) if isinstance(about, dict) else _running()
        message, trace = _parted(_text(said.pop("event", "")), about.get("traceback"))
        traces = [trace, "".join(traceback.format_exception(error)) if error else "", _text(stack or "")]
        trace = "\n".join(one for one in traces if one)
        about.setdefault("worker", self._worker)
        line: dict[str, Any] = {
            "_record": record,
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._clean(message),
        }
        line |= {name: self._plain(about[name]) for name in _OWN_FIELDS if about.get(name) not in (None, "", [])}
        if "trace" in line:
            line["trace"] = _trace_id(line["trace"])
        if kind := type(error).__name__ if error else about.get("error_type"):
            line["error_type"] = kind
        for name, value in list(said.items())[:MOST_ITEMS]:
            key = self._clean(_text(name))
            # Nothing is lost where somebody uses a name of ours.
            line[f"{key}_" if key in _RESERVED or key == "_record" else key] = self._field(key, value)
        if trace:
            line["traceback"] = self._clean(trace)
        return line

    def _field(self, key: str, value: Any, depth: int = 0) -> Any:
        return HIDDEN if _is_secret(key) and value is not None else self._plain(value, depth)

    def _plain(self, value: Any, depth: int = 0) -> Any:
        """Something that JSON can say."""
        if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
            return value
        if isinstance(value, Mapping) and depth < DEEPEST:
            shown = [(self._clean(_text(key)), one) for key, one in list(value.items())[:MOST_ITEMS]]
            return {key: self._field(key, one, depth + 1) for key, one in shown}
        if isinstance(value, list | tuple | set | frozenset) and depth < DEEPEST:
            return [self._plain(one, depth + 1) for one in list(value)[:MOST_ITEMS]]
        if isinstance(value, BaseException):
            return self._clean(f"{type(value).__name__}: {_text(value)}")
        return self._clean(_text(value))


def _parted(message: str, trace: str | None) -> tuple[str, str]:
    """A message, and the traceback that stands below it for those who render lines otherwise."""
    if trace is not None:
        return message.removesuffix(trace).rstrip("\n"), trace
    said, *rest = _TRACEBACK.split(message, maxsplit=1)
    return said, "".join(rest)


def _running() -> dict[str, Any]:
    """What is known of the call in whose thread or task this is."""
    call = CURRENT.get()
    return {} if call is None else log_fields(call)


def _error_of(exc_info: Any) -> BaseException | None:
    if isinstance(exc_info, BaseException):
        return exc_info
    found = exc_info if isinstance(exc_info, tuple) else sys.exc_info() if exc_info else (None, None, None)
    return found[1] if len(found) == 3 and isinstance(found[1], BaseException) else None


def _trace_id(trace: Any) -> Any:
    found = _TRACEPARENT.match(trace) if isinstance(trace, str) else None
    return found[1] if found else trace


def _text(value: object) -> str:
    try:
        text = str(value)
    except Exception as error:
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"
    if len(text) > MOST_TEXT:
        text = f"{text[: MOST_TEXT // 2]} … {text[-MOST_TEXT // 2 :]}"
    return text.encode("utf-8", "backslashreplace").decode()


def _cleaner(addresses: bool) -> Callable[[str], str]:
    """Return what takes secrets out of a text."""
    return partial(redact, addresses=True) if addresses else redact_error


@lru_cache(maxsize=1024)
def _is_secret(name: str) -> bool:
    """The value of such a name is hidden, whatever it is."""
    return redact(f"{name}=x") != f"{name}=x"


# -- how it looks


def _as_json(logger: Any, method: str, line: EventDict) -> str:
    del line["_record"]
    # In ASCII: a stream of any encoding takes it as it is.
    return json.dumps(line, allow_nan=False)


class _Text:
    """A line for people: when, how bad, what; and which call, where the message does not say so itself."""

    def __init__(self, *, colours: bool) -> None:
        self._colours = colours
        self._clock = logging.Formatter()

    def __call__(self, logger: Any, method: str, line: EventDict) -> str:
        record: logging.LogRecord = line["_record"]
        level = self._in(_COLOURS.get(record.levelname, ""), f"{record.levelname:<7}")
        parts = [self._in(_DIM, self._clock.formatTime(record)), level, _harmless(str(line["message"]))]
        given = {name: value for name, value in line.items() if name not in _RESERVED and name != "_record"}
        parts += [_harmless(f"{name}={value}") for name, value in given.items()]
        if record.name.partition(".")[0] != "onward" and "service" in line:
            parts.append(self._in(_DIM, f"({_harmless(_call(line))})"))
        text = " ".join(parts)
        if "traceback" in line:
            text = f"{text}\n{_harmless(line['traceback']).rstrip()}"
        # Indented, so that nothing that was said passes for a line of its own.
        return text.replace("\n", "\n  ")

    def _in(self, colour: str, text: str) -> str:
        return f"{colour}{text}{_PLAIN}" if self._colours and colour else text


def _call(line: Mapping[str, Any]) -> str:
    about = line.get("documents") or [line.get("event", "")]
    tries = f", try {line['try']}" if line.get("try", 1) != 1 else ""
    return f"{line['service']}: {', '.join(map(str, about[:3]))}{tries}"


def _harmless(text: str) -> str:
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text.replace("\r\n", "\n"))


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except (ValueError, AttributeError):  # closed; or it never knew what a terminal is
        return False
