"""Chunking: split messages into overlapping chunks of bounded size, at paragraphs, sentences, lines or words."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from onward import App, DocumentState, Permanent, Reader, Work
from onward.models.tokenizer import open_tokenizer, split_words
from onward.pipeline.documents import Chunk, Message
from onward.pipeline.events import ChunksPrepared, EmbeddingsGenerated, JSONParsed, ThreadsDiverged
from onward.pipeline.stages.parsing import read_again
from onward.pipeline.subjects import plain_subject
from onward.pipeline.thread_index import ThreadIndex

CHECKPOINT_CHUNKS = 400
MAX_TOKENS = 256
MAX_SUBJECT_CHARACTERS = 200
OVERLAP_TOKENS = 32
MIN_MAX_TOKENS = 32  # the lower limit of `max_tokens`: a single character may take five tokens

# A long text is split in parts, to bound memory; each is many pieces long, so the result is nearly the same.
_PART_CHARACTERS = 65_536
_JOINED = "\u200d\ufe0f\u0300-\u036f\U0001f3fb-\U0001f3ff"  # part of the character before it

_PARAGRAPH = r"\n[ \t\r]*\n"
_SENTENCE = r"[.!?][\"')\]]*(?=[ \n])|[。！？]"
_LINE = r"\n"
_HEADING = r"\n(?=#{1,6} )"


class _Boundaries(NamedTuple):
    """Where a piece may end, best first, with the least fill of the piece; and where an overlap may begin."""

    ends: tuple[tuple[re.Pattern[str], float], ...]
    starts: re.Pattern[str]


_TEXT = _Boundaries(
    ((re.compile(_PARAGRAPH), 0.5), (re.compile(_SENTENCE), 0.6), (re.compile(_LINE), 0.6)),
    re.compile(f"{_SENTENCE}|{_LINE}"),
)
_KINDS = {
    "markdown": _Boundaries(((re.compile(_HEADING), 0.3), *_TEXT.ends), _TEXT.starts),
    "code": _Boundaries(
        (
            (re.compile(_PARAGRAPH + r"(?=\S)"), 0.4),
            (re.compile(_PARAGRAPH), 0.5),
            (re.compile(_LINE + r"(?=[^\s)}\]])"), 0.6),
            (re.compile(_LINE), 0.3),
        ),
        re.compile(_LINE),
    ),
}


def requeue(states: Sequence[DocumentState], store: Reader) -> Iterator[JSONParsed]:
    by_archive: dict[str, list[str]] = {}
    for state in states:
        # One at a time: a single message may be large.
        if (message := store.get(Message, state.id)) is not None:
            by_archive.setdefault(message.archive_id, []).append(message.id)
    for archive, ids in by_archive.items():
        yield JSONParsed(archive_id=archive, message_doc_ids=ids)


def chunk(app: App, messages: Sequence[Message], work: Work) -> None:
    """Chunk the new text of each message; quotes are found by full text only."""
    readable: list[Message] = []
    for message in messages:
        # Messages that could not be read before are read again.
        read = message if message.blob is None else read_again(app, message, work)
        if isinstance(read, Permanent):
            work.fail(message, read)
        else:
            readable.append(read)
    _compare_threads(app, readable, work)
    tokens, overlap = app.settings.chunk_tokens, app.settings.chunk_overlap
    with work.computing():
        found = [split(it.new_text(), kind=it.kind, max_tokens=tokens, overlap=overlap) for it in readable]
    split_up = list(zip(readable, found, strict=True))
    threads = {message.thread_id for message, pieces in split_up if not pieces}
    all_pieces = [(message, *placed) for message, pieces in split_up for placed in enumerate(pieces)]
    done = int(work.cursor or 0)
    made: list[Chunk] = []
    for number, (message, position, piece) in enumerate(all_pieces):
        if number < done:
            continue  # committed by an earlier try
        chunk = Chunk(
            id=Chunk.make_id("chunk", message.id, position, piece.text),
            message_id=message.id,
            thread_id=message.thread_id,
            subject=plain_subject(message.subject)[:MAX_SUBJECT_CHARACTERS],
            position=position,
            **piece._asdict(),
        )
        made.append(work.add(chunk, parent=message))
        app.metrics.increment("chunks_created_total")
        app.metrics.observe("chunk_size_tokens", piece.tokens)
        if len(made) >= CHECKPOINT_CHUNKS:
            work.emit(ChunksPrepared.of(made))
            work.checkpoint(number + 1)
            made, done = [], number + 1
    if done:
        # The chunks of a checkpoint may already be embedded; then their threads wait only for these messages.
        threads |= {message.thread_id for message in readable}
    if made:
        # So may the chunks of an earlier try without a usable cursor: its batch was halved, or reset.
        known = work.store.statuses(Chunk, [chunk.id for chunk in made])
        threads |= {chunk.thread_id for chunk in made if chunk.id in known}
        work.emit(ChunksPrepared.of(made))
    if threads:
        work.emit(EmbeddingsGenerated(thread_ids=sorted(threads)))


def _compare_threads(app: App, messages: Sequence[Message], work: Work) -> None:
    """Compare the threads of new messages with those of others that were stored at the same time."""
    if work.cursor:
        return  # an earlier try has committed what it has found
    by_source: defaultdict[str, list[Message]] = defaultdict(list)
    for message in messages:
        by_source[message.source].append(message)
    for source, some in by_source.items():
        if found := ThreadIndex(app).diverged(some):
            work.emit(ThreadsDiverged(source=source, thread_ids=sorted(found)))


class TextPiece(NamedTuple):
    start: int
    end: int
    text: str
    tokens: int


def split(
    text: str, *, kind: str = "text", max_tokens: int = MAX_TOKENS, overlap: int = OVERLAP_TOKENS
) -> list[TextPiece]:
    """Split a text into pieces of at most `max_tokens` that repeat up to `overlap` of the one before.

    A piece ends with a paragraph, a sentence, a line or a word, in this order of preference; headings come
    first in `kind="markdown"`, lines that are not indented in `kind="code"`. Every character that is not a
    space is in at least one piece. The result is deterministic.
    """
    if max_tokens < MIN_MAX_TOKENS:
        raise ValueError(f"max_tokens={max_tokens} is too few; give at least {MIN_MAX_TOKENS}")
    if not 0 <= overlap <= max_tokens // 2:
        raise ValueError(f"overlap={overlap} must be from 0 to half of max_tokens={max_tokens}")
    boundaries = _KINDS.get(kind, _TEXT)
    size = max(_PART_CHARACTERS, 64 * max_tokens)
    pieces: list[TextPiece] = []
    begin = 0
    while begin < len(text):
        found = list(_Part(text[begin : begin + size], begin, max_tokens, overlap, boundaries).pieces())
        begin += size
        if begin < len(text) and len(found) > 1:
            # The end of the part is no boundary of the text: the last piece is made again, with the next part.
            begin = found.pop().start
        pieces += found
    return pieces


class _Part:
    """A part of a text as words, with the place of each and the number of tokens before it."""

    def __init__(self, text: str, offset: int, max_tokens: int, overlap: int, boundaries: _Boundaries) -> None:
        self._text, self._offset, self._boundaries = text, offset, boundaries
        self._max_tokens, self._max_overlap = max_tokens, overlap
        words = split_words(text)
        counts = _counts(words)
        # A very long word is cut anywhere; the tokens of its parts may not add up to its own.
        self._inexact = max(counts, default=0) > max_tokens // 4
        if self._inexact:
            words = [
                part
                for word, tokens in zip(words, counts, strict=True)
                for part in ([word] if tokens <= max_tokens // 4 else _cut(word, max_tokens))
            ]
            counts = _counts(words)
        self._words = words
        self._tokens = list(accumulate(counts, initial=0))
        self._starts = list(accumulate(map(len, words), initial=0))

    def pieces(self) -> Iterator[TextPiece]:
        new = first = self._skip(0)
        while new < len(self._words):
            last = self._fill(first, new)
            if first < new and self._count(first, last) > self._max_tokens:
                # With much blank space between them, the overlap and a new word do not fit into one piece.
                first, last = new, self._fill(new, new)
            if self._skip(last) < len(self._words):
                last = self._end(first, new, last)
            text = self._text[self._starts[first] : self._starts[last]]
            start = self._offset + self._starts[first] + len(text) - len(text.lstrip())
            text = text.strip()
            yield TextPiece(start, start + len(text), text, self._count(first, last))
            new = self._skip(last)
            first = self._skip(self._overlap(first, last))

    def _skip(self, first: int) -> int:
        while first < len(self._words) and self._words[first].isspace():
            first += 1
        return first

    def _fill(self, first: int, new: int) -> int:
        """Return the end of the longest piece; it contains at least one new word."""
        last = bisect_right(self._tokens, self._tokens[first] + self._max_tokens) - 1
        # The first word has another number of tokens without the space before it.
        while last > new + 1 and self._count(first, last) > self._max_tokens:
            last -= 1
        return max(last, new + 1)

    def _end(self, first: int, new: int, last: int) -> int:
        end = self._starts[last]
        for pattern, fullness in self._boundaries.ends:
            full = self._tokens[first] + int(self._max_tokens * fullness)
            fewest = max(new + 1, bisect_left(self._tokens, full))
            if fewest >= last:
                continue
            best = 0
            # The search begins a little earlier and ends a little later: a boundary may span the limits.
            for match in pattern.finditer(self._text, max(0, self._starts[fewest] - 4), end + 8):
                if match.end() > end:
                    break
                best = match.end()
            if (cut := bisect_right(self._starts, best) - 1) >= fewest:
                return cut
        return last

    def _overlap(self, first: int, last: int) -> int:
        # At most half, so that each piece begins after the piece before.
        most = min(self._max_overlap, (self._tokens[last] - self._tokens[first]) // 2)
        start = max(first + 1, bisect_left(self._tokens, self._tokens[last] - most))
        if start >= last:
            return last
        match = self._boundaries.starts.search(self._text, self._starts[start] - 1, self._starts[last])
        if match is None:
            return start
        cut = bisect_left(self._starts, match.end())
        return cut if self._skip(cut) < last else start

    def _count(self, first: int, last: int) -> int:
        """Count the tokens of the words, without blanks at the end."""
        while self._words[last - 1].isspace():
            last -= 1
        if self._inexact or last - first == 1:
            return len(open_tokenizer().tokens(self._text[self._starts[first] : self._starts[last]].strip()))
        begin, end = _counts((" " + self._words[first].lstrip(), self._words[last - 1].rstrip()))
        return begin + self._tokens[last - 1] - self._tokens[first + 1] + end


def _cut(word: str, max_tokens: int) -> list[str]:
    """Cut a word, but not within a visible character, and after a full stop if possible."""
    longest = max(3, max_tokens // 16)
    return re.findall(rf"(?s)[^。！？]{{1,{longest}}}[。！？{_JOINED}]{{0,4}}|[。！？]", word)


def _counts(words: Sequence[str]) -> list[int]:
    return list(map(len, open_tokenizer().of_words(words)))
