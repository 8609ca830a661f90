"""A document is shown by its title: a subject, a path, a place in its message; the id comes second."""

from __future__ import annotations

from typing import Any

import pytest

from onward.ops.queries.titles import find_titles, title_of, titled
from tests.support.pipeline_runs import Pipeline, mail, mbox

MAIL = {"subject": "Re: tide", "kind": "mbox", "path": "list.mbox"}


@pytest.mark.parametrize(
    ("collection", "body", "title"),
    (
        ("messages", MAIL, "Re: tide"),
        ("messages", MAIL | {"subject": " "}, "(no subject)"),
        (
            "messages",
            {"subject": "Tide tables", "kind": "html", "path": "docs/tide.html"},
            "docs/tide.html – Tide tables",
        ),
        ("messages", {"subject": "tide.md", "kind": "text", "path": "docs/tide.md"}, "docs/tide.md"),
        (
            "messages",
            {"subject": "", "kind": "html", "path": "", "message_id": "https://a.example/b"},
            "https://a.example/b",
        ),
        ("chunks", {"position": 2, "subject": "tide"}, "chunk 3 of tide"),
        ("chunks", {"position": 0, "subject": ""}, "chunk 1 of (no subject)"),
        ("threads", {"subject": "tide"}, "tide"),
        ("summaries", {"subject": "tide", "markdown": "# all"}, "summary of tide"),
        ("archives", {"path": "a/b.pdf", "name": "b.pdf", "source": "/a"}, "a/b.pdf"),
        (
            "archives",
            {"path": "", "name": "", "source": "https://u:secret@a.example/x"},
            "https://u:***@a.example/x",
        ),
        ("tasks", {"submission": 2, "source": "/lists/harbour.mbox"}, "ingestion 2 of /lists/harbour.mbox"),
        ("messages", {"text": "of another app"}, "of another app"),
        ("chunks", {"position": "x", "name": "odd"}, "odd"),
        ("orders", {"total": 3}, ""),
        ("orders", [1], ""),
        ("orders", {"name": "line\none\x1b"}, "line one"),
    ),
)
def test_the_title_of_a_document(collection: str, body: Any, title: str) -> None:
    assert title_of(collection, body) == title


def test_documents_of_a_mailbox_have_titles(tmp_path: Any) -> None:
    (tmp_path / "list.mbox").write_bytes(mbox(mail("1", "The tide is high.", subject="tide")))
    with Pipeline(tmp_path / "home").running() as pipeline:
        pipeline.ingest(tmp_path / "list.mbox")
        store = pipeline.app.store
        keys = [(name, one.id) for name in store.document_counts() for one in store.states(name)]
        titles = find_titles(pipeline.app, keys)
    assert set(titles) == set(keys), "none is shown by its id alone"
    with_places = {"tasks": "", "reports": "", "archives": "", "versions": ""}
    assert {key[0]: title for key, title in titles.items()} | with_places == {
        "messages": "tide",
        "threads": "tide",
        "chunks": "chunk 1 of tide",
        "summaries": "summary of tide",
        "tasks": "",
        "reports": "",
        "archives": "",
        "versions": "",
    }
    assert titled(("orders", "7"), {}) == "orders/7"
    assert titled(("orders", "7"), {("orders", "7"): "plums"}) == "plums (orders/7)"
