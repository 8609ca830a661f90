"""Office files, written by LibreOffice."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

# What LibreOffice writes, of which of its own formats.
WRITTEN_FROM = {
    "fodt": ("odt", "docx", "rtf", "doc", "epub", "pdf"),
    "fods": ("ods", "xlsx", "xls"),
    "fodp": ("odp", "pptx", "ppt"),
}
_BODIES = {"fodt": "text", "fods": "spreadsheet", "fodp": "presentation"}
_SCHEMA = "urn:oasis:names:tc:opendocument:xmlns"


def write_office_file(file: Path, texts: Sequence[str], scratch: Path) -> None:
    """Write a text, a table or slides, as the suffix says, with a paragraph, a row or a slide for each text."""
    suffix = file.suffix[1:]
    source_suffix = next(name for name, suffixes in WRITTEN_FROM.items() if suffix in suffixes)
    source = scratch / f"{file.stem}.{source_suffix}"
    source.write_text(_flat_document(source_suffix, texts))
    convert(source, suffix, file.parent)


def convert(source: Path, suffix: str, folder: Path) -> None:
    """Write a file of another format, also of a picture, with the same name into this folder."""
    profile = f"-env:UserInstallation=file://{source.parent / 'profile'}"
    command = ["soffice", profile, "--headless", "--convert-to", suffix, "--outdir", str(folder), str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)


def _flat_document(suffix: str, texts: Sequence[str]) -> str:
    """Return an OpenDocument file that is one XML file, from which LibreOffice makes the others."""
    parts = {"office": "office", "text": "text", "table": "table", "draw": "drawing", "svg": "svg-compatible"}
    space = " ".join(f'xmlns:{short}="{_SCHEMA}:{part}:1.0"' for short, part in parts.items())
    body = _BODIES[suffix]
    paragraphs = [f"<text:p>{escape(text)}</text:p>" for text in texts]
    if body == "text":
        content = "".join(paragraphs)
    elif body == "spreadsheet":
        cell = "<table:table-cell office:value-type='string'>{}</table:table-cell>"
        rows = "".join(f"<table:table-row>{cell.format(one)}</table:table-row>" for one in paragraphs)
        content = f"<table:table>{rows}</table:table>"
    else:
        frame = "<draw:frame svg:width='9cm' svg:height='3cm'><draw:text-box>{}</draw:text-box></draw:frame>"
        content = "".join(f"<draw:page>{frame.format(one)}</draw:page>" for one in paragraphs)
    media = f'office:mimetype="application/vnd.oasis.opendocument.{body}"'
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<office:document {space} office:version="1.2" {media}>'
        f"<office:body><office:{body}>{content}</office:{body}></office:body></office:document>"
    )
