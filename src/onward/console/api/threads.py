"""Threads with their summaries, the one with the newest message first."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from onward.console.api import search_schemas
from onward.console.api.documents import After, FromSource, Limit, find_source
from onward.console.api.openapi import reads
from onward.console.request_context import Onward
from onward.ops.queries.threads import ThreadEntry, ThreadPosition, list_threads
from onward.ops.text.format import iso, printable, source_name

router = APIRouter(prefix="/v3/threads", tags=["Search"])


@reads(router, "", "List threads", search_schemas.Threads, 400, 404, 422)
def get_threads(
    app: Onward,
    q: Annotated[str, Query(max_length=1_000, description="Words, as in a search; messages must have some.")] = "",
    source: FromSource = None,
    files: Annotated[bool, Query(description="Whether files and web pages are listed, too.")] = False,
    after: After = "",
    limit: Limit = 50,
) -> dict[str, Any]:
    """Threads and their summaries, the one with the newest message first; go on while `next` is given."""
    words = printable(q).replace("\0", " ").strip()
    position = ThreadPosition.from_text(printable(after).replace("\0", "")) if after else None
    wanted = find_source(app, source)
    found = list_threads(app, source=wanted, words=words, files=files, after=position, limit=limit)
    return {
        "threads": [_facts(one) for one in found.threads],
        "files_left_out": found.files,
        "next": found.threads[-1].place.as_text() if found.more else None,
    }


def _facts(entry: ThreadEntry) -> dict[str, Any]:
    summary = entry.summary
    return {
        "id": entry.thread.id,
        "subject": summary.subject if summary else entry.thread.subject,
        "source": source_name(entry.thread.source),
        "messages": summary.messages if summary else entry.thread.messages,
        "latest_message": iso(entry.place.latest),
        "summary": summary.markdown if summary else None,
        "citations": [one.model_dump() for one in summary.citations] if summary else [],
        "model": summary.model if summary else None,
    }
