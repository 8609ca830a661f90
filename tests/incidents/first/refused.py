"""Documents that somebody refuses, rightly: an API, a database, our own checks."""

from __future__ import annotations

import smtplib
import subprocess

import psycopg
import pydantic

from onward import Permanent, Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.staging import Scene, incident


@incident("poison document")
def database_rejects_a_null_byte(scene: Scene) -> None:
    """One mail has a NUL in its subject, which PostgreSQL cannot store."""
    (poison,) = scene.causes

    @scene.service("storing", Mail, needs="mail-db")
    def store(mail: Mail, work: Work) -> None:
        if mail.text == "nul":
            raise poison(psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes"))

    scene.mixed_traffic(scene.documents(60, Mail), scene.documents(1, Mail, text="nul"))


@incident("poison document")
def api_rejects_one_order(scene: Scene) -> None:
    """The courier's API rejects one order with 422, for its postcode does not exist; hundreds are accepted."""
    (poison,) = scene.causes

    @scene.service("shipping", Order, needs="courier")
    def ship(order: Order, work: Work) -> None:
        if order.text == "postcode 00000":
            raise poison(lib.requests_status(422, f"https://api.courier.example/v1/shipments/{order.id}"))

    scene.mixed_traffic(scene.documents(90, Order), scene.documents(1, Order, text="postcode 00000"))


@incident("poison document")
def api_crashes_on_one_page(scene: Scene) -> None:
    """The translator returns 500 for one page with a strange script; all others work, before and after."""
    (poison,) = scene.causes

    @scene.service("translating", Page, needs="translator")
    async def translate(page: Page, work: Work) -> None:
        if page.text == "linear b":
            raise poison(lib.HTTPStatusError(500, f"http://translator.internal/translate/{page.id}", "IndexError"))

    scene.traffic(30, Page)
    scene.traffic(1, Page, text="linear b")
    scene.traffic(60, Page)
    scene.run(hours=3)


@incident("poison document")
def page_is_gone(scene: Scene) -> None:
    """Of 80 pages of a website four were deleted: 404 and nothing to be done."""
    (poison,) = scene.causes

    @scene.service("fetching", Page, needs="website")
    def fetch(page: Page, work: Work) -> None:
        if page.text == "deleted":
            raise poison(lib.requests_status(404, f"https://www.museum.example/objects/{page.id}"))

    scene.mixed_traffic(scene.documents(76, Page), scene.documents(4, Page, text="deleted"))


@incident("poison document")
def recipient_does_not_exist(scene: Scene) -> None:
    """Two mails go to addresses that do not exist: the relay refuses the recipient, and takes all others."""
    (poison,) = scene.causes

    @scene.service("mailing", Mail, needs="relay")
    def send(mail: Mail, work: Work) -> None:
        if mail.text == "unknown recipient":
            address = f"{mail.author}.old@example.net"
            raise poison(
                smtplib.SMTPRecipientsRefused({address: (550, b"5.1.1 User unknown in virtual mailbox table")})
            )

    scene.mixed_traffic(scene.documents(70, Mail), scene.documents(2, Mail, text="unknown recipient"))


@incident("poison document")
def document_too_long_for_the_model(scene: Scene) -> None:
    """Three contracts have more tokens than the model takes."""
    (poison,) = scene.causes

    @scene.service("summarising", Upload, needs="model")
    async def summarise(upload: Upload, work: Work) -> None:
        if upload.size > 5_000_000:
            text = "This model's maximum context length is 128000 tokens. "
            text += f"However, your messages resulted in {upload.size // 4} tokens."
            raise poison(lib.BadRequestError(400, text, "invalid_request_error", "context_length_exceeded"))

    long = scene.documents(3, Upload, size=lambda: scene.random.randrange(5_000_001, 9_000_000))
    scene.mixed_traffic(scene.documents(50, Upload), long)


@incident("poison document")
def content_filter(scene: Scene) -> None:
    """The model provider's filter refuses one novel; it always will."""
    (poison,) = scene.causes

    @scene.service("summarising", Page, needs="model")
    async def summarise(page: Page, work: Work) -> None:
        if page.text == "novel":
            text = "The response was filtered due to the prompt triggering the content management policy."
            raise poison(lib.BadRequestError(400, text, "invalid_request_error", "content_filter"))

    scene.mixed_traffic(scene.documents(40, Page), scene.documents(1, Page, text="novel"))


@incident("poison document")
def validation_of_foreign_orders(scene: Scene) -> None:
    """One reseller sends orders without an amount: 12 of 150 are refused by our model, rightly."""
    (poison,) = scene.causes

    class OrderBody(pydantic.BaseModel):
        amount: int
        currency: str

    @scene.service("accepting", Order)
    def accept(order: Order, work: Work) -> None:
        with poison:
            OrderBody.model_validate(
                {"currency": "EUR"} if order.tenant == "reseller-17" else {"amount": 1, "currency": "EUR"}
            )

    scene.mixed_traffic(scene.documents(138, Order), scene.documents(12, Order, tenant="reseller-17"), every=30)


@incident("poison document")
def external_converter_rejects_it(scene: Scene) -> None:
    """The converter exits with status 1 for one damaged presentation."""
    (poison,) = scene.causes

    @scene.service("converting", Upload)
    def convert(upload: Upload, work: Work) -> None:
        if upload.text == "damaged":
            command = ["soffice", "--headless", "--convert-to", "pdf", upload.path]
            raise poison(
                subprocess.CalledProcessError(1, command, stderr="Error: source file could not be loaded")
            )

    scene.mixed_traffic(scene.documents(50, Upload), scene.documents(1, Upload, text="damaged", kind="pptx"))


@incident("poison document")
def handler_says_permanent(scene: Scene) -> None:
    """The handler refuses three invoices in an unknown currency, and says so."""
    (poison,) = scene.causes

    @scene.service("booking", Invoice)
    def book(invoice: Invoice, work: Work) -> None:
        if invoice.text.startswith("XQ"):
            raise poison(Permanent(f"nobody knows the currency {invoice.text!r}"))

    bad = scene.documents(3, text=lambda: "XQ" + scene.random.choice("XYZ"))
    scene.mixed_traffic(scene.documents(70), bad)


@incident("poison document")
def events_with_bad_payload(scene: Scene) -> None:
    """Two of sixty notices have text where a number belongs; the service finishes no documents."""
    (poison,) = scene.causes

    @scene.service("measuring", None)
    def measure(notice: Notice, work: Work) -> None:
        with poison:
            float("n/a" if notice.what == "old sensor" else "21.5")

    scene.notices(30)
    scene.notices(2, what="old sensor")
    scene.notices(30)


@incident("poison document")
def the_only_document_of_its_kind(scene: Scene) -> None:
    """A single AutoCAD drawing among 100 office files: the reader knows no such format."""
    (poison,) = scene.causes

    @scene.service("reading", Upload)
    def read(upload: Upload, work: Work) -> None:
        if upload.kind == "dwg":
            raise poison(lib.InvalidFileException(f"openpyxl does not support .dwg file format: {upload.path}"))

    scene.mixed_traffic(scene.documents(100, Upload), scene.documents(1, Upload, kind="dwg"), every=30)
