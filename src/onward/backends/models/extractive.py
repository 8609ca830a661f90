"""A summariser that needs no server: it picks the sentences of a thread that say most, and invents none."""

from __future__ import annotations

import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache

from onward.backends.models.prose import sentences, words
from onward.ports.models import Citation, Passage, Written

MOST_SENTENCES = 400
"""How many are weighed of one thread; a longer one gives those that begin and end its messages."""
_CLOSING = ".!?\"')]”’`"
NOTHING = "*There is no prose in this thread to summarise.*\n"

# One text to split, for a list of quoted words would fill three screens.
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
# It points at something that was said before it, which will not be in the summary.
_DANGLES = re.compile(
    r"(?i)^(?:it|that|that's|those|these|they|he|she|but|and|so|or|then|also|however|though|otherwise|because|which"
    r"|yes|yeah|yep|no|nah|well|ok|oh|fwiw|sorry|thanks|ah|hmm+|right|true|indeed|same|ditto|again|anyway|besides"
    r"|still|here|there)\b"
)


@dataclass(slots=True, eq=False)
class _Sentence:
    text: str
    passage: int
    place: int
    terms: Counter[str]
    weights: dict[str, float] = field(default_factory=dict)
    score: float = 0.0


class ExtractiveSummarizer:
    """Summarises by choosing: quick, always the same, and every sentence is somebody's own."""

    model = "extractive"
    remote = False

    def summarize(self, subject: str, passages: Sequence[Passage], *, key: str = "") -> Written:
        began = time.perf_counter()
        # A thread of nothing but "Looks good" is summed up by that.
        found = _read(passages) or _read(passages, readable=False)[:1]
        _weigh(found, subject, len(passages))
        chosen = _choose(found)
        citations = tuple(
            Citation(number, passages[one.passage].id, one.text) for number, one in enumerate(chosen, start=1)
        )
        markdown = _render(chosen, citations, passages) if chosen else NOTHING
        return Written(markdown, citations, self.model, None, None, time.perf_counter() - began)

    def healthy(self) -> bool:
        return True

    def close(self) -> None:
        pass


