"""Random forests of mails: References that are whole, cut or missing, loops, and mails that never come."""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import formatdate
from typing import TypeVar

from hypothesis import strategies as st

from onward import App, Document
from onward.pipeline.documents import Chunk, Message, Summary, Thread
from onward.pipeline.mail_threads import find_threads
from onward.pipeline.search import Query, search

D = TypeVar("D", bound=Document)

START = 1_772_445_600.0  # Mon, 2 Mar 2026 10:00:00 UTC
SUBJECTS = ("The third crane", "Tides", "Minutes")


@dataclass(frozen=True)
class WrittenMail:
    """A mail of a forest."""

    number: int
    references: tuple[int, ...]
    reply_to: int | None
    subject: str
    day: float
    body: int = 0  # two bodies under one Message-ID are two messages

    def text(self) -> str:
        refers = " ".join(f"<{one}@forest.example>" for one in self.references)
        lines = [
            "From: Ada <ada@forest.example>",
            "To: crew@forest.example",
            f"Date: {formatdate(START + self.day * 86_400)}",
            f"Subject: {self.subject}",
            f"Message-ID: <{self.number}@forest.example>",
            *([f"References: {refers}"] if refers else []),
            *([f"In-Reply-To: <{self.reply_to}@forest.example>"] if self.reply_to is not None else []),
        ]
        return "\n".join([*lines, "", f"Word number {self.number} and {self.body}.", ""])


@st.composite
def forests(draw: st.DrawFn, most: int = 9) -> list[WrittenMail]:
    """Mails in the order in which they were written; some of those they refer to are missing."""
    mails: list[WrittenMail] = []
    ancestors: list[tuple[int, ...]] = []
    for number in range(draw(st.integers(2, most))):
        parent = draw(st.one_of(st.none(), st.integers(0, number - 1))) if number else None
        chain = (*ancestors[parent], parent) if parent is not None else ()
        ancestors.append(chain)
        style = draw(st.sampled_from(["whole", "in-reply-to", "last", "ends", "lone", "wild"]))
        references: tuple[int, ...] = chain
        reply_to = None
        if style == "in-reply-to":
            references, reply_to = (), parent
        elif style == "last":
            references = chain[-2:]
        elif style == "ends":
            references = chain[:1] + chain[-1:] if len(chain) > 1 else chain
        elif style == "lone":
            references = ()
        elif style == "wild":  # also loops, and mails that refer to themselves
            references = tuple(draw(st.lists(st.integers(0, most), max_size=3, unique=True)))
        subject = draw(st.sampled_from(SUBJECTS))
        is_reply = bool(chain) or draw(st.booleans())
        mails.append(
            WrittenMail(
                number,
                references,
                reply_to,
                ("Re: " if is_reply else "") + subject,
                draw(st.integers(0, 30)) + draw(st.sampled_from([0.0, 0.5])),
                body=0,
            )
        )
        if draw(st.integers(0, 9)) == 0:
            mails.append(WrittenMail(number, references, reply_to, subject, mails[-1].day, body=1))
    come = [mail for mail in mails if draw(st.integers(0, 4))]
    return come if len(come) > 1 else mails


def assert_threads_are_right(app: App) -> None:
    """What is stored is what one look at all mails together finds, on every document and in the search index."""
    store = app.store
    messages = every(app, Message)
    mails = [mail for message in messages if (mail := message.thread_mail()) is not None]
    right = find_threads(mails)
    assert {message.id: message.thread_id for message in messages} == right
    assert {thread.id for thread in every(app, Thread)} == set(right.values())
    assert {summary.id for summary in every(app, Summary)} == set(right.values())
    assert {chunk.message_id: chunk.thread_id for chunk in every(app, Chunk)} == right
    for thread in set(right.values()):
        found = search(app, Query("", thread=thread), limit=1_000)
        assert {hit.message.id for hit in found.hits} == {id for id, one in right.items() if one == thread}
        covered = store.get(Thread, thread)
        assert covered is not None
        assert covered.messages == len(found.hits), "its summary is not of all its messages"


def every(app: App, kind: type[D]) -> list[D]:
    ids = [one.id for one in app.store.states(kind, limit=100_000)]
    return app.store.get_many(kind, ids)
