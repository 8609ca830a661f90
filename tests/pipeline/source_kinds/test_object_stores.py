"""Of a bucket only changed objects are fetched, and none whose name or size says that it is not ingested."""

from __future__ import annotations

import json
import secrets
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from onward import Permanent
from onward.pipeline.fetch.fetch_errors import (
    HTTPAnswerError,
    PrivateAddress,
    SourceMissing,
    UnreadableSource,
    UnusableSource,
)
from onward.pipeline.fetch.fetched_items import FetchLimits
from onward.pipeline.fetch.location import AddressGuard
from onward.pipeline.source_kinds import SourceRun, object_store
from onward.pipeline.source_kinds.object_store import ObjectStores, StoredObject
from tests.pipeline.source_kinds.kind_runs import KindRuns
from tests.support.servers import ObjectServer
from tests.support.servers.objects import CREDENTIALS
from tests.support.web_server import serve


class BucketSource:
    """A bucket that a test writes to, and the source that it is."""

    def __init__(self, server: ObjectServer, folder: Path, scheme: str) -> None:
        self.server = server
        self.bucket = server.create_bucket(f"b{secrets.token_hex(6)}")  # obstore escapes hyphens, unlike Google
        query = f"?endpoint={server.endpoint}" if scheme == "s3" else ""
        self.runs = KindRuns(ObjectStores(), f"{scheme}://{self.bucket}/docs{query}", folder)

    def put(self, key: str, body: str = "text", **more: Any) -> None:
        self.server.client.put_object(Bucket=self.bucket, Key=key, Body=body.encode(), ACL="public-read", **more)

    def delete(self, key: str) -> None:
        self.server.client.delete_object(Bucket=self.bucket, Key=key)

    def fetched(self) -> list[str]:
        """The objects that were requested since the last call."""
        requests = [one.partition(" ")[2] for one in self.server.ask("requests") if one.startswith("GET")]
        return [path.partition("?")[0].rpartition("/")[2] for path in requests if "list-type" not in path]


