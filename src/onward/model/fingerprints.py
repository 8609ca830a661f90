"""The fingerprint of an error, by which failures are grouped, and the places that it came from."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import sysconfig
from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path
from types import TracebackType

from onward.retry.errors import NotReady
from onward.retry.library_errors import chain_of, error_code, http_status, status_in

MAX_MESSAGE = 2_000
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
_NO_LIBRARIES = frozenset({"builtins", "onward", "__main__", "__mp_main__"})
_TELLING_STANDARD = frozenset(
    {"sqlite3", "smtplib", "ssl", "socket", "urllib", "http", "imaplib", "ftplib", "zipfile"}
)
_INSTALLED = re.compile(r"[\\/](?:site|dist)-packages[\\/]")
_STANDARD = tuple({os.path.normcase(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib")})


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


def message_of(error: BaseException) -> str:
    """Return an error's message as every database keeps it; secrets are still in it."""
    try:
        text = str(error)
    except Exception as broken:  # an exception's own __str__ may raise; that must not hide the failure
        text = f"(its message cannot be shown: {type(broken).__name__})"
    return storable(text)


def storable(text: str) -> str:
    """Return text that every database stores: without lone surrogates and NULs."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")
