"""A summariser that needs no server: it chooses the most telling sentences of prose in a thread."""

from __future__ import annotations

import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby
from operator import attrgetter, itemgetter

from onward.models.protocol import Citation, Passage, Summarizer, WrittenSummary

# Sentences of one thread that are scored; of a longer thread, those at the start and end of each message.
MAX_SENTENCES = 400
_CLOSING = ".!?\"')]”’`"
NOTHING = "*There is no prose in this thread to summarise.*\n"

_STOPWORDS = frozenset(
    """a about above after again all also although always am an and any are aren as at be because been
    before being both but by can can't cannot could did didn do does doesn doesn't doing don don't done
    down each either else etc even ever few for from further get gets going got had has hasn have haven
    having he her here him his how however i i'd i'll i'm i've if in into is isn isn't it it's its itself
    just know let like made make makes many may maybe me might more most much must my need no nor not now
    of off on once one only or other our out over own perhaps quite rather really same see seem seems
    shall she should since so some something still such sure than that that's the their them then there
    there's these they thing things think this those though thus to too under until up upon us use used
    using very want was wasn way we well were what when where whether which while who whom why will with
    within without won't would wouldn you you're your yes yet thanks thank please""".split()  # noqa: SIM905
)
_ASKS = re.compile(
    r"(?i)\?$|\b(?:i|we)(?:'d| would)? (?:propose|suggest|want|need|wonder|noticed|found|tried|would like)\b"
    r"|\bthis (?:patch|series|change|commit|teaches|adds|fixes|introduces|makes|allows)\b"
    r"|\bthe (?:problem|issue|bug|idea|goal|reason|proposal)\b|\bfails?\b|\bbreaks?\b|\bregression\b"
)
_DECIDES = re.compile(
    r"(?i)\b(?:agreed?|decided|conclusion|consensus|resolved|applied|merged|queued"
    r"|will (?:queue|merge|apply|drop|fix|send|re-?roll)|let's|i'll|we should|should (?:be|not)|instead|the fix"
    r"|fixed (?:by|in)|works (?:for me|now|as)|turns out|in short|so the)\b"
)
# Refers to an earlier sentence, which will not be in the summary.
_DANGLES = re.compile(
    r"(?i)^(?:it|that|that's|those|these|they|he|she|but|and|so|or|then|also|however|though|otherwise|because|which"
    r"|yes|yeah|yep|no|nah|well|ok|oh|fwiw|sorry|thanks|ah|hmm+|right|true|indeed|same|ditto|again|anyway|besides"
    r"|still|here|there)\b"
)

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
words = _WORDS.findall
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


@dataclass(slots=True, eq=False)
class _Sentence:
    text: str
    passage: int
    place: int
    terms: Counter[str]
    weights: dict[str, float] = field(default_factory=dict)
    score: float = 0.0


class ExtractiveSummarizer(Summarizer):
    """Summarises by choosing sentences: fast, deterministic, and every sentence is a quotation."""

    model = "extractive"
    remote = False

    def summarize(self, subject: str, passages: Sequence[Passage], *, key: str = "") -> WrittenSummary:
        began = time.perf_counter()
        # A thread of nothing but "Looks good" is summarised by that.
        found = _sentences(passages) or _sentences(passages, readable=False)[:1]
        _score(found, subject, len(passages))
        chosen = _choose(found)
        citations = tuple(
            Citation(number, passages[it.passage].id, it.text) for number, it in enumerate(chosen, start=1)
        )
        markdown = _render(chosen, citations, passages) if chosen else NOTHING
        return WrittenSummary(markdown, citations, self.model, None, None, time.perf_counter() - began)


def author_and_date(passage: Passage) -> str:
    author = re.sub(r"\s*<[^>]*>|[*_`\[\]]", "", passage.author).strip(" \"'") or passage.author.strip("<> ")
    author = " ".join(author.split()) or "unknown"
    with suppress(ValueError, OverflowError, OSError):
        if passage.date is not None:
            return f"{author}, {datetime.fromtimestamp(passage.date, UTC).date().isoformat()}"
    return author


def source_list(citations: Sequence[Citation], passages: Sequence[Passage]) -> str:
    """List the messages that the numbers of a summary cite."""
    authors = {passage.id: author_and_date(passage) for passage in passages}
    lines = [f"{cited.number}. {authors[cited.message_id]} `{cited.message_id}`" for cited in citations]
    return "\n".join(["### Sources", "", *lines, ""])


