"""Documents that are wrong themselves: nested, empty, locked, renamed, endless, or of one odd exporter."""

from __future__ import annotations

import decimal
import io
import smtplib
import zipfile
from xml.etree import ElementTree

import psycopg

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Order, Page, Upload
from tests.incidents.ninth import libraries as more
from tests.incidents.staging import Scene, incident


class ConversionError(Exception):
    """The team's own, which says very little."""


class InvalidSignature(Exception):
    """It never has a text."""

    __module__ = "cryptography.exceptions"


@incident("poison document")
def two_mails_that_hold_mails_a_thousand_deep(scene: Scene) -> None:
    """A broken forwarder wrapped two mails into themselves over and over, deeper than a parser can go."""
    (poison,) = scene.causes

    def unwrap(levels: int) -> int:
        return 0 if levels == 0 else 1 + unwrap(levels - 1)

    @scene.service("mail_parts", Mail)
    def parse(mail: Mail, work: Work) -> None:
        with poison:
            unwrap(mail.size)

    scene.mixed_traffic(scene.documents(120, Mail, size=3), scene.documents(2, Mail, size=4_000))


@incident("poison document")
def building_plans_scanned_at_too_many_points(scene: Scene) -> None:
    """Seven plans were scanned at a resolution that no program opens; the other scans of that day are usual."""
    (poison,) = scene.causes

    @scene.service("thumbnails", Upload)
    def shrink(upload: Upload, work: Work) -> None:
        if upload.size > 400_000_000:
            text = (
                f"Image size ({upload.size} pixels) exceeds limit of 178956970 pixels, "
                "could be decompression bomb DOS attack."
            )
            raise poison(lib.DecompressionBombError(text))

    huge = scene.documents(7, Upload, kind="tif", size=lambda: scene.random.randrange(500_000_000, 900_000_000))
    scene.mixed_traffic(scene.documents(80, Upload), huge)
    scene.run(hours=2)


@incident("poison document")
def one_locked_archive_from_the_other_side(scene: Scene) -> None:
    """The opposing counsel sent one archive with a password, which came in a letter."""
    (poison,) = scene.causes

    @scene.service("unpack", Upload)
    def unpack(upload: Upload, work: Work) -> None:
        if upload.kind == "zip" and upload.tenant == "locked":
            raise poison(
                RuntimeError("File 'Exhibits/Annex 14.pdf' is encrypted, password required for extraction")
            )

    usual = scene.documents(24, Upload, kind="zip", tenant="acme")
    scene.mixed_traffic(usual, scene.documents(1, Upload, kind="zip", tenant="locked"), every=300)
    scene.run(hours=12)


@incident("poison document")
def scanner_in_the_basement_stores_empty_files(scene: Scene) -> None:
    """One scanner now and then stores a file of no bytes, when somebody takes out the paper too early."""
    (poison,) = scene.causes

    @scene.service("pdf_text", Upload)
    def read(upload: Upload, work: Work) -> None:
        if upload.size == 0:
            raise poison(more.EmptyFileError("Cannot read an empty file"))

    for empty in (1, 2, 0, 3):
        scene.mixed_traffic(scene.documents(30, Upload), scene.documents(empty, Upload, size=0))
        scene.run(hours=10)


@incident("poison document")
def amounts_with_the_sign_behind_them(scene: Scene) -> None:
    """The export of one customer writes credits as `1.234,56-`; forty invoices are of that kind."""
    (poison,) = scene.causes

    @scene.service("amounts", Invoice)
    def read(invoice: Invoice, work: Work) -> None:
        with poison:
            decimal.Decimal(invoice.text)

    scene.traffic(60, text="1234.56")
    odd = scene.documents(40, tenant="globex", text=lambda: f"{scene.random.randrange(1, 9)}.234,56-")
    scene.mixed_traffic(scene.documents(110, text="99.10"), odd, every=20)


@incident("poison document")
def feeds_of_three_newspapers_with_a_bare_ampersand(scene: Scene) -> None:
    """Three feeds have a title that was never escaped, so that they are no XML."""
    (poison,) = scene.causes

    @scene.service("feeds", Page)
    def read(page: Page, work: Work) -> None:
        with poison:
            ElementTree.fromstring(page.text)

    fine, broken = "<rss><title>Sport</title></rss>", "<rss><title>Arts & Crafts</title></rss>"
    scene.mixed_traffic(scene.documents(45, Page, text=fine), scene.documents(3, Page, text=broken))


@incident("poison document")
def one_deposition_that_takes_all_memory(scene: Scene) -> None:
    """A transcript with a film inside takes more memory than the machine has, and the worker is killed."""
    (poison,) = scene.causes

    @scene.service("transcripts", Upload)
    def read(upload: Upload, work: Work) -> None:
        if upload.size > 2_000_000_000:
            poison.kills(upload, work)

    scene.mixed_traffic(scene.documents(60, Upload), scene.documents(1, Upload, size=3_900_000_000))
    scene.run(30)


@incident("poison document")
def two_land_registers_longer_than_the_time_limit(scene: Scene) -> None:
    """Two registers have thousands of pages each, and no time limit is long enough for them."""
    (poison,) = scene.causes

    @scene.service("register_ocr", Upload, time_limit=120)
    def recognise(upload: Upload, work: Work) -> None:
        if upload.size > 1_000_000_000:
            poison.takes(121)

    long = scene.documents(2, Upload, size=1_600_000_000)
    scene.mixed_traffic(scene.documents(70, Upload), long, every=150)
    scene.run(hours=2)


