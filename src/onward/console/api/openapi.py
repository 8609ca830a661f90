"""The description of the API at `/openapi.json`: every call with its answers and its problems."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from onward.console.api.schemas import ProblemDetails, SubmittedText, SubmittedURL
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
_TAGS = (
    (
        "Documents",
        "Submit documents, and see what becomes of them. A document is a source: a URL, a text or a file.",
    ),
    ("Search", "Find messages by words and by meaning."),
    ("Tasks", "One ingestion of one source each."),
    ("Failures", "Failures that are alike, in groups: what is probably wrong, and putting it right."),
    ("Failed queues", "Dead letters: events that were given up for now."),
    ("Failed batches", "What was set aside, to be retried together."),
    ("Breakers", "Dependencies, and whether they are down."),
    ("Standing", "How everything stands, who works, and changes that take a while."),
    ("Errors", "Errors of other programs, reported here."),
    ("Monitoring", "For whoever watches this server."),
)


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the problems of a call, beside those that every call has."""
    return {
        status: {"description": _MEANS.get(status, HTTPStatus(status).phrase), "content": _PROBLEM}
        for status in statuses
    }


def describe(web: FastAPI) -> dict[str, Any]:
    """Return the whole description; it is made once."""
    if web.openapi_schema is None:
        web.openapi_schema = _made(web)
    return web.openapi_schema


def _made(web: FastAPI) -> dict[str, Any]:
    found = get_openapi(
        title=web.title,
        version=web.version,
        description=web.description,
        routes=web.routes,
        tags=[{"name": name, "description": about} for name, about in _TAGS],
    )
    models = [(one, "validation") for one in (ProblemDetails, SubmittedURL, SubmittedText)]
    _, extra = models_json_schema(models, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    components = found.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas |= extra["$defs"]
    components["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "ONWARD_TOKEN, where the server has one."}
    }
    found["security"] = [{}, {"token": []}]
    for calls in found["paths"].values():
        for call in calls.values():
            _tell_problems(call)
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    return found


def _tell_problems(call: dict[str, Any]) -> None:
    answers = call["responses"]
    invalid = answers.get("422", {}).get("content", {}).get("application/json")
    if invalid is not None:
        answers["422"] = {"description": _MEANS[422], "content": _PROBLEM}
    # Any call may meet a token that is missing, too many requests, or a store that is away.
    answers["default"] = {"description": "Any other problem", "content": _PROBLEM}
