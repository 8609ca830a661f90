"""The kind of a file: by its content first, by its name second."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import NamedTuple

from onward.pipeline.fetch.fetch_errors import NotWhatItClaims
from onward.pipeline.fetch.fetched_items import SkipReason
from onward.pipeline.fetch.office_formats import FORMAT_OF_SUFFIX, KIND_OF_FORMAT, OLE_START, RTF_START, ZIP_STARTS
from onward.pipeline.read.mbox import looks_like_mbox

HEAD_BYTES = 8192  # the bytes at the start of a file that its kind is detected from
CONTAINERS = frozenset({"gzip", "bzip2", "xz", "zip", "tar"})

_MAGIC = {
    "gzip": (b"\x1f\x8b",), "xz": (b"\xfd7zXZ\0",), "zip": ZIP_STARTS,
    "pst": (b"!BDN",),
}  # fmt: skip
_BZIP2 = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")
_BOMS = (b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\0\0", b"\0\0\xfe\xff", b"\xef\xbb\xbf")
# Each `*+` gives nothing back: many comments could be divided in more ways than can be tried.
_HTML = re.compile(
    rb"\s*+(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*+<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_CONTROL = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]")  # characters that no text has
_HEADER = re.compile(rb"[!-9;-~]+:[ \t]", re.MULTILINE)
_MAIL_HEADERS = re.compile(
    rb"^(?:from|date|message-id|received|return-path|delivered-to|mime-version|to):", re.IGNORECASE | re.MULTILINE
)
# Text whose first line says what it is.
_TEXT_STARTS = re.compile(
    rb"\s*(?:(?P<calendar>BEGIN:VCALENDAR\b)|(?P<contacts>BEGIN:VCARD\b)|(?P<subtitles>WEBVTT\b)"
    rb"|(?:%[^\n]*\n\s*)*+(?P<latex>\\documentclass\b))",
    re.IGNORECASE,
)
_MAN_SUFFIX = re.compile(r"\.[1-9n][a-z]{0,4}")
_MAN_MACRO = re.compile(rb"^\.(?:TH|Dd|Dt|SH|so)\b", re.MULTILINE)
_SHEBANG = re.compile(rb"#![ \t]*\S*?/(?:env[ \t]+(?:-S[ \t]*)?)?(python|bash|sh|zsh|perl|ruby|node|lua|php)\b")

# The kinds that a suffix claims. A file with one of these suffixes must be of that kind.
_CLAIMS = {
    ".gz": "gzip", ".tgz": "gzip", ".bz2": "bzip2", ".tbz2": "bzip2", ".tbz": "bzip2", ".xz": "xz", ".txz": "xz",
    ".zip": "zip", ".tar": "tar", ".pdf": "pdf", ".mbox": "mbox", ".mbx": "mbox",
    ".pst": "pst", ".ost": "pst",
}  # fmt: skip
_TAR_CLAIMS = (".tgz", ".tbz2", ".tbz", ".txz", ".tar.gz", ".tar.bz2", ".tar.xz")
_KIND_NOUNS = {
    "gzip": "gzip file", "bzip2": "bzip2 file", "xz": "xz file", "zip": "zip archive", "tar": "tar archive",
    "pdf": "PDF", "mbox": "mailbox", "pst": "data file of Outlook", "html": "web page", "eml": "mail",
}  # fmt: skip

# Suffixes of files that are skipped, by the kind they are counted as. Some are zip files, but with members that
# are no text.
_KIND_BY_SUFFIX = {
    suffix: kind
    for kind, suffixes in {
        "office": ".odg .odf .odb .pages .numbers .key .pub .vsd .vsdx .mdb .accdb .one",
        "picture": ".png .jpg .jpeg .jpe .gif .bmp .tif .tiff .webp .heic .heif .avif .ico .psd .xcf .raw .cr2"
        " .nef .dng .sketch .cbz",
        "audio": ".mp3 .wav .flac .ogg .oga .opus .m4a .aac .wma .aiff .aif .mid .midi",
        "video": ".mp4 .m4v .mov .avi .mkv .webm .wmv .mpg .mpeg .flv .ogv .3gp",
        "archive": ".7z .rar .zst .lz4 .lzma .z .cab .iso .dmg .cpio .rpm .deb .lzh .ace .sit",
        "program": ".exe .dll .so .dylib .o .a .obj .lib .class .pyc .pyd .wasm .msi .jar .war .ear .apk .aar .ipa"
        " .whl .egg .nupkg .vsix .xpi .crx",
        "font": ".ttf .otf .woff .woff2 .eot",
        "ebook": ".mobi .azw .azw3",
        "binary": ".kmz .npz .pt .pth",
    }.items()
    for suffix in suffixes.split()
}
_NEVER_TEXT = frozenset({"picture", "audio", "video", "archive", "program", "font"})
_KIND_BY_START = {
    "picture": (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*"),
    "archive": (b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07", b"\x28\xb5\x2f\xfd"),
    "program": (b"\x7fELF", b"MZ"),
    "audio": (b"ID3", b"OggS", b"fLaC"),
    "font": (b"wOFF", b"wOF2"),
}

_BY_MEDIA_TYPE = {
    "text/html": "html", "application/xhtml+xml": "html", "text/markdown": "markdown", "message/rfc822": "eml",
    "text/x-markdown": "markdown", "text/csv": "spreadsheet", "text/calendar": "calendar",
    "text/tab-separated-values": "spreadsheet", "text/vcard": "contacts", "text/x-vcard": "contacts",
    "text/vtt": "subtitles",
    "application/x-ipynb+json": "notebook", "application/x-latex": "latex", "text/x-tex": "latex",
    "text/troff": "man",
    "text/x-rst": "rst", "text/prs.fallenstein.rst": "rst",
}  # fmt: skip
_BY_SUFFIX = {
    ".html": "html", ".htm": "html", ".xhtml": "html", ".eml": "eml", ".md": "markdown", ".markdown": "markdown",
    ".mdown": "markdown", ".mkd": "markdown", ".rst": "rst", ".rest": "rst", ".txt": "text", ".text": "text",
    ".log": "text", ".org": "text", ".adoc": "text", ".asciidoc": "text",
    ".csv": "spreadsheet", ".tsv": "spreadsheet", ".tab": "spreadsheet", ".ipynb": "notebook", ".ics": "calendar",
    ".ical": "calendar", ".ifb": "calendar", ".vcf": "contacts", ".vcard": "contacts", ".tex": "latex",
    ".latex": "latex", ".ltx": "latex", ".srt": "subtitles", ".vtt": "subtitles", ".sbv": "subtitles",
    **dict.fromkeys((".man", ".mdoc", ".roff", ".troff"), "man"),
}  # fmt: skip
_LANGUAGE_BY_SUFFIX = {
    suffix: language
    for language, suffixes in {
        "python": ".py .pyi .pyx .pxd", "rust": ".rs", "go": ".go", "c": ".c .h", "java": ".java",
        "cpp": ".cc .cpp .cxx .hh .hpp .hxx", "csharp": ".cs", "kotlin": ".kt .kts", "scala": ".scala",
        "objective-c": ".m .mm", "javascript": ".js .mjs .cjs .jsx", "typescript": ".ts .mts .cts .tsx",
        "ruby": ".rb", "php": ".php", "perl": ".pl .pm", "lua": ".lua", "r": ".r", "julia": ".jl", "dart": ".dart",
        "haskell": ".hs", "ocaml": ".ml .mli", "erlang": ".erl .hrl", "elixir": ".ex .exs", "swift": ".swift",
        "clojure": ".clj .cljs", "lisp": ".lisp .el", "scheme": ".scm", "fsharp": ".fs .fsx", "zig": ".zig",
        "d": ".d", "shell": ".sh .bash .zsh .fish", "powershell": ".ps1 .psm1", "batch": ".bat .cmd",
        "nim": ".nim", "css": ".css .scss .sass .less", "vue": ".vue", "svelte": ".svelte",
        "xml": ".xml .xsl .xsd .svg", "sql": ".sql", "json": ".json .jsonl .json5", "yaml": ".yaml .yml",
        "toml": ".toml", "ini": ".ini .cfg .conf", "protobuf": ".proto", "graphql": ".graphql", "terraform": ".tf",
        "nix": ".nix", "cmake": ".cmake", "make": ".mk", "assembly": ".s .asm", "fortran": ".f90 .f .for",
        "pascal": ".pas", "vb": ".vb", "groovy": ".groovy .gradle", "verilog": ".v .sv", "vhdl": ".vhd .vhdl",
        "solidity": ".sol",
    }.items()
    for suffix in suffixes.split()
}  # fmt: skip
_LANGUAGE_BY_NAME = {
    "makefile": "make", "gnumakefile": "make", "dockerfile": "docker", "containerfile": "docker",
    "cmakelists.txt": "cmake", "rakefile": "ruby", "gemfile": "ruby", "jenkinsfile": "groovy", "justfile": "make",
}  # fmt: skip
_SHEBANG_LANGUAGES = {"bash": "shell", "sh": "shell", "zsh": "shell", "node": "javascript"}
_MEDIA_TYPES = {
    "mbox": "application/mbox", "eml": "message/rfc822", "html": "text/html", "markdown": "text/markdown",
    "rst": "text/x-rst", "pdf": "application/pdf", "text": "text/plain", "code": "text/plain",
    "spreadsheet": "text/csv", "notebook": "application/x-ipynb+json", "calendar": "text/calendar",
    "contacts": "text/vcard", "latex": "application/x-latex", "man": "text/troff", "subtitles": "text/plain",
}  # fmt: skip


_PICTURE_STARTS = (*_KIND_BY_START["picture"], b"BM")


class FileKind(NamedTuple):
    """The kind of an item, or one of `CONTAINERS`; or why the file is skipped."""

    kind: str
    media_type: str = ""
    language: str = ""
    skip: SkipReason | None = None


def detect_kind(head: bytes, name: str, media_type: str = "") -> FileKind:
    """Return the kind of a file; raise `NotWhatItClaims` if its content contradicts its name."""
    name = PurePosixPath(name).name.lower()
    suffix = PurePosixPath(name).suffix
    if not head:
        return FileKind("", skip=SkipReason("empty", "empty"))
    if media_type == _MEDIA_TYPES["eml"] and suffix == ".eml":
        return FileKind("eml", media_type)  # from a mail server: it may begin with anything, and hold NUL bytes
    found = _by_content(head, suffix, media_type)
    claim = _CLAIMS.get(suffix)
    by_suffix = skipped_by_suffix(name)
    if found == "zip" and by_suffix is not None:
        return FileKind("", skip=by_suffix)
    binary = b"\0" in head[:HEAD_BYTES] and not head.startswith(_BOMS)
    if claim is not None and claim != found:
        unknown = "binary data" if binary else "something else"
        content = f"a {_KIND_NOUNS[found]}" if found in _KIND_NOUNS else unknown
        raise NotWhatItClaims(
            f"{name!r} claims to be a {_KIND_NOUNS[claim]}, but its content is {content}: "
            "fetch or save it again, or give it the name of what it is"
        )
    if suffix in FORMAT_OF_SUFFIX and found not in ("zip", "ole", "rtf"):
        raise not_an_office_file(name, "a " + _KIND_NOUNS[found] if found in _KIND_NOUNS else "something else")
    if found in CONTAINERS or found in ("ole", "pst"):
        return FileKind(found)
    if found == "rtf":
        return FileKind(KIND_OF_FORMAT["rtf"], "application/rtf")
    if found in ("mbox", "pdf"):
        return FileKind(found, _MEDIA_TYPES[found])
    if binary:
        if suffix == ".eml":
            raise NotWhatItClaims(f"{name!r} claims to be a mail, but its content is binary data: save it again")
        kinds = (kind for kind, starts in _KIND_BY_START.items() if head.startswith(starts))
        by_start = [SkipReason(kind, f"{kind}, by its content") for kind in kinds]
        return FileKind("", skip=by_suffix or next(iter(by_start), SkipReason("binary", "binary data")))
    kind, language = _as_text(head, found, name, suffix, media_type)
    return FileKind(kind, media_type or _MEDIA_TYPES[kind], language)


def is_picture(head: bytes) -> bool:
    """Return whether this is a picture of a format in which text can be recognised."""
    return head.startswith(_PICTURE_STARTS) or (head.startswith(b"RIFF") and head[8:12] == b"WEBP")


def not_an_office_file(name: str, content: str) -> NotWhatItClaims:
    return NotWhatItClaims(
        f"{PurePosixPath(name).name!r} claims to be an office file or e-book, but its content is {content}: "
        "fetch or save it again, or give it the name of what it is"
    )


def claims_office(name: str) -> bool:
    return PurePosixPath(name.lower()).suffix in FORMAT_OF_SUFFIX


def skipped_by_suffix(name: str) -> SkipReason | None:
    """Return why files with this suffix are skipped, or None."""
    suffix = PurePosixPath(name.lower()).suffix
    return SkipReason(_KIND_BY_SUFFIX[suffix], f"{suffix[1:]} file") if suffix in _KIND_BY_SUFFIX else None


def skip_by_name(name: str) -> SkipReason | None:
    """Return why a file with this name is not worth a request: it is hardly ever text, and never opened."""
    suffix = PurePosixPath(name.lower()).suffix
    kind = _KIND_BY_SUFFIX.get(suffix)
    return SkipReason(kind, f"{suffix[1:]} file") if kind in _NEVER_TEXT else None


def is_read_whole(name: str) -> bool:
    """Return whether a file with this name is one document, as mailboxes and containers are not."""
    return _CLAIMS.get(PurePosixPath(name.lower()).suffix) not in {*CONTAINERS, "mbox", "pst"}


def claims_tar(name: str) -> bool:
    return name.lower().endswith(_TAR_CLAIMS)


def claims_text(name: str) -> bool:
    suffix = PurePosixPath(name.lower()).suffix
    return suffix in _BY_SUFFIX or suffix in _LANGUAGE_BY_SUFFIX


def inner_name(name: str) -> str:
    """Return the name of the content of a compressed file: "a.mbox" for "a.mbox.gz", "a.tar" for "a.tgz"."""
    stem, dot, suffix = name.rpartition(".")
    suffix = dot + suffix.lower()
    if suffix in (".tgz", ".tbz2", ".tbz", ".txz"):
        return stem + ".tar"
    return stem if suffix in (".gz", ".bz2", ".xz") else name


def _by_content(head: bytes, suffix: str, media_type: str) -> str:
    for kind, starts in _MAGIC.items():
        if head.startswith(starts):
            return kind
    if head.startswith(OLE_START):
        return "ole"
    if head.startswith(RTF_START):
        return "rtf"
    if _BZIP2.match(head):
        return "bzip2"
    if _is_tar(head):
        return "tar"
    if _is_pdf(head, suffix, media_type):
        return "pdf"
    if looks_like_mbox(head):
        return "mbox"
    return "html" if _HTML.match(head.removeprefix(b"\xef\xbb\xbf")) else ""


def _is_pdf(head: bytes, suffix: str, media_type: str) -> bool:
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"%PDF-"):
        return True
    # A few other bytes before it are common, and accepted by readers. But a text may be about PDFs.
    claims = suffix == ".pdf" or media_type.lower().startswith("application/pdf")
    within = b"%PDF-" in head[:1024] and not start.startswith(b"<")
    return within and (claims or _CONTROL.search(head) is not None)


def _is_tar(head: bytes) -> bool:
    """Check the checksum, which every tar header has; only newer ones have "ustar"."""
    block = head[:512]
    if len(block) < 512:
        return False
    try:
        claimed = int(block[148:156].strip(b" \0") or b"-", 8)
    except ValueError:
        return False
    return claimed == sum(block[:148]) + 8 * ord(" ") + sum(block[156:])


def _as_text(head: bytes, found: str, name: str, suffix: str, media_type: str) -> tuple[str, str]:
    media = media_type.partition(";")[0].strip().lower()
    if (kind := _BY_MEDIA_TYPE.get(media)) is not None:
        return kind, ""
    if (language := _LANGUAGE_BY_NAME.get(name) or _LANGUAGE_BY_SUFFIX.get(suffix)) is not None:
        return "code", language
    kind = _BY_SUFFIX.get(suffix, "")
    if kind in ("", "text") and found == "html":
        return "html", ""
    if kind:
        return kind, ""
    if (shebang := _SHEBANG.match(head)) is not None:
        language = shebang[1].decode()
        return "code", _SHEBANG_LANGUAGES.get(language, language)
    if (starts := _TEXT_STARTS.match(head.removeprefix(b"\xef\xbb\xbf"))) is not None:
        return str(starts.lastgroup), ""
    if _MAN_SUFFIX.fullmatch(suffix) and _MAN_MACRO.search(head):
        return "man", ""
    headers = re.split(rb"\r?\n\r?\n", head, maxsplit=1)[0]
    mail = _HEADER.match(headers) and len({name.lower() for name in _MAIL_HEADERS.findall(headers)}) >= 3
    return ("eml" if mail else "text"), ""
