"""Small files of the formats that are read, each with a sentence of its own; made of their parts by hand."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Mapping
from urllib.parse import unquote

_XML = '<?xml version="1.0" encoding="UTF-8"?>\n'
_OFFICE = "http://schemas.openxmlformats.org"
_RELS = f"{_OFFICE}/package/2006/relationships"
_DOC_RELS = f"{_OFFICE}/officeDocument/2006/relationships"
_CORE = (
    f'{_XML}<cp:coreProperties xmlns:cp="{_OFFICE}/package/2006/metadata/core-properties" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><dc:title>Tide tables</dc:title>'
    '<dc:creator>Ada Quill</dc:creator><dcterms:created xsi:type="dcterms:W3CDTF">2026-03-02T10:00:00Z'
    "</dcterms:created></cp:coreProperties>"
)
SENTENCES = {
    "a.docx": "The heron waits beside the sluice gate.",
    "a.odt": "The avocet leaves before the flood.",
    "a.rtf": "The bittern hides among the reeds.",
    "a.xlsx": "The pelican sorts the mail.",
    "a.xlsb": "The teal folds the charts.",
    "a.ods": "The cormorant counts the buoys.",
    "a.csv": "The kestrel circles over the mast.",
    "a.tsv": "The osprey carries the rope.",
    "a.pptx": "The otter crosses the weir.",
    "a.odp": "The seal sleeps on the slipway.",
    "a.epub": "The curlew calls across the marsh.",
    "a.ipynb": "The dunlin follows the ebb.",
    "a.ics": "The gannet dives at noon.",
    "a.vcf": "The puffin knows the pilot.",
    "a.tex": "The kingfisher watches the pier.",
    "a.1": "The plover prints the height.",
    "a.srt": "The sanderling speaks at dusk.",
    "a.vtt": "The turnstone whispers at dawn.",
    "a.json": "The whimbrel keeps the log.",
    "a.jsonl": "The godwit writes the lines.",
}


def zipped(members: Mapping[str, str | bytes]) -> bytes:
    """Pack texts; a member `mimetype` is stored as it is, as OpenDocument and EPUB require."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            stored = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            archive.writestr(name, text, stored)
    return packed.getvalue()


