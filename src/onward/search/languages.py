"""The languages of texts: detection, stems and stop words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any

from onward.retry import OnwardError
from onward.search.folding import HAN, HANGUL, HIRAGANA, KATAKANA, THAI, fold, lower
from onward.search.stop_words import ENGLISH_WORDS, INDEXED_STOP_WORDS, QUESTION_VERBS, QUESTION_WORDS, STOP_WORDS

Stems = Callable[[str], tuple[str, ...]]

# ISO 639-1 codes and the names of the Snowball stemmers.
_STEMMERS = {
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "tr": "turkish",
}
_UNSPACED = ("ja", "ko", "zh")
LANGUAGES = (*_STEMMERS, *_UNSPACED)  # with rules of their own: stems and stop words, or pairs of characters
_OTHER_SCRIPTS = frozenset(("el", "ru", *_UNSPACED))  # Latin words in such a text are English


class SearchPackageMissing(OnwardError):
    """A package that search needs is not installed."""

    def __init__(self, package: str) -> None:
        super().__init__(f'search needs {package}, which is not installed; run: pip install "onward[pipeline]"')


def rules(language: str) -> str:
    """Return the language whose rules a text gets: those of English if its own is unknown or has none."""
    return language if language in LANGUAGES else "en"


def language_name(code: str) -> str:
    """Return the English name of a language, such as German for `de`; another text is returned as it is."""
    others = {"ja": "Japanese", "ko": "Korean", "zh": "Chinese"}
    return others.get(code) or _STEMMERS.get(code, code).capitalize()


@cache
def stems(language: str) -> Stems:
    """Return a function that returns the stems of a word in lower case: one, or two for a word with accents."""
    stem = _stemmer(language)
    latin_stem = _stemmer("en") if language in _OTHER_SCRIPTS else stem

    def stems_of(word: str) -> tuple[str, ...]:
        if word.isascii():
            return (fold(latin_stem(word)),)
        folded = fold(word)
        stem_of = latin_stem if folded.isascii() else stem
        first, second = fold(stem_of(word)), fold(stem_of(folded))
        return (first,) if first == second else (first, second)

    return stems_of


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    name = _STEMMERS.get(language)
    if name is None:
        return str
    try:
        from Stemmer import Stemmer
    except ImportError as error:
        raise SearchPackageMissing("PyStemmer") from error
    stemmer = Stemmer(name, 0)  # no cache: the tokens are cached
    lock = Lock()  # a Stemmer must not be used by two threads at once

    def stem(word: str) -> str:
        with lock:
            stemmed: str = stemmer.stemWord(word)
        return stemmed or word  # some Greek words are all ending

    return stem


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the words that are left out of the index of texts of a language: with and without their accents.

    Those of Chinese, Japanese and Korean are left out of all texts: they are words in no other language.
    """
    unspaced = [] if language in _UNSPACED else [stop_words(code) for code in _UNSPACED]
    indexed = _word_set(INDEXED_STOP_WORDS.get(language, ""))
    return (_word_set(STOP_WORDS.get(language, "")) - indexed).union(*unspaced)


@cache
def query_stop_words(languages: frozenset[str]) -> frozenset[str]:
    """Return the stop words and question words of all these languages."""
    found: set[str] = set()
    for language in languages:
        found |= _word_set(STOP_WORDS.get(language, "")) | _word_set(QUESTION_WORDS.get(language, ""))
    if "en" in languages:
        found -= set(ENGLISH_WORDS.split())
    return frozenset(found)


@cache
def question_beginnings(languages: frozenset[str]) -> frozenset[str]:
    """Return the words of these languages with which a question begins."""
    lists = (table.get(language, "") for language in languages for table in (QUESTION_WORDS, QUESTION_VERBS))
    return _word_set(" ".join(lists))


def _word_set(words: str) -> frozenset[str]:
    words = lower(words).replace("'", "")
    return frozenset([*words.split(), *fold(words).split()])


MIN_LETTERS = 16  # a shorter text has no certain language
MAX_CHARACTERS = 2_000  # what is read of a longer text
MIN_STOP_WORDS = 5  # this many different ones decide without the detector,
MIN_STOP_WORD_SHARE = 0.2  # if they are this part of all words,
MIN_LEAD = 1.5  # and this many times as many as those of any other language
MIN_CONFIDENCE = 0.4  # the confidence of the detector
_WORDS = re.compile(r"[^\W\d_]+")
_SCRIPTS = (
    ("ja", re.compile(f"[{HIRAGANA}{KATAKANA}]"), 0.1),
    ("ko", re.compile(f"[{HANGUL}]"), 0.3),
    ("th", re.compile(f"[{THAI}]"), 0.3),
    ("zh", re.compile(f"[{HAN}]"), 0.3),
)
# Letters that tell a language from those that share many stop words with it but have no list here.
_OWN_LETTERS = {"cs": re.compile("[ěřů]"), "pt": re.compile("[ãõ]"), "ru": re.compile("[ыэ]")}
# What the detector chooses from: its many other languages are seldom right for a short text.
_CANDIDATES = """
    ar bg bn ca cs da de el en es et eu fa fi fr ga he hi hr hu hy id is it ka lt lv mt nl no pl pt ro ru
    sk sl sq sr sv ta te tr uk ur vi zxx
"""


def detect_language(text: str) -> str:
    """Return the ISO 639-1 code of the language of a text, or "" if the text is too short or unclear."""
    words = _WORDS.findall(text[:MAX_CHARACTERS])
    letters = sum(map(len, words))
    if not letters:
        return ""
    joined = " ".join(words)
    if not joined.isascii():
        for language, script, share in _SCRIPTS:
            if len(script.findall(joined)) >= share * letters:
                return language
    if letters < MIN_LETTERS:
        return ""
    return _language_by_stop_words(words, joined) or _language_by_detector(joined)


def _language_by_stop_words(words: list[str], text: str) -> str:
    known = _languages_of_stop_words()
    counts: Counter[str] = Counter()
    seen = Counter(word for word in map(str.lower, words) if word in known)
    for word, count in seen.items():
        for language in known[word]:
            counts[language] += count
    if len(seen) < MIN_STOP_WORDS:
        return ""
    (best, most), *others = counts.most_common(2)
    clear = most >= MIN_STOP_WORD_SHARE * len(words) and (not others or most >= MIN_LEAD * others[0][1])
    own_letters = _OWN_LETTERS.get(best)
    return best if clear and (own_letters is None or own_letters.search(text)) else ""


@cache
def _languages_of_stop_words() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for language, words in STOP_WORDS.items():
        for word in lower(words).split():
            found[word] = (*found.get(word, ()), language)
    return found


def _language_by_detector(text: str) -> str:
    code, confidence = _detector().classify(text.lower())
    return str(code) if len(code) == 2 and confidence >= MIN_CONFIDENCE else ""


@cache
def _detector() -> Any:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError as error:
        raise SearchPackageMissing("py3langid") from error
    detector = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    detector.set_languages(_CANDIDATES.split())
    return detector
