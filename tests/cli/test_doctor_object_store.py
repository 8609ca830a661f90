"""`onward doctor` checks the bucket of the blobs as the workers use it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_runs import onward
from tests.support.servers import ObjectServer
from tests.support.servers.objects import CREDENTIALS
from tests.support.servers.private import free_port

pytestmark = pytest.mark.usefixtures("bucket_url")


def examine(home: Path, url: str) -> tuple[int, dict[str, dict[str, Any]]]:
    result = onward(home, "doctor", "--json", more={"ONWARD_BLOBS": url})
    return result.exit_code, {one["name"]: one for one in json.loads(result.stdout)["checks"]}


def test_a_bucket_that_can_be_used_is_left_as_it_was(
    home: Path, object_server: ObjectServer, bucket_url: str
) -> None:
    code, found = examine(home, bucket_url)
    assert code == 0
    assert found["blobs"]["level"] == "ok"
    assert f"at {object_server.endpoint}" in found["blobs"]["text"]
    bucket = bucket_url.split("/")[2]
    assert "Contents" not in object_server.client.list_objects_v2(Bucket=bucket)
    assert not (home / "blobs").exists()


def test_a_missing_bucket_is_wrong(home: Path, object_server: ObjectServer) -> None:
    code, found = examine(home, object_server.url("not-there"))
    assert (code, found["blobs"]["level"]) == (1, "wrong")
    assert "no bucket 'not-there'" in found["blobs"]["text"]
    assert found["blobs"]["remedy"].startswith("Create it")


def test_rights_that_are_missing_are_named(home: Path, object_server: ObjectServer, bucket_url: str) -> None:
    object_server.ask("fail", status=403, code="AccessDenied", count=1, about="DELETE")
    code, found = examine(home, bucket_url)
    assert (code, found["blobs"]["level"]) == (1, "wrong")
    assert "s3:DeleteObject" in found["blobs"]["remedy"]
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in json.dumps(found)


def test_uploads_that_cannot_be_listed_are_a_warning(
    home: Path, object_server: ObjectServer, bucket_url: str
) -> None:
    object_server.ask("fail", status=403, code="AccessDenied", count=1, about="uploads")
    code, found = examine(home, bucket_url)
    assert (code, found["blobs"]["level"], found["uploads"]["level"]) == (0, "ok", "warning")
    assert "lifecycle" in found["uploads"]["remedy"]


def test_a_server_that_does_not_run_is_wrong(home: Path) -> None:
    code, found = examine(home, f"s3://bucket?endpoint=http://127.0.0.1:{free_port()}")
    assert (code, found["blobs"]["level"]) == (1, "wrong")
    assert "cannot be reached" in found["blobs"]["text"]


def test_a_wrong_url_is_a_wrong_setting(home: Path) -> None:
    result = onward(home, "doctor", "--json", more={"ONWARD_BLOBS": "s3://key:hush@bucket"})
    settings = [one for one in json.loads(result.stdout)["checks"] if one["name"] == "settings"]
    assert result.exit_code == 1
    assert "ONWARD_BLOBS is 's3://***@bucket', but must be" in settings[0]["text"]
    assert "hush" not in result.stdout
