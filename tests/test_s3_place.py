"""The URL of a bucket: what is read from it, and what is refused before anything starts."""

from __future__ import annotations

import pytest

from onward.s3_place import S3Place, parse_s3_url
from onward.settings import SettingsError, load_settings


@pytest.mark.parametrize(
    ("url", "place"),
    (
        ("s3://bucket", S3Place("bucket")),
        ("s3://bucket/", S3Place("bucket")),
        ("s3://my.bucket-1/a/b/", S3Place("my.bucket-1", "a/b/")),
        ("s3://bucket/a?region=eu-central-1", S3Place("bucket", "a/", region="eu-central-1")),
        (
            "s3://bucket?endpoint=http://127.0.0.1:9000&addressing=virtual",
            S3Place("bucket", endpoint="http://127.0.0.1:9000", addressing="virtual"),
        ),
        (
            "s3://bucket?endpoint=https%3A%2F%2Fs3.example.org",
            S3Place("bucket", endpoint="https://s3.example.org"),
        ),
    ),
)
def test_a_url_names_a_place(url: str, place: S3Place) -> None:
    assert parse_s3_url(url) == place
    assert load_settings({"ONWARD_BLOBS": url}).blobs == url


@pytest.mark.parametrize(
    "url",
    (
        *(
            "s3://",
            "s3:///prefix",
            "s3://b",
            "s3://bucket:80/a",
            "s3://buc ket",
            "s3://bucket/a b",
            "s3://bucket//a//b",
        ),
        *("s3://bucket?key=1", "s3://bucket?region=", "s3://bucket?region=a&region=b", "s3://bucket#a"),
        *(
            "s3://bucket?endpoint=localhost:9000",
            "s3://bucket?endpoint=ftp://host",
            "s3://bucket?endpoint=http://h:x",
        ),
        *("s3://bucket?endpoint=http://u:p@host", "s3://bucket?addressing=dns", "s3://bucket/" + "a" * 600),
        *("gs://bucket", "S3://bucket", "https://bucket.s3.amazonaws.com", "postgresql://user@ho st/name"),
    ),
)
def test_a_wrong_url_stops_the_start_and_says_what_is_allowed(url: str) -> None:
    with pytest.raises(SettingsError) as told:
        load_settings({"ONWARD_BLOBS": url})
    assert str(told.value).startswith("ONWARD_BLOBS is '")
    assert "a bucket as in s3://bucket/prefix?endpoint=https://host:9000" in str(told.value)


def test_credentials_in_a_url_are_refused_and_not_shown() -> None:
    with pytest.raises(SettingsError) as told:
        load_settings({"ONWARD_BLOBS": "s3://AKIAIOSFODNN7EXAMPLE:hush-hush@bucket/prefix"})
    assert "credentials come from the environment" in str(told.value)
    assert "hush" not in str(told.value)
    assert "IOSFODNN7" not in str(told.value)
