"""Documents that are wrong themselves: damaged, refused by those who receive them, or of one bad exporter."""

from __future__ import annotations

import decimal
import json
import smtplib

import jsonschema  # type: ignore[import-untyped]
import psycopg
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import pkcs7
from lxml import etree  # type: ignore[import-untyped]

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.sixth import libraries as more
from tests.incidents.staging import Scene, incident


class EdiError(ValueError):
    """The team's own."""


class CaptureError(Exception):
    """The team's own, and vague."""


@incident("poison document")
def scans_without_a_trailer(scene: Scene) -> None:
    """Three PDF files lost their end when a scanner's network cable was loose."""
    (poison,) = scene.causes

    @scene.service("scans", Upload)
    def open_file(upload: Upload, work: Work) -> None:
        if upload.text == "cut":
            text = "unable to find trailer dictionary while recovering damaged file"
            raise poison(more.PdfError(f"{upload.path}: {text}"))

    scene.mixed_traffic(scene.documents(57, Upload), scene.documents(3, Upload, kind="pdf", text="cut"))


@incident("poison document")
def interchanges_that_count_wrong(scene: Scene) -> None:
    """One trading partner's converter counts the segments of its messages wrong, in every message it sends."""
    (poison,) = scene.causes

    @scene.service("edifact", Order)
    def read(order: Order, work: Work) -> None:
        if order.tenant == "nordfrakt":
            counted = 18 + order.number % 9
            raise poison(EdiError(f"UNT: segment count {counted + 1}, but {counted} segments were read"))

    scene.traffic(60, Order)
    scene.mixed_traffic(scene.documents(90, Order), scene.documents(14, Order, tenant="nordfrakt"))


@incident("poison document")
def letters_with_a_vertical_tab(scene: Scene) -> None:
    """Five letters hold a character that XML does not allow; they were pasted from an old word processor."""
    (poison,) = scene.causes

    @scene.service("letters", Page)
    def parse(page: Page, work: Work) -> None:
        with poison:
            etree.fromstring(f"<letter><body>{page.text}</body></letter>")

    scene.mixed_traffic(scene.documents(140, Page), scene.documents(5, Page, text="Dear Sir,\x0bwe write"))


@incident("poison document")
def contracts_saved_again_after_signing(scene: Scene) -> None:
    """Two contracts were opened and saved again after they were signed; the library's error has no text."""
    (poison,) = scene.causes

    @scene.service("verifying", Upload)
    def verify(upload: Upload, work: Work) -> None:
        if upload.text == "saved again":
            raise poison(InvalidSignature())

    scene.mixed_traffic(scene.documents(30, Upload), scene.documents(2, Upload, text="saved again"), every=300)
    scene.run(hours=9)


@incident("poison document")
def scanner_wrote_empty_files_for_an_hour(scene: Scene) -> None:
    """One scanner's card was full for an hour: it delivered empty files, amid those of all others."""
    (poison,) = scene.causes

    @scene.service("post_room", Upload)
    def open_image(upload: Upload, work: Work) -> None:
        if upload.size == 0:
            raise poison(lib.UnidentifiedImageError(f"cannot identify image file '{upload.path}'"))

    scene.traffic(100, Upload)
    empty = scene.documents(36, Upload, size=0, author="scanner-7")
    scene.mixed_traffic(scene.documents(84, Upload), empty)
    scene.traffic(60, Upload)


@incident("poison document", groups=None)
def archive_file_that_unpacks_forever(scene: Scene) -> None:
    """One uploaded archive unpacks to more than the machine has; each worker that takes it is killed."""
    (poison,) = scene.causes

    @scene.service("unpacking", Upload)
    def unpack(upload: Upload, work: Work) -> None:
        if upload.kind == "zip.zip":
            poison.kills(upload, work)

    scene.mixed_traffic(scene.documents(45, Upload), scene.documents(1, Upload, kind="zip.zip", size=42_374))
    scene.run(hours=1)


