"""The tokens of texts, word by word, as the built-in embedder and the splitting of texts count them.

No token of this vocabulary spans the end of a word or a line, so a text's tokens are those of its words.
Words come back all the time; tokenizing each only once is several times faster than whole texts.
"""

from __future__ import annotations

import importlib.util
import re
import threading
from collections.abc import Sequence
from functools import cache
from itertools import chain
from pathlib import Path

from onward.retry import OnwardError

WHEEL = "wordllama"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"

_WORD = re.compile(r" *[^ \n]+|\n| +")
_KNOWN_WORDS = 20_000
_LONG_WORD = 64
_SURROGATE = re.compile("[\ud800-\udfff]")


class ModelMissing(OnwardError):
    """The files of a built-in model are not installed."""

    def __init__(self, why: str) -> None:
        super().__init__(f'the built-in model cannot be used: {why}; run: pip install "onward[pipeline]"')


class Tokenizer:
    """Gives the tokens of words, most of which were met before."""

    def __init__(self) -> None:
        try:
            from tokenizers import Tokenizer as Reader
            from tokenizers import normalizers
        except ImportError as error:
            raise ModelMissing(f"{error.name} is not installed") from error
        path = model_folder() / TOKENIZER
        if not path.is_file():
            raise ModelMissing(f"{path} is not there")
        self._reader = Reader.from_file(str(path))
        self._reader.no_padding()
        self._reader.no_truncation()
        # It is given single words that bring their space along; and "<s>" in a text is text.
        self._reader.normalizer = normalizers.Replace(" ", "▁")
        self._reader.encode_special_tokens = True
        self._newline = self._ids("\n")
        self._known: dict[str, tuple[int, ...]] = {"\n": self._newline}

    def tokens(self, text: str) -> list[int]:
        """Give the tokens of a text; none for one that is blank."""
        if not text or text.isspace():
            return []
        return list(chain.from_iterable(self.of_words(split_words(" " + text))))

    def of_words(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        """Give the tokens of each word."""
        known = self._known  # kept while another thread may begin a new one
        try:
            return list(map(known.__getitem__, words))
        except KeyError:
            found = self._learn({word for word in words if word not in known})
            return [found.get(word) or known[word] for word in words]

    def _learn(self, words: set[str]) -> dict[str, tuple[int, ...]]:
        ordered = list(words)
        # One call for all: a line's end is a token by itself.
        ids = self._ids("\n".join(ordered))
        found: dict[str, tuple[int, ...]] = {}
        start = 0
        for word in ordered:
            end = ids.index(self._newline[0], start) if len(found) + 1 < len(ordered) else len(ids)
            found[word] = ids[start:end]
            start = end + 1
        if len(self._known) > _KNOWN_WORDS:
            self._known = {"\n": self._newline}
        self._known.update((word, tokens) for word, tokens in found.items() if len(word) <= _LONG_WORD)
        return found

    def _ids(self, text: str) -> tuple[int, ...]:
        return tuple(self._reader.encode(_SURROGATE.sub("\ufffd", text), add_special_tokens=False).ids)


def split_words(text: str) -> list[str]:
    """Split a text into words with the spaces before them, line ends and blanks; joined, they are the text."""
    return _WORD.findall(text)


_opening = threading.Lock()


def open_tokenizer() -> Tokenizer:
    """Give the tokenizer of this process: it takes 25 MB, so there is one."""
    with _opening:
        return _the_tokenizer()


@cache
def _the_tokenizer() -> Tokenizer:
    return Tokenizer()


def model_folder() -> Path:
    """Find the files of the built-in model."""
    # Found, not imported: importing the package sets up logging for the whole process.
    spec = importlib.util.find_spec(WHEEL)
    if spec is None or not spec.submodule_search_locations:
        raise ModelMissing(f"the package {WHEEL} is not installed")
    return Path(spec.submodule_search_locations[0])
