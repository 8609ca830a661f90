"""Words of the store for what a person types: the end of a word, or the word that was probably meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onward.search.folding import fold
from onward.search.postings import storable_text
from onward.search.spelling import first_letters, shown_word, suggest

if TYPE_CHECKING:
    from onward.search.text_snapshot import TextSnapshot

MIN_LETTERS = 2  # Of a word that is completed
MAX_CANDIDATES = 5_000  # The most frequent terms, among which a misspelt word is looked for
BLOCKS = 4  # In which these are looked for: what is frequent is in all of them
TEXTS_OF_COMPLETION, TEXTS_OF_CORRECTION = 3, 10  # In which the words of a term are looked up
MAX_CHARACTERS = 20_000  # Of such a text


def completions(texts: TextSnapshot, begun: str, limit: int) -> list[str]:
    """Return words of the store that begin so, the most frequent first."""
    begins = storable_text(fold(begun))
    if len(begins) < MIN_LETTERS:
        return []
    terms = [term for term, _ in texts.terms_with_prefix(begins, 3 * limit, of_blocks=BLOCKS)]
    words = (word.lower() for word in _words_of(texts, terms) if fold(word).startswith(begins))
    return list(dict.fromkeys(words))[:limit]


def _words_of(texts: TextSnapshot, terms: Sequence[str]) -> list[str]:
    """Return a word for each term, as the texts have it: terms are stems, which nobody wants to read."""
    with_terms = _texts_with(texts, terms, TEXTS_OF_COMPLETION)
    return [shown_word(term, with_terms[term]) for term in terms]


def _texts_with(texts: TextSnapshot, terms: Sequence[str], limit: int) -> dict[str, list[tuple[str, str]]]:
    """Return for each term some texts that have it, the newest, with their languages."""
    postings = texts.postings(terms)
    numbers = {term: postings[term].numbers[-limit:].tolist() for term in terms}
    stored = texts.stored_texts(sorted({number for some in numbers.values() for number in some}))
    found = {
        number: ("\n".join(parts)[:MAX_CHARACTERS], texts.language_of(number)) for number, parts in stored.items()
    }
    return {term: [found[number] for number in some if number in found] for term, some in numbers.items()}


def corrections(texts: TextSnapshot, unknown: Sequence[str]) -> dict[str, str]:
    """Return for words that no text has, in lower case, those that were probably meant."""
    found = {}
    languages = texts.languages()

    def texts_of(term: str) -> list[tuple[str, str]]:
        return _texts_with(texts, [term], TEXTS_OF_CORRECTION)[term]

    for word in unknown:
        letters = first_letters(word, languages)
        candidates = [
            one for letter in letters for one in texts.terms_with_prefix(letter, MAX_CANDIDATES, of_blocks=BLOCKS)
        ]
        if candidates and (better := suggest(word, candidates, languages, texts_of)) is not None:
            found[word.lower()] = better
    return found
