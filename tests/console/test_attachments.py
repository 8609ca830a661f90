"""Console and API list the attachments of a mail, say why one is not read, and never show their content."""

from __future__ import annotations

from pathlib import Path

import pytest

from onward.ops.queries.attachments import safe_name
from onward.pipeline.documents import Message
from onward.pipeline.sources import submit
from tests.support.attached_files import PDF, mail_with, pdf
from tests.support.console_client import Site
from tests.support.pipeline_runs import mbox

REPORT = pdf(["The estuary froze over."])
PAGE = b"<p>Tides</p><script>alert(1)</script>"


@pytest.fixture
def mail(site: Site, tmp_path: Path) -> Message:
    """A mail with a PDF, a page with a script, a damaged PDF and a zip archive."""
    one = mail_with(
        "1",
        ("report.pdf", PDF, REPORT),
        ('..\\evil".html', "text/html", PAGE),
        ("broken.pdf", PDF, b"%PDF-1.4\nnothing more"),
        ("all.zip", "application/zip", b"PK\x03\x04" + bytes(50)),
    )
    archive = tmp_path / "list.mbox"
    archive.write_bytes(mbox(bytes(one)))
    submit(site.app, str(archive))
    site.app.work_until_idle()
    states = site.app.store.states(Message, limit=10)
    found = site.app.store.get_many(Message, [state.id for state in states])
    return next(one for one in found if one.attached_to is None)


def test_the_list_has_the_state_of_each_and_why(site: Site, mail: Message) -> None:
    listed = site.client.get(f"/v3/messages/{mail.id}/attachments").json()["attachments"]
    assert [(one["number"], one["name"], one["state"]) for one in listed] == [
        (1, "report.pdf", "searchable"),
        (2, mail.attachments[1].name, "searchable"),
        (3, "broken.pdf", "failed"),
        (4, "all.zip", "not_read"),
    ]
    assert "damaged" in listed[2]["reason"]
    assert "zip archive" in listed[3]["reason"]
    for path in (f"/documents/messages/{mail.id}", f"/threads/{mail.thread_id}"):
        page = site.client.get(path).text
        for one in listed:
            assert f'href="/attachments/{mail.id}/{one["number"]}"' in page, path
        assert "not readable" in page
        assert "zip archive: what is packed" in page


def test_a_run_counts_them_and_says_why_some_are_not_read(site: Site, mail: Message) -> None:
    (task,) = site.client.get("/v3/tasks").json()["tasks"]
    reasons = {"zip archive: what is packed in an attachment is not read": 1}
    counts = {"total": 3, "searchable": 1, "waiting": 0, "failed": 1, "not_read": 1, "reasons": reasons}
    assert site.client.get(f"/v3/tasks/{task['id']}").json()["attachments"] == counts
    page = site.client.get(f"/tasks/{task['id']}").text
    assert "3 (1 searchable, 1 not read, 1 failed)" in page
    assert "1 × zip archive: what is packed in an attachment is not read" in page


def test_a_run_without_attachments_counts_none(site: Site, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Nothing attached.")
    submit(site.app, str(tmp_path / "a.txt"))
    (task,) = site.client.get("/v3/tasks").json()["tasks"]
    assert site.client.get(f"/v3/tasks/{task['id']}").json()["attachments"] == {}


@pytest.mark.parametrize("path", ("/v3/messages/{}/attachments/{}", "/attachments/{}/{}"))
def test_every_attachment_can_be_saved_and_none_is_shown(site: Site, mail: Message, path: str) -> None:
    for number, content in (
        (1, REPORT),
        (2, PAGE),
        (3, b"%PDF-1.4\nnothing more"),
        (4, b"PK\x03\x04" + bytes(50)),
    ):
        saved = site.client.get(path.format(mail.id, number))
        assert saved.status_code == 200
        assert saved.content.rstrip(b"\n") == content.rstrip(b"\n")
        assert saved.headers["content-type"] == "application/octet-stream"
        assert saved.headers["content-disposition"].startswith('attachment; filename="')
        assert saved.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in saved.headers["content-security-policy"]
        assert not {"\r", "\n", "/", "\\"} & set(saved.headers["content-disposition"].replace("''", ""))


def test_what_is_not_there_is_not_found(site: Site, mail: Message) -> None:
    assert site.client.get(f"/v3/messages/{mail.id}/attachments/5").status_code == 404
    assert site.client.get(f"/v3/messages/{mail.id}/attachments/0").status_code == 422
    assert site.client.get("/v3/messages/nothing/attachments").status_code == 404
    assert site.client.get("/attachments/nothing/1").status_code == 404


def test_a_result_names_the_mail_it_is_attached_to(site: Site, mail: Message) -> None:
    (result, *_) = site.client.get("/v3/search?q=estuary").json()["results"]
    assert result["attached_to"] == {
        "message_id": mail.id,
        "number": 1,
        "name": "report.pdf",
        "subject": "The report",
    }
    page = site.client.get("/search?q=estuary").text
    assert "Attached to" in page
    assert f"/threads/{mail.thread_id}?at={mail.id}" in page


@pytest.mark.parametrize(
    ("name", "safe"),
    (
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\temp\\a.doc", "a.doc"),
        ('a"b;c%.txt', "a_b_c_.txt"),
        ("bericht\u202efdp.exe", "bericht fdp.exe"),
        ("Überblick.pdf", "Überblick.pdf"),
        (".", "attachment"),
        ("", "attachment"),
        ("x" * 300 + ".pdf", "x" * 146 + ".pdf"),
    ),
)
def test_a_name_is_safe_on_every_system(name: str, safe: str) -> None:
    assert safe_name(name) == safe
