"""Reading threads, and looking at settings."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import pytest

from onward import App
from onward.console.charts import ladder_schedule
from onward.console.markdown import render_markdown, without_sources
from onward.console.pages.settings import list_settings
from onward.model.ledger import NewDocument
from onward.ops.queries.policies import describe_ladder
from onward.ops.queries.threads import ThreadPosition, first_lines, list_threads
from onward.pipeline.documents import Message, Summary, SummaryCitation, Thread
from onward.pipeline.sources import submit
from onward.retry.policy import Ladder
from onward.settings import Settings, load_settings, variable
from tests.support.command_runs import mail, write_mailbox
from tests.support.console_client import Site, serving


def threads_of(page: str) -> list[str]:
    return re.findall(r'class="hit" href="/threads/([0-9a-f]{32})', page)


# -- threads


def test_threads_are_listed_newest_first_with_what_they_say_first(library: Site) -> None:
    page = library.page("/threads")
    ids = threads_of(page)
    latest = [max(one.date or 0 for one in _messages(library.app, id)) for id in ids]
    assert len(ids) == sum(library.app.store.document_counts()["threads"].values())
    assert latest == sorted(latest, reverse=True)
    summary = library.app.get(Summary, ids[0])
    assert summary is not None
    assert first_lines(summary.markdown)[:40].replace("'", "&#39;") in page


def _messages(app: App, thread: str) -> list[Message]:
    return app.store.get_many(Message, [one.id for one in app.store.find(Message, "thread_id", [thread])])


def test_pages_of_threads_join_without_gaps(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where threads have the same date, or none."""
    monkeypatch.setattr("onward.ops.queries.threads.BLOCK", 2)
    undated = [mail(100 + n, f"undated {n}", "x").replace(b"Date: ", b"X-Date: ") for n in range(3)]
    dated = [mail(n % 4, f"subject {n}", "x").replace(b"<%d@" % (n % 4), b"<n%d@" % n) for n in range(12)]
    late = mail(59, "Re: subject 0", "x", thread=0).replace(b"<0@", b"<n0@")
    submit(site.app, str(write_mailbox(tmp_path / "many.mbox", [*undated, *dated, late])))
    site.app.work_until_idle()
    everything = list_threads(site.app, limit=100)
    assert len(everything.threads) == 15
    assert [one.place.latest is None for one in everything.threads[-3:]].count(True) in (0, 3)
    for source in (None, site.app.store.sources()[0]):
        pages, after = [], None
        while True:
            one = list_threads(site.app, source=source, after=after, limit=2)
            pages += [each.place.id for each in one.threads]
            if not one.more:
                break
            after = ThreadPosition.from_text(one.threads[-1].place.as_text())
        assert pages == [each.place.id for each in everything.threads], source


def test_of_a_thread_that_is_not_summed_up_the_messages_are_not_counted_yet(site: Site, tmp_path: Path) -> None:
    submit(site.app, str(write_mailbox(tmp_path / "keys.mbox", [mail(1, "Where is the key?", "Who has it?")])))
    site.app.work_until_idle(["ingestion", "parsing", "chunking"])
    page = site.page("/threads")
    assert "There is no summary yet." in page
    assert "0 messages" not in page


def test_threads_are_filtered_by_words_and_source(library: Site) -> None:
    words = list_threads(library.app, words="the", limit=100).threads
    assert [one.place.rank for one in words] == sorted(one.place.rank for one in words)
    found = threads_of(library.page('/threads?q="vent+tube"'))
    assert 0 < len(found) < len(threads_of(library.page("/threads")))
    for id in found:
        assert any("vent tube" in one.body.lower() for one in _messages(library.app, id))
    assert "No thread has this" in library.page("/threads?q=xyzzyq")
    assert "There is no source" in library.page("/threads?source=nowhere")
    assert threads_of(library.page("/threads?after=nonsense")) == threads_of(library.page("/threads"))


def test_files_are_listed_only_if_asked_for(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "gauge.md").write_text("# The gauge\n\nThe gauge is kept in the boathouse.\n")
    submit(site.app, str(folder))
    site.app.work_until_idle()
    page = site.page("/threads")
    assert "No threads of mail" in page
    assert '1 file or page is not listed. <a href="/threads?files=1">List them, too</a>' in page
    write_mailbox(folder / "list.mbox", [mail(1, "Where is the key?", "Who has the key of the boathouse?")])
    submit(site.app, str(folder))
    site.app.work_until_idle()
    assert len(threads_of(site.page("/threads"))) == 1
    everything = site.page("/threads?files=1")
    assert len(threads_of(everything)) == 2
    assert 'name="files" value="1" checked' in everything
    assert "not listed" not in everything
    assert len(threads_of(site.page("/threads?q=boathouse"))) == 1


