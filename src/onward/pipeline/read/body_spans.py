"""Mark the parts of a mail body: new text, quotes and signature."""

from __future__ import annotations

import re
from functools import cached_property
from itertools import accumulate, compress, count, islice, pairwise
from operator import is_not

BodySpan = tuple[str, int, int]

NEW = "new"
QUOTE = "quote"
SIGNATURE = "signature"

_MAX_MARKED_CHARACTERS = 1_000_000
# Longer lines are never attributions or headers; shorter ones are fast to match.
_LONG = 400
_MAX_SIGNATURE = 40
_MAX_LOOSE_SIGNATURE = 8
_MAX_FOOTER = 25
_MAX_ATTRIBUTION = 4

_HUNK = re.compile(r"@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")
_INDENTED_QUOTE = re.compile(r"[ \t]{1,3}>")
# "JS> ", as written by supercite. Longer or lower-case prefixes are prompts of programs.
_INITIALS = re.compile(r" ?(?!SQL)[A-Z][A-Za-z]{0,2}>")
_PROMPT_LIKE = re.compile(r" {0,2}[A-Za-z]{1,5}>|\|(?: |$)")

_WROTE = re.compile(
    r"(?:\b(?:wrote|writes|said|schrieb|schreibt|a écrit|écrit|escribió|escribio|ha scritto|scrisse|escreveu"
    r"|schreef|skrev|skriver|kirjoitti|napisał(?:\(a\)|a)?|pisze|napsal(?:\(a\)|a)?|írta|yazdı|пишет|писал(?:\(а\)|а)?"
    r"|написал(?:\(а\)|а)?|έγραψε)\b[^:：]{0,40}|写道|寫道|のメール|書きました|님이 작성)"
    r"[ \t]*+(?:[:：]|\.{2,3})?[ \t]*+$"
    r"|\bwrote[^:]{0,60}:$",
    re.IGNORECASE,
)
_OPENS = re.compile(
    r"[ \t]*(?:On|Am|Le|El|Il|Em|Op|Den|Dne|W dniu|Dnia|At|In article|In message|Em|Quoting|>>>>>|\*+|Pe|Vào|Στις|"
    r"В|Le jeu|Il giorno|Op|På|Quoth|Thus spake|\d{4}[-年/]|\d{1,2}[./]\s?\d{1,2}[./])(?=[ \t,.\d\"'/年-]|$)"
)
_DATE_OR_ADDRESS = re.compile(r"@|\b(?:19|20)\d\d\b|\d{1,2}:\d\d")

