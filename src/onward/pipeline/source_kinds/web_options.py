"""The options of kinds of sources that read web sites."""

from __future__ import annotations

from onward.pipeline.source_kinds.source_kind import SourceOption

MAX_RATE = 100.0


def whole_number(value: str) -> int:
    if not value.isdecimal() or not 1 <= int(value) <= 10_000_000:
        raise ValueError("give a whole number from 1 to 10000000")
    return int(value)


def rate(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0.001 <= number <= MAX_RATE:
        raise ValueError(f"give requests a second, from 0.001 to {MAX_RATE:g}")
    return number


def yes_or_no(value: str) -> bool:
    if value.lower() not in ("yes", "no", "true", "false"):
        raise ValueError("give yes or no")
    return value.lower() in ("yes", "true")


PAGES = SourceOption("pages", "10000", "the maximum number of pages", whole_number)
RATE = SourceOption("rate", "1", "requests a second to one host, at most; robots.txt may ask for less", rate)
SUBDOMAINS = SourceOption("subdomains", "no", "whether pages of subdomains belong to the site", yes_or_no)
INCLUDE = SourceOption(
    "include", "", "take only pages whose path has one of these patterns, as in '/docs/* *.pdf'"
)
EXCLUDE = SourceOption("exclude", "", "leave out pages whose path has one of these patterns, as in '*/print/*'")
