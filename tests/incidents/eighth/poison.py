"""Documents that are wrong themselves: manuscripts, sequences, filings, patents, price files."""

from __future__ import annotations

import datetime
import gzip
import json
import smtplib
from collections.abc import Sequence

import psycopg
import psycopg.errors
import pydantic
import pypdfium2  # type: ignore[import-untyped]
from lxml import etree  # type: ignore[import-untyped]

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.eighth import libraries as more
from tests.incidents.staging import Scene, incident


class TypesettingError(Exception):
    """The journal team's own."""


class SequenceError(ValueError):
    """The genome team's own."""


class Filing(pydantic.BaseModel):
    """What the facts of a filing must have."""

    cik: int
    period_end: datetime.date


@incident("poison document")
def two_theses_with_a_broken_cross_reference_table(scene: Scene) -> None:
    """Two scanned theses were saved by a failing disk of the library that sent them: they are no PDF any more."""
    (poison,) = scene.causes

    @scene.service("theses", Upload)
    def read(upload: Upload, work: Work) -> None:
        if upload.text.startswith("\x00"):
            with poison:
                pypdfium2.PdfDocument(upload.text.encode())

    scene.mixed_traffic(scene.documents(58, Upload), scene.documents(2, Upload, text="\x00\x00PDF-1.4"))
    scene.run(hours=2)


@incident("poison document")
def preprint_whose_macro_calls_itself(scene: Scene) -> None:
    """One preprint defines a macro by itself, and the typesetter says that its capacity is exceeded."""
    (poison,) = scene.causes

    @scene.service("preprints", Upload)
    def typeset(upload: Upload, work: Work) -> None:
        if upload.kind == "tex-loop":
            raise poison(TypesettingError("! TeX capacity exceeded, sorry [input stack size=10000]."))

    scene.mixed_traffic(scene.documents(75, Upload), scene.documents(1, Upload, kind="tex-loop"), every=90)
    scene.run(hours=12)


@incident("poison document")
def variant_files_cut_off_by_one_sequencing_centre(scene: Scene) -> None:
    """One centre's transfers broke off; three of its compressed files have no end."""
    (poison,) = scene.causes
    whole = gzip.compress(b"##fileformat=VCFv4.3\n" * 50)

    @scene.service("variants", Upload)
    def read(upload: Upload, work: Work) -> None:
        with poison:
            gzip.decompress(whole[:-20] if upload.kind == "cut" else whole)

    scene.mixed_traffic(
        scene.documents(30, Upload, kind="vcf.gz"), scene.documents(3, Upload, kind="cut", tenant="centre-7")
    )


@incident("poison document")
def patents_of_one_office_with_forbidden_characters(scene: Scene) -> None:
    """The weekly delivery of one patent office has control characters in claims; no XML parser may read them."""
    (poison,) = scene.causes

    @scene.service("patents", Order)
    def parse(order: Order, work: Work) -> None:
        claim = "a valve\x0b, wherein" if order.tenant == "office-kr" else "a valve, wherein"
        with poison:
            etree.fromstring(f"<claims><claim num='{order.number}'>{claim}</claim></claims>")

    scene.traffic(90, Order, tenant="office-ep")
    scene.mixed_traffic(
        scene.documents(60, Order, tenant="office-ep"), scene.documents(14, Order, tenant="office-kr")
    )


@incident("poison document")
def filings_tagged_with_a_period_that_is_none(scene: Scene) -> None:
    """Five small companies tag their period with words instead of a date."""
    (poison,) = scene.causes

    @scene.service("facts", Page)
    def check(page: Page, work: Work) -> None:
        with poison:
            Filing(cik=page.number, period_end=page.text)  # type: ignore[arg-type]

    scene.mixed_traffic(
        scene.documents(110, Page, text="2026-03-31"), scene.documents(5, Page, text="end of first quarter")
    )