def test_citations_lead_to_the_messages_they_rest_on(library: Site) -> None:
    summary = max(
        (one for id in threads_of(library.page("/threads")) if (one := library.app.get(Summary, id))),
        key=lambda one: len(one.citations),
    )
    page = library.page(f"/threads/{summary.id}")
    assert len(summary.citations) > 2
    for cited in summary.citations:
        assert f'<a class="cite" href="#m-{cited.message_id}">{cited.number}</a>' in page
        assert page.count(f'id="m-{cited.message_id}"') == 1
    assert "### Sources" not in page
    assert "<h3>Sources</h3>" not in page


def test_quotes_are_folded_signatures_dimmed_and_attachments_listed(site: Site, tmp_path: Path) -> None:
    quoted = "\n".join(f"> line {n}" for n in range(9))
    text = f"Ada wrote:\n{quoted}\n\nI agree with it.\n\n> but this\n\nNot with that.\n\n-- \nBob of the harbour\n"
    submit(site.app, str(write_mailbox(tmp_path / "q.mbox", [mail(1, "Quotes", text)])))
    site.app.work_until_idle()
    page = site.page(f"/threads/{threads_of(site.page('/threads'))[0]}")
    assert re.search(r'<details class="quote"><summary>\d+ quoted lines</summary><div>[^<]*&gt; line 0', page)
    assert re.search(r'<span class="quote">[^<]*&gt; but this', page)
    assert re.search(r'<span class="signature">[^<]*Bob of the harbour', page)


def test_what_is_missing_of_a_thread_is_said(site: Site, tmp_path: Path) -> None:
    answer = mail(2, "Re: Lost", "We never saw the first one.", thread=1)
    submit(site.app, str(write_mailbox(tmp_path / "m.mbox", [answer])))
    site.app.work_until_idle()
    (id,) = threads_of(site.page("/threads"))
    page = site.page(f"/threads/{id}")
    assert "The message that began this thread is not in the archive." in page
    summary = site.app.get(Summary, id)
    assert summary is not None
    site.app.store.remove_documents([("summaries", id)])
    assert "There is no summary yet." in site.page(f"/threads/{id}")
    assert "There is no summary yet." in site.page("/threads")
    assert "There is no thread" in site.page("/threads/nothing", 404).replace("there is", "There is")


def test_a_long_thread_is_read_page_by_page(site: Site, tmp_path: Path) -> None:
    mails = [mail(n, "Long", f"Message number {n} says this.", thread=None if n == 0 else 0) for n in range(60)]
    submit(site.app, str(write_mailbox(tmp_path / "long.mbox", mails)))
    site.app.work_until_idle()
    (id,) = threads_of(site.page("/threads"))
    last = max(_messages(site.app, id), key=lambda one: one.date or 0.0)
    first = site.page(f"/threads/{id}")
    assert first.count('<article class="card mail"') == 50
    assert "1 to 50 of 60 messages" in first
    assert f'id="m-{last.id}"' not in first
    assert "51 to 60 of 60 messages" in site.page(f"/threads/{id}?page=2")
    assert f'id="m-{last.id}"' in site.page(f"/threads/{id}?at={last.id}")
    summary = site.app.get(Summary, id)
    assert summary is not None
    cited = SummaryCitation(number=1, message_id=last.id, sentence="It says this.")
    told = summary.model_copy(update={"markdown": "Said [1].", "citations": [cited]})
    site.app.store.replace_document(NewDocument("summaries", id, told.to_json(), told.source))
    assert f'class="cite" href="/threads/{id}?at={last.id}#m-{last.id}"' in site.page(f"/threads/{id}")
    assert f'class="cite" href="#m-{last.id}"' in site.page(f"/threads/{id}?page=2")


def test_a_store_of_another_app_has_nothing_to_read(tmp_path: Path) -> None:
    app = App(store=f"sqlite:///{tmp_path}/orders.db", settings=load_settings({"ONWARD_HOME": str(tmp_path)}))
    with serving(app) as site:
        assert "There is nothing to search yet" in site.page("/search")
        assert "There is nothing to search yet" in site.page("/search?q=order")
        assert "There are no threads yet" in site.page("/threads")
        assert "There are no threads yet" in site.page("/threads?q=order")
        site.page("/threads/a%2Fb%25%22", 404)
        assert "The retry ladder" in site.page("/settings")
    app.close()


# -- Markdown


