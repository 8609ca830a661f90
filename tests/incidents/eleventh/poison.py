"""Documents that are wrong themselves."""

from __future__ import annotations

import gzip
import smtplib
import zipfile

import psycopg
import yaml  # type: ignore[import-untyped]
from lxml import etree  # type: ignore[import-untyped]

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Order, Page, Upload
from tests.incidents.eleventh import libraries as own
from tests.incidents.staging import Scene, incident


class UploadError(Exception):
    """The team's own."""


def outline_depth(titles: dict[str, list[str]], title: str) -> int:
    """How deep the bookmarks of a file are."""
    return 1 + max((outline_depth(titles, one) for one in titles[title]), default=0)


@incident("poison document")
def winmail_attachments_of_one_law_firm_cannot_be_unpacked(scene: Scene) -> None:
    """One law firm's old mail server cuts its winmail.dat attachments; nine mails of it are unreadable."""
    (poison,) = scene.causes

    @scene.service("mail_parts", Mail)
    def unpack(mail: Mail, work: Work) -> None:
        if mail.author == "kanzlei-roth":
            raise poison(ValueError(f"Wrong TNEF signature: 0x{mail.number:08x}"))

    scene.mixed_traffic(scene.documents(110, Mail), scene.documents(9, Mail, author="kanzlei-roth"))


@incident("poison document")
def nested_archive_bomb_kills_the_worker_that_unpacks_it(scene: Scene) -> None:
    """Somebody uploaded an archive that unpacks to petabytes; each worker that takes it is killed for memory."""
    (poison,) = scene.causes

    @scene.service("archives", Upload)
    def unpack(upload: Upload, work: Work) -> None:
        if upload.kind == "zip":
            poison.kills(upload, work)

    scene.mixed_traffic(scene.documents(50, Upload), scene.documents(1, Upload, kind="zip", size=42_374))
    scene.run(30)


@incident("poison document")
def phone_photos_renamed_to_jpg_that_are_none(scene: Scene) -> None:
    """Field staff renamed HEIC photos to .jpg; five of them came in a week of hundreds."""
    (poison,) = scene.causes

    @scene.service("damage_photos", Upload)
    def open_photo(upload: Upload, work: Work) -> None:
        if upload.text.startswith("ftypheic"):
            raise poison(lib.UnidentifiedImageError(f"cannot identify image file '{upload.path}'"))

    photos = scene.documents(5, Upload, kind="jpg", text="ftypheic")
    scene.mixed_traffic(scene.documents(260, Upload, kind="jpg"), photos, every=600)


@incident("poison document")
def bookmarks_of_two_manuals_point_at_each_other(scene: Scene) -> None:
    """Two manuals have bookmarks in a circle, which the format forbids; the walk over them never ends."""
    (poison,) = scene.causes

    @scene.service("manuals", Upload)
    def outline(upload: Upload, work: Work) -> None:
        children = ["Safety"] if upload.text == "circle" else []
        with poison:
            outline_depth({"Safety": children}, "Safety")

    scene.mixed_traffic(scene.documents(45, Upload), scene.documents(2, Upload, text="circle"))


@incident("poison document")
def supplier_invoices_with_a_bare_ampersand_in_their_name(scene: Scene) -> None:
    """A supplier's new program writes its name unescaped: the 40 invoices of its first delivery are no XML."""
    (poison,) = scene.causes

    @scene.service("e_invoices", Invoice)
    def read(invoice: Invoice, work: Work) -> None:
        with poison:
            etree.fromstring(f"<invoice><seller>{invoice.author}</seller></invoice>")

    scene.traffic(150, every=20)
    scene.import_at_once(40, author="Hahn & Söhne", tenant="hahn", source="hahn-2026-03.zip")
    scene.traffic(50, every=20)


@incident("poison document")
def typed_phone_number_as_quantity_does_not_fit_the_column(scene: Scene) -> None:
    """One buyer typed a phone number as the quantity; the database says that it is out of range."""
    (poison,) = scene.causes

    @scene.service("order_lines", Order, needs="orders_db")
    def write(order: Order, work: Work) -> None:
        if order.size > 2**31:
            raise poison(psycopg.errors.NumericValueOutOfRange("integer out of range"))

    scene.mixed_traffic(scene.documents(65, Order), scene.documents(1, Order, size=4_917_612_345_678))
    scene.run(hours=5)


