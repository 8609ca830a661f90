"""Embedding and summarization: the stages that call a model."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict

from onward import App, Passage, Work
from onward.models.sentences import sentence_spans
from onward.pipeline.documents import Chunk, Message, Summary, Thread, in_order
from onward.pipeline.events import EmbeddingsGenerated, SummaryComplete

MAX_ATTACHMENT_CHARACTERS = 4_000  # of an attachment that are summarised: a thread is about its mails
SHORT = 200  # characters; a longer text is not only a greeting or the signature of a phone


def embed(app: App, chunks: Sequence[Chunk], work: Work) -> None:
    """Embed a batch of chunks; a batch that fails is halved until the bad chunk is alone."""
    embedder = app.embedder
    with work.computing() if embedder.holds_gil else nullcontext():
        texts = [chunk.titled_text(embedder.title_repeats) for chunk in chunks]
        vectors = embedder.embed(texts, key=work.key).astype("<f4")
    for chunk, vector in zip(chunks, vectors, strict=True):
        work.place(chunk, vector.tobytes(), model=embedder.model)
    threads = sorted({chunk.thread_id for chunk in chunks})
    work.emit(EmbeddingsGenerated(chunk_ids=[chunk.id for chunk in chunks], thread_ids=threads))


def summarize(app: App, thread: Thread, work: Work) -> None:
    """Summarise a complete thread; an older summary is replaced."""
    messages = in_order(work.store.get_many(Message, thread.message_ids))
    if len(messages) < len(thread.message_ids):
        # Some were removed after the request. They may come back, so the thread is checked again.
        work.replace(thread.model_copy(update={"covers": ""}))
        work.emit(EmbeddingsGenerated(thread_ids=[thread.id]))
        return
    subject = messages[0].subject if messages else thread.subject
    if subject != thread.subject:  # that of the message that was parsed first
        work.replace(thread.model_copy(update={"subject": subject}))
    passages = [Passage(it.id, it.author, it.date, said(it), it.language) for it in messages]
    with nullcontext() if app.summarizer.remote else work.computing():
        written = app.summarizer.summarize(subject, passages, key=work.key)
    summary = Summary(
        id=thread.id,
        source=thread.source,
        thread_id=thread.id,
        subject=subject,
        messages=thread.messages,
        missing=thread.missing,
        **asdict(written),
    )
    if work.store.get(Summary, summary.id) is None:
        work.add(summary, parent=None)
    else:
        work.replace(summary)
    work.emit(SummaryComplete.of(thread))


def said(message: Message) -> str:
    """Return the text of a message without quotes and signature, or with them if it has no prose of its own.

    Of an attachment only the beginning is returned.
    """
    if message.attached_to is not None:
        return message.body.strip()[:MAX_ATTACHMENT_CHARACTERS]
    new = message.new_text().strip()
    return new if len(new) > SHORT or sentence_spans(new) else message.body.strip()
