"""Tell what the author of a mail wrote from what they quoted and from their signature."""

from __future__ import annotations

import re
from bisect import bisect
from itertools import accumulate, compress, count, islice, pairwise
from operator import is_not
from typing import Final

Span = tuple[str, int, int]

NEW: Final = "new"
QUOTE: Final = "quote"
SIGNATURE: Final = "signature"

_MAX_MARKED: Final = 1_000_000
# Longer than any line of these kinds, and short enough for any pattern.
_LONG: Final = 400
_MAX_SIGNATURE: Final = 40
_MAX_LOOSE_SIGNATURE: Final = 8
_MAX_FOOTER: Final = 25
_MAX_ATTRIBUTION: Final = 4

_HUNK: Final = re.compile(r"@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")
_INDENTED_QUOTE: Final = re.compile(r"[ \t]{1,3}>")
# "JS> ", as supercite puts it. Longer or lower-case ones are the prompts of programs.
_INITIALS: Final = re.compile(r" ?(?!SQL)[A-Z][A-Za-z]{0,2}>")
_PROMPT_LIKE: Final = re.compile(r" {0,2}[A-Za-z]{1,5}>|\|(?: |$)")

_WROTE: Final = re.compile(
    r"(?:\b(?:wrote|writes|said|schrieb|schreibt|a écrit|écrit|escribió|escribio|ha scritto|scrisse|escreveu"
    r"|schreef|skrev|skriver|kirjoitti|napisał(?:\(a\)|a)?|pisze|napsal(?:\(a\)|a)?|írta|yazdı|пишет|писал(?:\(а\)|а)?"
    r"|написал(?:\(а\)|а)?|έγραψε)\b[^:：]{0,40}|写道|寫道|のメール|書きました|님이 작성)"
    r"[ \t]*(?:[:：]|\.{2,3})?[ \t]*$"
    r"|\bwrote[^:]{0,60}:$",
    re.IGNORECASE,
)
_OPENS: Final = re.compile(
    r"[ \t]*(?:On|Am|Le|El|Il|Em|Op|Den|Dne|W dniu|Dnia|At|In article|In message|Em|Quoting|>>>>>|\*+|Pe|Vào|Στις|"
    r"В|Le jeu|Il giorno|Op|På|Quoth|Thus spake|\d{4}[-年/]|\d{1,2}[./]\s?\d{1,2}[./])(?=[ \t,.\d\"'/年-]|$)",
)
_DATE_OR_ADDRESS: Final = re.compile(r"@|\b(?:19|20)\d\d\b|\d{1,2}:\d\d")

_ORIGINAL: Final = re.compile(
    r"-{2,}[ \t]*(?:Original (?:Message|Appointment)|Ursprüngliche Nachricht|Originalnachricht"
    r"|Message d['’]origine|Message original|Mensaje original|Messaggio originale|Mensagem original"
    r"|Oorspronkelijk bericht"
    r"|Ursprungligt meddelande|Original(?:meddelande|melding)|Oprindelig meddelelse|Alkuperäinen viesti"
    r"|Wiadomość oryginalna|Исходное сообщение|原始邮件|原始郵件|元のメッセージ|원본 메시지)[ \t]*-{2,}",
    re.IGNORECASE,
)
_FORWARDED: Final = re.compile(r"(?i)[ \t]*(?:-{2,}[ \t]*forwarded message|begin forwarded message)")
_FROM: Final = re.compile(
    r"\*?(?:From|Von|De|Da|Van|Från|Fra|Od|От|发件人|寄件者|差出人|보낸 사람)[ \xa0]?[:：]\*?[ \t\xa0]*\S"
)
_SENT: Final = re.compile(
    r"[ \t]*\*?(?:Sent|Date|Gesendet|Datum|Envoyé|Enviado(?: el| em)?|Fecha|Data|Inviato|Verzonden|Skickat|Sendt"
    r"|Wysłano|Отправлено|Дата|发送时间|日期|送信日時|보낸 날짜)[ \xa0]?[:：]"
)
_TO: Final = re.compile(r"[ \t]*\*?(?:To|An|À|Para|A|Aan|Till|Til|Do|Кому|收件人|宛先|받는 사람)[ \xa0]?[:：]")
_RULE: Final = re.compile(r"[_-]{10,}[ \t]*$")

