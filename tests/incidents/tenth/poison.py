"""Documents that are wrong themselves; the program handles all others."""

from __future__ import annotations

import csv
import datetime
import decimal
import gzip
import io
import json
import smtplib
import subprocess
import zipfile
from xml.etree import ElementTree

import psycopg

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Order, Page, Upload
from tests.incidents.staging import Scene, incident
from tests.incidents.tenth import libraries as more


class ArchiveRefused(Exception):
    """The team's own."""


class Undecipherable(Exception):
    """The team's own, without a text."""


@incident("poison document")
def one_archive_unpacks_to_forty_gigabytes_of_zeros(scene: Scene) -> None:
    """Somebody uploaded a zip bomb; our check refuses it."""
    (poison,) = scene.causes

    @scene.service("unpacking", Upload)
    def unpack(upload: Upload, work: Work) -> None:
        if upload.kind == "zip" and upload.author == "guest":
            raise poison(ArchiveRefused(f"{upload.path} expands to 42949672960 bytes, the limit is 2147483648"))

    bomb = scene.documents(1, Upload, kind="zip", author="guest")
    scene.mixed_traffic(scene.documents(50, Upload), scene.documents(6, Upload, kind="zip"), bomb)
    scene.run(hours=8)


@incident("poison document")
def price_lists_with_a_quote_that_never_closes(scene: Scene) -> None:
    """A supplier's price lists have an inch sign as an open quote, so that the rest of the file is one field."""
    (poison,) = scene.causes

    @scene.service("price_lists", Upload)
    def read(upload: Upload, work: Work) -> None:
        quote = '"' if upload.tenant == "fittings-ltd" else ""
        with poison:
            list(csv.reader(io.StringIO(f"pipe 3/4,{quote}" + "17.90;steel\n" * 12_000)))

    scene.mixed_traffic(
        scene.documents(70, Upload, kind="csv"), scene.documents(5, Upload, kind="csv", tenant="fittings-ltd")
    )


@incident("poison document")
def mails_that_name_a_character_set_nobody_knows(scene: Scene) -> None:
    """An old mail program of one author writes a character set that does not exist."""
    (poison,) = scene.causes

    @scene.service("mail_text", Mail)
    def decode(mail: Mail, work: Work) -> None:
        with poison:
            mail.text.encode().decode("x-mac-nordic-2" if mail.kind == "eudora" else "utf-8")

    scene.mixed_traffic(scene.documents(140, Mail), scene.documents(6, Mail, kind="eudora"), every=8)
    scene.run(hours=1)


@incident("poison document")
def old_word_files_renamed_to_the_new_suffix(scene: Scene) -> None:
    """An office renamed its old files to the new suffix before it delivered them, all at once with good ones."""
    (poison,) = scene.causes
    good = io.BytesIO()
    with zipfile.ZipFile(good, "w") as archive:
        archive.writestr("word/document.xml", "<w/>")

    @scene.service("word_files", Upload)
    def read(upload: Upload, work: Work) -> None:
        stored = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" if upload.author == "records-office" else good.getvalue()
        with poison:
            zipfile.ZipFile(io.BytesIO(stored))

    old = scene.documents(12, Upload, kind="docx", author="records-office")
    new = scene.documents(150, Upload, kind="docx")
    scene.publish([*new[:60], *old, *new[60:]], source="delivery-0417")
    scene.run(25)


@incident("poison document")
def one_fuzzed_upload_is_nested_a_hundred_thousand_deep(scene: Scene) -> None:
    """A penetration tester uploaded brackets only; the parser runs out of stack with it."""
    (poison,) = scene.causes

    @scene.service("json_import", Order)
    def load(order: Order, work: Work) -> None:
        with poison:
            json.loads("[" * 100_000 if order.kind == "fuzz" else "[]")

    scene.mixed_traffic(scene.documents(65, Order, kind="json"), scene.documents(1, Order, kind="fuzz"))
    scene.run(hours=3)


