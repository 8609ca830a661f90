"""The parts of a mail: its text is found in any of their shapes, files are listed, and bombs are defused."""

from __future__ import annotations

import base64
from email.message import EmailMessage

import pytest

from onward.pipeline.read.html_text import html_to_text, text_between_tags
from onward.pipeline.read.mail import Mail, read_mail


def multipart(kind: str, *parts: bytes) -> bytes:
    inside = b"".join(b"--b\n" + part + b"\n" for part in parts)
    return (
        f"Subject: x\nContent-Type: multipart/{kind}; boundary=b\n\npreamble\n".encode()
        + inside
        + b"--b--\nepilogue\n"
    )


PLAIN = b"Content-Type: text/plain\n\nHello, plain."
HTML = b"Content-Type: text/html\n\n<p>Hello, <b>HTML</b>.</p>"


def text(charset: str, data: bytes, encoding: str = "8bit") -> Mail:
    head = f"Content-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: {encoding}\n\n"
    return read_mail(head.encode() + data)


@pytest.mark.parametrize(
    ("charset", "data", "expected", "defect"),
    (
        ("utf-8", "Grüße".encode(), "Grüße", ""),
        ("iso-8859-1", b"it\x92s", "it’s", ""),
        ("gb2312", "你好镕".encode("gb18030"), "你好镕", ""),
        ("iso-2022-jp", "こんにちは".encode("iso-2022-jp"), "こんにちは", ""),
        ("us-ascii", "Grüße".encode(), "Grüße", ""),
        ("'utf-8'", "Grüße".encode(), "Grüße", ""),
        ("x-unknown", "Grüße".encode(), "Grüße", "unknown charset 'x-unknown'"),
        ("unicode_escape", rb"\ud800 \q", r"\ud800 \q", "unknown charset"),
        (
            "utf-8",
            b"damaged \xff " + b"long text " * 20,
            "damaged \ufffd " + "long text " * 20,
            "bytes that are not utf-8",
        ),
        ("utf-8", b"nul \0", "nul \ufffd", ""),
    ),
)
def test_text_in_any_charset(charset: str, data: bytes, expected: str, defect: str) -> None:
    mail = text(charset, data)
    assert mail.body.rstrip("\n") == expected.rstrip("\n")
    assert any(one.startswith(defect) for one in mail.defects)
    assert bool(defect) == (len(mail.defects) > 1)  # besides that it has no date


def test_text_without_a_charset_is_what_it_looks_like() -> None:
    russian = "Привет, как дела? Это сообщение написано по-русски."
    assert read_mail(b"Subject: x\n\n" + russian.encode()).body.strip() == russian
    assert read_mail(b"Subject: x\n\n" + russian.encode("koi8-r")).body.strip() == russian


@pytest.mark.parametrize(
    ("encoding", "data", "expected"),
    (
        ("base64", base64.b64encode(b"Hello there"), "Hello there"),
        ("base64", b"SGVsbG8gdGhlcmU", "Hello there"),
        ("base64", b"SGVsbG8gdGhlcmU=\n____\nA list footer, not encoded.\n", "Hello there"),
        ("base64", b"SGVsbG8g\n!!!!\ndGhlcmU=\n", "Hello there"),
        ("quoted-printable", b"a=3Db =\nc =XY =", "a=b c =XY ="),
        ("x-uuencode", b"begin 644 x\n+2&5L;&\\@=&AE<F4`\n`\nend\n", "Hello there"),
        ("x-uuencode", b"not encoded", "not encoded"),
        ("8bit; odd", b"plain", "plain"),
        ("rot13", b"plain", "plain"),
    ),
)
def test_a_damaged_transfer_encoding_gives_what_decodes(encoding: str, data: bytes, expected: str) -> None:
    body = text("utf-8", data, encoding).body
    assert body.rstrip("=\n") == expected.rstrip("=\n")


def test_of_alternatives_the_plain_one_is_read() -> None:
    assert read_mail(multipart("alternative", PLAIN, HTML)).body.strip() == "Hello, plain."
    assert read_mail(multipart("alternative", HTML, PLAIN)).body.strip() == "Hello, plain."


