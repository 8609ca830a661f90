"""A damaged part of an office file, e-book or PDF is a defect that names it; the other parts are read."""

from __future__ import annotations

import re

import pytest

from onward.pipeline.read.pdf import MAX_DEFECTS, BrokenPDF, read_pdf
from tests.support.attached_files import pdf


def test_a_page_of_a_pdf_that_is_missing_is_a_defect() -> None:
    missing = pdf(["Page one", "Page two", "Page three"]).replace(b"/Kids [4 0 R 6 0 R", b"/Kids[4 0 R 99 0 R")
    page = read_pdf(missing)
    assert page.text == "Page one\n\nPage three"
    assert page.defects == ("page 2 is damaged: its text is missing",)


def test_many_damaged_pages_are_counted() -> None:
    missing = re.sub(rb"([4-9]|\d\d) 0 R(?= \d+ 0 R)", b"99 9 R", pdf(["Page"] * 20))
    page = read_pdf(missing)
    assert page.text == "Page"
    assert len(page.defects) == MAX_DEFECTS + 1
    assert page.defects[-1] == "9 more pages are damaged: their text is missing"


def test_a_pdf_without_a_page_that_is_whole_is_damaged() -> None:
    with pytest.raises(BrokenPDF, match="none of its pages"):
        read_pdf(pdf(["Page one"]).replace(b"/Kids [4 0 R", b"/Kids [9 9 R"))
