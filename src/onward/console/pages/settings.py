"""Settings, to be looked at: what is retried when, and every value with its default. Nothing is changed here."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path

from fastapi import APIRouter, Request
from pydantic import SecretStr
from starlette.responses import Response

from onward.app import App
from onward.console.asking import Onward
from onward.console.rendering import page
from onward.console.schedules import draw
from onward.facts.finding import is_server
from onward.facts.policies import describe, describe_archive
from onward.facts.wording import one_line
from onward.retry import redact
from onward.settings import Settings, named_by, variable

router = APIRouter()

GROUPS = {
    "Where things are": ("home", "store", "bus", "blobs", "vectors", "rabbitmq_"),
    "Workers": ("concurrency", "time_limit_", "keep_completed_"),
    "Retrying": ("retry_", "max_retries"),
    "Models and chunks": ("embedder", "summarizer", "chunk_"),
    "Fetching": ("fetch_", "unpack_"),
    "Console and API": ("serve_", "token"),
}
OTHERS = "Logs, metrics and reports"


@dataclass(frozen=True, slots=True)
class Shown:
    """A setting, without any secret in it."""

    variable: str
    value: str
    default: str
    changed: bool
    where: str
    """Where its value comes from."""


@router.get("/settings")
def show(request: Request, app: Onward) -> Response:
    """Every policy and every setting."""
    settings = app.settings
    ladder = settings.ladder()
    return page(
        request,
        "settings.html",
        rungs=[(one, draw(one)) for one in describe(ladder)],
        archive=describe_archive(ladder),
        groups=list_settings(settings, os.environ),
        versions=_versions(app),
    )


def list_settings(settings: Settings, environ: Mapping[str, str]) -> dict[str, list[Shown]]:
    """All settings by what they are about, each with its default."""
    # The store's default lies in the data folder, wherever that is.
    usual = Settings.model_validate({"home": settings.home}).model_copy(update={"home": Settings().home})
    groups: dict[str, list[Shown]] = {title: [] for title in (*GROUPS, OTHERS)}
    for name in Settings.model_fields:
        value, default = getattr(settings, name), getattr(usual, name)
        given = named_by(name, environ)
        changed = value != default
        where = given or ("onward.toml, or the app itself" if changed else "default")
        groups[_group(name)].append(Shown(variable(name), _shown(value), _shown(default), changed, where))
    return groups


def _group(name: str) -> str:
    return next((title for title, starts in GROUPS.items() if name.startswith(starts)), OTHERS)


def _shown(value: object) -> str:
    """A value as it may be seen by whoever looks over somebody's shoulder."""
    match value:
        case None | "":
            return "–"
        case SecretStr():
            return "set, not shown"
        case bool():
            return str(value).lower()
        case int() | float():
            return f"{value:g}" if isinstance(value, float) else str(value)
        case Path():
            return one_line(str(value))
        case _:
            return one_line(redact(str(value)))


def _versions(app: App) -> list[tuple[str, str]]:
    own = f"onward {metadata.version('onward')}"
    return [
        ("Onward", metadata.version("onward")),
        *([("App", one_line(app.version, 100))] if app.version != own else []),
        ("Python", platform.python_version()),
        ("Store", one_line(redact(app.store_address)) or "handed over by the app"),
        ("Store's schema", _schema(app)),
    ]


def _schema(app: App) -> str:
    """The version of the store's tables: that of this program, which brought them up to it when it opened them."""
    if is_server(app.store_address):
        from onward.backends.postgres.migrating import SCHEMA_VERSION

        return f"PostgreSQL, version {SCHEMA_VERSION}"
    migrations = resources.files("onward.backends.sqlite") / "migrations"
    return f"SQLite, version {sum(one.name.endswith('.sql') for one in migrations.iterdir())}"
