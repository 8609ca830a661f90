"""`onward schema` publishes what events and documents look like."""

from __future__ import annotations

import json
from pathlib import Path

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
    assert everything["Message"]["properties"] == Message.model_json_schema()["properties"]


def test_an_unknown_name_lists_the_known_ones(home: Path) -> None:
    result = onward(home, "schema", "Letter")
    assert result.exit_code == 1
    assert "there is no schema 'Letter'; known are: SourceSubmitted, ArchiveIngested" in result.stderr