@incident("poison document")
def price_files_with_a_comma_in_the_name_of_an_issuer(scene: Scene) -> None:
    """One custodian does not quote names, so rows with a comma have a field too many. It came up on three days."""
    (poison,) = scene.causes

    @scene.service("custodian_prices", Invoice)
    def load(invoice: Invoice, work: Work) -> None:
        if invoice.kind == "unquoted":
            line = 10 + invoice.number
            raise poison(
                more.ParserError(f"Error tokenizing data. C error: Expected 9 fields in line {line}, saw 10")
            )

    for _ in range(3):
        scene.mixed_traffic(scene.documents(12), scene.documents(1, kind="unquoted", tenant="custodian-b"))
        scene.run(hours=23)


@incident("poison document")
def abstracts_with_null_characters_refused_by_the_warehouse(scene: Scene) -> None:
    """Six abstracts were copied out of a damaged word processor's file and hold null characters."""
    (poison,) = scene.causes

    @scene.service("abstracts", Page, needs="warehouse")
    def store(page: Page, work: Work) -> None:
        if "\x00" in page.text:
            raise poison(psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes"))

    scene.mixed_traffic(
        scene.documents(130, Page), scene.documents(6, Page, text="We measured\x00 the drift"), every=15
    )


@incident("poison document")
def empty_parquet_files_of_a_failed_export(scene: Scene) -> None:
    """A customer's nightly export stopped, and left empty files under the usual names; all in one import."""
    (poison,) = scene.causes

    @scene.service("holdings", Upload)
    def read(upload: Upload, work: Work) -> None:
        if upload.size == 0:
            raise poison(more.ArrowInvalid("Parquet file size is 0 bytes"))

    scene.import_at_once(60, Upload, kind="parquet", source="s3://initech/2026-03-01")
    scene.run(hours=20)
    full, empty = scene.documents(45, Upload, kind="parquet"), scene.documents(17, Upload, kind="parquet", size=0)
    scene.publish([*full[:20], *empty, *full[20:]], source="s3://initech/2026-03-02")
    scene.run(30)


@incident("poison document")
def supplements_larger_than_any_message_may_be(scene: Scene) -> None:
    """Two supplements are tables of half a gigabyte that authors pasted into XML; the broker takes a megabyte."""
    (poison,) = scene.causes

    @scene.service("supplements", Upload, needs="kafka")
    def send(upload: Upload, work: Work) -> None:
        if upload.size > 400_000_000:
            raise poison(more.KafkaException("MSG_SIZE_TOO_LARGE", 10, "Broker: Message size too large"))

    scene.mixed_traffic(scene.documents(65, Upload), scene.documents(2, Upload, size=510_221_904))


@incident("poison document")
def case_reports_that_the_model_will_not_read(scene: Scene) -> None:
    """The provider's filter refuses four forensic case reports, each time; it reads all other articles."""
    (poison,) = scene.causes

    @scene.service("lay_summaries", Page, needs="llm")
    def summarise(page: Page, work: Work) -> None:
        if page.tenant == "forensic-journal":
            text = "The response was filtered due to the prompt triggering the content management policy."
            raise poison(lib.BadRequestError(400, text, "invalid_request_error", "content_filter"))

    scene.mixed_traffic(scene.documents(85, Page), scene.documents(4, Page, tenant="forensic-journal"))
    scene.run(hours=3)


@incident("poison document")
def map_sheet_that_kills_the_image_library(scene: Scene) -> None:
    """One scanned map has a damaged colour profile, at which the image library takes the process down."""
    (poison,) = scene.causes

    @scene.service("maps", Upload)
    def tile(upload: Upload, work: Work) -> None:
        if upload.text == "damaged profile":
            poison.kills(upload, work)

    scene.mixed_traffic(scene.documents(35, Upload), scene.documents(1, Upload, text="damaged profile"))
    scene.run(20)


@incident("poison document")
def contracts_of_spaces_that_the_clause_search_never_ends(scene: Scene) -> None:
    """Two contracts are a megabyte of blanks by a broken converter; the search for clauses never ends in them."""
    (poison,) = scene.causes

    @scene.service("clauses", Upload, time_limit=300)
    def search(upload: Upload, work: Work) -> None:
        if upload.text.isspace():
            poison.takes(310)

    scene.mixed_traffic(scene.documents(50, Upload), scene.documents(2, Upload, text=" " * 400), every=60)
    scene.run(hours=2)


@incident("poison document")
def notebook_nested_a_hundred_thousand_deep(scene: Scene) -> None:
    """A student's notebook was written by a loop that put each output into the next one."""
    (poison,) = scene.causes

    @scene.service("notebooks", Upload)
    def read(upload: Upload, work: Work) -> None:
        text = "[" * 100_000 if upload.author == "student" else '{"cells": []}'
        with poison:
            json.loads(text)

    scene.mixed_traffic(scene.documents(27, Upload), scene.documents(1, Upload, author="student"))


@incident("poison document")
def proteins_submitted_as_nucleotides(scene: Scene) -> None:
    """One laboratory chose the wrong form for 31 of its sequences; other laboratories' are fine."""
    (poison,) = scene.causes

    @scene.service("sequences", Order, batch=8)
    def check(orders: Sequence[Order], work: Work) -> None:
        for order in orders:
            strange = sorted(set(order.text) - set("ACGTN"))
            if strange:
                error = SequenceError(f"{order.id}: '{strange[0]}' is no nucleotide")
                raise poison(error, order)

    right = scene.documents(170, Order, text="ACGTTGCANN")
    wrong = scene.documents(31, Order, text=lambda: scene.random.choice(("MKVL", "MSTE", "MAQR")), tenant="lab-19")
    mixed = [*right, *wrong]
    scene.random.shuffle(mixed)
    scene.publish(mixed, together=8)
    scene.run(60)


@incident("poison document")
def records_dated_in_the_year_zero(scene: Scene) -> None:
    """An old library system writes a date of zeros for what it does not know; the index does not take it."""
    (poison,) = scene.causes

    @scene.service("opac_index", Page, needs="index")
    def index(page: Page, work: Work) -> None:
        if page.text == "0000-00-00":
            reason = f"failed to parse field [issued] of type [date] in document with id '{page.id}'"
            raise poison(lib.TransportApiError(400, "document_parsing_exception", reason))

    scene.traffic(60, Page, every=10)
    scene.mixed_traffic(scene.documents(60, Page), scene.documents(12, Page, text="0000-00-00"), every=10)


@incident("poison document")
def one_reviewer_who_has_left_the_university(scene: Scene) -> None:
    """The address of one reviewer does not exist any more; the other invitations are delivered."""
    (poison,) = scene.causes

    @scene.service("invitations", Mail, needs="smtp")
    def invite(mail: Mail, work: Work) -> None:
        if mail.author == "emeritus":
            reply = b"5.1.1 <emeritus@uni.example>: Recipient address rejected: User unknown"
            raise poison(smtplib.SMTPRecipientsRefused({"emeritus@uni.example": (550, reply)}))

    scene.mixed_traffic(scene.documents(38, Mail), scene.documents(2, Mail, author="emeritus"))


@incident("poison document")
def corporate_actions_with_a_wrong_check_digit(scene: Scene) -> None:
    """A clerk mistyped two securities; their notices fail each time, all others are booked. No documents here."""
    (poison,) = scene.causes

    @scene.service("corporate_actions", None)
    def book(notice: Notice, work: Work) -> None:
        if notice.what.endswith("X"):
            raise poison(ValueError(f"check digit of {notice.what} is wrong"))

    scene.notices(30, what="split of US0378331005")
    scene.notices(2, what="dividend of DE000716460X")
    scene.notices(25, what="dividend of US5949181045")
    scene.run(10)
