"""Questions: the passages of messages that answer, each with a link to its place in its thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from onward.app import App
from onward.console.markdown import render_markdown
from onward.console.page_templates import fragment, page, with_query
from onward.console.pages.documents import chosen_source, source_choices
from onward.console.pages.search import marked, shown_hits
from onward.console.pages.threads import passage_path
from onward.console.request_context import Onward
from onward.ops.bad_input import BadInput
from onward.ops.text.format import one_line, printable, short_name
from onward.pipeline.documents import source_id
from onward.pipeline.query_language import QueryError
from onward.retry import redact

if TYPE_CHECKING:
    from onward.pipeline.answers import Answer

router = APIRouter(include_in_schema=False)

MAX_QUESTION_LENGTH = 1_000
MAX_PASSAGE = 2_000


@router.get("/ask")
def show(
    request: Request, app: Onward, q: str = "", source: str = "", write: str = "", part: str = ""
) -> Response:
    """Show the passages that answer a question; with `write`, what the chat model writes from them.

    A chat model takes seconds: the page shows the passages at once, and gets the model's answer as a `part`.
    """
    question = one_line(printable(q))[:MAX_QUESTION_LENGTH]
    source = one_line(printable(source))
    values = _answer(app, question, source, write=bool(write))
    if part:
        return HTMLResponse(fragment("ask_answer.html", question=question, **values))
    return page(request, "ask.html", question=question, sources=source_choices(app), **values)


def _answer(app: App, question: str, source: str, *, write: bool) -> dict[str, Any]:
    from onward.pipeline.answers import ask
    from onward.pipeline.search import Query

    problem, chosen, answer = "", None, None
    try:
        if question:
            chosen, problem = chosen_source(app, source)
            if problem:
                raise BadInput(problem)
            answer = ask(app, Query(question, source=chosen), write=write)
    except (BadInput, QueryError) as error:
        problem = str(error)
    writes = answer is not None and not write and bool(answer.nearest) and app.summarizer.remote
    written_path = with_query("/ask", q=question, source=source, write="yes")
    return {
        "problem": problem,
        "answer": answer,
        "passages": _passages(app, answer) if answer else [],
        "written": _written(answer) if answer and answer.text else "",
        "nearest": shown_hits(answer.nearest, several=_several(app)) if answer and not answer.passages else [],
        "unknown": _either([one_line(word, 40) for word in answer.unknown]) if answer and answer.unknown else "",
        "note": one_line(redact(answer.note), 300) if answer else "",
        "nothing": not app.store.document_counts().get("messages"),
        "chosen_source": source_id(chosen) if chosen else source,
        "search_path": with_query("/search", q=question, source=source),
        "written_path": written_path if writes else "",
    }


def _either(words: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _several(app: App) -> bool:
    return len(app.store.sources()) > 1


def _passages(app: App, answer: Answer) -> list[dict[str, Any]]:
    from onward.search.excerpts import marked as mark

    several = _several(app)
    return [
        {
            "message": one.message,
            "text": marked(mark(" ".join(one.text.split()), answer.terms, one.message.language), MAX_PASSAGE),
            "path": passage_path(one.message, one.start, one.end),
            "source": one_line(short_name(one.message.source), 40) if several else "",
        }
        for one in answer.passages
    ]


def _written(answer: Answer) -> str:
    links = {
        number: passage_path(one.message, one.start, one.end)
        for number, one in enumerate(answer.passages, start=1)
    }
    return render_markdown(answer.text, links)
