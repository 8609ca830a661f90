"""Requests about sources: list them, and watch some, which ingests them at intervals."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import JSONResponse

from onward.console.api.openapi import changes, reads
from onward.console.api.schemas import ApiRequest, ApiResponse, DryRun, Time
from onward.console.operations import carry_out
from onward.console.request_context import Onward, Running
from onward.ops.actions.sources import IngestAgain
from onward.ops.actions.watching import ChangeWatches, WatchSource
from onward.ops.queries.sources import source_facts, source_with_id
from onward.ops.submissions import MAX_URL_LENGTH, remote_source

router = APIRouter(prefix="/v3")
source_call = partial(reads, router, tag="Sources")
source_change = partial(changes, router, tag="Sources")


class SourceProblem(ApiResponse):
    path: str
    reason: str


class SourceFacts(ApiResponse):
    id: str
    source: str
    options: dict[str, str]
    watched: bool
    every_seconds: float | None
    on_vanished: Literal["forget", "keep"]
    paused: bool
    next_run: Time
    last_run: Time
    result: Literal["never", "waiting", "running", "retrying", "completed", "failed"]
    error: str = Field(description="Of the last run, if it failed or is retried.")
    counts: dict[str, int] = Field(description="Of the last run: items, new, unchanged, failed, removed.")
    problems: list[SourceProblem] = Field(description="Entries that could not be fetched in the last run.")


class Sources(ApiResponse):
    sources: list[SourceFacts]


class Watch(ApiRequest):
    location: str = Field(
        min_length=1,
        max_length=MAX_URL_LENGTH,
        description="A URL, or a source that is known; other paths are watched by `onward watch`.",
        examples=["https://example.org/list.mbox.gz"],
    )
    every_seconds: float | None = Field(
        None, ge=10, le=3.2e9, description="How often it is ingested. Left out: as before.", examples=[900]
    )
    options: dict[str, str] = Field(default_factory=dict, max_length=100, description="Settings of its kind.")
    on_vanished: Literal["forget", "keep"] | None = Field(None, description="What becomes of what is not listed.")
    dry_run: bool = False


@source_call("/sources", "List sources", Sources)
def list_sources(app: Onward) -> dict[str, Any]:
    """List all sources with their settings and their last result; watched ones first, by their next run."""
    return {"sources": source_facts(app)}


@source_change("/sources", "Watch a source")
def watch_source(app: Onward, operations: Running, asked: Watch) -> JSONResponse:
    """Ingest a source now and at intervals. What is left out stays as it was."""
    source = remote_source(app, asked.location)
    action = WatchSource(source, asked.every_seconds, asked.options, asked.on_vanished)
    return carry_out(app, operations, action, asked)


@source_change("/sources/{id}/run", "Ingest a source again")
def run_source(app: Onward, operations: Running, id: str, asked: DryRun | None = None) -> JSONResponse:
    """Ingest a source once more now."""
    return carry_out(app, operations, IngestAgain(source_with_id(app, id)), asked)


@source_change("/sources/{id}/pause", "Pause a watched source")
def pause_source(app: Onward, operations: Running, id: str, asked: DryRun | None = None) -> JSONResponse:
    """Begin no further run of a watched source."""
    return carry_out(app, operations, ChangeWatches("pause", (source_with_id(app, id),)), asked)


@source_change("/sources/{id}/resume", "Resume a paused source")
def resume_source(app: Onward, operations: Running, id: str, asked: DryRun | None = None) -> JSONResponse:
    """Go on with a paused source: its next run begins now."""
    return carry_out(app, operations, ChangeWatches("resume", (source_with_id(app, id),)), asked)


@source_change("/sources/{id}/remove", "Watch a source no longer")
def unwatch_source(app: Onward, operations: Running, id: str, asked: DryRun | None = None) -> JSONResponse:
    """Watch a source no longer; its documents stay."""
    return carry_out(app, operations, ChangeWatches("remove", (source_with_id(app, id),)), asked)