@pytest.mark.parametrize("plain", (b"", b" \n ", b"Use a modern program to read this."))
def test_unless_the_plain_one_says_nothing(plain: bytes) -> None:
    html = b"Content-Type: text/html\n\n" + b"<p>A long letter.</p>" * 40
    assert read_mail(multipart("alternative", b"Content-Type: text/plain\n\n" + plain, html)).body.startswith(
        "A long letter."
    )


LONG_PLAIN = b"Content-Type: text/plain\n\n" + b"A long letter. " * 40


def test_a_file_among_alternatives_is_listed() -> None:
    page = b"Content-Type: text/html\nContent-Disposition: attachment; filename=extra.html\n\n<p>An extra.</p>"
    mail = read_mail(multipart("alternative", LONG_PLAIN, page, HTML))
    assert mail.body.strip() == ("A long letter. " * 40).strip()
    assert [(one.name, one.text) for one in mail.attachments] == [("extra.html", "An extra.")]


def test_a_named_plain_text_among_alternatives_is_listed() -> None:
    notes = b'Content-Type: text/plain; name="notes.txt"\n\nA note.'
    mail = read_mail(multipart("alternative", PLAIN, HTML, notes))
    assert mail.body.strip() == "Hello, plain."
    assert [(one.name, one.text) for one in mail.attachments] == [("notes.txt", "A note.")]


def test_all_plain_texts_of_alternatives_are_read() -> None:
    second = b"Content-Type: text/plain\n\nA second text."
    mail = read_mail(multipart("alternative", PLAIN, second, HTML))
    assert mail.body.split("\n") == ["Hello, plain.", "", "A second text."]
    again = read_mail(multipart("alternative", PLAIN, PLAIN, HTML))
    assert again.body.strip() == "Hello, plain."


@pytest.mark.parametrize("start", (b"%PDF-1.4\n", b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"{\\rtf1 "))
@pytest.mark.parametrize(
    "content_type",
    (
        *(b"text/plain; name=report.txt", b"text/plain", b"text/pdf", b"text/html", b"application/json"),
        b"application/octet-stream; name=report.txt",
    ),
)
def test_a_file_that_is_sent_as_text_is_a_file(start: bytes, content_type: bytes) -> None:
    data = start + b"some data " * 50
    head = b"Content-Type: " + content_type + b"\nContent-Transfer-Encoding: base64\n\n"
    part = head + base64.encodebytes(data)
    for mail in (
        read_mail(multipart("mixed", PLAIN, part)),
        read_mail(multipart("alternative", PLAIN, part)),
        read_mail(b"Subject: x\n" + part),
    ):
        assert mail.body.strip() in ("Hello, plain.", "")
        (file,) = mail.attachments
        assert (file.text, file.content) == (None, data)


def test_texts_in_a_row_are_one_body() -> None:
    footer = b"\n" + b"_" * 40 + b"\nx mailing list\n"
    mail = read_mail(multipart("mixed", PLAIN, HTML, footer))
    assert mail.body.startswith("Hello, plain.\n\nHello, HTML.\n\n____")
    assert mail.spans[-1][0] == "signature"


def test_files_are_listed_and_read_where_they_are_text() -> None:
    message = EmailMessage()
    message["From"] = "joe@example.com"
    message.set_content("See attached.")
    message.add_attachment("a;b\n1;2\n", subtype="csv", filename="täble.csv")
    message.add_attachment("+ new\n", subtype="x-patch", filename="0001-fix.patch", disposition="inline")
    message.add_attachment(b"int x;\n", maintype="application", subtype="octet-stream", filename="x.c")
    message.add_attachment(b"\x89PNG\0", maintype="image", subtype="png", filename="x.png")
    mail = read_mail(message.as_bytes())
    assert mail.body.strip() == "See attached."
    assert [(one.name, one.content_type, one.text) for one in mail.attachments] == [
        ("täble.csv", "text/csv", "a;b\n1;2\n"),
        ("0001-fix.patch", "text/x-patch", "+ new\n"),
        ("x.c", "application/octet-stream", "int x;\n"),
        ("x.png", "image/png", None),
    ]
    assert mail.attachments[3].size == 5