@incident("poison document")
def case_notes_with_nul_bytes(scene: Scene) -> None:
    """Four case notes from the old system hold NUL bytes; the database takes no such text."""
    (poison,) = scene.causes

    @scene.service("case_notes", Page, needs="case-db")
    def store(page: Page, work: Work) -> None:
        if "\x00" in page.text:
            raise poison(psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes"))

    scene.mixed_traffic(scene.documents(200, Page), scene.documents(4, Page, text="note\x00\x00"), every=10)


@incident("poison document")
def wound_photos_the_provider_will_not_read(scene: Scene) -> None:
    """The model provider's filter refuses six photos of wounds; it describes every other picture."""
    (poison,) = scene.causes

    @scene.service("describing", Upload, needs="vision-model")
    def describe(upload: Upload, work: Work) -> None:
        if upload.text == "wound":
            text = "Your input image may contain content that is not allowed by our safety system."
            raise poison(lib.BadRequestError(400, text, "invalid_request_error", "content_policy_violation"))

    scene.mixed_traffic(
        scene.documents(84, Upload, kind="jpg"), scene.documents(6, Upload, kind="jpg", text="wound")
    )
    scene.run(hours=3)


@incident("poison document")
def letters_to_people_who_have_left(scene: Scene) -> None:
    """Three letters go to addresses that no longer exist; the relay delivers all others."""
    (poison,) = scene.causes

    @scene.service("outgoing", Mail, needs="relay")
    def send(mail: Mail, work: Work) -> None:
        if mail.author == "gone":
            to = f"clerk{mail.number}@authority.example"
            raise poison(
                smtplib.SMTPRecipientsRefused({to: (550, b"5.1.1 User unknown in virtual mailbox table")})
            )

    scene.mixed_traffic(scene.documents(75, Mail), scene.documents(3, Mail, author="gone"))


@incident("poison document")
def claims_without_a_date_of_birth(scene: Scene) -> None:
    """The register answers claims without a date of birth with a server error; others it takes."""
    (poison,) = scene.causes

    @scene.service("claims", Order, needs="claims-register")
    def report(order: Order, work: Work) -> None:
        if "born" not in order.text:
            raise poison(more.Fault('ORA-01400: cannot insert NULL into ("REG"."CLAIMANT"."BIRTH_DT")'))

    whole, partial = "claimant 81 born 1961-04-02", "claimant 81"
    scene.traffic(40, Order, text=whole)
    scene.mixed_traffic(scene.documents(80, Order, text=whole), scene.documents(7, Order, text=partial))
    scene.run(hours=12)


@incident("poison document")
def tables_with_a_million_empty_rows(scene: Scene) -> None:
    """Two tables were saved with a million formatted empty rows; reading them takes longer than is allowed."""
    (poison,) = scene.causes

    @scene.service("tables", Upload, time_limit=60)
    def read(upload: Upload, work: Work) -> None:
        if upload.size > 500_000_000:
            poison.takes(61)

    scene.mixed_traffic(
        scene.documents(70, Upload, kind="xlsx"),
        scene.documents(2, Upload, kind="xlsx", size=912_000_000),
        every=90,
    )


@incident("poison document")
def vector_that_is_not_a_number(scene: Scene) -> None:
    """Pages of only punctuation get a vector of NaN, for which the index refuses the whole batch they are in."""
    (poison,) = scene.causes

    @scene.service("vectors", Page, needs="vector-index", batch=32)
    def index(pages: list[Page], work: Work) -> None:
        bad = [page for page in pages if page.text == "…"]
        if bad:
            text = "failed to parse: element at dim [0] is not a finite number [NaN]"
            raise poison(lib.TransportApiError(400, "document_parsing_exception", text), *bad)

    scene.import_at_once(96, Page, together=32)
    pages = [*scene.documents(93, Page), *scene.documents(3, Page, text="…")]
    scene.random.shuffle(pages)
    scene.publish(pages, together=32)
    scene.run(10)


@incident("poison document")
def amounts_with_a_decimal_comma(scene: Scene) -> None:
    """One customer's new exporter writes amounts with a comma, against the agreed format."""
    (poison,) = scene.causes

    @scene.service("amounts", Invoice)
    def book(invoice: Invoice, work: Work) -> None:
        with poison:
            decimal.Decimal(invoice.text)

    scene.traffic(150, text="1180.50", every=20)
    good, bad = scene.documents(170, text="99.90"), scene.documents(25, text="99,90", tenant="weidmann")
    scene.mixed_traffic(good, bad, every=20)


@incident("poison document")
def delivery_in_the_code_of_a_mainframe(scene: Scene) -> None:
    """A new customer's first delivery came in its mainframe's code, all twelve files; UTF-8 was agreed."""
    (poison,) = scene.causes

    @scene.service("deliveries", Upload)
    def read(upload: Upload, work: Work) -> None:
        with poison:
            upload.text.encode("cp500" if upload.tenant == "altbank" else "utf-8").decode()

    scene.traffic(110, Upload)
    scene.import_at_once(12, Upload, together=12, source="altbank", tenant="altbank")
    scene.traffic(40, Upload)


@incident("poison document")
def one_mail_with_a_damaged_signature(scene: Scene) -> None:
    """A mail from 2009 has a damaged S/MIME part; among four hundred of its archive it is the only one."""
    (poison,) = scene.causes

    @scene.service("signed_mail", Mail)
    def read(mail: Mail, work: Work) -> None:
        if mail.kind == "damaged":
            try:
                pkcs7.load_der_pkcs7_certificates(b"\x30\x82\x01")
            except ValueError as error:
                raise poison(CaptureError("part 2 could not be processed")) from error

    documents = [*scene.documents(399, Mail), *scene.documents(1, Mail, kind="damaged")]
    scene.publish(documents, together=50, source="archive-2009")
    scene.run(hours=30)


@incident("poison document")
def pages_of_the_old_site_map(scene: Scene) -> None:
    """A museum's site map still names fifteen pages that it took away; the crawler is told that they are gone."""
    (poison,) = scene.causes

    @scene.service("crawling", Page, rung="fetching")
    async def fetch(page: Page, work: Work) -> None:
        if page.path.startswith("/2011/"):
            raise poison(lib.requests_status(410, f"https://museum.example{page.path}{page.id}"))

    scene.mixed_traffic(scene.documents(60, Page), scene.documents(15, Page, path="/2011/exhibitions/"), every=5)
    scene.run(20)


@incident("poison document")
def policies_exported_twice(scene: Scene) -> None:
    """An insurer's branch exported eight policies a second time under new ids; their numbers are taken."""
    (poison,) = scene.causes

    @scene.service("policies", Invoice, needs="policy-db")
    def insert(invoice: Invoice, work: Work) -> None:
        if invoice.text.startswith("again"):
            text = (
                'duplicate key value violates unique constraint "policy_number_key"\nDETAIL:  Key (policy_number)='
            )
            raise poison(psycopg.errors.UniqueViolation(f"{text}(P-{invoice.number}) already exists."))

    scene.traffic(50)
    scene.import_at_once(8, text="again: policy")
    scene.traffic(50)
    scene.retry_all()
    scene.run(15)


@incident("poison document", groups=None)
def notices_of_arrival_without_a_berth(scene: Scene) -> None:
    """A shipping agent's form sends notices without a berth, or with a word for the draught."""
    (poison,) = scene.causes
    schema = {"required": ["berth"], "properties": {"draught": {"type": "number"}}}

    @scene.service("arrivals", None)
    def read(notice: Notice, work: Work) -> None:
        with poison:
            jsonschema.validate(json.loads(notice.what), schema)

    scene.notices(40, what='{"berth": "C4", "draught": 9.5}')
    scene.notices(2, what='{"draught": 7.1}')
    scene.notices(20, what='{"berth": "A1", "draught": 6}')
    scene.notices(1, what='{"berth": "A2", "draught": "deep"}')
    scene.notices(10, what='{"berth": "A1", "draught": 6}')
