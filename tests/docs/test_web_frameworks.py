"""The examples with web frameworks run in a real web server, with a real worker, on both databases."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.support.caller_connections import waiting

ROOT = Path(__file__).parents[2]


class Web:
    """A web application of an example, served by uvicorn, and the worker of its app."""

    def __init__(self, store_url: str, folder: Path) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ONWARD_")}
        paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
        self.environment = environment | {"ONWARD_STORE": store_url, "PYTHONPATH": paths}
        self.folder = folder

    @contextmanager
    def serving(self, web: str) -> Iterator[httpx2.Client]:
        # The socket is open before the server starts, so that the first request waits for it.
        with socket.create_server(("127.0.0.1", 0)) as listening:
            server = subprocess.Popen(
                [sys.executable, "-m", "uvicorn", web, "--fd", str(listening.fileno()), "--log-level", "critical"],
                cwd=self.folder,
                env=self.environment,
                pass_fds=[listening.fileno()],
            )
            address = f"http://127.0.0.1:{listening.getsockname()[1]}"
            try:
                with httpx2.Client(base_url=address, timeout=60.0, verify=False) as client:
                    yield client
            finally:
                server.terminate()
                server.wait()

    def run(self, *arguments: str) -> str:
        """Run a module to its end, and return what it printed."""
        command = [sys.executable, "-m", *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def work(self, app: str) -> str:
        return self.run("onward", "worker", "--app", app, "--processes", "1", "--until-idle", "0.1")


@pytest.fixture
def web(store_url: str, tmp_path: Path) -> Web:
    return Web(store_url, tmp_path)


@pytest.mark.prove
def test_a_text_is_submitted_and_its_status_is_shown(web: Web) -> None:
    with web.serving("examples.status_page:web") as client:
        submitted = client.post("/texts", json={"id": "tide", "text": "the tide is late"})
        assert submitted.status_code == 202, submitted.text
        assert client.get("/texts/tide").json() == {"status": "pending", "words": None}
        web.work("examples.status_page:app")
        assert client.get("/texts/tide").json() == {"status": "processed", "words": 4}
        again = client.post("/texts", json={"id": "tide", "text": "the tide is late"})
        assert (again.status_code, client.get("/texts/tide").json()["status"]) == (202, "processed")
        assert client.get("/texts/ebb").status_code == 404
        for wrong in ({"id": "ebb"}, {"text": "an ebb"}, {"id": "", "text": "an ebb"}, {"id": "ebb", "text": 7}):
            assert client.post("/texts", json=wrong).status_code == 422, wrong
        assert client.get("/texts/ebb").status_code == 404, "what is refused is not stored"


@pytest.mark.prove
def test_an_order_is_stored_with_its_event_or_not_at_all(web: Web, store_url: str) -> None:
    web.run("examples.django_shop")
    with web.serving("examples.django_shop:shop") as client:
        placed = client.post("/orders", data={"number": "17", "article": "a lamp"})
        assert placed.status_code == 202, placed.text
        assert client.get("/orders/17").json() == {"status": "pending"}
        refused = client.post("/orders", data={"number": "17", "article": "a prism"})
        assert refused.status_code == 500, "the number is taken, so the row is not stored"
        assert waiting(store_url) == 0, "nor is the event"
        assert web.work("examples.django_shop:app").count("Order 17: a lamp") == 1
        assert client.get("/orders/17").json() == {"status": "processed"}
        unknown = client.get("/orders/18")
        assert (unknown.status_code, unknown.json()) == (404, {"status": None})


def test_the_page_shows_the_example() -> None:
    page = (ROOT / "docs" / "how-to" / "web-frameworks.md").read_text()
    (source,) = (ROOT / "examples" / "status_page.py").read_text().split('"""\n\n', 1)[1:]
    assert f"```python\n{source}```" in page
    shop = (ROOT / "examples" / "django_shop.py").read_text()
    views = page.partition("    def place_order")[2].partition("\n- ")[0]
    for line in filter(None, (line.strip() for line in views.splitlines()[1:])):
        assert line in shop or line.startswith("async def"), f"the page shows {line!r}"


def test_the_examples_are_short() -> None:
    for name, lines in (("status_page", 40), ("django_shop", 61)):
        assert len((ROOT / "examples" / f"{name}.py").read_text().splitlines()) < lines
