"""Documents that are wrong themselves: cut, locked, empty, endless, or of an exporter that went astray."""

from __future__ import annotations

import codecs
import datetime
import email.utils
import gzip
import io
import json
import zipfile
from collections.abc import Sequence
from decimal import Decimal

import psycopg
import pydantic
import requests
from lxml import etree  # type: ignore[import-untyped]

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Order, Page, Upload
from tests.incidents.fifth import libraries as more
from tests.incidents.staging import Scene, incident


class Position(pydantic.BaseModel):
    """A line of an invoice."""

    sku: str
    quantity: int = pydantic.Field(ge=1)


class ImportProblem(Exception):
    """The team's own, which says little."""


@incident("poison document")
def pages_that_are_no_markup(scene: Scene) -> None:
    """Four crawled pages claim to be XHTML and are pictures; three hundred others were read."""
    (poison,) = scene.causes

    @scene.service("parse", Page)
    def parse(page: Page, work: Work) -> None:
        with poison:
            etree.fromstring(page.text)

    good = scene.documents(300, Page, text="<html><body><p>Harbour news</p></body></html>")
    scene.mixed_traffic(good, scene.documents(4, Page, text="JFIF ÿØÿà not markup"), every=5)


@incident("poison document")
def mails_the_content_filter_refuses(scene: Scene) -> None:
    """Five mails of a harassment case trip the provider's content filter, each time they are tried."""
    (poison,) = scene.causes

    @scene.service("summaries", Mail, needs="azure_openai")
    def summarise(mail: Mail, work: Work) -> None:
        if mail.kind == "case-file":
            text = "The response was filtered due to the prompt triggering the content management policy."
            raise poison(lib.BadRequestError(400, text, "invalid_request_error", "content_filter"))

    scene.mixed_traffic(scene.documents(85, Mail), scene.documents(5, Mail, kind="case-file"))
    scene.run(hours=2)


@incident("poison document")
def archive_that_unpacks_to_terabytes(scene: Scene) -> None:
    """One uploaded archive unpacks without end; each worker that opens it is killed for its memory."""
    (poison,) = scene.causes

    @scene.service("unpack", Upload)
    def unpack(upload: Upload, work: Work) -> None:
        if upload.kind == "42.zip":
            poison.kills(upload, work)

    scene.traffic(30, Upload, kind="zip")
    scene.mixed_traffic(scene.documents(20, Upload, kind="zip"), scene.documents(1, Upload, kind="42.zip"))
    scene.run(30)


@incident("poison document")
def scans_that_crash_the_decoder(scene: Scene) -> None:
    """Two fax scans with a broken strip table make the image decoder write past its memory: segmentation fault."""
    (poison,) = scene.causes

    @scene.service("thumbnails", Upload)
    def shrink(upload: Upload, work: Work) -> None:
        if upload.author == "fax-gateway":
            poison.kills(upload, work)

    scene.mixed_traffic(scene.documents(60, Upload, kind="tiff"), scene.documents(2, Upload, author="fax-gateway"))
    scene.run(30)


@incident("poison document")
def newsletter_in_an_encoding_of_its_own(scene: Scene) -> None:
    """One sender's mails name a character set that does not exist."""
    (poison,) = scene.causes

    @scene.service("mail_text", Mail)
    def decode(mail: Mail, work: Work) -> None:
        with poison:
            codecs.lookup("x-user-defined-7" if mail.author == "newsletter@printshop" else "iso-8859-15")

    scene.traffic(60, Mail)
    scene.mixed_traffic(scene.documents(60, Mail), scene.documents(9, Mail, author="newsletter@printshop"))


@incident("poison document")
def spreadsheets_that_are_web_pages(scene: Scene) -> None:
    """One customer's ERP saves HTML under the name of a spreadsheet, since its update last night."""
    (poison,) = scene.causes

    @scene.service("price_lists", Upload)
    def read(upload: Upload, work: Work) -> None:
        data = io.BytesIO(b"<table><tr><td>4711</td></tr></table>")
        if upload.text != "html inside":
            with zipfile.ZipFile(data, "w"):
                pass
        with poison:
            zipfile.ZipFile(data)

    scene.traffic(60, Upload, kind="xlsx")
    bad = scene.documents(16, Upload, kind="xlsx", tenant="globex", text="html inside")
    others = scene.documents(44, Upload, kind="xlsx", tenant=lambda: scene.random.choice(["acme", "initech"]))
    scene.mixed_traffic(others, bad)


