"""The order of versions of an app: whether a version has a fix that was made in another one."""

from __future__ import annotations

import re
from collections.abc import Mapping

# An optional name, numbers, an optional pre-release, an optional build: `2.4`, `v2.4.1-rc1`, `shop 2.4.1+linux`.
_VERSION = re.compile(
    r"(?:(?P<name>[a-z][\w.-]*?)[ /@-])?v?(?P<numbers>\d{1,9}(?:\.\d{1,9})*)"
    r"(?:[-.]?(?P<pre>[a-z]+|(?<=-)\d+)[-.]?(?P<pre_number>\d{0,9}))?(?:\+\S*)?",
    re.IGNORECASE,
)
_LATER_THAN_RELEASE = ("post", "r", "rev", "patch")
_MAX_CHARACTERS = 200

ParsedVersion = tuple[str, tuple[int, ...], tuple[int, str, int]]


def parse_version(text: str) -> ParsedVersion | None:
    """Return name, numbers and pre-release of a version, which compare in this order; None: it has no numbers."""
    found = _VERSION.fullmatch(text.strip()[:_MAX_CHARACTERS])
    if found is None:
        return None
    numbers = [int(one) for one in found["numbers"].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()  # 2.4 and 2.4.0 are the same
    pre = (found["pre"] or "").lower()
    rank = 0 if not pre else 1 if pre in _LATER_THAN_RELEASE else -1
    return (found["name"] or "").lower(), tuple(numbers), (rank, pre, int(found["pre_number"] or 0))


def has_fix(version: str, fixed_in: str, seen: Mapping[str, float], closed_at: float) -> bool | None:
    """Return whether a version is the one with the fix, or a later one; None: that is not known.

    `seen` has the time when the store first saw each version: a version that was seen later is later. Where these
    times do not decide, the numbers of the versions do.
    """
    if not version:
        return None
    if version == fixed_in:
        return True
    first, fixed = seen.get(version), seen.get(fixed_in)
    if first is not None and fixed is not None and first != fixed:
        return first > fixed
    one, other = parse_version(version), parse_version(fixed_in)
    if one is not None and other is not None and (one[0] == other[0] or not (one[0] and other[0])):
        return one[1:] >= other[1:]
    if fixed is None and first is not None and first <= closed_at:
        return False  # it ran when the version with the fix was still to come
    return None
