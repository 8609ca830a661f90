"""How much of a file of each format is read, and how long it takes: the same 200 sentences in each of them.

    make bench ARGS="formats"

Office files are written by LibreOffice, the others by a few lines of code. A picture and a scan have the first
page of the PDF.
"""

from __future__ import annotations

import csv
import io
import json
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path
from random import Random

import click
import pypdfium2  # type: ignore[import-untyped]

from bench.table import Sheet
from onward.pipeline.fetch.file_kinds import detect_kind
from onward.pipeline.fetch.office_formats import KIND_OF_FORMAT, office_format
from onward.pipeline.fetch.outlook_message import outlook_mail
from onward.pipeline.read.file_readers import LIMITED_KINDS, FileToRead, read_content
from onward.pipeline.read.limited_reader import close_processes, read_limited
from onward.pipeline.read.mail import read_mail
from onward.pipeline.read.ocr import OCROptions
from tests.support.attached_files import grey_png, scanned_pdf
from tests.support.office_files import WRITTEN_FROM, write_office_file
from tests.support.outlook_files import OutlookMessage, msg
from tests.support.servers.__main__ import missing_office, missing_programs

_WORDS = re.findall(
    r"\w+",
    """anchor at before boat bridge careful cargo crane dawn deep early ferry fog gull harbour heavy in lamp leaves
    low master mast night of old pier pilot quay quiet rope sails seldom signal slowly storm the tide tower under
    waits watches weather west whistle winter without""",
)


def _sentences(count: int) -> list[str]:
    """Return different sentences; their lengths differ, too, or text recognition takes them for columns."""
    random = Random(1)
    return [" ".join(random.choices(_WORDS, k=random.randint(4, 10))).capitalize() + "." for _ in range(count)]


SENTENCES = _sentences(200)
REPEATS = 7
PICTURES = ("png", "scan.pdf")
_FIRST_PAGE: list[str] = []  # the sentences on the first page
PAGE_SCALE = 2.0  # 144 dots an inch
LIBRARIES = {
    **dict.fromkeys(("docx", "odt", "ods", "odp"), "Onward, with lxml"),
    **dict.fromkeys(("rtf", "doc", "xlsx", "xls", "pptx", "ppt", "epub"), "kreuzberg"),
    "pdf": "pypdfium2",
    "html": "trafilatura",
    "msg": "Onward, with olefile",
    **dict.fromkeys(PICTURES, "tesseract"),
}


def run() -> list[Sheet]:
    if missing := [*missing_office(), *missing_programs()]:
        raise click.ClickException(missing[0])
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        files = {**_office_files(Path(folder)), **_written_files()}
        files |= _pictures(files["pdf"])
        for suffix, data in files.items():
            click.echo(f"  {suffix}", err=True)
            rows.append(_row(suffix, data))
    close_processes()
    columns = ("format", "kind", "read by", "bytes", "sentences found", "ms", "ms in a process with limits")
    return [Sheet("Formats", columns, rows, labels=3)]


def _row(suffix: str, data: bytes) -> list[str]:
    name, wanted = f"a.{suffix}", _FIRST_PAGE if suffix in PICTURES else SENTENCES
    limited: Callable[[], str] | None = None
    if suffix in ("eml", "msg"):
        kind = "mail"

        def read() -> str:
            return read_mail(outlook_mail(data, name) if suffix == "msg" else data).body

    else:
        kind = "picture" if suffix == "png" else KIND_OF_FORMAT.get(office_format(data), "")
        file = FileToRead(kind or detect_kind(data, name).kind, name, ocr=OCROptions())
        kind = file.kind

        def read() -> str:
            return read_content(file, data).text

        if kind in LIMITED_KINDS:

            def limited() -> str:
                return read_limited(file, data).text

    text = " ".join(read().split())
    found = sum(sentence in text for sentence in wanted)
    return [
        suffix,
        kind,
        LIBRARIES.get(suffix, "Onward"),
        f"{len(data):,}",
        f"{found} of {len(wanted)}",
        f"{_milliseconds(read):.1f}",
        f"{_milliseconds(limited):.1f}" if limited else "",
    ]


