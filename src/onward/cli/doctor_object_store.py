"""Checks of `onward doctor` of the object store that has the blobs."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from onward.cli.doctor import Checks, ok, warning, wrong
from onward.cli.doctor_backends import APART_SECONDS, INSTALL, explained, is_far
from onward.ops.text.format import duration
from onward.retry.errors import OnwardError
from onward.s3_place import parse_s3_url

if TYPE_CHECKING:
    from pathlib import Path

    from onward.blobs.s3_client import S3Client


def check_object_store(url: str, home: Path) -> Checks:
    """Check that blobs can be written, read, listed and deleted in a bucket, and its clock and connection."""
    try:
        from onward.blobs.s3 import S3Blobs
    except ModuleNotFoundError as error:
        yield wrong("blobs", f"the package {error.name!r} is missing", INSTALL.format("s3"))
        return
    try:
        with closing(S3Blobs(parse_s3_url(url), home / "scratch", attempts=2)) as blobs:
            began = time.monotonic()
            problem = blobs.check()
            took = (time.monotonic() - began) * 1000
            yield from _check_endpoint(blobs.client)
            if problem:
                remedy = "let the bucket's lifecycle rules abort incomplete uploads, or allow it"
                yield warning(
                    "uploads", f"what killed processes uploaded in part is not collected: {problem}", remedy
                )
            yield ok("blobs", f"in {blobs.client}, {took:.0f} ms to write, read, list and delete an object")
    except OnwardError as error:
        yield explained("blobs", error, "check ONWARD_BLOBS, and that the server runs")


def _check_endpoint(client: S3Client) -> Checks:
    endpoint = urlsplit(client.endpoint)
    if endpoint.scheme == "http" and is_far(endpoint.hostname or ""):
        yield warning("endpoint", f"{client.endpoint}: blobs cross a public network in clear", "use https://")
    apart = abs(client.now() - time.time())
    if apart > APART_SECONDS:
        text = f"the clock of the object store differs from this machine's by {duration(apart)}"
        yield warning("endpoint", text, "let NTP keep both right; requests with a wrong time may be refused")
