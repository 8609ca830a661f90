"""Stores of the bench of growth are multiplied without gaps, and its chart is drawn to scale."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest

from bench import growth_store
from bench.console import opened
from bench.growth_chart import growth_chart
from onward import App
from onward.ops.queries.threads import list_threads
from tests.support.servers import PostgresServer


@pytest.mark.parametrize("where", ("sqlite", "postgres"))
def test_a_multiplied_store_has_what_its_counts_say(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(growth_store, "MOST_FILLED", 300)
    monkeypatch.setattr(growth_store, "FAILURES", 0.0)
    settings, url = {"ONWARD_HOME": str(tmp_path)}, ""
    if where == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        settings["ONWARD_STORE"] = url = server.create_database("multiplied")
    with opened(settings) as app:
        count = growth_store.fill_to(app, 900, url)
        stored = _stored(app)
        assert stored.total() == count
        assert {
            name: stored[name] % 3 for name in ("messages", "chunks", "threads", "summaries")
        } == dict.fromkeys(("messages", "chunks", "threads", "summaries"), 0)
        found = list_threads(app, limit=1000)
        assert len(found.threads) == stored["threads"], "each copy is read by its own id, key and date"
        assert all(entry.summary for entry in found.threads)


def _stored(app: App) -> Counter[str]:
    """Count the documents that are really there."""
    counts = Counter[str]()
    for collection in app.store.document_counts():
        after = ""
        while states := app.store.states(collection, after=after, limit=1000):
            counts[collection] += len(states)
            after = states[-1].id
    return counts


def test_a_chart_is_drawn_to_scale() -> None:
    flat, steep = {10: 20.0, 1_000: 20.0}, {10: 10.0, 100: 100.0, 1_000: 1_000.0}
    drawn = growth_chart({"SQLite": {"flat & even": flat}, "PostgreSQL": {"steep": steep}}, "as it grows")
    svg = ET.fromstring(drawn)
    lines = [
        [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
        for line in svg.iter("{http://www.w3.org/2000/svg}polyline")
    ]
    (left, right), rising = lines
    assert left[1] == right[1]
    assert left[0] < right[0]
    # Ten times as much is the same distance anywhere, on both axes.
    assert rising[1][0] - rising[0][0] == pytest.approx(rising[2][0] - rising[1][0], abs=0.2)
    assert rising[0][1] - rising[1][1] == pytest.approx(rising[1][1] - rising[2][1], abs=0.2)
    texts = [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {"SQLite", "PostgreSQL", "flat & even", "steep", "1,000", "100 ms"} <= set(texts)
