"""What the names of errors and of their libraries say about a cause."""

from __future__ import annotations

import re

PROGRAMMING_ERRORS = frozenset(
    {
        *("AssertionError", "AttributeError", "ImportError", "IndexError", "KeyError", "ModuleNotFoundError"),
        *("NameError", "NotImplementedError", "RecursionError", "TypeError", "UnboundLocalError"),
        "ZeroDivisionError",
    }
)
# Errors of the program's own text: no document and no dependency can cause them.
LOCAL_ERRORS = frozenset(
    {
        *("ImportError", "IndentationError", "ModuleNotFoundError", "NameError", "NotImplementedError"),
        *("SyntaxError", "TemplateSyntaxError", "UnboundLocalError"),
    }
)
# Errors that a program makes with what it was given: a dependency may have answered something else.
USE_ERRORS = PROGRAMMING_ERRORS | {"ArithmeticError", "LookupError", "OverflowError", "ValidationError"}
# Errors of files and other programs, which may be a part of something outside.
SYSTEM_ERRORS = frozenset(
    {
        *("CalledProcessError", "TimeoutExpired"),
        *("FileExistsError", "FileNotFoundError", "IsADirectoryError", "NotADirectoryError", "OSError"),
        "PermissionError",
    }
)
# Libraries that only compute, read and write: they ask no server.
LOCAL_LIBRARIES = frozenset(
    {
        *("PIL", "bs4", "docx", "jinja2", "jsonschema", "lxml", "mako", "markdown", "marshmallow", "msgspec"),
        *("numpy", "openpyxl", "orjson", "pandas", "polars", "pyarrow", "pydantic", "pydantic_core", "pypdf"),
        *("shapely", "tokenizers", "yaml"),
    }
)
TEMPLATE_LIBRARIES = frozenset({"jinja2", "mako"})
_NOT_KNOWN = re.compile(r"\b(?:404|405|501)\b|NOT_FOUND|UNIMPLEMENTED|NoSuch")  # an address, a method or a place
_WRONG_SETTING = re.compile(
    r"name or service not known|getaddrinfo|nodename nor servname|failed to resolve|name resolution|not resolved"
    r"|NoCredentials|PartialCredentials|UnusableLogin|KeyError",
    re.IGNORECASE,
)
OWN_TIME_LIMIT = "HandlerTimeout"


def names_a_setting(error_type: str, message: str) -> bool:
    """Return whether an error is about a name that nobody knows, or about no key at all."""
    return _WRONG_SETTING.search(f"{error_type} {message}") is not None


def names_something_unknown(message: str) -> bool:
    """Return whether a server says that it does not know an address, a method or a place."""
    return _NOT_KNOWN.search(message) is not None
