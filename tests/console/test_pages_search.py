"""Searching: what is shown, narrowed down by filters and facets, while one types; and similar messages."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from onward.console.pages.search import marked
from onward.ops.text.search import author_names, why_found
from onward.pipeline.documents import Message
from onward.pipeline.reranking import REASON
from onward.pipeline.search import Hit, Reason, Results
from onward.pipeline.sources import submit
from tests.support.command_runs import SAMPLE, mail, write_mailbox
from tests.support.console_client import HTML, Site, pipeline, serving

AUTHOR = re.compile(r'<span class="faint wrap">([^<]+) · <time')
FACET = re.compile(r'<a id="(\w+)-[^"]*" href="([^"]+)" title="([^"]*)"( aria-current="true")?>')


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A console of the sample archive and a folder in two languages."""
    folder = tmp_path_factory.mktemp("mixed")
    (folder / "notes" / "hafen").mkdir(parents=True)
    (folder / "notes" / "tide.md").write_text(
        "# The tide gauge\n\nThe tide gauge stands at the end of the pier.\n"
    )
    german = "Der Pegelmesser am Hafen driftet seit dem Sturm, und die Häuser am Kai sind nass geworden.\n"
    (folder / "notes" / "hafen" / "pegel.txt").write_text(german)
    app = pipeline(folder / "home", ONWARD_SERVE_REQUESTS_PER_SECOND="10000")
    submit(app, str(SAMPLE))
    submit(app, str(folder / "notes"))
    app.work_until_idle()
    with serving(app) as site:
        yield site
    app.close()


def hits_of(page: str) -> list[str]:
    return re.findall(r'class="hit" href="/threads/\w+\?at=(\w+)#', page)


def facets_of(page: str) -> dict[tuple[str, str], str]:
    """The path of each facet's value; a chosen one leads to the search without it."""
    return {(name, html.unescape(title)): html.unescape(path) for name, path, title, _ in FACET.findall(page)}


# -- what is found


def test_a_search_shows_what_matches_and_where_to_read_it(library: Site) -> None:
    page = library.page('/search?q=tide+"vent+tube"+-storm')
    assert "<mark>" in page
    assert "Messages with tide, with &#34;vent tube&#34;, without storm." in page
    thread, message = re.findall(r'class="hit" href="/threads/(\w+)\?at=(\w+)#m-\w+"', page)[0]
    found = library.app.get(Message, message)
    assert found is not None
    assert found.thread_id == thread
    assert f'id="m-{message}"' in library.page(f"/threads/{thread}?at={message}")


def test_a_hit_shows_its_path_inside_its_source(mixed: Site) -> None:
    page = mixed.page("/search?q=pegelmesser")
    assert re.search(r'notes · <span class="mono">hafen/pegel.txt</span>', page)
    assert "unknown" not in page


def test_a_search_is_narrowed_by_its_filters(library: Site) -> None:
    source = library.app.store.sources()[0]
    everybody = library.page("/search?q=the")
    names = [name.partition("&lt;")[0].strip() for name in AUTHOR.findall(everybody)]
    assert len(set(names)) > 1
    one = library.page(f"/search?q=the&author={quote(names[0].upper())}")
    assert AUTHOR.findall(one)
    assert all(names[0] in name for name in AUTHOR.findall(one))
    assert "Nothing found" in library.page("/search?q=the&until=1999")
    assert "<mark>" in library.page(f"/search?q=the&source={quote(source)}&since=1999-12")


def test_what_is_not_found_comes_with_something_to_try(library: Site) -> None:
    page = library.page("/search?q=xyzzyq&author=nobody&since=2020")
    assert "Nothing found" in page
    assert 'href="/search?q=xyzzyq&amp;since=2020">without author<' in page
    assert 'href="/search?q=xyzzyq">without any filter<' in page


@pytest.mark.parametrize(
    ("path", "said"),
    (
        ("/search?q=%2D%2D", "has nothing to look for"),
        ("/search?q=before%3Asoon", "before: cannot be &#39;soon&#39;; give a date such as 2026-03-09"),
        ("/search?q=a&since=never", "From: &#39;never&#39; is no date. Give a date such as 2026-03-09"),
        ("/search?q=a&source=nowhere", "There is no source &#39;nowhere&#39;"),
        ("/search?q=a&kind=stone", "Kind: there is no &#39;stone&#39;. Give one of calendar, code, "),
        ("/search?q=a&year=20x6", "Year: &#39;20x6&#39; is no year such as 2026"),
        ("/search?q=a&year=" + "9" * 5000, "is no year such as 2026"),
        ("/search?q=the&page=400", "There is no such page"),
        ("/search?q=%00%ff%ed%a0%80", "has nothing to look for"),
    ),
)
def test_what_cannot_be_looked_for_is_said(path: str, said: str, library: Site) -> None:
    assert said in library.page(path)


