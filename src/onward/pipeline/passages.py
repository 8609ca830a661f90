"""The sentences of messages, with how well each of them answers a question."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onward.models.courtesies import is_courtesy
from onward.models.sentences import CLOSING, is_readable, sentence_spans
from onward.pipeline.documents import Message
from onward.pipeline.questions import Question
from onward.pipeline.search import Hit
from onward.search import words

Span = tuple[int, int]

MAX_CHARACTERS = 60_000  # of a message that is read
MAX_LINE = 300
MAX_QUOTE = 600  # characters of the quote above a reply that say what it replies to
MAX_PASSAGE = 420
SHORT = 60
MIN_NEW_WORDS = 3  # a sentence with fewer words besides those of the question says nothing new

# The words of a question that are not in a sentence itself count less, the farther away they are.
NEAR, QUOTE, TITLE, MESSAGE = 0.45, 0.4, 0.6, 0.3
SIMILARITY, RANK, REPLY, DECISION, KIND, NO_KIND = 0.4, 0.1, 0.2, 0.1, 0.2, 0.05
UNREADABLE, LINE, NOTHING_NEW = 0.15, 0.1, 0.2  # are subtracted

_DECIDES = re.compile(
    r"(?i)\b(?:agreed?|decided|decision|conclusion|consensus|resolved|applied|merged|queued|turns? out|in short"
    r"|voted|fixed (?:by|in)|the (?:fix|cause|reason|answer|solution)|beschlossen|entschieden|décidé)\b"
)
# Refers to the sentence before it.
_REFERS = re.compile(
    r"(?i)(?:it|that|that's|this|those|these|they|he|she|but|and|so|or|then|also|however|otherwise|because|which|yes|no"
    r"|both|neither|there|instead|es|das|er|sie|ja|nein|aber|il|elle|ce|cela|oui|non)\b"
)
_INDENTS = re.compile(r"(?m)^(?: {4,}|\t+ *)")
_LINES = re.compile(r"(?=\S)[^\n]*\w[^\w\n]+\w[^\n]*(?<=\S)")  # of several words
_PATCH = re.compile(r"(?m)^(?:diff --git |Index: \S|--- a/|@@ -\d)")
_NO_TEXT = re.compile(
    r"^[+@<>|#]|^[A-Z][\w-]+-(?:[Bb]y|[Tt]o|[Ff]rom): |[{};]$|^\S+ +\| +\d|->|::|\w\(\w*[,)]|^\W*\w+ = "
    r"|^(?:\d+|-): +(?:[0-9a-f]{7}|-{4})"  # of a range-diff
)
_ASKS = re.compile(r"[?？][\"')\]”’」』]*$")


@dataclass(slots=True, eq=False)
class Sentence:
    """A sentence, or a line that is no prose, of a message's own text."""

    message: Message
    start: int  # in the body of the message
    end: int
    is_prose: bool
    terms: frozenset[str]
    # Shares of the question that are covered by the sentence, and besides by what is near it.
    own: float = 0.0
    near: float = 0.0
    quote: float = 0.0
    title: float = 0.0
    rest: float = 0.0
    rank_score: float = 0.0  # of its message, in the search
    similarity: float = 0.0  # to the question
    score: float = 0.0

    @property
    def text(self) -> str:
        return self.message.body[self.start : self.end]

    @property
    def may_answer(self) -> bool:
        """Whether it is neither a question nor a greeting, thanks or a list of contents."""
        return _ASKS.search(self.text) is None and not is_courtesy(self.text)

    @property
    def covered(self) -> float:
        return self.own + NEAR * self.near + QUOTE * self.quote + TITLE * self.title + MESSAGE * self.rest


def sentences_of(hit: Hit, question: Question) -> list[Sentence]:
    """Return the sentences of a message's own text, with what they cover of a question."""
    message, language = hit.message, hit.message.language
    found = [
        Sentence(message, start, end, is_prose, frozenset(words.all_terms(message.body[start:end], language)))
        for start, end, is_prose in _spans(message)
    ]
    title = frozenset(words.all_terms(f"{message.subject} {message.path}", language))
    everything = title.union(*(one.terms for one in found))
    if question.terms.isdisjoint(everything):
        return []
    quotes, quote = deque(_quotes_above(message)), frozenset[str]()
    for place, one in enumerate(found):
        beside = found[max(0, place - 1) : place + 2]
        near = frozenset().union(*(other.terms for other in beside if other is not one))
        while quotes and quotes[0][0] <= one.start:
            quote = quotes.popleft()[1]
        one.own = question.coverage(one.terms)
        one.near = question.coverage(near, one.terms)
        one.quote = question.coverage(quote, one.terms | near)
        one.title = question.coverage(title, one.terms | near | quote)
        one.rest = question.coverage(everything, one.terms | near | quote | title)
        one.rank_score = hit.score
    return found