def describe(passage: Passage) -> str:
    """Name a message as a reader would: by who wrote it and when."""
    author = re.sub(r"\s*<[^>]*>|[*_`\[\]]", "", passage.author).strip(" \"'") or passage.author.strip("<> ")
    author = " ".join(author.split())
    if passage.date is None:
        return author or "unknown"
    try:
        day = datetime.fromtimestamp(passage.date, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return author or "unknown"
    return f"{author or 'unknown'}, {day}"


def sources(citations: Sequence[Citation], passages: Sequence[Passage]) -> str:
    """List what the numbers of a summary stand for."""
    by_id = {passage.id: passage for passage in passages}
    lines = [f"{one.number}. {describe(by_id[one.message_id])} `{one.message_id}`" for one in citations]
    return "\n".join(["### Sources", "", *lines, ""])


def _read(passages: Sequence[Passage], *, readable: bool = True) -> list[_Sentence]:
    found: list[_Sentence] = []
    each = max(4, MOST_SENTENCES // max(1, len(passages)))
    for number, passage in enumerate(passages):
        texts = list(dict.fromkeys(sentences(passage.text, readable=readable)))
        kept = texts if len(texts) <= each else texts[: each - each // 4] + texts[-(each // 4) :]
        for place, text in enumerate(kept):
            terms = Counter(term for word in words(text) if (term := _term(word)))
            if terms or not readable:
                found.append(_Sentence(text, number, place, terms))
        if len(found) >= 2 * MOST_SENTENCES:
            break
    return found


@lru_cache(maxsize=50_000)
def _term(word: str) -> str:
    """Give what a word and its other forms have in common; nothing for one that says nothing by itself."""
    word = word.lower().removesuffix("'s").removesuffix("’s")
    if len(word) < 3 or word in _STOPWORDS:
        return ""
    for ending in ("ing", "ed", "es", "s"):
        if len(word) > len(ending) + 3 and word.endswith(ending) and not word.endswith("ss"):
            return word[: -len(ending)]
    return word


def _weigh(found: list[_Sentence], subject: str, messages: int) -> None:
    """Score each sentence: how much of the thread it speaks of, where it stands, what it does."""
    about = {term for word in words(subject) if (term := _term(word))}
    within = Counter(term for one in found for term in one.terms)
    thread: defaultdict[str, float] = defaultdict(float)
    for one in found:
        # A term that is everywhere says little, one that is nowhere else is beside the point.
        raw = {term: (1 + math.log(n)) * math.log(1 + len(found) / within[term]) for term, n in one.terms.items()}
        length = math.sqrt(sum(weight * weight for weight in raw.values())) or 1.0
        one.weights = {term: weight / length for term, weight in raw.items()}
        for term, weight in one.weights.items():
            thread[term] += weight
    norm = math.sqrt(sum(weight * weight for weight in thread.values())) or 1.0
    last = max((one.passage for one in found), default=0)
    for one in found:
        central = sum(weight * thread[term] for term, weight in one.weights.items()) / norm
        on_subject = len(about & one.terms.keys()) / (len(about) or 1)
        score = central + 0.35 * on_subject + 0.2 / (1 + one.place)
        if one.passage == 0 and _ASKS.search(one.text):
            score += 0.15
        elif one.passage > 0 and _DECIDES.search(one.text):
            score += 0.15 + 0.1 * (one.passage / last)
        if one.passage == last and messages > 1:
            score += 0.05
        if _DANGLES.match(one.text):
            score -= 0.25
        # Cut off by a quotation or by code.
        if one.text[0].islower() or one.text[-1] not in _CLOSING:
            score -= 0.15
        # Too short to say much, or too long to be read at a glance.
        size = len(one.text)
        one.score = score - 0.2 * max(0.0, (60 - size) / 60) - 0.3 * max(0.0, (size - 240) / 240)


def _choose(found: list[_Sentence]) -> list[_Sentence]:
    """Pick the best, each time minus what the ones picked before have said already; in the thread's order."""
    if not found:
        return []
    messages = len({one.passage for one in found})
    number = 3 if messages == 1 else min(9, 3 + round(1.5 * math.log2(messages)))
    # A short message is its own summary.
    number = min(number, max(1, math.ceil(len(found) / 2)))
    lead = min(one.passage for one in found)
    gist = max((one for one in found if one.passage == lead), key=lambda one: one.score)
    chosen = [gist]
    per_message = Counter({gist.passage: 1})
    most = 3 if messages < 3 else 2
    # Those that are far down would not be picked anyway; what each repeats of the picked ones is kept up.
    ranked = sorted(found, key=lambda one: -one.score)[: 6 * number]
    repeats = {one: _likeness(one, gist) for one in ranked if one is not gist}
    while len(chosen) < number:
        left = [one for one, likeness in repeats.items() if likeness < 0.6 and per_message[one.passage] < most]
        if not left:
            break
        best = max(left, key=lambda one: one.score - 0.6 * repeats[one] - 0.12 * per_message[one.passage])
        chosen.append(best)
        per_message[best.passage] += 1
        del repeats[best]
        for one, likeness in repeats.items():
            repeats[one] = max(likeness, _likeness(one, best))
    return [gist, *sorted(chosen[1:], key=lambda one: (one.passage, one.place))]


def _likeness(one: _Sentence, other: _Sentence) -> float:
    return sum(weight * other.weights.get(term, 0.0) for term, weight in one.weights.items())


def _render(chosen: list[_Sentence], citations: Sequence[Citation], passages: Sequence[Passage]) -> str:
    shown = [f"{_shown(one.text)} [{citation.number}]" for one, citation in zip(chosen, citations, strict=True)]
    lines = [f"**{_shown(chosen[0].text)}** [1]", ""]
    if len({one.passage for one in chosen}) == 1:
        if len(shown) > 1:
            lines += [" ".join(shown[1:]), ""]
    else:
        lines += ["### What was said", ""]
        before = -1
        for one, text in zip(chosen[1:], shown[1:], strict=True):
            if one.passage == before:
                lines[-1] += f" {text}"
            else:
                lines.append(f"- **{describe(passages[one.passage])}:** {text}")
            before = one.passage
        lines.append("")
    return "\n".join([*lines, sources(citations, passages)])


def _shown(text: str) -> str:
    """Put a sentence on one line, with nothing in it that Markdown would take for its own."""
    line = " ".join(text.split())
    # Code in backticks may stay code, unless it was cut in two.
    special = r"[*\[\]<\\]|(?<!\w)_|_(?!\w)" + ("|`" if line.count("`") % 2 else "")
    return re.sub(special, r"\\\g<0>", line)