_MOBILE: Final = re.compile(
    r"(?:Sent from (?:my|a|an|Mail for|Yahoo|Outlook|Proton|the all|Samsung)\b"
    r"|Sent (?:via|with) .{0,40}(?:Proton|Mail|Superhuman|BlackBerry|Mobile)|Get Outlook for\b"
    r"|Von meinem .{1,40} gesendet|Gesendet (?:von|mit) |Envoyé (?:de|depuis) mon\b|Enviado desde mi\b"
    r"|Enviado do meu\b|Inviato (?:da|dal) |Verstuurd vanaf\b|Verzonden vanaf\b|Skickat från min\b"
    r"|Sendt fra min\b|Wysłane z\b|Отправлено с\b|发自我的|從我的|iPhoneから送信)",
    re.IGNORECASE,
)
# How lines of these kinds begin: quick to look up for every line there is.
_DELIMITERS: Final = frozenset({"-- ", "--", "- -- "})
_BEGINS: Final = frozenset(
    {
        "--",
        "- ",
        "Fr",
        "Vo",
        "De",
        "Da",
        "Va",
        "Od",
        "От",
        "发件",
        "寄件",
        "差出",
        "보낸",
        "*F",
        "*V",
        "*D",
        "*O",
        "*О",
    }
    | {"Se", "Ge", "En", "In", "Ve", "Sk", "Wy", "发自", "從我", "iP"}
)
_ODD_QUOTE: Final = re.compile(r"\n(?:[ \t]{0,3}[A-Za-z]{0,5}(?<!\n)>|\|)")
_LIST: Final = re.compile(
    r"(?i)mailing list|listinfo|unsubscribe|list archives?|_______________"
    r"|you received this (?:message|email) because"
)
_PGP_BEGIN: Final = re.compile(r"-----BEGIN PGP (SIGNED MESSAGE|SIGNATURE|MESSAGE|PUBLIC KEY BLOCK)-----[ \t]*$")


def mark(body: str) -> tuple[Span, ...]:
    """Cover a mail's text with spans, each `new`, `quote` or `signature`, in order and without gaps."""
    if len(body) > _MAX_MARKED:
        # Nobody types a megabyte: the rest is data, and looking at its every line would only take time.
        cut = body.rfind("\n", 0, _MAX_MARKED) + 1
        spans = mark(body[:cut]) if cut else ()
        return (*spans, (NEW, cut, len(body)))
    if not body:
        return ()
    text = _Lines(body)
    if _ODD_QUOTE.search("\n" + body):
        _mark_quotes(text)
    _mark_attributions(text)
    _mark_original(text)
    if "-----BEGIN PGP" in body:
        _mark_pgp(text)
    _mark_signatures(text)
    _mark_footer(text)
    _mark_empty(text)
    return text.spans(len(body))


def new_text(body: str, spans: tuple[Span, ...]) -> str:
    """Only what is new in a mail's text."""
    pieces = (body[start:end].strip("\n") for kind, start, end in spans if kind == NEW)
    return "\n\n".join(piece for piece in pieces if piece.strip())