INVITATION = (
    b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nSUMMARY:Dredging\\, part two\r\n"
    b"DESCRIPTION:The harbour mas\r\n ter comes.\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
)
INVITED = "Dredging, part two\nThe harbour master comes."


@pytest.mark.parametrize(
    ("head", "data", "text"),
    (
        (b"text/calendar; method=REQUEST", INVITATION, INVITED),
        (b"application/octet-stream; name=invite.ics", INVITATION, INVITED),
        (b"text/calendar", b"The calendar is not here.", "The calendar is not here."),
        (b"text/x-vcard", b"BEGIN:VCARD\nFN:Ada Quill\nEND:VCARD\n", "Ada Quill"),
    ),
)
def test_calendars_and_contacts_are_read_as_people_see_them(head: bytes, data: bytes, text: str) -> None:
    part = b"Content-Type: " + head + b"\n\n" + data
    assert read_mail(multipart("mixed", PLAIN, part)).attachments[0].text == text
    if head.startswith(b"text/"):
        assert read_mail(b"Subject: x\n" + part).body.strip() == text


@pytest.mark.parametrize("charset", ("idna", "punycode", "no-such-charset", "hex", ""))
def test_the_name_of_a_file_is_read_whatever_its_charset_is_called(charset: str) -> None:
    raw = (
        "From: ada@example.org\nContent-Type: multipart/mixed; boundary=b\n\n"
        f"--b\nContent-Type: application/pdf\nContent-Disposition: attachment; filename*={charset}''x%20y.pdf\n\n"
        "data\n--b--\n"
    )
    assert [one.name for one in read_mail(raw.encode()).attachments] == ["x y.pdf"]


def test_the_text_of_a_large_file_is_cut() -> None:
    part = b"Content-Type: text/csv; charset=utf-8\n\n" + "é".encode() * 600_000
    (attachment,) = read_mail(multipart("mixed", part)).attachments
    assert (attachment.size, attachment.text) == (1_200_000, "é" * 500_000)


def test_the_text_of_a_large_mail_within_a_mail_is_cut_and_says_so() -> None:
    inner = b"Content-Type: message/rfc822\n\nSubject: inner\n\n" + b"x" * 1_000_001
    mail = read_mail(multipart("mixed", PLAIN, inner))
    assert len(mail.attachments[0].text or "") == 1_000_000
    assert "text cut at 1000 kB" in mail.defects


def test_a_mail_within_a_mail_is_a_file_that_can_be_read() -> None:
    inner = b"Content-Type: message/rfc822\n\nSubject: inner\nFrom: Ann <ann@example.com>\n\nInner text.\n"
    mail = read_mail(multipart("mixed", PLAIN, inner))
    (attachment,) = mail.attachments
    assert (attachment.name, attachment.content_type) == ("inner", "message/rfc822")
    assert attachment.text is not None
    assert attachment.text.split("\n")[:4] == ["Subject: inner", "From: Ann <ann@example.com>", "", "Inner text."]
    digest = read_mail(multipart("digest", b"\nSubject: one\n\nText one."))
    assert [one.name for one in digest.attachments] == ["one"]


def test_signed_and_encrypted_mail() -> None:
    signature = b"Content-Type: application/pgp-signature; name=signature.asc\n\n-----BEGIN PGP SIGNATURE-----\n"
    signed = read_mail(multipart("signed", PLAIN, signature))
    assert (signed.body.strip(), [one.text for one in signed.attachments]) == ("Hello, plain.", [None])
    encrypted = read_mail(multipart("encrypted", b"Content-Type: application/pgp-encrypted\n\nVersion: 1"))
    assert encrypted.body == ""
    assert "encrypted" in encrypted.defects


