"""Documents that are wrong themselves."""

from __future__ import annotations

import decimal
import json
import zoneinfo
from xml.etree import ElementTree

import psycopg

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.fourth import libraries as more
from tests.incidents.staging import Scene, incident


class TnefError(Exception):
    """The team's own: a winmail.dat that is not read."""


class LoadFileError(Exception):
    """The team's own: a delivery of the other party is not as agreed."""


class TransferRefused(Exception):
    """The team's own: the bank does not take a transfer."""


@incident("poison document")
def broken_winmail_attachments(scene: Scene) -> None:
    """Three mails of an old mail server have a winmail.dat with broken attributes."""
    (poison,) = scene.causes

    @scene.service("winmail", Mail)
    def unpack(mail: Mail, work: Work) -> None:
        if mail.kind == "tnef-broken":
            raise poison(TnefError(f"checksum of attribute 0x{mail.number % 16:04x} is wrong"))

    scene.mixed_traffic(scene.documents(150, Mail), scene.documents(3, Mail, kind="tnef-broken"))


@incident("poison document")
def archive_files_with_a_password(scene: Scene) -> None:
    """A custodian protected his Outlook files with a password; the library has only a long general error."""
    (poison,) = scene.causes

    @scene.service("outlook_files", Upload)
    def open_file(upload: Upload, work: Work) -> None:
        if upload.author == "k.brandt":
            why = "libpff_encryption_decrypt: unsupported encryption type. libpff_file_open_read: unable to open"
            raise poison(OSError(f"pypff_file_open: unable to open file: {upload.path}. {why}"))

    scene.mixed_traffic(
        scene.documents(28, Upload, kind="pst"),
        scene.documents(6, Upload, kind="pst", author="k.brandt"),
        every=300,
    )
    scene.run(hours=8)


@incident("poison document")
def mail_that_unpacks_without_end(scene: Scene) -> None:
    """One mail holds an archive in an archive in an archive; the worker is killed for its memory each time."""
    (poison,) = scene.causes

    @scene.service("nested_archives", Mail)
    def unpack(mail: Mail, work: Work) -> None:
        if mail.kind == "bomb":
            poison.kills(mail, work)

    scene.mixed_traffic(scene.documents(60, Mail), scene.documents(1, Mail, kind="bomb"))
    scene.run(hours=1)


@incident("poison document")
def scanner_sends_empty_files(scene: Scene) -> None:
    """The scanner on the third floor sends files of no bytes when its glass is open."""
    (poison,) = scene.causes

    @scene.service("scans", Upload)
    def read(upload: Upload, work: Work) -> None:
        if not upload.size:
            raise poison(more.EmptyFileError("Cannot read an empty file"))

    scene.traffic(40, Upload)
    scene.mixed_traffic(scene.documents(70, Upload), scene.documents(12, Upload, size=0, author="scanner-3"))


@incident("poison document")
def word_too_long_for_the_index(scene: Scene) -> None:
    """Two mails hold a picture as one word of a million letters; the index refuses them and takes all others."""
    (poison,) = scene.causes

    @scene.service("terms", Mail, needs="index")
    def index(mail: Mail, work: Work) -> None:
        if mail.size > 10_000_000:
            why = (
                'Document contains at least one immense term in field="subject" (whose UTF8 encoding is longer '
                "than the max length 32766), all of which were skipped"
            )
            raise poison(lib.TransportApiError(400, "document_parsing_exception", why))

    scene.mixed_traffic(scene.documents(110, Mail, size=4000), scene.documents(2, Mail, size=11_400_000))


