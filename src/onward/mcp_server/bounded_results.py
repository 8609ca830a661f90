"""Bounds the size of a result, so that it fits into the context of a model."""

from __future__ import annotations

import json
from typing import Any

MAX_CHARACTERS = 60_000  # of a result as JSON
_MAX_STRING, _MAX_ITEMS = 24_000, 1_000
_SHORTENED = "… [shortened]"


def bounded(value: Any) -> Any:
    """Return JSON values with long texts and lists shortened, more and more, until the whole fits.

    What was left out of a list is counted in its place.
    """
    strings, items = _MAX_STRING, _MAX_ITEMS
    shortened = _shorten(value, strings, items)
    while len(json.dumps(shortened, ensure_ascii=False)) > MAX_CHARACTERS and items > 1:
        strings, items = max(200, strings // 2), max(1, items // 2)
        shortened = _shorten(value, strings, items)
    return shortened


def _shorten(value: Any, strings: int, items: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= strings else value[:strings] + _SHORTENED
    if isinstance(value, dict):
        kept = {name: _shorten(one, strings, items) for name, one in list(value.items())[:items]}
        return kept | ({"left_out": len(value) - items} if len(value) > items else {})
    if isinstance(value, list | tuple):
        kept_items = [_shorten(one, strings, items) for one in value[:items]]
        return kept_items + ([f"… {len(value) - items} left out"] if len(value) > items else [])
    return value
