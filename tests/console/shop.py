"""A console of somebody else's app: pages that failed, wait or are set aside, and no worker but the test."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlencode

from onward import App
from onward.model.failures import Failure
from onward.model.ledger import DeadLettered, Processed
from onward.retry import Reason
from onward.settings import load_settings
from tests.support.console_client import HTML, Site, serving
from tests.support.failed_pages import DRAWING, SOURCE
from tests.support.store_pages import Clock, Stage

ODD = 'a/b "c" %2F?#&<d>'
"""An id with everything that means something in an address or a page."""
PATIENCE = 4
"""So often a stream may say that it has nothing to say, before a test is given up."""


@dataclass(frozen=True, slots=True)
class Shop:
    """The console, and a hand in its store."""

    site: Site
    on: Stage

    def page(self, path: str, status: int = 200) -> str:
        return self.site.page(path, status)

    def words(self, path: str, status: int = 200) -> str:
        """What somebody reads on a page."""
        return words(self.page(path, status))

    def links(self, path: str) -> list[str]:
        """Where a page leads to."""
        return [html.unescape(one) for one in re.findall(r'href="([^"]+)"', self.page(path))]

    def finish(self, limit: int = 1) -> int:
        """Do what is due, as a worker does that has no trouble."""
        taken = self.on.claim(limit)
        for one in taken:
            self.on.settle(one, Processed([each.id for each in one.inputs]))
        return len(taken)

    def give_up(self, failure: Failure, *ids: str) -> None:
        """Pages that fail for good with this, just now, each with its dead letter."""
        for id in ids:
            self.on.bring(id, source=SOURCE)
            now = replace(failure, at=self.on.store.now())
            self.on.settle(
                self.on.take(), DeadLettered([id], reason=Reason.NON_RETRYABLE, failure=now, final=True)
            )

    def begin(self, change: str, **fields: str) -> str:
        """Begin a long change; answers where it is seen how it goes."""
        asked = self.page(f"/confirm/{change}?{urlencode(fields)}")
        (token,) = set(re.findall(r'name="form_token" value="([^"]+)"', asked))
        done = self.site.client.post(f"/do/{change}", data={**fields, "form_token": token}, headers=HTML)
        assert done.status_code == 303, done.text[:2000]
        return done.headers["location"]

    def select(self, path: str, change: str, ticked: list[str], given: dict[str, str], status: int = 200) -> str:
        """Tick entries of a list and press a button of its selection; return the page that asks."""
        token = form_token(self.page(path))
        data = {**given, "form_token": token, "selected": ticked}
        asked = self.site.client.post(f"/confirm/{change}", data=data, headers=HTML)
        assert asked.status_code == status, asked.text[:2000]
        return asked.text

    def confirm(self, page: str) -> str:
        """Press the button of a page that asks; return what is said at the end."""
        action = re.search(r'action="(/do/[^"]+)"', page)
        assert action is not None
        fields = re.findall(r'<input type="(?:hidden|text|number)" name="([^"]+)" value="([^"]*)"', page)
        data = {name: html.unescape(value) for name, value in fields}
        done = self.site.client.post(action[1], data=data, headers=HTML)
        assert done.status_code == 303, done.text[:2000]
        if (where := done.headers["location"]).startswith("/operations/"):
            return next(
                said for said in self.watch(where.replace("/operations/", "/operation/")) if "Back" in said
            )
        return self.words(where)

    def watch(self, path: str) -> Iterator[str]:
        """What a live part says, whenever it has changed."""
        with self.site.client.stream("GET", f"/live{path}") as stream:
            silent = 0
            for line in stream.iter_lines():
                silent += line.startswith(":")  # it is there, and has nothing to say
                assert silent < PATIENCE, f"{path} says nothing more"
                if line.startswith("data:"):
                    silent = 0
                    yield words(json.loads(line.removeprefix("data:")))

    def wait_for(self, operation: str, text: str) -> str:
        """Watch an operation until it says something; an end that says something else is none."""
        for said in self.watch(operation.replace("/operations/", "/operation/")):
            if text in said:
                return said
            assert "Back" not in said, f"it has ended otherwise: {said}"
        raise AssertionError("the stream has ended")

    def actions(self) -> list[tuple[str, str, int]]:
        """What the action log has kept, the oldest first."""
        found = [(one.via, one.action, one.touched) for one in self.on.store.actions()]
        return found[::-1]


def form_token(page: str) -> str:
    return page.partition('name="form_token" value="')[2].partition('"')[0]


def words(page: str) -> str:
    """The text of a page on one line, without its menu."""
    main = page.partition('<main id="main"')[2].partition("</main>")[0] or page
    text = re.sub(r"<[^>]*>", " ", main.partition(">")[2] if main is not page else main)
    return " ".join(html.unescape(text).split())


@contextmanager
def open_shop(home: Path, **settings: str) -> Iterator[Shop]:
    """Serve a store with a service that reads pages, and one that needs a printer."""
    usual = {"ONWARD_HOME": str(home), "ONWARD_SERVE_REQUESTS_PER_SECOND": "10000"}
    app = App(settings=load_settings(usual | settings))
    app.store.subscribe([DRAWING])
    on = Stage(app.store, Clock(app.store.now()))
    with serving(app) as site:
        yield Shop(site, on)
    app.close()
