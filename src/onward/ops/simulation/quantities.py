"""Reads times, rates and shares as people write them: 3h, 200ms, 20/s, 2%."""

from __future__ import annotations

import math
import re

from onward.ops.bad_input import BadInput

UNIT_SECONDS = {
    "ms": 0.001,
    "s": 1.0,
    "min": 60.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86_400.0,
    "day": 86_400.0,
    "month": 30 * 86_400.0,
    "y": 365 * 86_400.0,
}
THOUSANDS = {"k": 1e3, "m": 1e6, "g": 1e9}
_QUANTITY = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*([a-z]*)\s*", re.IGNORECASE)


def read_time_span(text: str, what: str, *, unit: str = "s", most: float = math.inf) -> float:
    """Return a time span in seconds; a number alone is in `unit`."""
    found = _QUANTITY.fullmatch(text)
    seconds = float(found[1]) * UNIT_SECONDS.get(found[2].lower() or unit, math.nan) if found else math.nan
    if not 0 < seconds <= most:
        limit = f" of at most {most / 86_400:g} days" if most < math.inf else ""
        allowed = f"a time{limit} with its unit, such as 200ms, 30s, 5min or 3h"
        raise BadInput(f"{what} is {text!r}, but must be {allowed}.")
    return seconds


def read_rate(text: str, what: str) -> float:
    """Return a number a second; a number alone is that."""
    number, _, per = text.partition("/")
    rate = read_number(number) / UNIT_SECONDS.get(per.strip().lower() or "s", math.nan)
    if not 0 < rate <= 1e6:
        raise BadInput(f"{what} is {text!r}, but must be a rate above 0, such as 20/s, 300/min or 50/h.")
    return rate


def read_number(text: str) -> float:
    """Return a number such as 250, 20k or 1.5M; not a number if it is none."""
    text = text.strip()
    times = THOUSANDS.get(text[-1:].lower(), 1.0)
    try:
        return float(text[:-1] if times > 1 else text) * times
    except ValueError:
        return math.nan


def read_size(text: str, what: str) -> float:
    """Return bytes: 7000, 7kB and 7 k are the same."""
    size = read_number(text.strip().removesuffix("B").removesuffix("b"))
    if not 1 <= size < math.inf:
        raise BadInput(f"{what} is {text!r}, but must be a size, such as 7kB or 1.5MB.")
    return size


def read_share(text: str, what: str) -> float:
    """Return a share: 2% and 0.02 are the same."""
    number, percent = text.strip().removesuffix("%"), text.strip().endswith("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = math.nan
    if not 0 <= share < 1:
        raise BadInput(f"{what} is {text!r}, but must be a share below 100%, such as 2% or 0.02.")
    return share


def read_count(text: str, what: str, most: int) -> int:
    if not (text.strip().isdecimal() and 1 <= int(text) <= most):
        raise BadInput(f"{what} is {text!r}, but must be a whole number from 1 to {most}.")
    return int(text)
