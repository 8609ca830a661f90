"""Sources that are submitted to a server: a URL, an upload or a text."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from typing import BinaryIO, NamedTuple

from onward.app import App
from onward.blobs import Blob
from onward.ops.bad_input import BadInput, NotPossible
from onward.ops.text.format import one_line
from onward.pipeline.documents import Archive, source_id
from onward.pipeline.uploads import Upload, clean_name, read_location
from onward.retry.errors import OnwardError
from onward.retry.redact import redact

MAX_URL_LENGTH = 2_000  # an index of the store has to hold it


class Submitted(NamedTuple):
    id: str  # of the document that represents it
    source: str
    new: bool  # False: it was known already, and nothing was done


def submit_upload(app: App, name: str, stream: BinaryIO) -> Submitted:
    """Submit a file; its bytes are stored before its event is published."""
    submitted = submit_source(app, upload_source(app, name, stream))
    keep_upload(app, submitted.source, copier(stream))
    return submitted


def submit_text(app: App, text: str, title: str = "") -> Submitted:
    submitted = submit_source(app, text_source(app, text, title))
    keep_upload(app, submitted.source, copier(io.BytesIO(text.encode())))
    return submitted


def url_source(url: str) -> str:
    """Return the source of a URL; refuse a path, and anything else that is no URL of the web."""
    from onward.pipeline.fetch import canonical

    given = url.strip()
    if not given.lower().startswith(("http://", "https://")):
        raise BadInput(
            f"url is {one_line(given, 100)!r}, and must begin with http:// or https://; send a file as an upload"
        )
    if len(given) > MAX_URL_LENGTH:
        raise BadInput(f"url has {len(given)} characters, and may have {MAX_URL_LENGTH}: give a shorter one")
    source = canonical(given)
    if len(source) > MAX_URL_LENGTH:
        text = f"url is longer than {MAX_URL_LENGTH} characters when it is written out"
        raise BadInput(f"{text}: give a shorter one")
    return source


def remote_source(app: App, location: str) -> str:
    """Return a source that is to be watched; refuse one that is not known and does not come from the web.

    A client must not read files of the server's machine. Mailboxes, buckets and ssh are opened with
    credentials of that machine, which must not be sent to a server that the client has chosen.
    """
    from onward.pipeline.source_kinds.registry import scheme_of
    from onward.pipeline.sources import known_source

    given = location.strip()
    try:
        source = known_source(app, given)
    except OnwardError as error:
        raise BadInput(str(error)) from error
    from_web = scheme_of(source).split("+")[-1] in ("http", "https")
    if not from_web and source not in app.store.sources():
        raise BadInput(
            f"location is {one_line(redact(given), 100)!r}, read with the rights of the server's machine. It must "
            "be a source of the web (https://…, crawl+https://…), or a known one: run `onward watch` there"
        )
    if len(source) > MAX_URL_LENGTH:
        raise BadInput(f"location has {len(source)} characters, and may have {MAX_URL_LENGTH}: give a shorter one")
    return source


def upload_source(app: App, name: str, stream: BinaryIO) -> str:
    """Store the bytes of an upload, and return its source; no event is published yet."""
    return Upload(store_upload(app, name, stream).digest, clean_name(name)).location


def store_upload(app: App, name: str, stream: BinaryIO) -> Blob:
    """Store the bytes of an upload piece by piece."""
    check_takes_sources(app)
    blob = app.blobs.put(copier(stream))
    if not blob.size:
        raise BadInput(f"the upload {clean_name(name)!r} is empty: send a file that holds something")
    return blob


def text_source(app: App, text: str, title: str = "") -> str:
    """Store a text, and return its source; the title serves as the name of its file."""
    from onward.pipeline.fetch.file_kinds import claims_text

    if not text.strip():
        raise BadInput("content is empty: give some text")
    name = title.strip() or "text"
    return upload_source(app, name if claims_text(name) else f"{name}.txt", io.BytesIO(text.encode()))


def copier(stream: BinaryIO) -> Callable[[BinaryIO], None]:
    """Return a function that writes all of a stream, piece by piece."""

    def copy_to(target: BinaryIO) -> None:
        stream.seek(0)
        shutil.copyfileobj(stream, target, 1 << 20)

    return copy_to


def keep_upload(app: App, source: str, write: Callable[[BinaryIO], None]) -> None:
    """Store the bytes of a submitted upload again, as `write` writes them, if they were deleted meanwhile.

    Until its commit no document named them, so that `forget` of a source with the same bytes may have deleted
    them. From now on it sees the document, or that the bytes were stored again.
    """
    upload = read_location(source)
    if upload is not None and not app.blobs.renew(upload.digest):
        app.blobs.put(write)


def check_takes_sources(app: App) -> None:
    """Refuse an app whose services fetch nothing."""
    if "ingestion" not in app.registry.services:
        raise NotPossible(
            "nothing is ingested here: this store is that of an app that has no ingestion service, "
            "whose own program makes its documents"
        )


def submit_source(app: App, source: str) -> Submitted:
    """Submit a source that is new; leave a known one as it is."""
    from onward.pipeline.sources import submit

    check_takes_sources(app)
    id = source_id(source)

    def put() -> Submitted:
        if app.state(Archive, id) is not None:
            return Submitted(id, source, new=False)
        submit(app, source)
        return Submitted(id, source, new=True)

    return app.atomically(put)
