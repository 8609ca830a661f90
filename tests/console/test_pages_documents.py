"""Documents in the console: finding them, what each is, what happens to it next, and changing that."""

from __future__ import annotations

import datetime
import html
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode, urljoin

import pytest

from onward.console.action_forms import read_when
from onward.console.page_templates import document_path
from onward.console.time_zone import ViewerZone
from onward.model.ledger import DeadLettered
from onward.ops.bad_input import BadInput
from onward.pipeline.documents import Message, source_id
from onward.pipeline.subjects import plain_subject
from tests.console.shop import ODD, Shop, open_shop, words
from tests.support.command_runs import SAMPLE
from tests.support.console_client import HTML, Site
from tests.support.failed_pages import fail, failure, finish, set_aside
from tests.support.store_pages import page, word

UTC = ViewerZone("UTC", datetime.UTC)
SECRET = "https://reader:tinder@lists.example.org/mbox"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """Pages of somebody else's app: one failed, one done, one set aside, one with an odd id that waits."""
    with open_shop(tmp_path) as found:
        fail(found.on, "broken")
        finish(found.on, "good")
        set_aside(found.on, "late")
        found.on.bring(ODD, text="an odd page", source=SECRET)
        yield found


def path_of(id: str, collection: str = "pages") -> str:
    return document_path(collection, id)


def tire(shop: Shop, id: str) -> None:
    """Let the document that waits fail in its last round."""
    shop.on.settle(shop.on.take(), DeadLettered([id], failure=failure("once more", "f00d1234"), final=False))
    shop.on.store.mark_out_of_rounds([("pages", id)])


# -- the list


