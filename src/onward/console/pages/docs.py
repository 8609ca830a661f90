"""The API for readers: a page made from its description."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from onward.console.api.openapi import MULTIPART
from onward.console.page_templates import page

router = APIRouter(include_in_schema=False)

Schema = Mapping[str, Any]
_TOKEN = '-H "Authorization: Bearer $ONWARD_TOKEN"'
_DEEPEST = 5
_EXAMPLES = {"string": "…", "integer": 1, "number": 0.5, "boolean": False}
_PLACE = re.compile(r"\{(\w+)\}")


@router.get("/docs")
def show(request: Request) -> Response:
    base = f"{request.url.scheme}://{request.url.netloc}"
    needs_token = bool(request.app.state.sessions.needs_token)
    description = request.app.openapi()
    reader = _Reader(description["components"]["schemas"], base, needs_token)
    groups: dict[str, dict[str, Any]] = {
        tag["name"]: {"id": _anchor(tag["name"]), "name": tag["name"], "about": tag["description"], "calls": []}
        for tag in description["tags"]
    }
    for path, calls in description["paths"].items():
        for method, call in calls.items():
            groups[call["tags"][0]]["calls"].append(reader.call(method.upper(), path, call))
    where = f"{base}/v3/documents"
    begin = (
        f"""curl {where} --json '{{"url": "https://example.org/list.mbox.gz"}}'""",
        f"curl {where} -F file=@notes.pdf",
        f"curl {where}/ID/status",
    )
    return page(
        request,
        "docs.html",
        groups=[one for one in groups.values() if one["calls"]],
        begin="\n".join(f"{one} \\\n  {_TOKEN}" if needs_token else one for one in begin),
        needs_token=needs_token,
    )


def _anchor(text: str) -> str:
    return "".join(one if one.isalnum() else "-" for one in text.lower()).strip("-")


class _Reader:
    """Reads calls from the description, as the page shows them."""

    def __init__(self, schemas: Schema, base: str, needs_token: bool) -> None:
        self._schemas = schemas
        self._base = base
        self._needs_token = needs_token

    def call(self, method: str, path: str, call: Schema) -> dict[str, Any]:
        body = call.get("requestBody", {}).get("content", {})
        parameters = call.get("parameters", ())
        good = [one.get("content", {}) for status, one in call["responses"].items() if status.startswith("2")]
        answers = [schema for one in good if (schema := one.get("application/json", {}).get("schema"))]
        return {
            "id": _anchor(f"{method} {path}"),
            "method": method,
            "path": path,
            "summary": call["summary"],
            "about": " ".join(call.get("description", "").split()),
            "parameters": [self._parameter(one) for one in parameters],
            "fields": self._fields(body),
            "answers": [(status, one["description"]) for status, one in call["responses"].items()],
            "curl": self._curl(method, path, parameters, body),
            "example": json.dumps(self._example(answers[0]), indent=2, ensure_ascii=False) if answers else "",
        }

    def _parameter(self, one: Schema) -> dict[str, Any]:
        schema = one.get("schema", {})
        about = one.get("description") or schema.get("description", "")
        required = one.get("required", False)
        return {
            "name": one["name"],
            "where": one["in"],
            "kind": self._kind(schema),
            "required": required,
            "about": about,
        }

    def _fields(self, body: Schema) -> list[dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        alternatives: list[tuple[str, Schema]] = []
        for media_type, content in body.items():
            schema = self._named(content["schema"])
            schema = self._named(schema.get("items", schema))
            several = schema.get("oneOf") or schema.get("anyOf") or [schema]
            alternatives += [(media_type, self._named(one)) for one in several]
        for media_type, schema in alternatives:
            for name, one in schema.get("properties", {}).items():
                kind = self._kind(one)
                if name in found and kind not in found[name]["kind"]:
                    kind = f"{found[name]['kind']} or {kind}"
                found[name] = {
                    "name": name,
                    "where": "form" if media_type == MULTIPART else "body",
                    "kind": kind,
                    "required": len(alternatives) == 1 and name in schema.get("required", ()),
                    "about": one.get("description", ""),
                }
        return list(found.values())

    def _named(self, schema: Schema) -> Schema:
        return self._schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema

    def _kind(self, schema: Schema) -> str:
        schema = self._named(schema)
        if "const" in schema:
            return f"“{schema['const']}”"
        if "enum" in schema:
            return ", ".join(str(one) for one in schema["enum"])
        if several := [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]:
            return " or ".join(self._kind(one) for one in several)
        if "items" in schema:
            return f"list of {self._kind(schema['items'])}"
        formats = {"date-time": "date or time", "binary": "file"}
        kind = formats.get(schema.get("format", ""), schema.get("type", "any"))
        low, high = schema.get("minimum"), schema.get("maximum")
        return f"{kind}, {low:g} to {high:g}" if low is not None and high is not None else str(kind)

    def _curl(self, method: str, path: str, parameters: Iterable[Schema], body: Schema) -> str:
        needed = [one["name"] for one in parameters if one["in"] == "query" and one.get("required")]
        query = "?" + "&".join(f"{name}=tide" for name in needed) if needed else ""
        url = self._base + _PLACE.sub(lambda place: place[1].upper(), path) + query
        stream = ["-N"] if path.endswith("/events") else []
        lines = [shlex.join(["curl", *stream, *([] if method == "GET" else ["-X", method]), url])]
        if self._needs_token:
            lines.append(_TOKEN)
        if content := body.get("application/json"):
            example = content.get("example") or self._example(content["schema"])
            lines.append("--json " + shlex.quote(json.dumps(example)))
        return " \\\n  ".join(lines)

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
