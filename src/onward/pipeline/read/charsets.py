"""Decode bytes of any claimed charset into text that can be stored."""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
from functools import lru_cache

import cchardet

# Names in mail that Python does not know, and supersets that mail really uses (gb2312 means GBK).
_ALIASES = {
    name: codec
    for codec, names in {
        "cp1252": "ansi iso-8859-1 latin1",
        "us-ascii": "ascii",
        "gb18030": "gb2312 gbk x-gbk",
        "iso-8859-8": "iso-8859-8-i",
        "cp1254": "iso-8859-9",
        "cp949": "ks_c_5601-1987 ks_c_5601 euc-kr",
        "cp932": "shift_jis shift-jis x-sjis",
        "mac-roman": "x-mac-roman",
        "euc-jp": "x-euc-jp",
        "iso2022_jp_ext": "iso-2022-jp",
        "cp874": "tis-620",
        "utf-8": "utf8mb4 utf-8mb4",
        "utf-7": "unicode-1-1-utf-7",
    }.items()
    for name in names.split()
}
# Codecs that are no charsets of mail: slow on hostile input, or for source code.
_REFUSED = ("idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape", "mbcs", "oem")
_SURROGATES = re.compile("[\ud800-\udfff]")
# Bytes that the encoding is detected from, of a mail and of a file: more only take longer.
_SAMPLE_BYTES = 100_000
_FILE_SAMPLE_BYTES = 200_000
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


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
    codec = codec_of(charset[:100]) if charset else None
    if charset and codec is None:
        defects.append(f"unknown charset {charset[:40]!r}")
    if data.isascii() and (codec is None or codec in ("utf-8", "ascii", "cp1252")):
        return data.decode("ascii")
    for attempt in filter(None, (codec, "utf-8")):
        with suppress(ValueError):
            return data.decode(attempt)
    if codec is not None:
        defects.append(f"bytes that are not {charset[:40]}")
        # A long text with a little damage is still in its charset.
        if codec != "ascii":
            text = data.decode(codec, "replace")
            if text.count("\ufffd") * 50 < len(text):
                return text
    guess = cchardet.detect(data[:_SAMPLE_BYTES])["encoding"]
    with suppress(ValueError):
        if guess and (guessed := codec_of(guess)):
            return data.decode(guessed)
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


def read_text(data: bytes, charset: str = "") -> str:
    """Decode text of an unknown encoding, or of the claimed one; what cannot be decoded becomes U+FFFD."""
    return clean(_decode_file(data, charset))


def _decode_file(data: bytes, charset: str) -> str:
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    with suppress(UnicodeDecodeError):
        # No other encoding is valid UTF-8 by chance, so this is right even against the claimed charset.
        return data.decode("utf-8")
    for guess in (charset, cchardet.detect(data[:_FILE_SAMPLE_BYTES])["encoding"]):
        with suppress(ValueError):
            if guess and (codec := codec_of(guess)):
                return data.decode(codec)
    # Either UTF-8 with some damage, or cp1252, the most common other encoding.
    text = data.decode("utf-8", "replace")
    return text if text.count("\ufffd") * 100 <= len(text) else data.decode("cp1252", "replace")
