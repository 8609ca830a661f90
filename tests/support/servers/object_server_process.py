"""Runs moto's S3 server with what it lacks, and with routes below `/-/` that age objects and fail requests.

    python -m tests.support.servers.object_server_process PORT

Its additions: it refuses bodies that do not have their Content-MD5, and dates uploads by their beginning.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import sys
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import FakeMultipart, s3_backends
from werkzeug.serving import WSGIRequestHandler, run_simple

from tests.support.servers.private import HOST

ACCOUNT = "123456789012"
Start = Callable[[str, list[tuple[str, str]]], Callable[[bytes], object]]
_ERROR = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{}</Code><Message>{}</Message></Error>'


class ObjectServerApp:
    """moto's app behind the routes of tests."""

    def __init__(self) -> None:
        self._app = DomainDispatcherApplication(create_backend_app)
        self._requests: list[str] = []
        self._failures: list[tuple[int, str, str]] = []
        self._lost = ""
        self._begun: dict[str, datetime] = {}
        self._held_part = 0
        self._held = threading.Event()
        self._released = threading.Event()
        self._note_uploads()

    def _note_uploads(self) -> None:
        real, begun = FakeMultipart.__init__, self._begun

        def noted(upload: Any, *given: Any, **options: Any) -> None:
            real(upload, *given, **options)
            begun[upload.id] = datetime.now(UTC)

        FakeMultipart.__init__ = noted  # type: ignore[method-assign, assignment]  # moto has no date of an upload

    def __call__(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        query = {name: values[0] for name, values in parse_qs(environ["QUERY_STRING"], True).items()}
        if path.startswith("/-/"):
            found = getattr(self, f"_route_{path[3:]}")(**query)
            start("200 OK", [("Content-Type", "application/json")])
            return [json.dumps(found).encode()]
        if path.startswith("/moto-api/"):
            return self._app(environ, start)  # type: ignore[no-any-return]
        about = f"{method} {path}?{environ['QUERY_STRING']} {environ.get('HTTP_RANGE', '')}".strip()
        self._requests.append(about)
        if self._failures and self._failures[0][2] in about:
            status, code, _ = self._failures.pop(0)
            return _refuse(start, status, code)
        if self._held_part and int(query.get("partNumber", "0")) >= self._held_part:
            self._held.set()
            self._released.wait()
        if (given := environ.get("HTTP_CONTENT_MD5")) is not None:
            body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            environ["wsgi.input"] = io.BytesIO(body)
            if base64.b64encode(hashlib.md5(body).digest()).decode() != given:
                return _refuse(start, 400, "BadDigest")
        if self._lost and self._lost in about:
            self._lost = ""
            b"".join(self._app(environ, lambda *_: lambda data: None))
            return _refuse(start, 500, "InternalError")
        if method == "GET" and "uploads" in query:
            return self._dated_uploads(environ, start)
        return self._app(environ, start)  # type: ignore[no-any-return]

    def _dated_uploads(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        heads: list[tuple[str, list[tuple[str, str]]]] = []

        def note(status: str, headers: list[tuple[str, str]], error: object = None) -> Callable[[bytes], object]:
            heads.append((status, headers))
            return lambda data: None

        text = b"".join(self._app(environ, note)).decode()

        def dated(match: re.Match[str]) -> str:
            id = re.search(r"<UploadId>(.*?)</UploadId>", match[0])
            date = self._begun[id[1]].strftime("%Y-%m-%dT%H:%M:%S.000Z") if id else ""
            return re.sub(r"<Initiated>.*?</Initiated>", f"<Initiated>{date}</Initiated>", match[0])

        text = re.sub(r"<Upload>.*?</Upload>", dated, text, flags=re.DOTALL)
        status, headers = heads[0]
        start(status, [(name, value) for name, value in headers if name.lower() != "content-length"])
        return [text.encode()]

    # -- routes of tests; the arguments are the parameters of the URL

    def _route_ready(self) -> bool:
        return True

    def _route_age(self, bucket: str, part_of_key: str, seconds: str) -> int:
        """Make objects, and incomplete uploads, older; return their number."""
        earlier = timedelta(seconds=float(seconds))
        found = s3_backends[ACCOUNT]["aws"].buckets[bucket]
        keys = [key for key in found.keys.values() if part_of_key in key.name]
        for key in keys:
            key.last_modified -= earlier
        uploads = [upload for upload in found.multiparts.values() if part_of_key in upload.key_name]
        for upload in uploads:
            self._begun[upload.id] -= earlier
            for part in upload.parts.values():
                part.last_modified -= earlier
        return len(keys) + len(uploads)

    def _route_fail(self, status: str, code: str, count: str, about: str = "") -> None:
        """Let the next requests fail, or the next ones that contain a text, as in `GET /bucket/key?query`."""
        self._failures = [(int(status), code, about)] * int(count)

    def _route_lose(self, about: str) -> None:
        """Do what the next request with this text wants, and fail it then: its response is lost."""
        self._lost = about

    def _route_hold(self, part: str) -> None:
        """Hold uploads from a part on, until `release`."""
        self._held.clear()
        self._released.clear()
        self._held_part = int(part)

    def _route_held(self, seconds: str) -> bool:
        """Wait until an upload is held; return whether one is."""
        return self._held.wait(float(seconds))

    def _route_release(self) -> None:
        self._held_part = 0
        self._released.set()

    def _route_requests(self) -> list[str]:
        """Return the requests since the last call."""
        found, self._requests = self._requests, []
        return found


def _refuse(start: Start, status: int, code: str) -> Iterable[bytes]:
    start(f"{status} {code}", [("Content-Type", "application/xml")])
    return [_ERROR.format(code, "as the test wants it").encode()]


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a response is written in pieces, of which each would wait for the one before

    def log_request(self, *_: object) -> None:
        """Hundreds of thousands of lines would be of no use."""


if __name__ == "__main__":
    run_simple(HOST, int(sys.argv[1]), ObjectServerApp(), threaded=True, request_handler=_Quiet)
