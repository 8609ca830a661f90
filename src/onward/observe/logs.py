"""Logs: text on a terminal, one JSON object a line elsewhere, each with the call that it was written in.

Everything is logged with `logging`. Where structlog is installed, its events are rendered the same way.
Secrets are removed from every line.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from typing import Any, Final, Literal, TextIO

from onward.retry.plain_data import MAX_ITEMS, plain_data, plain_field, plain_text
from onward.retry.redact import redact, redact_error
from onward.runtime.handler_call import CURRENT
from onward.runtime.outcomes import log_fields
from onward.settings import Settings

LogFormat = Literal["auto", "text", "json"]
Fields = dict[str, Any]  # Any: users log what they like

_CALL_FIELDS: Final = ("worker", "service", "event", "documents", "document_count", "round", "try", "trace")
# Of lines about starts and outcomes, whose messages contain them; users may log fields of the same names.
_OUTCOME_FIELDS: Final = (
    *("idempotency_key", "attempt", "attempts", "retry_in_seconds", "latency_seconds", "status"),
)
_RESERVED: Final = frozenset({"timestamp", "level", "logger", "message", "error_type", "traceback", *_CALL_FIELDS})
# The attributes of every record; the others are what a user gave as `extra`.
_RECORD_ATTRIBUTES: Final = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"})
_COLOURS: Final = {"WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[1;31m"}
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
_TRACEBACK: Final = re.compile(r"\n(?=(?:  \+ Exception Group )?Traceback \(most recent call last\):)")
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
# Characters that a terminal would act upon.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_FOLDERS = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_INSTALLED: Final = tuple({folder + os.sep for folder in _FOLDERS if folder})
_CLOCK: Final = logging.Formatter()


def set_up_logs(
    level: int,
    *,
    format: LogFormat = "auto",
    stream: TextIO | None = None,
    addresses: bool = False,
    worker: str = "",
    own: Sequence[str] = (),
) -> None:
    """Send the logs of this process to `stream`, or to stderr unless the program has set up logging itself.

    `addresses` hides mail addresses, too. `worker` is the default of the field of that name. Packages that are
    neither `own` nor the user's files are logged from WARNING on, unless their loggers have a level of their own.
    """
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, LogHandler)]:
        root.removeHandler(handler)
    if stream is None and root.handlers:
        return
    handler = LogHandler(stream)
    handler.setFormatter(log_formatter(handler.stream, format=format, addresses=addresses, worker=worker))
    handler.addFilter(partial(_is_wanted, {"onward", *(re.split("[.:]", name)[0] for name in own)}))
    root.addHandler(handler)
    root.setLevel(level)
    if find_spec("structlog") is not None:
        import structlog

        if not structlog.is_configured():
            structlog.configure(
                processors=[
                    structlog.stdlib.filter_by_level,
                    structlog.contextvars.merge_contextvars,
                    structlog.stdlib.PositionalArgumentsFormatter(),
                    structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
                ],
                wrapper_class=structlog.stdlib.BoundLogger,
                logger_factory=structlog.stdlib.LoggerFactory(),
            )


def log_options(settings: Settings, reference: str) -> dict[str, Any]:
    """Return the arguments of `set_up_logs` for the app that a reference names."""
    return {"format": settings.log_format, "addresses": settings.redact_addresses, "own": [reference]}


def log_formatter(
    stream: TextIO | None = None, *, format: LogFormat = "auto", addresses: bool = False, worker: str = ""
) -> logging.Formatter:
    """Return the formatter for a stream; None stands for a file."""
    terminal = False
    with suppress(ValueError, AttributeError):  # a closed stream, or an object without `isatty`
        terminal = stream is not None and stream.isatty()
    clean = partial(redact, addresses=True) if addresses else redact_error
    if format == "json" or (format == "auto" and not terminal):
        # In ASCII, which a stream of any encoding can write.
        return _Formatter(clean, worker, lambda _, line: json.dumps(line, allow_nan=False))
    colours = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return _Formatter(clean, worker, partial(_as_text, colours=colours))


class LogHandler(logging.StreamHandler[TextIO]):
    """A handler that never fails the work: a line that cannot be written is lost."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # logging's own name
        pass

    def flush(self) -> None:
        with suppress(OSError, ValueError):  # a closed pipe or stream, a full disk
            super().flush()


def _is_wanted(own: Collection[str], record: logging.LogRecord) -> bool:
    """Leave out what installed packages log below WARNING, unless a level was set for their logger or a parent."""
    top = record.name.partition(".")[0]
    if record.levelno >= logging.WARNING or top in own or not record.pathname.startswith(_INSTALLED):
        return True
    logger = logging.getLogger(record.name)
    while logger.parent is not None and logger.level == logging.NOTSET:
        logger = logger.parent
    return logger.parent is not None  # else it is the root


