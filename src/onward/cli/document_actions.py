"""`onward documents export | archive | discard | purge`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from onward.cli.action_run import carry_out, confirm_option, dry_run_option, interruptible
from onward.cli.app_access import open_store_app
from onward.cli.params import document_filter_options, json_option, output_file_option, output_option
from onward.cli.render.output import console
from onward.ops.actions.remove_documents import ArchiveDocuments, DiscardDocuments, PurgeDocuments
from onward.ops.document_export import exported, new_file, write_lines
from onward.ops.queries.documents import DocumentFilter, select_documents, statuses_of
from onward.ops.text.format import counted, one_line

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@document_filter_options
@output_option
def export(output: Path | None, **given: Any) -> None:
    """Export documents with their bodies, states, errors and dead letters, one JSON object a line (NDJSON).

    \b
    Examples:
      onward documents export --status failed --output failed.ndjson
      onward documents export --collection messages --source harbour-list.mbox | wc -l
    """
    filters = DocumentFilter(**given)
    with open_store_app() as app:
        states = select_documents(app, filters, statuses_of(filters.status, (None,)))
        if output is None:
            write_lines(sys.stdout, exported(app, states))
            return
        with interruptible(), new_file(output) as file:
            count = write_lines(file, exported(app, states))
    console(stderr=True).print(Text(f"{counted(count, 'document')} exported to {one_line(str(output))}"))


@click.command()
@document_filter_options
@output_file_option
@dry_run_option
@json_option
def archive(output: Path, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Export documents that were given up to a file, then remove them with everything made from them.

    What was made from them is exported as well. Only documents that failed or were discarded are archived.
    To bring them back, ingest their source again. An archive with messages stays: see `onward forget`.

    \b
    Examples:
      onward documents archive --status failed --older-than 30d --output failed.ndjson.gz --dry-run
      onward documents archive --group 5d41402a --output group.ndjson
    """
    with open_store_app() as app:
        carry_out(app, ArchiveDocuments(DocumentFilter(**given), output), as_json=as_json, dry_run=dry_run)


@click.command()
@document_filter_options
@confirm_option
@dry_run_option
@json_option
def discard(confirm: bool, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Give documents up for good: they become discarded, and are kept.

    Without --status, documents that failed. `onward retry` still brings them back.

    \b
    Examples:
      onward documents discard --collection messages --status failed --dry-run
      onward documents discard --group 5d41402a --confirm
    """
    with open_store_app() as app:
        discard = DiscardDocuments(DocumentFilter(**given))
        carry_out(app, discard, as_json=as_json, dry_run=dry_run, confirm=confirm)


@click.command()
@document_filter_options
@confirm_option
@dry_run_option
@json_option
def purge(confirm: bool, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Remove documents for ever, with everything made from them.

    Without --status, only documents that failed or were discarded. `onward documents archive` keeps a copy.
    An archive with messages stays: `onward forget` removes a source with everything that came from it.

    \b
    Examples:
      onward documents purge --status discarded --dry-run
      onward documents purge --status discarded --older-than 30d --confirm
    """
    with open_store_app() as app:
        carry_out(app, PurgeDocuments(DocumentFilter(**given)), as_json=as_json, dry_run=dry_run, confirm=confirm)