@pytest.fixture(params=("s3", "gs"))
def source(
    request: pytest.FixtureRequest, object_server: ObjectServer, bucket_url: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> BucketSource:  # fmt: skip
    """A bucket of S3, and one of Google, whose listing and reading is the same protocol without a signature."""
    key = {"gcs_base_url": object_server.endpoint, "disable_oauth": True}
    key |= dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", json.dumps(key))
    monkeypatch.setenv("GOOGLE_ALLOW_HTTP", "true")
    return BucketSource(object_server, tmp_path / "home", request.param)


@pytest.fixture
def s3(object_server: ObjectServer, bucket_url: str, tmp_path: Path) -> BucketSource:
    return BucketSource(object_server, tmp_path / "home", "s3")


def test_only_new_and_changed_objects_are_fetched(source: BucketSource) -> None:
    for name in ("docs/a.txt", "docs/sub/b.txt", "docs/c.txt", "docs2/d.txt", "docs.txt"):
        source.put(name, name)
    assert source.runs.run() == ["a.txt", "c.txt", "sub/b.txt"]
    source.fetched()
    assert source.runs.run() == []
    assert source.fetched() == []
    source.put("docs/a.txt", "changed")
    source.put("docs/new.txt", "new")
    source.delete("docs/c.txt")
    assert source.runs.run() == ["a.txt", "new.txt"]
    assert sorted(source.fetched()) in (["a.txt", "new.txt"], ["docs%2Fa%2Etxt", "docs%2Fnew%2Etxt"])
    assert source.runs.stored == {"a.txt": b"changed", "new.txt": b"new", "sub/b.txt": b"docs/sub/b.txt"}


def test_one_object_can_be_a_source(source: BucketSource) -> None:
    source.put("docs", "one object")
    assert source.runs.run() == ["docs"]
    source.put("docs/a.txt")
    assert source.runs.run() == ["a.txt"]


def test_an_object_is_looked_up_by_one_request(s3: BucketSource) -> None:
    for number in range(1001):
        s3.put(f"docs{number:04}.txt")
    s3.server.ask("requests")
    with pytest.raises(SourceMissing):
        s3.runs.run()
    assert len(s3.server.ask("requests")) == 2, "what is below docs/, and what is called docs"


def test_what_is_not_ingested_is_not_requested(source: BucketSource) -> None:
    for key, body in {
        "a.txt": "text", "photo.JPG": "x", "film.mp4": "x", "empty.txt": "", "sub/": "", ".hidden/x.txt": "x",
        "node_modules/y.js": "x", "large.txt": "x" * 2000, "large.mbox": "x" * 2000,
    }.items():  # fmt: skip
        source.put(f"docs/{key}", body)
    source.runs.limits = FetchLimits(max_file_bytes=1000)
    assert source.runs.run() == ["a.txt", "large.mbox"]
    counts = dict(source.runs.skipped.counts)
    assert counts == {"picture": 1, "video": 1, "empty": counts["empty"], "hidden": 1, "tools": 1, "large": 1}
    assert len(source.fetched()) == 2


def test_keys_of_any_form_are_objects_of_their_own(s3: BucketSource) -> None:
    keys = ("a//b.txt", "é ü.txt", "50%.txt", "50%25.txt", "../up.txt", "/top.txt", "tab\t.txt", "q?x=y#z.txt")
    for key in keys:
        s3.put(f"docs/{key}", key)
    s3.runs.run()
    assert s3.runs.stored == {key: key.encode() for key in keys}


def test_objects_in_cold_storage_are_counted_and_not_requested(s3: BucketSource) -> None:
    s3.put("docs/a.txt", StorageClass="GLACIER")
    s3.put("docs/b.txt")
    assert s3.runs.run() == ["b.txt"]
    assert s3.runs.skipped.counts == {"archived": 1}


def test_a_bucket_or_prefix_that_is_not_there_is_named(source: BucketSource) -> None:
    with pytest.raises(SourceMissing, match="check the prefix"):
        source.runs.run()
    source.runs.location = source.runs.location.replace(source.bucket, "nosuchbucket")
    with pytest.raises(SourceMissing, match="nosuchbucket"):
        source.runs.run()


def test_a_prefix_that_became_empty_is_empty(source: BucketSource) -> None:
    source.put("docs/a.txt")
    source.runs.run()
    source.delete("docs/a.txt")
    source.runs.run()
    assert source.runs.stored == {}


def test_a_server_that_fails_for_a_while_is_tried_again(s3: BucketSource) -> None:
    s3.put("docs/a.txt")
    s3.server.ask("fail", status=503, code="SlowDown", count=3)
    with pytest.raises(HTTPAnswerError, match="SlowDown"):
        s3.runs.run()
    s3.server.ask("fail", status=403, code="AccessDenied", count=1)
    with pytest.raises(UnreadableSource, match="s3:GetObject"):
        s3.runs.run()


def test_no_credentials_are_named_with_the_remedy(s3: BucketSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(Permanent, match="AWS_ACCESS_KEY_ID"):
        s3.runs.run()


def test_an_endpoint_in_a_private_network_is_refused(s3: BucketSource) -> None:
    s3.put("docs/a.txt")
    s3.server.ask("requests")
    s3.runs.guard = AddressGuard()
    with pytest.raises(PrivateAddress, match="ONWARD_FETCH_ALLOW_PRIVATE"):
        s3.runs.run()
    assert s3.server.ask("requests") == []


def test_no_host_name_below_an_endpoint_leads_into_a_private_network(s3: BucketSource) -> None:
    """With the addressing `virtual` the bucket is a part of the host name."""
    public = {"store.example": ["93.184.216.34"], f"{s3.bucket}.store.example": ["127.0.0.1"]}
    s3.runs.guard = AddressGuard(resolve=lambda host, port: public[host])
    port = s3.server.port
    s3.runs.location = f"s3://{s3.bucket}/docs?endpoint=http://store.example:{port}&addressing=virtual"
    with pytest.raises(PrivateAddress, match=rf"{s3.bucket}\.store\.example"):
        s3.runs.run()


def test_a_host_that_leads_elsewhere_when_the_client_connects_gets_no_request(s3: BucketSource) -> None:
    s3.put("docs/a.txt")
    s3.server.ask("requests")
    s3.runs.guard = AddressGuard(resolve=lambda host, port: ["93.184.216.34"])  # the client finds 127.0.0.1
    with pytest.raises(ConnectionError, match="not on the public internet"):
        s3.runs.run()
    assert s3.server.ask("requests") == []


LISTING = (
    "<ListBucketResult><Name>bucket</Name>{}"
    "<Contents><Key>docs/a.txt</Key><ETag>e</ETag><Size>1</Size></Contents></ListBucketResult>"
)


@pytest.mark.parametrize(
    ("body", "problem"),
    (
        ("", "something else than a list"),
        ("<html><body><p>Down for maintenance</p></body></html>", "something else than a list"),
        (LISTING.format("<IsTruncated>true</IsTruncated>"), "ListObjectsV2"),
    ),
)
def test_a_response_that_is_no_whole_listing_removes_nothing(
    body: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with serve() as site:
        site.otherwise = lambda handler: handler.give(body.encode(), Content_Type="application/xml")
        runs = KindRuns(ObjectStores(), f"s3://bucket/docs?endpoint=http://127.0.0.1:{site.port}", tmp_path)
        runs.versions, runs.stored = {"a.txt": "e 1", "b.txt": "f 1"}, {"a.txt": b"a", "b.txt": b"b"}
        with pytest.raises((ConnectionError, UnusableSource), match=problem):
            runs.run()


def test_an_empty_listing_is_not_believed_while_an_object_is_still_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wrong:
        def objects(self, prefix: str) -> Any:
            return iter(())

        def find(self, key: str) -> StoredObject | None:
            return StoredObject(key, 1, "v") if key == "a.txt" else None

    monkeypatch.setattr(object_store, "open_bucket", lambda place, run: Wrong())
    runs = KindRuns(ObjectStores(), "gs://bucket", tmp_path)
    runs.versions, runs.stored = {"a.txt": "v", "b.txt": "v"}, {"a.txt": b"a", "b.txt": b"b"}
    with pytest.raises(ConnectionError, match=r"'a\.txt' is there"):
        runs.run()


@pytest.mark.parametrize(("module", "location"), (("botocore", "s3://bucket/x"), ("obstore", "gs://bucket/x")))
def test_a_missing_package_is_named(
    module: str, location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith((module, "onward.pipeline.source_kinds."))]:
        if name.endswith(("s3_bucket", "cloud_bucket")) or name.startswith(module):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Permanent, match=r'pip install "onward\[objects\]"'):
        KindRuns(ObjectStores(), location, tmp_path).run()


@pytest.mark.parametrize(
    "location",
    (
        "s3://key:s3cret@bucket/x", "gs://s3cret@bucket", "az://account", "az://account/", "s3://", "s3://B",
        "gs://bucket/x?endpoint=http://x", "s3://bucket/x?secret=s3cret", "s3://bucket/x#y",
        "s3://bucket/x?endpoint=http://a:s3cret@host", "az://127.0.0.1\\/container", "az://host:80/container",
    ),
)  # fmt: skip
def test_other_locations_are_refused(location: str) -> None:
    with pytest.raises(Permanent) as refused:
        ObjectStores().canonical(location)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "canonical"),
    (
        ("S3://bucket/a b/c/", "s3://bucket/a%20b/c"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/x?region=eu-west-1", "s3://bucket/x?region=eu-west-1"),
        ("az://account/container/a/b/", "az://account/container/a/b"),
    ),
)
def test_a_location_has_one_form(given: str, canonical: str) -> None:
    assert ObjectStores().canonical(given) == canonical


@pytest.mark.prove
def test_a_listing_of_100_000_objects_is_not_kept_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Large:
        def objects(self, prefix: str) -> Any:
            return (StoredObject(f"{prefix}{n:06}.txt", 10, f"v{n}") for n in range(100_000))

        def copy(self, key: str, target: Any) -> None:
            target.write(b"text")

    monkeypatch.setattr(object_store, "open_bucket", lambda place, run: Large())
    run = SourceRun("s3://bucket/x")
    tracemalloc.start()
    count = sum(1 for _ in ObjectStores().entries(run))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 100_000
    assert peak < 15_000_000, "all of them would be 30 MB"
