"""Sources in the console and in the API: which are watched, and what their last run has brought."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onward.pipeline.documents import RefusedLogin, Source
from onward.pipeline.source_settings import split_options
from onward.pipeline.sources import submit
from onward.pipeline.watching import watch
from tests.console.shop import words
from tests.support.console_client import Site

PAGE = "https://example.org/list.mbox.gz"


def listed(site: Site) -> dict[str, dict[str, Any]]:
    return {one["source"]: one for one in site.client.get("/v3/sources").json()["sources"]}


def test_a_source_is_watched_paused_resumed_and_removed_over_the_api(site: Site) -> None:
    client = site.client
    asked = {"location": PAGE, "every_seconds": 900, "on_vanished": "keep"}
    planned = client.post("/v3/sources", json={**asked, "dry_run": True}).json()
    assert (planned["dry_run"], planned["touches"]) == (True, 1)
    assert PAGE not in listed(site)
    assert client.post("/v3/sources", json=asked).status_code == 200
    one = listed(site)[PAGE]
    assert (one["every_seconds"], one["on_vanished"], one["result"]) == (900.0, "keep", "waiting")
    for change, paused, watched in (
        ("pause", True, True),
        ("resume", False, True),
        ("run", False, True),
        ("remove", False, False),
    ):
        response = client.post(f"/v3/sources/{one['id']}/{change}", json={})
        assert response.status_code == 200, response.text
        now = listed(site)[PAGE]
        assert (now["paused"], now["watched"]) == (paused, watched)
        assert (now["next_run"] is not None) == (watched and not paused)


@pytest.mark.parametrize(
    ("asked", "says"),
    (
        ({"location": "/etc", "every_seconds": 60}, "the rights of the server's machine"),
        ({"location": "file:///etc", "every_seconds": 60}, "the rights of the server's machine"),
        ({"location": "git+file:///etc", "every_seconds": 60}, "the rights of the server's machine"),
        # Their credentials would be sent to a server that the caller has chosen.
        ({"location": "imaps://ada@mail.example.org/", "every_seconds": 60}, "the rights of the server's machine"),
        (
            {"location": "s3://b1b?endpoint=https://me.example", "every_seconds": 60},
            "rights of the server's machine",
        ),
        ({"location": "gopher://example.org/", "every_seconds": 60}, "has the scheme 'gopher'"),
        ({"location": PAGE}, "say how often"),
        ({"location": PAGE, "every_seconds": 60, "options": {"depth": "3"}}, "has no option 'depth'"),
    ),
)
def test_what_cannot_be_watched_is_refused(site: Site, asked: dict[str, Any], says: str) -> None:
    response = site.client.post("/v3/sources", json=asked)
    assert response.status_code == 422
    assert says in response.text
    assert not site.app.store.states(Source)


def test_a_path_that_is_known_may_be_watched(site: Site, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("A text.")
    submit(site.app, str(tmp_path / "a.txt"))
    asked = {"location": str(tmp_path / "a.txt"), "every_seconds": 60}
    assert site.client.post("/v3/sources", json=asked).status_code == 200


def test_an_unknown_source_is_not_found(site: Site) -> None:
    assert site.client.post("/v3/sources/nothing/run", json={}).status_code == 404


def test_the_page_lists_sources_with_what_can_be_done(site: Site) -> None:
    assert "There are no sources" in words(site.page("/sources"))
    watch(site.app, PAGE, every=900.0)
    text = words(site.page("/sources"))
    assert "list.mbox.gz" in text
    assert "15 min" in text
    assert "Run now" in text
    assert "Pause" in text
    (source,) = site.app.store.get_many(Source, [one.id for one in site.app.store.states(Source)])
    confirm = words(site.page(f"/confirm/pause-source?source={source.id}"))
    assert "would be paused" in confirm
    site.client.post(f"/v3/sources/{source.id}/pause", json={})
    assert "Resume" in words(site.page("/sources"))


def test_the_form_says_what_it_would_do(site: Site) -> None:
    location = "crawl%2Bhttps://example.org/docs/"
    text = words(site.page(f"/confirm/watch?location={location}&every=2h&keep=yes&options=depth%3D3"))
    assert "would be ingested now and every 2 h" in text
    assert "What is no longer there is kept." in text
    assert "depth=3" in text


def test_the_page_shows_settings_and_what_a_run_removes(site: Site) -> None:
    watch(site.app, "crawl+https://example.org/docs/", every=900.0, options={"depth": "3"})
    watch(site.app, PAGE, every=900.0, on_vanished="keep")
    text = words(site.page("/sources"))
    assert "depth=3" in text
    assert "keeps what is no longer there" in text
    removes, keeps = [
        words(site.page(f"/confirm/ingest-again?source={one['id']}"))
        for one in sorted(listed(site).values(), key=lambda one: one["on_vanished"])
    ]
    assert "those that it no longer holds are removed" in removes
    assert "those that it no longer holds are kept" in keeps


@pytest.mark.parametrize(
    ("text", "pairs"),
    (
        ("", []),
        ("depth=3", ["depth=3"]),
        ("depth=3, rate=0.5", ["depth=3", "rate=0.5"]),
        ("exclude=trash,junk,Lists/*, since=2026-01-01", ["exclude=trash,junk,Lists/*", "since=2026-01-01"]),
        ("depth", ["depth"]),
    ),
)
def test_values_of_typed_options_may_have_commas(text: str, pairs: list[str]) -> None:
    assert split_options(text) == pairs


def test_the_overview_lists_content_and_no_marks_of_logins(site: Site) -> None:
    site.app.replace(RefusedLogin(id="one", dependency="login:ada@mail.example.org", mark="ab"))
    assert "logins" not in site.page("/")
