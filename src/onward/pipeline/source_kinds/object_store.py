"""Object stores: the objects below a prefix of a bucket, at S3, Google Cloud Storage or Azure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, NamedTuple, Protocol
from urllib.parse import quote, unquote, urlsplit

from onward.pipeline.fetch.fetch_errors import SourceMissing, UnusableSource
from onward.pipeline.fetch.fetched_items import SkipReason, reason_to_skip
from onward.pipeline.fetch.file_kinds import is_read_whole, skip_by_name
from onward.pipeline.fetch.location import refused
from onward.pipeline.source_kinds.source_kind import Entry, SourceOption, SourceRun
from onward.s3_place import S3Place, parse_s3_url

_ALLOWED = "give s3://bucket/prefix, gs://bucket/prefix or az://account/container/prefix"
# It becomes the beginning of a host name: any other character could lead to another host.
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_EMPTY = SkipReason("empty", "empty")
_COLD = SkipReason("archived", "in cold storage: restore it first")


class StoredObject(NamedTuple):
    """An object of a bucket."""

    key: str
    size: int
    version: str
    cold: bool = False  # whether it cannot be read at once


class Bucket(Protocol):
    """The requests to an object store. Its errors name the remedy."""

    def objects(self, prefix: str) -> Iterator[StoredObject]:
        """Yield the objects whose keys begin with `prefix`, in pages."""

    def find(self, key: str) -> StoredObject | None:
        """Return the object with a key."""

    def copy(self, key: str, target: BinaryIO) -> None:
        """Write the content of an object; raise `SourceMissing` if it is gone."""


@dataclass(frozen=True, slots=True)
class ObjectPlace:
    """A bucket and a prefix of its keys."""

    scheme: str
    bucket: str
    prefix: str  # without a slash at its end
    account: str = ""  # of Azure
    s3: S3Place | None = None

    def __str__(self) -> str:
        parts = (self.account, self.bucket, self.prefix)
        return f"{self.scheme}://{'/'.join(filter(None, parts))}"


class ObjectStores:
    """The objects of a bucket. Credentials come from the environment and the configuration of the provider."""

    name = "object store"
    schemes = ("s3", "gs", "az")
    options: tuple[SourceOption, ...] = ()

    def canonical(self, location: str) -> str:
        place = parse_place(location)
        query = urlsplit(location.strip()).query
        parts = (place.account, place.bucket, quote(place.prefix))
        return f"{place.scheme}://{'/'.join(filter(None, parts))}" + (f"?{query}" if query else "")

    def entries(self, run: SourceRun) -> Iterator[Entry]:
        place = parse_place(run.location)
        bucket = open_bucket(place, run)
        found = False
        for one in _below(bucket, place.prefix):
            if run.stopped():
                return
            found = True
            path = one.key[len(place.prefix) + 1 :] if place.prefix else one.key
            if one.key == place.prefix:
                path = one.key.rpartition("/")[2]
            reason = _reason_to_skip(path, one, run.limits.max_file_bytes)
            if reason is not None:
                run.skipped.add(reason, path)
            elif path:
                yield Entry(path, one.version, partial(bucket.copy, one.key), size=one.size)
        if found:
            return
        if run.versions:
            _check_is_empty(bucket, place, next(iter(run.versions)))
        elif place.prefix:
            raise SourceMissing(f"there is no object below {place}: check the prefix")


def _check_is_empty(bucket: Bucket, place: ObjectPlace, path: str) -> None:
    """Raise if an object is still there that was ingested before, or if that is not known.

    An empty list removes everything, and some clients read one from a response that is no list.
    """
    for key in (f"{place.prefix}/{path}" if place.prefix else path, place.prefix):
        if key and bucket.find(key) is not None:
            raise ConnectionError(f"{place} lists no objects, though {key!r} is there: try again later")


def _below(bucket: Bucket, prefix: str) -> Iterator[StoredObject]:
    """Yield the objects below a prefix as below a folder; if there are none, the object with that key."""
    found = False
    last = ""
    for one in bucket.objects(f"{prefix}/" if prefix else ""):
        found = True
        if one.key.endswith("/") and not one.size:
            continue  # a marker of an empty folder, as consoles make it
        if one.key != last:
            yield one
        last = one.key
    if not found and prefix and (single := bucket.find(prefix)) is not None:
        yield single


def _reason_to_skip(path: str, one: StoredObject, limit: int) -> SkipReason | None:
    if (reason := reason_to_skip(path) or skip_by_name(path)) is not None:
        return reason
    if not one.size:
        return _EMPTY
    if one.size > limit and is_read_whole(path):
        return SkipReason("large", f"larger than {limit:,} bytes")
    return _COLD if one.cold else None


def parse_place(location: str) -> ObjectPlace:
    """Return the place that a location names; raise `UnusableSource` if it is wrong."""
    try:
        parts = urlsplit(location.strip())
    except ValueError:
        raise UnusableSource(f"{refused(location)!r} is no place in an object store: {_ALLOWED}") from None
    scheme = parts.scheme.lower()
    name = refused(location)
    if scheme not in ObjectStores.schemes or not parts.netloc or set("@:") & set(parts.netloc) or parts.fragment:
        remedy = "credentials come from the environment; " if "@" in location else ""
        raise UnusableSource(f"{name!r} is no place in an object store: {remedy}{_ALLOWED}")
    path = unquote(parts.path).strip("/")
    if scheme == "s3":
        query = f"?{parts.query}" if parts.query else ""
        try:
            place = parse_s3_url(f"s3://{parts.netloc}{query}")
        except ValueError as error:
            raise UnusableSource(
                f"{name!r} has {error}: give s3://bucket/prefix, with "
                "?endpoint=https://host&region=name for another store than Amazon's"
            ) from None
        return ObjectPlace(scheme, place.bucket, path, s3=place)
    if parts.query:
        raise UnusableSource(f"{name!r} has parameters, which only s3:// has: {_ALLOWED}")
    if scheme == "gs":
        return ObjectPlace(scheme, parts.netloc, path)
    container, _, prefix = path.partition("/")
    if not _ACCOUNT.fullmatch(parts.netloc):
        raise UnusableSource(
            f"{name!r} has no name of an account, which is 3 to 24 letters and digits: {_ALLOWED}"
        )
    if not container:
        raise UnusableSource(f"{name!r} names no container: {_ALLOWED}")
    return ObjectPlace(scheme, container, prefix.strip("/"), account=parts.netloc)


def open_bucket(place: ObjectPlace, run: SourceRun) -> Bucket:
    """Return a client; raise if its library is missing."""
    try:
        if place.s3 is not None:
            from onward.pipeline.source_kinds.s3_bucket import S3Bucket

            return S3Bucket(place.s3, run.guard)
        from onward.pipeline.source_kinds.cloud_bucket import CloudBucket

        return CloudBucket(place)
    except ImportError as error:
        raise UnusableSource(
            f'{place} needs packages that are not installed ({error.name}): pip install "onward[objects]"'
        ) from error
