"""A console on a free port, in a thread of the test's own process, and a browser of sorts to ask it."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx2
import uvicorn

from onward import App
from onward.console import build
from onward.console.live import Live
from onward.console.server import configure
from onward.pipeline.app import build as build_pipeline
from onward.settings import load_settings

HTML = {"accept": "text/html"}


class Site:
    """A running console, and the app behind it."""

    def __init__(self, app: App, url: str, live: Live) -> None:
        self.app = app
        self.url = url
        self.live = live
        # Without TLS no certificates are needed; reading them takes longer than most requests.
        self.client = httpx2.Client(base_url=url, timeout=60.0, verify=False)

    def page(self, path: str, status: int = 200) -> str:
        """A page as a browser asks for it."""
        answer = self.client.get(path, headers=HTML, follow_redirects=True)
        assert answer.status_code == status, f"{path}: {answer.status_code}\n{answer.text[:2000]}"
        return answer.text

    def do(self, change: str, fields: Mapping[str, str]) -> str:
        """Confirm a change and carry it out, as somebody does who presses both buttons; answers the last page."""
        asked = self.client.get(f"/confirm/{change}", params=dict(fields), headers=HTML)
        assert asked.status_code == 200, asked.text[:2000]
        (form_token,) = set(re.findall(r'name="form_token" value="([^"]+)"', asked.text))
        done = self.client.post(
            f"/do/{change}", data={**fields, "form_token": form_token}, headers=HTML, follow_redirects=True
        )
        assert done.status_code == 200, done.text[:2000]
        return done.text


@contextmanager
def serving(app: App, *, token: str | None = None) -> Iterator[Site]:
    """Serve an app's console until the test ends."""
    web = build(app, token=token)
    server = uvicorn.Server(configure(web, patience=1))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        site = Site(app, f"http://127.0.0.1:{listening.getsockname()[1]}", web.web.state.live)
        try:
            yield site
        finally:
            site.client.close()
            web.web.state.live.close()
            web.web.state.operations.close()
            server.should_exit = True
            thread.join(60)


def pipeline(home: Path, **settings: str) -> App:
    """The pipeline with its store in a folder; settings by the names of their variables."""
    return build_pipeline(load_settings({"ONWARD_HOME": str(home), "ONWARD_OCR": "off", **settings}))