@incident("poison document")
def page_on_which_the_pattern_never_ends(scene: Scene) -> None:
    """One page of two million dashes takes the pattern of the splitter hours; every other page a moment."""
    (poison,) = scene.causes

    @scene.service("split", Page, time_limit=20)
    def split(page: Page, work: Work) -> None:
        if page.size > 1_900_000:
            poison.takes(24)

    scene.mixed_traffic(
        scene.documents(70, Page, size=lambda: scene.random.randrange(400, 90_000)),
        scene.documents(1, Page, size=2_000_000, text="-" * 200),
    )
    scene.run(hours=3)


@incident("poison document")
def settings_nested_without_end(scene: Scene) -> None:
    """A test tool sent one order that is nested a hundred thousand times."""
    (poison,) = scene.causes

    @scene.service("orders", Order)
    def read(order: Order, work: Work) -> None:
        body = "[" * 100_000 if order.author == "fuzz-test" else '{"lines": []}'
        with poison:
            json.loads(body)

    scene.mixed_traffic(scene.documents(40, Order), scene.documents(1, Order, author="fuzz-test"), every=10)


@incident("poison document")
def contracts_until_the_year_20224(scene: Scene) -> None:
    """Somebody typed the year of three contracts with a digit too many."""
    (poison,) = scene.causes

    @scene.service("deadlines", Invoice)
    def note(invoice: Invoice, work: Work) -> None:
        with poison:
            datetime.date(invoice.size, 3, 31)

    scene.mixed_traffic(scene.documents(30, size=2027), scene.documents(3, size=20224), every=240)


@incident("poison document")
def exports_cut_off_within_batches(scene: Scene) -> None:
    """A full disk at the source cut off some of the data files, which come and are read in tens with others."""
    (poison,) = scene.causes

    @scene.service("lake", Upload, batch=10)
    def load(uploads: Sequence[Upload], work: Work) -> None:
        cut = [one for one in uploads if one.size < 12]
        if cut:
            text = "Parquet magic bytes not found in footer. Either the file is corrupted or not a parquet file."
            raise poison(more.ArrowInvalid(text), *cut)

    documents = [*scene.documents(114, Upload, kind="parquet", size=90_000), *scene.documents(6, Upload, size=4)]
    scene.random.shuffle(documents)
    scene.publish(documents, together=10, source="edge-7")
    scene.run(hours=2)


@incident("poison document")
def invoice_numbers_used_twice(scene: Scene) -> None:
    """A supplier gave seven invoices numbers that it had used before; the table has each number once."""
    (poison,) = scene.causes

    @scene.service("booking", Invoice, needs="postgres")
    def book(invoice: Invoice, work: Work) -> None:
        if invoice.kind == "again":
            text = 'duplicate key value violates unique constraint "invoices_supplier_number_key"'
            detail = f"DETAIL:  Key (supplier, number)=(8812, R-{invoice.number % 7}) already exists."
            raise poison(psycopg.errors.UniqueViolation(f"{text}\n{detail}"))

    scene.mixed_traffic(scene.documents(90), scene.documents(7, kind="again", author="r.castillo"))


@incident("poison document")
def blank_scans_have_nothing_to_embed(scene: Scene) -> None:
    """The back pages of scans are blank; the provider does not embed an empty text."""
    (poison,) = scene.causes

    @scene.service("embeddings", Page, needs="openai")
    def embed(page: Page, work: Work) -> None:
        if not page.text:
            text = "Invalid 'input[0]': input cannot be an empty string."
            raise poison(lib.BadRequestError(400, text, "invalid_request_error", None))

    scene.traffic(40, Page)
    scene.mixed_traffic(scene.documents(70, Page), scene.documents(14, Page, text=""))


@incident("poison document")
def returns_with_negative_amounts(scene: Scene) -> None:
    """Since its own update one customer sends returns as positions below zero, which the contract rules out."""
    (poison,) = scene.causes

    @scene.service("positions", Order)
    def check(order: Order, work: Work) -> None:
        with poison:
            Position(sku=f"A-{order.number}", quantity=order.size)

    def some(customer: str, count: int, least: int) -> list[Order]:
        made = scene.documents(
            count, Order, tenant=customer, size=lambda: scene.random.randrange(least, least + 5)
        )
        return [one for one in made if isinstance(one, Order)]

    scene.mixed_traffic(some("acme", 30, 1), some("initech", 20, 1))
    scene.mixed_traffic(some("acme", 30, 1), some("initech", 25, -6))


