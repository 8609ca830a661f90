"""A summariser that needs no server: it chooses the most telling sentences of prose in a thread."""

from __future__ import annotations

import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter, itemgetter

from onward.models.courtesies import is_courtesy
from onward.models.decisions import Outcome, find_outcome
from onward.models.protocol import BUILT_IN, Citation, Passage, Summarizer, WrittenSummary
from onward.models.sentences import CLOSING, is_readable, one_line, sentence_spans, width
from onward.search.words import terms

# Sentences of one thread that are scored; of a longer thread, those at the start and end of each message.
MAX_SENTENCES = 400
MAX_CHARACTERS = 60_000  # only the beginning of a longer text is read
NOTHING = "*There is no prose in this thread to summarise.*\n"

# All patterns match a sentence in lower case. What a first message is about:
_ASKS = re.compile(
    r"""(?x)\b(?:(?:i|we)(?:'d|\ would)?\ (?:want|need|wonder|noticed|found|tried)
    |this\ (?:patch|series|change|commit|teaches|adds|fixes|introduces)
    |the\ (?:problem|issue|bug|idea|goal|reason|proposal)|fails?|breaks?|regression
    |brauchen\ wir|wir\ brauchen|das\ problem|der\ fehler|schlägt\ fehl|funktioniert\ nicht
    |il\ faut|le\ problème|la\ proposition|échoue|ne\ marche\ (?:pas|plus)
    |hace\ falta|el\ problema|la\ propuesta|falla|no\ funciona)\b"""
)
_WIDE_ASKS = re.compile("問題|失敗|エラー|できません|问题|失败|错误|錯誤|无法|無法")
_PROPOSES = re.compile(
    r"""(?x)\b(?:i|we)(?:'d|\ would)?\ (?:propose|suggest|like\ to)\b
    |\b(?:schlagen?\b.{0,60}\bvor|mein\ vorschlag|je\ propose|nous\ proposons|propongo|proponemos)\b
    |提案|建议|建議"""
)
# What a reply contributes.
_ANSWERS = re.compile(
    r"""(?x)\b(?:we\ should|should\ (?:be|not)|instead|the\ (?:fix|reason)|works\ (?:for\ me|as)|turns\ out
    |in\ short|so\ the|i\ agree|wir\ sollten|sollte|stattdessen|es\ liegt\ an|nous\ devrions|plutôt|il\ vaut\ mieux
    |deberíamos|en\ lugar|mejor)\b"""
)
_WIDE_ANSWERS = re.compile("べき|代わりに|原因|应该|應該|原来")
# Refers to an earlier sentence, which will not be in the summary.
_DANGLES = re.compile(
    r"\(|(?:it|that|that's|those|these|they|he|she|but|and|so|or|then|also|however|though|otherwise|because|which"
    r"|yes|yeah|yep|no|nah|well|ok|oh|fwiw|sorry|thanks|ah|hmm+|right|true|indeed|same|ditto|again|anyway|besides"
    r"|this (?:is|was|made|makes|means|closes|allows|would|will|should|can|could|happens|has|also|way)|e\.g|i\.e"
    r"|for (?:example|instance)|still|here|there"
    r"|aber|und|dann|ja|nein|genau|stimmt|deshalb|daher|trotzdem|außerdem|sonst|dazu|davon"
    r"|mais|et|donc|alors|cela|ça|oui|non|c'est|sinon|pourtant|pero|y|entonces|eso|sí|también|además)\b"
    r"|それ|しかし|でも|はい|いいえ|また|そして|ただ|なお|但|而且|所以|那|是的|好的|不过|因此|另外|它|这"
)
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*\)")  # of Markdown


@dataclass(slots=True, eq=False)
class _Sentence:
    text: str
    passage: int
    place: int
    terms: Counter[str]
    readable: bool
    quoted: bool  # the message has no text of its own
    weights: dict[str, float] = field(default_factory=dict)
    score: float = 0.0


