"""`onward joins` lists the events that wait for documents, and what they wait for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onward import App, Permanent, Work
from onward.settings import load_settings
from tests.support.command_runs import onward
from tests.support.crawl_app import Page, PageFound, SiteCrawled


@pytest.fixture(params=["sqlite", "postgres"])
def more(request: pytest.FixtureRequest) -> dict[str, str]:
    """The settings of a store, on each backend."""
    return {} if request.param == "sqlite" else {"ONWARD_STORE": request.getfixturevalue("postgres_url")}


def test_what_waits_for_documents_is_listed(home: Path, more: dict[str, str]) -> None:
    app = App(settings=load_settings({"ONWARD_HOME": str(home), **more}))

    @app.service("reading", on=PageFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        if page.kind == "!":
            raise Permanent("no such page")

    pages = [Page(id=f"p{number}", kind="!" if number == 7 else ".") for number in range(8)]
    app.publish(*map(PageFound.of, pages[6:]), documents=pages)
    app.when_all(pages, then=SiteCrawled(site_id="s"))
    app.when_all(pages[:1], then=SiteCrawled(site_id="t"), allow_failed=False)
    app.work_until_idle()
    result = onward(home, "joins", "--json", more=more)
    assert result.exit_code == 0, result.output
    first, second = json.loads(result.stdout)["joins"]
    assert {name: first[name] for name in ("event", "open", "total", "processed", "failed", "allow_failed")} == {
        "event": "SiteCrawled",
        "open": 6,
        "total": 8,
        "processed": 1,
        "failed": 1,
        "allow_failed": True,
    }
    assert first["open_documents"] == [f"pages/p{number}" for number in range(5)], "some of them"
    assert (second["open"], second["allow_failed"]) == (1, False)
    shown = onward(home, "joins", more=more).stdout
    assert "waits for pages/p0, pages/p1, pages/p2, pages/p3, pages/p4 and 1 more" in shown
    assert "waits for pages/p0, and none may fail" in shown
    limited = onward(home, "joins", "--limit", "1", more=more).stdout
    assert f"onward joins --after {first['join']}" in limited
    after = onward(home, "joins", "--after", str(first["join"]), "--json", more=more)
    assert [one["join"] for one in json.loads(after.stdout)["joins"]] == [second["join"]]
    assert json.loads(onward(home, "status", "--json", more=more).stdout)["joins"] == 2
    assert "SiteCrawled, SiteCrawled" in onward(home, "show", "pages/p0", more=more).stdout
    shown_facts = json.loads(onward(home, "show", "pages/p1", "--json", more=more).stdout)
    assert shown_facts["awaited_by"] == ["SiteCrawled"]
    for page in pages[:6]:
        app.store.discard("pages", page.id)
    app.close()
    assert onward(home, "joins", more=more).stdout == "No event waits for documents.\n"
