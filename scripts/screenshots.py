"""Takes pictures of every page of a running console: light and dark, on a desk and on a phone.

python scripts/screenshots.py http://127.0.0.1:8321 pictures
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Literal

from playwright.sync_api import Page, ViewportSize, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the list of pages is shared with the tests

from tests.console.browser.pages import PAGES, NoSuchLink, find_page  # noqa: E402
from tests.support.servers.__main__ import find_browser, missing_browser  # noqa: E402

SIZES: dict[str, ViewportSize] = {"desk": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def take_all(page: Page, size: str, folder: Path, names: list[str], whole: bool) -> None:
    """Take the pictures of these pages; what a store has nothing of is left out, and said."""
    for name in names:
        try:
            path = find_page(name, lambda one: _read(page, one))
        except NoSuchLink as error:
            print(f"{name} is left out: {error}")
            continue
        page.goto(path)
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            page.screenshot(path=folder / f"{name}-{size}-{scheme}.png", full_page=whole)


def _read(page: Page, path: str) -> str:
    return page.request.get(path, headers={"accept": "text/html"}).text()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("url", help="where the console is, such as http://127.0.0.1:8321")
    parser.add_argument("folder", type=Path, help="where the pictures go")
    parser.add_argument("pages", nargs="*", help=f"only these: {', '.join(PAGES)}")
    parser.add_argument("--first-screen", action="store_true", help="only what is seen before scrolling")
    given = parser.parse_args()
    if unknown := sorted(set(given.pages) - set(PAGES)):
        parser.error(f"there is no page {unknown[0]!r}; there are {', '.join(PAGES)}")
    if missing := missing_browser():
        parser.error(missing[0])
    given.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_browser(), args=["--no-sandbox", "--disable-gpu"]
        )
        for size, viewport in SIZES.items():
            page = browser.new_context(base_url=given.url, viewport=viewport).new_page()
            take_all(page, size, given.folder, given.pages or list(PAGES), not given.first_screen)
        browser.close()


if __name__ == "__main__":
    main()