class ExtractiveSummarizer(Summarizer):
    """Summarises by choosing sentences: fast, deterministic, and every sentence is a quotation."""

    model = "extractive"
    where = BUILT_IN
    remote = False

    def summarize(self, subject: str, passages: Sequence[Passage], *, key: str = "") -> WrittenSummary:
        began = time.perf_counter()
        found = _collect(passages)
        readable = [sentence for sentence in found if sentence.readable]
        _score(readable, terms(subject, _language(passages)), len(passages))
        decision = _decision(found, passages)
        # A thread of nothing but "Looks good" is summarised by that.
        chosen = _choose(readable, decision) or [it for it in found if not is_courtesy(it.text)][:1]
        citations = tuple(
            Citation(number, passages[it.passage].id, it.text) for number, it in enumerate(chosen, start=1)
        )
        markdown = _render(chosen, decision, citations, passages) if chosen else NOTHING
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


def _language(passages: Sequence[Passage]) -> str:
    """Return the language of most messages whose language is known."""
    counts = Counter(passage.language for passage in passages if passage.language)
    return max(counts, key=counts.__getitem__, default="")


def _collect(passages: Sequence[Passage]) -> list[_Sentence]:
    """Return the sentences of a thread in order; those of quotes only if a message has nothing else."""
    found: list[_Sentence] = []
    language = _language(passages)
    each = max(4, MAX_SENTENCES // max(1, len(passages)))
    for number, passage in enumerate(passages):
        text = passage.text[:MAX_CHARACTERS]
        spans = sentence_spans(text)
        quoted = not spans
        if quoted:
            # What a reply quotes was said before, unless its message is missing.
            said = {one_line(sentence.text) for sentence in found}
            spans = [
                span for span in sentence_spans(text, quoted=True) if one_line(text[slice(*span)]) not in said
            ]
        texts = list(dict.fromkeys(text[start:end] for start, end in spans))
        kept = texts if len(texts) <= each else texts[: each - each // 4] + texts[-(each // 4) :]
        place = 0
        for sentence in kept:
            # After "Hallo zusammen," a text may begin in lower case.
            readable = is_readable(sentence, first=not place)
            counts = Counter(terms(sentence, language)) if readable else Counter[str]()
            found.append(_Sentence(sentence, number, place, counts, bool(counts), quoted))
            place += readable
        if len(found) >= 4 * MAX_SENTENCES:
            break
    return found


def _decision(found: list[_Sentence], passages: Sequence[Passage]) -> _Sentence | None:
    """Return the last sentence that says how a thread of several messages ended."""
    if len(passages) < 2:
        return None
    # The message of a patch tells what the patch does.
    patches = {number for number, it in enumerate(passages) if "\n---\n" in it.text and "\ndiff --git " in it.text}
    for sentence in reversed(found):
        if sentence.quoted or sentence.passage in patches:
            continue
        outcome = find_outcome(sentence.text)
        if outcome == Outcome.DECISION or (outcome == Outcome.ACTION and sentence.passage > 0):
            return sentence
    return None


def _score(found: list[_Sentence], subject: Sequence[str], messages: int) -> None:
    """Score each sentence by how central it is, where it is, and what it does."""
    about = set(subject)
    within = Counter(term for sentence in found for term in sentence.terms)
    thread: defaultdict[str, float] = defaultdict(float)
    for sentence in found:
        # Rare terms weigh more (TF-IDF).
        counts = sentence.terms.items()
        raw = {term: (1 + math.log(n)) * math.log(1 + len(found) / within[term]) for term, n in counts}
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
        lowered = sentence.text.lower()
        wide = not lowered.isascii()
        if sentence.passage == 0:
            if _PROPOSES.search(lowered):
                score += 0.25
            elif lowered[-1] in "?？" or _ASKS.search(lowered) or (wide and _WIDE_ASKS.search(lowered)):
                score += 0.15
        elif _ANSWERS.search(lowered) or (wide and _WIDE_ANSWERS.search(lowered)):
            score += 0.15 + 0.1 * (sentence.passage / last)
        if sentence.passage == last and messages > 1:
            score += 0.05
        if _DANGLES.match(lowered):
            score -= 0.25
        # Cut off by a quotation or by code.
        if sentence.text[-1] not in CLOSING:
            score -= 0.3
        elif sentence.place and sentence.text[0].islower():
            score -= 0.15
        # Too short to be informative, or too long to be read quickly.
        size = width(sentence.text)
        sentence.score = score - 0.2 * max(0.0, (60 - size) / 60) - 0.3 * max(0.0, (size - 240) / 240)


def _choose(found: list[_Sentence], decision: _Sentence | None) -> list[_Sentence]:
    """Choose the best sentences, less what repeats the ones chosen before.

    Return the best one of the first message, then the decision, then the others in the order of the thread.
    """
    if not found:
        return []
    messages = len({sentence.passage for sentence in found})
    number = 3 if messages == 1 else min(9, 3 + round(1.5 * math.log2(messages)))
    # Of a short message one sentence is enough, but a reply to it is not left out.
    number = min(number, max(min(messages, 3), math.ceil(len(found) / 2)))
    lead = min(sentence.passage for sentence in found)
    gist = max((sentence for sentence in found if sentence.passage == lead), key=attrgetter("score"))
    chosen = [gist] if decision is None or decision is gist else [gist, decision]
    number = max(number, len(chosen))
    first = len(chosen)
    per_message = Counter(sentence.passage for sentence in chosen)
    most = 3 if messages < 3 else 2
    # A sentence of low score would not be chosen anyway. `repeats`: its likeness to the chosen ones.
    ranked = sorted(found, key=lambda sentence: -sentence.score)[: 6 * number]
    repeats = {
        sentence: max(_likeness(sentence, other) for other in chosen)
        for sentence in ranked
        if sentence not in chosen
    }
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
    return chosen[:first] + sorted(chosen[first:], key=lambda sentence: (sentence.passage, sentence.place))


def _likeness(sentence: _Sentence, other: _Sentence) -> float:
    common = sentence.weights.keys() & other.weights.keys()
    # Exact, so independent of the order of a set.
    return math.fsum(sentence.weights[term] * other.weights[term] for term in common)


def _render(
    chosen: list[_Sentence], decision: _Sentence | None, citations: Sequence[Citation], passages: Sequence[Passage]
) -> str:
    numbers = {sentence: number for number, sentence in enumerate(chosen, start=1)}
    lines = [f"**{_escaped(chosen[0].text)}** [1]", ""]
    others = chosen[1:]
    if decision is not None and decision in others:
        others.remove(decision)
        author = author_and_date(passages[decision.passage])
        lines += [f"**Decision** ({author}): {_escaped(decision.text)} [{numbers[decision]}]", ""]
    cited = [(it.passage, it.quoted, f"{_escaped(it.text)} [{numbers[it]}]") for it in others]
    if {it.passage for it in others} <= {chosen[0].passage}:
        lines += [" ".join(text for _, _, text in cited), ""] if cited else []
    else:
        lines += ["### What was said", ""]
        for (passage, quoted), group in groupby(cited, key=itemgetter(0, 1)):
            texts = " ".join(text for _, _, text in group)
            lines.append(f"- **{author_and_date(passages[passage])}{', quoting' if quoted else ''}:** {texts}")
        lines.append("")
    return "\n".join([*lines, source_list(citations, passages)])


def _escaped(text: str) -> str:
    """Return a sentence on one line, with the text of its links, and with its Markdown characters escaped."""
    line = _LINK.sub(r"\1", one_line(text))
    # Code in backticks stays code, unless one of its backticks is missing.
    special = r"[*\[\]<\\]|(?<!\w)_|_(?!\w)" + ("|`" if line.count("`") % 2 else "")
    return re.sub(special, r"\\\g<0>", line)
