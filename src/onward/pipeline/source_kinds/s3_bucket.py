"""Objects of a bucket that speaks the S3 protocol, by botocore, which takes keys of any form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from botocore import exceptions

from onward.pipeline.fetch.fetch_errors import HTTPAnswerError, SourceMissing, UnreadableSource, UnusableSource
from onward.pipeline.fetch.location import AddressGuard
from onward.pipeline.source_kinds.object_store import StoredObject
from onward.s3_place import S3Place, connect

ATTEMPTS = 3
_BLOCK_BYTES = 1 << 18
_COLD_CLASSES = frozenset({"GLACIER", "DEEP_ARCHIVE"})
_MISSING = frozenset({"NoSuchBucket", "NoSuchKey", "404"})
_THROTTLED = frozenset(
    {"SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequests"}
)
_UNREACHED = (
    exceptions.HTTPClientError,
    exceptions.ConnectionError,
    exceptions.IncompleteReadError,
    exceptions.ResponseStreamingError,
)


class S3Bucket:
    """Lists and reads a bucket of Amazon, MinIO, Ceph or another server."""

    def __init__(self, place: S3Place, guard: AddressGuard) -> None:
        self._place = place
        with self._explaining():
            self._client = connect(place, attempts=ATTEMPTS)
        # An endpoint from the environment is the operator's own.
        if place.endpoint is not None and not guard.allow_private:
            _restrict(self._client, guard)

    def objects(self, prefix: str) -> Iterator[StoredObject]:
        pages = iter(
            self._client.get_paginator("list_objects_v2").paginate(Bucket=self._place.bucket, Prefix=prefix)
        )
        while True:
            with self._explaining():
                page = next(pages, None)
            if page is None:
                return
            self._check_listing(page)
            for one in page.get("Contents", ()):
                cold = one.get("StorageClass") in _COLD_CLASSES
                yield StoredObject(one["Key"], one["Size"], f"{one['ETag']} {one['Size']}", cold)

    def find(self, key: str) -> StoredObject | None:
        first = next(self.objects(key), None)  # of all keys that begin with it
        return first if first is not None and first.key == key else None

    def copy(self, key: str, target: BinaryIO) -> None:
        with (
            self._explaining(key),
            closing(self._client.get_object(Bucket=self._place.bucket, Key=key)["Body"]) as body,
        ):
            while data := body.read(_BLOCK_BYTES):
                target.write(data)

    def _check_listing(self, page: dict[str, Any]) -> None:
        """Raise if a response is no listing, or does not say where it goes on: what it lacks may still exist."""
        name = f"s3://{self._place.bucket}/"
        if "IsTruncated" not in page:  # such as an empty response, or the web page of a gateway
            raise ConnectionError(
                f"{name} was answered with something else than a list of objects: try again later"
            )
        if page["IsTruncated"] and not page.get("NextContinuationToken"):
            raise UnusableSource(
                f"{name} has more objects than one response lists, and the server does not say how to go on: "
                "it does not support ListObjectsV2; give a prefix with at most 1,000 objects"
            )

    @contextmanager
    def _explaining(self, key: str = "") -> Iterator[None]:
        """Raise the errors of botocore with bucket, key and remedy, classified right."""
        name = f"s3://{self._place.bucket}/{key}"
        try:
            yield
        except exceptions.ClientError as error:
            raise _response_error(name, error) from error
        except _UNREACHED as error:
            raise ConnectionError(f"{name} cannot be reached: {_short(error)}") from error
        except exceptions.BotoCoreError as error:
            # No credentials, or a configuration that is wrong.
            raise UnusableSource(
                f"{name} cannot be used ({_short(error)}): set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
                "AWS_PROFILE, or give this machine a role"
            ) from error


def _restrict(client: Any, guard: AddressGuard) -> None:  # Any: the methods are made at run time
    """Let a client connect only to addresses that the guard allows, whatever a host name leads to."""

    def check(request: Any, **_: object) -> None:
        """Refuse a request with the remedy. Its host may be that of the bucket, below the endpoint."""
        parts = urlsplit(request.url)
        guard.addresses(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))

    client.meta.events.register("before-send.s3", check)
    # The client looks up the host once more, and the name may lead elsewhere by then.
    pools = client._endpoint.http_session._manager.pool_classes_by_scheme
    pools["http"] = _guarded_pool(pools["http"], guard)
    pools["https"] = _guarded_pool(pools["https"], guard)


def _guarded_pool(pool: Any, guard: AddressGuard) -> Any:  # Any: botocore has no types
    """Return a class of connection pools whose connections are closed before a request, if they lead elsewhere."""

    class Connection(pool.ConnectionCls):  # type: ignore[misc]  # as above
        def _new_conn(self) -> Any:
            connection = super()._new_conn()
            try:
                if self.proxy is None:  # the operator chose the proxy, and it connects
                    guard.check(connection.getpeername()[0])
            except BaseException:
                connection.close()
                raise
            return connection

    return type("GuardedPool", (pool,), {"ConnectionCls": Connection})


def _response_error(name: str, error: exceptions.ClientError) -> Exception:
    details = error.response.get("Error", {})
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    code = str(details.get("Code") or status)
    if code in _MISSING or status == 404:
        return SourceMissing(f"there is no {name} ({code}): check the name of the bucket")
    if code in _THROTTLED or status in (408, 425, 429) or status >= 500 or code == "RequestTimeout":
        return HTTPAnswerError(f"{name} answered {code}: the server cannot answer now", status or 503)
    if status in (301, 400) and (
        "Region" in code or code in ("301", "PermanentRedirect", "AuthorizationHeaderMalformed")
    ):
        return UnusableSource(f"{name} is in another region ({code}): add ?region=… to the location")
    if status in (401, 403):
        return UnreadableSource(
            f"{name} is refused ({code}): check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, and "
            "allow s3:ListBucket and s3:GetObject"
        )
    return UnusableSource(f"{name} answered {code}: check that the server speaks the S3 protocol")


def _short(error: Exception) -> str:
    text = "".join(filter(str.isprintable, str(error)))
    return re.sub(r"//[^/@\s]*@", "//***@", text)[:200] or type(error).__name__
