"""One web page or file of a web server: transferred again only if the server says that it has changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import urlsplit

from onward.pipeline.fetch.location import canonical_url
from onward.pipeline.source_kinds.source_kind import Entry, SourceOption, SourceRun


class WebPage:
    name = "Web page"
    schemes = ("http", "https")
    options: tuple[SourceOption, ...] = ()

    def canonical(self, location: str) -> str:
        return canonical_url(location)

    def entries(self, run: SourceRun) -> Iterator[Entry]:
        from onward.pipeline.fetch.http_client import HttpClient  # slow to import, and not needed for files

        before = run.versions.get("", "")
        etag, modified = json.loads(before) if before else ("", "")
        conditions = {"If-None-Match": etag, "If-Modified-Since": modified}
        headers = {name: value for name, value in conditions.items() if value}
        file = run.scratch / "answer"
        with HttpClient(run.limits, run.guard) as client, file.open("wb") as target:
            response = client.get(run.location, target, headers=headers)
        if response.not_modified:
            yield Entry("", before)
            return
        stamps = [response.etag, response.last_modified]
        version = json.dumps(stamps) if any(stamps) else ""
        name = response.name or urlsplit(response.url).netloc
        yield Entry("", version, name=name, media_type=response.media_type, url=response.url, file=file)