@pytest.mark.parametrize(
    ("parameters", "oid", "defect"),
    (
        (b"; smime-type=signed-data", 2, "signed: its text is inside of a signature that is not read"),
        (b"; name=smime.p7m", 2, "signed: its text is inside of a signature that is not read"),
        (b"; smime-type=enveloped-data; name=smime.p7m", 3, "encrypted"),
        (b"", 3, "encrypted"),
    ),
)
def test_a_mail_inside_of_a_signature_is_signed_and_not_encrypted(
    parameters: bytes, oid: int, defect: str
) -> None:
    data = b"0\x80\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07" + bytes([oid]) + bytes(200)
    head = b"Content-Type: application/pkcs7-mime" + parameters + b"\nContent-Transfer-Encoding: base64\n\n"
    mail = read_mail(b"From: a@b.c\n" + head + base64.encodebytes(data))
    assert mail.body == ""
    assert mail.defects == (defect, "no date")


def test_broken_multiparts_keep_their_text() -> None:
    head = b"Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n"
    assert read_mail(head + b"--b\n\nNever closed.\n").body == "Never closed.\n"
    assert read_mail(head + b"No boundary.\n").body == "No boundary.\n"
    assert read_mail(b"Subject: x\nContent-Type: multipart/mixed\n\nNone declared.\n").body == "None declared.\n"
    assert (
        read_mail(b"Subject: x\nContent-Type: nonsense\n\nText").attachments[0].content_type
        == "application/octet-stream"
    )
    assert read_mail(b"Subject: x\nContent-Type: text\n\nText").body == "Text"


def test_nesting_and_parts_are_bounded() -> None:
    nested = b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (i, i) for i in range(10_000))
    assert "nested deeper than 50" in read_mail(nested + b"\nhi").defects
    assert "nested deeper than 50" in read_mail(b"Content-Type: message/rfc822\n\n" * 10_000).defects
    many = read_mail(multipart("mixed", *[b"Content-Type: image/png\n\nx"] * 5_000))
    assert "more than 1000 parts" in many.defects
    assert len(many.attachments) < 1_000


@pytest.mark.parametrize(
    ("html", "expected"),
    (
        ("<p>One</p><p>Two</p>", "One\n\nTwo"),
        ("a<br>b<br/>c", "a\nb\nc"),
        ("<div>a</div><div><div>b</div></div>", "a\nb"),
        ("<head><title>t</title><style>s</style></head><script>x</script>text", "text"),
        ("Tom &amp; Jerry &lt;3&nbsp;&eacute;", "Tom & Jerry <3 é"),
        ("see <a href='https://example.com'>the page</a>.", "see the page."),
        ("yes<blockquote><p>no</p><blockquote>old</blockquote></blockquote>ok", "yes\n\n> no\n>\n> > old\n\nok"),
        ("<ul><li>a<li><p>b</p></ul>", "- a\n- b"),
        ("<pre>a  b\n  c</pre>", "a  b\n  c"),
        ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", "a b\nc"),
        ("<div style='display: none'>hidden</div>shown<img alt=x><!-- no -->", "shown"),
        ("a\n   b\tc", "a b c"),
        ("", ""),
    ),
)
def test_html_becomes_readable_text(html: str, expected: str) -> None:
    assert "\n".join(line.rstrip() for line in html_to_text(html).split("\n")) == expected


@pytest.mark.parametrize("tag", ("<div>", "<b>", "<font><p>", "<blockquote>", "<table>", "<ul><li>"))
def test_html_that_no_browser_would_show_still_gives_its_text(tag: str) -> None:
    assert "words" in html_to_text(tag * 100_000 + "words")
    assert "words" in html_to_text("<p " + " ".join(f"a{i}=b" for i in range(50_000)) + ">words")


def test_quotes_in_html_are_quotes() -> None:
    html = b"Subject: x\nContent-Type: text/html\n\nYes.<br>On Fri, Joe wrote:<br><blockquote>So?</blockquote>Bye."
    mail = read_mail(html)
    assert [(kind, mail.body[start:end].strip()) for kind, start, end in mail.spans] == [
        ("new", "Yes."),
        ("quote", "On Fri, Joe wrote:\n\n> So?"),
        ("new", "Bye."),
    ]


def test_a_number_of_thousands_of_digits_is_no_character() -> None:
    text = text_between_tags(f"a<p>&#{'9' * 5_000};&#00065;&#x{'f' * 5_000};&amp;b")
    assert text == "a\n\ufffdA\ufffd&b"