class _Lines:
    """The lines of a mail and the kind of each. Most lines are only ever looked at by their first characters."""

    def __init__(self, body: str) -> None:
        self.lines = body.split("\n")
        self.kinds = [QUOTE if line[:1] == ">" else NEW for line in self.lines]
        self.candidates = [i for i, line in enumerate(self.lines) if line[:2] in _BEGINS]
        """Lines that may begin an original message or a signature."""
        self._hunks = [i for i, line in enumerate(self.lines) if line[:4] == "@@ -"] if "@@ -" in body else []
        self._hunk_ends: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.lines)

    def fill(self, start: int, end: int, kind: str) -> None:
        self.kinds[start:end] = [kind] * (end - start)

    def changes(self) -> list[int]:
        """Where a line is of another kind than the one before it."""
        return list(compress(count(1), map(is_not, self.kinds, islice(self.kinds, 1, None))))

    def in_diff(self, index: int) -> bool:
        """Whether a line is inside of a diff, where nothing is a quote or a signature, whatever it looks like."""
        hunk = self._hunks[at - 1] if (at := bisect(self._hunks, index)) else -1
        if hunk < 0:
            return False
        if hunk not in self._hunk_ends:
            self._hunk_ends[hunk] = self._hunk_end(hunk)
        return index < self._hunk_ends[hunk]

    def _hunk_end(self, hunk: int) -> int:
        header = _HUNK.match(self.lines[hunk])
        if header is None:
            return hunk
        old, new = int(header[1] or 1), int(header[2] or 1)
        index = hunk + 1
        while index < len(self.lines) and (old > 0 or new > 0):
            first = self.lines[index][:1]
            if first not in (" ", "+", "-", "\\", ""):
                break
            old -= first in (" ", "-", "")
            new -= first in (" ", "+", "")
            index += 1
        return index

    def spans(self, length: int) -> tuple[Span, ...]:
        sizes = list(accumulate(map(len, self.lines), initial=0))
        bounds = [0, *self.changes(), len(self.lines)]
        # Every line but the last is followed by a line end, which belongs to it.
        return tuple(
            (self.kinds[first], sizes[first] + first, min(sizes[last] + last, length))
            for first, last in pairwise(bounds)
            if sizes[first] + first < length
        )


def _mark_quotes(text: _Lines) -> None:
    """Quotes that do not begin with ">": indented ones at once, the others only in company."""
    odd: list[int] = []
    for index, line in enumerate(text.lines):
        if (line[:1] == "|" or (">" in line[1:7] and line[0] != ">")) and not text.in_diff(index):
            if _INDENTED_QUOTE.match(line):
                text.kinds[index] = QUOTE
            elif _PROMPT_LIKE.match(line):
                odd.append(index)
    if odd:
        _mark_odd_quotes(text, odd)


def _mark_odd_quotes(text: _Lines, odd: list[int]) -> None:
    """Quotes marked by a bar or by initials: where an attribution announces them, or initials repeat."""
    lines = text.lines
    prefixes = {i: "|" if lines[i][0] == "|" else lines[i].partition(">")[0].strip() + ">" for i in odd}
    trusted: set[str] = set()
    for index, prefix in prefixes.items():
        before = index - 1 if index and lines[index - 1].strip() else index - 2
        if prefix in trusted:
            continue
        announced = before >= 0 and _is_attribution(lines[before])
        repeated = prefixes.get(index - 1) == prefix and _INITIALS.match(prefix) is not None
        if announced or repeated:
            trusted.add(prefix)
    for index, prefix in prefixes.items():
        if prefix in trusted:
            text.kinds[index] = QUOTE


def _is_attribution(line: str) -> bool:
    text = line[: _LONG + 1].strip()
    if not text or len(text) > _LONG:
        return False
    colon, dated = text.endswith((":", "：")), _DATE_OR_ADDRESS.search(text) is not None
    if _WROTE.search(text):
        return colon or dated  # a sentence may end in "as I wrote"
    return colon and dated and ("@" in text or _OPENS.match(text) is not None)


def _mark_attributions(text: _Lines) -> None:
    """The line before a quote that says whose words follow, which may be broken over several lines."""
    lines, kinds = text.lines, text.kinds
    for index in text.changes():
        if kinds[index] != QUOTE:
            continue
        last = index - 1
        if not lines[last].strip():
            last -= 1
        if last < 0 or kinds[last] != NEW or not _is_attribution(lines[last]):
            continue
        first = last
        if not (_OPENS.match(lines[last]) and _DATE_OR_ADDRESS.search(lines[last])):
            for candidate in range(last - 1, max(last - _MAX_ATTRIBUTION, -1), -1):
                line = lines[candidate]
                if kinds[candidate] != NEW or not line.strip() or len(line) > _LONG:
                    break
                if _OPENS.match(line):
                    first = candidate
                    break
        text.fill(first, index, QUOTE)