@incident("poison document")
def recordings_of_zero_seconds(scene: Scene) -> None:
    """Two calls were hung up before anything was recorded; the speech model fails on no samples."""
    (poison,) = scene.causes

    @scene.service("speech", Upload)
    def transcribe(upload: Upload, work: Work) -> None:
        if upload.size == 0:
            text = "cannot reshape tensor of 0 elements into shape [1, 0, 8, -1] because the unspecified dimension"
            raise poison(RuntimeError(text))

    scene.mixed_traffic(
        scene.documents(45, Upload, kind="ogg", size=lambda: scene.random.randrange(4000, 900_000)),
        scene.documents(2, Upload, kind="ogg", size=0),
        every=120,
    )


@incident("poison document")
def pages_gone_since_the_sitemap(scene: Scene) -> None:
    """Eleven addresses of an old sitemap no longer exist; the website serves all its other pages."""
    (poison,) = scene.causes

    @scene.service("fetch", Page, needs="website")
    def fetch(page: Page, work: Work) -> None:
        if page.kind == "removed":
            raise poison(lib.requests_status(410, f"https://www.museum.example/exhibitions/{page.id}"))

    scene.mixed_traffic(scene.documents(120, Page), scene.documents(11, Page, kind="removed"), every=10)


@incident("poison document")
def drawings_on_which_the_converter_fails(scene: Scene) -> None:
    """The converter answers 500 to two damaged drawings at each try, for a day; all others it converts."""
    (poison,) = scene.causes

    @scene.service("convert", Upload, needs="gotenberg")
    def convert(upload: Upload, work: Work) -> None:
        if upload.kind == "damaged-odg":
            url = "http://gotenberg:3000/forms/libreoffice/convert"
            raise poison(lib.HTTPStatusError(500, url, body="LibreOffice failed to process a document"))

    scene.mixed_traffic(scene.documents(100, Upload), scene.documents(2, Upload, kind="damaged-odg"), every=300)
    scene.traffic(100, Upload, every=600)


@incident("poison document")
def backup_copied_as_text(scene: Scene) -> None:
    """One branch copied its sixty files in text mode, which spoils each; other branches' files are read."""
    (poison,) = scene.causes
    sound = gzip.compress(b"2026-03-01;17;3.50\n" * 50, mtime=0)

    @scene.service("branches", Upload)
    def load(upload: Upload, work: Work) -> None:
        spoilt = upload.tenant == "branch-31"
        with poison:
            gzip.decompress(b"\xef\xbb\xbf" + sound if spoilt else sound)

    scene.import_at_once(80, Upload, source="branch-30", tenant="branch-30", kind="gz")
    scene.import_at_once(60, Upload, source="branch-31", tenant="branch-31", kind="gz")
    scene.import_at_once(70, Upload, source="branch-32", tenant="branch-32", kind="gz")
    scene.run(10)


@incident("poison document")
def address_that_redirects_to_itself(scene: Scene) -> None:
    """Two pages of a forum redirect in a circle. The error of the library is hidden in our own."""
    (poison,) = scene.causes

    @scene.service("forum", Page, needs="web")
    def fetch(page: Page, work: Work) -> None:
        try:
            if page.kind == "circle":
                raise requests.TooManyRedirects("Exceeded 30 redirects.")
        except requests.RequestException as error:
            raise poison(ImportProblem("import failed")) from error

    scene.mixed_traffic(scene.documents(64, Page), scene.documents(2, Page, kind="circle"))


@incident("poison document", groups=2)
def amounts_and_dates_of_a_hand_made_list(scene: Scene) -> None:
    """A list kept by hand has amounts with a comma and dates in words; lists of machines are read."""
    (poison,) = scene.causes

    @scene.service("lists", Order)
    def read(order: Order, work: Work) -> None:
        by_hand = order.author == "p.moreau"
        with poison:
            if order.number % 2:
                Decimal("1 204,50" if by_hand else "1204.50")
            email.utils.parsedate_to_datetime("next tuesday" if by_hand else "Tue, 03 Mar 2026 10:00:00 +0100")

    scene.mixed_traffic(
        scene.documents(50, Order, author="machine"), scene.documents(12, Order, author="p.moreau"), every=60
    )
