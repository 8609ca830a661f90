"""Decode bytes of any claimed charset into text that can be stored."""

from __future__ import annotations

import codecs
import re
from functools import lru_cache
from typing import Final

import cchardet

# Names in mail that Python does not know, and supersets that mail really uses (gb2312 means GBK).
_ALIASES: Final = {
    "ansi": "cp1252",
    "ascii": "us-ascii",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso-8859-1": "cp1252",
    "iso-8859-8-i": "iso-8859-8",
    "iso-8859-9": "cp1254",
    "ks_c_5601-1987": "cp949",
    "ks_c_5601": "cp949",
    "euc-kr": "cp949",
    "latin1": "cp1252",
    "shift_jis": "cp932",
    "shift-jis": "cp932",
    "x-sjis": "cp932",
    "x-gbk": "gb18030",
    "x-mac-roman": "mac-roman",
    "x-euc-jp": "euc-jp",
    "iso-2022-jp": "iso2022_jp_ext",
    "tis-620": "cp874",
    "utf8mb4": "utf-8",
    "utf-8mb4": "utf-8",
    "unicode-1-1-utf-7": "utf-7",
}
# Codecs that are no charsets of mail: slow on hostile input, or for source code.
_REFUSED: Final = frozenset(
    {"idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape", "mbcs", "oem"}
)
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_SAMPLE_BYTES: Final = 100_000


@lru_cache(maxsize=1024)
def codec_of(charset: str) -> str | None:
    """Return the name of the codec for a charset named in a mail, or None."""
    name = charset.strip().strip("\"'").lower()
    try:
        codec = codecs.lookup(_ALIASES.get(name, name)).name
        if codec.replace("-", "_") in _REFUSED:
            return None
        b" ".decode(codec, "replace")  # raises for codecs that do not return text; empty bytes would not raise
    except (LookupError, ValueError):
        return None
    return codec


def decode(data: bytes, charset: str = "", defects: list[str] | None = None) -> str:
    """Decode bytes: as declared, else as UTF-8, else as detected; problems are added to `defects`."""
    defects = defects if defects is not None else []
    codec = None
    if charset:
        codec = codec_of(charset[:100])
        if codec is None:
            defects.append(f"unknown charset {charset[:40]!r}")
    if data.isascii() and (codec is None or codec in ("utf-8", "ascii", "cp1252")):
        return data.decode("ascii")
    for attempt in (codec, "utf-8"):
        if attempt:
            try:
                return data.decode(attempt)
            except (UnicodeError, ValueError):
                pass
    if codec is not None:
        defects.append(f"bytes that are not {charset[:40]}")
        # A long text with a little damage is still in its charset.
        if codec != "ascii":
            text = data.decode(codec, "replace")
            if text.count("\ufffd") * 50 < len(text):
                return text
    try:
        guess = cchardet.detect(data[:_SAMPLE_BYTES])["encoding"]
        guessed = codec_of(guess) if guess else None
        if guessed:
            return data.decode(guessed)
    except (UnicodeError, ValueError):
        pass
    defects.append("charset guessed as latin-1")
    return data.decode("latin-1")


def clean(text: str) -> str:
    """Return the text with `\\n` line ends, and with U+FFFD for what a database or UTF-8 cannot hold."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if not text.isascii():
        text = text.removeprefix("\ufeff")
        try:
            text.encode()
        except UnicodeEncodeError:
            text = _SURROGATES.sub("\ufffd", text)
    return text