@incident("poison document")
def scanned_letters_with_zero_bytes_in_their_text(scene: Scene) -> None:
    """The text layer of some scans has zero bytes, which the database does not store."""
    (poison,) = scene.causes

    @scene.service("letters", Upload, needs="database")
    def store(upload: Upload, work: Work) -> None:
        if "\x00" in upload.text:
            raise poison(psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes"))

    broken = scene.documents(4, Upload, text="Sehr geehrte\x00 Frau Moreau", kind="tiff")
    scene.mixed_traffic(scene.documents(100, Upload), broken, every=15)


@incident("poison document")
def events_with_a_month_in_place_of_the_day(scene: Scene) -> None:
    """Three entries have an impossible date, which the search cluster refuses to index."""
    (poison,) = scene.causes

    @scene.service("calendar_index", Page, needs="search_cluster")
    def index(page: Page, work: Work) -> None:
        if page.kind == "wrong":
            why = f"[1:62] failed to parse field [starts_at] of type [date] in document with id '{page.id}'"
            raise poison(lib.TransportApiError(400, "document_parsing_exception", why))

    scene.mixed_traffic(scene.documents(35, Page), scene.documents(3, Page, kind="wrong"), every=240)
    scene.run(hours=6)


@incident("poison document")
def crime_reports_that_the_model_will_not_read(scene: Scene) -> None:
    """The provider's filter refuses the text of some court files; all other files are summarised."""
    (poison,) = scene.causes

    @scene.service("court_files", Page, needs="model")
    def summarise(page: Page, work: Work) -> None:
        if page.kind == "homicide":
            text = "The response was filtered due to the prompt triggering the content management policy. "
            text += "Please modify your prompt and retry."
            raise poison(lib.BadRequestError(400, text, "invalid_request_error", "content_filter"))

    scene.mixed_traffic(scene.documents(80, Page), scene.documents(7, Page, kind="homicide"))


@incident("poison document")
def novels_among_the_notes_are_too_long_for_the_model(scene: Scene) -> None:
    """Somebody put three whole novels among short notes; they are longer than the model can take."""
    (poison,) = scene.causes

    @scene.service("note_vectors", Page, needs="embedding")
    def embed(page: Page, work: Work) -> None:
        if page.size > 1_000_000:
            text = f"This model's maximum context length is 8192 tokens, you requested {page.size // 4}"
            raise poison(lib.BadRequestError(400, text, "invalid_request_error", "context_length_exceeded"))

    notes = scene.documents(60, Page, size=lambda: scene.random.randrange(300, 9000))
    novels = scene.documents(3, Page, size=lambda: scene.random.randrange(1_100_000, 2_000_000))
    scene.mixed_traffic(notes, novels, every=5)
    scene.run(15)


@incident("poison document")
def photos_cut_off_by_a_broken_phone_sync(scene: Scene) -> None:
    """The sync of one phone broke off, so that its photos have no end."""
    (poison,) = scene.causes

    @scene.service("photos", Upload)
    def shrink(upload: Upload, work: Work) -> None:
        if upload.size < 20:
            raise poison(OSError(f"image file is truncated ({upload.number % 90 + 3} bytes not processed)"))

    photos = scene.documents(45, Upload, kind="jpg", size=lambda: scene.random.randrange(80_000, 4_000_000))
    scene.mixed_traffic(photos, scene.documents(9, Upload, kind="jpg", author="r.castillo", size=13))
    scene.run(hours=2)


@incident("poison document")
def one_drawing_brings_the_native_renderer_down(scene: Scene) -> None:
    """One drawing with a broken font table ends the process of whoever renders it; the others are rendered."""
    (poison,) = scene.causes

    @scene.service("drawings", Upload)
    def render(upload: Upload, work: Work) -> None:
        if upload.kind == "dwg-r12":
            poison.kills(upload, work)

    scene.mixed_traffic(scene.documents(40, Upload, kind="dwg"), scene.documents(1, Upload, kind="dwg-r12"))
    scene.run(hours=1)


@incident("poison document")
def post_with_twenty_thousand_blanks_never_ends(scene: Scene) -> None:
    """One post has a line of twenty thousand blanks, with which the trimming takes minutes."""
    (poison,) = scene.causes

    @scene.service("posts", Page, time_limit=60)
    def trim(page: Page, work: Work) -> None:
        if page.text.endswith(" " * 20_000):
            poison.takes(75)

    scene.mixed_traffic(scene.documents(80, Page), scene.documents(1, Page, text="see:" + " " * 20_000), every=90)


@incident("poison document")
def empty_pages_inside_of_embedding_batches(scene: Scene) -> None:
    """Two blank pages are among hundreds; the provider refuses a whole batch if one of its texts is empty."""
    (poison,) = scene.causes

    @scene.service("page_vectors", Page, needs="embedding", batch=24)
    def embed(pages: list[Page], work: Work) -> None:
        empty = [one for one in pages if not one.text]
        if empty:
            raise poison(
                more.ModelInputError("status_code: 400, body: {'message': 'texts must not be empty'}"), *empty
            )

    pages = scene.documents(118, Page)
    blank = scene.documents(2, Page, text="")
    scene.publish([*pages[:30], blank[0], *pages[30:90], blank[1], *pages[90:]], together=24)
    scene.run(hours=1)


@incident("poison document")
def supplier_does_not_escape_the_ampersand_in_its_name(scene: Scene) -> None:
    """The new program of the supplier Hart & Sons writes its name as it is into its electronic invoices."""
    (poison,) = scene.causes

    @scene.service("e_invoices", Invoice)
    def read(invoice: Invoice, work: Work) -> None:
        with poison:
            ElementTree.fromstring(invoice.text)

    good, bad = "<Invoice><Name>Okafor Ltd</Name></Invoice>", "<Invoice><Name>Hart & Sons</Name></Invoice>"
    scene.traffic(60, text=good, every=120)
    scene.mixed_traffic(
        scene.documents(100, text=good), scene.documents(25, text=bad, tenant="hart-and-sons"), every=120
    )


@incident("poison document")
def letters_to_people_who_left_the_firm(scene: Scene) -> None:
    """Some mails of a mailing go to addresses that exist no more; the relay takes all others."""
    (poison,) = scene.causes

    @scene.service("mailing", Mail, needs="relay")
    def send(mail: Mail, work: Work) -> None:
        if mail.kind == "left":
            to = f"{mail.author}.{mail.number}@partner.example"
            raise poison(
                smtplib.SMTPRecipientsRefused({to: (550, b"5.1.1 User unknown in virtual mailbox table")})
            )

    mails = [*scene.documents(190, Mail), *scene.documents(11, Mail, kind="left")]
    scene.random.shuffle(mails)
    scene.publish(mails)
    scene.run(40)


@incident("poison document")
def messages_encrypted_for_somebody_else(scene: Scene) -> None:
    """Four archived messages were encrypted for a key that we never had; the error has no text."""
    (poison,) = scene.causes

    @scene.service("secure_mail", Mail)
    def decrypt(mail: Mail, work: Work) -> None:
        if mail.kind == "p7m" and mail.author == "external":
            raise poison(Undecipherable())

    for_us, for_others = (
        scene.documents(30, Mail, kind="p7m"),
        scene.documents(4, Mail, kind="p7m", author="external"),
    )
    scene.mixed_traffic(for_us, for_others, scene.documents(50, Mail))


@incident("poison document")
def tills_of_one_chain_write_milliseconds(scene: Scene) -> None:
    """The tills of one chain were updated and write their times in milliseconds: dates after the year 9999."""
    (poison,) = scene.causes

    @scene.service("receipts", Order)
    def read(order: Order, work: Work) -> None:
        with poison:
            datetime.datetime.fromtimestamp(order.size, tz=datetime.UTC)

    seconds, millis = 1_790_000_000, 1_790_000_000_000
    scene.traffic(90, Order, size=seconds)
    scene.mixed_traffic(
        scene.documents(90, Order, size=seconds), scene.documents(30, Order, size=millis, tenant="corner-shops")
    )


@incident("poison document")
def converter_hangs_with_two_macro_laden_sheets(scene: Scene) -> None:
    """Two spreadsheets open a dialogue in the converter, which then waits until it is ended."""
    (poison,) = scene.causes

    @scene.service("to_pdf", Upload)
    def convert(upload: Upload, work: Work) -> None:
        if upload.kind == "xlsm":
            command = ["soffice", "--headless", "--convert-to", "pdf", upload.path]
            raise poison(subprocess.TimeoutExpired(command, 120))

    scene.mixed_traffic(scene.documents(55, Upload), scene.documents(2, Upload, kind="xlsm"), every=200)
    scene.run(hours=5)


@incident("poison document")
def nightly_exports_that_were_copied_before_they_were_complete(scene: Scene) -> None:
    """Nine of three hundred compressed exports were copied while they were still written."""
    (poison,) = scene.causes
    whole = gzip.compress(b"id;amount\n" * 50)

    @scene.service("exports", Upload)
    def read(upload: Upload, work: Work) -> None:
        with poison:
            gzip.decompress(whole[:-14] if upload.kind == "part" else whole)

    documents = [*scene.documents(291, Upload, kind="gz"), *scene.documents(9, Upload, kind="part")]
    scene.random.shuffle(documents)
    scene.publish(documents, source="nightly")
    scene.run(10)


@incident("poison document")
def amounts_with_a_decimal_comma_from_a_new_subsidiary(scene: Scene) -> None:
    """A new subsidiary writes its amounts with a comma, although the contract of the interface forbids it."""
    (poison,) = scene.causes

    @scene.service("amounts", Invoice)
    def read(invoice: Invoice, work: Work) -> None:
        with poison:
            decimal.Decimal(invoice.text)

    scene.traffic(50, text="1234.56")
    scene.mixed_traffic(
        scene.documents(40, text="1234.56"), scene.documents(14, text="1.234,56", tenant="lisboa"), every=60
    )
