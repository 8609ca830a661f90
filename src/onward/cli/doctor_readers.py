"""Checks of `onward doctor` of the readers of files, and of the recognition of text in pictures."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from onward.cli.doctor import Checks, ok, warning, wrong

if TYPE_CHECKING:
    from onward.settings import Settings

# The formats that each optional package reads, and the extra that installs it.
OPTIONAL_READERS = {
    "kreuzberg": ("xlsx, pptx, rtf, epub, doc, xls and ppt", "formats"),
    "pypff": ("pst and ost", "formats"),
}


def check_readers() -> Checks:
    missing = {name: about for name, about in OPTIONAL_READERS.items() if find_spec(name) is None}
    if not missing:
        yield ok("readers", "files of all formats can be read")
    for name, (formats, extra) in missing.items():
        text = f"without {name}, {formats} files cannot be read"
        yield warning("readers", text, f"pip install 'onward[{extra}]'")


def check_ocr(settings: Settings) -> Checks:
    """Check the program that recognises text in pictures and scanned PDFs."""
    if settings.ocr == "off":
        yield ok("ocr", "off (ONWARD_OCR): pictures and scanned PDFs are not read")
        return
    from onward.pipeline.read.ocr import find_installation, ocr_problem

    problem, found = ocr_problem(settings), find_installation()
    if found is not None and not problem:
        languages = ", ".join(found.languages[:20])
        about = f"tesseract {found.version} with {languages}; ONWARD_OCR_LANGUAGES={settings.ocr_languages}"
        yield ok("ocr", about)
        return
    what, _, remedy = problem.partition(": ")
    check = wrong if settings.ocr == "on" else warning
    text = f"{what}: pictures and scanned PDFs are not read"
    yield check("ocr", text, f"{remedy}; or set ONWARD_OCR=off")
