"""A crawl that is killed again and again takes every page once, and requests again only what was not stored."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from signal import SIGKILL

import pytest

from tests.support.crawls import put
from tests.support.supervised_workers import until
from tests.support.web_server import Site, serve

pytestmark = pytest.mark.prove

PAGES = 120
KILLS = int(os.environ.get("PIPELINE_KILLS", "6"))
SEED = int(os.environ.get("PIPELINE_SEED", "0")) or Random().randrange(1, 10**6)


def fill(site: Site, random: Random) -> None:
    """Make a tree of pages with further links among them."""
    for number in range(PAGES):
        below = [f"/p{child}" for child in range(3 * number + 1, 3 * number + 4) if child < PAGES]
        others = [f"/p{random.randrange(PAGES)}" for _ in range(3)]
        text = (
            f"Page {number} tells of the harbour and of ship {number * 7919}, at some length, as an article does."
        )
        put(site, f"/p{number}" if number else "/", text, *below, *others, "/gone", "/?utm_source=x")
    site.redirect("/p0", "/")


def start(home: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "onward", *arguments],
        env={**os.environ, "ONWARD_HOME": str(home), "ONWARD_FETCH_ALLOW_PRIVATE": "true"},
        cwd=home.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def has_requested(site: Site, process: subprocess.Popen[bytes], count: int) -> bool:
    return process.poll() is not None or len(site.targets) >= count


def kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, SIGKILL)
    process.communicate()


def messages(home: Path) -> list[dict[str, object]]:
    process = start(home, "documents", "--json", "--full", "--collection", "messages")
    output, _ = process.communicate(timeout=60)
    return [json.loads(line)["body"] for line in output.decode().splitlines() if line.startswith("{")]


def test_a_killed_crawl_takes_every_page_once(tmp_path: Path) -> None:
    random = Random(SEED)
    home = tmp_path / "home"
    with serve() as site:
        fill(site, random)
        location = f"crawl+{site.url('/', '127.0.0.1')}"
        ingest = ("ingest", location, "--option", "rate=40", "--processes", "1")
        moments = sorted(random.sample(range(2, PAGES), KILLS))
        for moment in moments:
            before = len(site.targets)
            process = start(home, *ingest)
            until(partial(has_requested, site, process, before + moment), f"{moment=} {SEED=}")
            kill(process)
        process = start(home, *ingest)
        output, _ = process.communicate(timeout=200)
        assert process.returncode == 0, output.decode()
        found = Counter(str(message["path"]) for message in messages(home))
        assert found == Counter(["/", *(f"p{number}" for number in range(1, PAGES))]), SEED
        seen = len(site.targets)
        process = start(home, *ingest)
        output, _ = process.communicate(timeout=200)
        assert process.returncode == 0, output.decode()
        assert len(messages(home)) == PAGES
        again = site.requests[seen:]
        assert all("If-None-Match" in headers for _, path, headers in again if path[:2] == "/p" and path != "/p0")
