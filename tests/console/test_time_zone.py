"""Times on pages: in the zone of the browser, in tables, sentences, live parts and forms alike."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import httpx2
import pytest

from onward.console.action_forms import read_when
from onward.console.time_zone import read_zone
from onward.ops.bad_input import BadInput
from onward.settings import SettingsError, load_settings
from tests.console.shop import Shop, open_shop, words
from tests.support.console_client import HTML, Site, pipeline, serving

_TIME = re.compile(r'<time datetime="([^"]+)" title="([^"]+)"[^>]*>([^<]*)</time>')


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with open_shop(tmp_path) as shop:
        yield shop


def _logged(site: Site, zone: str) -> httpx2.Response:
    site.app.store.log_action("ada", "console", "retry", {"at": "2026-07-01T10:00:00+00:00"}, 1)
    return site.client.get("/actions", headers=HTML | {"cookie": f"onward_zone={zone}"})


@pytest.mark.parametrize(
    ("zone", "shown", "offset"),
    (
        ("Europe/Berlin", "2026-07-01 12:00:00", "UTC+02:00"),
        ("Asia/Kolkata", "2026-07-01 15:30:00", "UTC+05:30"),
        ("America/New_York", "2026-07-01 06:00:00", "UTC-04:00"),
        ("UTC", "2026-07-01 10:00:00", "UTC"),
    ),
)
def test_a_time_is_that_of_the_browser_and_has_the_utc_one_for_programs(
    site: Site, zone: str, shown: str, offset: str
) -> None:
    page = _logged(site, zone).text
    assert ("2026-07-01T10:00:00+00:00", f"{shown} {offset}", shown) in _TIME.findall(page)
    assert f"Times in {zone}" in page


@pytest.mark.parametrize(
    "zone", ("", "Nowhere/Town", "../../etc/passwd", "Europe", "a" * 5000, "Europe/Berlin%00", "ü")
)
def test_a_zone_that_nobody_knows_is_that_of_the_server(site: Site, zone: str) -> None:
    page = site.client.get(
        "/actions", headers={b"accept": b"text/html", b"cookie": f"onward_zone={zone}".encode()}
    )
    assert page.status_code == 200
    assert "Times in UTC" in page.text


def test_without_a_cookie_the_setting_says_the_zone_and_the_page_says_so(tmp_path: Path) -> None:
    app = pipeline(tmp_path, ONWARD_SERVE_TIME_ZONE="Asia/Tokyo")
    with serving(app) as site:
        assert "Times in Asia/Tokyo (UTC+09:00)" in site.page("/actions")
    app.close()


def test_a_setting_that_is_no_zone_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"ONWARD_SERVE_TIME_ZONE.*Mars/Base.*such as UTC or Europe/Berlin"):
        load_settings({"ONWARD_SERVE_TIME_ZONE": "Mars/Base"})


def test_a_live_part_is_sent_in_the_zone_of_its_watcher(site: Site) -> None:
    site.app.store.log_action("ada", "console", "retry", {}, 1)
    site.client.post("/ingest", data={"form_token": _token(site), "text": "a note"}, headers=HTML)
    for zone, offset in (("Asia/Kolkata", "UTC+05:30"), ("America/St_Johns", "UTC-0")):
        with site.client.stream("GET", "/live/tasks", headers={"cookie": f"onward_zone={zone}"}) as stream:
            part = next(line for line in stream.iter_lines() if line.startswith("data:"))
        (title, *_) = [title for _, title, _ in _TIME.findall(json.loads(part.removeprefix("data:")))]
        assert offset in title


def _token(site: Site) -> str:
    return str(re.findall(r'name="form_token" value="([^"]+)"', site.page("/ingest"))[0])


# -- forms


def _schedule(shop: Shop, at: str, zone: str = "Europe/Berlin") -> httpx2.Response:
    fields = {"collection": "pages", "id": "broken", "at": at}
    return shop.site.client.get(
        "/confirm/schedule", params=fields, headers=HTML | {"cookie": f"onward_zone={zone}"}
    )


def test_a_form_takes_and_shows_a_time_in_the_zone_of_the_page_and_says_which(shop: Shop) -> None:
    shop.on.bring("broken")
    noon = datetime.now(ZoneInfo("Europe/Berlin")).replace(hour=12, minute=0) + timedelta(days=2)
    asked = _schedule(shop, f"{noon:%Y-%m-%dT%H:%M}")
    assert "in Europe/Berlin (UTC+0" in words(asked.text)
    offset = f"UTC{noon.isoformat()[-6:]}"
    assert f"at {noon:%Y-%m-%d} 12:00 ({offset})" in words(asked.text)
    (zone,) = re.findall(r'<input type="hidden" name="zone" value="([^"]+)">', asked.text)
    # The browser has travelled meanwhile: the form still means what it said.
    fields = {"collection": "pages", "id": "broken", "at": f"{noon:%Y-%m-%dT%H:%M}", "zone": zone}
    done = shop.site.client.post(
        "/do/schedule",
        data=fields | {"form_token": re.findall(r'name="form_token" value="([^"]+)"', asked.text)[0]},
        headers=HTML | {"cookie": f"onward_zone=Asia/Tokyo; {_session(shop.site)}"},
        follow_redirects=True,
    )
    assert f"{noon:%Y-%m-%d} 12:00 ({offset})" in words(done.text)
    (state,) = shop.on.store.states_of([("pages", "broken")])
    assert state.retry_at is not None
    assert abs(state.retry_at - noon.replace(second=0, microsecond=0).timestamp()) < 1


@pytest.mark.parametrize(
    ("at", "said"),
    (
        ("2026-03-29T02:30", "there is no 02:30 on 2026-03-29 in Europe/Berlin"),
        ("2026-10-25T02:30", "give 2026-10-25T02:30+02:00 or 2026-10-25T02:30+01:00"),
        ("soon", "in Europe/Berlin unless it says otherwise"),
    ),
)
def test_a_time_that_is_none_or_two_is_refused_with_what_to_write(at: str, said: str) -> None:
    berlin = read_zone("Europe/Berlin")
    assert berlin is not None
    with pytest.raises(BadInput) as refused:
        read_when(at, datetime(2026, 1, 1, tzinfo=UTC).timestamp(), berlin)
    assert said in str(refused.value)


def test_the_dates_of_a_search_are_those_of_the_browser(library: Site) -> None:
    """A message of the sample is found by the day that the page shows for it, in every zone."""
    for zone in ("Pacific/Auckland", "America/Los_Angeles"):
        cookie = {"cookie": f"onward_zone={zone}"}
        found = library.client.get("/search", params={"q": "tide"}, headers=HTML | cookie).text
        day = _TIME.findall(found)[0][2][:10]
        following = f"{datetime.fromisoformat(day) + timedelta(days=1):%Y-%m-%d}"
        for asked in (
            {"q": "tide", "since": day, "until": following},
            {"q": f"tide after:{day} before:{following}"},
        ):
            narrowed = library.client.get("/search", params=asked, headers=HTML | cookie).text
            assert f"Dates are in {zone}" in narrowed
            shown = {text[:10] for _, _, text in _TIME.findall(narrowed)}
            assert shown == {day}


def _session(site: Site) -> str:
    return "; ".join(f"{one.name}={one.value}" for one in site.client.cookies.jar)


def test_what_needs_a_person_is_in_the_same_zone_as_the_rest_of_the_page(shop: Shop) -> None:
    shop.site.do("open-breaker", {"name": "printer", "reason": "out of ink"})
    page = shop.site.client.get("/", headers=HTML | {"cookie": "onward_zone=Asia/Kolkata"}).text
    needs = page.partition('id="needs"')[2].partition("</section>")[0]
    assert "UTC+05:30" in needs
    status = shop.site.client.get("/v3/status", headers={"cookie": "onward_zone=Asia/Kolkata"}).json()
    assert [one["text"] for one in status["needs"] if re.search(r"since [\d-]+ [\d:]+ UTC", one["text"])]
