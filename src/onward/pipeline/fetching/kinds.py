"""What some bytes are: by their content first, by their name second."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from onward.pipeline.fetching.errors import NotWhatItClaims
from onward.pipeline.reading.mbox import looks_like_mbox

HEAD = 8192
"""How many bytes from the start tell what a file is."""

CONTAINERS = frozenset({"gzip", "bzip2", "xz", "zip", "tar"})

_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"\xfd7zXZ\0", "xz"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"PK\x07\x08", "zip"),
)
_BZIP2 = re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")
_BOMS = (b"\xff\xfe", b"\xfe\xff", b"\xff\xfe\0\0", b"\0\0\xfe\xff", b"\xef\xbb\xbf")
_HTML = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_HEADER = re.compile(rb"[!-9;-~]+:[ \t]", re.MULTILINE)
_MAIL_HEADERS = re.compile(
    rb"^(?:from|date|message-id|received|return-path|delivered-to|mime-version|to):", re.IGNORECASE | re.MULTILINE
)
_SHEBANG = re.compile(rb"#![ \t]*\S*?/(?:env[ \t]+(?:-S[ \t]*)?)?(python|bash|sh|zsh|perl|ruby|node|lua|php)\b")

# What a name promises. Text may be called anything; these must hold what they say.
_CLAIMS = {
    ".gz": "gzip", ".tgz": "gzip", ".bz2": "bzip2", ".tbz2": "bzip2", ".tbz": "bzip2", ".xz": "xz", ".txz": "xz",
    ".zip": "zip", ".tar": "tar", ".pdf": "pdf", ".mbox": "mbox", ".mbx": "mbox",
}  # fmt: skip
_TAR_CLAIMS = (".tgz", ".tbz2", ".tbz", ".txz", ".tar.gz", ".tar.bz2", ".tar.xz")
_SPOKEN = {
    "gzip": "gzip file", "bzip2": "bzip2 file", "xz": "xz file", "zip": "zip archive", "tar": "tar archive",
    "pdf": "PDF", "mbox": "mailbox", "html": "web page", "eml": "mail",
}  # fmt: skip

# Zip files by construction, documents or programs by meaning: their members are of no use to a reader.
_PACKAGES = frozenset(
    {
        ".docx", ".docm", ".xlsx", ".xlsm", ".pptx", ".odt", ".ods", ".odp", ".epub", ".pages", ".numbers", ".key",
        ".jar", ".war", ".ear", ".apk", ".aar", ".ipa", ".whl", ".egg", ".nupkg", ".vsix", ".xpi", ".crx", ".cbz",
        ".kmz", ".sketch", ".npz", ".pt", ".pth",
    }
)  # fmt: skip

_BY_MEDIA_TYPE = {
    "text/html": "html", "application/xhtml+xml": "html", "text/markdown": "markdown",
    "text/x-markdown": "markdown",
    "text/x-rst": "rst", "text/prs.fallenstein.rst": "rst", "message/rfc822": "eml",
}  # fmt: skip
_BY_SUFFIX = {
    ".html": "html", ".htm": "html", ".xhtml": "html", ".eml": "eml", ".md": "markdown", ".markdown": "markdown",
    ".mdown": "markdown", ".mkd": "markdown", ".rst": "rst", ".rest": "rst", ".txt": "text", ".text": "text",
    ".log": "text", ".csv": "text", ".tsv": "text", ".org": "text", ".adoc": "text", ".asciidoc": "text",
    ".tex": "text",
}  # fmt: skip
_LANGUAGES = {
    language: frozenset(suffixes.split())
    for language, suffixes in {
        "python": ".py .pyi .pyx .pxd", "rust": ".rs", "go": ".go", "c": ".c .h",
        "cpp": ".cc .cpp .cxx .hh .hpp .hxx",
        "csharp": ".cs", "java": ".java", "kotlin": ".kt .kts", "scala": ".scala", "swift": ".swift",
        "objective-c": ".m .mm", "javascript": ".js .mjs .cjs .jsx", "typescript": ".ts .mts .cts .tsx",
        "ruby": ".rb", "php": ".php", "perl": ".pl .pm", "lua": ".lua", "r": ".r", "julia": ".jl", "dart": ".dart",
        "haskell": ".hs", "ocaml": ".ml .mli", "erlang": ".erl .hrl", "elixir": ".ex .exs",
        "clojure": ".clj .cljs",
        "lisp": ".lisp .el", "scheme": ".scm", "fsharp": ".fs .fsx", "zig": ".zig", "nim": ".nim", "d": ".d",
        "shell": ".sh .bash .zsh .fish", "powershell": ".ps1 .psm1", "batch": ".bat .cmd", "sql": ".sql",
        "css": ".css .scss .sass .less", "vue": ".vue", "svelte": ".svelte", "xml": ".xml .xsl .xsd .svg",
        "json": ".json .jsonl .json5", "yaml": ".yaml .yml", "toml": ".toml", "ini": ".ini .cfg .conf",
        "protobuf": ".proto", "graphql": ".graphql", "terraform": ".tf", "nix": ".nix", "cmake": ".cmake",
        "make": ".mk", "assembly": ".s .asm", "fortran": ".f90 .f .for", "pascal": ".pas", "vb": ".vb",
        "groovy": ".groovy .gradle", "verilog": ".v .sv", "vhdl": ".vhd .vhdl", "solidity": ".sol",
    }.items()
}  # fmt: skip
_LANGUAGE_BY_SUFFIX = {suffix: language for language, suffixes in _LANGUAGES.items() for suffix in suffixes}
_LANGUAGE_BY_NAME = {
    "makefile": "make", "gnumakefile": "make", "dockerfile": "docker", "containerfile": "docker",
    "cmakelists.txt": "cmake", "rakefile": "ruby", "gemfile": "ruby", "jenkinsfile": "groovy", "justfile": "make",
}  # fmt: skip
_SHEBANG_LANGUAGES = {"bash": "shell", "sh": "shell", "zsh": "shell", "node": "javascript"}
_MEDIA_TYPES = {
    "mbox": "application/mbox", "eml": "message/rfc822", "html": "text/html", "markdown": "text/markdown",
    "rst": "text/x-rst", "pdf": "application/pdf", "text": "text/plain", "code": "text/plain",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Looks:
    """What a file looks like: an item's kind or one of `CONTAINERS`; or why there is nothing to take."""

    kind: str
    media_type: str = ""
    language: str = ""
    skip: str = ""


