"""`onward schema` publishes what events and documents look like."""

from __future__ import annotations

import json
from pathlib import Path

from onward.ops.queries.document_details import STATE_SCHEMAS
from onward.pipeline.documents import Message
from tests.support.command_runs import onward


def test_without_a_name_all_are_listed(home: Path) -> None:
    result = onward(home, "schema")
    assert result.exit_code == 0
    assert "  ArchiveIngested            archive.ingested" in result.stdout
    assert "  Message                    messages" in result.stdout


def test_a_name_prints_its_schema(home: Path) -> None:
    schema = json.loads(onward(home, "schema", "jsonparsed").stdout)
    assert schema["title"] == "JSONParsed"
    assert schema["x-routing-key"] == "json.parsed"
    assert set(schema["properties"]) == {"archive_id", "message_doc_ids"}
    everything = json.loads(onward(home, "schema", "--json").stdout)
    assert Message.model_json_schema()["properties"].items() <= everything["Message"]["properties"].items()


def test_the_fields_of_a_documents_state_are_optional(home: Path) -> None:
    everything = json.loads(onward(home, "schema", "--json").stdout)
    time = {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]}
    for name in ("Archive", "Message", "Chunk", "Thread"):
        fields = everything[name]["properties"]
        assert fields["status"]["enum"] == ["pending", "processed", "failed", "failed_max_retries", "discarded"]
        assert fields["attemptCount"] == {"type": "integer", "minimum": 0, "default": 0}
        assert fields["lastAttemptTime"] == time | {"default": None}
        assert fields["createdAt"] == fields["updatedAt"] == time
        assert {"type": "null"} in fields["lastError"]["anyOf"]
        assert not {*fields} & {*STATE_SCHEMAS} & {*everything[name]["required"]}
    assert everything["Chunk"]["properties"]["embedding_generated"] == {"type": "boolean"}
    assert "embedding_generated" not in everything["Message"]["properties"]
    assert "attemptCount" not in everything["ArchiveIngested"]["properties"], "an event is no document"


def test_a_time_is_a_date_time(home: Path) -> None:
    for name in ("EmbeddingGenerationFailed", "ParsingFailed"):
        field = json.loads(onward(home, "schema", name).stdout)["properties"]["failed_at"]
        assert (field["type"], field["format"]) == ("string", "date-time")


def test_an_unknown_name_lists_the_known_ones(home: Path) -> None:
    result = onward(home, "schema", "Letter")
    assert result.exit_code == 1
    assert "there is no schema 'Letter'; known are: SourceSubmitted, ArchiveIngested" in result.stderr
