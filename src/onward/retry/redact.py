"""Take secrets out of text that will be stored, logged or shown."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "***"

# Each repetition below is possessive, bounded, or can begin only once within a run of its own characters.
# That keeps every pattern linear in the length of the text; keep it so.

_NAMES = (
    r"(?:pass(?:word|wd|phrase)|pwd|secret|credentials?|api[_-]?key|session[_-]?id"
    r"|(?:access|account|encryption|private|secret|signing|subscription)[_-]?key"
    r"|(?<!nexpected )token|(?<=[?&-])sig(?:nature)?|(?<=[?&])key)"
)
_HEADERS = r"(?:authorization|(?:set-)?cookie)"
# A quote may be escaped, where the text is JSON within JSON.
_QUOTE = r"\\{0,4}[\"']"
_IS = rf"(?:{_QUOTE})?[ \t]{{0,8}}+(?:=>|[:=])[ \t]{{0,8}}+(?:(?:Secret\w{{0,20}})?[\[(]{{1,2}}(?=[\"']))?"
_PREFIX = r"[bru]{0,2}"
_QUOTED = (
    rf"{_PREFIX}\"(?P<double>(?:[^\"\\\r\n]|\\.)*+)"
    rf"|{_PREFIX}'(?P<single>(?:[^'\\\r\n]|\\.)*+)"
    r"|\\{1,4}[\"'](?P<escaped>(?:[^\"'\\\r\n]|\\(?![\"'\\]))*+)"
)
_BARE = r"(?P<bare>[^\s,;&\"'<>]*[^\s,;&\"'<>)}\]\\])"
_LINE = r"(?P<bare>(?:[^\r\n\"']|(?<==)\"[^\"\r\n]*+\"?)++)"

_PRIVATE_KEY = (
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    # Up to its end; or, where the text was cut off, as far as it looks like one.
    r"(?:(?:[^-]|-(?!----))*+-----END [A-Z0-9 ]{0,60}-----"
    r"|(?:\s|\\[nr]|[A-Za-z0-9+/=]{16,}+|[A-Za-z0-9+/=]{1,15}+(?=[\s.…-]*\Z))*+)"
)
_URL_PASSWORD = (
    r"(://[^\s/?#:@\[\"'<>]*):"
    # The second form is a password whose / ? or # should have been escaped; digits and a / are a port.
    r"(?:[^\s/?#\"'<>]*@|(?!\d{1,5}[/?#])[^\s@\"'<>]{1,256}@(?:[^\s/?#\"'<>]*@)?)"
)
_AUTHORIZED = (
    r"\b(bearer|basic)([ \t]{1,8}+)"
    # A word of prose has neither digits nor such a length.
    r"(?:(?=[a-z._~+/-]*+[0-9=])[a-z0-9._~+/=-]{6,}+|[a-z0-9._~+/=-]{20,}+)"
)
_KNOWN_KEYS = (
    r"(?<![\w-])(sk-|[rs]k_(?:live|test)_|gh[oprsu]_|github_pat_|glpat-|xox[abeoprs]-|hf_|npm_|pypi-|AIza)"
    r"[\w-]{16,}+"
)
_AWS_KEY = r"(?<![A-Za-z0-9])(AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"
_JWT = r"(?<![\w-])eyJ[\w-]{8,}+\.[\w-]{8,}+(?:\.[\w-]*+)?"
_OPTION = rf"(?<![\w-])(--(?:\w{{1,20}}-){{0,3}}{_NAMES})([ \t]{{1,8}}+)[^\s\"'-][^\s\"']*+"

_SPANS = tuple(
    (re.compile(pattern, re.ASCII | flags), replacement)
    for pattern, flags, replacement in (
        (_PRIVATE_KEY, 0, HIDDEN),
        (_URL_PASSWORD, 0, rf"\1:{HIDDEN}@"),
        (_AUTHORIZED, re.IGNORECASE, rf"\1\2{HIDDEN}"),
        (_KNOWN_KEYS, 0, rf"\1{HIDDEN}"),
        (_AWS_KEY, 0, rf"\1{HIDDEN}"),
        (_JWT, 0, HIDDEN),
        (_OPTION, re.IGNORECASE, rf"\1\2{HIDDEN}"),
    )
)
_PAIRS = (
    re.compile(rf"{_HEADERS}(?:{_IS}|{_QUOTE},[ \t]?)(?:{_QUOTED}|{_LINE})", re.ASCII | re.IGNORECASE),
    re.compile(rf"{_NAMES}{_IS}(?:{_QUOTED}|{_BARE})", re.ASCII | re.IGNORECASE),
)


def redact(text: str) -> str:
    """Replace every secret that can be recognised by `***`, and leave the rest as it is.

    Passwords in URLs, authorization headers and cookies, keys of well-known forms, private keys, and the
    values of names like `password`, `token` or `api_key` as `name=value`, in JSON or on a command line.
    """
    for pattern, replacement in _SPANS:
        text = pattern.sub(replacement, text)
    for pattern in _PAIRS:
        text = pattern.sub(_hide_value, text)
    return text


def _hide_value(match: re.Match[str]) -> str:
    value = match[match.lastgroup or 0]
    return match[0][: len(match[0]) - len(value)] + HIDDEN if value else match[0]
