"""Answers to questions: the passages of messages that answer, and what a chat model writes from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from typing import TYPE_CHECKING

from onward import App, OnwardError
from onward.pipeline.documents import Message
from onward.pipeline.passages import Sentence, confidence, passage_span, score, sentences_of
from onward.pipeline.questions import Question, read_question, searchable
from onward.pipeline.saved_searches import expand
from onward.pipeline.search import Hit, Query, search

if TYPE_CHECKING:
    from onward.models.answer_writer import WrittenAnswer

CANDIDATES = 40  # The best messages, in whose sentences an answer is looked for
EMBEDDED = 100  # The best sentences by words, which are compared with the question by vectors, too
ANSWERS = 0.5  # A question is answered if a passage has this confidence
MIN_CONFIDENCE = 0.25  # of further passages
ALIKE = 0.8  # Two passages that share this part of their words say the same
USUAL_SIMILARITY = 0.6  # of a sentence that has all words of the question
MAX_PASSAGES = 5
MODEL_PASSAGES = 8  # that a chat model gets
MAX_CONTEXT = 1_200  # characters of a passage that a chat model gets
MAX_CONTEXTS = 12_000  # bytes of all of them
NO_SOURCE = "[no source]"


@dataclass(frozen=True, slots=True)
class AnswerPassage:
    """A part of a message that answers: its place in the body, and how likely it is that it answers."""

    message: Message
    start: int
    end: int
    confidence: float

    @property
    def text(self) -> str:
        return self.message.body[self.start : self.end]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the messages answer; without passages, nothing answers."""

    question: str
    passages: list[AnswerPassage]
    terms: frozenset[str]  # of the index, which the words of the question stand for
    unknown: tuple[str, ...]  # words of the question that no message has
    nearest: list[Hit]  # the best messages, for a person to look at if nothing answers
    text: str = ""  # what a chat model wrote; [1] cites the first passage, `NO_SOURCE` marks what cites none
    model: str = ""  # which wrote it
    note: str = ""  # what could not be used


class NoCitations(OnwardError):
    """A chat model wrote an answer that cites no passage."""


def ask(app: App, query: Query, *, limit: int = 3, write: bool = True) -> Answer:
    """Find the passages that answer a question, best first, each from another message.

    If a chat model is set, and `write` is true, it writes the answer from them. If it cannot be used, the
    note of the answer says so, and the passages are those that were found.
    """
    text = expand(app, query.text)
    found = search(app, replace(query, text=searchable(text)), limit=CANDIDATES)
    question = read_question(text, app.store.texts(Message))
    by_message = {hit.message.id: sentences_of(hit, question) for hit in found.hits}
    every = (one for some in by_message.values() for one in some if one.may_answer)
    candidates = nlargest(EMBEDDED, every, key=lambda one: one.covered)
    note = "; ".join(filter(None, (found.note, _compare(app, question, candidates, found.embedder))))
    for one in candidates:
        one.score = score(one, question)
    passages = [
        _passage(passage_span(one, by_message[one.message.id], question), one, question)
        for one in _choose(candidates, limit)
    ]
    if not any(one.confidence >= ANSWERS for one in passages):
        passages = []
    passages = [one for one in passages if one.confidence >= MIN_CONFIDENCE]
    answer = Answer(query.text, passages, question.terms, question.unknown, found.hits[:limit], note=note)
    if not write or not candidates or not app.summarizer.remote:
        return answer
    try:
        return _written(app, answer, question, _choose(candidates, MODEL_PASSAGES), by_message)
    except Exception as error:  # of any kind: the passages need no model
        what = f"not written by a model: the summarizer cannot be used ({error})"
        return replace(answer, note="; ".join(filter(None, (note, what))))


def _compare(app: App, question: Question, candidates: Sequence[Sentence], model: str) -> str:
    """Set the similarity of sentences to the question, by the model of the search; return why not, if so."""
    for one in candidates:
        one.similarity = USUAL_SIMILARITY * one.own
    if not candidates or not model:
        return ""
    try:
        better = app.embedder_upgrade
        embedder = better if better is not None and better.model == model else app.embedder
        asked = embedder.embed([question.text], query=True)[0]
        vectors = embedder.embed([" ".join(one.text.split()) for one in candidates])
    except Exception as error:  # of any kind: words alone answer, too
        return f"answered by words alone: the embedder cannot be used ({error})"
    for one, similarity in zip(candidates, (vectors @ asked).tolist(), strict=True):
        one.similarity = max(0.0, similarity)
    return ""


