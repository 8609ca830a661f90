"""Characters of words: which ones belong together, and how spellings that look alike become equal."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

# What continues a word, for character classes: marks (accents, vowel signs) and what is not shown (soft hyphens).
# Letters and unassigned characters between two marks are included to make it short.
MARKS = (
    "\u00ad\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f"
    "\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u0711-\u07f3\u07fd\u0816-\u082d\u0859-\u085b\u0898-\u08e1"
    "\u08e3-\u0963\u0981-\u09e3\u09fe-\u0a75\u0a81-\u0ae3\u0afa-\u0b63\u0b82-\u0bd7\u0c00-\u0c63\u0c81-\u0c83"
    "\u0cbc-\u0d4d\u0d57-\u0d63\u0d81-\u0df3\u0e31-\u0e3a\u0e47-\u0e4e\u0eb1-\u0ecd\u0f18\u0f19\u0f35\u0f37\u0f39"
    "\u0f3e-\u0f84\u0f86-\u0fbc\u0fc6\u102b-\u103e\u1056-\u109d\u135d-\u135f\u1712-\u1734\u1752-\u17d3\u17dd"
    "\u180b-\u180d\u180f-\u193b\u1a17-\u1a1b\u1a55-\u1a7f\u1ab0-\u1b44\u1b6b-\u1b73\u1b80-\u1bf3\u1c24-\u1c37"
    "\u1cd0-\u1cd2\u1cd4-\u1dff\u200b-\u200d\u2060\u20d0-\u20f0\u2cef-\u2cf1\u2d7f-\u2dff\u302a-\u302f\u3099\u309a"
    "\ua66f-\ua672\ua674-\ua67d\ua69e-\ua6f1\ua802-\ua827\ua82c\ua880-\ua8c5\ua8e0-\ua8f1\ua8ff-\ua92d\ua947-\ua953"
    "\ua980-\ua9c0\ua9e5-\uaa4d\uaa7b-\uaac1\uaaeb-\uaaef\uaaf5\uaaf6\uabe3-\uabea\uabec\uabed\ufb1e\ufe00-\ufe0f"
    "\ufe20-\ufe2f\ufeff\U000101fd-\U0001037a\U00010a01-\U0001e94a\U000e0100-\U000e01ef"
)
HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
HIRAGANA = "\u3041-\u309f"
KATAKANA = "\u30a0-\u30ff\u31f0-\u31ff"
HANGUL = "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"
UNSPACED_FROM = "\u0e00"  # the scripts from Thai on: nearly all of them have no spaces between words
THAI = "\u0e00-\u0e7f"
# Scripts without spaces between words, also Lao, Burmese and Khmer; Korean has spaces, but many endings.
UNSPACED = f"{HAN}{HIRAGANA}{KATAKANA}{HANGUL}{THAI}\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff\u3105-\u312f"

_INVISIBLE = re.compile("[\u00ad\u0640\u200b-\u200d\u2060\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef]")
# In decomposed text: marks that people leave out. The breve of the Cyrillic й makes another letter.
_ACCENTS = re.compile(
    "(?<![иу])\u0306|[\u0300-\u0305\u0307-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670]"
)
# Letters that do not decompose into a letter and a mark.
_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "ŧ": "t", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d"}
)
_NOT_ASCII = re.compile("[\0-\x7f]?[^\0-\x7f]+")
# A character and what is written together with it: marks, the rest of a Korean syllable, a half-width voiced mark.
_CLUSTERS = re.compile(f".[{MARKS}\u1160-\u11ff\uff9e\uff9f]*", re.DOTALL)


def normalise(text: str) -> str:
    """Return a text in one Unicode form, without characters that are not shown."""
    return text if text.isascii() else unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))


def lower(text: str) -> str:
    """Return a text in lower case, in one Unicode form, with its accents; ß becomes ss."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", normalise(text).casefold())


def fold(text: str) -> str:
    """Return a text in lower case, in one Unicode form, without accents."""
    if text.isascii():
        return text.lower()
    # Only where there are other characters: most texts have few of them. One before them may belong to them.
    return _NOT_ASCII.sub(_folded, text.lower())


def _folded(match: re.Match[str]) -> str:
    return _fold_part(match[0])


@lru_cache(maxsize=10_000)
def _fold_part(text: str) -> str:
    bare = _ACCENTS.sub("", unicodedata.normalize("NFD", lower(text)))
    return unicodedata.normalize("NFC", bare.translate(_LETTERS))


def normal_places(text: str) -> list[tuple[int, int]] | None:
    """Return start and end in the text of each character of `normalise(text)`; None if that is unclear."""
    places: list[tuple[int, int]] = []
    normal: list[str] = []
    for match in _CLUSTERS.finditer(text):
        cluster = normalise(match[0])
        places += [match.span()] * len(cluster)
        normal.append(cluster)
    return places if "".join(normal) == normalise(text) else None
