"""What is made to take hours is read in moments: no reader looks at the same text again and again."""

from __future__ import annotations

import pytest

from onward.pipeline.read import markup_files, web_pages
from onward.pipeline.read.body_spans import body_spans
from onward.pipeline.read.content_lines import read_contacts
from onward.pipeline.read.mail import read_mail
from onward.pipeline.read.text_files import read_text_file

CARD = "BEGIN:VCARD\nVERSION:2.1\nFN:Ada\nNOTE;ENCODING=QUOTED-PRINTABLE:{}\nEND:VCARD\n"


def test_a_contact_of_many_lines_that_go_on() -> None:
    page = read_contacts(CARD.format("aaa=\n" * 1_000_000).encode())
    assert page.text == "Ada\n" + "aaa" * 1_000_000


def test_contacts_in_the_body_of_a_mail_are_cut_like_those_of_an_attachment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("onward.pipeline.read.mail.MAX_ATTACHMENT_BYTES", 1_000)
    cards = b"BEGIN:VCARD\nFN:Ada\nEND:VCARD\n" * 100
    found = read_mail(b"From: a@b.c\nContent-Type: text/vcard\n\n" + cards)
    assert 30 < found.body.count("Ada") < 40
    assert "text cut at 1 kB" in found.defects


def test_addresses_of_many_dots() -> None:
    header = b"a at " + b"." * 63_000 + b" y, ann at example.com"
    found = read_mail(b"From: " + header + b"\nTo: " + header + b"\nReply-To: " + header + b"\n\nbody" * 9)
    assert found.recipients == ("ann@example.com",)


def test_lines_that_nearly_announce_a_quote() -> None:
    line = "wrote" + " " * 385 + "x 1\n> q\n"
    assert len(body_spans(line * 2_500)) == 5_000


def test_encoded_words_that_do_not_end() -> None:
    inner = b"--b\nContent-Type: message/rfc822\n\nSubject: " + b"=?a?q?x" * 2_250 + b"\n\nbody\n"
    found = read_mail(b"From: a@b.c\nContent-Type: multipart/mixed; boundary=b\n\n" + inner * 900)
    assert len(found.attachments) == 500  # of 1 000 parts


@pytest.mark.parametrize("text", ("# a" + " " * 2_000_000 + "b", "---\ntitle:" + " " * 2_000_000 + "\n---\na"))
def test_headings_of_spaces(text: str) -> None:
    assert read_text_file(text.encode(), "markdown", "notes.md").title in ("notes.md", "a")


def test_spaces_of_a_page_without_an_article(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_pages, "_MAX_ARTICLE_BYTES", 100)
    page = web_pages.read_page(b"<body><p>a" + b" " * 2_000_000 + b"b \n \n\n c</p></body>", "")
    assert page.text.endswith(" b\n\nc")


@pytest.mark.parametrize("command", (r"\title[", r"\section[", r"\label[", r"\end{a}[", r"\item["))
def test_brackets_of_latex_that_are_not_closed(command: str) -> None:
    assert markup_files.read_latex((command * 150_000 + " The end.").encode()).text.endswith("The end.")


def test_fonts_of_manual_pages_that_are_not_closed() -> None:
    assert markup_files.read_man((r"\f[" * 500_000 + "The end.").encode()).text.endswith("The end.")


@pytest.mark.parametrize("tag", ("{\\", "<v a", "<v.", "<v.a "))
def test_tags_of_subtitles_that_are_not_closed(tag: str) -> None:
    assert markup_files.read_subtitles((tag * 500_000 + "The end.").encode()).text.endswith("The end.")
