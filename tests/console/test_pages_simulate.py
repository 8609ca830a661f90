"""The page that simulates outages: a form with the history of a service, and variants side by side."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import pytest

from onward.model.rollups import MINUTE, ServiceCounts, bucket_of
from onward.ops.simulation import scenario
from tests.support.console_client import Site

LOAD = {"service": "summarization", "outage": "20min", "load": "1/s", "duration": "300ms", "run": "1"}


@pytest.fixture(autouse=True)
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenario, "CALLS_IN_ALL", 300)


def test_the_form_has_the_history_of_the_service(library: Site) -> None:
    counts = ServiceCounts(events=90_000)
    counts.add_tries([0.25] * 90)
    store = library.app.store
    store.add_counts({(bucket_of(store.now() - 3600, MINUTE), "summarization"): counts})
    page = library.page("/simulate?service=summarization")
    (load,) = re.findall(r'name="load" value="(\d+)/s"', page)
    assert int(load) > 400, "90 000 in a minute, and the few of the library in another"
    assert re.search(r'name="duration" value="[0-9.]+ms"', page)
    assert 'name="failing" value=""' in page
    assert "<option selected>summarization</option>" in page
    assert 'id="outcome"' not in page, "nothing is simulated yet"
    assert "<option selected>embedding</option>" in library.page("/simulate"), "the first that needs something"


def test_variants_are_side_by_side(library: Site) -> None:
    query = urlencode({**LOAD, "set": "breaker.probe_max=30s", "capacity": "2/s", "what_if": "no-breaker"})
    page = library.page(f"/simulate?{query}")
    for title in ("as it is", "changed", "no breaker"):
        assert f"</span> {title}</th>" in page
    assert "ONWARD_BREAKER_PROBE_MAX_SECONDS=30" in page
    assert page.count('<path class="c2"') == 2, "a curve of each variant in both charts"
    assert page.count('class="capacity"') == 1


def test_a_bad_value_is_named_and_the_form_is_kept(library: Site) -> None:
    page = library.page(f"/simulate?{urlencode({**LOAD, 'outage': 'so<b>on'})}")
    assert "outage is &#39;so&lt;b&gt;on&#39;, but must be a time" in page
    assert 'name="outage" value="so&lt;b&gt;on"' in page