# The lines of mail programs above a mail that is answered or forwarded, in many languages.
_ORIGINAL = re.compile(
    r"-{2,}[ \t]*(?:Original (?:Message|Appointment)|Ursprüngliche Nachricht|Originalnachricht"
    r"|Message d['’]origine|Message original|Mensaje original|Messaggio originale|Mensagem original"
    r"|Oorspronkelijk bericht|Ursprungligt meddelande|Original(?:meddelande|melding)|Opprinnelig melding"
    r"|Oprindelig meddelelse|Alkuperäinen viesti|Wiadomość oryginalna|Původní zpráva|Eredeti üzenet|Özgün ileti"
    r"|Αρχικό μήνυμα|Исходное сообщение|原始邮件|原始郵件|元のメッセージ|원본 메시지)[ \t]*-{2,}",
    re.IGNORECASE,
)
_FORWARDED = re.compile(
    r"[ \t]*(?:-{2,}[ \t]*(?:forwarded (?:message|by)|weitergeleitete nachricht|message transféré"
    r"|mensaje reenviado|messaggio inoltrato|mensagem (?:encaminhada|reencaminhada)|doorgestuurd bericht"
    r"|vidarebefordrat meddelande|videresendt (?:besked|melding)|välitetty viesti|przekazana wiadomość"
    r"|přeposlaná zpráva|továbbított üzenet"
    r"|iletilen ileti|προωθημένο μήνυμα|(?:перенаправленн|пересылаем)ое сообщение|转发的邮件|轉寄的郵件"
    r"|転送されたメッセージ|전달된 메시지)"
    r"|begin forwarded message|anfang der weitergeleiteten nachricht|début du message (?:réexpédié|transféré)"
    r"|inicio del mensaje reenviado|inizio messaggio inoltrato|início da mensagem (?:encaminhada|reencaminhada)"
    r"|begin doorgestuurd bericht|vidarebefordrat brev)",
    re.IGNORECASE,
)
_FORWARD_SUBJECT = re.compile(
    r"\s*(?:\[[^\]]{0,60}\]\s*)?(?:fwd?|wg|tr|rv|i|enc|doorst|vb|vs|vl|pd|tovább|ilt|πρθ|пересл|转发|轉寄|転送|전달)"
    r"\s?[:：]|.*\(fwd\)\s*$",
    re.IGNORECASE,
)
_FROM_LABELS = (
    *("From", "Von", "De", "Da", "Van", "Från", "Fra", "Od", "Lähettäjä", "Feladó", "Kimden", "Από", "От"),
    *("发件人", "寄件者", "差出人", "보낸 사람"),
)
_FROM = re.compile(rf"\*?(?:{'|'.join(_FROM_LABELS)})[ \xa0]?[:：]\*?[ \t\xa0]*\S")
_SENT = re.compile(
    r"[ \t]*\*?(?:Sent|Date|Gesendet|Datum|Envoyé|Enviado(?: el| em)?|Fecha|Data|Inviato|Verzonden|Skickat|Sendt"
    r"|Lähetetty|Wysłano|Odesláno|Elküldve|Gönderildi|Gönderilme Tarihi|Tarih|Στάλθηκε|Ημερομηνία|Отправлено|Дата"
    r"|发送时间|寄件日期|日期|送信日時|日付|보낸 날짜|날짜)[ \xa0]?[:：]"
)
_TO = re.compile(
    r"[ \t]*\*?(?:To|An|À|Para|A|Aan|Till|Til|Vastaanottaja|Do|Komu|Címzett|Kime|Προς|Кому|收件人|收件者|宛先"
    r"|받는 사람)[ \xa0]?[:：]"
)
_HEADER = re.compile(r"\*?\w[^:：]{0,30}[:：]|[ \t]+\S")
_BLANK = re.compile(r"\s*\Z")
_RULE = re.compile(r"[_-]{10,}[ \t]*$")

_MOBILE = re.compile(
    r"(?:Sent from (?:my|a|an|Mail for|Yahoo|NextStep|Proton|the all|Samsung)\b"
    r"|Sent (?:via|with) .{0,40}(?:Proton|Mail|Superhuman|BlackBerry|Mobile)|Get NextStep for\b"
    r"|Von meinem .{1,40} gesendet|Gesendet (?:von|mit) |Envoyé (?:de|depuis) mon\b|Enviado desde mi\b"
    r"|Enviado do meu\b|Inviato (?:da|dal) |Verstuurd vanaf\b|Verzonden vanaf\b|Skickat från min\b"
    r"|Sendt fra min\b|Wysłane z\b|Отправлено с\b|发自我的|從我的|iPhoneから送信)",
    re.IGNORECASE,
)
# The first two characters of such lines: a fast check for every line.
_DELIMITERS = frozenset({"-- ", "--", "- -- "})
_BEGINS = (
    frozenset({"--", "- ", "Be", "be", "An", "Dé", "In", "Vi", "Vo", "Se", "Ge", "En", "Ve", "Sk", "Wy", "iP"})
    | {"发自", "從我"}
    | {label[:2] for label in _FROM_LABELS}
    | {f"*{label[:1]}" for label in _FROM_LABELS}
)
_ODD_QUOTE = re.compile(r"\n(?:[ \t]{0,3}[A-Za-z]{0,5}(?<!\n)>|\|)")
_LIST = re.compile(
    r"(?i)mailing list|listinfo|unsubscribe|list archives?|_{15}|you received this (?:message|email) because"
)
_PGP_BEGIN = re.compile(r"-----BEGIN PGP (SIGNED MESSAGE|SIGNATURE|MESSAGE|PUBLIC KEY BLOCK)-----[ \t]*$")