def _milliseconds(read: Callable[[], str]) -> float:
    read()  # imports, and starts a process
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        read()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000


def _office_files(folder: Path) -> dict[str, bytes]:
    files = {}
    for suffix in (suffix for suffixes in WRITTEN_FROM.values() for suffix in suffixes):
        click.echo(f"  LibreOffice writes {suffix}", err=True)
        write_office_file(folder / f"a.{suffix}", SENTENCES, folder)
        files[suffix] = (folder / f"a.{suffix}").read_bytes()
    return files


def _written_files() -> dict[str, bytes]:
    paragraphs, lines = "\n\n".join(SENTENCES), "\n".join(SENTENCES)
    table = io.StringIO()
    csv.writer(table).writerows([["number", "what"], *enumerate(SENTENCES)])
    cells = [{"cell_type": "markdown", "metadata": {}, "source": [one]} for one in SENTENCES]
    times = [f"00:{second // 60:02}:{second % 60:02}" for second in range(len(SENTENCES) + 1)]
    cues = list(zip(times, times[1:], SENTENCES, strict=False))
    mail = EmailMessage()
    mail["From"], mail["Subject"] = "Ada Quill <ada@example.org>", "Tides"
    mail.set_content(paragraphs)
    texts = {
        "csv": table.getvalue(),
        "tsv": "number\twhat\n" + "".join(f"{number}\t{one}\n" for number, one in enumerate(SENTENCES)),
        "ipynb": json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}),
        "ics": "BEGIN:VCALENDAR\nVERSION:2.0\n"
        + "".join(f"BEGIN:VEVENT\nUID:{one}\nDESCRIPTION:{one}\nEND:VEVENT\n" for one in SENTENCES)
        + "END:VCALENDAR\n",
        "vcf": "".join(
            f"BEGIN:VCARD\nVERSION:3.0\nFN:Pier {number}\nNOTE:{one}\nEND:VCARD\n"
            for number, one in enumerate(SENTENCES)
        ),
        "tex": f"\\documentclass{{article}}\n\\begin{{document}}\n{paragraphs}\n\\end{{document}}\n",
        "1": '.TH TIDES 1 "2026-03-02"\n.SH ENTRIES\n' + "".join(f".PP\n{one}\n" for one in SENTENCES),
        "srt": "".join(
            f"{number}\n{begins},000 --> {ends},000\n{one}\n\n"
            for number, (begins, ends, one) in enumerate(cues, 1)
        ),
        "vtt": "WEBVTT\n\n" + "".join(f"{begins}.000 --> {ends}.000\n{one}\n\n" for begins, ends, one in cues),
        "html": "<html><title>Tides</title><article>"
        + "".join(f"<p>{one}</p>" for one in SENTENCES)
        + "</article></html>",
        "md": paragraphs,
        "txt": lines,
        "json": json.dumps({"entries": SENTENCES}, indent=1),
        "eml": mail.as_string(),
    }
    outlook = OutlookMessage({0x0037: "Tides", 0x1000: paragraphs, 0x0C1A: "Ada Quill"})
    return {**{suffix: text.encode() for suffix, text in texts.items()}, "msg": msg(outlook)}


def _pictures(pdf: bytes) -> dict[str, bytes]:
    """Return the first page of a PDF as a picture, and as a PDF that has only this picture."""
    with pypdfium2.PdfDocument(pdf) as document:
        _FIRST_PAGE[:] = [
            one for one in SENTENCES if one in " ".join(document[0].get_textpage().get_text_range().split())
        ]
        bitmap = document[0].render(scale=PAGE_SCALE, grayscale=True)
        width, height, stride, pixels = bitmap.width, bitmap.height, bitmap.stride, bytes(bitmap.buffer)
    rows = [pixels[at : at + width] for at in range(0, stride * height, stride)]
    grey = b"".join(rows)
    return {"png": grey_png(width, height, grey), "scan.pdf": scanned_pdf(width, height, grey)}
