"""Remove secrets from text that will be stored, logged or shown."""

from __future__ import annotations

import re
from typing import Any, Final

HIDDEN: Final = "***"

# Each repetition below is possessive, bounded, or can begin only once within a run of its own characters.
# So each pattern takes time linear in the length of the text; a new pattern must, too.

_NAMES = (
    r"(?:pass(?:word|wd|phrase)|pwd|secret|credentials?|api[_-]?key|session[_-]?id"
    r"|(?:access|account|encryption|private|secret|signing|subscription)[_-]?key"
    r"|(?<!nexpected )token|(?<=[?&-])sig(?:nature)?|(?<=[?&])(?:key|pass))"
)
# Each name that `_NAMES` matches contains one of these.
_NAME_PARTS = (
    *("passw", "passphrase", "pwd", "secret", "credential", "token", "sessionid", "session_id", "session-id"),
    *("_key", "-key", "apikey", "accesskey", "accountkey", "encryptionkey", "privatekey", "signingkey"),
    *("subscriptionkey", "?key", "&key", "?pass", "&pass", "?sig", "&sig", "-sig"),
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
    # Up to its END line; without one, as far as the text looks like a key.
    r"(?:(?:[^-]|-(?!----))*+-----END [A-Z0-9 ]{0,60}-----"
    r"|(?:\s|\\[nr]|[A-Za-z0-9+/=]{16,}+|[A-Za-z0-9+/=]{1,15}+(?=[\s.…-]*\Z))*+)"
)
_URL_PASSWORD = (
    r"(://[^\s/?#:@\[\"'<>]*):"
    # The second form is a password with an unescaped / ? or #. Digits and a / are a port.
    r"(?:[^\s/?#\"'<>]*@|(?!\d{1,5}[/?#])[^\s@\"'<>]{1,256}@(?:[^\s/?#\"'<>]*@)?)"
)
# A token in place of the user name.
_URL_TOKEN = r"(https?://)(?=[^\s/?#:@]{0,40}\d)[\w.~%+=-]{16,}+@"
_AUTHORIZED = (
    # The challenge of a server is no secret.
    r"\b(bearer|basic)([ \t]{1,8}+)(?!(?:realm|error|scope|charset)=)"
    # A word of prose has no digits, and is shorter.
    r"(?:(?=[a-z._~+/-]*+[0-9=])[a-z0-9._~+/=-]{6,}+|[a-z0-9._~+/=-]{20,}+)"
)
_KNOWN_KEYS = (
    r"(?<![\w-])(sk-|[rs]k_(?:live|test)_|gh[oprsu]_|github_pat_|glpat-|xox[abeoprs]-|xapp-|hf_|npm_|pypi-|AIza)"
    r"[\w-]{16,}+"
)
_KEY_STARTS = (
    *("sk-", "k_live_", "k_test_", "gho_", "ghp_", "ghr_", "ghs_", "ghu_", "github_pat_", "glpat-"),
    *("xox", "xapp-", "hf_", "npm_", "pypi-", "aiza"),
)
_SENDGRID_KEY = r"(?<![\w-])(SG\.)[\w-]{16,64}+\.[\w-]{16,}+"
_SLACK_HOOK = r"(hooks\.slack\.com/(?:services|workflows)/)[\w/-]{8,}+"
_AWS_KEY = r"(?<![A-Za-z0-9])(AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"
_JWT = r"(?<![\w-])eyJ[\w-]{8,}+\.[\w-]{8,}+(?:\.[\w-]*+)?"
_OPTION = rf"(?<![\w-])(--(?:\w{{1,20}}-){{0,3}}{_NAMES})([ \t]{{1,8}}+)[^\s\"'-][^\s\"']*+"

_ADDRESS = (
    # Not the user and host of a URL: ssh://git@example.org is no address.
    r"(?<!//)(?<![\w.+%-])"
    # Bounce addresses contain the receiver: list-me=example.org@lists.example.net.
    r"(?:[\w.+%-]{1,64}=(?=[\w-]{1,63}\.))?"
    r"(?:[\w.+%-]{1,64}|\"[^\"\r\n]{1,64}\")(?:@|%40)"
    # The last part is letters, unlike that of package@1.2.3.
    r"(?:(?:[\w-]{1,63}\.){1,10}(?:xn--[\w-]{1,59}|[^\W\d_]{2,63})(?!\w)|\[[\w.:]{2,50}\])"
)

