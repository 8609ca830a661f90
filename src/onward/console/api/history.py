"""What services did over time."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from onward.console.api.openapi import reads
from onward.console.api.schemas import ApiResponse, Time
from onward.console.request_context import Onward
from onward.ops.queries.service_history import RANGES, read_history

router = APIRouter(prefix="/v3")
status_call = partial(reads, router, tag="Status")


class HistoryPoint(ApiResponse):
    """A bucket of time. All values but `start` are null if no worker ran."""

    start: Time
    rate: float | None = Field(description="Documents or events (`unit`) finished a second.")
    events: int | None
    documents: int | None
    tries: int | None
    mean_seconds: float | None = Field(description="How long a try took on average.")
    p95_seconds: float | None = Field(description="How long 95 % of the tries took at most, estimated.")
    failures: int | None = Field(description="Failed tries.")
    retries: int | None = Field(description="Failed tries that are repeated.")
    dead_letters: int | None
    waiting: int | None = Field(description="The most events that were seen waiting.")


class Deploy(ApiResponse):
    version: str
    first_seen: Time


class History(ApiResponse):
    service: str | None
    range: str
    step_seconds: int
    unit: Literal["documents", "events"]
    start: Time
    end: Time
    points: list[HistoryPoint]
    outages: list[dict[str, Any]] = Field(description="Openings of breakers that the services need.")
    deploys: list[Deploy] = Field(description="Versions of workers that were seen for the first time.")


@status_call("/history", "See what services did over time", History, 404, 422)
def get_history(
    app: Onward,
    service: Annotated[str | None, Query(min_length=1, max_length=200, description="All by default.")] = None,
    over: Annotated[Literal["1h", "24h", "7d"], Query(alias="range")] = "1h",
) -> dict[str, Any]:
    """Get rate, latency, failures and waiting events by the minute (1h), ten minutes (24h) or hour (7d)."""
    return read_history(app.store, RANGES[over], service).as_dict()
