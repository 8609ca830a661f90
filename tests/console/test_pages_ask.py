"""Asking: passages that answer, with links to their sentences, and what a chat model writes from them."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from onward.pipeline.documents import Message
from onward.pipeline.sources import submit
from tests.support.command_runs import mail, write_mailbox
from tests.support.console_client import Site, pipeline, serving
from tests.support.model_server import ModelServer

PASSAGE = re.compile(r'class="hit" href="(/threads/\w+\?at=(\w+)&amp;passage=(\d+)-(\d+)#cited)"')


def test_a_passage_leads_to_its_sentence(library: Site) -> None:
    page = library.page("/ask?q=why+did+the+tide+gauge+drift")
    path, id, start, end = PASSAGE.findall(page)[0]
    message = library.app.get(Message, id)
    assert message is not None
    passage = message.body[int(start) : int(end)]
    assert "vent tube" in passage
    thread = library.page(html.unescape(path).partition("#")[0])
    assert f'<mark class="cited" id="cited">{html.escape(passage)}</mark>' in thread
    assert thread.count('id="cited"') == 1


def test_nothing_answers(library: Site) -> None:
    page = library.page("/ask?q=who+wrote+Hamlet")
    assert "Nothing answers this" in page
    assert "No message has Hamlet." in page
    assert "No message has Sistine or Hamlet." in library.page("/ask?q=which+Sistine+wrote+Hamlet")
    assert "The nearest messages" in page
    assert 'href="/search?q=who+wrote+Hamlet"' in page


@pytest.mark.parametrize(
    ("path", "said"),
    (
        ("/ask", "How to ask"),
        ("/ask?q=%3F", "has nothing to look for"),
        ("/ask?q=tide&source=nowhere", "There is no source &#39;nowhere&#39;"),
        ("/ask?q=before%3Asoon", "before: cannot be &#39;soon&#39;"),
        ("/ask?q=%00%ff", "has nothing to look for"),
    ),
)
def test_what_cannot_be_asked_is_said(library: Site, path: str, said: str) -> None:
    assert said in library.page(path)


def test_a_search_that_is_a_question_can_be_asked(library: Site) -> None:
    assert 'href="/ask?q=why+did+the+gauge+drift"' in library.page("/search?q=why+did+the+gauge+drift")
    assert 'href="/ask' not in library.page("/search?q=tide+gauge+drift").replace('href="/ask" data-key', "")


def test_an_empty_store_answers_nothing(site: Site) -> None:
    assert "There is nothing to ask yet" in site.page("/ask?q=why")
    assert "There is nothing to ask yet" in site.page("/ask")


def test_a_passage_in_a_folded_quote_is_shown(site: Site, tmp_path: Path) -> None:
    quoted = "\n".join(f"> line {n} of the letter" for n in range(9))
    submit(
        site.app, str(write_mailbox(tmp_path / "q.mbox", [mail(1, "Letter", f"{quoted}\n\nI agree with <it>.\n")]))
    )
    site.app.work_until_idle()
    (message,) = site.app.store.get_many(Message, [site.app.store.states("messages")[0].id])
    start = message.body.index("line 4")
    end = message.body.index("<it>") + 2

    def shown(passage: str) -> str:
        return site.page(f"/threads/{message.thread_id}?at={message.id}&passage={passage}")

    page = shown(f"{start}-{end}")
    assert '<details class="quote" open>' in page
    assert '<mark class="cited" id="cited">line 4 of the letter\n&gt; line 5' in page
    assert '<mark class="cited">I agree with &lt;i</mark>t&gt;.' in page
    whole = re.sub(r"<[^>]*>", "", page)
    for odd in ("", "5", "9-5", "-1-4", "999999-9999999", "1-" + "9" * 30, "²-³"):
        assert "<mark" not in shown(odd), odd
        assert re.sub(r"<[^>]*>", "", shown(odd)) == whole, odd


def test_a_chat_model_writes_after_the_passages_are_shown(tmp_path: Path) -> None:
    letter = "The tide gauge drifted because the vent tube was blocked.\n"
    with ModelServer(reply="The **vent** tube was blocked. [1]") as server:
        settings = {"ONWARD_SUMMARIZER": server.url, "ONWARD_SUMMARIZER_MODEL": "writer"}
        app = pipeline(tmp_path / "home", **settings)
        submit(app, str(write_mailbox(tmp_path / "q.mbox", [mail(1, "Gauge", letter)])))
        app.work_until_idle()
        calls = len(server.calls)
        with serving(app) as site:
            page = site.page("/ask?q=why+did+the+tide+gauge+drift")
            assert len(server.calls) == calls, "the page does not wait for the model"
            assert "1 passage answers this" in page
            (path,) = re.findall(r'data-load-now="([^"]+)"', page)
            written = site.page(html.unescape(path))
            assert "<html" not in written
            assert re.search("Written by <code>[^<]*writer[^<]*</code>", written)
            assert re.search(
                r'The <strong>vent</strong> tube was blocked. <a class="cite" href="/threads/\w+\?at=', written
            )
            assert "data-load-now" not in site.page("/ask?q=why+did+the+tide+gauge+drift&write=yes")
            server.status = 500
            assert "Not written by a model" in site.page(html.unescape(path))
        app.close()
