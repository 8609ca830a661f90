"""The tokens of texts, word by word, for the built-in embedder and for chunking."""

from __future__ import annotations

import importlib.util
import os
import re
import threading
from collections.abc import Sequence
from functools import cache
from itertools import chain
from pathlib import Path

from onward.retry import OnwardError

WHEEL = "wordllama"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"

# Splits a text into words with the spaces before them, line ends and blanks; none of it is lost.
split_words = re.compile(r" *[^ \n]+|\n| +").findall
_MAX_KNOWN_WORDS = 30_000  # twice as many while the older half is still used; about 15 MB
_MAX_KNOWN_CHARACTERS = 64
_SURROGATE = re.compile("[\ud800-\udfff]")


class ModelMissing(OnwardError):
    """The files of a built-in model are not installed."""

    def __init__(self, why: str) -> None:
        super().__init__(f'the built-in model cannot be used: {why}; run: pip install "onward[pipeline]"')


class Tokenizer:
    """Tokenizes words, and keeps the tokens of at least the last `_MAX_KNOWN_WORDS`.

    No token spans the end of a word or a line. Tokenizing each word once is several times faster than whole texts.
    """

    def __init__(self) -> None:
        try:
            from tokenizers import Tokenizer as Reader
            from tokenizers import normalizers
        except ImportError as error:
            raise ModelMissing(f"{error.name} is not installed") from error
        # One text at a time is not worth a thread for each core.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        path = model_folder() / TOKENIZER
        if not path.is_file():
            raise ModelMissing(f"{path} is not there")
        self._reader = Reader.from_file(str(path))
        self._reader.no_padding()
        self._reader.no_truncation()
        # Its input is single words, each with the space before it; "<s>" in a text is text.
        self._reader.normalizer = normalizers.Replace(" ", "▁")
        self._reader.encode_special_tokens = True
        self._numbers = list(range(self._reader.get_vocab_size()))  # shared by all words
        self._newline = self._ids("\n")
        self._known: dict[str, tuple[int, ...]] = {"\n": self._newline}
        self._known_before: dict[str, tuple[int, ...]] = {}  # words that were known when `_known` began

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text; none for a blank text."""
        if not text or text.isspace():
            return []
        return list(chain.from_iterable(self.of_words(split_words(" " + text))))

    def of_words(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        known = self._known  # another thread may replace it
        try:
            return list(map(known.__getitem__, words))
        except KeyError:
            return list(map(self._with(set(words)).__getitem__, words))

    def _with(self, words: set[str]) -> dict[str, tuple[int, ...]]:
        """Return tokens by word, of these words and others."""
        known = self._known
        missing = words.difference(known)
        if not missing:
            return known
        before = self._known_before
        found = {word: before[word] for word in missing if word in before}
        if new := list(missing.difference(found)):
            self._tokenize(new, found)
        if len(known) > _MAX_KNOWN_WORDS and known is self._known:
            self._known_before, self._known = known, {"\n": self._newline}
        long = {word: found.pop(word) for word in missing if len(word) > _MAX_KNOWN_CHARACTERS}
        self._known.update(found)
        if known is not self._known or long:
            return {word: tokens for word in words if (tokens := known.get(word)) is not None} | found | long
        return known

    def _tokenize(self, words: list[str], found: dict[str, tuple[int, ...]]) -> None:
        # One call for all words: a line end is always a token of its own.
        ids = self._ids("\n".join(words))
        start = 0
        for word in words[:-1]:
            end = ids.index(self._newline[0], start)
            found[word] = ids[start:end]
            start = end + 1
        found[words[-1]] = ids[start:]

    def _ids(self, text: str) -> tuple[int, ...]:
        # Not `encode`: that also finds the place of each token, which takes a third of its time.
        ids = self._reader.encode_batch_fast([encodable(text)], add_special_tokens=False)[0].ids
        return tuple(map(self._numbers.__getitem__, ids))


def encodable(text: str) -> str:
    """Return a text that tokenizers accept: without lone surrogates."""
    return _SURROGATE.sub("\ufffd", text)


_lock = threading.Lock()
_make_tokenizer = cache(Tokenizer)


def open_tokenizer() -> Tokenizer:
    """Return the tokenizer of this process: there is only one, because it takes 25 MB."""
    with _lock:
        return _make_tokenizer()


def model_folder() -> Path:
    # Not imported: importing the package configures logging for the whole process.
    spec = importlib.util.find_spec(WHEEL)
    if spec is None or not spec.submodule_search_locations:
        raise ModelMissing(f"the package {WHEEL} is not installed")
    return Path(spec.submodule_search_locations[0])
