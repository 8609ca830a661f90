"""Requests to an object store that speaks the S3 protocol, by botocore; its errors as errors of the store."""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, NoReturn

from botocore import exceptions

from onward.ledger.store_errors import StoreError, StoreUnavailable
from onward.retry import redact
from onward.s3_place import S3Place, connect

ATTEMPTS = 5  # of a request that fails with a lost connection, a 5xx or a throttling response
CONNECTIONS = 32
_THROTTLED = {"SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequests"}
_WRONG_REGION = {"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "301"}
# The connection was lost behind the head of the response, where botocore does not try again.
_LOST_BODY = (exceptions.IncompleteReadError, exceptions.ResponseStreamingError)
# No connection, a lost one, or no response in time.
_UNREACHED = (exceptions.HTTPClientError, exceptions.ConnectionError, *_LOST_BODY)
_NO_CREDENTIALS = (
    exceptions.NoCredentialsError,
    exceptions.PartialCredentialsError,
    exceptions.CredentialRetrievalError,
    exceptions.TokenRetrievalError,
    exceptions.SSOError,
    exceptions.ProfileNotFound,
)


class ObjectGone(Exception):
    """There is no object with this key."""


class UploadGone(StoreUnavailable):
    """An upload was aborted by another process, which took it for abandoned; a retry begins anew."""


@dataclass(frozen=True, slots=True)
class S3Object:
    key: str
    size: int
    etag: str
    modified: float


class S3Client:
    """The requests that blobs need, for the keys of one place. Safe across threads."""

    def __init__(self, place: S3Place, *, attempts: int = ATTEMPTS) -> None:
        self.place = place
        with self._explaining():
            self._client = connect(place, attempts=attempts, connections=CONNECTIONS)
        self.endpoint: str = self._client.meta.endpoint_url
        self._at = {"Bucket": place.bucket}

    def __str__(self) -> str:
        return f"s3://{self.place.bucket}/{self.place.prefix} at {self.endpoint}"

    def close(self) -> None:
        self._client.close()

    def now(self) -> float:
        """Return the time of the server, which is the time that objects are dated with."""
        with self._explaining():
            response = self._client.list_objects_v2(**self._at, Prefix=self.place.prefix, MaxKeys=1)
        with suppress(KeyError, TypeError, ValueError):
            return parsedate_to_datetime(response["ResponseMetadata"]["HTTPHeaders"]["date"]).timestamp()
        return time.time()

    def objects(self, prefix: str) -> Iterator[S3Object]:
        """Yield the objects whose keys begin with `prefix`, in the order of their keys."""
        pages = self._client.get_paginator("list_objects_v2").paginate(**self._at, Prefix=prefix)
        for page in self._pages(pages):
            for one in page.get("Contents", ()):
                yield S3Object(one["Key"], one["Size"], one["ETag"], one["LastModified"].timestamp())

    def put(self, key: str, data: bytes) -> None:
        with self._explaining():
            self._client.put_object(**self._at, Key=key, Body=data, ContentMD5=_md5(data))

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """Return the bytes of an object, or a range of them; raise `ObjectGone` if there is none."""
        wanted = {} if length is None else {"Range": f"bytes={start}-{start + length - 1}"}
        with self._explaining():
            try:
                return self._read(key, wanted)
            except _LOST_BODY:
                return self._read(key, wanted)

    def _read(self, key: str, wanted: dict[str, str]) -> bytes:
        with closing(self._client.get_object(**self._at, Key=key, **wanted)["Body"]) as body:
            found: bytes = body.read()
            return found

    def delete(self, key: str) -> None:
        """Remove an object, if it is there."""
        with self._explaining():
            self._client.delete_object(**self._at, Key=key)

    def upload(self, key: str, parts: Iterable[bytes], before_end: Callable[[], None]) -> None:
        """Upload an object in parts; it is there, and whole, when this returns, and not before `before_end`."""
        with self._explaining():
            about = self._client.create_multipart_upload(**self._at, Key=key)
        upload = {**self._at, "Key": key, "UploadId": about["UploadId"]}
        try:
            tags = []
            for number, part in enumerate(parts, 1):
                with self._explaining():
                    sent = self._client.upload_part(**upload, PartNumber=number, Body=part, ContentMD5=_md5(part))
                tags.append({"PartNumber": number, "ETag": sent["ETag"]})
            before_end()
            self._complete(upload, tags)
        except BaseException:
            with suppress(StoreError, ObjectGone):  # what cannot be aborted now is collected after a day
                self.abort(key, upload["UploadId"])
            raise

    def _complete(self, upload: dict[str, Any], tags: list[dict[str, Any]]) -> None:
        try:
            with self._explaining():
                self._client.complete_multipart_upload(**upload, MultipartUpload={"Parts": tags})
        except UploadGone:
            # The response to an earlier attempt of this request may have been lost.
            if not any(one.key == upload["Key"] for one in self.objects(upload["Key"])):
                raise

    def uploads(self) -> Iterator[tuple[str, str, float]]:
        """Yield key, id and beginning of each upload that is not complete."""
        pages = self._client.get_paginator("list_multipart_uploads").paginate(**self._at, Prefix=self.place.prefix)
        for page in self._pages(pages):
            for one in page.get("Uploads", ()):
                yield one["Key"], one["UploadId"], one["Initiated"].timestamp()

    def last_part_at(self, key: str, upload: str) -> float:
        """Return when the last part of an upload came; 0 if there is none."""
        pages = self._client.get_paginator("list_parts").paginate(**self._at, Key=key, UploadId=upload)
        dates = [part["LastModified"].timestamp() for page in self._pages(pages) for part in page.get("Parts", ())]
        return max(dates, default=0.0)

    def abort(self, key: str, upload: str) -> None:
        """Remove an incomplete upload with its parts."""
        with suppress(UploadGone), self._explaining():
            self._client.abort_multipart_upload(**self._at, Key=key, UploadId=upload)

    def _pages(self, pages: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        found = iter(pages)
        while True:
            with self._explaining():
                page = next(found, None)
            if page is None:
                return
            yield page

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Raise the errors of botocore as those of the store, with bucket, endpoint and remedy."""
        try:
            yield
        except exceptions.ClientError as error:
            self._explain_response(error)
        except exceptions.SSLError as error:
            raise StoreError(
                f"{self}: the certificate of the server is not accepted ({_short(error)}). Name its authority "
                "with AWS_CA_BUNDLE, or correct the endpoint in ONWARD_BLOBS"
            ) from error
        except _NO_CREDENTIALS as error:
            raise StoreError(
                f"{_name(self)}: there are no credentials ({_short(error)}). Set AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give this machine a role"
            ) from error
        except _UNREACHED as error:
            raise StoreUnavailable(
                f"{self} cannot be reached ({_short(error)}). Check the endpoint in ONWARD_BLOBS or "
                "AWS_ENDPOINT_URL, and that the server runs"
            ) from error
        except exceptions.BotoCoreError as error:
            raise StoreError(
                f"{_name(self)} cannot be used ({_short(error)}). Check ONWARD_BLOBS, ~/.aws/config and the "
                "variables that begin with AWS_"
            ) from error

    def _explain_response(self, error: exceptions.ClientError) -> NoReturn:
        """Raise an error response as an error of the store."""
        details = error.response.get("Error", {})
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        code = str(details.get("Code") or status)
        said = redact(f"{code}: {details.get('Message') or 'no message'}"[:300].rstrip(". "))
        if code == "NoSuchUpload":
            raise UploadGone(
                f"{self}: an upload is gone ({said}). It begins anew when it is tried again"
            ) from error
        if code == "NoSuchBucket":
            raise StoreError(
                f"{self}: there is no bucket {self.place.bucket!r}. Create it, or correct its name in ONWARD_BLOBS"
            ) from error
        if code in {"NoSuchKey", "404"}:
            raise ObjectGone(code) from error
        if code in _THROTTLED or status in (429, 503):
            raise StoreUnavailable(
                f"{self} takes no more requests for now ({said}). They are tried again; if this stays so, lower "
                "ONWARD_CONCURRENCY, start fewer workers, or raise the limit at the provider"
            ) from error
        if status >= 500 or code in {"RequestTimeout", "OperationAborted"}:
            raise StoreUnavailable(
                f"{self} has failed ({said}). It is tried again; see the log of the server"
            ) from error
        if code in _WRONG_REGION or status == 301:
            raise StoreError(
                f"{self}: the bucket is in another region ({said}). Add ?region=… to ONWARD_BLOBS, or "
                "set AWS_REGION"
            ) from error
        if code == "RequestTimeTooSkewed":
            raise StoreError(
                f"{self}: the clock of this machine differs from the server's ({said}). Set it, and let "
                "NTP keep it right"
            ) from error
        if status in (401, 403):
            raise StoreError(
                f"{self} refuses us ({said}). Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, "
                "and allow them s3:ListBucket, s3:ListBucketMultipartUploads, s3:GetObject, s3:PutObject, "
                "s3:DeleteObject, s3:ListMultipartUploadParts and s3:AbortMultipartUpload"
            ) from error
        raise StoreError(
            f"{self} refuses a request ({said}). Check that the server speaks the S3 protocol"
        ) from error


def _name(client: S3Client) -> str:
    """Return the name of a client that may not be made yet."""
    return str(client) if hasattr(client, "endpoint") else f"s3://{client.place.bucket}/{client.place.prefix}"


def _short(error: Exception) -> str:
    text = re.sub(r':? ?"https?://[^"]*"', "", str(error))  # the URL of a request names the blob
    return redact(text)[:300].rstrip(". ")


def _md5(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()