@incident("poison document")
def crime_reports_that_the_provider_will_not_summarise(scene: Scene) -> None:
    """A few police reports are refused by the provider's filter, whatever we do; others are summarised."""
    (poison,) = scene.causes

    @scene.service("news_summaries", Page, needs="llm")
    def summarise(page: Page, work: Work) -> None:
        if page.text == "graphic":
            text = "The response was filtered due to the prompt triggering the content management policy."
            raise poison(lib.BadRequestError(400, text, "invalid_request_error", "content_filter"))

    scene.mixed_traffic(scene.documents(70, Page), scene.documents(4, Page, text="graphic"))
    scene.run(hours=1)


@incident("poison document")
def mails_with_zero_bytes_in_their_text(scene: Scene) -> None:
    """Five mails of an old machine contain zero bytes, which the database does not take."""
    (poison,) = scene.causes

    @scene.service("mail_store", Mail, needs="database")
    def store(mail: Mail, work: Work) -> None:
        if "\0" in mail.text:
            raise poison(psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes"))

    scene.import_at_once(180, Mail, source="archive")
    scene.import_at_once(5, Mail, source="archive", text="Monthly\0report")
    scene.traffic(20, Mail)


@incident("poison document")
def reminders_to_people_who_left_the_firm(scene: Scene) -> None:
    """Three reminders are addressed to people who have no mailbox any more."""
    (poison,) = scene.causes

    @scene.service("reminders", Mail, needs="relay")
    def send(mail: Mail, work: Work) -> None:
        if mail.author.startswith("former"):
            said = b"5.1.1 The email account that you tried to reach does not exist"
            raise poison(smtplib.SMTPRecipientsRefused({f"{mail.author}@firm.example": (550, said)}))

    gone = scene.documents(3, Mail, author=lambda: f"former{scene.random.randrange(100)}")
    scene.mixed_traffic(scene.documents(57, Mail), gone)


@incident("poison document", groups=2)
def pages_that_a_ministry_has_taken_down(scene: Scene) -> None:
    """Some addresses of a list of pages lead nowhere since the ministry rebuilt its site."""
    (poison,) = scene.causes

    @scene.service("crawl", Page, needs="web")
    def fetch(page: Page, work: Work) -> None:
        if page.kind in ("moved", "deleted"):
            code = 404 if page.kind == "moved" else 410
            raise poison(lib.requests_status(code, f"https://www.ministry.example/doc/{page.id}"))

    scene.mixed_traffic(
        scene.documents(130, Page),
        scene.documents(8, Page, kind="moved"),
        scene.documents(2, Page, kind="deleted"),
        every=5,
    )
    scene.run(40)


@incident("poison document")
def two_catalogues_too_large_for_the_translator(scene: Scene) -> None:
    """Two catalogues are larger than anything that the translator accepts."""
    (poison,) = scene.causes

    @scene.service("catalogues", Upload, needs="translator")
    def translate(upload: Upload, work: Work) -> None:
        if upload.size > 30_000_000:
            raise poison(lib.requests_status(413, "https://api.translate.example/v2/document"))

    scene.mixed_traffic(scene.documents(35, Upload), scene.documents(2, Upload, size=48_000_000))


@incident("poison document")
def one_chunk_of_a_batch_with_half_a_character(scene: Scene) -> None:
    """Chunks are embedded thirty-two at a time; three of them contain half a character and spoil their batches."""
    (poison,) = scene.causes

    @scene.service("chunk_embedding", Page, batch=32)
    def embed(pages: list[Page], work: Work) -> None:
        for page in pages:
            if page.kind == "torn":
                text = "TextEncodeInput must be Union[TextInputSequence, Tuple[InputSequence, InputSequence]]"
                raise poison(TypeError(text), page)

    chunks = [*scene.documents(253, Page), *scene.documents(3, Page, kind="torn")]
    scene.random.shuffle(chunks)
    scene.publish(chunks, together=32)
    scene.run(20)


@incident("poison document")
def letters_of_a_word_processor_of_the_eighties(scene: Scene) -> None:
    """A notary delivered nineteen letters in a format that no converter knows any more; our error is vague."""
    (poison,) = scene.causes

    @scene.service("to_text", Upload)
    def convert(upload: Upload, work: Work) -> None:
        if upload.kind == "wps":
            raise poison(ConversionError("conversion failed"))

    scene.traffic(50, Upload)
    scene.mixed_traffic(scene.documents(40, Upload), scene.documents(19, Upload, kind="wps", tenant="notary"))
    scene.run(hours=8)


@incident("poison document")
def web_pages_that_are_named_docx_on_the_first_day(scene: Scene) -> None:
    """A pilot with eight files: three of them are web pages that somebody renamed."""
    (poison,) = scene.causes

    @scene.service("office_text", Upload)
    def read(upload: Upload, work: Work) -> None:
        if upload.text == "<html>":
            with poison:
                zipfile.ZipFile(io.BytesIO(b"<html><body>Offer</body></html>"))

    renamed = scene.documents(3, Upload, kind="docx", text="<html>")
    scene.mixed_traffic(scene.documents(5, Upload, kind="docx"), renamed, every=240)


@incident("poison document")
def signed_orders_that_were_changed_on_their_way(scene: Scene) -> None:
    """A gateway of one customer rewrites line ends, so that the signatures of four orders do not hold."""
    (poison,) = scene.causes

    @scene.service("signatures", Order)
    def verify(order: Order, work: Work) -> None:
        if "\r\n" in order.text:
            raise poison(InvalidSignature())

    changed = scene.documents(4, Order, text="order\r\nsigned\r\n", tenant="globex")
    scene.mixed_traffic(scene.documents(66, Order), changed)
    scene.traffic(20, Order)
