"""Taking sources from outside: a URL, an upload or a text; for the API and for the form."""

from __future__ import annotations

import io
import shutil
from dataclasses import dataclass
from typing import BinaryIO

from onward.app import App
from onward.console.problems import Problem
from onward.facts.finding import Unusable
from onward.facts.wording import one_line

LONGEST_URL = 2_000
"""An index of the store has to hold it."""
_SCHEMES = ("http://", "https://")


@dataclass(frozen=True, slots=True)
class Submitted:
    """What became of a source that was handed over."""

    id: str
    """Of the document that stands for it."""
    source: str
    new: bool
    """False: it was known already, and nothing was done."""


def submit_url(app: App, url: str) -> Submitted:
    """Have a page or file fetched from the web; whether its address may be reached is seen when it is fetched."""
    return submit_source(app, url_source(url))


def submit_upload(app: App, name: str, stream: BinaryIO) -> Submitted:
    """Have bytes ingested that somebody sends; they are kept before anything is announced."""
    return submit_source(app, upload_source(app, name, stream))


def submit_text(app: App, text: str, title: str = "") -> Submitted:
    """Have a text ingested."""
    return submit_source(app, text_source(app, text, title))


# -- which source it is


def url_source(url: str) -> str:
    """The source that a URL means; a path, or anything else that is no URL of the web, is refused."""
    from onward.pipeline.fetching import canonical

    given = url.strip()
    if not given.lower().startswith(_SCHEMES):
        raise Unusable(
            f"url is {one_line(given, 100)!r}, and must begin with http:// or https://; send a file as an upload"
        )
    if len(given) > LONGEST_URL:
        raise Unusable(f"url has {len(given)} characters, and may have {LONGEST_URL}: give a shorter one")
    source = canonical(given)
    if len(source) > LONGEST_URL:
        raise Unusable(f"url is longer than {LONGEST_URL} characters when it is written out: give a shorter one")
    return source


def upload_source(app: App, name: str, stream: BinaryIO) -> str:
    """Keep the bytes of an upload, piece by piece; nothing is announced yet."""
    from onward.pipeline.uploads import Upload, clean_name

    check_takes_sources(app)
    blob = app.blobs.put(lambda target: shutil.copyfileobj(stream, target, 1 << 20))
    if not blob.size:
        raise Unusable(f"the upload {clean_name(name)!r} is empty: send a file that holds something")
    return Upload(blob.digest, clean_name(name)).location


def text_source(app: App, text: str, title: str = "") -> str:
    """Keep a text; its title tells what it is, as the name of a file does."""
    from onward.pipeline.fetching.kinds import claims_text

    if not text.strip():
        raise Unusable("content is empty: give some text")
    name = title.strip() or "text"
    return upload_source(app, name if claims_text(name) else f"{name}.txt", io.BytesIO(text.encode()))


# -- submitting it


def check_takes_sources(app: App) -> None:
    """Refuse where nobody would ever fetch anything."""
    if "ingestion" not in app.registry.services:
        raise Problem(
            409,
            "Nothing is ingested here",
            "This store is that of an app which has no ingestion service. Its own program makes its documents.",
        )


def submit_source(app: App, source: str) -> Submitted:
    """Have a source ingested that nobody has submitted before; one that is known is left as it is."""
    from onward.pipeline.documents import Archive, source_id
    from onward.pipeline.sources import submit

    check_takes_sources(app)
    id = source_id(source)

    def put() -> Submitted:
        if app.state(Archive, id) is not None:
            return Submitted(id, source, new=False)
        submit(app, source)
        return Submitted(id, source, new=True)

    return app.atomically(put)