def unzipped(data: bytes) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def with_bad_checksum(data: bytes, name: str) -> bytes:
    """Return a zip in which the checksum of a member is that of another content."""
    file = bytearray(data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        sum_of_member = archive.getinfo(name).CRC.to_bytes(4, "little")
    return bytes(file.replace(sum_of_member, bytes(255 - byte for byte in sum_of_member)))


def _rels(*targets: tuple[str, str]) -> str:
    rels = "".join(
        f'<Relationship Id="rId{number}" Type="{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(targets, 1)
    )
    return f'{_XML}<Relationships xmlns="{_RELS}">{rels}</Relationships>'


def _office(main: str, main_type: str, parts: Mapping[str, str], types: Mapping[str, str]) -> bytes:
    prefix = "application/vnd.openxmlformats-officedocument"
    overrides = "".join(
        f'<Override PartName="/{name}" ContentType="{prefix}.{kind}+xml"/>'
        for name, kind in {main: main_type, **types}.items()
    )
    contents = (
        f'{_XML}<Types xmlns="{_OFFICE}/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f"{overrides}</Types>"
    )
    core = f"{_RELS}/metadata/core-properties"
    return zipped(
        {
            "[Content_Types].xml": contents,
            "_rels/.rels": _rels((f"{_DOC_RELS}/officeDocument", main), (core, "docProps/core.xml")),
            "docProps/core.xml": _CORE,
            **parts,
        }
    )


def docx(body: str, **parts: str) -> bytes:
    """A Word file with this body; the keywords are other parts, such as `footnotes`."""
    space = f'xmlns:w="{_OFFICE}/wordprocessingml/2006/main"'
    members = {"word/document.xml": f"{_XML}<w:document {space}><w:body>{body}</w:body></w:document>"}
    for name, content in parts.items():
        members[f"word/{name}.xml"] = f"{_XML}<w:{name} {space}>{content}</w:{name}>"
    return _office("word/document.xml", "wordprocessingml.document.main", members, {})


def word_paragraph(text: str) -> str:
    return f'<w:p><w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'


def xlsx(*sheets: list[list[str]]) -> bytes:
    """A workbook; the first of its sheets is called Stock."""
    space = f'xmlns="{_OFFICE}/spreadsheetml/2006/main" xmlns:r="{_DOC_RELS}"'
    names = [f"xl/worksheets/sheet{number}.xml" for number in range(1, len(sheets) + 1)]
    listed = "".join(
        f'<sheet name="{"Stock" if number == 1 else number}" sheetId="{number}" r:id="rId{number}"/>'
        for number in range(1, len(sheets) + 1)
    )
    parts = {
        "xl/workbook.xml": f"{_XML}<workbook {space}><sheets>{listed}</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": _rels(*((f"{_DOC_RELS}/worksheet", name[3:]) for name in names)),
    }
    for name, rows in zip(names, sheets, strict=True):
        cells = "".join(
            f'<row r="{number}">'
            + "".join(
                f'<c r="{chr(65 + place)}{number}" t="inlineStr"><is><t>{cell}</t></is></c>'
                for place, cell in enumerate(row)
            )
            + "</row>"
            for number, row in enumerate(rows, 1)
        )
        parts[name] = f"{_XML}<worksheet {space}><sheetData>{cells}</sheetData></worksheet>"
    types = dict.fromkeys(names, "spreadsheetml.worksheet")
    return _office("xl/workbook.xml", "spreadsheetml.sheet.main", parts, types)


def xlsb(rows: list[list[str]]) -> bytes:
    """A binary workbook, whose parts are records (MS-XLSB)."""

    def record(number: int, data: bytes = b"") -> bytes:
        head = (number, len(data))
        return b"".join(bytes([n]) if n < 128 else bytes([n & 127 | 128, n >> 7]) for n in head) + data

    def string(text: str) -> bytes:
        return struct.pack("<I", len(text)) + text.encode("utf-16-le")

    sheet = struct.pack("<II", 0, 1) + string("rId1") + string("Stock")
    book = record(131) + record(143) + record(156, sheet) + record(144) + record(132)
    cells = b"".join(
        record(0, struct.pack("<II9x", number, 0))
        + b"".join(record(6, struct.pack("<II", place, 0) + string(cell)) for place, cell in enumerate(row))
        for number, row in enumerate(rows)
    )
    extent = struct.pack("<IIII", 0, len(rows) - 1, 0, max(map(len, rows)) - 1)
    table = record(129) + record(148, extent) + record(145) + cells + record(146) + record(130)
    kind = "application/vnd.ms-excel"
    types = f'<Override PartName="/xl/workbook.bin" ContentType="{kind}.sheet.binary.macroEnabled.main"/>'
    types += f'<Override PartName="/xl/worksheets/sheet1.bin" ContentType="{kind}.worksheet"/>'
    rels = "application/vnd.openxmlformats-package.relationships+xml"
    return zipped(
        {
            "[Content_Types].xml": f'{_XML}<Types xmlns="{_OFFICE}/package/2006/content-types">'
            f'<Default Extension="rels" ContentType="{rels}"/>{types}</Types>',
            "_rels/.rels": _rels((f"{_DOC_RELS}/officeDocument", "xl/workbook.bin")),
            "xl/_rels/workbook.bin.rels": _rels((f"{_DOC_RELS}/worksheet", "worksheets/sheet1.bin")),
            "xl/workbook.bin": book,
            "xl/worksheets/sheet1.bin": table,
        }
    )


def pptx(text: str) -> bytes:
    names = {"p": "presentationml/2006/main", "a": "drawingml/2006/main", "r": "officeDocument/2006/relationships"}
    space = " ".join(f'xmlns:{short}="{_OFFICE}/{name}"' for short, name in names.items())
    slide = (
        f"{_XML}<p:sld {space}><p:cSld><p:spTree><p:nvGrpSpPr><p:cNvPr id='1' name=''/><p:cNvGrpSpPr/><p:nvPr/>"
        "</p:nvGrpSpPr><p:grpSpPr/><p:sp><p:nvSpPr><p:cNvPr id='2' name='t'/><p:cNvSpPr/><p:nvPr/></p:nvSpPr>"
        f"<p:spPr/><p:txBody><a:bodyPr/><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp></p:spTree>"
        "</p:cSld></p:sld>"
    )
    parts = {
        "ppt/presentation.xml": f"{_XML}<p:presentation {space}><p:sldIdLst><p:sldId id='256' r:id='rId1'/>"
        "</p:sldIdLst></p:presentation>",
        "ppt/_rels/presentation.xml.rels": _rels((f"{_DOC_RELS}/slide", "slides/slide1.xml")),
        "ppt/slides/slide1.xml": slide,
    }
    types = {"ppt/slides/slide1.xml": "presentationml.slide"}
    return _office("ppt/presentation.xml", "presentationml.presentation.main", parts, types)


def open_document(kind: str, body: str) -> bytes:
    """An OpenDocument file: `kind` is text, spreadsheet or presentation."""
    name = "urn:oasis:names:tc:opendocument:xmlns"
    space = " ".join(
        f'xmlns:{short}="{name}:{part}:1.0"'
        for short, part in {
            "office": "office", "text": "text", "table": "table", "draw": "drawing", "meta": "meta",
            "manifest": "manifest",
        }.items()
    )  # fmt: skip
    media = f"application/vnd.oasis.opendocument.{kind}"
    return zipped(
        {
            "mimetype": media,
            "content.xml": f'{_XML}<office:document-content {space} office:version="1.2"><office:body>'
            f"<office:{kind}>{body}</office:{kind}></office:body></office:document-content>",
            "meta.xml": f'{_XML}<office:document-meta {space} xmlns:dc="http://purl.org/dc/elements/1.1/"><office:meta>'
            "<dc:title>Tide tables</dc:title><meta:initial-creator>Ada Quill</meta:initial-creator>"
            "<meta:creation-date>2026-03-02T10:00:00</meta:creation-date></office:meta></office:document-meta>",
            "META-INF/manifest.xml": f"{_XML}<manifest:manifest {space}><manifest:file-entry "
            f'manifest:full-path="/" manifest:media-type="{media}"/><manifest:file-entry '
            'manifest:full-path="content.xml" '
            'manifest:media-type="text/xml"/></manifest:manifest>',
        }
    )


def epub(*chapters: str, name: str = "c{}.xhtml") -> bytes:
    """An e-book; the names of its chapters may be quoted, as in an address."""
    refs = [name.format(number) for number in range(1, len(chapters) + 1)]
    items = "".join(f"<item id='{ref}' href='{ref}' media-type='application/xhtml+xml'/>" for ref in refs)
    spine = "".join(f"<itemref idref='{ref}'/>" for ref in refs)
    html = f"{_XML}<html xmlns='http://www.w3.org/1999/xhtml'><head><title>One</title></head><body><p>%s</p></body></html>"
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": f"{_XML}<container version='1.0' "
            "xmlns='urn:oasis:names:tc:opendocument:xmlns:container'><rootfiles><rootfile full-path='book.opf' "
            "media-type='application/oebps-package+xml'/></rootfiles></container>",
            "book.opf": f"{_XML}<package xmlns='http://www.idpf.org/2007/opf' version='3.0' unique-identifier='i'>"
            "<metadata xmlns:dc='http://purl.org/dc/elements/1.1/'><dc:identifier id='i'>1</dc:identifier>"
            "<dc:title>Tide tables</dc:title><dc:creator>Ada Quill</dc:creator><dc:language>en</dc:language>"
            f"</metadata><manifest>{items}</manifest><spine>{spine}</spine></package>",
            **{unquote(ref): html % text for ref, text in zip(refs, chapters, strict=True)},
        }
    )


