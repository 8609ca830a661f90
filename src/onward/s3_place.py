"""A place in an object store, as a URL names it: `s3://bucket/prefix?endpoint=https://host:9000&region=eu-central-1`."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

SCHEME = "s3://"
MAX_PREFIX_BYTES = 512  # a key may have 1 024; ours have up to 150 behind the prefix
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]")
_PREFIX = re.compile(r"[\w!.*'()-]+(?:/[\w!.*'()-]+)*", re.ASCII)
_REGION = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}")
CONNECT_SECONDS = 10.0
READ_SECONDS = 60.0
ADDRESSINGS = ("path", "virtual")


@dataclass(frozen=True, slots=True)
class S3Place:
    """A bucket and the beginning of its keys. What is None is left to the environment."""

    bucket: str
    prefix: str = ""
    """Ends with a slash, unless it is empty."""
    endpoint: str | None = None
    region: str | None = None
    addressing: str | None = None
    """Whether the bucket is in the path of a request (`path`) or in its host name (`virtual`)."""


def parse_s3_url(url: str) -> S3Place:
    """Return the place that a URL names; raise ValueError if something is wrong with it."""
    parts = urlsplit(url)
    if not url.startswith(SCHEME) or parts.fragment or re.search(r"\s", url):
        raise ValueError("no URL of a bucket")
    if not _BUCKET.fullmatch(parts.netloc):  # neither credentials nor a port
        raise ValueError("no name of a bucket")
    prefix = parts.path.strip("/")
    if prefix and (not _PREFIX.fullmatch(prefix) or len(prefix) > MAX_PREFIX_BYTES):
        raise ValueError("no prefix of keys")
    given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True) if parts.query else []
    options = dict(given)
    if len(options) < len(given) or options.keys() - {"endpoint", "region", "addressing"}:
        raise ValueError("an unknown parameter, or one that is given twice")
    endpoint, region, addressing = (options.get(name) for name in ("endpoint", "region", "addressing"))
    if endpoint is not None:
        _check_endpoint(endpoint)
    if region is not None and not _REGION.fullmatch(region):
        raise ValueError("no name of a region")
    if addressing is not None and addressing not in ADDRESSINGS:
        raise ValueError("an unknown addressing")
    return S3Place(parts.netloc, f"{prefix}/" if prefix else "", endpoint, region, addressing)


def _check_endpoint(endpoint: str) -> None:
    try:
        parts = urlsplit(endpoint)
        port = parts.port
    except ValueError:  # whose text may have part of a password in it
        raise ValueError("no URL of an endpoint") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError("no URL of an endpoint")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("an endpoint with credentials or parameters")


# botocore makes the methods of a client at run time: they have no types.
def connect(place: S3Place, *, attempts: int, connections: int = 10) -> Any:
    """Return a client of botocore for a place. What the place does not say comes from the environment.

    Checksums are those of the first S3 protocol (Content-MD5): other servers than Amazon's refuse newer ones.
    """
    import botocore.session  # not everyone has it
    from botocore.config import Config

    endpoint = place.endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        max_pool_connections=connections,
        retries={"mode": "standard", "total_max_attempts": attempts},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        # The host names of buckets exist at Amazon; few other servers have them.
        s3={"addressing_style": place.addressing or ("path" if endpoint else "auto")},
        user_agent_extra="onward",
    )
    session = botocore.session.get_session()
    region = place.region or os.environ.get("AWS_REGION") or session.get_config_variable("region")
    return session.create_client("s3", region_name=region or "us-east-1", endpoint_url=endpoint, config=config)
