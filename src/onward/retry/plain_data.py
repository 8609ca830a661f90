"""Turn what a user logs or reports into data that JSON can hold, without secrets and bounded."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from onward.retry.redact import HIDDEN, redact, redact_error

MAX_CHARACTERS: Final = 100_000  # of one text; the middle of a longer one is left out
MAX_ITEMS: Final = 50  # of a mapping or a sequence
MAX_DEPTH: Final = 4
MAX_CONTEXT: Final = 8_000  # characters of an error's context, as JSON
_MAX_BITS: Final = 64  # a larger number becomes text: other programs cannot read it


def plain_text(value: object) -> str:
    """Return a value as text that can be encoded; secrets are still in it."""
    try:
        text = str(value)
    except Exception as error:
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"
    if len(text) > MAX_CHARACTERS:
        text = f"{text[: MAX_CHARACTERS // 2]} … {text[-MAX_CHARACTERS // 2 :]}"
    return text.encode("utf-8", "backslashreplace").decode()


def plain_field(name: str, value: Any, clean: Callable[[str], str], depth: int = 0) -> Any:
    """Return the value of a field as `plain_data` does, or `***` if its name is that of a secret."""
    return HIDDEN if _is_secret(name) and value is not None else plain_data(value, clean, depth)


def plain_data(value: Any, clean: Callable[[str], str], depth: int = 0) -> Any:
    """Return a value that JSON can hold; `clean` removes the secrets of each text. It never raises."""
    if value is None or isinstance(value, bool) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, int) and value.bit_length() <= _MAX_BITS:
        return int(value)
    try:
        if depth < MAX_DEPTH:
            if callable(dump := getattr(value, "model_dump", None)) and not isinstance(value, type):
                value = dump()  # an event or a document
            if isinstance(value, Mapping):
                items = [(clean(plain_text(key)), item) for key, item in islice(value.items(), MAX_ITEMS)]
                return {key: plain_field(key, item, clean, depth + 1) for key, item in items}
            if isinstance(value, list | tuple | set | frozenset):
                return [plain_data(item, clean, depth + 1) for item in islice(value, MAX_ITEMS)]
    except Exception as error:
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"
    text = plain_text(value)
    return clean(f"{type(value).__name__}: {text}" if isinstance(value, BaseException) else text)


def context_json(context: Mapping[str, Any]) -> str:
    """Return the context of an error as a JSON object of at most `MAX_CONTEXT` characters, without secrets."""
    text = "{}"
    for most in (2_000, 200, 20):
        # Cut after redacting: a secret cut in two is not recognised. Not every database stores a NUL.
        found = plain_data(context, lambda text: redact_error(text).replace("\0", "\\x00")[:most])  # noqa: B023
        text = json.dumps(found if isinstance(found, dict) else {"context": found})
        if len(text) <= MAX_CONTEXT:
            return text
    return json.dumps({"shortened": text[: MAX_CONTEXT // 3]})


@lru_cache(maxsize=1024)
def _is_secret(name: str) -> bool:
    """Return whether values of this name are hidden."""
    return redact(f"{name}=x") != f"{name}=x"
