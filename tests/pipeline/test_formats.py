"""A file of each format is read by its content, with its title, author and date, or fails alone."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onward import Permanent
from onward.ops.queries.ingestion_report import read_ingestion_report
from onward.pipeline.documents import Archive, Message
from onward.pipeline.fetch.office_formats import OLE_START, office_format
from onward.pipeline.read import message_reader
from onward.pipeline.read.file_readers import FileToRead, read_content
from onward.pipeline.read.limited_reader import NoReaderProcess
from onward.pipeline.read.page_text import PageText, UnreadableFile
from onward.pipeline.read.web_pages import read_page
from onward.pipeline.stages import reading
from tests.support.format_samples import (
    SENTENCES,
    docx,
    open_document,
    samples,
    unzipped,
    word_paragraph,
    xlsx,
    zipped,
)
from tests.support.outlook_files import ole_file
from tests.support.pipeline_runs import Pipeline, mail, mbox

KINDS = {
    "word": "docx odt rtf", "spreadsheet": "xlsx xlsb ods csv tsv", "slides": "pptx odp", "ebook": "epub",
    "notebook": "ipynb", "calendar": "ics", "contacts": "vcf", "latex": "tex", "man": "1",
    "subtitles": "srt vtt", "code": "json jsonl",
}  # fmt: skip
KIND_OF = {f"a.{suffix}": kind for kind, suffixes in KINDS.items() for suffix in suffixes.split()}
UNTITLED = {"a.xlsb", "a.csv", "a.tsv", "a.srt", "a.json", "a.jsonl"}  # formats without a place for a title
DATED = {"a.docx", "a.odt", "a.ods", "a.odp", "a.xlsx", "a.pptx", "a.ics", "a.1"}
DATES = (1772445600.0, 1772409600.0)  # 2 March 2026, at ten and at midnight


def read(name: str, data: bytes) -> PageText:
    return read_content(FileToRead(KIND_OF[name], name), data)


def test_a_folder_with_a_file_of_each_format_is_read(pipeline: Pipeline, folder: Path) -> None:
    for name, data in samples().items():
        (folder / name).write_bytes(data)
    pipeline.ingest(folder)
    pipeline.check_at_rest()
    messages = {one.path: one for one in pipeline.all(Message)}
    assert {name: SENTENCES[name] in one.body for name, one in messages.items()} == dict.fromkeys(SENTENCES, True)
    assert {name: one.kind for name, one in messages.items()} == KIND_OF


@pytest.mark.parametrize("name", sorted(SENTENCES))
def test_its_content_says_what_it_says_about_itself(name: str) -> None:
    page = read(name, samples()[name])
    assert SENTENCES[name] in page.text
    titles = {"a.1": "tide(1)", "a.json": "a.json", "a.jsonl": "a.jsonl"}
    assert page.title == titles.get(name, "" if name in UNTITLED else "Tide tables")
    assert page.author in ("", "Ada Quill", "Ada Quill <ada@example.org>")
    assert page.date in (DATES if name in DATED else (None,))


@pytest.mark.parametrize("name", ("a.docx", "a.odt", "a.xlsx", "a.ods", "a.pptx", "a.odp", "a.epub"))
@pytest.mark.parametrize("other", ("file", "a.zip", "b.docx"))
def test_the_content_decides_and_no_office_file_is_unpacked(
    name: str, other: str, pipeline: Pipeline, folder: Path
) -> None:
    (folder / other).write_bytes(samples()[name])
    pipeline.ingest(folder)
    (message,) = pipeline.all(Message)
    assert (message.path, message.kind) == (other, KIND_OF[name])
    assert SENTENCES[name] in message.body


def test_an_office_file_in_a_container_is_read(pipeline: Pipeline, folder: Path) -> None:
    data = samples()["a.docx"]
    for _ in range(3):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("inner.docx" if b"word/document" in data[:2000] and _ == 0 else "inner.zip", data)
        data = packed.getvalue()
    (folder / "outer.zip").write_bytes(data)
    pipeline.ingest(folder)
    (message,) = pipeline.all(Message)
    assert (message.path, message.kind) == ("outer.zip/inner.zip/inner.zip/inner.docx", "word")


@pytest.mark.parametrize(
    ("name", "data", "error"),
    (
        (
            "a.docx",
            b"just text",
            "'a.docx' claims to be an office file or e-book, but its content is something else",
        ),
        ("a.docx", zipped({"notes.txt": "x"}), "'a.docx' claims .* a zip archive of other files"),
        ("a.xls", OLE_START + b"\0" * 600, "'a.xls' claims .* another OLE file"),
        (
            "a.xls",
            ole_file({"Workbook": b"x" * 9_000})[:6_000],
            "'a.xls' is damaged or cut off \\(its table of contents is missing\\)",
        ),
        ("a.epub", b"%PDF-1.4\n", "'a.epub' claims .* a PDF"),
        ("a.docx", samples()["a.docx"][:900], "'a.docx' is damaged or cut off"),
        (
            "a.doc",
            OLE_START + b"\0" * 504 + "EncryptedPackage".encode("utf-16-le") + b"\0" * 96,
            "'a.doc' needs a password; save a copy without one",
        ),
    ),
)
def test_an_office_file_that_is_none_says_what_it_is(
    name: str, data: bytes, error: str, pipeline: Pipeline, folder: Path
) -> None:
    (folder / name).write_bytes(data)
    (folder / "note.txt").write_text("A note.")
    pipeline.ingest(folder)
    (trouble,) = read_ingestion_report(pipeline.app, pipeline.source(folder), {}).troubles
    assert trouble.count == 1
    assert re.search(error, trouble.error)
    assert "note.txt" in pipeline.messages()


def test_all_text_of_a_word_file_is_read_once() -> None:
    w = word_paragraph
    table = f"<w:tbl><w:tr><w:tc>{w('ship')}</w:tc><w:tc>{w('R&amp;D 5 &lt; 6')}</w:tc></w:tr></w:tbl>"
    box = (
        '<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006">'
        f"<mc:Choice>{w('in a box')}</mc:Choice><mc:Fallback>{w('in a box')}</mc:Fallback></mc:AlternateContent>"
    )
    deleted = "<w:p><w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>"
    data = docx(
        f"{w('Body')}{table}{box}{deleted}",
        footnotes=w("a footnote"),
        comments=w("a comment"),
        header1=w("the header"),
        header2=w("the header"),
        footer1=w("the footer"),
    )
    text = read("a.docx", data).text
    for part in ("Body", "ship | R&D 5 < 6", "in a box", "a footnote", "a comment", "the header", "the footer"):
        assert text.count(part) == 1, part
    assert "gone" not in text


def test_a_note_and_spaces_of_an_open_document() -> None:
    body = (
        "<text:p>Tide<text:s text:c='3'/>table<text:note><text:note-citation>1</text:note-citation>"
        "<text:note-body><text:p>at springs</text:p></text:note-body></text:note> of "
        "<text:span>March</text:span></text:p>"
        "<text:tracked-changes><text:p>gone</text:p></text:tracked-changes>"
    )
    assert read("a.odt", open_document("text", body)).text == "Tide   table [at springs] of March"


def test_entities_of_a_document_are_not_resolved() -> None:
    bomb = "<!DOCTYPE x [<!ENTITY a 'boom'><!ENTITY b SYSTEM 'file:///etc/passwd'>]>"
    members = {"mimetype": "application/vnd.oasis.opendocument.text"}
    content = f"<?xml version='1.0'?>{bomb}<x><p>calm &a;&b;</p></x>"
    text = read("a.odt", zipped({**members, "content.xml": content})).text
    assert text.startswith("calm")
    assert "root:" not in text
    assert "boom" not in text


@pytest.mark.parametrize(
    "body",
    (
        word_paragraph("first") + "<w:sdt>" * 300 + "</w:sdt>" * 300 + word_paragraph("last"),
        word_paragraph("first") + word_paragraph("x" * 10_500_000) + word_paragraph("last"),
        word_paragraph("first") + "<w:p><w:r",
    ),
    ids=("too deep", "too long", "cut off"),
)
def test_a_word_file_whose_parser_gives_up_says_that_text_may_be_missing(body: str) -> None:
    page = read("a.docx", docx(body))
    assert page.text.startswith("first")
    assert "last" not in page.text
    (defect,) = page.defects
    assert re.match(r"word/document\.xml is damaged from line \d+ on .*: text may be missing", defect)


def test_what_follows_a_comment_or_an_entity_is_read() -> None:
    text = "<w:p><w:r><w:t>one <!-- no -->two <?no no?>three &no; four</w:t></w:r></w:p>"
    assert read("a.docx", docx(text)).text == "one two three  four"
    assert read("a.odt", open_document("text", "<text:p>one <!-- no -->two</text:p>")).text == "one two"


def test_tab_stops_are_no_text_and_a_hyphen_that_does_not_break_is_one() -> None:
    stops = "<w:pPr><w:tabs><w:tab w:val='left'/></w:tabs></w:pPr>"
    body = f"<w:p>{stops}<w:r><w:t>Go</w:t><w:tab/><w:t>by e</w:t><w:noBreakHyphen/><w:t>mail</w:t></w:r></w:p>"
    assert read("a.docx", docx(body)).text == "Go\tby e-mail"


def test_a_document_with_a_password_says_so() -> None:
    members = {
        "mimetype": "application/vnd.oasis.opendocument.text",
        "content.xml": "no XML at all",
        "META-INF/manifest.xml": "<x><manifest:encryption-data/></x>",
    }
    with pytest.raises(UnreadableFile, match="needs a password; save a copy without one"):
        read("a.odt", zipped(members))


def with_parts(data: bytes, parts: dict[str, str]) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return zipped({name: file.read(name).decode() for name in file.namelist()} | parts)


@pytest.mark.parametrize(
    ("name", "part"),
    (
        ("a.xlsx", "xl/comments1.xml"),
        ("a.xlsx", "xl/drawings/drawing1.xml"),
        ("a.pptx", "ppt/comments/comment1.xml"),
        ("a.pptx", "ppt/comments/modernComment_7.xml"),
        ("a.pptx", "ppt/diagrams/data1.xml"),
        ("a.docx", "word/diagrams/data1.xml"),
    ),
)
def test_comments_and_what_is_drawn_beside_cells_and_slides_are_read(name: str, part: str) -> None:
    beside = "<x><author>Ada</author><text><r><t>The grebe</t></r><r><t>has a remark.</t></r></text></x>"
    text = read(name, with_parts(samples()[name], {part: beside})).text
    assert SENTENCES[name] in text
    assert text.endswith("The grebe has a remark.")


def test_the_longest_cell_of_a_sheet_is_read_to_its_end() -> None:
    longest = "x" * 32_000 + " heron"  # Excel allows 32,767 characters
    assert longest in read("a.xlsx", xlsx([[longest]])).text
    page = read("a.xlsx", xlsx([["x" * 50_000, "heron"]]))
    assert (page.text, page.defects) == (
        "x" * 40_000 + " | heron",
        ("cells cut after 40,000 characters; all of it is in the archive",),
    )


def test_a_table_keeps_its_header_and_its_cells() -> None:
    assert read("a.csv", b'ship;"its\ntons"\nHeron;12\n;\n').text == "ship | its tons\nHeron | 12"
    assert read("a.tsv", "Schiff\tGröße\n".encode("cp1252")).text == "Schiff | Größe"


@pytest.mark.parametrize(
    "table",
    (b'"Name, first, last";"No"\r\n"Ada, Quill";7\r\n', b"sep=;\r\nName, first, last;No\r\nAda, Quill;7\r\n"),
)
def test_a_comma_in_a_header_divides_no_cells_of_another_dialect(table: bytes) -> None:
    assert read("a.csv", table).text == "Name, first, last | No\nAda, Quill | 7"


def test_a_table_may_begin_with_the_letters_of_a_zip() -> None:
    assert read("a.csv", b"PK_ID,name\n1,Ada\n").text == "PK_ID | name\n1 | Ada"


def test_a_long_output_of_a_notebook_is_cut_and_says_so() -> None:
    output = {"output_type": "stream", "text": ["x" * 50_000]}
    cells = [{"cell_type": "code", "source": "tide()", "outputs": [output, output]}]
    page = read("a.ipynb", json.dumps({"cells": cells, "metadata": {}}).encode())
    assert page.text.count("x") == 80_000
    assert page.defects == ("outputs cut after 40,000 characters; all of it is in the archive",)


def test_an_odd_cell_or_output_of_a_notebook_is_left_out_and_says_so() -> None:
    output = {"output_type": "display_data", "data": None}
    code = {"cell_type": "code", "source": "print(6)", "outputs": [5, output, {"text": ["6\n"]}]}
    cells = [5, {"cell_type": "markdown", "source": "The dunlin."}, code]
    page = read("a.ipynb", json.dumps({"cells": cells}).encode())
    assert page.text == "The dunlin.\n\n```\nprint(6)\n```\n\n6"
    assert page.defects == ("a cell is damaged: it is left out", "an output is damaged: it is left out")


def test_what_a_program_writes_in_the_place_of_a_title_or_author_is_none() -> None:
    book = samples()["a.epub"]
    about = unzipped(book)["book.opf"]
    unknown = about.replace("Tide tables", "Unknown Title").replace("Ada Quill", "Unknown Author")
    page = read("a.epub", zipped({**unzipped(book), "book.opf": unknown}))
    assert (page.title, page.author) == ("", "")


def test_latex_spells_letters_of_all_languages_and_an_address_has_no_comment() -> None:
    start = rb"\documentclass{x}\begin{document}"
    text = start + rb"\"{U}ber \'etude na\"{\i}ve Stra\ss{}e \c{c}a Erd\H{o}s \l{}odz one\\b two "
    assert read("a.tex", text + rb"\url{http://example.org/50%20m} after % no").text == (
        r"Über étude naïve Straße ça Erdős łodz one\\b two http://example.org/50%20m after"
    )


def test_the_limit_of_a_table_does_not_stay_in_the_process() -> None:
    before = csv.field_size_limit()
    assert "x" * (before + 1) in read("a.csv", f"ship;text\nHeron;{'x' * (before + 1)}\n".encode()).text
    assert csv.field_size_limit() == before


def test_a_vcard_of_an_old_phone_and_an_event_without_an_end() -> None:
    card = b"BEGIN:VCARD\nN;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:M=C3=BCller;=\nJo\nTEL:1\nEND:VCARD\n"
    assert read("a.vcf", card).title == "Müller Jo"
    event = read("a.ics", b"BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Spring\\, tide\nDTSTART;VALUE=DATE:20260302")
    assert (event.title, event.date) == ("Spring, tide", 1772409600.0)


def event(*lines: bytes) -> PageText:
    whole = (b"BEGIN:VCALENDAR", b"BEGIN:VEVENT", *lines, b"END:VEVENT", b"END:VCALENDAR")
    return read("a.ics", b"\r\n".join(whole))


def test_a_line_that_was_folded_within_a_character_is_put_together_again() -> None:
    assert event(b"SUMMARY:High ti\xc3", b" \xb6de", b"DESCRIPTION:At the gr", b"\tey pier").text == (
        "High tiöde\nAt the grey pier"
    )


def test_an_old_vcard_is_in_its_charset_and_only_its_encoded_lines_go_on() -> None:
    card = (
        b"BEGIN:VCARD\r\nFN;CHARSET=ISO-8859-2;ENCODING=QUOTED-PRINTABLE:Jana =AErubek\r\n"
        b"URL:http://example.org/?a=\r\nTEL:12345\r\nEND:VCARD\r\n"
    )
    assert read("a.vcf", card).text == "Jana Žrubek\nURL: http://example.org/?a=\nTelephone: 12345"


def test_a_long_description_of_an_event_is_read_to_its_end() -> None:
    assert event(b"SUMMARY:Tide", b"DESCRIPTION:" + b"wave " * 20_000 + b"and the heron").text.endswith(
        "the heron"
    )


@pytest.mark.parametrize(
    ("start", "hour"),
    (
        (b"DTSTART:20260302T100000Z", 10),
        (b"DTSTART;TZID=Europe/Berlin:20260302T100000", 9),
        (b'DTSTART;TZID="America/New_York":20260302T100000', 15),
        (b"DTSTART;TZID=Harbour Standard Time:20260302T100000", 10),
        (b"DTSTART;TZID=../../etc/passwd:20260302T100000", 10),
    ),
)
def test_an_event_begins_at_the_time_of_its_zone(start: bytes, hour: int) -> None:
    assert event(b"SUMMARY:Tide", start).date == 1772409600.0 + hour * 3600


def test_a_line_of_nothing_but_separators_takes_no_time() -> None:
    assert event(b"SUMMARY:Tide", b"X" + b";" * 200).text == "Tide"


def test_latex_and_manual_pages_lose_their_markup_and_no_word() -> None:
    latex = read(
        "a.tex",
        b"\\documentclass{x}\\begin{document}50\\% of \\textbf{\\emph{all}} tides\\footnote{at sea} % no\n",
    )
    assert latex.text == "50% of all tides [at sea]"
    man = read("a.1", b'.SH NAME\ntide \\- a \\fItool\\fR\n.BR tide (1),\n.\\" no\n.sp 2\n.RI "two words" x\n')
    assert man.text == "# NAME\n\ntide - a tool\ntide(1),\n\ntwo wordsx"


# -- faults


def test_a_page_that_claims_a_charset_that_is_none_is_read_by_the_same_decoder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def use(*_: object) -> tuple[str, int]:
        raise AssertionError("idna was used")

    monkeypatch.setattr("encodings.idna.Codec.decode", use)
    html = "<html><head><meta charset=idna></head><body><p>The café at the quay opens early.</p></body></html>"
    assert "café" in read_page(html.encode("cp1252"), "https://example.org/").text


@pytest.mark.parametrize("error", (RecursionError("deep"), MemoryError(), ValueError("odd"), RuntimeError()))
def test_one_unreadable_mail_never_fails_its_mailbox(
    error: Exception, pipeline: Pipeline, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = message_reader.read_message

    def read_message(archive: Archive, id: str, raw: object, *more: object) -> object:
        if b"unlucky" in raw.raw:  # type: ignore[attr-defined]
            raise error
        return real(archive, id, raw, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(f"{reading.__name__}.read_message", read_message)
    (folder / "list.mbox").write_bytes(mbox(mail("1"), mail("2", "an unlucky mail"), mail("3")))
    pipeline.ingest(folder)
    report = read_ingestion_report(pipeline.app, pipeline.source(folder), {})
    assert (report.messages["parsed"], report.messages["failed"]) == (2, 1)
    assert type(error).__name__ in report.troubles[0].error


def test_a_bug_of_one_reader_is_the_failure_of_its_file(
    pipeline: Pipeline, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = message_reader.read_file

    def read_file(archive: Archive, *args: object) -> object:
        if archive.kind == "word":
            raise ZeroDivisionError("a bug")
        return real(archive, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(f"{reading.__name__}.read_file", read_file)
    (folder / "a.docx").write_bytes(samples()["a.docx"])
    (folder / "note.txt").write_text("A note.")
    pipeline.ingest(folder)
    (trouble,) = read_ingestion_report(pipeline.app, pipeline.source(folder), {}).troubles
    assert "ZeroDivisionError: a bug" in trouble.error
    assert "note.txt" in pipeline.messages()


def test_a_process_that_cannot_be_started_is_no_failure_of_the_file(
    pipeline: Pipeline, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, times = message_reader.read_file, []

    def read_file(*args: object) -> object:
        times.append(1)
        if len(times) == 1:
            raise NoReaderProcess("no memory")
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(f"{reading.__name__}.read_file", read_file)
    (folder / "a.docx").write_bytes(samples()["a.docx"])
    pipeline.submit(folder)
    pipeline.run(within=60)
    assert SENTENCES["a.docx"] in pipeline.messages()["a.docx"].body


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(set(SENTENCES) - {"a.json", "a.jsonl"})), st.data())
def test_a_damaged_file_gives_text_or_our_error(name: str, data: st.DataObject) -> None:
    file = bytearray(samples()[name])
    for _ in range(data.draw(st.integers(1, 5))):
        file[data.draw(st.integers(0, len(file) - 1))] = data.draw(st.integers(0, 255))
    del file[data.draw(st.integers(1, len(file))) :]
    try:
        page = read(name, bytes(file))
    except Permanent:
        return
    page.text.encode()
    assert "\0" not in page.text


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_have_a_format_or_none(data: bytes) -> None:
    for start in (b"", OLE_START, b"PK\x03\x04", b"PK\x05\x06"):
        assert isinstance(office_format(start + data), str)
