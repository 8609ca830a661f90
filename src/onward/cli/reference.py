"""`onward policies` and `onward schema`: what is retried when, and the JSON Schemas of events and documents."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from onward.cli.params import json_option, print_json
from onward.ops.bad_input import NotFound
from onward.ops.queries.policies import describe_archive, describe_ladder, describe_rounds
from onward.ops.text.format import one_line
from onward.recovery.retry_decision import RetryJobRules
from onward.retry.errors import OnwardError
from onward.settings import load_settings

if TYPE_CHECKING:
    from onward import Document, Event
    from onward.model.ledger import Subscription

DIALECT = "https://json-schema.org/draft/2020-12/schema"


@click.command()
@json_option
def policies(as_json: bool) -> None:
    """Show what is retried when, and until when.

    Collections with rounds of their own are listed when a worker of their app has used this store.
    """
    settings = load_settings()
    rules = RetryJobRules.of(settings, _stored_subscriptions())
    rungs, sentence = describe_ladder(rules.ladder), describe_archive(rules.ladder)
    collections = describe_rounds(rules)
    if as_json:
        own = [asdict(one) for one in collections]
        rows = [asdict(rung) for rung in rungs]
        print_json({"rungs": rows, "collections": own, "archive": sentence.replace("\n", " ")})
        return
    from onward.cli.output import Output

    out = Output()
    for rung in rungs:
        out.print(f"[bold]{rung.rung} {rung.name:14}{rung.when}[/]")
        for label, text in (("waits", rung.describe_waits()), ("gives up", rung.gives_up), ("then", rung.then)):
            out.print(f"  [dim]{label:14}[/]{text}")
        out.print()
    if collections:
        out.print("[bold]Collections with rounds of their own[/]")
        for one in collections:
            out.print(f"  [dim]{one_line(one.collection):14}[/]{one.describe()}")
        out.print()
    out.print(sentence)


def _stored_subscriptions() -> list[Subscription]:
    """Return the services of the store, if there is one: their collections may have rules of their own."""
    from onward.cli.app_access import open_store_app

    try:
        with open_store_app() as app:
            return app.store.subscriptions()
    except NotFound:
        return []
    except OnwardError as error:  # the ladder does not depend on the store
        click.echo(f"Rules that collections declare are not shown: {error}", err=True)
        return []


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
    from onward import Document, Event
    from onward.pipeline import documents as document_module
    from onward.pipeline import events as event_module

    events, documents = _declared(event_module, Event), _declared(document_module, Document)
    known = events | documents
    if name is not None:
        found = {known_name.lower(): kind for known_name, kind in known.items()}.get(name.lower())
        if found is None:
            raise OnwardError(f"there is no schema {name!r}; known are: {', '.join(known)}")
        print_json(_schema_of(found))
    elif as_json:
        print_json({known_name: _schema_of(kind) for known_name, kind in known.items()})
    else:
        from onward.cli.output import Output

        out = Output()
        for title, kinds, about in (("Events", events, "routing_key"), ("Documents", documents, "collection")):
            out.write(title, style="bold")
            for known_name, kind in kinds.items():
                first_line = (kind.__doc__ or "A round was given up.").partition("\n")[0]
                out.write(f"  {known_name:27}", (f"{getattr(kind, about):36}{first_line}", "dim"))


def _declared(module: Any, base: type[Any]) -> dict[str, type[Any]]:
    return {
        name: kind
        for name, kind in vars(module).items()
        if isinstance(kind, type)
        and issubclass(kind, base)
        and kind.__module__ == module.__name__
        and name[0] != "_"
    }


def _schema_of(kind: type[Event] | type[Document]) -> dict[str, Any]:
    from onward.ops.queries.document_details import EMBEDDED, STATE_SCHEMAS

    found = {"$schema": DIALECT, "title": kind.__name__, **kind.model_json_schema()}
    if collection := getattr(kind, "collection", ""):
        found["properties"] |= STATE_SCHEMAS
        if collection == "chunks":
            found["properties"][EMBEDDED] = {"type": "boolean"}
    for name in ("routing_key", "collection"):
        if value := getattr(kind, name, ""):
            found[f"x-{name.replace('_', '-')}"] = value
    return found