@incident("poison document")
def recognised_texts_with_zero_bytes_are_refused_by_the_database(scene: Scene) -> None:
    """A few scans yield texts with zero bytes, which the database does not take."""
    (poison,) = scene.causes

    @scene.service("scan_texts", Upload, needs="postgres")
    def save(upload: Upload, work: Work) -> None:
        if "\x00" in upload.text:
            raise poison(psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes"))

    scene.mixed_traffic(scene.documents(90, Upload), scene.documents(6, Upload, text="Kauf\x00vertrag"))


@incident("poison document")
def mail_to_forty_thousand_people_is_over_the_time_limit(scene: Scene) -> None:
    """One mail was sent to forty thousand people by mistake: its header alone takes longer than allowed."""
    (poison,) = scene.causes

    @scene.service("recipients", Mail, time_limit=60)
    def resolve(mail: Mail, work: Work) -> None:
        if mail.size > 50_000_000:
            poison.takes(75)

    scene.mixed_traffic(scene.documents(55, Mail), scene.documents(1, Mail, size=61_400_233), every=60)
    scene.run(hours=1)


@incident("poison document")
def threatening_letters_refused_by_the_content_filter(scene: Scene) -> None:
    """Four letters contain threats, so the model's filter refuses to summarise them."""
    (poison,) = scene.causes

    @scene.service("letter_summaries", Page, needs="llm")
    def summarise(page: Page, work: Work) -> None:
        if page.text.startswith("threat"):
            text = "The response was filtered due to the prompt triggering the content management policy."
            raise poison(lib.BadRequestError(400, text, "invalid_request_error", "content_filter"))

    scene.mixed_traffic(scene.documents(64, Page), scene.documents(4, Page, text="threat of p.moreau"))


@incident("poison document")
def two_torn_log_archives_in_batches_of_twenty_five(scene: Scene) -> None:
    """Two log archives were torn on the way; they came in batches with whole ones."""
    (poison,) = scene.causes
    whole = gzip.compress(b"GET / HTTP/1.1 200\n" * 20)

    @scene.service("access_logs", Upload, batch=25)
    def read(uploads: list[Upload], work: Work) -> None:
        for upload in uploads:
            try:
                gzip.decompress(whole[:30] if upload.kind == "torn" else whole)
            except EOFError as error:
                poison(error, upload)
                raise

    documents = [*scene.documents(148, Upload, kind="gz"), *scene.documents(2, Upload, kind="torn")]
    scene.random.shuffle(documents)
    scene.publish(documents, together=25, source="logs-week-12")
    scene.run(30)


@incident("poison document")
def letters_to_mailboxes_of_people_who_left(scene: Scene) -> None:
    """Seven addresses no longer exist; the mail host refuses them one by one and takes all others."""
    (poison,) = scene.causes

    @scene.service("confirmations", Mail, needs="smtp")
    def send(mail: Mail, work: Work) -> None:
        if mail.kind == "left":
            address = f"{mail.author}.{mail.number}@customer.example"
            raise poison(smtplib.SMTPRecipientsRefused({address: (550, b"5.1.1 User unknown")}))

    scene.mixed_traffic(scene.documents(95, Mail), scene.documents(7, Mail, kind="left"))


@incident("poison document")
def bank_refuses_payments_to_closed_accounts(scene: Scene) -> None:
    """Three payments go to accounts that were closed; the bank takes the other payments of the day."""
    (poison,) = scene.causes

    @scene.service("payments", Invoice, needs="bank")
    def pay(invoice: Invoice, work: Work) -> None:
        if invoice.text == "closed":
            raise poison(lib.requests_status(422, f"https://api.bank.example/v2/payments/{invoice.id}"))

    scene.mixed_traffic(scene.documents(38), scene.documents(3, text="closed"), every=400)
    scene.run(hours=8)


@incident("poison document")
def spreadsheets_with_a_sensitivity_label_are_no_zip_files(scene: Scene) -> None:
    """One customer began to protect its spreadsheets; since then those of it are encrypted, and no zip files."""
    (poison,) = scene.causes

    @scene.service("spreadsheets", Upload)
    def read(upload: Upload, work: Work) -> None:
        if upload.text == "encrypted":
            raise poison(zipfile.BadZipFile("File is not a zip file"))

    scene.traffic(100, Upload, kind="xlsx")
    scene.mixed_traffic(
        scene.documents(75, Upload, kind="xlsx", tenant="globex"),
        scene.documents(25, Upload, kind="xlsx", tenant="initech", text="encrypted"),
    )


@incident("poison document")
def empty_uploads_of_a_phone_whose_memory_is_full(scene: Scene) -> None:
    """A phone with a full memory sends files without a byte; our error hides that the first byte is missing."""
    (poison,) = scene.causes

    @scene.service("field_reports", Upload)
    def read(upload: Upload, work: Work) -> None:
        content = b"%PDF"[: upload.size]
        try:
            _ = content[0]
        except IndexError as error:
            raise poison(UploadError("cannot process upload")) from error

    scene.mixed_traffic(scene.documents(24, Upload, size=8_000), scene.documents(4, Upload, size=0))


@incident("poison document")
def pipeline_descriptions_that_are_indented_with_tabs(scene: Scene) -> None:
    """Three teams indent their descriptions with tabs, which YAML forbids."""
    (poison,) = scene.causes

    @scene.service("pipeline_files", Page)
    def read(page: Page, work: Work) -> None:
        with poison:
            yaml.safe_load(page.text)

    scene.mixed_traffic(
        scene.documents(52, Page, text="stages:\n  - build\n"),
        scene.documents(3, Page, text="stages:\n\t- build\n"),
    )


@incident("poison document")
def cards_without_a_valid_number_refused_by_the_card_service(scene: Scene) -> None:
    """Two customers' stored cards have numbers that are none; the provider calls it an invalid request."""
    (poison,) = scene.causes

    @scene.service("renewals", Order, needs="card_service")
    def renew(order: Order, work: Work) -> None:
        if order.text == "4242":
            raise poison(
                own.InvalidRequestError(f"No such payment_method: 'pm_{order.number}'", "resource_missing", "card")
            )

    scene.mixed_traffic(scene.documents(31, Order), scene.documents(2, Order, text="4242"))
    scene.run(45)