def _spans(message: Message) -> Iterator[tuple[int, int, bool]]:
    """Yield start and end of each sentence of the message's own text, and of each line between sentences."""
    body = message.body[:MAX_CHARACTERS]
    is_code = message.kind == "code"
    if not is_code and (patch := _PATCH.search(body)) is not None:
        body = body[: patch.start()]
    parts = [(start, end) for kind, start, end in message.spans if kind == "new" and body[start:end].strip()]
    for start, last_end in parts or [(0, len(body))]:
        place, end = start, min(last_end, len(body))
        for first, last in [*sentence_spans(body[start:end]), (end - start, end - start)]:
            yield from _between(body, place, start + first, is_code=is_code)
            if first < last:
                yield start + first, start + last, True
            place = start + last


def _between(body: str, start: int, end: int, *, is_code: bool) -> Iterator[tuple[int, int, bool]]:
    """Yield what is between sentences: sentences of indented text, and lines, which may be entries of a table."""
    # Indented text is usually code. With other blanks before it, it is read as any text.
    text = _INDENTS.sub(lambda found: "\u3000" * len(found[0]), body[start:end])
    place = 0
    sentences = [
        (first, last)
        for first, last in sentence_spans(text, readable=True)
        if text[last - 1] in CLOSING or "\n" not in text[first:last]  # not several rows of a table
    ]
    for first, last in [*sentences, (len(text), len(text))]:
        for line in _LINES.finditer(text, place, first):
            if len(line[0]) <= MAX_LINE and (is_code or _may_answer(line[0])):
                yield start + line.start(), start + line.end(), False
        if first < last:
            yield start + first, start + last, True
        place = last


def _may_answer(line: str) -> bool:
    """Return whether a line is text, not code, a trailer such as `Signed-off-by:`, or a row of numbers."""
    letters = sum(map(str.isalpha, line))
    return 2 * letters > len(line) - line.count(" ") and not _NO_TEXT.search(line)


def _quotes_above(message: Message) -> Iterator[tuple[int, frozenset[str]]]:
    """Yield the start of each part of a message, with the terms of the quote above it, to which it replies."""
    quote = frozenset[str]()
    for kind, start, end in message.spans or [("new", 0, len(message.body))]:
        text = message.body[start:end]
        if kind == "quote":
            quote = frozenset(words.all_terms(text[-MAX_QUOTE:], message.language))
        elif text.strip():
            yield start, quote
            quote = frozenset()


def score(one: Sentence, question: Question) -> float:
    """Return how well a sentence answers a question, compared with other sentences."""
    text = one.text
    total = one.covered + SIMILARITY * one.similarity + RANK * one.rank_score
    if one.message.references:
        total += REPLY
    if _DECIDES.search(text):
        total += DECISION
    if question.wants(text):
        total += KIND
    elif question.certain_kinds:
        total -= NO_KIND
    if not one.is_prose:
        total -= LINE
    elif not is_readable(text, first=True):
        total -= UNREADABLE
    if len(one.terms - question.terms) < MIN_NEW_WORDS:
        total -= NOTHING_NEW
    return total


def confidence(one: Sentence, question: Question) -> float:
    """Return how likely it is, from 0 to 1, that a question is answered at a sentence.

    The weights were fitted to questions about two mailing lists, half of which no message answers.
    """
    evidence = (
        4.8 * one.own + 1.7 * (one.near + one.quote) + 2.8 * one.title + 0.6 * one.rest + 3.3 * one.similarity
    )
    if question.certain_kinds and not question.wants(one.text):
        evidence -= 2.0
    return 1.0 / (1.0 + math.exp(4.2 - evidence))


def passage_span(one: Sentence, beside: Sequence[Sentence], question: Question) -> Span:
    """Return start and end of a sentence with the neighbours it needs, among those of its message `beside` it.

    It needs the one before it if it refers to that, and the one after it if that covers more of the question, or
    if it is short.
    """
    place = beside.index(one)
    start, end = one.start, one.end
    if place and _REFERS.match(one.text) and _joins(beside[place - 1], one):
        start = beside[place - 1].start
    if place + 1 < len(beside) and _joins(one, following := beside[place + 1]):
        covers_more = question.coverage(following.terms, one.terms) > 0
        has_kind = question.certain_kinds and not question.wants(one.text) and question.wants(following.text)
        if covers_more or has_kind or one.end - one.start < SHORT:
            end = following.end
    if end - start > MAX_PASSAGE:
        start = one.start
    return (start, end) if end - start <= MAX_PASSAGE else (one.start, one.end)


def _joins(one: Sentence, following: Sentence) -> bool:
    """Return whether two sentences follow each other, at most with the end of a paragraph between them."""
    between = one.message.body[one.end : following.start]
    return one.is_prose == following.is_prose and not between.strip() and between.count("\n") < 3
