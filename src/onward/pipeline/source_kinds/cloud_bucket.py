"""Objects of Google Cloud Storage and Azure, by obstore."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

import obstore
from obstore import exceptions
from obstore.store import AzureStore, GCSStore

from onward.pipeline.fetch.fetch_errors import HTTPAnswerError, SourceMissing, UnreadableSource, UnusableSource
from onward.pipeline.source_kinds.object_store import ObjectPlace, StoredObject

_PAGE_OBJECTS = 1000
_RETRIES = 3
_STATUS = re.compile(r"status code: (\d{3})")
_CREDENTIALS = {
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS, or `gcloud auth application-default login`",
    "az": "set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_KEY, or the variables of a service principal",
}


class CloudBucket:
    """Lists and reads a bucket of Google or a container of Azure."""

    def __init__(self, place: ObjectPlace) -> None:
        self._place = place
        with self._explaining():
            self._store: GCSStore | AzureStore
            if place.scheme == "gs":
                self._store = GCSStore(place.bucket, retry_config={"max_retries": _RETRIES})
            else:
                retries = {"max_retries": _RETRIES}
                self._store = AzureStore(place.bucket, account_name=place.account, retry_config=retries)  # type: ignore[arg-type]

    def objects(self, prefix: str) -> Iterator[StoredObject]:
        with self._explaining():
            pages = iter(obstore.list(self._store, prefix=prefix or None, chunk_size=_PAGE_OBJECTS))
        while True:
            with self._explaining():
                page = next(pages, None)
            if page is None:
                return
            yield from map(_stored, page)

    def find(self, key: str) -> StoredObject | None:
        with suppress(SourceMissing), self._explaining(key):
            return _stored(obstore.head(self._store, key))
        return None

    def copy(self, key: str, target: BinaryIO) -> None:
        with self._explaining(key):
            for data in obstore.get(self._store, key).stream():  # noqa: FURB122 (a target has this method only)
                target.write(memoryview(data))

    @contextmanager
    def _explaining(self, key: str = "") -> Iterator[None]:
        """Raise the errors of obstore with bucket, key and remedy, classified right."""
        name = f"{self._place}: {key}" if key else str(self._place)
        try:
            yield
        except (FileNotFoundError, exceptions.BaseError, ValueError) as error:
            raise _classified(name, self._place.scheme, error) from error


def _stored(meta: obstore.ObjectMeta) -> StoredObject:
    return StoredObject(meta["path"], meta["size"], f"{meta['e_tag']} {meta['version']} {meta['size']}")


def _classified(name: str, scheme: str, error: Exception) -> Exception:
    said = "".join(filter(str.isprintable, str(error).partition("\n")[0]))
    said = re.sub(r"//[^/@\s]*@|\?[^\s'\"]*", "", said)[:200]  # no credentials, and no signature of a URL
    match = _STATUS.search(said)
    status = int(match[1]) if match else 0
    if isinstance(error, FileNotFoundError) or (status == 404 and "token" not in said):
        return SourceMissing(f"there is no {name} (404): check the name of the bucket")
    if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError) or (
        status in (401, 403) or "token request" in said
    ):
        return UnreadableSource(f"{name} is refused ({said}): {_CREDENTIALS[scheme]}")
    if isinstance(error, exceptions.InvalidPathError):
        return UnusableSource(
            f"{name} has an object whose name cannot be used ({said}): rename it, or give a prefix"
        )
    if isinstance(error, ValueError | exceptions.UnknownConfigurationKeyError):
        return UnusableSource(f"{name} cannot be used ({said}): {_CREDENTIALS[scheme]}")
    if status == 429 or status >= 500:
        return HTTPAnswerError(f"{name} answered {status}: the server cannot answer now", status)
    return ConnectionError(f"{name} cannot be reached: {said}")
