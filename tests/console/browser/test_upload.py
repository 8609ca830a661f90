"""Files and folders in the browser: dropped or chosen, listed, sent a few at a time, cancelled and retried."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from onward.pipeline.documents import Message
from tests.console.browser.conftest import elsewhere
from tests.support.console_client import Site, pipeline, serving

MOST = 50_000


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    settings = {"ONWARD_SERVE_REQUESTS_PER_SECOND": "100000", "ONWARD_SERVE_MAX_UPLOAD_BYTES": str(MOST)}
    app = pipeline(tmp_path / "home", **settings)
    with serving(app) as site:
        yield site
    app.close()


@pytest.fixture
def page(site: Site, open_page: Callable[..., Page]) -> Iterator[Page]:
    page = open_page(site.url)
    page.goto("/ingest")
    yield page
    page.close()


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """A folder with all that folders have."""
    files = {
        "tide.md": "# Tides\n\nThe gauge drifted.",
        "2026/潮位.md": "# Harbour\n\nThe mooring held.",
        "2026/empty.md": "",
        "big.txt": "x" * (MOST + 1),
        ".git/config": "hidden",
    }
    for path, text in files.items():
        place = tmp_path / "reports" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return tmp_path / "reports"


def _drop(page: Page, *paths: Path) -> None:
    """Drop files and folders of the disk on the page."""
    session = page.context.new_cdp_session(page)
    data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {"type": kind, "x": 600, "y": 400, "data": data})


def _choose(page: Page, button: str, *paths: Path) -> None:
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name=button).click()
    if button == "Choose a folder":
        chooser.value.set_files(paths[0])
    else:
        chooser.value.set_files(list(paths))


def _rows(page: Page) -> Locator:
    return page.locator(".uploads > ul > li")


def _send(page: Page) -> None:
    page.get_by_role("button", name=re.compile("^Send ")).click()


def _write(folder: Path, number: int) -> list[Path]:
    paths = [folder / f"note-{which}.md" for which in range(number)]
    for path in paths:
        path.write_text(f"# Note {path.stem}")
    return paths


@pytest.mark.parametrize("how", ("dropped", "chosen"))
def test_a_folder_is_sent_with_its_paths_and_says_what_is_left_out(
    page: Page, site: Site, reports: Path, how: str
) -> None:
    if how == "dropped":
        _drop(page, reports)
    else:
        _choose(page, "Choose a folder", reports)
    row = _rows(page)
    expect(row).to_contain_text("reports/ 2 files")
    expect(row).to_contain_text("1 file that the ingestion ignores (hidden, of tools) is left out.")
    row.get_by_text("Its files").click()
    expect(row.get_by_role("listitem").filter(has_text="empty.md")).to_contain_text("It is empty.")
    expect(row.get_by_role("listitem").filter(has_text="big.txt")).to_contain_text("takes at most 50.0 kB a file")
    assert site.app.store.document_counts() == {}, "nothing is sent before somebody says so"
    _send(page)
    expect(row).to_contain_text("taken")
    row.get_by_role("link", name="See how it goes").click()
    expect(page.locator("h1")).to_have_text("reports.tar (uploaded)")
    elsewhere(site.app.work_until_idle)
    found = site.app.store.get_many(Message, [one.id for one in site.app.store.states("messages")])
    assert {one.path for one in found} == {"tide.md", "2026/潮位.md"}


def test_files_are_sources_of_their_own_and_a_known_one_is_said(page: Page, site: Site, tmp_path: Path) -> None:
    paths = _write(tmp_path, 3)
    _choose(page, "Choose files", *paths[:2])
    _drop(page, paths[2])
    expect(_rows(page)).to_have_count(3)
    _send(page)
    expect(page.locator(".uploads [role=status]")).to_have_text("3 of 3 files sent.")
    assert len(site.app.store.states("tasks")) == 3
    page.reload()
    _drop(page, paths[0])
    _send(page)
    expect(_rows(page)).to_contain_text("It is known already, and left as it is.")
    assert len(site.app.store.states("tasks")) == 3


def test_the_same_file_is_listed_once_and_can_be_removed(page: Page, tmp_path: Path) -> None:
    paths = _write(tmp_path, 2)
    _choose(page, "Choose files", *paths)
    _choose(page, "Choose files", paths[0])
    expect(_rows(page)).to_have_count(2)
    expect(page.locator(".uploads [role=status]")).to_contain_text("note-0.md is in the list already.")
    _rows(page).first.get_by_role("button", name="Remove").click()
    expect(_rows(page)).to_have_count(1)


def test_at_most_three_are_sent_at_once_and_each_can_be_cancelled_and_retried(
    page: Page, site: Site, tmp_path: Path
) -> None:
    held: list[Route] = []
    waits = True

    def hold(route: Route) -> None:
        if waits:
            held.append(route)
        else:
            route.continue_()

    page.route("**/v3/documents", hold)
    _choose(page, "Choose files", *_write(tmp_path, 5))
    _send(page)
    expect(page.locator(".uploads .badge.busy")).to_have_count(3)
    assert len(held) == 3
    _rows(page).nth(0).get_by_role("button", name="Cancel").click()
    expect(_rows(page).nth(0)).to_contain_text("cancelled")
    expect(page.locator(".uploads .badge.busy")).to_have_count(3)
    waits = False
    for route in held[1:]:
        route.continue_()
    expect(page.locator(".uploads [role=status]")).to_have_text("4 of 5 files sent, 1 failed or cancelled.")
    page.get_by_role("button", name="Retry what failed").click()
    expect(page.locator(".uploads [role=status]")).to_have_text("5 of 5 files sent.")
    assert len(site.app.store.states("tasks")) == 5


def test_a_refusal_of_the_server_is_shown_with_its_reason_and_a_lost_connection_is_retried(
    page: Page, site: Site, tmp_path: Path
) -> None:
    answers: list[Callable[[Route], None]] = [
        lambda route: route.fulfill(status=422, body='{"detail": "It is a picture."}'),
        lambda route: route.abort(),
        lambda route: route.fulfill(status=429, headers={"retry-after": "0"}, body="{}"),
    ]
    page.route("**/v3/documents", lambda route: answers.pop(0)(route) if answers else route.continue_())
    _choose(page, "Choose files", *_write(tmp_path, 3))
    _send(page)
    expect(page.locator(".uploads [role=status]")).to_have_text(
        "1 of 3 files sent, 1 refused, 1 failed or cancelled."
    )
    expect(_rows(page).filter(has_text="refused")).to_contain_text("It is a picture.")
    lost = _rows(page).filter(has_text="The server cannot be reached")
    lost.get_by_role("button", name="Retry").click()
    expect(page.locator(".uploads [role=status]")).to_have_text("2 of 3 files sent, 1 refused.")
    assert len(site.app.store.states("tasks")) == 2


def test_an_empty_folder_is_said_to_be_empty(page: Page, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    _drop(page, tmp_path / "nothing")
    expect(page.locator(".uploads [role=status]")).to_have_text("nothing has no files to be sent.")


def test_without_scripts_a_form_sends_many_files(
    site: Site, open_page: Callable[..., Page], tmp_path: Path
) -> None:
    page = open_page(site.url, java_script_enabled=False)
    page.goto("/ingest")
    page.get_by_label("Files").set_input_files(_write(tmp_path, 3))
    page.get_by_role("button", name="Send and ingest").click()
    expect(page.get_by_role("link", name="See how it goes")).to_have_count(3)
    assert len(site.app.store.states("tasks")) == 3


def test_the_list_is_used_with_the_keyboard_alone(page: Page, site: Site, tmp_path: Path) -> None:
    _drop(page, *_write(tmp_path, 1))
    button = page.get_by_role("button", name=re.compile("^Send 1 file"))
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".uploads [role=status]")).to_have_text("1 of 1 file sent.")
