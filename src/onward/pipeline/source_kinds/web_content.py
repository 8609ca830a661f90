"""Which content of web sites is taken, by its address and by what the server says that it is."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from onward.pipeline.fetch.fetched_items import SkipReason

_KINDS = {
    "picture": "jpg jpeg png gif webp avif svg ico bmp tif tiff heic",
    "video": "mp4 webm mkv avi mov wmv flv m4v",
    "audio": "mp3 wav ogg oga flac m4a aac opus",
    "font": "woff woff2 ttf otf eot",
    "program": "exe msi dmg deb rpm apk jar iso img bin dll so whl",
    "asset": "css js mjs map wasm json rss atom",
}
_BY_ENDING = {ending: kind for kind, endings in _KINDS.items() for ending in endings.split()}
_BY_TYPE = {
    "image": "picture",
    "video": "video",
    "audio": "audio",
    "font": "font",
    "text/css": "asset",
    "text/javascript": "asset",
    "text/event-stream": "asset",
    "application/javascript": "asset",
    "application/x-javascript": "asset",
    "application/json": "asset",
    "application/ld+json": "asset",
    "application/manifest+json": "asset",
    "application/wasm": "asset",
    "application/rss+xml": "asset",
    "application/atom+xml": "asset",
    "application/vnd.android.package-archive": "program",
    "application/x-msdownload": "program",
    "application/x-debian-package": "program",
    "application/x-iso9660-image": "program",
}
_HTML = re.compile(r"\s*(text/html|application/xhtml\+xml)\b", re.IGNORECASE)


def reason_to_skip_url(url: str) -> SkipReason | None:
    """Return why a URL is not requested: its ending says what it is."""
    ending = urlsplit(url).path.rpartition("/")[2].rpartition(".")[2].lower()
    kind = _BY_ENDING.get(ending)
    return None if kind is None else SkipReason(kind, f"a {kind}, from its address")


def reason_to_skip_type(media_type: str) -> SkipReason | None:
    """Return why content is not received: the server says what it is."""
    name = media_type.partition(";")[0].strip().lower()
    kind = _BY_TYPE.get(name) or _BY_TYPE.get(name.partition("/")[0])
    return None if kind is None else SkipReason(kind, f"{name}, from the server")


def is_html(media_type: str) -> bool:
    return _HTML.match(media_type) is not None
