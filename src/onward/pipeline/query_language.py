"""The query language: what a person types into a search, as words, phrases and filters.

    tide gauge               any of the words; messages with all of them come first
    "vent tube"              these words together, in this order
    -storm  -"vent tube"     messages without it
    harb*                    any word that begins so
    subject:drift  from:jörg  to:list  path:src/tide.py
    source:harbour-list  kind:pdf  lang:de  has:attachment  after:2026-03  before:7d

Everything else is words: `std::string`, `C++`, `.NET`, `--option`, `-1`, `http://example.org`, and `note:this`,
because `note` is no operator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import NamedTuple, get_args

from onward import OnwardError
from onward.pipeline.dates import ALLOWED as DATES
from onward.pipeline.dates import ClockChange, read_past
from onward.pipeline.documents import MAIL, OFFICE, Kind
from onward.search import Filter, Term

FIELDS = {"subject": "title", "from": "from", "to": "to", "path": "path"}  # the field that each operator searches
ALIASES = {"language": "lang"}
HAS = {"attachment": "attachment"}  # what a message can have, and the facet that says so
YES = "yes"  # the value of such a facet
# The values of `kind:`. No message has the kind of a whole source; mail is stored in two forms.
KINDS = {kind: (kind,) for kind in get_args(Kind) if kind != "source"} | {
    "mail": tuple(sorted(MAIL)),
    "office": OFFICE,
}

LONGEST_PHRASE = 1_000  # characters; the search for a closing quote goes no further
# A Japanese or Chinese keyboard also types full-width forms of ASCII characters.
_HALF_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20}
# An opening quote, and what ends its text. Quotes of the first kind are often mixed: „so", “so", ”so”.
_PAIRS = (('"“”„', '"“”'), ("«", "»"), ("»", "«"), ("「", "」"), ("『", "』"))
_QUOTES = "".join(opening for opening, _ in _PAIRS) + "」』"
_PHRASE = "|".join(rf"[{opening}]([^{closing}]{{0,{LONGEST_PHRASE}}})[{closing}]" for opening, closing in _PAIRS)
_OPERATORS = (*FIELDS, "source", "kind", "lang", "language", "has", "after", "before")
# Corner brackets stand between words without blanks; other quotes inside a word are part of it, as in 5"disk.
# A hyphen behind a phrase excludes nothing: "vent tube"-like.
_PART = re.compile(
    rf"""(?P<minus>-)?
         (?:(?P<operator>{"|".join(_OPERATORS)}):(?=\S))?
         (?:(?:{_PHRASE})-*|(?P<unpaired>[{_QUOTES}]++)?(?P<word>[^\s「」『』{_QUOTES}][^\s「」『』]*))""",
    re.VERBOSE | re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


class QueryError(OnwardError):
    """A query cannot be understood; the message says what can be typed instead."""

    exit_code = 2


class EmptyQuery(QueryError):
    """A query has nothing to look for."""

    def __init__(self, text: str) -> None:
        super().__init__(
            f"the query {text[:80]!r} has nothing to look for; give at least one word, or a filter such as "
            "from:jörg or after:2026. Words with a minus only leave out what others find"
        )


class BadValue(QueryError):
    """The value of an operator cannot be used."""

    def __init__(self, part: Part, reason: str = "") -> None:
        remedy = reason or f"give {_ALLOWED[part.operator]}"
        super().__init__(f"{part.operator}: cannot be {_value(part)[:80]!r}; {remedy}")


class Part(NamedTuple):
    """One part of a query as it was typed: a word or a phrase, or the value of an operator."""

    text: str
    operator: str = ""
    unwanted: bool = False
    phrase: bool = False
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """What a query asks for. Without a wanted term, its messages are listed by date.

    Several filters of one facet are alternatives (`kind:pdf kind:html`); dates and different facets must all hold.
    """

    parts: tuple[Part, ...]  # in the order in which they were typed
    wanted: tuple[Term, ...]  # any of them finds, all of them rank
    required: tuple[Term, ...]  # must all be there
    unwanted: tuple[Term, ...]  # must not be there
    filters: tuple[Filter, ...]
    unwanted_filters: tuple[Filter, ...]  # none of them must hold


def parse(
    text: str, *, now: float | None = None, may_be_empty: bool = False, zone: tzinfo | None = None
) -> ParsedQuery:
    """Read a query; raise QueryError if it has nothing to look for or an operator has a wrong value.

    It may have nothing to look for if other filters say what to list.
    """
    parts = tuple(_read_parts(text.translate(_HALF_WIDTH)))
    wanted, required, unwanted = dict[Term, None](), dict[Term, None](), dict[Term, None]()
    filters, unwanted_filters = dict[Filter, None](), dict[Filter, None]()
    for part in parts:
        if part.operator not in ("", *FIELDS):
            found = _filters_of(part, now, zone)
            # What is not before a date is after it.
            excluding = part.unwanted and part.operator not in ("before", "after")
            (unwanted_filters if excluding else filters).update(dict.fromkeys(found))
            continue
        term = Term(part.text, FIELDS.get(part.operator, ""), part.phrase, part.prefix)
        if part.unwanted:
            unwanted[term] = None
            continue
        if part.operator or part.phrase:
            required[term] = None
        # Who wrote a message and where it is stored says nothing about what to look for.
        if part.operator in ("", "subject"):
            wanted[term] = None
    if not (wanted or required or filters or unwanted_filters or may_be_empty):
        raise EmptyQuery(text)
    return ParsedQuery(
        parts, tuple(wanted), tuple(required), tuple(unwanted), tuple(filters), tuple(unwanted_filters)
    )


def _read_parts(text: str) -> Iterator[Part]:
    position = 0
    while found := _PART.search(text, position):
        position = found.end()
        if found["unpaired"]:  # it was never closed, or opens nothing: read on as if it were not there
            start, end = found.span("unpaired")
            text, position = text[found.start() : start] + text[end:], 0
            continue
        operator = (found["operator"] or "").lower()
        part = Part("", ALIASES.get(operator, operator), bool(found["minus"]))
        if found["word"] is None:
            value = next(group for group in found.groups()[2:] if group is not None)
            part = part._replace(text=" ".join(value.split()), phrase=True)
        else:
            part = _read_word(part, found["word"].rstrip(_QUOTES))
        if _has_word(part.text):
            yield part
        elif operator:
            raise BadValue(part)


def _read_word(part: Part, word: str) -> Part:
    """Return a part with this word, unless its minus or its star belongs to the word."""
    if part.unwanted and not part.operator and (word.startswith("-") or _NUMBER.fullmatch(word)):
        return part._replace(text="-" + word, unwanted=False)  # --option, -1
    if word.endswith("*") and word.count("*") == 1:
        return part._replace(text=word[:-1].rstrip(_QUOTES), prefix=True)
    return part._replace(text=word)


def _has_word(text: str) -> bool:
    return any(character.isalnum() for character in text)


def _filters_of(part: Part, now: float | None, zone: tzinfo | None) -> list[Filter]:
    value = _value(part).lower()
    match part.operator:
        case "source":
            return [("source", "contains", part.text)]
        case "lang":
            return [("language", "=", value)]
        case "kind" if value in KINDS:
            return [("kind", "=", kind) for kind in KINDS[value]]
        case "has" if value in HAS:
            return [(HAS[value], "=", YES)]
        case "before" | "after":
            try:
                date = read_past(value, now, zone)
            except ClockChange as error:
                raise BadValue(part, str(error)) from None
            except (ValueError, OverflowError, OSError):
                raise BadValue(part) from None
            return [("date", "<" if (part.operator == "before") != part.unwanted else ">=", date)]
    raise BadValue(part)


def _value(part: Part) -> str:
    return part.text + "*" * part.prefix


_ALLOWED = {
    "subject": "a word of the subject, for example subject:drift",
    "from": "a part of a name or an address, for example from:jörg",
    "to": "a part of a name or an address, for example to:list@example.org",
    "path": "a part of a path, for example path:src/tide.py",
    "source": "a part of a source's name, for example source:harbour-list.mbox",
    "kind": "one of " + ", ".join(sorted(KINDS)),
    "lang": "a language, for example lang:de, or lang:python for code",
    "has": "one of " + ", ".join(HAS),
    "before": DATES,
    "after": DATES,
}
"""What each operator takes, for the message about a wrong value."""


def unparse(query: ParsedQuery) -> str:
    """Return a text that is parsed into the same query."""
    return " ".join(map(_typed, query.parts))


def replace_words(query: ParsedQuery, replacements: Mapping[str, str]) -> str:
    """Return the query with other words in place of these, which are given in lower case.

    >>> replace_words(parse('"vent tbue" gauge after:2026'), {"tbue": "tube"})
    '"vent tube" gauge after:2026'
    """

    def replaced(part: Part) -> Part:
        if part.operator not in ("", *FIELDS):
            return part
        text = re.sub(r"\w+", lambda found: replacements.get(found[0].lower(), found[0]), part.text)
        return part._replace(text=text)

    return " ".join(_typed(replaced(part)) for part in query.parts)


def _typed(part: Part) -> str:
    text = part.text
    if part.phrase:
        # The pair in which it was typed is among these.
        opening, closing = next(pair for pair in _PAIRS if not set(pair[1]) & set(text))
        text = opening[0] + text + closing[0]
    return "-" * part.unwanted + (f"{part.operator}:" if part.operator else "") + text + "*" * part.prefix


def describe(query: ParsedQuery) -> str:
    """Return a sentence that says how a query was understood."""
    clauses = dict[tuple[object, ...], list[Part]]()
    for part in query.parts:
        # Words and facets are alternatives, and so is what must not be there; all else must be there.
        alone = not part.unwanted and (part.phrase or part.operator in (*FIELDS, "before", "after"))
        clauses.setdefault((part.operator, part.unwanted, part if alone else None), []).append(part)
    # The words come first, wherever they were typed.
    ordered = sorted(clauses.values(), key=lambda parts: bool(parts[0].operator or parts[0].unwanted))
    order = "" if query.wanted else ", the newest first"
    return f"Messages {', '.join(map(_clause, ordered))}{order}." if ordered else f"All messages{order}."


def _clause(parts: list[Part]) -> str:
    operator, unwanted = parts[0].operator, parts[0].unwanted
    if unwanted and operator in ("before", "after"):
        operator, unwanted = "before" if operator == "after" else "after", False
    values = list(dict.fromkeys(_typed(part._replace(operator="", unwanted=False)) for part in parts))
    text = _CLAUSES[operator].format(" or ".join(filter(None, (", ".join(values[:-1]), values[-1]))))
    return text if not unwanted else f"without{text[4:]}" if text.startswith("with ") else f"not {text}"


_CLAUSES = {
    "": "with {}",
    "subject": "with {} in the subject",
    "from": "from {}",
    "to": "to {}",
    "path": "with {} in the path",
    "source": "of the source {}",
    "kind": "of the kind {}",
    "lang": "in the language {}",
    "has": "with an {}",
    "before": "dated before {}",
    "after": "dated {} or later",
}