def _choose(candidates: Sequence[Sentence], limit: int) -> list[Sentence]:
    """Return the best sentences, at most one of a message, and none that says the same as a better one."""
    chosen: list[Sentence] = []
    for one in sorted(candidates, key=lambda one: (-one.score, -(one.message.date or 0.0), one.start)):
        if any(one.message is other.message or _alike(one, other) for other in chosen):
            continue
        chosen.append(one)
        if len(chosen) == limit:
            break
    return chosen


def _alike(one: Sentence, other: Sentence) -> bool:
    return len(one.terms & other.terms) >= ALIKE * len(one.terms | other.terms)


def _passage(span: tuple[int, int], one: Sentence, question: Question) -> AnswerPassage:
    return AnswerPassage(one.message, *span, round(confidence(one, question), 3))


# -- written by a chat model


def _written(
    app: App,
    found: Answer,
    question: Question,
    chosen: Sequence[Sentence],
    by_message: dict[str, list[Sentence]],
) -> Answer:
    """Return the answer that the chat model writes, with the sentences that it cites as passages."""
    from onward import Passage
    from onward.models.answer_writer import write_answer
    from onward.models.http_summarizer import HTTPSummarizer

    contexts: list[list[Sentence]] = []
    room = MAX_CONTEXTS
    for one in chosen:
        context = _context(one, by_message[one.message.id])
        room -= len(_text_of(context).encode("utf-8", "replace"))
        if contexts and room < 0:
            break
        contexts.append(context)
    passages = [
        Passage(some[0].message.id, some[0].message.author, some[0].message.date, _text_of(some))
        for some in contexts
    ]
    assert isinstance(app.summarizer, HTTPSummarizer)
    written = write_answer(app.summarizer, question.text, passages)
    if not written.statements:
        return replace(found, passages=[], model=written.model)
    text, cited = _cite(written, contexts)
    if not cited:
        raise NoCitations(f"{written.model} cites none of the {len(passages)} passages that it was given")
    cut_off = "the model's answer was cut off by its limit of length" if written.cut_off else ""
    return replace(
        found,
        passages=[_passage((one.start, one.end), one, question) for one in cited],
        text=text,
        model=written.model,
        note="; ".join(filter(None, (found.note, cut_off))),
    )


def _context(one: Sentence, beside: Sequence[Sentence]) -> list[Sentence]:
    """Return a sentence with as many around it as fit: one before it, those after it, then more before it."""
    first = last = beside.index(one)
    steps = [(-1, 0), *[(0, 1)] * len(beside), *[(-1, 0)] * len(beside)]
    for before, after in steps:
        start, end = first + before, last + after
        if start >= 0 and end < len(beside) and beside[end].end - beside[start].start <= MAX_CONTEXT:
            first, last = start, end
    return list(beside[first : last + 1])


def _text_of(context: Sequence[Sentence]) -> str:
    return context[0].message.body[context[0].start : context[-1].end]


def _cite(written: WrittenAnswer, contexts: Sequence[Sequence[Sentence]]) -> tuple[str, list[Sentence]]:
    """Return the text of an answer, and the sentences it cites, numbered in the order in which they are cited."""
    from onward.models.sentences import words

    numbers: dict[Sentence, int] = {}
    parts = []
    for statement in written.statements:
        claimed = {word.lower() for word in words(statement.text)}

        def likeness(one: Sentence, claimed: set[str] = claimed) -> float:
            own = {word.lower() for word in words(one.text)}
            return len(own & claimed) / (len(own | claimed) or 1)

        cited = [max(contexts[number - 1], key=likeness) for number in statement.cites]
        marks = "".join(f"[{numbers.setdefault(one, len(numbers) + 1)}]" for one in dict.fromkeys(cited))
        if not marks and statement.needs_source:
            marks = NO_SOURCE
        parts.append(f"{statement.text} {marks}".rstrip() + statement.gap)
    return "".join(parts).strip(), list(numbers)
