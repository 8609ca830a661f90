"""The API for readers: a page made from its description."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from onward.console.api.openapi import MULTIPART
from onward.console.page_templates import page

router = APIRouter()

Schema = Mapping[str, Any]
_TOKEN = '-H "Authorization: Bearer $ONWARD_TOKEN"'
_DEEPEST = 5
_EXAMPLES = {"string": "…", "integer": 1, "number": 0.5, "boolean": False}


@dataclass(frozen=True, slots=True)
class Parameter:
    """Something that a call is given beside its body."""

    name: str
    where: str
    kind: str
    required: bool
    about: str


@dataclass(frozen=True, slots=True)
class DocumentedCall:
    """One call, as the page shows it."""

    id: str
    method: str
    path: str
    summary: str
    about: str
    parameters: list[Parameter]
    fields: list[Parameter]
    answers: list[tuple[str, str]]
    curl: str
    example: str


@dataclass(slots=True)
class CallGroup:
    """Calls that belong together."""

    id: str
    name: str
    about: str
    calls: list[DocumentedCall] = field(default_factory=list)


@router.get("/docs")
def show(request: Request) -> Response:
    """Show the calls of the API, with examples."""
    base = f"{request.url.scheme}://{request.url.netloc}"
    needs_token = bool(request.app.state.sessions.needs_token)
    groups = read(request.app.openapi(), base, needs_token=needs_token)
    begin = _begin(base, needs_token=needs_token)
    return page(request, "docs.html", groups=groups, begin=begin, needs_token=needs_token)


def _begin(base: str, *, needs_token: bool) -> str:
    where = f"{base}/v3/documents"
    calls = (
        f"""curl {where} --json '{{"url": "https://example.org/list.mbox.gz"}}'""",
        f"curl {where} -F file=@notes.pdf",
        f"curl {where}/ID/status",
    )
    return "\n".join(f"{one} \\\n  {_TOKEN}" if needs_token else one for one in calls)


def read(description: Schema, base: str, *, needs_token: bool = False) -> list[CallGroup]:
    """Return the calls of a description, in its order, by tag."""
    groups = {
        tag["name"]: CallGroup(_anchor(tag["name"]), tag["name"], tag["description"])
        for tag in description["tags"]
    }
    reading = _Reading(description["components"]["schemas"], base, needs_token)
    for path, calls in description["paths"].items():
        for method, call in calls.items():
            groups[call["tags"][0]].calls.append(reading.call(method.upper(), path, call))
    return [one for one in groups.values() if one.calls]


def _anchor(text: str) -> str:
    return "".join(one if one.isalnum() else "-" for one in text.lower()).strip("-")


class _Reading:
    def __init__(self, schemas: Schema, base: str, needs_token: bool) -> None:
        self._schemas = schemas
        self._base = base
        self._needs_token = needs_token

    def call(self, method: str, path: str, call: Schema) -> DocumentedCall:
        body = call.get("requestBody", {}).get("content", {})
        about = call.get("description", "")
        return DocumentedCall(
            id=_anchor(f"{method} {path}"),
            method=method,
            path=path,
            summary=call["summary"],
            about=" ".join(about.split()),
            parameters=[self._parameter(one) for one in call.get("parameters", ())],
            fields=self._fields(body),
            answers=[(status, one["description"]) for status, one in call["responses"].items()],
            curl=self._curl(method, path, call.get("parameters", ()), body),
            example=self._answer(call["responses"]),
        )

    def _parameter(self, one: Schema) -> Parameter:
        schema = one.get("schema", {})
        about = one.get("description") or schema.get("description", "")
        return Parameter(one["name"], one["in"], self._kind(schema), one.get("required", False), about)

    def _fields(self, body: Schema) -> list[Parameter]:
        """Return the fields of a request body."""
        found: dict[str, Parameter] = {}
        alternatives = [
            (media_type, one)
            for media_type, content in body.items()
            for one in self._alternatives(content["schema"])
        ]
        for media_type, schema in alternatives:
            for name, one in schema.get("properties", {}).items():
                where = "form" if media_type == MULTIPART else "body"
                required = len(alternatives) == 1 and name in schema.get("required", ())
                kind = self._kind(one)
                if name in found and kind not in found[name].kind:
                    kind = f"{found[name].kind} or {kind}"
                found[name] = Parameter(name, where, kind, required, one.get("description", ""))
        return list(found.values())

    def _alternatives(self, schema: Schema) -> list[Schema]:
        schema = self._named(schema)
        if "items" in schema:
            schema = self._named(schema["items"])
        several = schema.get("oneOf") or schema.get("anyOf") or [schema]
        return [self._named(one) for one in several]

    def _named(self, schema: Schema) -> Schema:
        if "$ref" in schema:
            found: Schema = self._schemas[schema["$ref"].rpartition("/")[2]]
            return found
        return schema

    def _kind(self, schema: Schema) -> str:
        schema = self._named(schema)
        if "const" in schema:
            return f"“{schema['const']}”"
        if "enum" in schema:
            return ", ".join(str(one) for one in schema["enum"])
        several = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
        if several:
            return " or ".join(self._kind(one) for one in several)
        if "items" in schema:
            return f"list of {self._kind(schema['items'])}"
        kind = {"date-time": "date or time", "binary": "file"}.get(
            schema.get("format", ""), schema.get("type", "any")
        )
        low, high = schema.get("minimum"), schema.get("maximum")
        return f"{kind}, {low:g} to {high:g}" if low is not None and high is not None else str(kind)

    # -- examples

    def _curl(self, method: str, path: str, parameters: Any, body: Schema) -> str:
        shown = (
            path.replace("{", "").replace("}", "").replace("/id", "/ID").replace("/fingerprint", "/FINGERPRINT")
        )
        shown = shown.replace("/queue", "/QUEUE").replace("/name", "/NAME")
        asked = "&".join(
            f"{parameter['name']}=tide"
            for parameter in parameters
            if parameter["in"] == "query" and parameter.get("required")
        )
        words = [
            "curl",
            *(() if method == "GET" else ("-X", method)),
            f"{self._base}{shown}{'?' if asked else ''}{asked}",
        ]
        lines = [shlex.join(words)]
        if self._needs_token:
            lines.append(_TOKEN)
        if content := body.get("application/json"):
            example = content.get("example") or self._example(content["schema"])
            lines.append("--json " + shlex.quote(json.dumps(example)))
        if path.endswith("/events"):
            lines[0] = lines[0].replace("curl", "curl -N", 1)
        return " \\\n  ".join(lines)

    def _answer(self, answers: Schema) -> str:
        for status, one in answers.items():
            content = one.get("content", {}).get("application/json")
            if status.startswith("2") and content and content.get("schema"):
                return json.dumps(self._example(content["schema"]), indent=2, ensure_ascii=False)
        return ""

    def _example(self, schema: Schema, depth: int = 0) -> Any:
        schema = self._named(schema)
        if depth > _DEEPEST:
            return "…"
        for given in ("example", "const", "default"):
            if schema.get(given) is not None:
                return schema[given]
        for given in ("examples", "enum"):
            if schema.get(given):
                return schema[given][0]
        several = [one for key in ("anyOf", "oneOf") for one in schema.get(key, ()) if one.get("type") != "null"]
        if several:
            return self._example(several[0], depth + 1)
        if schema.get("type") == "array":
            return [self._example(schema["items"], depth + 1)]
        if "properties" in schema:
            return {name: self._example(one, depth + 1) for name, one in schema["properties"].items()}
        if schema.get("type") == "object":
            inner = schema.get("additionalProperties")
            return {"…": self._example(inner, depth + 1)} if isinstance(inner, dict) and inner else {}
        return _EXAMPLES.get(schema.get("type", ""), "…")
