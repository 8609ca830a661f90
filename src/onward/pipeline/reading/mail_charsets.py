"""Turn bytes of a mail into text that can always be stored, whatever charset they claim to be in."""

from __future__ import annotations

import codecs
import re
from functools import lru_cache
from typing import Final

import cchardet

# Names that mail uses and Python does not know, and supersets that it needs (it says gb2312 and means GBK).
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
# Codecs that are no charsets of mail: slow on purpose-made input, or meant for source code.
_REFUSED: Final = frozenset(
    {"idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape", "mbcs", "oem"}
)
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_SAMPLE: Final = 100_000


@lru_cache(maxsize=1024)
def codec_of(charset: str) -> str | None:
    """The name of the codec for a charset as a mail names it, or None if there is none."""
    name = charset.strip().strip("\"'").lower()
    try:
        codec = codecs.lookup(_ALIASES.get(name, name)).name
        b"".decode(codec)  # refuses codecs that do not give text
    except (LookupError, ValueError):
        return None
    return None if codec.replace("-", "_") in _REFUSED else codec


def decode(data: bytes, charset: str = "", defects: list[str] | None = None) -> str:
    """The text of some bytes: as declared, else as UTF-8, else as they look; `defects` says what was odd."""
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
        guess = cchardet.detect(data[:_SAMPLE])["encoding"]
        guessed = codec_of(guess) if guess else None
        if guessed:
            return data.decode(guessed)
    except (UnicodeError, ValueError):
        pass
    defects.append("charset guessed as latin-1")
    return data.decode("latin-1")


def clean(text: str) -> str:
    """The text with plain line ends, and without what a database or UTF-8 cannot hold."""
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