def body_spans(body: str, subject: str = "") -> tuple[BodySpan, ...]:
    """Cover a mail's text with spans, in order and without gaps. A forwarded mail counts as new."""
    if len(body) > _MAX_MARKED_CHARACTERS:
        # The rest of such a mail is data: marking it would only take time.
        cut = body.rfind("\n", 0, _MAX_MARKED_CHARACTERS) + 1
        spans = body_spans(body[:cut], subject) if cut else ()
        return (*spans, (NEW, cut, len(body)))
    if not body:
        return ()
    text = _Lines(body)
    if _ODD_QUOTE.search("\n" + body):
        _mark_quotes(text)
    _mark_attributions(text)
    _mark_original(text, forwarded=_FORWARD_SUBJECT.match(subject) is not None)
    if "-----BEGIN PGP" in body:
        _mark_pgp(text)
    _mark_signatures(text)
    _mark_footer(text)
    _mark_empty(text)
    sizes = list(accumulate(map(len, text.lines), initial=0))
    # The line end belongs to its line; the last line has none.
    return tuple(
        (text.kinds[first], sizes[first] + first, min(sizes[last] + last, len(body)))
        for first, last in pairwise([0, *text.changes(), len(text.lines)])
        if sizes[first] + first < len(body)
    )


class _Lines:
    """The lines of a mail and the kind of each."""

    def __init__(self, body: str) -> None:
        self.lines = body.split("\n")
        self.kinds = [QUOTE if line[:1] == ">" else NEW for line in self.lines]
        # Lines that may begin an original message or a signature.
        self.candidates = [i for i, line in enumerate(self.lines) if line[:2] in _BEGINS]

    def fill(self, start: int, end: int, kind: str) -> None:
        self.kinds[start:end] = [kind] * (end - start)

    def changes(self) -> list[int]:
        """Return the indexes of lines of another kind than the line before."""
        return list(compress(count(1), map(is_not, self.kinds, islice(self.kinds, 1, None))))

    @cached_property
    def diff_lines(self) -> set[int]:
        """The indexes of lines of a diff, where nothing is a quote or a signature."""
        found: set[int] = set()
        old = new = 0
        for index, line in enumerate(self.lines):
            first = line[:1]
            if first == "@" and (header := _HUNK.match(line)):
                old, new = int(header[1] or 1), int(header[2] or 1)
            elif (old > 0 or new > 0) and first in (" ", "+", "-", "\\", ""):
                old -= first in (" ", "-", "")
                new -= first in (" ", "+", "")
            else:
                old = new = 0
                continue
            found.add(index)
        return found


def _mark_quotes(text: _Lines) -> None:
    """Mark quotes that are indented, or marked by a bar or initials, announced or repeated."""
    lines = text.lines
    prefixes: dict[int, str] = {}
    for index, line in enumerate(lines):
        if (line[:1] == "|" or (">" in line[1:7] and line[0] != ">")) and index not in text.diff_lines:
            if _INDENTED_QUOTE.match(line):
                text.kinds[index] = QUOTE
            elif _PROMPT_LIKE.match(line):
                prefixes[index] = "|" if line[0] == "|" else line.partition(">")[0].strip() + ">"
    trusted: set[str] = set()
    for index, prefix in prefixes.items():
        if prefix in trusted:
            continue
        before = index - 1 if index and lines[index - 1].strip() else index - 2
        repeated = prefixes.get(index - 1) == prefix and _INITIALS.match(prefix)
        if repeated or (before >= 0 and _is_attribution(lines[before])):
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
    """Mark attributions before quotes ("… wrote:"), which may span several lines."""
    lines, kinds = text.lines, text.kinds
    for index in text.changes():
        if kinds[index] != QUOTE:
            continue
        last = index - 1 if lines[index - 1].strip() else index - 2
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