def look(head: bytes, name: str, media_type: str = "") -> Looks:
    """Tell from its first bytes, its name and what a server called it what a file is.

    Raises `NotWhatItClaims` if its name promises something that its content is not.
    """
    name = PurePosixPath(name).name.lower()
    suffix = PurePosixPath(name).suffix
    if not head:
        return Looks("", skip="empty")
    found = _by_content(head)
    claim = _CLAIMS.get(suffix)
    if found == "zip" and suffix in _PACKAGES:
        return Looks("", skip=f"{suffix[1:]} files")
    binary = b"\0" in head[:HEAD] and not head.startswith(_BOMS)
    if claim is not None and claim != found:
        raise NotWhatItClaims(
            f"{name!r} claims to be a {_SPOKEN[claim]}, but its content is "
            f"{'a ' + _SPOKEN[found] if found in _SPOKEN else 'binary data' if binary else 'something else'}: "
            "fetch or save it again, or give it the name of what it is"
        )
    if found in CONTAINERS:
        return Looks(found)
    if binary and found not in ("mbox", "pdf"):
        if suffix == ".eml":
            raise NotWhatItClaims(f"{name!r} claims to be a mail, but its content is binary data: save it again")
        return Looks("", skip="binary")
    if found in ("mbox", "pdf"):
        return Looks(found, _MEDIA_TYPES[found])
    kind, language = _as_text(head, found, name, suffix, media_type)
    return Looks(kind, media_type or _MEDIA_TYPES[kind], language)


def claims_tar(name: str) -> bool:
    """Tell whether a compressed file is called a tar archive."""
    return name.lower().endswith(_TAR_CLAIMS)


def claims_text(name: str) -> bool:
    """Tell whether a file is called something that can be read."""
    suffix = PurePosixPath(name.lower()).suffix
    return suffix in _BY_SUFFIX or suffix in _LANGUAGE_BY_SUFFIX


def inner_name(name: str) -> str:
    """Give the name of what is in a compressed file: "a.mbox" for "a.mbox.gz", "a.tar" for "a.tgz"."""
    stem, dot, suffix = name.rpartition(".")
    suffix = dot + suffix.lower()
    if suffix in (".tgz", ".tbz2", ".tbz", ".txz"):
        return stem + ".tar"
    return stem if suffix in (".gz", ".bz2", ".xz") else name


def _by_content(head: bytes) -> str:
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if _BZIP2.match(head):
        return "bzip2"
    if _is_tar(head):
        return "tar"
    # A few bytes of junk before it are common, and readers accept them.
    if b"%PDF-" in head[:1024] and not head.lstrip().startswith(b"<"):
        return "pdf"
    if looks_like_mbox(head):
        return "mbox"
    return "html" if _HTML.match(head.removeprefix(b"\xef\xbb\xbf")) else ""


def _is_tar(head: bytes) -> bool:
    """Tell by the checksum, which every tar header has; "ustar" only the newer ones."""
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
    return ("eml" if _looks_like_mail(head) else "text"), ""


def _looks_like_mail(head: bytes) -> bool:
    headers = re.split(rb"\r?\n\r?\n", head, maxsplit=1)[0]
    return (
        _HEADER.match(headers) is not None and len({name.lower() for name in _MAIL_HEADERS.findall(headers)}) >= 3
    )
