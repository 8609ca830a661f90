"""An embedder that needs no server: the mean of stored word vectors, read from an installed wheel."""

from __future__ import annotations

import importlib.util
import re
import threading
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from onward.retry import OnwardError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

WHEEL = "wordllama"
WEIGHTS = "weights/l2_supercat_256.safetensors"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"

# No token of this vocabulary spans the end of a word or a line, so a text's tokens are those of its words.
# Words come back all the time; tokenizing each only once is several times faster than whole texts.
_WORD = re.compile(r" *[^ \n]+|\n| +")
_KNOWN_WORDS = 20_000
_LONG_WORD = 64
_SURROGATE = re.compile("[\ud800-\udfff]")


class ModelMissing(OnwardError):
    """The files of a built-in model are not installed."""


class StaticEmbedder:
    """Embeds thousands of texts a second on one core, always to the same vectors."""

    model = "static:wordllama-l2-256"
    dimensions = 256
    max_tokens = 1_000_000
    batch = 256
    remote = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: _Tables | None = None

    def embed(self, texts: Sequence[str], *, key: str = "") -> NDArray[np.float32]:
        tables = self._loaded or self._load()
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in zip(rows, texts, strict=True):
            if ids := tables.tokens(text):
                # One text at a time stays in the processor's cache, and no text's vector depends on another's.
                np.add.reduce(tables.weights[ids], axis=0, out=row)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        np.divide(rows, lengths, out=rows, where=lengths > 0)
        return rows

    def healthy(self) -> bool:
        return True

    def close(self) -> None:
        self._loaded = None

    def _load(self) -> _Tables:
        with self._lock:
            if self._loaded is None:
                self._loaded = _Tables(_folder())
            return self._loaded


class _Tables:
    """The tokenizer and the vector of each token."""

    def __init__(self, folder: Path) -> None:
        try:
            from safetensors.numpy import load_file

            stored = load_file(folder / WEIGHTS)["embedding.weight"]
            self._tokenizer = _open_tokenizer(folder / TOKENIZER)
        except ImportError as error:
            raise _missing(f"{error.name} is not installed") from error
        except (FileNotFoundError, KeyError) as error:
            raise _missing(f"{folder} does not hold what is expected ({error})") from error
        self.weights: NDArray[np.float32] = stored.astype(np.float32)
        self._newline = tuple(self._tokenizer.encode("\n", add_special_tokens=False).ids)
        self._known: dict[str, tuple[int, ...]] = {"\n": self._newline}

    def tokens(self, text: str) -> list[int]:
        """Give the tokens of a text, as its tokenizer would; none for one that is blank."""
        if not text or text.isspace():
            return []
        words = _WORD.findall(" " + text)
        known = self._known  # kept while another thread may begin a new one
        try:
            return list(chain.from_iterable(map(known.__getitem__, words)))
        except KeyError:
            found = self._learn({word for word in words if word not in known})
            return list(chain.from_iterable(found.get(word) or known[word] for word in words))

    def _learn(self, words: set[str]) -> dict[str, tuple[int, ...]]:
        ordered = list(words)
        ids = self._tokenizer.encode(_SURROGATE.sub("\ufffd", "\n".join(ordered)), add_special_tokens=False).ids
        found: dict[str, tuple[int, ...]] = {}
        start = 0
        for word in ordered:
            end = ids.index(self._newline[0], start) if len(found) + 1 < len(ordered) else len(ids)
            found[word] = tuple(ids[start:end])
            start = end + 1
        if len(self._known) > _KNOWN_WORDS:
            self._known = {"\n": self._newline}
        self._known.update((word, tokens) for word, tokens in found.items() if len(word) <= _LONG_WORD)
        return found


def _open_tokenizer(path: Path) -> Tokenizer:
    from tokenizers import Tokenizer, normalizers

    if not path.is_file():
        raise FileNotFoundError(path)
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    # It is given single words that bring their space along; and "<s>" in a text is text.
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.encode_special_tokens = True
    return tokenizer


def _folder() -> Path:
    # Found, not imported: importing the package sets up logging for the whole process.
    spec = importlib.util.find_spec(WHEEL)
    if spec is None or not spec.submodule_search_locations:
        raise _missing(f"the package {WHEEL} is not installed")
    return Path(spec.submodule_search_locations[0])


def _missing(why: str) -> ModelMissing:
    return ModelMissing(f'the embedder "static" cannot be used: {why}; run: pip install "onward[pipeline]"')
