"""The example that crawls 100 pages: it reports once, when all are final, with those that failed for good."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from onward import Joined
from onward.backend_urls import open_store

ROOT = Path(__file__).parents[2]
MISSING = {"/7", "/42", "/99"}  # these are not found
BUSY = {"/3", "/42", "/58", "/60", "/61"}  # these fail at the first request


@contextmanager
def web_site() -> Iterator[tuple[str, Counter[str]]]:
    """A web server with 100 pages; yields its URL, and how often each page was asked for."""
    asked: Counter[str] = Counter()

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked[self.path] += 1
            first = self.path in BUSY and asked[self.path] == 1
            self.send_response(503 if first else 404 if self.path in MISSING else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


@pytest.mark.prove
@pytest.mark.parametrize("kind", ("sqlite", "postgres"))
def test_a_hundred_pages_are_crawled_and_reported(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    settings = {
        "ONWARD_RETRY_BACKOFF_SECONDS": "0.1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
    }
    if kind == "postgres":
        settings["ONWARD_STORE"] = str(request.getfixturevalue("postgres_store_url"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ONWARD_")}
    commands = (
        ["-m", "examples.crawl", "{url}"],
        ["-m", "onward", "worker", "--app", "examples.crawl:app", "--until-idle", "30"],
    )
    with web_site() as (url, asked):
        submitted, worked = (
            subprocess.run(
                [sys.executable, *(word.format(url=url) for word in command)],
                cwd=tmp_path,
                env=environment | settings,
                capture_output=True,
                text=True,
                check=False,
            )
            for command in commands
        )
    failed = tuple(sorted(f"pages/{url}{path}" for path in MISSING))
    joined = Joined(total=100, processed=97, failed=3, failed_ids=failed)
    assert submitted.returncode == 0, submitted.stderr
    assert worked.stdout.splitlines().count(f"{url} {joined}") == 1, worked.stdout + worked.stderr
    assert asked == Counter([*(f"/{number}" for number in range(100)), *BUSY])
    store = open_store(settings.get("ONWARD_STORE", f"sqlite:///{tmp_path / 'onward-data' / 'onward.db'}"))
    assert store.document_counts() == {"pages": {"processed": 97, "failed": 3}}
    store.close()


def test_the_example_is_short() -> None:
    assert len((ROOT / "examples" / "crawl.py").read_text().splitlines()) < 40
