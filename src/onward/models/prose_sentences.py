"""Find the sentences in a mail that are prose: not code, patches, greetings, trailers or signatures."""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_CHARACTERS = 60_000  # only the beginning of a longer text is read
MAX_SENTENCE_CHARACTERS = 420
MIN_SENTENCE_WORDS = 4

# A signature, a patch or a quoted mail follows; there is no prose after it.
_END = re.compile(
    r"(?m)^(?:-- ?$|---$|-{2,} ?(?:8<|>8|Original Message|Forwarded)|diff --git |Index: \S|--- a/|\*\*\* \S+\.c\b"
    r"|base-commit: |(?:Sent|Get) (?:from my|NextStep)\b)"
)
_NOISE = re.compile(
    r"""(?xi)
    ^(?:
      # quotations, patches, code, rules
      [>|+@] | -(?![ -]|$) | \ {4,}\S | \t | [#$%] | index\ [0-9a-f]{7} | [-=_*~.\s]+$
      | \S+\ +\|\ +\d+\ [-+]* | \d+\ files?\ changed | (?:create|delete)\ mode\ \d
      | v\d+\s*(?:->|\.\.|:\s*$) | \d+:\s+[0-9a-f-]{7,}\ [=!<>]
      # headers and trailers
      | [a-z][a-z-]*-(?:by|to|cc|from|and-\S+)\s*:
      | (?:cc|fixes|link|bug|closes|change-id|from|to|sent|date|subject)\s*:\s
      # who wrote what is quoted next
      | (?:on|le|am|el)\b.{4,120}\b(?:wrote|writes|écrit|schrieb|escribió)\s*:?\s*$
      | .{0,80}<[^<>@\s]+@[^<>\s]+>\s*(?:wrote|writes)?:?\s*$ | .{0,60}\b(?:wrote|writes)\s*:\s*$
      # links on their own
      | \[?\d*\]?:?\s*<?(?:https?|ftp|git|s?ssh)://\S+\s*$ | \[\d+\]:?\s+\S*(?:://|@)
      # greetings
      | (?:hi|hello|hey|dear|good\ (?:morning|day|evening)|greetings|hallo)\b[^.?]{0,40}$
      | (?:thanks|thank\ you|thx|cheers|regards|best|sincerely|hth|br|ciao|bye
        |(?:best|kind|warm|with|many)\ [a-z ]{0,16}(?:regards|wishes|thanks))\b[^.?]{0,30}[.!,]*$
    )
    """
)
_BULLET = re.compile(r"^\s{0,3}(?:[-*•o]|\(?\d{1,2}[.)]|\(?[a-h]\))\s+")
_STOP = re.compile(r"[.!?]+[\"')\]”’]*(?=\s+[\"'(\[“‘]?[A-Z0-9`_<]|\s*$)|\?(?=\s)")
_ABBREVIATED = re.compile(
    r"(?i)(?:\b(?:e\.g|i\.e|cf|etc|vs|mr|mrs|ms|dr|st|no|fig|resp|approx|incl|aka|al|pp?)|\b[A-Z])\.$"
)
_WORDS = re.compile(r"[^\W\d_][\w'’-]*")
_CODE = re.compile(r"[{};=<>|\\$]|\w\(|->|::|/\w+/|__|--\w")
# Never in a summary, whatever its score.
_POLITE = re.compile(
    r"(?i)^(?:thanks|thank you|thx|hi|hello|hey|dear|cheers|enjoy,|sorry for|hope (?:this|that|it)"
    r"|please (?:answer|find|review the rest|see|let me know)"
    r"|let me know|any (?:thoughts|comments|feedback)|comments? (?:are )?welcome"
    r"|looking forward|nit:?$|yes,? please|see (?:above|below|also|https?:)|\(?cc'?(?:ing|ed)"
    r"|(?:ok|okay|yeah|yep|nope|right|sure|great|nice|good (?:catch|point|idea)|makes sense|sounds good|agreed)"
    r"[,.!\s]*$|this (?:e-?mail|message) (?:is|was|and|may)"
    # the questions of a form, and the contents of a series
    r"|what (?:did you (?:do|expect)|happened instead|'s different)|anything else you want|.{1,40} \(\d+\):\s)"
)
_LINK = re.compile(r"<?\b[a-z+]{2,8}://\S+")


def sentences(text: str, *, readable: bool = True) -> list[str]:
    """Return the sentences of a mail that are prose, unchanged, with their line ends.

    With `readable=False` also those that are too short, too odd or too polite to be informative.
    """
    text = text[:MAX_CHARACTERS]
    if (end := _END.search(text)) is not None:
        text = text[: end.start()]
    found = (sentence for start, stop in _blocks(text) for sentence in _split(text[start:stop]))
    return [sentence for sentence in found if (_readable(sentence) if readable else _WORDS.search(sentence))]


def words(sentence: str) -> list[str]:
    """Return the words of a sentence."""
    return _WORDS.findall(sentence)


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each paragraph and list item."""
    start = stop = place = 0
    for line in text.splitlines(keepends=True):
        begin, place = place, place + len(line)
        bullet = _BULLET.match(line)
        noise = bullet is None and (not line.strip() or _NOISE.match(line) is not None)
        if noise or bullet is not None:
            if stop > start:
                yield start, stop
            start = stop = begin + bullet.end() if bullet is not None else place
        if not noise:
            stop = place
    if stop > start:
        yield start, stop


def _split(block: str) -> Iterator[str]:
    start = 0
    for match in _STOP.finditer(block):
        # The last characters are enough: an abbreviation is short.
        before = block[max(start, match.start() - 8) : match.start() + 1]
        if match[0][0] == "." and match.end() < len(block.rstrip()) and _ABBREVIATED.search(before):
            continue
        yield block[start : match.end()].strip()
        start = match.end()
    yield block[start:].strip()


def _readable(sentence: str) -> bool:
    if not 12 <= len(sentence) <= MAX_SENTENCE_CHARACTERS or sentence[-1] in ":,;(" or _POLITE.match(sentence):
        return False
    found = _WORDS.findall(_LINK.sub("", sentence))
    letters = sum(map(len, found))
    return (
        len(found) >= MIN_SENTENCE_WORDS
        and letters >= 0.66 * (len(sentence) - sentence.count(" ") - sentence.count("\n"))
        and 4 * len(_CODE.findall(sentence)) <= len(found)
        # Not the rest of a sentence that code or a quotation interrupts.
        and (sentence[-1] in ".!?\"')]”’`" or len(found) >= 8)
        and not (sentence[0].islower() and len(found) < 8)
    )
