"""The pipeline's job as a script: the same parser, splitter, models and search tables, and no durability.

No ledger, no states, no retries, no second process: whatever goes wrong, it starts again from nothing. What it
writes can be searched like the real thing.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
import sys
import time
from pathlib import Path
from typing import BinaryIO, cast

from onward import Passage, Settings
from onward.models.extractive_summarizer import ExtractiveSummarizer
from onward.models.static_embedder import StaticEmbedder
from onward.pipeline.documents import Archive, Message
from onward.pipeline.read.mbox import split_mbox
from onward.pipeline.read.message_reader import read_message
from onward.pipeline.stages.chunking import MAX_SUBJECT_CHARACTERS, TextPiece, split
from onward.pipeline.stages.model_calls import said
from onward.pipeline.subjects import plain_subject

BATCH = 256
TOKENS, OVERLAP = Settings().chunk_tokens, Settings().chunk_overlap

TABLES = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE messages (id TEXT PRIMARY KEY, thread TEXT, date REAL, body TEXT);
CREATE VIRTUAL TABLE texts USING fts5 (title, text, quoted, tokenize = 'porter unicode61 remove_diacritics 2');
CREATE TABLE chunks (id INTEGER PRIMARY KEY, message TEXT, position INTEGER, text TEXT, vector BLOB);
CREATE TABLE summaries (thread TEXT PRIMARY KEY, body TEXT);
"""


def run(source: Path, target: Path) -> dict[str, float]:
    """Ingest an mbox into a new database file; return the seconds of each step."""
    took: dict[str, float] = {}
    clock = time.perf_counter
    database = sqlite3.connect(target, isolation_level=None)
    database.executescript(TABLES)
    database.execute("BEGIN")
    archive = Archive(id="a", source=str(source), source_id="s", kind="mbox", blob="b", origin="o")

    began = clock()
    messages: list[Message] = []
    texts: list[tuple[int, str, str, str]] = []
    with gzip.open(source) if source.suffix == ".gz" else source.open("rb") as stream:
        for number, raw in enumerate(split_mbox(cast(BinaryIO, stream))):
            read = read_message(archive, f"{number}", raw)
            messages.append(read.message)
            texts.append((number, read.message.subject, read.text, read.quoted))
    took["parse"] = clock() - began

    began = clock()
    database.executemany(
        "INSERT INTO messages VALUES (?, ?, ?, ?)",
        ((message.id, message.thread_id, message.date, message.model_dump_json()) for message in messages),
    )
    database.executemany("INSERT INTO texts (rowid, title, text, quoted) VALUES (?, ?, ?, ?)", texts)
    took["index"] = clock() - began

    began = clock()
    pieces: list[tuple[Message, int, TextPiece]] = [
        (message, position, piece)
        for message in messages
        for position, piece in enumerate(
            split(message.new_text(), kind=message.kind, max_tokens=TOKENS, overlap=OVERLAP)
        )
    ]
    took["chunk"] = clock() - began

    began = clock()
    embedder = StaticEmbedder()
    for start in range(0, len(pieces), BATCH):
        batch = pieces[start : start + BATCH]
        titles = [plain_subject(message.subject)[:MAX_SUBJECT_CHARACTERS] for message, _, _ in batch]
        texts_of_batch = [
            f"{title}\n" * embedder.title_repeats + piece.text
            for title, (_, _, piece) in zip(titles, batch, strict=True)
        ]
        vectors = embedder.embed(texts_of_batch).astype("<f4")
        database.executemany(
            "INSERT INTO chunks (message, position, text, vector) VALUES (?, ?, ?, ?)",
            [
                (message.id, position, piece.text, vector.tobytes())
                for (message, position, piece), vector in zip(batch, vectors, strict=True)
            ],
        )
    took["embed"] = clock() - began

    began = clock()
    summarizer = ExtractiveSummarizer()
    threads: dict[str, list[Message]] = {}
    for message in messages:
        threads.setdefault(message.thread_id, []).append(message)
    for id, members in threads.items():
        members.sort(key=lambda message: (message.date or 0.0, message.offset))
        passages = [Passage(it.id, it.author, it.date, said(it), it.language) for it in members]
        written = summarizer.summarize(members[0].subject, passages)
        database.execute("INSERT INTO summaries VALUES (?, ?)", (id, written.markdown))
    took["summarize"] = clock() - began

    began = clock()
    database.execute("COMMIT")
    database.close()
    took["commit"] = clock() - began
    return took


if __name__ == "__main__":
    steps = run(Path(sys.argv[1]), Path(sys.argv[2]))
    print(json.dumps({name: round(seconds, 3) for name, seconds in steps.items()}))