def _mark_original(text: _Lines) -> None:
    """What Outlook puts below a reply: all that follows is quoted, though no line says so."""
    lines = text.lines
    for index in text.candidates:
        line = lines[index]
        if text.kinds[index] != NEW or len(line) > _LONG:
            continue
        if _ORIGINAL.match(line) or (_FROM.match(line) and _is_reply_block(lines, index)):
            if text.in_diff(index):
                continue
            start = index
            while start and (not lines[start - 1].strip() or _RULE.match(lines[start - 1])):
                start -= 1
            text.fill(start, len(text), QUOTE)
            return


def _is_reply_block(lines: list[str], index: int) -> bool:
    # A patch may begin with From, Date and Subject of its author; a reply also says To; a forward says it is one.
    block = lines[index + 1 : index + 8]
    if not any(map(_SENT.match, block)) or not any(map(_TO.match, block)):
        return False
    return not any(map(_FORWARDED.match, lines[max(index - 3, 0) : index]))


def _mark_pgp(text: _Lines) -> None:
    """The armour of PGP: nobody reads it."""
    index = 0
    while index < len(text):
        line = text.lines[index]
        begin = _PGP_BEGIN.match(line) if line.startswith("-----BEGIN PGP") else None
        if begin is None or text.kinds[index] != NEW:
            index += 1
            continue
        # The armour of a signed text ends with its own headers, at an empty line.
        closing = "" if begin[1] == "SIGNED MESSAGE" else f"-----END PGP {begin[1]}-----"
        ended = False
        while index < len(text) and not ended:
            text.kinds[index] = SIGNATURE
            ended = text.lines[index].rstrip() == closing
            index += 1


def _mark_signatures(text: _Lines) -> None:
    """Signatures: from their delimiter to the next quote, or to the end."""
    lines, kinds = text.lines, text.kinds
    for index in reversed(text.candidates):
        line = lines[index]
        if kinds[index] != NEW or not (line in _DELIMITERS or _MOBILE.match(line)):
            continue
        end = index + 1
        last = min(len(lines), index + _MAX_SIGNATURE + 2)
        while end < last and kinds[end] == NEW:
            end += 1
        size = end - index - 1
        if size > _MAX_SIGNATURE or text.in_diff(index):
            continue
        if line not in _DELIMITERS:
            filled = sum(map(bool, map(str.strip, lines[index:end])))
            found = len(line) < 120 and filled <= 3
        elif line == "--" or (end < len(lines) and lines[end] in _DELIMITERS):
            # Without its space it may be anything, and so may one that another one follows.
            found = size <= _MAX_LOOSE_SIGNATURE or _announces_list(lines, index + 1)
        else:
            found = True
        if found and not any(later.startswith(("@@ -", "diff --git ")) for later in lines[index + 1 : end]):
            text.fill(index, end, SIGNATURE)


def _announces_list(lines: list[str], start: int) -> bool:
    return any(len(line) <= _LONG and _LIST.search(line) for line in lines[start : start + 4])


def _mark_footer(text: _Lines) -> None:
    """What a list server adds at the end, below a rule."""
    for index in range(len(text) - 1, max(len(text) - _MAX_FOOTER, -1), -1):
        line = text.lines[index]
        if line[:10] not in ("_" * 10, "-" * 10) or text.kinds[index] == QUOTE or text.in_diff(index):
            continue
        if _RULE.match(line) and _announces_list(text.lines, index + 1):
            text.fill(index, len(text), SIGNATURE)
            return


def _mark_empty(text: _Lines) -> None:
    """Empty lines go with what is before them; no span is made of nothing else."""
    lines, kinds = text.lines, text.kinds
    for index in text.changes():
        at, before = index, kinds[index - 1]
        while at < len(lines) and kinds[at] == NEW and before != NEW and not lines[at].strip():
            kinds[at] = before
            at += 1
    first = next(iter(text.changes()), 0)
    if kinds[0] == NEW and not any(map(str.strip, lines[:first])):
        text.fill(0, first, kinds[first])
