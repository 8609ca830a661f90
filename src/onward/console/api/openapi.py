"""The description of the API at `/openapi.json`: every call with its answers and its problems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.types import DecoratedCallable as F
from pydantic.json_schema import models_json_schema

from onward.console.api.schemas import Changed, ProblemDetails, SubmittedText, SubmittedURL
from onward.console.api.upload_schemas import SubmittedFolder
from onward.console.problems import MEDIA_TYPE

MULTIPART = "multipart/form-data"
_PROBLEM = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}}
_MEANS = {
    400: "The request is broken",
    404: "There is no such thing",
    409: "It does not fit how things stand",
    413: "Too large",
    415: "This kind of body is not taken",
    422: "What was given cannot be used",
    503: "The store cannot be reached, or too many watch",
}
_TAGS = {
    "Documents": "Submit documents, and see what becomes of them. "
    "A document is a source: a URL, a text or a file.",
    "Search": "Find messages by words and by meaning.",
    "Tasks": "One ingestion of one source each.",
    "Sources": "What is ingested, once or again and again.",
    "Failures": "Failures that are alike, in groups: what is probably wrong, and putting it right.",
    "Failed queues": "Dead letters: events that were given up for now.",
    "Failed batches": "What was set aside, to be retried together.",
    "Breakers": "Dependencies, and whether they are down.",
    "Status": "The status of everything, the workers, and changes that take a while.",
    "Errors": "Errors of other programs, reported here.",
    "Monitoring": "For whoever watches this server.",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the problems of a call, beside those that every call has."""
    return {status: {"description": _MEANS[status], "content": _PROBLEM} for status in statuses}


def reads(
    router: APIRouter, path: str, summary: str, model: Any, *statuses: int, tag: str = ""
) -> Callable[[F], F]:
    """Add a call that changes nothing; `statuses` are its problems."""
    tags: list[Any] = [tag] if tag else []
    return router.get(path, tags=tags, summary=summary, response_model=model, responses=problems(*statuses))


def changes(router: APIRouter, path: str, summary: str, *, tag: str = "") -> Callable[[F], F]:
    begun = {"model": Changed, "description": "It has begun; `operation` is where to follow it"}
    tags: list[Any] = [tag] if tag else []
    responses = {202: begun, **problems(404, 409)}
    return router.post(path, tags=tags, summary=summary, response_model=Changed, responses=responses)


def describe(web: FastAPI) -> dict[str, Any]:
    """Return the whole description; it is made once."""
    if web.openapi_schema is not None:
        return web.openapi_schema
    found = get_openapi(
        title=web.title,
        version=web.version,
        description=web.description,
        routes=web.routes,
        tags=[{"name": name, "description": about} for name, about in _TAGS.items()],
    )
    models = [(one, "validation") for one in (ProblemDetails, SubmittedURL, SubmittedText, SubmittedFolder)]
    _, extra = models_json_schema(models, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    components = found.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas |= extra["$defs"]
    components["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "ONWARD_TOKEN, where the server has one."}
    }
    found["security"] = [{}, {"token": []}]
    for answers in (call["responses"] for calls in found["paths"].values() for call in calls.values()):
        if "application/json" in answers.get("422", {}).get("content", {}):
            answers |= {str(status): problem for status, problem in problems(422).items()}
        # Any call may meet a token that is missing, too many requests, or a store that is away.
        answers["default"] = {"description": "Any other problem", "content": _PROBLEM}
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    web.openapi_schema = found
    return found