def _sentences(passages: Sequence[Passage], *, readable: bool = True) -> list[_Sentence]:
    found: list[_Sentence] = []
    each = max(4, MAX_SENTENCES // max(1, len(passages)))
    for number, passage in enumerate(passages):
        texts = list(dict.fromkeys(sentences(passage.text, readable=readable)))
        kept = texts if len(texts) <= each else texts[: each - each // 4] + texts[-(each // 4) :]
        for place, text in enumerate(kept):
            terms = Counter(term for word in words(text) if (term := _term(word)))
            if terms or not readable:
                found.append(_Sentence(text, number, place, terms))
        if len(found) >= 2 * MAX_SENTENCES:
            break
    return found


@lru_cache(maxsize=50_000)
def _term(word: str) -> str:
    """Return the stem of a word, or "" for a stop word."""
    word = word.lower().removesuffix("'s").removesuffix("’s")
    if len(word) < 3 or word in _STOPWORDS:
        return ""
    for ending in ("ing", "ed", "es", "s"):
        if len(word) > len(ending) + 3 and word.endswith(ending) and not word.endswith("ss"):
            return word[: -len(ending)]
    return word


def _score(found: list[_Sentence], subject: str, messages: int) -> None:
    """Score each sentence by how central it is, where it is, and what it does."""
    about = {term for word in words(subject) if (term := _term(word))}
    within = Counter(term for sentence in found for term in sentence.terms)
    thread: defaultdict[str, float] = defaultdict(float)
    for sentence in found:
        # Rare terms weigh more (TF-IDF).
        terms = sentence.terms.items()
        raw = {term: (1 + math.log(n)) * math.log(1 + len(found) / within[term]) for term, n in terms}
        length = math.sqrt(sum(weight * weight for weight in raw.values())) or 1.0
        sentence.weights = {term: weight / length for term, weight in raw.items()}
        for term, weight in sentence.weights.items():
            thread[term] += weight
    norm = math.sqrt(sum(weight * weight for weight in thread.values())) or 1.0
    last = max((sentence.passage for sentence in found), default=0)
    for sentence in found:
        central = sum(weight * thread[term] for term, weight in sentence.weights.items()) / norm
        on_subject = len(about & sentence.terms.keys()) / (len(about) or 1)
        score = central + 0.35 * on_subject + 0.2 / (1 + sentence.place)
        if sentence.passage == 0 and _ASKS.search(sentence.text):
            score += 0.15
        elif sentence.passage > 0 and _DECIDES.search(sentence.text):
            score += 0.15 + 0.1 * (sentence.passage / last)
        if sentence.passage == last and messages > 1:
            score += 0.05
        if _DANGLES.match(sentence.text):
            score -= 0.25
        # Cut off by a quotation or by code.
        if sentence.text[0].islower() or sentence.text[-1] not in _CLOSING:
            score -= 0.15
        # Too short to be informative, or too long to be read quickly.
        size = len(sentence.text)
        sentence.score = score - 0.2 * max(0.0, (60 - size) / 60) - 0.3 * max(0.0, (size - 240) / 240)


def _choose(found: list[_Sentence]) -> list[_Sentence]:
    """Choose the best sentences, less what repeats the ones chosen before; return them in thread order."""
    if not found:
        return []
    messages = len({sentence.passage for sentence in found})
    number = 3 if messages == 1 else min(9, 3 + round(1.5 * math.log2(messages)))
    # A short message is its own summary.
    number = min(number, max(1, math.ceil(len(found) / 2)))
    lead = min(sentence.passage for sentence in found)
    gist = max((sentence for sentence in found if sentence.passage == lead), key=attrgetter("score"))
    chosen = [gist]
    per_message = Counter({gist.passage: 1})
    most = 3 if messages < 3 else 2
    # A sentence of low score would not be chosen anyway. `repeats`: its likeness to the chosen ones.
    ranked = sorted(found, key=lambda sentence: -sentence.score)[: 6 * number]
    repeats = {sentence: _likeness(sentence, gist) for sentence in ranked if sentence is not gist}
    while len(chosen) < number:
        gains = {
            sentence: sentence.score - 0.6 * likeness - 0.12 * per_message[sentence.passage]
            for sentence, likeness in repeats.items()
            if likeness < 0.6 and per_message[sentence.passage] < most
        }
        if not gains:
            break
        best = max(gains, key=gains.__getitem__)
        chosen.append(best)
        per_message[best.passage] += 1
        del repeats[best]
        for sentence, likeness in repeats.items():
            repeats[sentence] = max(likeness, _likeness(sentence, best))
    return [gist, *sorted(chosen[1:], key=lambda sentence: (sentence.passage, sentence.place))]


def _likeness(sentence: _Sentence, other: _Sentence) -> float:
    return sum(weight * other.weights.get(term, 0.0) for term, weight in sentence.weights.items())


def _render(chosen: list[_Sentence], citations: Sequence[Citation], passages: Sequence[Passage]) -> str:
    lines = [f"**{_escaped(chosen[0].text)}** [1]", ""]
    others = [(it.passage, f"{_escaped(it.text)} [{number}]") for number, it in enumerate(chosen[1:], start=2)]
    if len({sentence.passage for sentence in chosen}) == 1:
        lines += [" ".join(text for _, text in others), ""] if others else []
    else:
        lines += ["### What was said", ""]
        for passage, group in groupby(others, key=itemgetter(0)):
            texts = " ".join(text for _, text in group)
            lines.append(f"- **{author_and_date(passages[passage])}:** {texts}")
        lines.append("")
    return "\n".join([*lines, source_list(citations, passages)])


def _escaped(text: str) -> str:
    """Return a sentence on one line, with its Markdown characters escaped."""
    line = " ".join(text.split())
    # Code in backticks stays code, unless one of its backticks is missing.
    special = r"[*\[\]<\\]|(?<!\w)_|_(?!\w)" + ("|`" if line.count("`") % 2 else "")
    return re.sub(special, r"\\\g<0>", line)


def sentences(text: str, *, readable: bool = True) -> list[str]:
    """Return the sentences of a mail that are prose, unchanged; only informative ones if `readable`."""
    text = text[:MAX_CHARACTERS]
    if (end := _END.search(text)) is not None:
        text = text[: end.start()]
    found = (sentence for start, stop in _blocks(text) for sentence in _split(text[start:stop]))
    return [sentence for sentence in found if (_readable(sentence) if readable else _WORDS.search(sentence))]


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