def _notebook(text: str) -> str:
    code = {"cell_type": "code", "metadata": {}, "source": ["print(6 * 7)"], "execution_count": 1}
    output = {"output_type": "stream", "name": "stdout", "text": ["42\n"]}
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Tide tables\n", "\n", text]},
        {**code, "outputs": [output]},
    ]
    metadata = {"kernelspec": {"language": "python"}, "authors": [{"name": "Ada Quill"}]}
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


def samples() -> dict[str, bytes]:
    """Return a file of each format that code can write, by its name."""
    say = SENTENCES
    cell = "<table:table-row><table:table-cell><text:p>{}</text:p></table:table-cell></table:table-row>"
    page = "<draw:page><draw:frame><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame></draw:page>"
    texts = {
        "a.rtf": r"{\rtf1\ansi{\info{\title Tide tables}{\author Ada Quill}}" + say["a.rtf"] + r"\par}",
        "a.csv": f'what,tons\n"{say["a.csv"]}",12\n',
        "a.tsv": f"what\ttons\n{say['a.tsv']}\t12\n",
        "a.ipynb": _notebook(say["a.ipynb"]),
        "a.ics": "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VEVENT\r\nUID:1\r\nDTSTART:20260302T100000Z\r\n"
        "SUMMARY:Tide tables\r\nORGANIZER;CN=Ada Quill:mailto:ada@example.org\r\n"
        f"DESCRIPTION:{say['a.ics'][:12]}\r\n {say['a.ics'][12:]}\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n",
        "a.vcf": "BEGIN:VCARD\nVERSION:3.0\nFN:Tide tables\nEMAIL:ada@example.org\n"
        f"NOTE:{say['a.vcf']}\nEND:VCARD\n",
        "a.tex": "% a comment\n\\documentclass{article}\n\\title{Tide tables}\n\\author{Ada Quill}\n"
        f"\\begin{{document}}\n\\maketitle\n\\section{{Pier}}\n\\emph{{{say['a.tex']}}}\n\\end{{document}}\n",
        "a.1": f'.TH TIDE 1 "2026-03-02" "harbour"\n.SH NAME\ntide \\- show it\n.SH DESCRIPTION\n{say["a.1"]}\n',
        "a.srt": f"1\n00:00:01,000 --> 00:00:02,000\n<i>{say['a.srt']}</i>\n",
        "a.vtt": f"WEBVTT - Tide tables\n\n00:01.000 --> 00:02.000\n<v Ada>{say['a.vtt']}\n",
        "a.json": json.dumps({"entries": [{"text": say["a.json"]}]}),
        "a.jsonl": json.dumps({"text": say["a.jsonl"]}) + "\n",
    }
    return {
        "a.docx": docx(word_paragraph(say["a.docx"])),
        "a.odt": open_document("text", f"<text:p>{say['a.odt']}</text:p>"),
        "a.xlsx": xlsx([["what", "tons"], [say["a.xlsx"], "12"]]),
        "a.xlsb": xlsb([["what", "tons"], [say["a.xlsb"], "12"]]),
        "a.ods": open_document(
            "spreadsheet", f"<table:table table:name='Stock'>{cell.format(say['a.ods'])}</table:table>"
        ),
        "a.pptx": pptx(say["a.pptx"]),
        "a.odp": open_document("presentation", page.format(say["a.odp"])),
        "a.epub": epub(say["a.epub"]),
        **{name: text.encode() for name, text in texts.items()},
    }
