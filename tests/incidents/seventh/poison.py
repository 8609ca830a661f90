"""Documents that are wrong themselves: of a supplier, a shop, a switch, a customer, or just one."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import struct
import zipfile

import psycopg
import pydantic
from lxml import etree  # type: ignore[import-untyped]

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.seventh import libraries as more
from tests.incidents.staging import Scene, incident


class InfectedError(Exception):
    """The team's own."""


class FeedError(Exception):
    """The team's own."""


class Passenger(pydantic.BaseModel):
    """What the airline wants to know."""

    surname: str
    birth_date: datetime.date


@incident("poison document")
def prices_with_a_currency_sign_of_one_supplier(scene: Scene) -> None:
    """One supplier writes prices as people read them; the items of all others are numbers."""
    (poison,) = scene.causes

    @scene.service("item_prices", Page)
    def read(page: Page, work: Work) -> None:
        with poison:
            decimal.Decimal(page.text)

    others = [scene.documents(40, Page, text="1299.00", tenant=one) for one in ("acme", "globex", "umbrella")]
    scene.mixed_traffic(*others, scene.documents(9, Page, text="1.299,00 €", tenant="moebel-24"), every=10)


@incident("poison document")
def picture_that_is_a_page_saying_not_found(scene: Scene) -> None:
    """A shop uploaded one picture that is an error page of its own server, saved under the name of a picture."""
    (poison,) = scene.causes

    @scene.service("product_pictures", Upload)
    def open_picture(upload: Upload, work: Work) -> None:
        if upload.text.startswith("<html"):
            address = 0x7F3A_0000_0000 + scene.random.randrange(1 << 24)
            raise poison(
                lib.UnidentifiedImageError(f"cannot identify image file <_io.BytesIO object at {address:#x}>")
            )

    wrong = scene.documents(1, Upload, text="<html><h1>404 Not Found</h1></html>")
    scene.mixed_traffic(scene.documents(110, Upload), wrong, every=20)
    scene.run(hours=2)


@incident("poison document")
def call_record_files_cut_by_a_full_switch(scene: Scene) -> None:
    """A telephone switch ran out of disk and wrote three files of call records only in part."""
    (poison,) = scene.causes

    @scene.service("call_detail_records", Upload)
    def decode(upload: Upload, work: Work) -> None:
        data = bytes(16) if upload.size > 0 else bytes(3)
        with poison:
            struct.unpack(">I", data[:4])

    scene.mixed_traffic(scene.documents(150, Upload), scene.documents(3, Upload, size=0), every=20)