def _mark_original(text: _Lines, *, forwarded: bool) -> None:
    """Mark the original mail that a program adds below a reply as quote."""
    lines = text.lines
    for index in text.candidates:
        line = lines[index]
        if text.kinds[index] != NEW or len(line) > _LONG:
            continue
        block = lines[index + 1 : index + 8]
        # A patch may begin with From, Date and Subject; a reply also has To.
        reply = _FROM.match(line) and any(map(_SENT.match, block)) and any(map(_TO.match, block))
        if not (_ORIGINAL.match(line) or reply or _FORWARDED.match(line)) or index in text.diff_lines:
            continue
        first = index + 1
        for pattern in (_BLANK, _HEADER, _BLANK):
            while first < len(lines) and pattern.match(lines[first]):
                first += 1
        marked = first < len(lines) and text.kinds[first] == QUOTE
        if forwarded or any(map(_FORWARDED.match, lines[max(index - 3, 0) : index + 1])):
            if marked:
                text.fill(first, len(lines), NEW)
            return
        start = index
        while start and (not lines[start - 1].strip() or _RULE.match(lines[start - 1])):
            start -= 1
        # If each quoted line is marked, the other lines are the reply.
        text.fill(start, first if marked else len(lines), QUOTE)
        return


def _mark_pgp(text: _Lines) -> None:
    """Mark the armour of PGP as signature."""
    closing = None  # the last line of the armour that is being marked
    for index, line in enumerate(text.lines):
        if closing is None and text.kinds[index] == NEW and (begin := _PGP_BEGIN.match(line)):
            # The armour of a signed text ends with its headers, at an empty line.
            closing = "" if begin[1] == "SIGNED MESSAGE" else f"-----END PGP {begin[1]}-----"
        if closing is not None:
            text.kinds[index] = SIGNATURE
            closing = None if line.rstrip() == closing else closing


def _mark_signatures(text: _Lines) -> None:
    """Mark signatures: from the delimiter to the next quote, or to the end."""
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
        if size > _MAX_SIGNATURE or index in text.diff_lines:
            continue
        if line not in _DELIMITERS:
            found = len(line) < 120 and sum(bool(each.strip()) for each in lines[index:end]) <= 3
        else:
            # Without its space, or before another delimiter, it may not be a delimiter.
            doubtful = line == "--" or (end < len(lines) and lines[end] in _DELIMITERS)
            found = not doubtful or size <= _MAX_LOOSE_SIGNATURE or _announces_list(lines, index + 1)
        if found and not any(later.startswith(("@@ -", "diff --git ")) for later in lines[index + 1 : end]):
            text.fill(index, end, SIGNATURE)


def _announces_list(lines: list[str], start: int) -> bool:
    return any(len(line) <= _LONG and _LIST.search(line) for line in lines[start : start + 4])


def _mark_footer(text: _Lines) -> None:
    """Mark the footer of a list server, below a rule."""
    lines = text.lines
    for index in range(len(lines) - 1, max(len(lines) - _MAX_FOOTER, -1), -1):
        if text.kinds[index] == QUOTE or lines[index][:10] not in ("_" * 10, "-" * 10) or index in text.diff_lines:
            continue
        if _RULE.match(lines[index]) and _announces_list(lines, index + 1):
            text.fill(index, len(lines), SIGNATURE)
            return


def _mark_empty(text: _Lines) -> None:
    """Add empty lines to the span before them; no span is only empty lines."""
    lines, kinds = text.lines, text.kinds
    for at in range(1, len(lines)):
        if kinds[at] == NEW and kinds[at - 1] != NEW and not lines[at].strip():
            kinds[at] = kinds[at - 1]
    first = next(iter(text.changes()), 0)
    if kinds[0] == NEW and not any(map(str.strip, lines[:first])):
        text.fill(0, first, kinds[first])