_SPANS: tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...] = tuple(
    (needs, re.compile(pattern, re.ASCII | flags), replacement)
    # `needs`: what a text must contain, in lower case. Checking that first is much faster.
    for needs, pattern, flags, replacement in (
        (("private key",), _PRIVATE_KEY, 0, HIDDEN),
        (("://",), _URL_PASSWORD, 0, rf"\1:{HIDDEN}@"),
        (("://",), _URL_TOKEN, 0, rf"\1{HIDDEN}@"),
        (("hooks.slack",), _SLACK_HOOK, 0, rf"\1{HIDDEN}"),
        (("bearer", "basic"), _AUTHORIZED, re.IGNORECASE, rf"\1\2{HIDDEN}"),
        (_KEY_STARTS, _KNOWN_KEYS, 0, rf"\1{HIDDEN}"),
        (("sg.",), _SENDGRID_KEY, 0, rf"\1{HIDDEN}"),
        (("akia", "asia"), _AWS_KEY, 0, rf"\1{HIDDEN}"),
        (("eyj",), _JWT, 0, HIDDEN),
        (("--",), _OPTION, re.IGNORECASE, rf"\1\2{HIDDEN}"),
    )
)
_PAIRS: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = tuple(
    (needs, re.compile(pattern, re.ASCII | re.IGNORECASE))
    for needs, pattern in (
        (("authorization", "cookie"), rf"{_HEADERS}(?:{_IS}|{_QUOTE},[ \t]?)(?:{_QUOTED}|{_LINE})"),
        (("x-",), rf"\bx-(?:\w{{1,20}}-){{0,2}}(?:key|token|secret){_QUOTE},[ \t]?(?:{_QUOTED})"),
        (_NAME_PARTS, rf"{_NAMES}{_IS}(?:{_QUOTED}|{_BARE})"),
    )
)
# Words that follow a name in prose, as in "unclosed token: line 1": nobody's secret.
_PROSE = frozenset(
    {
        *("a", "an", "and", "at", "but", "by", "cannot", "char", "column", "does", "empty", "expected", "expired"),
        *(
            "false",
            "for",
            "from",
            "has",
            "in",
            "invalid",
            "is",
            "it",
            "line",
            "malformed",
            "missing",
            "must",
            "near",
        ),
        *("no", "none", "not", "null", "of", "offset", "on", "or", "position", "rejected", "required", "revoked"),
        *(
            "row",
            "should",
            "the",
            "this",
            "too",
            "true",
            "undefined",
            "unexpected",
            "unknown",
            "unset",
            "was",
            "wrong",
        ),
    }
)
_ADDRESSES = re.compile(_ADDRESS)
_options = {"hide_addresses": False}


def redact(text: str, *, addresses: bool = False) -> str:
    """Return the text with every secret that can be recognised replaced by `***`.

    These are passwords in URLs, authorization headers and cookies, keys of well-known forms, private keys,
    and the values of names like `password`, `token` or `api_key` as `name=value`, in JSON or on a command
    line. With `addresses`, mail addresses too, and what looks like one, such as a Message-ID.
    """
    lower = text.lower()
    for needs, pattern, replacement in _SPANS:
        if any(need in lower for need in needs):
            text = pattern.sub(replacement, text)
    for needs, pattern in _PAIRS:
        if any(need in lower for need in needs):
            text = pattern.sub(_hide_value, text)
    if addresses and ("@" in text or "%40" in text):
        text = _ADDRESSES.sub(f"{HIDDEN}@{HIDDEN}", text)
    return text


def redact_values(value: Any, name: str = "") -> Any:
    """Return a value of JSON without its secrets, of which some are known by the names of their fields."""
    if isinstance(value, dict):
        return {key: redact_values(one, key) for key, one in value.items()}
    if isinstance(value, list):
        return [redact_values(one, name) for one in value]
    if value is None or isinstance(value, bool):
        return value
    text = f"{name}={value}"
    hidden = redact(text)
    return value if hidden == text else hidden.removeprefix(f"{name}=")


def redact_error(text: str) -> str:
    """Redact the text of an error; mail addresses too, after `hide_addresses(True)`."""
    return redact(text, addresses=_options["hide_addresses"])


def hide_addresses(hide: bool) -> None:
    """Set whether this process hides mail addresses in errors (`ONWARD_REDACT_ADDRESSES`)."""
    _options["hide_addresses"] = hide


def _hide_value(match: re.Match[str]) -> str:
    value = match[match.lastgroup or 0]
    if match.lastgroup == "bare" and value.lower().rstrip(".:") in _PROSE:
        return match[0]
    return match[0][: len(match[0]) - len(value)] + HIDDEN if value else match[0]