@incident("poison document")
def texts_with_a_zero_byte(scene: Scene) -> None:
    """One customer's exporter ends its texts with a zero byte, which the database does not store."""
    (poison,) = scene.causes

    @scene.service("storing", Order, needs="database")
    def store(order: Order, work: Work) -> None:
        if "\0" in order.text:
            raise poison(psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes"))

    scene.traffic(50, Order)
    scene.mixed_traffic(scene.documents(50, Order), scene.documents(9, Order, text="offer\0", tenant="hooli"))


@incident("poison document")
def half_a_smiley_in_a_chat(scene: Scene) -> None:
    """Chats were cut after a fixed number of letters, four of them in the middle of a smiley."""
    (poison,) = scene.causes

    @scene.service("chats", Page)
    def encode(page: Page, work: Work) -> None:
        text = page.text + ("\ud83d" if page.kind == "cut" else "")
        with poison:
            text.encode()

    scene.mixed_traffic(scene.documents(85, Page), scene.documents(4, Page, kind="cut"))


@incident("poison document")
def company_name_with_a_bare_ampersand(scene: Scene) -> None:
    """One supplier's program writes its name, Smith & Sons, into XML as it is: none of its invoices is read."""
    (poison,) = scene.causes

    @scene.service("electronic_invoices", Invoice)
    def read(invoice: Invoice, work: Work) -> None:
        with poison:
            ElementTree.fromstring(f"<invoice><seller>{invoice.tenant}</seller></invoice>")

    scene.traffic(60)
    scene.mixed_traffic(scene.documents(90), scene.documents(26, tenant="Smith & Sons"))


@incident("poison document")
def model_refuses_some_mails(scene: Scene) -> None:
    """Five mails of a case about threats are refused by the filter of the language model."""
    (poison,) = scene.causes

    @scene.service("case_summaries", Mail, needs="model")
    def summarise(mail: Mail, work: Work) -> None:
        if mail.kind == "threat":
            text = "The response was filtered due to the prompt triggering our content management policy."
            raise poison(lib.BadRequestError(400, text, "invalid_request_error", "content_filter"))

    scene.mixed_traffic(scene.documents(75, Mail), scene.documents(5, Mail, kind="threat"))


@incident("poison document")
def fax_of_nine_thousand_pages(scene: Scene) -> None:
    """One fax has nine thousand pages and takes longer than its time limit, whenever it is tried."""
    (poison,) = scene.causes

    @scene.service("faxes", Upload, time_limit=120)
    def recognise(upload: Upload, work: Work) -> None:
        if upload.number == 31:
            poison.takes(150)

    scene.traffic(60, Upload, every=200)
    scene.run(hours=2)


@incident("poison document")
def letter_in_an_amount(scene: Scene) -> None:
    """In a delivery of 200 invoices, three have a letter O in the amount. They are worked on in batches."""
    (poison,) = scene.causes

    @scene.service("amounts", Invoice, batch=25)
    def read(invoices: list[Invoice], work: Work) -> None:
        for invoice in invoices:
            try:
                decimal.Decimal(invoice.text)
            except decimal.InvalidOperation as error:
                raise poison(error, invoice) from None

    documents = [*scene.documents(200, text="120.00"), *scene.documents(3, text="12O.00")]
    scene.random.shuffle(documents)
    scene.publish(documents, together=25)
    scene.run(30)


@incident("poison document")
def lists_in_lists_in_lists(scene: Scene) -> None:
    """A customer's test sent one order that is a hundred thousand lists deep."""
    (poison,) = scene.causes

    @scene.service("incoming_orders", Order)
    def read(order: Order, work: Work) -> None:
        with poison:
            json.loads(order.text)

    scene.mixed_traffic(
        scene.documents(40, Order, text='{"lines": []}'),
        scene.documents(1, Order, text="[" * 100_000, tenant="test"),
    )


@incident("poison document")
def links_to_pages_that_are_gone(scene: Scene) -> None:
    """Of the pages that we were asked to fetch, eleven of several sites do not exist any more."""
    (poison,) = scene.causes

    @scene.service("fetching", Page, needs="web")
    def fetch(page: Page, work: Work) -> None:
        if page.kind == "gone":
            raise poison(lib.requests_status(410, f"https://www{page.number % 5}.site.example/{page.id}"))

    scene.mixed_traffic(scene.documents(180, Page), scene.documents(11, Page, kind="gone"), every=10)


@incident("poison document")
def accounts_that_do_not_exist(scene: Scene) -> None:
    """Four suppliers gave us account numbers that do not exist; the bank makes all other transfers."""
    (poison,) = scene.causes

    @scene.service("transfers", Invoice, needs="bank")
    def pay(invoice: Invoice, work: Work) -> None:
        if invoice.kind == "wrong account":
            inner = lib.requests_status(422, "https://api.bank.example/v3/transfers")
            raise poison(TransferRefused(f"{invoice.id}: AC01 IncorrectAccountNumber")) from inner

    scene.mixed_traffic(scene.documents(65), scene.documents(4, kind="wrong account"), every=60)
    scene.run(hours=26)


@incident("poison document")
def files_withdrawn_before_they_were_read(scene: Scene) -> None:
    """A custodian deleted five of his files between the listing and the reading."""
    (poison,) = scene.causes

    @scene.service("listing", Upload)
    def read(upload: Upload, work: Work) -> None:
        if upload.kind == "deleted":
            raise poison(FileNotFoundError(2, "No such file or directory", upload.path))

    listed = [*scene.documents(120, Upload), *scene.documents(5, Upload, kind="deleted", author="a.novak")]
    scene.random.shuffle(listed)
    scene.publish(listed)
    scene.run(20)


@incident("poison document")
def notices_with_an_unknown_time_zone(scene: Scene) -> None:
    """Among many notices of meetings a few name a time zone that somebody made up. They name no document."""
    (poison,) = scene.causes

    @scene.service("meetings", None)
    def plan(notice: Notice, work: Work) -> None:
        with poison:
            zoneinfo.ZoneInfo(notice.what)

    scene.notices(40, what="Europe/Berlin")
    scene.notices(2, what="Central Office Time")
    scene.notices(30, what="Europe/Lisbon")


@incident("poison document")
def load_file_of_the_other_party(scene: Scene) -> None:
    """The other party delivered thirty documents with a column too few; other deliveries pass."""
    (poison,) = scene.causes

    @scene.service("load_files", Order)
    def read(order: Order, work: Work) -> None:
        fields = order.text.split("\u00b6")
        if len(fields) != 4:
            raise poison(LoadFileError(f"row has {len(fields)} fields, the header has 4"))

    whole, short = "ABC001\u00b6ABC004\u00b6k.brandt\u00b61997", "ABC001\u00b6ABC004\u00b61997"
    for delivery in ("vol001", "vol002", "vol003"):
        scene.import_at_once(45, Order, source=delivery, text=whole)
        scene.run(hours=20)
    scene.import_at_once(30, Order, source="vol004", text=short)
    scene.import_at_once(20, Order, source="vol005", text=whole)
    scene.run(5)
