"""Tables, notebooks, LaTeX, manual pages and subtitles: text files with markup that is no text."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from contextlib import suppress

from onward.pipeline.read.charsets import read_text
from onward.pipeline.read.office_xml import date_of
from onward.pipeline.read.page_text import MAX_CHARACTERS, NoText, PageText, UnreadableFile
from onward.pipeline.read.text_files import read_title

_MAX_OUTPUT_CHARACTERS = 40_000  # of one cell of a notebook
_DELIMITERS = ",;\t|"
_QUOTED = re.compile(r'"[^"\n]*"?')
_NAMED_DELIMITER = re.compile(
    r'"?sep=([^"\w\s]|\t)"?[ \t]*\n', re.IGNORECASE
)  # a first line that Excel understands
_WHITE = re.compile(r"\s+")


def read_table(data: bytes, name: str, charset: str = "") -> PageText:
    """Return the rows of a CSV or TSV file as a table whose first row is the header."""
    text = read_text(data, charset)
    if named := _NAMED_DELIMITER.match(text):
        delimiter, text = named[1], text[named.end() :]
    elif name.lower().endswith((".tsv", ".tab")):
        delimiter = "\t"
    else:
        first = _QUOTED.sub("", next((line for line in text.split("\n", 20) if line.strip()), ""))
        delimiter = max(_DELIMITERS, key=first.count)
    lines, size = list[str](), 0
    limit_before = csv.field_size_limit(MAX_CHARACTERS)  # of the whole process
    try:
        for row in csv.reader(io.StringIO(text), delimiter=delimiter):
            cells = [_WHITE.sub(" ", cell).strip() for cell in row]
            if any(cells):
                lines.append(" | ".join(cells))
                size += len(lines[-1])
            if size > MAX_CHARACTERS:
                break
    except csv.Error as error:  # not a table, whatever its name says
        return PageText("", "", None, text, (f"read as text: {error}",))
    finally:
        csv.field_size_limit(limit_before)
    defects = (
        (f"table cut after {len(lines):,} rows; all of it is in the archive",) if size > MAX_CHARACTERS else ()
    )
    return PageText("", "", None, "\n".join(lines), defects)


def read_notebook(data: bytes) -> PageText:
    """Return the cells of a Jupyter notebook: its texts, its code, and the outputs that are text."""
    try:
        notebook = json.loads(read_text(data))
        language = str(notebook.get("metadata", {}).get("kernelspec", {}).get("language", ""))
        cells = notebook.get("cells") or [cell for sheet in notebook["worksheets"] for cell in sheet["cells"]]
        defects: list[str] = []
        texts = [_cell(cell, language, defects) for cell in cells]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UnreadableFile(f"the notebook is damaged ({error}): save it again") from error
    text = "\n\n".join(filter(None, texts))
    if not text:
        raise NoText("the notebook has no cell with a text")
    authors = notebook.get("metadata", {}).get("authors")
    with suppress(LookupError, TypeError):
        authors = authors[0]["name"]
    author = authors if isinstance(authors, str) else ""
    return PageText(read_title(text, "markdown", ""), author, None, text, tuple(dict.fromkeys(defects)))


def _cell(cell: object, language: str, defects: list[str]) -> str:
    if not isinstance(cell, dict):
        defects.append("a cell is damaged: it is left out")
        return ""
    source = _joined(cell.get("source", cell.get("input", "")))
    if cell.get("cell_type") != "code":
        return source.strip()
    parts = [f"```{language}\n{source.rstrip()}\n```"] if source.strip() else []
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else []:
        data = output.get("data", {}) if isinstance(output, dict) else None
        if not isinstance(data, dict):
            defects.append("an output is damaged: it is left out")
            continue
        text = _joined(output.get("text") or data.get("text/markdown") or data.get("text/plain") or "")
        if output.get("output_type") == "error":
            text = f"{output.get('ename')}: {output.get('evalue')}"
        if len(text) > _MAX_OUTPUT_CHARACTERS:
            defects.append(f"outputs cut after {_MAX_OUTPUT_CHARACTERS:,} characters; all of it is in the archive")
        parts.append(text[:_MAX_OUTPUT_CHARACTERS].strip())
    return "\n\n".join(filter(None, parts))


def _joined(lines: object) -> str:
    return "".join(map(str, lines)) if isinstance(lines, list) else str(lines or "")


# What is in brackets is short here: the search for the end of many that are not closed would take their square.
# A "%" in an address is no comment.
_COMMENT = re.compile(r"(\\(?:url|href|path|nolinkurl)\s*\{[^{}\n]*\})|(?<!\\)((?:\\\\)*)%.*")
_ACCENT = re.compile(
    r"(?<!\\)\\([\"'`^~=.]|[uvHcdbkr](?![A-Za-z]))\s*(?:\{\\?([A-Za-z])\}|\\?([A-Za-z])(?![A-Za-z]*\{))"
)
_ACCENTS = dict(
    zip(
        "\"'`^~=.uvHcdbkr",
        "\u0308\u0301\u0300\u0302\u0303\u0304\u0307\u0306\u030c\u030b\u0327\u0323\u0331\u0328\u030a",
        strict=True,
    )
)
_LETTERS = dict(zip("ss ae AE oe OE aa AA o O l L".split(), "ßæÆœŒåÅøØłŁ", strict=True))  # noqa: SIM905
_LETTER = re.compile(r"(?<!\\)\\(ss|ae|AE|oe|OE|aa|AA|[oOlL])(?![A-Za-z])(?:\{\}|[ \t]+|(?=[^A-Za-z]))")
_ABOUT = re.compile(r"\\(title|author|date)\s*(?:\[[^\]]{0,500}\])?\{((?:[^{}]|\{[^{}]*\})*)\}")
_SECTION = re.compile(
    r"\\(part|chapter|(?:sub){0,2}section|(?:sub)?paragraph)\*?\s*(?:\[[^\]]{0,500}\])?\{((?:[^{}]|\{[^{}]*\})*)\}"
)
_DROPPED = re.compile(
    r"\\(?:label|pagestyle|thispagestyle|vspace|hspace|includegraphics|bibliographystyle|bibliography|setlength"
    r"|setcounter|input|include|usepackage|documentclass|RequirePackage|hypersetup|geometry)\*?\s*"
    r"(?:\[[^\]]{0,500}\])?(?:\{[^{}]*\}){0,2}"
)
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\s*\{[^{}]*\}(?:\[[^\]]{0,500}\])?")
_COMMAND = re.compile(r"\\[A-Za-z]+\*?\s*(?:\[[^\[\]]*\])?\{([^{}]*)\}")
_BARE_COMMAND = re.compile(
    r"\\(?:maketitle|tableofcontents|newpage|clearpage|noindent|centering|bigskip|medskip|par)\b"
)
_FOOTNOTE = re.compile(r"\\footnote\{((?:[^{}]|\{[^{}]*\})*)\}")
_ITEM = re.compile(r"\\item\b\s*(?:\[([^\]]{0,500})\])?[ \t]*")
_ESCAPE = re.compile(r"\\([%&$#_{}])")
_MAX_NESTED_COMMANDS = 5
_BLANK_LINES = re.compile(r"\n\s*\n\s*\n+")


def read_latex(data: bytes, charset: str = "") -> PageText:
    """Return the text of a LaTeX file without comments and layout; formulas stay as written."""
    text = _COMMENT.sub(lambda it: it[1] or it[2], read_text(data, charset))
    about = {name: _latex_text(value).strip() for name, value in reversed(_ABOUT.findall(text))}
    body = _ABOUT.sub("", text)
    if r"\begin{document}" in body:
        body = body.partition(r"\begin{document}")[2].partition(r"\end{document}")[0]
    body = _latex_text(body).strip()
    if not body and not about:
        raise NoText("the LaTeX file has no text outside of its commands")
    author = ", ".join(part.strip() for part in re.split(r"\\and\b", about.get("author", "")))
    title = about.get("title") or read_title(body, "markdown", "")
    return PageText(
        " ".join(title.replace("\\\\", " ").split()), author, date_of(about.get("date", "")), body or title
    )


def _accented(match: re.Match[str]) -> str:
    return unicodedata.normalize("NFC", (match[2] or match[3]) + _ACCENTS[match[1]])


def _latex_text(text: str) -> str:
    text = _LETTER.sub(lambda it: _LETTERS[it[1]], _ACCENT.sub(_accented, text))
    text = _SECTION.sub(r"\n# \2\n", text)
    text = _ENVIRONMENT.sub("", _BARE_COMMAND.sub("", _DROPPED.sub("", text)))
    text = _ITEM.sub(lambda item: f"- {item[1]}: " if item[1] else "- ", text)
    text = _FOOTNOTE.sub(r" [\1]", text)
    for _ in range(_MAX_NESTED_COMMANDS):
        text, count = _COMMAND.subn(r"\1", text)
        if not count:
            break
    text = _ESCAPE.sub(r"\1", text.replace("``", '"').replace("''", '"').replace("~", " ").replace("---", "–"))
    return _BLANK_LINES.sub("\n\n", text)


_MAN_TITLE = re.compile(r'^\.(?:TH|Dt)\s+("[^"]*"|\S+)\s*("[^"]*"|\S+)?\s*("[^"]*"|\S+)?', re.MULTILINE)
_MAN_HEADING = re.compile(r"\.S[HSh]\s*(.*)", re.IGNORECASE)
_MAN_COMMENT = re.compile(r"^['.]?\s*\\[\"#].*|(?<!\\)\\\".*")
_MAN_FONT = re.compile(r"\\f(?:\[[^\]]{0,60}\]|\(..|.)|\\s[+-]?\d|\\[&|^/,)%:~!c]")
_MAN_CHARACTERS = {
    r"\-": "-", r"\(em": "—", r"\(en": "–", r"\(aq": "'", r"\(dq": '"', r"\(lq": "“", r"\(rq": "”", r"\(bu": "•",
    r"\(co": "©", r"\(ha": "^", r"\(ti": "~", r"\*(lq": "“", r"\*(rq": "”", r"\e": "\\", r"\ ": " ", r"\0": " ",
    r"\'": "'", r"\`": "`", r"\.": ".", "\\\\": "\\",
}  # fmt: skip
_MAN_NAMED = re.compile(
    r"\\\[?u([0-9A-F]{4,6})\]|" + "|".join(map(re.escape, sorted(_MAN_CHARACTERS, key=len, reverse=True)))
)
_MAN_TEXT_MACROS = frozenset(
    "B I R BR BI IB IR RB RI SM SB IP TP MR UR MT Nm Nd Op Fl Ar Cm Pa Xr Ev Va Em Sy Li Dq Sq Ql It Ic".split()  # noqa: SIM905
)
_MAN_BREAKS = frozenset("PP P LP TP IP HP Pp sp br It RS RE nf fi EX EE".split())  # noqa: SIM905


def read_man(data: bytes, charset: str = "") -> PageText:
    """Return the text of a manual page, with its headings; requests of layout are dropped."""
    text = read_text(data, charset)
    about = _MAN_TITLE.search(text)
    fields = [(field or "").strip('"') for field in about.groups()] if about else ["", "", ""]
    lines: list[str] = []
    for line in text.replace("\\\n", "").split("\n"):
        line = _MAN_COMMENT.sub("", line)  # noqa: PLW2901
        if heading := _MAN_HEADING.fullmatch(line):
            lines += ["", f"# {_man_text(heading[1])}", ""]
        elif line.startswith((".", "'")):
            name, _, rest = line[1:].strip().partition(" ")
            if name in _MAN_BREAKS:
                lines.append("")
            if name in _MAN_TEXT_MACROS and rest.strip():
                joined = "" if len(name) == 2 and set(name) <= set("BIR") else " "
                words = re.findall(r'"((?:[^"]|"")*)"|(\S+)', rest)
                lines.append(_man_text(joined.join(quoted or bare for quoted, bare in words)))
        else:
            lines.append(_man_text(line))
    body = _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()
    if not body:
        raise NoText("the manual page has no text: it may only refer to another one")
    title = f"{fields[0].lower()}({fields[1]})" if fields[0] and fields[1] else fields[0]
    return PageText(title, "", date_of(fields[2]), body)


def _man_text(text: str) -> str:
    def named(match: re.Match[str]) -> str:
        if match[1] is None:
            return _MAN_CHARACTERS[match[0]]
        with suppress(ValueError, OverflowError):
            return chr(int(match[1], 16))
        return ""

    return _MAN_NAMED.sub(named, _MAN_FONT.sub("", text)).strip('"')


_CUE = re.compile(r"\s*(?:\d+:)?\d\d?:\d\d[.,]\d{1,3}\s*-->|\s*\d+:\d\d:\d\d\.\d{3},\d+:\d\d:\d\d\.\d{3}\s*$")
_CUE_TAG = re.compile(r"</?(?:[a-z]{1,4}|\d[\d:.]*)(?:[ .][^<>]*)?>|\{\\[^}]{0,500}\}", re.IGNORECASE)
_SPEAKER = re.compile(r"<v(?:\.[^ <>]*)? ([^<>]+)>")
_VTT_BLOCKS = ("NOTE", "STYLE", "REGION")


def read_subtitles(data: bytes, charset: str = "") -> PageText:
    """Return what is said in SubRip or WebVTT subtitles, without numbers, times and markup."""
    said: list[str] = []
    title = ""
    for block in re.split(r"\n[ \t]*\n", read_text(data, charset).strip("\n")):
        lines = block.split("\n")
        if lines[0].startswith("WEBVTT"):
            title = lines[0][6:].strip(" -\t")
            continue
        cue = next((place for place, line in enumerate(lines[:3]) if _CUE.match(line)), None)
        if cue is None and lines[0].split(" ")[0] in _VTT_BLOCKS:
            continue
        for line in lines[0 if cue is None else cue + 1 :]:
            text = _CUE_TAG.sub("", _SPEAKER.sub(r"\1: ", line)).strip()
            if text and (not said or said[-1] != text):  # rolling captions repeat the line before
                said.append(text)
    if not said:
        raise NoText("the subtitles have no text")
    return PageText(title, "", None, "\n".join(said))
