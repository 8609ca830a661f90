"""A question: the words that say what is asked for, each with its weight, and the kind of answer it wants."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from onward.pipeline.query_language import parse
from onward.search import words
from onward.search.ranking import Scorer, telling_terms
from onward.search.text_snapshot import TextSnapshot

# A question is prose: a word that begins with a minus is an option there, not a word to leave out.
_OPTION = re.compile(r"(?<!\S)-+(?=\w)")
_POSSESSIVE = re.compile(r"(?<=\w)['’]s\b")
# What asks for a number, and is no word to look for: how often, wie lange.
_MEASURES = re.compile(
    r"(?i)\b(?:(how)\s+(?:often|long|much|many|far)|(wie)\s+(?:oft|lange|viele?|weit)|(combien)\s+de|(quante?|quanti)"
    r"|(cuánt[oa]s?))\b"
)
# Chinese and Japanese have no spaces around the words that ask.
_ASKING = re.compile(
    "什么时候|什麼時候|为什么|為什麼|怎么样?|怎麼樣?|什么|什麼|多少|几[个時时]|哪里|哪裡|哪儿|哪个|谁|誰[がはのを]?|吗|嗎|呢"
    "|どうして|どのように|どのくらい|どれくらい|いくつ|いくら|なぜ|どこ[でにのへ]?|いつ|どの|どれ|なに|何[がをの]?"
    "|(?:です|ます|ました|でした)か|か(?=[？?]|$)"
)
_VERSION = re.compile(r"\d\.\d")  # its parts say nothing: 3.0 is neither 3 nor 0
_HIRAGANA = re.compile("[\u3040-\u309f]+")  # endings and particles

# The beginnings of their names.
_MONTHS = "jan|feb|mar|mär|apr|avr|may|mai|jun|juin|jul|juil|aug|août|sep|oct|okt|nov|dec|dez|déc"
_DAYS = (
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?|montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag"
    r"|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche"
)


class AnswerKind(NamedTuple):
    """What a question asks for, by the words that ask, and what a sentence that answers it holds."""

    name: str
    asks: re.Pattern[str]
    answers: re.Pattern[str]
    certain: bool  # a sentence without it is hardly an answer


ANSWER_KINDS = (
    AnswerKind(
        "reason",
        re.compile(
            r"(?i)\b(?:why|reason|causes?|warum|weshalb|wieso|pourquoi|por qué|perché)\b"
            r"|为什么|為什麼|なぜ|どうして"
        ),
        re.compile(
            r"(?i)\b(?:because|cause[sd]?|reasons?|due to|so that|since|fault|therefore|thus|weil|wegen|deshalb"
            r"|denn|grund|parce que?|à cause|car|raison|porque|perché)\b|因为|因為|所以|由于|ので|から|ため|原因"
        ),
        False,
    ),
    AnswerKind(
        "time",
        re.compile(
            r"(?i)\b(?:when|what (?:time|date|day|year)|wann|quand|cuándo|quando)\b"
            r"|什么时候|什麼時候|几[時时]|いつ"
        ),
        re.compile(
            rf"(?i)\d{{1,2}}[:.h]\d\d\b|\b(?:19|20)\d\d\b|\b(?:{_MONTHS})[a-zäéû]*\b|\b(?:{_DAYS})\b"
            r"|\b\d{1,2}(?:st|nd|rd|th)\b|\b(?:to(?:day|morrow)|yesterday|tonight|weeks?|months?|years?|noon|midnight"
            r"|evening|morning|heute|morgen|gestern|woche|monat|jahr|demain|hier|semaine|mois|année)\b|[年月日時时]"
        ),
        True,
    ),
    AnswerKind(
        "number",
        re.compile(
            r"(?i)\bhow (?:many|much|long|often|old|tall|heavy|large|big|far|high|wide|deep|fast)\b"
            r"|\bwie (?:viele?|oft|hoch|lange?|alt|groß|schwer|weit|teuer)\b"
            r"|\b(?:combien|cuánt[oa]s?|quant[oaie])\b|多少|几个|いくつ|いくら|どのくらい|どれくらい"
        ),
        re.compile(
            r"(?i)\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty"
            r"|hundred|thousand|million|once|twice|every|daily|weekly|monthly|yearly|none|zwei|drei|vier|fünf|sechs"
            r"|sieben|acht|neun|zehn|zwölf|hundert|tausend|einmal|zweimal|täglich|deux|trois|quatre|cinq|sept|huit"
            r"|neuf|dix|cent|mille)\b|[一二三四五六七八九十百千万]"
        ),
        True,
    ),
    AnswerKind(
        "person",
        re.compile(r"(?i)\b(?:who|whom|whose|wer|wem|wen|wessen|qui|quién(?:es)?|chi)\b|谁|誰"),
        # A name inside of a sentence, or the author.
        re.compile(
            r"(?<=[a-zß-ÿ,;:.] )[A-ZÀ-Þ][a-zß-ÿ]+|^[A-ZÀ-Þ][a-zß-ÿ]+ (?:[a-zß-ÿ]+s|has|will|is|was|and)\b"
            r"|\b(?:I|I['’]\w+|[Mm]e|[Mm]y|[Ww]e|[Ii]ch|[Ww]ir|[Jj]e|[Nn]ous|[Yy]o)\b|[\u3400-\u9fff\u30a0-\u30ff]"
        ),
        True,
    ),
    AnswerKind(
        "place",
        re.compile(r"(?i)\b(?:where|wo|wohin|où|dónde|dove)\b|哪里|哪裡|哪儿|どこ"),
        re.compile(
            r"(?i)\b(?:in|on|at|under|behind|near|beside|by|inside|into|from|to|auf|an|bei|im|unter|hinter|neben|dans|sur"
            r"|sous|chez|près)\s+(?:the|a|an|our|my|his|her|its|their|d(?:er|ie|em|en)|l[ae]s?|[A-ZÀ-Þ])|[在里]|[にで]"
        ),
        False,
    ),
)


class AskedWord(NamedTuple):
    """A word of a question: the terms of the index that stand for it, and how telling it is."""

    terms: frozenset[str]
    weight: float


@dataclass(frozen=True)
class Question:
    """What is asked for."""

    text: str
    words: tuple[AskedWord, ...]
    unknown: tuple[str, ...]  # words that no message has
    kinds: tuple[AnswerKind, ...]

    @cached_property
    def terms(self) -> frozenset[str]:
        return frozenset().union(*(word.terms for word in self.words))

    @cached_property
    def weight(self) -> float:
        return sum(word.weight for word in self.words)

    @property
    def certain_kinds(self) -> bool:
        return any(kind.certain for kind in self.kinds)

    def coverage(self, found: Collection[str], besides: Collection[str] = ()) -> float:
        """Return the share of the question, by weight, that these terms cover and the terms `besides` do not."""
        covered = sum(
            word.weight
            for word in self.words
            if not word.terms.isdisjoint(found) and word.terms.isdisjoint(besides)
        )
        return covered / (self.weight or 1.0)

    def wants(self, sentence: str) -> bool:
        """Return whether a sentence has a reason, a date, a number, a name or a place, if one is asked for."""
        return any(kind.answers.search(sentence) for kind in self.kinds)


def searchable(question: str) -> str:
    """Return a question as a query for a search."""
    return _OPTION.sub("", _POSSESSIVE.sub("", question))


def read_question(text: str, snapshot: TextSnapshot) -> Question:
    """Return what is asked for: rare words tell most of it, and above all words that no message has."""
    languages = snapshot.languages()
    plain = _ASKING.sub(" ", _MEASURES.sub(" ", searchable(text)))
    wanted = parse(plain if any(map(str.isalnum, plain)) else text).wanted
    asked: dict[frozenset[str], str] = {}
    for term in telling_terms(wanted, languages, question=True):
        is_version = _VERSION.search(term.text) is not None
        found = words.query_terms(term.text, languages, whole=is_version)
        for alternatives in found[-1:] if is_version else found:
            if not all(_HIRAGANA.fullmatch(one) for one in alternatives):
                asked.setdefault(frozenset(alternatives), term.text)
    postings = snapshot.postings({one for terms in asked for one in terms})
    scorer = Scorer(snapshot, postings)
    texts = {terms: max(len(postings[one].numbers) for one in terms) for terms in asked}
    return Question(
        text,
        tuple(AskedWord(terms, scorer.rarity(count)) for terms, count in texts.items()),
        tuple(dict.fromkeys(asked[terms].strip("?!.,;:") for terms, count in texts.items() if not count)),
        tuple(kind for kind in ANSWER_KINDS if kind.asks.search(text)),
    )
