"""Answers: the passages of messages that answer a question."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query

from onward.console.api import search_schemas
from onward.console.api.documents import Author, Date, FromSource, find_source
from onward.console.api.openapi import reads
from onward.console.request_context import Onward
from onward.ops.queries.answers import answer_facts
from onward.ops.text.format import printable

router = APIRouter(prefix="/v3", tags=["Search"])

Question = Query(
    min_length=1,
    max_length=1_000,
    json_schema_extra={"pattern": r"\w"},
    description="A question; the operators of a search, such as `from:`, can be used in it.",
)


@reads(router, "/ask", "Answer a question", search_schemas.Answer, 400, 404, 422)
def ask(
    app: Onward,
    q: Annotated[str, Question],
    source: FromSource = None,
    author: Annotated[str | None, Author] = None,
    since: Date = None,
    until: Date = None,
    limit: Annotated[int, Query(ge=1, le=5, description="How many passages at most.")] = 3,
    passages: Annotated[bool, Query(description="Only passages, even if a chat model is set.")] = False,
) -> dict[str, Any]:
    """Get the passages that answer a question, each with its place in its message.

    If a chat model is set, it writes the answer from them: `[1]` in `answer` cites the first passage. Nothing
    answers if `answered` is false; then `nearest` has the best messages.
    """
    from onward.pipeline.answers import ask as find
    from onward.pipeline.search import Query as Asked

    question, author_text = (printable(text or "").replace("\0", " ") for text in (q, author))
    asked = Asked(
        question,
        source=find_source(app, source),
        author=author_text or None,
        since=_timestamp(since),
        until=_timestamp(until),
    )
    return answer_facts(app, find(app, asked, limit=limit, write=not passages))


def _timestamp(date: datetime | None) -> float | None:
    return None if date is None else (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
