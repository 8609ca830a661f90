"""The overview: what needs a person and where to go, the picture of the stages, and the first minutes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from onward.console.charts import BAR_WIDTH, MIN_SEGMENT_WIDTH, bar_segments
from onward.model.ledger import DeadLettered, OutgoingEvents
from onward.ops.queries.needs import Need, NeedKind
from onward.ops.text.needs import need_link
from tests.console.shop import Shop, open_shop, words
from tests.support.console_client import Site
from tests.support.failed_pages import fail, failure, finish, set_aside


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with open_shop(tmp_path) as found:
        yield found


# -- what needs a person


def test_what_needs_a_person_comes_first_and_leads_to_where_it_is_put_right(library: Site) -> None:
    page = library.page("/")
    text = words(page)
    assert text.index("1 needs a person") < text.index("The pipeline")
    assert "or type onward failures list" in text
    assert 'href="/failures">Failures</a>' in page


@pytest.mark.parametrize("kind", NeedKind)
def test_every_need_has_its_page(shop: Shop, kind: NeedKind) -> None:
    path = need_link(Need(kind)).path
    assert shop.site.client.get(path).status_code == 200


def test_a_failing_batch_and_given_up_documents_lead_to_their_pages(shop: Shop) -> None:
    set_aside(shop.on, "late")
    shop.on.bring("tired")
    shop.on.settle(shop.on.take(), DeadLettered(["tired"], failure=failure("again", "f00d1234"), final=False))
    shop.on.store.mark_out_of_rounds([("pages", "tired")])
    links = shop.links("/")
    assert "/documents?status=failed_max_retries" in links
    assert "/batches" in links


def test_all_is_well_where_nothing_needs_a_person(shop: Shop) -> None:
    finish(shop.on, "good")
    assert "Nothing needs a person." in shop.words("/")


def test_events_that_wait_to_leave_for_other_programs_are_said(shop: Shop) -> None:
    finish(shop.on, "good")
    assert "Other programs" not in shop.words("/")
    shop.on.store.outgoing = OutgoingEvents(None)
    shop.on.bring("late")
    assert "Other programs 1 event waits to leave for other programs" in shop.words("/")
    assert shop.site.client.get("/v3/status").json()["outbox"]["waiting"] == 1


# -- the first minutes


def test_an_empty_store_shows_the_way_in(site: Site) -> None:
    page = site.page("/")
    assert "Nothing has been ingested yet" in page
    assert re.search(r'<form[^>]+action="/ingest"', page)
    assert "onward ingest SOURCE…" in page
    assert "No worker is alive" in page
    assert "The pipeline" not in page


def test_the_store_of_another_app_asks_for_no_source(shop: Shop) -> None:
    page = shop.page("/")
    assert 'action="/ingest"' not in page
    assert "belongs to another app" in page


# -- the picture


def test_the_stages_are_drawn_in_order_and_joined(library: Site) -> None:
    page = library.page("/")
    picture = page.partition('<svg class="flow"')[2].partition("</svg>")[0]
    names = re.findall(r'class="name"[^>]*>(\w+)<', picture)
    assert names == ["ingestion", "parsing", "chunking", "embedding", "orchestration", "summarization"]
    assert re.findall(r'class="takes"[^>]*>(\w+)<', picture) == [
        "archives",
        "messages",
        "chunks",
        "chunks",
        "threads",
    ]
    assert "chunking: 149 messages done, no worker" in picture, "it can be heard, too"
    assert 'class="flow-list"' in page, "a narrow screen gets a list"


def test_a_service_that_the_workers_do_not_run_has_its_remedies(shop: Shop) -> None:
    shop.on.bring("waits")
    shop.on.store.register_worker("box:1:beef", {"host": "box", "pid": 1, "services": {"listening": 1}})
    page = shop.words("/")
    assert "1 event of reading is due, and no worker runs it" in page
    assert "start it, declare its new name with was='reading', or retire it" in page


def test_a_stage_that_nobody_serves_or_whose_dependency_is_down_is_seen(shop: Shop) -> None:
    shop.on.bring("waits")
    assert "no worker runs it" in shop.words("/")
    assert '<g class="box unserved"' in shop.page("/")


def test_an_outage_is_seen_at_its_stage(site: Site) -> None:
    from onward.pipeline.sources import submit
    from tests.support.command_runs import SAMPLE

    submit(site.app, str(SAMPLE))
    site.app.store.open_breaker("embedder", "it answers 503")
    page = site.page("/")
    assert '<g class="box down"' in page
    assert "embedder is down" in words(page)


def test_dead_letters_are_counted_at_their_stage(shop: Shop) -> None:
    fail(shop.on, "broken")
    page = shop.page("/")
    assert "1 dead letter" in words(page)
    assert "letters" in page.partition('<svg class="flow"')[2].partition("</svg>")[0]


def test_the_page_follows_what_happens(shop: Shop) -> None:
    finish(shop.on, "good")
    said = shop.watch("/overview")
    assert "Nothing needs a person." in next(said)
    fail(shop.on, "broken")
    assert any("1 document failed" in one for one in said)


def test_documents_are_drawn_by_status_and_lead_to_their_list(shop: Shop) -> None:
    finish(shop.on, "good", "better")
    fail(shop.on, "broken")
    page = shop.page("/")
    assert 'class="s-processed"' in page
    assert 'class="s-failed"' in page
    assert "/documents?collection=pages&amp;status=failed&amp;source=" in page


def test_no_piece_of_a_bar_is_too_small_to_be_seen() -> None:
    pieces = bar_segments({"processed": 999_999, "failed": 1, "odd": 1})
    assert [one.status for one in pieces] == ["processed", "failed", "odd"]
    assert all(one.width >= MIN_SEGMENT_WIDTH for one in pieces)
    assert pieces[-1].x + pieces[-1].width == BAR_WIDTH
    assert bar_segments({"processed": 0}) == []
