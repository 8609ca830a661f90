"""A mail is read whatever state it is in: who wrote what to whom and when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward import Permanent
from onward.pipeline.read.mail import Mail, UnreadableMail, read_mail
from tests.pipeline.read.test_quoting import new_text


def with_headers(*lines: bytes) -> Mail:
    return read_mail(b"\n".join((*lines, b"X-End: x", b"", b"body", b"")))


def test_a_plain_mail() -> None:
    mail = read_mail(
        b"Message-ID: <2@example.com>\r\nReferences: <0@example.com>\r\n <1@example.com>\r\n"
        b"In-Reply-To: <1@example.com>\r\nFrom: Ann Lee <Ann@Example.com>\r\n"
        b"To: joe@example.com, list@example.com\r\nCC: Joe <JOE@example.com>\r\n"
        b"Subject: Re: the\r\n plan\r\nDate: Fri, 14 Jul 2023 11:57:01 +0200\r\n\r\n"
        b"Joe wrote:\r\n> So?\r\n\r\nYes.\r\n-- \r\nAnn\r\n"
    )
    assert mail.message_id == "2@example.com"
    assert mail.references == ("0@example.com", "1@example.com")
    assert (mail.author, mail.author_email) == ("Ann Lee", "ann@example.com")
    assert mail.recipients == ("joe@example.com", "list@example.com")
    assert (mail.subject, mail.date) == ("Re: the plan", 1689328621.0)
    assert mail.body == "Joe wrote:\n> So?\n\nYes.\n-- \nAnn\n"
    assert [kind for kind, _, _ in mail.spans] == ["quote", "new", "signature"]
    assert new_text(mail.body, mail.spans) == "Yes."
    assert (mail.attachments, mail.defects) == ((), ())


@pytest.mark.parametrize("raw", (b"", b"\n\n", b"Hello, no header here.\n\nText", b"\0\1\2\xff" * 100))
def test_bytes_without_a_header_are_no_mail_and_will_never_be(raw: bytes) -> None:
    with pytest.raises(UnreadableMail, match="no headers") as caught:
        read_mail(raw)
    assert isinstance(caught.value, Permanent)


@pytest.mark.parametrize(
    ("header", "subject"),
    (
        (b"=?utf-8?Q?Gr=C3=BC=C3=9Fe_an_alle?=", "Grüße an alle"),
        (b"=?UTF-8?B?R3LDvMOfZQ==?=", "Grüße"),
        (b"=?UTF-8?B?R3LDvMOfZQ?= no padding", "Grüße no padding"),
        (b"=?utf-8?q?split_in_a_=E2=82?= =?utf-8?q?=AC_sign?=", "split in a € sign"),
        (b"=?iso-8859-1?q?caf=E9?= and =?utf-8?q?th=C3=A9?=", "café and thé"),
        (b"=?utf-8*en?q?with_language?=", "with language"),
        (b"=?utf-8?q?spaces inside?=", "spaces inside"),
        (b"a=?utf-8?q?glued?=b", "agluedb"),
        (b"=?utf-8?q?never closed", "=?utf-8?q?never closed"),
        (b"=?utf-8?x?unknown?=", "=?utf-8?x?unknown?="),
        (b"=?klingon?q?caf=C3=A9?=", "café"),
        (b"=?gb2312?B?xOO6ww==?=", "你好"),
        ("raw grüße".encode(), "raw grüße"),
        ("raw grüße".encode("latin-1"), "raw grüße"),
        (b"=?utf-8?q?inject=0D=0ABcc:_all=40example.com?=", "inject Bcc: all@example.com"),
        (b"tabs\tand\n\tfolds\x0b\x1b[31m", "tabs and folds [31m"),
        (b"nul\0here", "nul\ufffdhere"),
        (b"turned \xe2\x80\xaearound", "turned around"),
        (b"x" * 100_000, "x" * 2_000),
    ),
)
def test_a_subject_is_one_readable_line(header: bytes, subject: str) -> None:
    assert with_headers(b"Subject: " + header).subject == subject


@pytest.mark.parametrize(
    ("header", "author", "address"),
    (
        (b"joe@example.com", "joe@example.com", "joe@example.com"),
        (b"<joe@example.com>", "joe@example.com", "joe@example.com"),
        (b'"Smith, Joe" <joe@example.com>', "Smith, Joe", "joe@example.com"),
        (b'"Joe \\"the\\" Smith" <joe@example.com>', 'Joe "the" Smith', "joe@example.com"),
        (b"joe@example.com (Joe (the) Smith)", "Joe (the) Smith", "joe@example.com"),
        (b"joe at example.com (Joe Smith)", "Joe Smith", "joe@example.com"),
        (b"=?utf-8?q?J=C3=B6?= <jo@example.com>", "Jö", "jo@example.com"),
        (b"=?utf-8?q?Joe_=3Cjoe=40example=2Ecom=3E?=", "Joe", "joe@example.com"),
        (b"=?utf-8?q?x=2C_evil=40example=2Ecom?= <joe@example.com>", "x, evil@example.com", "joe@example.com"),
        (b"Joe Smith", "Joe Smith", ""),
        (b"Joe <joe@example.com", "Joe", "joe@example.com"),
        (b"Joe <@relay,@other:joe@example.com>", "Joe", "joe@example.com"),
        (b"(" * 3000, "", ""),
        (b"", "", ""),
    ),
)
def test_an_author_has_a_name_and_an_address(header: bytes, author: str, address: str) -> None:
    mail = with_headers(b"From: " + header)
    if header.startswith(b"(("):
        assert mail.author_email == ""
    else:
        assert (mail.author, mail.author_email) == (author, address)


@pytest.mark.parametrize(
    ("header", "recipients"),
    (
        (b"undisclosed-recipients:;", ()),
        (
            b"The team: ann@example.com, joe@example.com; boss@example.com",
            ("ann@example.com", "joe@example.com", "boss@example.com"),
        ),
        (b"a@example.com,, ,b@example.com,", ("a@example.com", "b@example.com")),
        (b"A@example.com, a@EXAMPLE.com", ("a@example.com",)),
        (b'"a,b" <ab@example.com>; c@example.com', ("ab@example.com", "c@example.com")),
        (b"nobody, <>", ()),
    ),
)
def test_recipients_are_addresses(header: bytes, recipients: tuple[str, ...]) -> None:
    assert with_headers(b"To: " + header).recipients == recipients


@pytest.mark.parametrize(
    ("lines", "message_id", "references"),
    (
        ((b"Message-ID: <a@b>",), "a@b", ()),
        ((b"Message-ID: a@b",), "a@b", ()),
        ((b"message-id:\n <a\n b@c>",), "ab@c", ()),
        ((b"Message-ID: =?utf-8?q?=3Ca=40b=3E?=",), "a@b", ()),
        ((), "", ()),
        ((b"References: <1@x> <2@x> <1@x>", b"In-Reply-To: <3@x>"), "", ("1@x", "2@x", "3@x")),
        ((b"References: 1@x junk 2@x",), "", ("1@x", "2@x")),
        ((b"In-Reply-To: Joe <joe@x> wrote <1@x>",), "", ("1@x",)),
        ((b"In-Reply-To: <1@x> (message from joe <joe@x>)",), "", ("1@x",)),
        ((b"Message-ID: <1@x>", b"References: <0@x> <1@x>"), "1@x", ("0@x",)),
        ((b"Message-ID: <1@x>", b"Message-ID: <2@x>"), "1@x", ()),
    ),
)
def test_ids_and_references(lines: tuple[bytes, ...], message_id: str, references: tuple[str, ...]) -> None:
    mail = with_headers(*lines)
    assert (mail.message_id, mail.references) == (message_id, references)


def test_of_endless_references_the_first_and_the_last_are_kept() -> None:
    references = with_headers(b"References: " + b" ".join(b"<%d@x>" % i for i in range(5000))).references
    assert (references[0], references[-1], len(references)) == ("0@x", "4999@x", 200)


@pytest.mark.parametrize(
    ("lines", "date", "defect"),
    (
        ((b"Date: Fri, 14 Jul 2023 09:57:01 GMT",), 1689328621.0, ""),
        ((b"Date: 14 Jul 2023 09:57:01 (no zone)",), 1689328621.0, ""),
        ((b"Date: yesterday",), None, "bad date 'yesterday'"),
        ((b"Date: Thu, 1 Jan 1970 00:00:00 +0000",), None, "bad date"),
        ((b"Date: Thu, 1 Jan 9999 00:00:00 +0000",), None, "bad date"),
        ((b"Date: Thu, 99 Foo 2023 99:99:99 +9999",), None, "bad date"),
        ((b"Date: " + b"9" * 10_000,), None, "bad date"),
        ((), None, "no date"),
        (
            (
                b"Received: by x; Fri, 14 Jul 2023 09:57:01 +0000",
                b"Received: by y; Thu, 13 Jul 2023 09:57:01 +0000",
            ),
            1689328621.0,
            "no date",
        ),
    ),
)
def test_a_date_makes_sense_or_is_none(lines: tuple[bytes, ...], date: float | None, defect: str) -> None:
    mail = with_headers(*lines)
    assert mail.date == date
    assert any(one.startswith(defect) for one in mail.defects) if defect else not mail.defects


def test_headers_end_where_they_must() -> None:
    assert read_mail(b"Subject: x\nNo empty line here.\n").body == "No empty line here.\n"
    junk = read_mail(b"Subject: x\njunk that was folded badly\nMessage-ID: <1@x>\n\nbody")
    assert (junk.message_id, junk.body) == ("1@x", "body")
    assert "junk among the headers" in junk.defects
    assert read_mail(b"first line lost\nFrom: joe@example.com\nSubject: x\n\nbody").subject == "x"
    assert read_mail(b"From joe Fri Jul 14 09:57:01 2023\nSubject: x\n\nbody").subject == "x"
    assert read_mail(b"Subject: old\rFrom: mac@x\r\rone\rtwo").body == "one\ntwo"


def test_a_flood_of_headers_is_cut() -> None:
    mail = read_mail(b"Subject: x\n" + b"X-Flood: y\n" * 100_000 + b"\nbody")
    assert (mail.subject, mail.body) == ("x", "body")
    assert "headers larger than 256 kB" in mail.defects


HEADERS = [
    b"From: ",
    b"To: ",
    b"Subject: ",
    b"Date: ",
    b"Message-ID: ",
    b"References: ",
    b"In-Reply-To: ",
    b"Received: ",
]
MIME = [
    b"Content-Type: multipart/mixed; boundary=b\n",
    b"Content-Type: multipart/alternative; boundary=b\n",
    b"Content-Type: text/html\n",
    b"Content-Type: message/rfc822\n",
    b"Content-Type: text/plain; charset=",
    b"Content-Transfer-Encoding: base64\n",
    b"Content-Transfer-Encoding: quoted-printable\n",
    b"Content-Transfer-Encoding: x-uuencode\n",
    b"begin 644 x\n",
    b"--b\n",
    b"--b--\n",
    b"Content-Disposition: attachment; filename*0*=utf-8''%ff",
]
SCRAPS = [
    b"\n",
    b"\n\n",
    b"\r\n",
    b" ",
    b"\t",
    b"<a@b>",
    b'"',
    b"(",
    b"<",
    b">",
    b",",
    b":",
    b";",
    b"=?utf-8?q?=ff?=",
    b"=?x?b?Q?=",
    b"utf-7\n",
    b"+2AA-",
    b"\xff\xfe",
    b"\0",
    b"<p>x",
    b"</p>",
    b"<blockquote>",
    b"> x\n",
    b"-- \n",
    b"=",
    b"QUJD",
    b"M",
    b"unicode_escape\n",
    b"\\ud800",
]


@given(st.lists(st.sampled_from(HEADERS + MIME + SCRAPS), max_size=40).map(b"".join) | st.binary())
def test_any_bytes_give_a_mail_that_can_be_stored_or_are_unreadable(raw: bytes) -> None:
    try:
        mail = read_mail(b"A: b\n" + raw)
    except UnreadableMail:
        pytest.fail("there was a header")
    texts = [
        mail.message_id,
        mail.subject,
        mail.author,
        mail.author_email,
        *mail.references,
        *mail.recipients,
        *mail.defects,
    ]
    for attachment in mail.attachments:
        texts += [attachment.name, attachment.content_type]
    assert not any(mark in text for text in texts for mark in "\r\n\0")
    everything = "".join([*texts, mail.body, *(attachment.text or "" for attachment in mail.attachments)])
    assert everything.encode().decode() == everything
    assert "\0" not in everything
    assert "".join(mail.body[start:end] for _, start, end in mail.spans) == mail.body
