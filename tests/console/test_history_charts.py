"""Charts of what services did: on the overview, on the page of each service, and as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from onward.console.history_charts import BASE, MIN_BAR, TOP, history_chart
from onward.model.rollups import MINUTE, ServiceCounts
from onward.ops.queries.service_history import RANGES, DeployMark, HistoryPoint, OutageMark, ServiceHistory
from tests.console.shop import Shop, open_shop
from tests.support.store_pages import failure

START = 1_800_000_000
HISTORY = ServiceHistory("reading", RANGES["1h"], "documents", START, START + 3590.0, (), (), ())


def points(*documents: int | None) -> tuple[HistoryPoint, ...]:
    return tuple(
        HistoryPoint(START + n * MINUTE, 60.0, None if one is None else ServiceCounts(documents=one, waiting=one))
        for n, one in enumerate(documents)
    )


def test_the_highest_bar_fills_its_panel_and_the_lowest_can_be_seen() -> None:
    panel = history_chart(replace(HISTORY, points=points(6000, 3000, 1)), "/").panels[0]
    assert [bar.height for bar in panel.bars] == [BASE - TOP, (BASE - TOP) / 2, MIN_BAR]
    assert all(bar.y + bar.height == panel.base for bar in panel.bars)
    assert (panel.top, panel.about) == ("100", "documents a second")


def test_a_gap_is_no_bar_and_no_base_line() -> None:
    chart = history_chart(replace(HISTORY, points=points(60, None, None, 0, 60)), "/")
    assert [bar.x for bar in chart.panels[0].bars] == [0, 4]
    assert chart.runs == ((0, 1), (3, 5))
    assert chart.columns[1].text.endswith("no worker ran")
    assert "0 documents finished" in chart.columns[3].text
    assert chart.panels[0].about == "documents a second"


def test_a_low_rate_is_shown_by_the_minute() -> None:
    panel = history_chart(replace(HISTORY, points=points(3)), "/").panels[0]
    assert (panel.top, panel.about) == ("3", "documents a minute")


def test_marks_are_where_they_were() -> None:
    outages = (
        OutageMark("model", START - 600, START + 120, "refused"),
        OutageMark("model", START + 600, START + 600.1, "again"),
        OutageMark("model", START + 3540, None, ""),
    )
    deploys = (DeployMark("shop 2", START + 1800.0),)
    marks = history_chart(replace(HISTORY, outages=outages, deploys=deploys), "/").marks
    assert [(mark.kind, mark.x, mark.width) for mark in marks] == [
        ("outage", 0.0, 2.0),
        ("outage", 10.0, 0.3),
        ("outage", 59.0, 0.83),
        ("deploy", 30.0, 0.0),
    ]
    assert [mark.text for mark in marks] == [
        "model was down for 12 min: refused",
        "model was down for 0 s: again",
        "model is down",
        "shop 2 ran for the first time",
    ]


# -- the pages and the API


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with open_shop(tmp_path) as found:
        found.on.bring("a")
        minute = int(found.on.store.now() // MINUTE) * MINUTE
        counts = ServiceCounts(events=5, documents=7, failures=2, retries=1, dead_letters=1, waiting=4)
        counts.add_tries([0.02] * 7)
        found.on.store.add_counts({(minute, "reading"): counts, (minute, "listening"): ServiceCounts(events=3)})
        yield found


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("path", ("/", "/services/reading"))
def test_a_page_has_the_charts_of_the_chosen_range(shop: Shop, path: str, name: str) -> None:
    page = shop.page(f"{path}?range={name}")
    drawn = page[page.index('<figure class="history">') : page.index("</figure>")]
    assert [f'class="{one}"' in drawn for one in ("rate", "latency", "failures", "waiting")] == [True] * 4
    assert len(re.findall("<title>", drawn)) == RANGES[name].seconds // RANGES[name].step
    assert f"In the {RANGES[name].title}, 7 documents were finished" in shop.words(f"{path}?range={name}")
    assert f'range={name}#history" aria-current="true">{name}</a>' in page
    assert "style=" not in drawn, "the content security policy forbids it"


def test_a_chart_is_made_anew_for_a_page_that_stays_open(shop: Shop) -> None:
    page = shop.page("/services/reading?range=24h")
    (path,) = re.findall(r'data-refresh="(/history[^"]*)"', page)
    part = shop.page(path.replace("&amp;", "&"))
    assert "<html" not in part
    assert "In the last 24 hours, 7 documents were finished" in part
    assert 'href="/services/reading?range=1h#history"' in part


def test_a_service_has_a_page_and_a_place_in_the_list(shop: Shop) -> None:
    assert "/services/reading" in shop.links("/services")
    assert "/services/reading" in shop.links("/")
    words = shop.words("/services/reading")
    assert "Takes PagesFound Finishes pages" in words
    assert "Waiting 1 event" in words


def test_events_that_belong_to_no_service_have_no_page(shop: Shop) -> None:
    shop.on.store.keep_malformed(b"no event", failure())
    assert "(no service)" in shop.words("/")
    assert not [path for path in shop.links("/") if path.startswith("/services/%28")]


def test_what_is_unknown_is_refused(shop: Shop) -> None:
    assert "There is no service 'nobody'; /services lists them" in shop.words("/services/nobody", 404)
    assert "'2y' is no time range; there are 1h, 24h, 7d" in shop.words("/?range=2y", 422)
    client = shop.site.client
    assert client.get("/v3/history", params={"service": "nobody"}).status_code == 404
    assert client.get("/v3/history", params={"range": "2y"}).status_code == 422


def test_programs_get_the_same(shop: Shop) -> None:
    history = shop.site.client.get("/v3/history", params={"service": "reading", "range": "24h"}).json()
    assert (history["service"], history["range"], history["step_seconds"]) == ("reading", "24h", 600)
    assert len(history["points"]) == 144
    last = history["points"][-1]
    whole = ("events", "documents", "failures", "retries", "dead_letters", "tries")
    assert [last[name] for name in whole] == [5, 7, 2, 1, 1, 7]
    assert last["waiting"] == 4
    assert last["mean_seconds"] == 0.02
    assert 0.01 <= last["p95_seconds"] <= 0.025
    gap = history["points"][0]
    assert gap.pop("start")
    assert set(gap.values()) == {None}
    everything = shop.site.client.get("/v3/history").json()
    assert (everything["service"], everything["points"][-1]["events"]) == (None, 8)