def test_every_document_is_on_one_page_and_only_one(library: Site) -> None:
    path, seen, pages = "/documents", [], 0
    while path:
        page = library.page(path)
        seen += re.findall(r'<td class="titled"><span><a href="(/documents/[^"]+)"', page)
        further = re.search(r'rel="next" href="([^"]+)"', page)
        path, pages = html.unescape(further[1]) if further else "", pages + 1
    total = sum(sum(found.values()) for found in library.app.store.document_counts().values())
    assert len(seen) == len(set(seen)) == total
    assert pages == -(-total // 50)
    assert f"50 of {total}" in library.page("/documents")


def test_they_are_chosen_by_collection_status_and_source(shop: Shop) -> None:
    assert "1 of 1 document" in (failed := shop.words("/documents?status=failed"))
    assert "text of broken" in failed
    assert "it broke" in failed, "its error stands beside it"
    assert "No document matches" in shop.words("/documents?collection=pages&status=discarded")
    of_source = shop.words("/documents?" + urlencode({"source": source_id(SECRET)}))
    assert "an odd page" in of_source
    assert "text of broken" not in of_source
    assert "No such source" in shop.words("/documents?source=nowhere")


def test_given_up_documents_count_as_failed(shop: Shop) -> None:
    tire(shop, ODD)
    listed = shop.words("/documents?status=failed")
    assert "2 of 2 documents" in listed
    assert "given up" in listed


def test_a_password_in_a_source_or_a_text_is_in_no_page_and_no_address(shop: Shop) -> None:
    shop.on.store.add_documents([page("linked", SECRET)])
    for path in ("/documents", path_of(ODD), path_of("linked"), "/"):
        text = shop.page(path)
        assert "lists.example.org" in text
        assert "tinder" not in text, path


def test_one_is_found_by_the_beginning_of_its_id(library: Site) -> None:
    id = library.app.store.states("threads", limit=1)[0].id
    found = words(library.page(f"/documents?q={id[:10]}"))
    assert id in found
    assert "Nothing is found by this" in library.page("/documents?q=zzzz")
    assert "/search?q=zzzz" in library.page("/documents?q=zzzz")


def test_a_whole_id_leads_to_its_document(shop: Shop) -> None:
    assert "What happens next" in shop.words("/documents?q=broken")
    assert "What happens next" in shop.words("/documents?" + urlencode({"q": ODD}))
    assert "What happens next" in shop.words("/documents?q=pages/broken&collection=pages")


# -- what it is


def test_a_message_is_shown_as_a_mail(library: Site) -> None:
    store = library.app.store
    id = next(one.id for one in store.states("messages", status="processed") if _quotes(library, one.id))
    page = library.page(document_path("messages", id))
    assert '<span class="quote">' in page
    assert "Read the thread" in page
    assert all(f"<dt>{name}</dt>" in page for name in ("From", "Date", "Thread", "Archive"))


def _quotes(library: Site, id: str) -> bool:
    from onward.pipeline.documents import Message

    message = library.app.get(Message, id)
    return message is not None and any(kind == "quote" for kind, _, _ in message.spans)


@pytest.mark.parametrize("collection", ("archives", "chunks", "threads", "summaries", "tasks", "reports"))
def test_whatever_there_is_has_a_page(library: Site, collection: str) -> None:
    for state in library.app.store.states(collection, limit=3):
        assert "What happens next" in library.page(document_path(collection, state.id))


def test_a_document_of_another_app_is_shown_as_it_is(shop: Shop) -> None:
    page = shop.page(path_of("broken"))
    assert "&#34;text&#34;: &#34;text of broken&#34;" in page


def test_an_odd_id_leads_to_its_page_and_back(shop: Shop) -> None:
    assert path_of(ODD) in shop.page("/documents")
    page = shop.page(path_of(ODD))
    assert "an odd page" in page
    assert "<d>" not in page
    live = re.search(r'data-live="([^"]+)"', page)
    assert live is not None
    assert "What happens next" in next(shop.watch(html.unescape(live[1]).removeprefix("/live")))
    assert "Discard an odd page?" in shop.words(
        f"/confirm/discard?{urlencode({'collection': 'pages', 'id': ODD})}"
    )


def test_a_document_that_is_not_there_is_said_to_be_missing(shop: Shop) -> None:
    assert "is gone" in shop.words(path_of("nothing"), 404)
    assert "no document" in shop.words("/confirm/retry?collection=pages&id=nothing", 404)


def test_bytes_are_saved_and_never_shown(library: Site, shop: Shop) -> None:
    id = library.app.store.states("messages", status="failed")[0].id
    answer = library.client.get("/raw" + document_path("messages", id).removeprefix("/documents"))
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == f'attachment; filename="{id}.eml"'
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.content in SAMPLE.read_bytes()
    assert b"\x80\xa5\xca\xef" in answer.content
    assert "has no bytes of its own" in shop.words("/raw/pages/broken", 404)


@pytest.mark.parametrize("id", (".", "..", "a/..", "a/status", "a/events", "%2e", "?id=x"))
def test_an_id_that_means_something_in_an_address_has_its_page(shop: Shop, id: str) -> None:
    shop.on.bring(id, text="a page of its own", source=SECRET)
    assert path_of(id) in shop.links("/documents")
    there = urljoin(shop.site.url, path_of(id)).removeprefix(shop.site.url)  # as a browser understands it
    assert "a page of its own" in shop.words(there)
    (live,) = re.findall(r'data-live="([^"]+)"', shop.page(there))
    watched = urljoin(shop.site.url, html.unescape(live)).removeprefix(shop.site.url)
    assert "no worker runs" in next(shop.watch(watched.removeprefix("/live")))


def test_a_child_leads_to_its_parent_and_back(shop: Shop) -> None:
    shop.on.store.add_documents([word(f"word-{number}", parent="pages/good") for number in range(3)])
    assert path_of("word-1", "words") in shop.page(path_of("good"))
    assert "words made from it 3 processed" in shop.words(path_of("good"))
    assert path_of("good") in shop.page(path_of("word-1", "words"))


# -- what happens next, and its life


def test_what_happens_next_is_said_with_its_reason(shop: Shop) -> None:
    assert "Failed for good: ValueError: it broke" in shop.words(path_of("broken"))
    assert "Nothing: it is processed" in shop.words(path_of("good"))
    assert "no worker runs; start one" in shop.words(path_of(ODD))
    late = shop.words(path_of("late"))
    assert "Set aside: its failed batch" in late
    assert "Failed batch" in late


def test_a_wait_is_told_as_a_time_that_the_browser_keeps_fresh(shop: Shop) -> None:
    shop.on.settle(shop.on.take(), DeadLettered([ODD], failure=failure("not yet", "f00d1234"), final=False))
    page = shop.page(path_of(ODD))
    sentence = re.search(r"<p class=\"wrap\">(Due .*?)</p>", page)
    assert sentence is not None, page
    assert "<time datetime=" in sentence[1]
    assert not re.search(r"Due in \d", sentence[1])


def test_a_point_in_time_is_told_in_the_zone_of_whoever_reads(shop: Shop) -> None:
    page = shop.page(path_of(ODD))
    due = re.search(
        r"Due since <time datetime=\"\S+\+00:00\" title=\"[\d-]+ [\d:]+ UTC\">[\d-]* ?\d\d:\d\d</time> for", page
    )
    assert due is not None, page
    aside = re.search(r"is retried at <time [^>]+>[^<]+</time>, <time [^>]+ data-ago>", shop.page(path_of("late")))
    assert aside is not None, shop.page(path_of("late"))
    shop.site.do("schedule", {"collection": "pages", "id": "broken", "at": "24h"})
    set_for = shop.words(path_of("broken"))
    assert re.search(r"Scheduled by an operator for [\d-]* ?[\d:]+ , [\d-]+ [\d:]+", set_for), set_for


def test_what_an_error_says_of_times_is_left_alone_if_it_is_none(shop: Shop) -> None:
    odd = failure("it stopped at 2026-99-99 99:99 UTC", "f00d1234")
    shop.on.settle(shop.on.take(), DeadLettered([ODD], failure=odd, final=True))
    assert "it stopped at 2026-99-99 99:99 UTC" in shop.words(path_of(ODD))


def test_a_life_is_told_with_errors_and_where_they_lead(shop: Shop) -> None:
    life = shop.words(path_of("broken"))
    assert re.search(r"History Created .* Failed for good .*round 1 .*ValueError: it broke", life)
    links = shop.links(path_of("broken"))
    assert "/failures/f00d1234" in links
    assert any(one.startswith("/letters/") for one in links)


def test_a_page_shows_what_becomes_of_its_document(shop: Shop) -> None:
    said = shop.watch("/document" + path_of("broken").removeprefix("/documents"))
    assert "Failed for good" in next(said)
    shop.site.do("discard", {"collection": "pages", "id": "broken"})
    assert "an operator discarded it" in next(said)


# -- changing it


def test_retrying_puts_a_failed_document_back(shop: Shop) -> None:
    asked = shop.words("/confirm/retry?collection=pages&id=broken")
    assert "1 document would be tried again now" in asked
    assert "If that was wrong" in asked
    assert shop.on.state("broken").retry_at is None, "a question changes nothing"
    done = shop.site.do("retry", {"collection": "pages", "id": "broken"})
    assert "1 document will be tried again now" in words(done)
    assert shop.on.state("broken").retry_at is not None
    assert shop.actions() == [("console", "retry", 1)]


def test_a_schedule_is_set_and_cancelled(shop: Shop) -> None:
    at = shop.on.store.now() + 7200
    done = shop.site.do("schedule", {"collection": "pages", "id": "broken", "at": "2h"})
    retry_at = shop.on.state("broken").retry_at
    assert retry_at is not None
    assert retry_at >= at
    assert "Cancel the schedule" in done
    assert "Scheduled by an operator for" in words(done)
    shop.site.do("unschedule", {"collection": "pages", "id": "broken"})
    assert shop.on.state("broken").retry_at is None
    assert [action for _, action, _ in shop.actions()] == ["retry", "retry cancel"]


def test_a_reset_counts_rounds_anew_and_is_final(shop: Shop) -> None:
    assert "This is final." in shop.words("/confirm/reset?collection=pages&id=good")
    shop.site.do("reset", {"collection": "pages", "id": "good"})
    assert shop.on.state("good").status == "pending"
    assert shop.on.state("good").attempt_count == 0


def test_a_discarded_document_can_be_put_back(shop: Shop) -> None:
    shop.site.do("discard", {"collection": "pages", "id": "broken"})
    assert shop.on.state("broken").status == "discarded"
    assert "Retry now" in shop.words(path_of("broken"))
    shop.site.do("retry", {"collection": "pages", "id": "broken"})
    assert shop.on.state("broken").retry_at is not None


def test_what_is_processed_is_left_alone(shop: Shop) -> None:
    for change in ("discard", "retry", "schedule"):
        asked = shop.page(f"/confirm/{change}?collection=pages&id=good")
        assert "processed already" in asked
        assert "If that was wrong" not in asked, "nothing is done"
        assert f'<button class="main">{change.title()}' not in asked
        shop.site.do(change, {"collection": "pages", "id": "good"})
    assert shop.on.state("good").status == "processed"
    assert shop.actions() == []


def test_only_what_fits_is_offered(shop: Shop) -> None:
    assert "Reset and retry" in (good := shop.words(path_of("good")))
    assert "Discard" not in good
    assert "Retry now" not in good
    shop.on.store.add_documents([word("nobodys")])
    nobodys = shop.words(path_of("nobodys", "words"))
    assert "Retry now" not in nobodys
    assert "Reset" not in nobodys


@pytest.mark.parametrize(
    ("text", "seconds"),
    (
        ("30m", 1800.0),
        ("2h", 7200.0),
        ("1.5d", 129_600.0),
        ("1970-01-12T13:46:50", 10.0),
        ("1970-01-12t14:46:50+01:00", 10.0),
    ),
)
def test_a_time_is_a_span_or_a_date(text: str, seconds: float) -> None:
    assert read_when(text, 1_000_000.0, UTC) == 1_000_000.0 + seconds


@pytest.mark.parametrize("text", ("soon", "", "-1h", "1969-01-01", "9000-01-01", "10 000h", "1h\n2h"))
def test_a_time_that_makes_no_sense_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(BadInput, match="give"):
        read_when(text, 1_000_000.0, UTC)


def test_a_wrong_time_changes_nothing_and_is_explained(shop: Shop) -> None:
    answer = shop.site.client.get(
        "/confirm/schedule", params={"collection": "pages", "id": "broken", "at": "soon"}, headers=HTML
    )
    assert answer.status_code == 422
    assert "is no time: give a span" in words(answer.text)
    assert shop.on.state("broken").retry_at is None


# -- order, titles and selections


def test_the_newest_change_comes_first(shop: Shop) -> None:
    for id in ("first", "second", "third"):
        shop.on.store.add_documents([page(id, f"text of {id}")])
    newest, oldest = shop.words("/documents"), shop.words("/documents?order=oldest")
    assert newest.index("text of third") < newest.index("text of second") < newest.index("text of first")
    assert oldest.index("text of first") < oldest.index("text of second") < oldest.index("text of third")
    assert "by id" in shop.words("/documents?order=nonsense")


@pytest.mark.parametrize("order", ("", "oldest", "id"))
def test_pages_of_every_order_have_each_document_once(shop: Shop, order: str) -> None:
    shop.on.store.add_documents([page(f"extra-{number:03}", f"extra {number:03}") for number in range(120)])
    seen, path = list[str](), f"/documents?collection=pages&order={order}"
    while path:
        text = shop.page(path)
        seen += re.findall(r">(extra \d+)</a>", text)
        path = html.unescape(found[1]) if (found := re.search(r'rel="next" href="([^"]+)"', text)) else ""
    assert sorted(seen) == [f"extra {number:03}" for number in range(120)]


@pytest.mark.parametrize("after", ("x", "nan:1", "1e999:1", "1:-5", "1:" + "9" * 99, "0:0", "%00"))
def test_a_place_that_makes_no_sense_harms_nobody(shop: Shop, after: str) -> None:
    shop.page(f"/documents?after={after}")
    shop.page(f"/documents?after={after}&q=text")


def test_documents_are_found_by_subject_and_path(library: Site) -> None:
    store = library.app.store
    (chunk,) = store.states("chunks", limit=1)  # not any message: some have no text
    (message,) = store.get_many(Message, [(chunk.parent or "").partition("/")[2]])
    subject = plain_subject(message.subject)
    found = words(library.page("/documents?" + urlencode({"q": subject})))
    assert subject in found
    assert "messages processed" in found
    assert "threads processed" in found
    chunks = words(library.page("/documents?" + urlencode({"q": subject, "collection": "chunks"})))
    assert f"chunk 1 of {subject}" in chunks
    archives = words(library.page("/documents?" + urlencode({"q": SAMPLE.name, "collection": "archives"})))
    assert SAMPLE.name in archives
    assert "No document matches" not in archives


def test_what_is_ticked_is_retried(shop: Shop) -> None:
    shop.on.store.add_documents([page("other", "other text")])
    asked = shop.select("/documents", "discard", [f"pages/{quote(ODD)}", "pages/other"], {"q": ""})
    assert "2 documents would be discarded: 2 pages" in words(asked)
    assert "2 documents discarded: 2 pages" in shop.confirm(asked)
    assert [shop.on.state(id).status for id in (ODD, "other")] == ["discarded"] * 2
    assert [action for _, action, _ in shop.actions()] == ["documents discard"]


def test_all_that_match_are_changed_without_naming_them(shop: Shop) -> None:
    shop.finish()
    fail(shop.on, *(f"bad-{number:03}" for number in range(60)), fingerprint="0bad", message="bad")
    given = {"collection": "pages", "status": "failed", "all": "yes"}
    asked = shop.select("/documents?status=failed", "retry", [], given)
    assert "61 documents would be tried again now: 61 pages" in words(asked)
    assert 'name="selected"' not in asked
    assert "61 documents will be tried again now" in shop.confirm(asked)
    assert shop.on.state("bad-059").retry_at is not None
    (operation,) = shop.on.store.operations()
    assert operation.parameters["filters"]["status"] == "failed"
    assert operation.done == 61


def test_many_are_only_counted_before_they_are_changed(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onward.ops.actions.document_retries.MAX_EXACT_PLAN", 1)
    shop.finish()
    fail(shop.on, "bad-1", "bad-2", fingerprint="0bad", message="bad")
    asked = words(shop.select("/documents", "reset", [], {"all": "yes"}))
    assert "Up to 4 documents would be tried again now." in asked
    assert "What is processed, discarded or being tried is left alone" in asked


def test_nothing_selected_is_said(shop: Shop) -> None:
    assert "nothing is selected" in words(shop.select("/documents", "retry", [], {"q": ""}, status=422)).lower()
