"""Filters of a list are saved under a name, listed for everybody, renamed and removed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onward.pipeline.saved_searches import read_searches
from tests.console.shop import Shop, form_token, open_shop
from tests.support.console_client import HTML
from tests.support.failed_pages import fail

FAILED = "/documents?collection=pages&status=failed"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with open_shop(tmp_path) as found:
        fail(found.on, "page-a", "page-b")
        yield found


def post(shop: Shop, change: str, status: int = 303, **data: str) -> str:
    usual = {"form_token": form_token(shop.page("/documents")), "page": "documents", "here": FAILED}
    answer = shop.site.client.post(f"/filters/{change}", data=usual | data, headers=HTML)
    assert answer.status_code == status, answer.text[:2000]
    return answer.headers["location"] if status == 303 else answer.text


def test_a_filter_is_saved_renamed_and_removed(shop: Shop) -> None:
    assert "Save this filter" in shop.words(FAILED)
    assert post(shop, "save", name=" failed  <pages> ") == FAILED
    assert "failed <pages>" in shop.words("/documents")
    assert FAILED in shop.links("/documents")
    post(shop, "rename", former="failed <pages>", name="Bad pages")
    assert "failed <pages>" not in shop.words("/documents")
    assert "Bad pages" in shop.words("/documents")
    post(shop, "rename", former="Bad pages", name="bad pages")  # only a letter is another
    assert "bad pages" in shop.words("/documents")
    post(shop, "remove", former="bad pages")
    assert FAILED not in shop.links("/documents")


def test_each_list_has_filters_of_its_own(shop: Shop) -> None:
    post(shop, "save", name="mine")
    post(shop, "save", page="failures", here="/failures?service=reading", name="mine")
    post(shop, "save", page="queues", here="/queues/reading.failed?group=f00d1234", name="mine")
    assert "/failures?service=reading" in shop.links("/failures")
    assert "/queues/reading.failed?group=f00d1234" in shop.links("/queues/reading.failed")
    assert "/failures?service=reading" not in shop.links("/documents")
    assert read_searches(shop.site.app) == [], "they are no searches"
    assert [one.page for one in read_searches(shop.site.app, "queues")] == ["queues"]


def test_a_name_is_used_once(shop: Shop) -> None:
    post(shop, "save", name="mine")
    assert "already" in post(shop, "save", 422, name="MINE")
    post(shop, "save", name="other")
    assert "already" in post(shop, "rename", 422, former="other", name="mine")


@pytest.mark.parametrize(
    ("change", "given", "said"),
    (
        ("save", {"name": ""}, "cannot be saved as"),
        ("save", {"name": "x" * 65}, "1 to 64 characters"),
        ("save", {"name": "x", "here": "//evil.example/documents"}, "is no list"),
        ("save", {"name": "x", "here": "/settings"}, "is no list"),
        ("save", {"name": "x", "page": "settings", "here": "/settings"}, "is no list"),
        ("save", {"name": "x", "here": "/documents?q=" + "x" * 3000}, "is no list"),
        ("rename", {"name": "x", "former": "nothing"}, "here is no saved filter"),
        ("remove", {"former": "nothing"}, "here is no saved filter"),
    ),
)
def test_what_makes_no_sense_is_refused(shop: Shop, change: str, given: dict[str, str], said: str) -> None:
    assert said in post(shop, change, 422, **given)


def test_a_form_of_another_site_changes_nothing(shop: Shop) -> None:
    data = {"page": "documents", "here": FAILED, "name": "x"}
    assert shop.site.client.post("/filters/save", data=data, headers=HTML).status_code == 403
