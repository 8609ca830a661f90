"""`onward schema`: JSON Schemas of the pipeline's events and documents."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import click

from onward.cli.params import json_option
from onward.cli.render.output import console, print_json
from onward.retry.errors import OnwardError

if TYPE_CHECKING:
    from onward import Document, Event

DIALECT = "https://json-schema.org/draft/2020-12/schema"


@click.command()
@click.argument("name", required=False)
@json_option
def schema(name: str | None, as_json: bool) -> None:
    """Print the JSON Schema of an event or a document; without a name, say which there are.

    An event's schema is that of its `data`. With --json and no name: all of them.

    \b
    Examples:
      onward schema
      onward schema ArchiveIngested
      onward schema --json > schemas.json
    """
    events, documents = _classes()
    known = events | documents
    if name is not None:
        found = {known_name.lower(): known_name for known_name in known}.get(name.lower())
        if found is None:
            raise OnwardError(f"there is no schema {name!r}; known are: {', '.join(known)}")
        print_json(_schema_of(known[found]))
    elif as_json:
        print_json({known_name: _schema_of(kind) for known_name, kind in known.items()})
    else:
        out = console()
        for title, kinds, about in (("Events", events, "routing_key"), ("Documents", documents, "collection")):
            out.print(f"[bold]{title}[/]")
            for known_name, kind in kinds.items():
                out.print(f"  {known_name:27}[dim]{getattr(kind, about):36}{_first_line(kind)}[/]", soft_wrap=True)


def _classes() -> tuple[dict[str, type[Event]], dict[str, type[Document]]]:
    from onward import Document, Event
    from onward.pipeline import documents, events

    def declared(module: Any, base: type[Any]) -> dict[str, type[Any]]:
        return {
            name: kind
            for name, kind in vars(module).items()
            if inspect.isclass(kind)
            and issubclass(kind, base)
            and kind.__module__ == module.__name__
            and name[0] != "_"
        }

    return declared(events, Event), declared(documents, Document)


def _schema_of(kind: type[Event] | type[Document]) -> dict[str, Any]:
    found = {"$schema": DIALECT, "title": kind.__name__, **kind.model_json_schema()}
    for name in ("routing_key", "collection"):
        if value := getattr(kind, name, ""):
            found[f"x-{name.replace('_', '-')}"] = value
    return found


def _first_line(kind: type[Any]) -> str:
    return (kind.__doc__ or "A round was given up.").partition("\n")[0]
