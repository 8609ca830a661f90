"""What an object store refuses, or cannot do now, is told with its bucket, its endpoint and a remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from onward.blobs.s3 import S3Blobs
from onward.ledger.store_errors import StoreError, StoreUnavailable
from onward.retry.classify import classify
from onward.retry.errors import Kind
from onward.s3_place import parse_s3_url
from tests.blobs.places import ObjectPlace, put_bytes, read_bytes
from tests.support.servers import ObjectServer
from tests.support.servers.private import free_port

SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"


@pytest.fixture
def checked_signatures(object_server: ObjectServer, bucket_url: str) -> Iterator[None]:
    object_server.check_signatures(True)
    yield
    object_server.check_signatures(False)


def told_by(blobs: S3Blobs) -> StoreError:
    """Return the error of a put, and check what every error has."""
    with closing(blobs), pytest.raises(StoreError) as told:
        put_bytes(blobs, b"wanted")
    text = str(told.value)
    assert f"s3://{blobs.client.place.bucket}/blobs/ at {blobs.client.endpoint}" in text
    assert text.count(". ") >= 1, "a remedy follows"
    return told.value


def test_throttling_is_waited_for(in_bucket: ObjectPlace) -> None:
    in_bucket.server.ask("fail", status=503, code="SlowDown", count=1)
    assert read_bytes(in_bucket.blobs, put_bytes(in_bucket.blobs, b"wanted")) == b"wanted"


def test_throttling_that_does_not_end_is_a_rate_limit_and_charges_nothing(in_bucket: ObjectPlace) -> None:
    in_bucket.server.ask("fail", status=503, code="SlowDown", count=2)
    told = told_by(in_bucket.blobs)
    assert isinstance(told, StoreUnavailable), "handlers are called again, and lose no try"
    assert "SlowDown" in str(told)
    assert "ONWARD_CONCURRENCY" in str(told)
    found = classify(told)
    assert (found.kind, found.rate_limited) == (Kind.TRANSIENT, True)


def test_a_server_that_fails_is_unavailable(in_bucket: ObjectPlace) -> None:
    in_bucket.server.ask("fail", status=500, code="InternalError", count=2)
    told = told_by(in_bucket.blobs)
    assert isinstance(told, StoreUnavailable)
    assert classify(told).unavailable


def test_a_server_that_cannot_be_reached_is_unavailable(bucket_url: str, tmp_path: Path) -> None:
    place = parse_s3_url(f"s3://bucket/blobs?endpoint=http://127.0.0.1:{free_port()}")
    told = told_by(S3Blobs(place, tmp_path, attempts=1))
    assert isinstance(told, StoreUnavailable)
    assert "Check the endpoint in ONWARD_BLOBS or AWS_ENDPOINT_URL" in str(told)
    assert classify(told).unreached


def test_a_missing_bucket_is_named(object_server: ObjectServer, bucket_url: str, tmp_path: Path) -> None:
    told = told_by(S3Blobs(parse_s3_url(object_server.url("not-there")), tmp_path))
    assert not isinstance(told, StoreUnavailable)
    assert "there is no bucket 'not-there'. Create it, or correct its name in ONWARD_BLOBS" in str(told)
    assert classify(told).kind is Kind.TRANSIENT, "it can be created, and the documents are not the cause"


@pytest.mark.usefixtures("checked_signatures")
def test_a_wrong_key_is_refused_and_not_shown(
    bucket_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    told = told_by(S3Blobs(parse_s3_url(bucket_url), tmp_path))
    assert "AWS_SECRET_ACCESS_KEY" in str(told)
    assert "s3:PutObject" in str(told)
    assert SECRET not in str(told)
    assert "IOSFODNN7EXAMPLE" not in str(told)
    found = classify(told)
    assert (found.kind, found.refused) == (Kind.TRANSIENT, True)
    assert found.remedy


def test_missing_credentials_are_named(bucket_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    told = told_by(S3Blobs(parse_s3_url(bucket_url), tmp_path))
    assert "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE" in str(told)
    assert classify(told).refused


def test_a_profile_that_is_not_there_is_named(
    bucket_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(StoreError, match=r"nobody.*AWS_PROFILE"):
        S3Blobs(parse_s3_url(bucket_url), tmp_path)


@pytest.mark.parametrize(
    ("status", "code", "remedy"),
    (
        (400, "IllegalLocationConstraintException", "AWS_REGION"),
        (403, "RequestTimeTooSkewed", "NTP"),
        (400, "InvalidRequest", "speaks the S3 protocol"),
    ),
)
def test_other_refusals_have_their_remedies(in_bucket: ObjectPlace, status: int, code: str, remedy: str) -> None:
    in_bucket.server.ask("fail", status=status, code=code, count=20)
    try:
        assert remedy in str(told_by(in_bucket.blobs))
    finally:
        in_bucket.server.ask("fail", status=0, code="", count=0)


def test_endpoint_and_region_may_be_in_the_environment(
    object_server: ObjectServer, in_bucket: ObjectPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", object_server.endpoint)
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    with closing(S3Blobs(parse_s3_url(f"s3://{in_bucket.bucket}"), tmp_path)) as blobs:
        assert blobs.client.endpoint == object_server.endpoint
        assert blobs.client._client.meta.region_name == "eu-central-1"
        assert read_bytes(blobs, put_bytes(blobs, b"wanted")) == b"wanted"


def test_without_an_endpoint_it_is_amazons(bucket_url: str, tmp_path: Path) -> None:
    with closing(S3Blobs(parse_s3_url("s3://bucket?region=eu-west-3"), tmp_path)) as blobs:
        assert blobs.client.endpoint == "https://s3.eu-west-3.amazonaws.com"