def test_a_search_goes_on_on_the_next_page(library: Site) -> None:
    first = library.page("/search?q=the")
    (path,) = re.findall(r'rel="next" href="([^"]+)"', first)
    second = library.page(html.unescape(path))
    assert '<ol class="list hits" start="21">' in second
    shown = [set(hits_of(page)) for page in (first, second)]
    assert len(shown[0]) == 20
    assert not shown[0] & shown[1]
    assert 'rel="prev"' in second


def test_the_newest_come_first_if_one_wants(library: Site) -> None:
    page = library.page("/search?q=tide")
    (path,) = re.findall(r'href="([^"]+)">Newest first', page)
    sorted_page = library.page(html.unescape(path))
    dates = re.findall(r'<time datetime="([^"]+)"', sorted_page)
    assert len(dates) > 3
    assert dates == sorted(dates, reverse=True)
    assert 'href="/search?q=tide">Best first' in sorted_page
    assert "Newest first" not in library.page("/search?q=from%3Adavy"), "such a list always begins with the newest"


def test_a_misspelt_word_is_corrected(library: Site) -> None:
    page = library.page("/search?q=boathuose+key")
    assert 'Did you mean <a href="/search?q=boathouse+key"><strong>boathouse key</strong></a>?' in page


def test_other_words_are_proposed(library: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def misspelt(*args: object, **options: object) -> Results:
        return Results([], 0, 0, did_you_mean="tide <gauge>")

    monkeypatch.setattr("onward.pipeline.search.search", misspelt)
    page = library.page("/search?q=tied+%3Cgauge%3E&year=2026")
    proposed = '<a href="/search?q=tide+%3Cgauge%3E&amp;year=2026"><strong>tide &lt;gauge&gt;</strong></a>'
    assert f"Did you mean {proposed}?" in page


def test_a_hit_says_why_it_is_there(library: Site) -> None:
    page = library.page("/search?q=tide+gauges")
    assert re.search(r"<summary>Why this hit</summary><ul class=\"why\"><li>Words: gauges \d\.\d\d, tide ", page)


def test_reasons_are_sentences() -> None:
    def why(text_score: float, similarity: float, *reasons: Reason) -> list[str]:
        message = Message(id="1", source="s", archive_id="a", origin="o", kind="text", thread_id="t")
        return why_found(Hit(message, 0.8, text_score, similarity, "", "", reasons))

    assert why(0.5, 0.0, Reason("tide", 2.25), Reason("gauge", 1.0)) == [
        "Words: tide 2.25, gauge 1.00; 0.50 of the best by words.",
        "Score, with other hits of its thread: 0.80 of 1.",
    ]
    assert why(0.0, 0.61, Reason(REASON, 1.5))[:2] == ["Similar meaning: 0.61 of 1.", "Reranker: 1.50."]
    assert why(0.0, 0.61)[0] == "Similar meaning: 0.61 of 1."
    assert why(0.3, 0.0)[0] == "Words that the best messages share: 0.30 of the best by words."
    assert why(0.0, 0.0) == ["It has what the filters ask for."]


def test_marks_that_came_with_a_mail_do_no_more_than_mark() -> None:
    assert marked("a \x02b\x03 <i>c") == "a <mark>b</mark> &lt;i&gt;c"
    assert marked("\x03\x03a\x02\x02<b>") == "a<mark>&lt;b&gt;</mark>"
    assert marked("\x02abcdef\x03 gh", 4) == "<mark>abcd</mark>…"
    assert marked("\x02" * 50 + "x") == "<mark>x</mark>"


# -- facets


def test_facets_narrow_a_search_and_widen_it_again(mixed: Site) -> None:
    page = mixed.page("/search?q=tide+gauge")
    facets = facets_of(page)
    assert {name for name, _ in facets} == {"source", "author", "year", "kind"}
    chosen = mixed.page(facets["kind", "markdown"])
    (hit,) = hits_of(chosen)
    message = mixed.app.get(Message, hit)
    assert message is not None
    assert message.path == "tide.md"
    assert "1 message matches well" in chosen
    assert facets_of(chosen) == {("kind", "markdown"): "/search?q=tide+gauge"}
    assert '<li><a class="chip" href="/search?q=tide+gauge"' in chosen
    assert hits_of(mixed.page("/search?q=tide+gauge")) == hits_of(page)


def test_a_facet_leads_to_what_has_its_value(mixed: Site) -> None:
    for (name, value), path in facets_of(mixed.page("/search?q=tide+gauge")).items():
        found = [mixed.app.get(Message, id) for id in hits_of(mixed.page(path))]
        assert found, (name, value)
        years = {"year": [str(datetime.fromtimestamp(one.date, UTC).year) for one in found if one and one.date]}
        assert set(years.get(name) or [getattr(one, name) for one in found]) == {value}


def test_a_facet_that_narrows_nothing_is_not_shown(library: Site) -> None:
    names = {name for name, _ in facets_of(library.page("/search?q=tide"))}
    assert names == {"author"}, "all of it is one mailbox of one year in one language"


def test_a_facet_narrows_what_an_operator_has_left(mixed: Site) -> None:
    """Both must hold: a typed filter and a chosen one are no alternatives."""
    page = mixed.page("/search?q=tide+gauge+kind%3Amail+kind%3Amarkdown")
    assert len(hits_of(mixed.page(facets_of(page)["kind", "markdown"]))) == 1
    assert "Nothing found" in mixed.page("/search?q=tide+kind%3Amail&kind=markdown")


def test_languages_have_their_names(mixed: Site) -> None:
    page = mixed.page("/search?q=pegel+sturm+tide&kind=text")
    assert "Language" not in page
    page = mixed.page("/search?q=pegelmesser+gauge&language=de")
    assert '<span class="cut">German</span>' in page


def test_of_two_authors_with_one_name_the_addresses_are_shown() -> None:
    names = author_names(
        ["Ada <ada@a.example>", "Ada <ada@b.example>", '"Bo" <bo@c.example>', "dan@d.example", "<e@e>"]
    )
    assert names == ["Ada <ada@a.example>", "Ada <ada@b.example>", "Bo", "dan@d.example", "<e@e>"]


def test_many_values_are_folded(site: Site, tmp_path: Path) -> None:
    mails = [mail(n, f"tide {n}", "the tide").replace(b"2026", str(2000 + n).encode()) for n in range(9)]
    submit(site.app, str(write_mailbox(tmp_path / "years.mbox", mails)))
    site.app.work_until_idle()
    page = site.page("/search?q=tide")
    assert '<details id="facet-year"><summary class="faint">3 more</summary>' in page


# -- as one types


def test_the_results_alone_are_sent_while_one_types(library: Site) -> None:
    part = library.page("/search?q=tide+gauge&part=results")
    assert "<html" not in part
    assert hits_of(part) == hits_of(library.page("/search?q=tide+gauge"))
    said = re.search(r'data-title="tide gauge · Search" data-said="(\d+ messages match well)"', part)
    assert said is not None


def test_a_word_that_is_begun_is_completed_while_one_types(library: Site) -> None:
    assert "<mark>" not in library.page("/search?q=boatho"), "it may be found by meaning, but is no word"
    typing = library.page("/search?q=boatho&part=results")
    assert "<mark>boathouse</mark>" in typing
    completed = re.findall(r'<a href="/search\?q=boathouse">boathouse</a>', typing)
    assert completed
    assert set(hits_of(typing)) <= set(hits_of(library.page("/search?q=boatho*")))
    assert "part=" not in re.sub(r'href="/similar/[^"]*"', "", typing)


def test_a_mistake_is_no_alarm_while_one_types(library: Site) -> None:
    assert 'role="alert"' in library.page("/search?q=kind%3Ap")
    part = library.page("/search?q=kind%3Ap&part=results")
    assert "kind: cannot be" in part
    assert 'role="alert"' not in part


# -- taking it along


def test_what_is_found_can_be_saved(mixed: Site) -> None:
    page = mixed.page("/search?q=tide+gauge&kind=mail&since=2026-03-01&sort=date")
    paths = {
        name: html.unescape(path) for path, name in re.findall(r'href="(/v3/[^"]+)" download="search.(\w+)"', page)
    }
    asked = parse_qs(urlsplit(paths["json"]).query)
    assert asked["since"][0].startswith("2026-0")
    found = mixed.client.get(paths["json"]).json()["results"]
    assert [one["id"] for one in found][:20] == hits_of(page)
    table = mixed.client.get(paths["csv"], headers=HTML)
    assert table.headers["content-type"].startswith("text/csv")
    assert len(table.text.splitlines()) == len(found) + 1


# -- saved searches


def save(site: Site, path: str, name: str) -> str:
    """Save the search of a page, and return the page that follows."""
    page = site.page(path)
    (form,) = re.findall(r'<form class="filters" method="post" action="/searches">.*?</form>', page, re.DOTALL)
    fields = {key: html.unescape(value) for key, value in re.findall(r'name="(\w+)" value="([^"]*)"', form)}
    answer = site.client.post("/searches", data=fields | {"name": name}, headers=HTML, follow_redirects=True)
    return answer.text


def test_a_search_is_saved_with_its_filters_and_removed(site: Site, tmp_path: Path) -> None:
    mails = [mail(n, f"tide {n}", "the tide").replace(b"2026", str(2020 + n).encode()) for n in range(3)]
    submit(site.app, str(write_mailbox(tmp_path / "a list.mbox", mails)))
    site.app.work_until_idle()
    (source,) = site.app.store.sources()
    path = f"/search?q=tide&year=2021&author=ada&kind=mail&language=&since=2020-06&source={quote(source)}"
    found = hits_of(site.page(path))
    assert len(found) == 1
    saved = save(site, path, "storms")
    assert hits_of(saved) == found
    assert 'value="@storms"' in saved
    start = site.page("/search")
    shown = "tide source:&#34;a list.mbox&#34; from:ada after:2020-06 kind:mail after:2021 before:2022"
    assert f'<a class="hit" href="/search?q=%40storms">@storms</a> <span class="faint">{shown}</span>' in start
    (token,) = set(re.findall(r'name="form_token" value="([^"]+)"', start))
    fields = {"form_token": token, "name": "storms"}
    assert site.client.post("/searches/remove", data=fields, headers=HTML).status_code == 303
    assert "@storms</a>" not in site.page("/search")
    assert "there is no saved search &#39;storms&#39;" in site.page("/search?q=%40storms")


def test_a_search_is_saved_only_by_a_form_of_this_browser_and_under_a_good_name(library: Site) -> None:
    assert " search cannot be saved as &#39;a b&#39;; a name has letters" in save(library, "/search?q=tide", "a b")
    for path in ("/searches", "/searches/remove"):
        answer = library.client.post(path, data={"name": "x", "q": "tide"}, headers=HTML)
        assert answer.status_code == 403, path
    part = library.page("/search?q=tide&part=results")
    assert re.findall(r'name="form_token" value="([^"]+)"', part), "also while one types"


def test_filters_alone_list_the_newest_messages(library: Site) -> None:
    page = library.page("/search?author=davy")
    dates = re.findall(r'<time datetime="([^"]+)"', page)
    assert len(dates) > 3
    assert dates == sorted(dates, reverse=True)
    assert f"{len(hits_of(page))} messages found" in page


# -- similar messages


def test_similar_messages_are_listed(library: Site) -> None:
    (first, *_) = hits_of(library.page("/search?q=vent+tube"))
    page = library.page(f"/similar/{first}")
    assert hits_of(page)
    assert first not in hits_of(page)
    message = library.app.get(Message, first)
    assert message is not None
    thread = library.page(f"/threads/{message.thread_id}")
    (path,) = re.findall(rf'data-load="(/similar/{first}\?part=hits)"', thread)
    part = library.page(path)
    others = [library.app.get(Message, id) for id in hits_of(part)]
    assert message.thread_id not in {one.thread_id for one in others if one}
    assert f'href="/similar/{first}"' in library.page(f"/documents/messages/{first}")
    library.page("/similar/nothing%00", 404)


def test_nothing_is_similar_to_a_lone_message(site: Site, tmp_path: Path) -> None:
    submit(site.app, str(write_mailbox(tmp_path / "one.mbox", [mail(1, "Alone", "Nobody else is here.")])))
    site.app.work_until_idle()
    (id,) = hits_of(site.page("/search?q=nobody"))
    assert "No other message is similar" in site.page(f"/similar/{id}")
