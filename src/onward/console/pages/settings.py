"""Settings, to be looked at: what is retried when, and every value with its default. Nothing is changed here."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib import metadata, resources
from pathlib import Path
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from pydantic import SecretStr
from starlette.responses import Response

from onward.app import App
from onward.console.charts import ladder_schedule
from onward.console.page_templates import page
from onward.console.request_context import Onward
from onward.ops.lookup import is_server
from onward.ops.queries.models import read_models, read_vectors
from onward.ops.queries.policies import describe_archive, describe_ladder, describe_rounds
from onward.ops.text.format import one_line
from onward.ops.text.models import model_sentence, vector_lines
from onward.recovery.retry_decision import RetryJobRules
from onward.retry import redact
from onward.settings import Settings, named_by, variable

router = APIRouter(include_in_schema=False)

GROUPS = {
    "Where things are": ("home", "store", "store_replica", "gateway", "bus", "blobs", "vectors", "rabbitmq_"),
    "Workers": ("concurrency", "time_limit_", "keep_completed_"),
    "Retrying": ("retry_", "max_retries", "fetch_backoff_", "breaker_"),
    "Models and chunks": ("embedder", "summarizer", "reranker", "chunk_"),
    "Fetching and reading": ("fetch_", "unpack_", "read_", "attachments_", "ocr"),
    "Console and API": ("serve_", "token"),
    "Logs, metrics and reports": ("",),  # all others
}


class SettingRow(NamedTuple):
    """A setting, without any secret in it."""

    variable: str
    value: str
    default: str
    changed: bool
    where: str  # where its value comes from


@router.get("/settings")
def show(request: Request, app: Onward) -> Response:
    rules = RetryJobRules.of(app.settings, app.store.subscriptions())
    ladder = rules.ladder
    return page(
        request,
        "settings.html",
        rungs=[(one, ladder_schedule(one)) for one in describe_ladder(ladder)],
        archive=describe_archive(ladder),
        collections=describe_rounds(rules),
        groups=list_settings(app.settings, os.environ),
        **_models(app),
        versions=_versions(app),
    )


def _models(app: App) -> dict[str, Any]:
    """Return the models and their vectors, if the app is the pipeline."""
    if "embedding" not in app.registry.services:
        return {"models": [], "vectors": []}
    models = [(one.role, model_sentence(one), one.error) for one in read_models(app, measure=False)]
    return {"models": models, "vectors": vector_lines(read_vectors(app))}


def list_settings(settings: Settings, environ: Mapping[str, str]) -> dict[str, list[SettingRow]]:
    """Return all settings by subject, each with its default."""
    # The store's default lies in the data folder, wherever that is.
    usual = Settings.model_validate({"home": settings.home}).model_copy(update={"home": Settings().home})
    groups: dict[str, list[SettingRow]] = {title: [] for title in GROUPS}
    for name in Settings.model_fields:
        value, default = getattr(settings, name), getattr(usual, name)
        changed = value != default
        where = named_by(name, environ) or ("onward.toml, or the app itself" if changed else "default")
        group = next(title for title, starts in GROUPS.items() if name.startswith(starts))
        groups[group].append(SettingRow(variable(name), _shown(value), _shown(default), changed, where))
    return groups


def _shown(value: object) -> str:
    """Return a value without secrets."""
    match value:
        case None | "":
            return "–"
        case SecretStr():
            return "set, not shown"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case Path():
            return one_line(str(value))
        case _:
            return one_line(redact(str(value)))


def _versions(app: App) -> list[tuple[str, str]]:
    # The version of the store's tables is that of this program, which migrates them on opening.
    if is_server(app.store_address):
        from onward.ledger.postgres.connections import SCHEMA_VERSION

        schema = f"PostgreSQL, version {SCHEMA_VERSION}"
    else:
        migrations = resources.files("onward.ledger.sqlite") / "migrations"
        schema = f"SQLite, version {sum(one.name.endswith('.sql') for one in migrations.iterdir())}"
    own = metadata.version("onward")
    return [
        ("Onward", own),
        *([("App", one_line(app.version, 100))] if app.version != f"onward {own}" else []),
        ("Python", platform.python_version()),
        ("Store", one_line(redact(app.store_address)) or "handed over by the app"),
        ("Store's schema", schema),
    ]