@pytest.mark.parametrize(
    ("text", "html"),
    (
        ("[1] and [2]", '<p><a class="cite" href="#m-a">1</a> and [2]</p>'),
        ("`[1]`", "<p><code>[1]</code></p>"),
        ("# Title", "<h3>Title</h3>"),
        ("<b>x</b>", "<p>&lt;b&gt;x&lt;/b&gt;</p>"),
        ("[x](javascript:alert(1))", "<p>[x](javascript:alert(1))</p>"),
        ("[x](JaVaScRiPt:alert(1))", "<p>[x](JaVaScRiPt:alert(1))</p>"),
        ("[x](data:text/html,x)", "<p>[x](data:text/html,x)</p>"),
        ("[x](//evil.example)", "<p>[x](//evil.example)</p>"),
        ("[x](/settings)", "<p>[x](/settings)</p>"),
        ("[1]: https://evil.example", '<p><a class="cite" href="#m-a">1</a>: https://evil.example</p>'),
        (
            "[x](https://a.example/?q=\"'<>)",
            '<p><a href="https://a.example/?q=%22\'%3C%3E" rel="noopener noreferrer nofollow">x</a></p>',
        ),
    ),
)
def test_markdown_is_rendered_without_harm(text: str, html: str) -> None:
    assert str(render_markdown(text, {1: "#m-a"})).strip() == html


def test_an_image_is_not_loaded() -> None:
    assert "<img" not in render_markdown("![x](https://evil.example/x.png) ![y][1]", {1: "#"})


def test_the_list_of_sources_is_left_out_only_where_it_is_one() -> None:
    assert without_sources("Said [1].\n\n### Sources\n\n1. Ada `x`\n") == "Said [1].\n"
    assert without_sources("### Sources\nare dry") == "### Sources\nare dry"
    assert without_sources("a\n### Sources\nof water") == "a\n### Sources\nof water"


# -- settings


def test_every_setting_is_listed_with_its_default_and_where_it_comes_from(tmp_path: Path) -> None:
    environ = {"ONWARD_CONCURRENCY": "7", "ONWARD_HOME": str(tmp_path)}
    groups = list_settings(load_settings(environ), environ)
    shown = {one.variable: one for rows in groups.values() for one in rows}
    assert shown.keys() == {variable(name) for name in Settings.model_fields}
    assert all(groups.values()), "no group is empty"
    seven = shown["ONWARD_CONCURRENCY"]
    assert (seven.value, seven.default, seven.changed, seven.where) == ("7", "3", True, "ONWARD_CONCURRENCY")
    assert not shown["ONWARD_STORE"].changed, "its default lies in the data folder"
    assert shown["ONWARD_HOME"].changed
    assert [one.variable for one in shown.values() if one.changed] == ["ONWARD_HOME", "ONWARD_CONCURRENCY"]


def test_the_ladder_is_drawn_and_its_product_said(library: Site) -> None:
    page = library.page("/settings")
    assert "an archive gets up to 3 × 3 tries before it is given up" in page
    assert page.count('<svg class="schedule"') == 5
    assert page.count('class="band"') == 8, "the waits of not ready are drawn at random"
    assert "SQLite, version" in page


def test_tries_stand_at_their_times() -> None:
    not_ready, transient, _, batch, *_ = (ladder_schedule(one) for one in describe_ladder(Ladder()))
    assert not_ready is not None
    assert transient is not None
    assert batch is not None
    assert [one.text for one in transient.tries] == ["Try 1: at once", "Try 2: after 5 s", "Try 3: after 15 s"]
    places = [one.x for one in transient.tries]
    assert places == sorted(places)
    assert not transient.random
    assert not_ready.tries[1].text == "Try 2: after 0 s to 0.25 s"
    assert [one.width for one in not_ready.tries] == sorted(one.width for one in not_ready.tries)
    assert batch.endless
    assert {one.number for one in batch.tries} == set(range(1, len(batch.tries) + 1))


def test_a_thread_is_found_under_any_id(site: Site) -> None:
    odd = 'a/b "c" %20?#'
    thread = Thread(id=odd, source="s", root="r", subject="Odd")
    message = Message(id="m", source="s", archive_id="a", origin="o", kind="mbox", thread_id=odd)
    documents = [
        NewDocument(one.collection, one.id, one.to_json(), "s", keys=one.key_values()) for one in (thread, message)
    ]
    site.app.store.add_documents(documents)
    assert "<h1>Odd</h1>" in site.page(f"/threads/{quote(odd, safe='')}")
    (path,) = re.findall(r'class="hit" href="([^"]+)"', site.page("/threads"))
    assert "<h1>Odd</h1>" in site.page(path)
