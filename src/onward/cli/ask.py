"""`onward ask`: the passages of messages that answer a question."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from onward.cli.app_access import open_reading_app
from onward.cli.output import Output, marked
from onward.cli.params import DATE, json_option, print_json
from onward.ops.lookup import EMPTY, resolve, resolve_source, short_ids
from onward.ops.queries.answers import answer_facts
from onward.ops.text.format import moment, one_line, printable, shell_command
from onward.pipeline.answers import MAX_PASSAGES
from onward.retry.redact import redact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward import App
    from onward.pipeline.answers import Answer
    from onward.pipeline.documents import Message


@click.command()
@click.argument("question", nargs=-1, required=True, metavar="QUESTION…")
@click.option("--source", metavar="SOURCE", help="Only messages of this source (its name, or the end of it).")
@click.option("--author", metavar="NAME", help="Only messages of authors whose name or address contains this.")
@click.option("--since", type=DATE, metavar="DATE", help="Only messages from this date on.")
@click.option("--until", type=DATE, metavar="DATE", help="Only messages before this date.")
@click.option("--thread", metavar="ID", help="Only messages of this thread (its id, or the start of it).")
@click.option(
    "--limit",
    type=click.IntRange(1, MAX_PASSAGES),
    default=3,
    show_default=True,
    help="Passages at most.",
)
@click.option("--passages", "passages_only", is_flag=True, help="Show passages, even if a chat model is set.")
@json_option
def ask(
    question: tuple[str, ...],
    source: str | None,
    author: str | None,
    since: float | None,
    until: float | None,
    thread: str | None,
    limit: int,
    passages_only: bool,
    as_json: bool,
) -> None:
    """Answer a question with passages of messages, and say where they are.

    The passages are quoted word for word, each from another message. If a chat model is set
    (ONWARD_SUMMARIZER), it writes the answer from them, and numbers lead to the sentences it rests on. If
    nothing answers, that is said.

    The operators of `onward search`, such as from:NAME, can be used in the question.

    \b
    Examples:
      onward ask why did the tide gauge drift
      onward ask 'When is the open day?' --source harbour-list.mbox
      onward ask 'who has the key to the boathouse?' --since 2026-03 --json
    """
    from onward.pipeline.answers import ask as find
    from onward.pipeline.search import Query

    with open_reading_app() as app:
        sources = app.store.sources()
        query = Query(
            printable(" ".join(question)),
            source=resolve_source(app, source) if source and sources else None,
            author=printable(author) if author else None,
            thread=resolve(app, thread, ("threads", "summaries"))[1] if thread else None,
            since=since,
            until=until,
        )
        answer = find(app, query, limit=limit, write=not passages_only)
        if answer.note:
            click.echo(f"Warning: {one_line(redact(answer.note), 400)}", err=True)
        if as_json:
            print_json(answer_facts(app, answer))
        elif not sources:
            click.echo(EMPTY)
        elif answer.passages:
            _print_answer(app, answer)
        else:
            _print_nothing(app, answer)


def _print_answer(app: App, answer: Answer) -> None:
    from onward.search.excerpts import marked as mark

    out = Output()
    if answer.text:
        for line in answer.text.splitlines():
            out.wrapped(one_line(line))
        out.wrapped(f"Written by {one_line(answer.model)} from:", "dim")
        out.print()
    ids = short_ids(app, [one.message.id for one in answer.passages])
    for number, one in enumerate(answer.passages, start=1):
        text = marked(mark(one.text, answer.terms, one.message.language), terminal=out.is_terminal)
        out.indented(5, text, head=f"{number:>3}")
        out.write("     ", (ids[one.message.id], "green"), (f"  {_about(one.message)}", "dim"))
        out.print()
    out.hint("To read one: ", f"onward show {ids[answer.passages[0].message.id]}")


def _print_nothing(app: App, answer: Answer) -> None:
    out = Output()
    out.write(f"Nothing answers {one_line(answer.question)!r}.")
    if answer.model:
        out.wrapped(f"{one_line(answer.model)} found no answer in the best passages.", "dim")
    if answer.unknown:
        out.wrapped(f"No message has {_either([one_line(word, 40) for word in answer.unknown])}.", "dim")
    if answer.nearest:
        out.print()
        out.write("The nearest messages:" if len(answer.nearest) > 1 else "The nearest message:", style="dim")
        ids = short_ids(app, [hit.message.id for hit in answer.nearest])
        for hit in answer.nearest:
            out.write("     ", (ids[hit.message.id], "green"), (f"  {_about(hit.message)}", "dim"))
        out.hint(
            "To search by words: ", shell_command("onward search", one_line(answer.question)) or "onward search"
        )


def _about(message: Message) -> str:
    parts = (one_line(message.author, 60), moment(message.date), one_line(message.subject, 80))
    return " · ".join(filter(None, (*parts, one_line(message.path, 60))))


def _either(names: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(map(repr, names[:-1])), repr(names[-1]))))
