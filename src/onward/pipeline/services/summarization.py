"""Summarization: write what a thread is about, with citations."""

from __future__ import annotations

from contextlib import nullcontext

from onward import App, Passage, Work
from onward.pipeline.documents import Cited, Message, Summary, Thread, in_order
from onward.pipeline.events import EmbeddingsGenerated, SummaryComplete


def summarize(app: App, thread: Thread, work: Work) -> None:
    """Summarise a thread that is complete; a summary it had before is replaced."""
    messages = in_order(work.store.get_many(Message, thread.message_ids))
    if len(messages) < len(thread.message_ids):
        # Some were removed since it was asked for. What is left may not be all: they may be about to come back.
        work.replace(thread.to_be_asked_for())
        work.emit(EmbeddingsGenerated(thread_ids=[thread.id]))
        return
    subject = messages[0].subject if messages else thread.subject
    passages = [
        Passage(message.id, message.author, message.date, message.new_text().strip()) for message in messages
    ]
    with nullcontext() if app.summarizer.remote else work.computing():
        written = app.summarizer.summarize(subject, passages, key=work.key)
    summary = Summary(
        id=thread.id,
        source=thread.source,
        thread_id=thread.id,
        subject=subject,
        markdown=written.markdown,
        citations=[
            Cited(number=one.number, message_id=one.message_id, sentence=one.sentence) for one in written.citations
        ],
        model=written.model,
        messages=thread.messages,
        missing=thread.missing,
        prompt_tokens=written.prompt_tokens,
        completion_tokens=written.completion_tokens,
        seconds=written.seconds,
    )
    if work.store.get(Summary, summary.id) is None:
        work.add(summary, parent=None)
    else:
        work.replace(summary)
    work.emit(SummaryComplete.of(thread))