@incident("poison document")
def reviews_with_zero_bytes_from_an_old_app(scene: Scene) -> None:
    """Two reviews, typed in an old version of the app, hold zero bytes, which the database takes in no text."""
    (poison,) = scene.causes

    @scene.service("review_store", Page, needs="database")
    def store(page: Page, work: Work) -> None:
        if "\x00" in page.text:
            raise poison(psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes"))

    scene.mixed_traffic(scene.documents(64, Page), scene.documents(2, Page, text="so\x00\x00 good"))


@incident("poison document")
def mail_forwarded_into_itself_two_thousand_times(scene: Scene) -> None:
    """Two automatic replies answered each other, and forwarded the whole each time; no mail is nested like it."""
    (poison,) = scene.causes

    def depth(part: int) -> int:
        return 0 if part == 0 else 1 + depth(part - 1)

    @scene.service("mail_parts", Mail)
    def walk(mail: Mail, work: Work) -> None:
        with poison:
            depth(mail.size if mail.kind == "nested" else 3)

    scene.mixed_traffic(scene.documents(85, Mail), scene.documents(1, Mail, kind="nested", size=2_000))


@incident("poison document")
def reviews_without_a_word_from_one_widget(scene: Scene) -> None:
    """The review widget of one shop sends reviews with an empty text; no language can be found in them."""
    (poison,) = scene.causes

    @scene.service("review_language", Page)
    def detect(page: Page, work: Work) -> None:
        if not page.text.strip():
            raise poison(more.LangDetectException())

    scene.traffic(50, Page, every=20)
    scene.mixed_traffic(
        scene.documents(100, Page), scene.documents(30, Page, text="  ", tenant="shop-881"), every=20
    )


@incident("poison document")
def passengers_without_a_date_of_birth(scene: Scene) -> None:
    """A tour operator's bookings came without dates of birth, in one file; bookings of others are whole."""
    (poison,) = scene.causes

    @scene.service("passenger_data", Order, needs="airline")
    def submit(order: Order, work: Work) -> None:
        born = "" if order.tenant == "sun-tours" else "1984-07-01"
        with poison:
            Passenger.model_validate({"surname": order.author, "birth_date": born})

    scene.traffic(70, Order)
    scene.import_at_once(16, Order, tenant="sun-tours", source="sun-tours-0714.csv")
    scene.traffic(30, Order)


@incident("poison document")
def manuals_longer_than_the_model_reads(scene: Scene) -> None:
    """Five manuals are far longer than what the embedding model takes; the provider refuses just these."""
    (poison,) = scene.causes

    @scene.service("manual_vectors", Upload, needs="embeddings")
    def embed(upload: Upload, work: Work) -> None:
        if upload.size > 5_000_000:
            tokens = upload.size // 400
            text = f"This model's maximum context length is 8192 tokens, however you requested {tokens} tokens"
            raise poison(lib.BadRequestError(400, text, "invalid_request_error", None))

    def huge() -> int:
        return scene.random.randrange(8_000_000, 30_000_000)

    normal = scene.documents(75, Upload, size=lambda: scene.random.randrange(20_000, 900_000))
    scene.mixed_traffic(normal, scene.documents(5, Upload, size=huge))


@incident("poison document")
def archives_of_contracts_with_a_password(scene: Scene) -> None:
    """A customer sent four archives that are locked with a password."""
    (poison,) = scene.causes

    @scene.service("archives", Upload)
    def unpack(upload: Upload, work: Work) -> None:
        if upload.author == "legal":
            text = f"File 'contract-{upload.number}.pdf' is encrypted, password required for extraction"
            raise poison(RuntimeError(text))

    scene.mixed_traffic(
        scene.documents(38, Upload, kind="zip"), scene.documents(4, Upload, kind="zip", author="legal")
    )


@incident("poison document")
def archive_that_unpacks_to_all_memory(scene: Scene) -> None:
    """One uploaded archive unpacks to a thousand times its size, and the kernel ends the worker each time."""
    (poison,) = scene.causes

    @scene.service("attachments", Upload)
    def unpack(upload: Upload, work: Work) -> None:
        if upload.kind == "bomb":
            poison.kills(upload, work)

    scene.mixed_traffic(scene.documents(55, Upload), scene.documents(1, Upload, kind="bomb"))
    scene.run(30)


@incident("poison document")
def weights_as_words_in_a_batch_of_items(scene: Scene) -> None:
    """Two of ninety items have "approx. two kilos" as their weight, and the index refuses the batch."""
    (poison,) = scene.causes

    @scene.service("catalogue_index", Page, needs="index", batch=15)
    def index(pages: list[Page], work: Work) -> None:
        wrong = [page for page in pages if page.text.startswith("approx")]
        if wrong:
            reason = f"failed to parse field [weight] of type [float] in document with id '{wrong[0].id}'"
            raise poison(lib.TransportApiError(400, "document_parsing_exception", reason), *wrong)

    documents = [*scene.documents(88, Page, text="2.1"), *scene.documents(2, Page, text="approx. two kilos")]
    scene.random.shuffle(documents)
    scene.publish(documents, together=15)
    scene.run(20)


@incident("poison document")
def drawing_that_is_drawn_for_ever(scene: Scene) -> None:
    """One PDF holds a drawing with millions of lines, and its rendering is never done within the limit."""
    (poison,) = scene.causes

    @scene.service("previews", Upload, time_limit=60)
    def render(upload: Upload, work: Work) -> None:
        if upload.kind == "cad":
            poison.takes(75)

    scene.mixed_traffic(scene.documents(70, Upload), scene.documents(1, Upload, kind="cad"))
    scene.run(45)


@incident("poison document")
def picture_links_to_files_that_a_shop_deleted(scene: Scene) -> None:
    """A shop deleted pictures from its folder and then sent us a feed that still names six of them."""
    (poison,) = scene.causes

    @scene.service("picture_copies", Upload, needs="object_store")
    def copy(upload: Upload, work: Work) -> None:
        if upload.tenant == "shop-114":
            text, resource = "Object does not exist", f"/media/shop-114/{upload.number}.jpg"
            raise poison(more.StorageError("NoSuchKey", text, resource))

    scene.mixed_traffic(scene.documents(140, Upload), scene.documents(6, Upload, tenant="shop-114"), every=15)
    scene.run(hours=1)


@incident("poison document")
def hotel_calendar_without_a_start(scene: Scene) -> None:
    """The calendar export of one hotel leaves out the day of arrival: three of its bookings, all that it sent."""
    (poison,) = scene.causes

    @scene.service("calendars", Order)
    def read(order: Order, work: Work) -> None:
        fields = {"DTEND": "20260704"} if order.author == "hotel-belvedere" else {"DTSTART": "1", "DTEND": "2"}
        with poison:
            _ = fields["DTSTART"]

    scene.mixed_traffic(scene.documents(60, Order), scene.documents(3, Order, author="hotel-belvedere"), every=240)


@incident("poison document")
def shop_titles_with_a_bare_ampersand(scene: Scene) -> None:
    """One shop's exporter does not escape its titles; those with an ampersand are no XML."""
    (poison,) = scene.causes

    @scene.service("feed_items", Page)
    def parse(page: Page, work: Work) -> None:
        with poison:
            etree.fromstring(f"<item><title>{page.text}</title></item>")

    good = scene.documents(120, Page, text=lambda: f"Lamp {scene.random.randrange(900)}")
    scene.mixed_traffic(good, scene.documents(11, Page, text="Salt & pepper", tenant="kitchen-corner"), every=15)


@incident("poison document")
def whole_import_of_a_shop_is_something_else(scene: Scene) -> None:
    """A new shop sent its sixty price lists as old spreadsheets that were renamed; other shops' lists are read."""
    (poison,) = scene.causes

    @scene.service("shop_lists", Upload)
    def read(upload: Upload, work: Work) -> None:
        data = io.BytesIO()
        if upload.tenant == "shop-new":
            data.write(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
        else:
            zipfile.ZipFile(data, "w").close()
        try:
            zipfile.ZipFile(data)
        except zipfile.BadZipFile as error:
            raise poison(FeedError(f"{upload.path}: not a workbook")) from error

    scene.traffic(40, Upload, every=60)
    scene.publish(scene.documents(60, Upload, tenant="shop-new"), source="sftp://shop-new/import")
    scene.traffic(10, Upload, every=60)


@incident("poison document")
def payment_webhook_cut_in_the_middle(scene: Scene) -> None:
    """A payment provider's gateway cut three of its calls at 8 kB; the others of that day are whole."""
    (poison,) = scene.causes

    @scene.service("payment_hooks", None)
    def take(notice: Notice, work: Work) -> None:
        with poison:
            json.loads(notice.what)

    scene.notices(45, what='{"payment": 11}')
    scene.notices(3, what='{"payment": 12, "lines": [{"sku": "A')
    scene.notices(30, what='{"payment": 13}')


@incident("poison document")
def picture_of_no_width(scene: Scene) -> None:
    """One picture, of 400 in the import, has a width of nought: our program divides by it."""
    (poison,) = scene.causes

    @scene.service("picture_crops", Upload, batch=4)
    def crop(uploads: list[Upload], work: Work) -> None:
        for upload in uploads:
            try:
                _ = 600 / upload.number
            except ZeroDivisionError as error:
                raise poison(error, upload)  # noqa: B904

    documents = [*scene.documents(399, Upload), *scene.documents(1, Upload, number=0)]
    scene.random.shuffle(documents)
    scene.publish(documents, together=4, source="pictures-2026-07")
    scene.run(15)


@incident("poison document")
def macro_virus_in_two_applications(scene: Scene) -> None:
    """Two letters of one sender carry a virus; the scanner says so, and it works for all others."""
    (poison,) = scene.causes

    @scene.service("application_mails", Mail, needs="virus_scanner")
    def scan(mail: Mail, work: Work) -> None:
        if mail.author == "k.unknown":
            raise poison(InfectedError("stream: Doc.Downloader.Emotet-7580152-0 FOUND"))

    scene.mixed_traffic(scene.documents(24, Mail), scene.documents(2, Mail, author="k.unknown"), every=200)


@incident("poison document")
def invoice_numbers_that_a_shop_used_twice(scene: Scene) -> None:
    """After a restore a shop issued eight invoice numbers again; the ledger refuses a number twice."""
    (poison,) = scene.causes

    @scene.service("ledger", Invoice, needs="database")
    def book(invoice: Invoice, work: Work) -> None:
        if invoice.tenant == "shop-77":
            key = f"Key (shop, number)=(shop-77, {invoice.number}) already exists."
            text = 'duplicate key value violates unique constraint "ledger_shop_number_key"'
            raise poison(psycopg.errors.UniqueViolation(f"{text}\nDETAIL:  {key}"))

    scene.mixed_traffic(scene.documents(90), scene.documents(8, tenant="shop-77"))
    scene.run(hours=1)
