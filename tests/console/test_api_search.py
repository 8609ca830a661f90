"""Searching over HTTP: filters, order, facets, reasons, JSON and CSV; and similar messages."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from onward.ops.queries.search_results import CSV_COLUMNS, search_csv
from onward.pipeline.sources import submit
from tests.console.test_api_documents import get
from tests.console.test_api_submitting import assert_problem
from tests.support.command_runs import SAMPLE, mail, write_mailbox
from tests.support.console_client import Site


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_messages_are_found(library: Site) -> None:
    told = get(library, "/v3/search?q=tide%20gauge&limit=3")
    assert told["total"] > 3
    assert [one["rank"] for one in told["results"]] == [1, 2, 3]
    assert [one["score"] for one in told["results"]] == sorted(
        (one["score"] for one in told["results"]), reverse=True
    )
    assert (told["facets"], told["did_you_mean"], told["results"][0]["reasons"]) == ({}, "", [])
    assert get(library, "/v3/search?q=tide%20gauge&limit=3&page=2")["results"][0]["rank"] == 4
    assert get(library, "/v3/search?q=tide&since=2100-01-01")["total"] == 0
    assert get(library, f"/v3/search?q=tide&source={SAMPLE.name}&until=2100-01-01T00:00")["total"] > 0
    assert get(library, "/v3/search?q=tide&author=nobody-at-all")["total"] == 0


def test_what_cannot_be_searched_for_is_said(library: Site) -> None:
    ask = library.client.get
    assert_problem(ask("/v3/search"), 422, "q is missing")
    assert_problem(ask("/v3/search?q=%2B"), 400, "'+'", "give at least one")
    assert_problem(ask("/v3/search?q=before:soon"), 400, "before", "'soon'", "2026-03-09")
    assert_problem(ask("/v3/search?q=tide&since=tomorrow"), 422, "since", "'tomorrow'")
    assert_problem(ask("/v3/search?q=tide&source=nothing"), 404, "'nothing'")
    assert_problem(ask("/v3/search?q=tide&kind=stone"), 422, "kind", "'stone'", "give one of calendar, code, ")
    assert_problem(ask("/v3/search?q=tide&sort=colour"), 422, "sort", "'colour'")
    assert_problem(ask("/v3/search?q=tide&year=0"), 422, "year")


def test_facets_and_reasons_are_given_if_asked_for(library: Site) -> None:
    told = get(library, "/v3/search?q=tide%20gauges&facets=true&explain=true")
    assert list(told["facets"]) == ["source", "author", "year", "kind", "language"]
    assert told["facets"]["kind"] == [{"value": "mbox", "count": told["total"]}]
    authors = told["facets"]["author"]
    assert [one["count"] for one in authors] == sorted((one["count"] for one in authors), reverse=True)
    assert {one["word"] for one in told["results"][0]["reasons"]} == {"tide", "gauges"}
    assert all(one["score"] > 0 for one in told["results"][0]["reasons"])


def test_a_search_is_filtered_and_ordered(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "tide.py").write_text('"""The tide."""\n\nHIGH = 1\n')
    (folder / "tide.md").write_text("# The tide\n\nThe tide is high in the evening, and low in the morning.\n")
    mails = [
        mail(n, "tide", "The tide of the year.").replace(b"2026", b"%d" % year)
        for n, year in ((1, 2019), (2, 2021))
    ]
    submit(site.app, str(write_mailbox(tmp_path / "list.mbox", mails)))
    submit(site.app, str(folder))
    site.app.work_until_idle()

    def found(**given: str) -> list[dict[str, Any]]:
        answer = site.client.get("/v3/search", params={"q": "tide", **given})
        assert answer.status_code == 200, answer.text
        results: list[dict[str, Any]] = answer.json()["results"]
        return results

    assert [one["path"] for one in found(kind="code")] == ["src/tide.py"]
    assert [one["language"] for one in found(language="python")] == ["python"]
    assert {one["kind"] for one in found(kind="mail")} == {"mbox"}
    assert [one["date"][:4] for one in found(year="2019")] == ["2019"]
    assert [one["date"][:4] for one in found(kind="mail", sort="date")] == ["2021", "2019"]
    assert {one["source"] for one in found(source=str(folder))} == {str(folder)}


def test_results_are_a_table_for_who_wants_one(library: Site) -> None:
    path = "/v3/search?q=tide%20gauge&limit=3"
    results = get(library, path)["results"]
    for answer in (
        library.client.get(f"{path}&format=csv"),
        library.client.get(path, headers={"accept": "text/csv"}),
    ):
        assert answer.headers["content-type"] == "text/csv; charset=utf-8"
        assert answer.headers["content-disposition"] == 'attachment; filename="search.csv"'
        rows = rows_of(answer.text)
        assert tuple(rows[0]) == CSV_COLUMNS
        assert [row["id"] for row in rows] == [one["id"] for one in results]
    for accept in ("application/json", "*/*", "text/csv, application/json"):
        answer = library.client.get(path, headers={"accept": accept})
        assert answer.headers["content-type"] == "application/json"
    assert library.client.get(f"{path}&format=json", headers={"accept": "text/csv"}).json()["results"] == results
    assert_problem(library.client.get("/v3/search?q=%2B&format=csv"), 400, "'+'")


def test_a_table_runs_nothing_in_a_spreadsheet() -> None:
    hostile = {
        "rank": 1,
        "score": -0.5,
        "subject": "=cmd|'/c calc'!A1",
        "author": '"a",\r\nb',
        "excerpt": "\t@SUM(1)",
    }
    (row,) = rows_of(search_csv([hostile | {"path": "+1", "reasons": ["not a column"]}]))
    assert (row["subject"], row["excerpt"], row["path"]) == ("'=cmd|'/c calc'!A1", "'@SUM(1)", "'+1")
    assert (row["author"], row["rank"], row["score"]) == ('"a", b', "1", "-0.5")
    assert search_csv([]) == ",".join(CSV_COLUMNS) + "\r\n"


def test_similar_messages_are_found(library: Site) -> None:
    (first,) = get(library, "/v3/search?q=vent%20tube&limit=1")["results"]
    told = get(library, f"/v3/similar/{first['id']}?limit=2")
    assert told["id"] == first["id"]
    assert [one["rank"] for one in told["results"]] == [1, 2]
    assert first["id"] not in {one["id"] for one in told["results"]}
    table = rows_of(library.client.get(f"/v3/similar/{first['id']}?limit=2&format=csv").text)
    assert [row["id"] for row in table] == [one["id"] for one in told["results"]]
    assert_problem(library.client.get("/v3/similar/nothing"), 404, "'nothing'", "GET /v3/search")


def test_a_query_is_completed_and_corrected(library: Site) -> None:
    assert "key boathouse" in get(library, "/v3/suggestions?q=key%20boath")["suggestions"]
    assert len(get(library, "/v3/suggestions?q=th&limit=2")["suggestions"]) == 2
    assert get(library, "/v3/suggestions?q=%20")["suggestions"] == []
    assert get(library, "/v3/search?q=boathuose%20key")["did_you_mean"] == "boathouse key"
