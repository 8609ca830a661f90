"""Stores of any size for the bench of search: made-up mails, written as the pipeline's commits are written.

A made-up mail has some paragraphs of real mails, mostly of one thread, so that its words are as frequent as words
are, its chunks have neighbours, and no two mails are the same; and two words that no other mail has, because a
larger store has more words. No ledger is involved: it is not what a search reads.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from onward import App
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.ledger import IndexedText, NewDocument
from onward.pipeline.documents import Chunk, Message
from onward.search.postings import text_entry

PARAGRAPHS_OF_CHUNK = 3
CHUNKS_OF_MAIL = (1, 2, 3, 4, 6)
MAILS_OF_THREAD = 6
OWN_THREAD = 0.7  # The share of paragraphs that are of the mail's own topic
BATCH_MAILS = 250  # Of one transaction
SOURCES, AUTHORS = 8, 400
FIRST_DATE, SECONDS_BETWEEN = 1_000_000_000.0, 600.0
CHUNK_TEXT = 100  # Characters of a chunk's text that are stored: a search does not read them


class Paragraphs:
    """The paragraphs of real mails, by topic, and their vectors."""

    def __init__(self, app: App, mails: Sequence[Message]) -> None:
        self.topics: list[range] = []
        self.subjects: list[str] = []
        self.texts: list[str] = []
        threads: dict[str, list[Message]] = {}
        for mail in sorted(mails, key=lambda mail: mail.message_id):
            threads.setdefault(mail.thread_id, []).append(mail)
        for some in threads.values():
            first = len(self.texts)
            for mail in some:
                parts = re.split(r"\n\s*\n", mail.new_text())
                self.texts += [text for part in parts if 40 <= len(text := part.strip()) <= 1_500]
            if len(self.texts) > first:
                self.topics.append(range(first, len(self.texts)))
                self.subjects.append(some[0].subject)
        self.vectors: NDArray[np.float32] = app.embedder.embed(self.texts)

    def questions(self) -> Iterator[str]:
        """Return words as somebody would type them: neighbouring words of a paragraph; always the same."""
        choose = random.Random(2)
        while True:
            words = re.findall(r"[^\W\d_]{2,}", choose.choice(self.texts))
            start = choose.randrange(max(1, len(words) - 8))
            if some := words[start : start + choose.choice((1, 2, 3, 5, 8))]:
                yield " ".join(some)


@dataclass(frozen=True, slots=True)
class MadeMail:
    message: Message
    vectors: NDArray[np.float32]  # of its chunks


class MailMaker:
    """Makes one mail after the other; the same paragraphs give the same mails."""

    def __init__(self, paragraphs: Paragraphs) -> None:
        self._paragraphs = paragraphs
        self._random = random.Random(1)
        self._number = 0

    def mails(self) -> Iterator[MadeMail]:
        while True:
            yield self._mail()

    def _mail(self) -> MadeMail:
        number, choose, paragraphs = self._number, self._random, self._paragraphs
        self._number += 1
        thread = number // MAILS_OF_THREAD
        which = thread % len(paragraphs.topics)
        topic = paragraphs.topics[which]
        chosen = [
            choose.choice(topic) if choose.random() < OWN_THREAD else choose.randrange(len(paragraphs.texts))
            for _ in range(choose.choice(CHUNKS_OF_MAIL) * PARAGRAPHS_OF_CHUNK)
        ]
        sums = paragraphs.vectors[chosen].reshape(-1, PARAGRAPHS_OF_CHUNK, paragraphs.vectors.shape[1]).sum(axis=1)
        own_words = f"w{choose.getrandbits(40):x} w{choose.getrandbits(40):x}"
        message = Message(
            id=Message.make_id("message", number),
            source=f"list-{number % SOURCES}.mbox",
            archive_id="archive",
            origin="origin",
            kind="mbox",
            thread_id=f"thread-{thread}",
            message_id=f"{number}@example.org",
            subject=paragraphs.subjects[which],
            author=f"Author {number % AUTHORS} <a{number % AUTHORS}@example.org>",
            date=FIRST_DATE + number * SECONDS_BETWEEN,
            body="\n\n".join([*(paragraphs.texts[one] for one in chosen), own_words]),
            language="en",
        )
        return MadeMail(message, sums / np.linalg.norm(sums, axis=1, keepdims=True))


class StoreFiller:
    """Writes made-up mails into stores, and their vectors also into a file, for comparison."""

    def __init__(self, apps: Sequence[App], maker: MailMaker, vectors: Path) -> None:
        self._apps, self._source, self._vectors = apps, maker.mails(), vectors
        self.chunks: list[str] = []  # the ids of the chunks, in the order of the vectors
        self.mails = 0

    def fill(self, chunks: int) -> None:
        """Write mails until there are so many chunks, and pack the index."""
        with self._vectors.open("ab") as file:
            while len(self.chunks) < chunks:
                documents, texts, vectors = [], [], []
                for made in islice(self._source, BATCH_MAILS):
                    self.mails += 1
                    documents.append(_new(made.message, made.message.source))
                    texts.append(_indexed(made.message))
                    for position, vector in enumerate(made.vectors):
                        chunk = _chunk(made.message, position)
                        self.chunks.append(chunk.id)
                        documents.append(_new(chunk, made.message.source, f"messages/{made.message.id}"))
                        vectors.append((chunk.id, vector.astype("<f4").tobytes()))
                        file.write(vectors[-1][1])
                for app in self._apps:
                    _write(app, documents, texts, vectors)
        for app in self._apps:
            app.store.pack_index(everything=True)


def _write(
    app: App, documents: list[NewDocument], texts: list[IndexedText], vectors: list[tuple[str, bytes]]
) -> None:
    store = app.store

    def steps() -> None:
        unit = UnitOfWork(store.db, store.now())
        unit.read_documents((new.collection, new.id) for new in documents)  # all at once, which is faster
        for new in documents:
            unit.add(new)
        for text in texts:
            unit.index_text(text)
        for id, vector in vectors:
            unit.index_vector((Chunk.collection, id), app.embedder.model, vector)
        unit.write()

    store.atomically(steps)


def _new(document: Message | Chunk, source: str, parent: str | None = None) -> NewDocument:
    body, keys = document.to_json(), document.key_values()
    return NewDocument(document.collection, document.id, body, source=source, parent=parent, keys=keys)


def _indexed(message: Message) -> IndexedText:
    facets = {
        "author": message.author,
        "thread": message.thread_id,
        "kind": message.kind,
        "language": message.language,
    }
    fields = {"from": message.author, "id": message.message_id}
    entry = text_entry(message.subject, message.body, "", fields, message.language)
    return IndexedText(
        message.collection,
        message.id,
        message.subject,
        message.body,
        "",
        *entry,
        date=message.date,
        facets=json.dumps(facets),
    )


def _chunk(message: Message, position: int) -> Chunk:
    return Chunk(
        id=Chunk.make_id("chunk", message.id, position),
        message_id=message.id,
        thread_id=message.thread_id,
        position=position,
        start=0,
        end=CHUNK_TEXT,
        text=message.body[:CHUNK_TEXT],
        tokens=CHUNK_TEXT // 4,
    )