class _Formatter(logging.Formatter):
    """Collects the fields of a line, removes secrets from them, and renders the line."""

    def __init__(
        self, clean: Callable[[str], str], worker: str, render: Callable[[logging.LogRecord, Fields], str]
    ) -> None:
        super().__init__()
        self._clean = clean
        self._worker = worker
        self._render = render

    def format(self, record: logging.LogRecord) -> str:
        try:
            if isinstance(record.msg, dict) and hasattr(record, "_logger"):  # an event of structlog
                fields = dict(record.msg)
                message = fields.pop("event", "")
            else:
                fields = {name: value for name, value in vars(record).items() if name not in _RECORD_ATTRIBUTES}
                fields |= {"exc_info": record.exc_info, "stack_info": record.stack_info}
                message = record.getMessage()
            return self._render(record, self._line(record, message, fields))
        except Exception as error:  # arguments that do not fit the message, fields that raise
            message = f"{plain_text(record.msg)} (the rest cannot be shown: {type(error).__name__})"
            return self._render(record, self._line(record, message, {}))

    def _line(self, record: logging.LogRecord, message: str, fields: Fields) -> Fields:
        error = _exception(fields.pop("exc_info", None))
        stack = fields.pop("stack_info", None)
        call, current = fields.pop("onward", None), CURRENT.get()
        if not isinstance(call, dict):
            call = {} if current is None else log_fields(current, current.ids)
        # For other formatters, the traceback follows the message.
        message, trace = plain_text(message), call.get("traceback")
        if trace is not None:
            message = message.removesuffix(trace).rstrip("\n")
        else:
            message, *rest = _TRACEBACK.split(message, maxsplit=1)
            trace = "".join(rest)
        traces = [trace, "".join(traceback.format_exception(error)) if error else "", plain_text(stack or "")]
        trace = "\n".join(filter(None, traces))
        line: Fields = {
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._clean(message),
        }
        call = {"worker": self._worker} | call
        line |= {
            name: plain_data(call[name], self._clean)
            for name in (*_CALL_FIELDS, *_OUTCOME_FIELDS)
            if call.get(name) not in (None, "", [])
        }
        if found := _TRACEPARENT.match(str(line.get("trace", ""))):
            line["trace"] = found[1]
        if kind := type(error).__name__ if error else call.get("error_type"):
            line["error_type"] = kind
        for name, value in list(fields.items())[:MAX_ITEMS]:
            key = self._clean(plain_text(name))
            # A user's field with the name of one of ours is kept under another name.
            line[f"{key}_" if key in _RESERVED or key in line else key] = plain_field(key, value, self._clean)
        if trace:
            line["traceback"] = self._clean(trace)
        return line


def _exception(exc_info: Any) -> BaseException | None:
    """Return the exception that a user gave as `exc_info`, as logging and structlog allow it."""
    if isinstance(exc_info, tuple):
        exc_info = exc_info[1] if len(exc_info) == 3 else None
    elif exc_info and not isinstance(exc_info, BaseException):
        exc_info = sys.exc_info()[1]
    return exc_info if isinstance(exc_info, BaseException) else None


def _as_text(record: logging.LogRecord, line: Fields, *, colours: bool) -> str:
    """Return a line for people: time, level, message; and the call, for loggers that do not name it themselves."""

    def paint(colour: str, text: str) -> str:
        return f"{colour}{text}{_PLAIN}" if colours and colour else text

    level = paint(_COLOURS.get(record.levelname, ""), f"{record.levelname:<7}")
    parts = [paint(_DIM, _CLOCK.formatTime(record)), level, _escape(str(line["message"]))]
    ours = record.name.partition(".")[0] == "onward"
    said = (*_RESERVED, *_OUTCOME_FIELDS) if ours else _RESERVED
    parts += [_escape(f"{name}={value}") for name, value in line.items() if name not in said]
    if not ours and "service" in line:
        documents = line.get("documents") or [line.get("event", "")]
        tries = f", try {line['try']}" if line.get("try", 1) != 1 else ""
        call = f"{line['service']}: {', '.join(map(str, documents[:3]))}{tries}"
        parts.append(paint(_DIM, f"({_escape(call)})"))
    text = " ".join(parts)
    if "traceback" in line:
        text = f"{text}\n{_escape(line['traceback']).rstrip()}"
    # Indented, so that no part of a message looks like a line of its own.
    return text.replace("\n", "\n  ")


def _escape(text: str) -> str:
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text.replace("\r\n", "\n"))
