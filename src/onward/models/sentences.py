"""Find the sentences of prose in a mail, page or file, as spans of its text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from onward.models.abbreviations import MAX_ABBREVIATION, ends_sentence
from onward.models.courtesies import MAX_COURTESY_LINE, SIGN_OFF, courtesy_line, is_courtesy, opening_end

Span = tuple[int, int]

MAX_SENTENCE_CHARACTERS = 420
MIN_SENTENCE_WORDS = 4
MIN_SENTENCE_CHARACTERS = 12

# Characters of Chinese and Japanese, which are written without spaces: about two of them make a word.
WIDE = "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f々〆〇"
_WIDE = re.compile(f"[{WIDE}]")
_WORDS = re.compile(r"[^\W\d_][\w'’-]*")
words = _WORDS.findall

# A signature, a patch or a quoted mail follows; there is no prose after it.
_END = re.compile(
    r"(?m)^(?:-- ?$|-{2,} ?(?:8<|>8|Original Message)|diff --git |Index: \S|--- a/|\*\*\* \S+\.c\b"
    r"|base-commit: |(?:Sent|Get) (?:from my|NextStep)\b|Von meinem .{1,30} gesendet|Envoyé (?:de|depuis) mon\b"
    r"|Enviado d(?:esde|o) m(?:i|eu)\b|Inviato da\b|发自我的|iPhoneから送信)"
)
# The line of three dashes ends the message of a patch. In other texts it is a rule.
_PATCH_NOTES = re.compile(r"(?m)^---$")
_PATCH = re.compile(r"(?m)^(?:diff --git |--- a/| \d+ files? changed)")
_FRONT_MATTER = re.compile(r"---[ \t]*\n(?:[\w-]+:.*\n|[ \t-].*\n|\n){1,60}---[ \t]*\n")
_FENCE = re.compile(r" {0,3}(?:```|~~~)")
_QUOTE_MARKS = re.compile(r"^[\s>]+")
_QUOTED = re.compile(r"^(?:[ \t]{0,3}>)+[ \t]?")
# The first characters of quotes, patches, tables and code.
_NOISE_MARKS = frozenset(">|+@#$%\t")
_NOISE = re.compile(
    r"""(?x)  # of a line in lower case
    # patches, code, rules, markup
    -(?![ -]|$) | \ {4,}\S | index\ [0-9a-f]{7} | [-=_*~.\s]+$ | <[a-z/!] | !?\[!\[
    | \S+\ +\|\ +\d+\ [-+]* | \d+\ files?\ changed | (?:create|delete)\ mode\ \d
    | v\d+\s*(?:->|\.\.|:\s*$) | \d+:\s+[0-9a-f-]{7,}\ [=!<>]
    # questions of a form
    | \(?(?:steps\ to\ reproduce|(?:expected|actual|current)\ behaviou?r)\b.{0,40}$
    # messages of programs
    | (?:error|fatal|warning|hint|remote)\s*:\s
    # headers and trailers
    | [a-z][a-z-]*-(?:by|to|cc|from|and-\S+)\s*:
    | (?:cc|fixes|link|bug|closes|change-id|from|to|sent|date|subject)\s*:\s
    | -{2,}\ *(?:forwarded|weitergeleitete|message\ transféré|mensaje\ reenviado)
    # links on their own
    | \[?\d*\]?:?\s*<?(?:https?|ftp|git|s?ssh)://\S+\s*$ | \[\d+\]:?\s+\S*(?:://|@)
    """
)
# Who wrote what is quoted next, in lower case.
_ATTRIBUTION = re.compile(
    r"""(?x)
    (?:on|le|am|el|il|op|em|den)\b.{4,120}
      \b(?:wrote|writes|écrit|schrieb|escribió|scritto|schreef|escreveu|skrev)\b.{0,40}:\s*$
    | .{0,80}<[^<>@\s]+@[^<>\s]+>\s*(?:wrote|writes)?[:：]?\s*$
    | .{0,60}\b(?:wrote|writes)\s*:\s*$ | .{0,80}(?:写道|寫道|のメール)[:：]\s*$
    """
)
# The line that a mail program adds, in many languages.
_DEVICE = re.compile(
    r"(?:.{0,30}\b(?:iphone|ipad|blackberry|samsung galaxy|android)\b"
    r"|(?:sent|gesendet|envoyé|enviado|inviato|verzonden) (?:from|von|de|depuis|desde|do|da|vanaf) )[^!?]{0,50}$"
)
_BULLET = re.compile(r"^\s{0,3}(?:[-*•o・]|\(?\d{1,2}[.)]|\(?[a-h]\))\s+")

_OPENERS = r"\"'(\[“‘«„‚¿¡「『（【《*"
_STOP = re.compile(
    # Begins with one set of characters: so it is found fast.
    rf"""(?x)[.!?…。！？｡．؟۔।](?:
    # the letter, digit or mark that the next sentence begins with, if a space is between
    (?<=[.!?…])[.!?…]*(?:[\"')\]”’»`*]+|[ \u00a0\u202f]»)?(?=\s+[{_OPENERS}]*([A-Z0-9`_<]|[^\x00-\x7f\s])|\s*\Z)
    | (?<=\?)(?=\s)
    | (?<=[。！？｡])[。！？｡]*[\"')\]”’」』）】》]*
    | (?<=[{WIDE}][!?．])(?=[{WIDE}])
    | (?<=[؟۔।])
    )"""
)
_WIDE_STOPS = frozenset("。！？｡")
_PAIRS = {"「": "」", "『": "』", "（": "）", "“": "”", "《": "》"}
# A quotation goes on so, in Japanese: it is a part of the sentence.
_GOES_ON = frozenset("とっのをはがもにで、，")

_CODE = re.compile(r"[{};=<>|\\$]|\w\(|->|::|/\w+/|__|--\w")
_LINK = re.compile(r"<?\b[a-z+]{2,8}://\S+")
CLOSING = ".!?…\"')]”’»`。！？｡」』）】》؟۔।"


def sentence_spans(text: str, *, readable: bool = False, quoted: bool = False) -> list[Span]:
    """Return start and end of each sentence of prose in a text, in order.

    Quotes, code, patches, headings, links, greetings, sign-offs and signatures are no prose. `quoted` reads the
    lines of quotes (`>`) as well; `one_line` removes their marks. `readable`: only what `is_readable` accepts.
    """
    found: list[Span] = []
    for start, stop in _blocks(text, quoted=quoted):
        for span in _split(text, start, stop, quoted=quoted):
            # After "Hallo zusammen," a text may begin in lower case.
            if not readable or is_readable(text[span[0] : span[1]], first=not found):
                found.append(span)
    return found


def is_readable(sentence: str, *, first: bool = False) -> bool:
    """Return whether a sentence is worth reading alone; the `first` of its text may begin in lower case."""
    wide = 0 if sentence.isascii() else len(_WIDE.findall(sentence))
    size = len(sentence)
    if size + wide < MIN_SENTENCE_CHARACTERS or size > MAX_SENTENCE_CHARACTERS or sentence[-1] in ":,;(：，、；":
        return False
    found = _WORDS.findall(_LINK.sub("", sentence) if "://" in sentence else sentence)
    count = len(found) + wide // 2
    return (
        count >= MIN_SENTENCE_WORDS
        and sum(map(len, found)) >= 0.66 * (size - sentence.count(" ") - sentence.count("\n"))
        and 4 * len(_CODE.findall(sentence)) <= count
        # Not the rest of a sentence that code or a quotation interrupts.
        and (sentence[-1] in CLOSING or count >= 8)
        and (first or count >= 8 or not sentence[0].islower())
        and not is_courtesy(sentence)
    )


def width(text: str) -> int:
    """Return the number of characters of a text; those of Chinese and Japanese count twice."""
    return len(text) if text.isascii() else len(text) + len(_WIDE.findall(text))


def one_line(sentence: str) -> str:
    """Return a sentence on one line, without marks of quotes and spaces between Chinese or Japanese characters."""
    if "\n" not in sentence:
        return " ".join(sentence.split())
    first, *others = sentence.splitlines()
    line = " ".join([first, *(_QUOTED.sub("", part, count=1).strip() for part in others)])
    if not line.isascii():
        line = re.sub(rf"(?<=[{WIDE}。、，！？」』]) (?=[{WIDE}「『])", "", line)
    return " ".join(line.split())


def _blocks(text: str, *, quoted: bool) -> Iterator[Span]:
    """Yield start and end of each paragraph and list item."""
    start = stop = 0
    signing = False  # between "Best regards," and the next empty line
    last = ""  # the last character of the line before, if that is prose
    for begin, line in _lines(text, quoted=quoted):
        content = line.rstrip()
        bullet = _BULLET.match(line) if content else None
        noise = not content or line[0] in _NOISE_MARKS
        signing = signing and content != ""
        if not noise and bullet is None:
            lowered = content.lower()
            noise = _NOISE.match(lowered) is not None
            if not noise and content[-1] in ":：>":
                noise = _ATTRIBUTION.match(lowered) is not None
            # In the middle of a sentence, "best" or "hello" is a word as any other.
            if not noise and (not last or last in CLOSING) and len(content) <= MAX_COURTESY_LINE:
                courtesy = courtesy_line(lowered)
                signing = signing or courtesy == SIGN_OFF
                noise = signing or courtesy != "" or _DEVICE.match(lowered) is not None
        if (noise or bullet is not None) and stop > start:
            yield start, stop
            start = stop
        if noise:
            last = ""
            continue
        if bullet is not None:
            start = begin + bullet.end()
        elif not last:
            start = begin
        stop = begin + len(line)
        last = content[-1]
    if stop > start:
        yield start, stop


def _lines(text: str, *, quoted: bool) -> Iterator[tuple[int, str]]:
    """Yield start and text of each line before the end of the prose; a block of code is an empty line."""
    matter = _FRONT_MATTER.match(text)
    place = matter.end() if matter is not None else 0
    end = _end(text, place)
    code_end = 0
    for line in text[place:end].splitlines(keepends=True):
        begin, place = place, place + len(line)
        if begin < code_end:
            continue
        content = line
        if quoted and (mark := _QUOTED.match(line)) is not None:
            begin += mark.end()
            content = line[mark.end() :]
        if (fence := _FENCE.match(content)) is not None:
            closing = text.find("\n" + fence[0], place - 1, end)
            code_end = closing + 1 + len(fence[0]) if closing >= 0 else place
            content = ""
        yield begin, content


def _end(text: str, start: int) -> int:
    """Return where the prose ends: before a signature or a patch."""
    found = _END.search(text, start)
    end = found.start() if found is not None else len(text)
    notes = _PATCH_NOTES.search(text, start, end)
    return notes.start() if notes is not None and _PATCH.search(text, notes.end()) is not None else end


def _split(text: str, start: int, stop: int, *, quoted: bool) -> list[Span]:
    """Return start and end of each sentence of a block, without a greeting at its begin."""
    begin = opening_end(text, start, stop)
    ends = [begin]
    for match in _STOP.finditer(text, begin, stop):
        if _is_end(text, ends[-1], stop, match):
            ends.append(match.end())
    if ends[-1] < stop:
        ends.append(stop)
    found = []
    for begin, end in pairwise(ends):
        sentence = text[begin:end].rstrip()
        kept = _QUOTE_MARKS.sub("", sentence, count=1) if quoted else sentence.lstrip()
        if _WORDS.search(kept):
            found.append((begin + len(sentence) - len(kept), begin + len(sentence)))
    return found


def _is_end(text: str, start: int, stop: int, match: re.Match[str]) -> bool:
    """Return whether a sentence of a block ends at this stop, or an abbreviation, a number or a quotation does."""
    mark, end = match[0], match.end()
    if mark[0] in _WIDE_STOPS:
        if mark[-1] not in _WIDE_STOPS and text[end : end + 1] in _GOES_ON:
            return False
        return not _in_quotation(text, start, stop, end)
    following = match[1]
    if following is None and mark != "?":  # the end of the block
        return True
    # Between double quotes, which are the same at both ends.
    if text.count('"', start, end) % 2 and text.find('"', end, stop) >= 0:
        return False
    if following is None:
        return True
    if mark[0] in "!?":
        return not following.islower()
    begun = max(start, match.start() - MAX_ABBREVIATION)
    return ends_sentence(text[begun : match.start()], mark, text[end : min(stop, end + MAX_ABBREVIATION)])


def _in_quotation(text: str, start: int, stop: int, place: int) -> bool:
    """Return whether a quotation that begins before a place in a block ends after it."""
    for opening, closing in _PAIRS.items():
        began = text.rfind(opening, start, place)
        if began >= 0 and text.find(closing, began, place) < 0 and text.find(closing, place, stop) >= 0:
            return True
    return False
