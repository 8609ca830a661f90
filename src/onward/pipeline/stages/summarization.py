"""Summarization: write a summary of a thread, with citations."""

from __future__ import annotations

from contextlib import nullcontext

from onward import App, Passage, Work
from onward.pipeline.documents import Message, Summary, SummaryCitation, Thread, in_order
from onward.pipeline.events import EmbeddingsGenerated, SummaryComplete


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
            SummaryCitation(number=cited.number, message_id=cited.message_id, sentence=cited.sentence)
            for cited in written.citations
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
