"""Documents that are wrong themselves, alone or all of one exporter."""

from __future__ import annotations

import datetime
import json
import smtplib
import subprocess
from xml.etree import ElementTree

import pydantic

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Order, Page, Upload
from tests.incidents.second import libraries as more
from tests.incidents.staging import Scene, incident


class HL7Error(Exception):
    """The team's own."""


class InvoiceError(Exception):
    """The team's own."""


class CodecError(Exception):
    """The team's own, often without a text."""


class Patient(pydantic.BaseModel):
    """What a message must have."""

    identifier: str
    birth_date: datetime.date


@incident("poison document")
def messages_without_a_patient(scene: Scene) -> None:
    """The laboratory's new exporter left out the patient's segment in thirty messages."""
    (poison,) = scene.causes

    @scene.service("laboratory", Order)
    def read(order: Order, work: Work) -> None:
        if "PID|" not in order.text:
            raise poison(HL7Error("segment PID is missing"))

    whole, partial = "MSH|^~\\&|LAB\rPID|1||4711", "MSH|^~\\&|LAB\rOBX|1"
    scene.traffic(80, Order, text=whole)
    scene.mixed_traffic(scene.documents(60, Order, text=whole), scene.documents(30, Order, text=partial))


@incident("poison document")
def film_cut_off_in_transfer(scene: Scene) -> None:
    """One film was cut off while it was sent; ffmpeg says only its exit status. Read after giving up."""
    (poison,) = scene.causes

    @scene.service("films", Upload)
    def convert(upload: Upload, work: Work) -> None:
        if upload.kind == "cut":
            raise poison(subprocess.CalledProcessError(1, ["ffmpeg", "-i", upload.path, "out.mp4"]))

    scene.mixed_traffic(scene.documents(40, Upload), scene.documents(1, Upload, kind="cut"), every=120)
    scene.run(hours=30)


@incident("poison document")
def books_with_a_password(scene: Scene) -> None:
    """A publisher delivered seven books that are encrypted."""
    (poison,) = scene.causes

    @scene.service("books", Upload)
    def read(upload: Upload, work: Work) -> None:
        if upload.tenant == "publisher":
            raise poison(lib.FileNotDecryptedError("File has not been decrypted"))

    scene.mixed_traffic(scene.documents(33, Upload), scene.documents(7, Upload, tenant="publisher"))


@incident("poison document")
def payment_file_with_a_wrong_sum(scene: Scene) -> None:
    """Two payment files do not add up, on a quiet day: four others went well."""
    (poison,) = scene.causes

    @scene.service("payment_files", Invoice)
    def check(invoice: Invoice, work: Work) -> None:
        if invoice.kind == "wrong":
            raise poison(
                InvoiceError(f"control sum {invoice.size}.10 differs from the sum of entries {invoice.size}.01")
            )

    scene.mixed_traffic(scene.documents(4), scene.documents(2, kind="wrong"), every=1800)


@incident("poison document")
def old_newspapers_in_another_encoding(scene: Scene) -> None:
    """The articles of one year were stored in another encoding; those of all other years are read."""
    (poison,) = scene.causes

    @scene.service("articles", Page)
    def read(page: Page, work: Work) -> None:
        stored = page.text.encode("latin-1" if page.tenant == "1997" else "utf-8")
        with poison:
            stored.decode()

    scene.mixed_traffic(
        scene.documents(90, Page, text="Überraschung in Köln", tenant="1998"),
        scene.documents(18, Page, text="Überraschung in Köln", tenant="1997"),
    )


@incident("poison document")
def invoices_dated_on_no_day(scene: Scene) -> None:
    """One customer's exporter writes days that do not exist; our vague error is raised from the parser's."""
    (poison,) = scene.causes

    @scene.service("invoices", Invoice)
    def process(invoice: Invoice, work: Work) -> None:
        try:
            day, month, year = map(int, invoice.text.split("/"))
            datetime.date(year, month, day)
        except ValueError as error:
            raise poison(InvoiceError("could not process invoice")) from error

    scene.traffic(70, text="28/02/2026")
    scene.mixed_traffic(
        scene.documents(70, text="27/02/2026"),
        scene.documents(30, text=lambda: f"3{scene.random.randrange(2)}/02/2026", tenant="initech"),
    )


@incident("poison document")
def tax_forms_refused_by_the_portal(scene: Scene) -> None:
    """The tax portal refuses five forms, whose tax numbers are wrong, and accepts all others."""
    (poison,) = scene.causes

    @scene.service("tax_forms", Invoice, needs="portal")
    def file_form(invoice: Invoice, work: Work) -> None:
        if invoice.kind == "wrong":
            body = '{"code": "TIN_INVALID", "field": "taxpayer.tin"}'
            raise poison(lib.HTTPStatusError(422, "https://portal.tax.example/v3/forms", body))

    scene.mixed_traffic(scene.documents(64), scene.documents(5, kind="wrong"))


@incident("poison document")
def recipients_that_do_not_exist(scene: Scene) -> None:
    """Some addresses of the campaign do not exist any more; the relay delivers to the others."""
    (poison,) = scene.causes

    @scene.service("campaign", Mail, needs="relay")
    def send(mail: Mail, work: Work) -> None:
        if mail.kind == "gone":
            to = f"{mail.author}.{mail.number}@customer.example"
            raise poison(smtplib.SMTPRecipientsRefused({to: (550, b"5.1.1 User unknown")}))

    scene.mixed_traffic(scene.documents(150, Mail), scene.documents(11, Mail, kind="gone"), every=5)


@incident("poison document")
def drawing_that_kills_the_reader(scene: Scene) -> None:
    """One CAD drawing makes the native reader fault: its worker process dies each time."""
    (poison,) = scene.causes

    @scene.service("drawings", Upload)
    def read(upload: Upload, work: Work) -> None:
        if upload.kind == "dwg-r9":
            poison.kills(upload, work)

    scene.mixed_traffic(scene.documents(30, Upload), scene.documents(1, Upload, kind="dwg-r9"), every=60)
    scene.run(hours=30)


@incident("poison document")
def scans_of_whole_walls(scene: Scene) -> None:
    """Three scans of wall maps are larger than the image library accepts."""
    (poison,) = scene.causes

    @scene.service("ocr", Upload)
    def read(upload: Upload, work: Work) -> None:
        if upload.kind == "wall":
            raise poison(
                lib.DecompressionBombError(
                    f"Image size ({400_000_000 + upload.number} pixels) exceeds limit of 178956970 pixels, "
                    "could be decompression bomb DOS attack."
                )
            )

    scene.traffic(22, Upload)
    scene.deploy("4.17.3")
    scene.mixed_traffic(scene.documents(22, Upload), scene.documents(3, Upload, kind="wall"))


@incident("poison document")
def source_file_of_one_endless_line(scene: Scene) -> None:
    """A generated source file of one line takes the code search's parser longer than the time limit."""
    (poison,) = scene.causes

    @scene.service("code_index", Upload, time_limit=60.0)
    def parse(upload: Upload, work: Work) -> None:
        if upload.kind == "min.js":
            poison.takes(90)

    scene.mixed_traffic(scene.documents(45, Upload), scene.documents(1, Upload, kind="min.js"), every=120)
    scene.run(hours=4)


@incident("poison document")
def bank_statements_with_open_tags(scene: Scene) -> None:
    """A bank's batch program wrote statements whose last tag is missing; failures began before our release."""
    (poison,) = scene.causes

    @scene.service("statements", Invoice)
    def read(invoice: Invoice, work: Work) -> None:
        with poison:
            ElementTree.fromstring(invoice.text)

    for version in ("4.17.2", "4.18.0"):
        scene.deploy(version)
        scene.mixed_traffic(
            scene.documents(40, text="<Document><Stmt/></Document>"),
            scene.documents(6, text="<Document><Stmt></Document>", tenant="globex"),
        )


@incident("poison document")
def pages_that_were_taken_down(scene: Scene) -> None:
    """Nine pages of the crawl's list were taken down by their owners; all others are fetched."""
    (poison,) = scene.causes

    @scene.service("crawl", Page)
    async def fetch(page: Page, work: Work) -> None:
        if page.kind == "gone":
            raise poison(more.aiohttp_status(410, f"https://site{page.number}.example/{page.id}"))

    scene.mixed_traffic(scene.documents(120, Page), scene.documents(9, Page, kind="gone"), every=10)


@incident("poison document")
def amounts_that_are_absent(scene: Scene) -> None:
    """Two orders of a batch import have no amount; the others of their batches are handled."""
    (poison,) = scene.causes

    @scene.service("order_import", Order, batch=16)
    def add(orders: list[Order], work: Work) -> None:
        for order in orders:
            amount = None if order.kind == "empty" else order.size
            try:
                _ = amount + 1  # type: ignore[operator]
            except TypeError as error:
                poison(error, order)
                raise

    documents = [*scene.documents(94, Order), *scene.documents(2, Order, kind="empty")]
    scene.random.shuffle(documents)
    scene.publish(documents, together=16)
    scene.run(60)


@incident("poison document", groups=2)
def patients_without_a_birth_date(scene: Scene) -> None:
    """A clinic sends patients with a birth date of its own form, or with none."""
    (poison,) = scene.causes

    @scene.service("patients", Order)
    def read(order: Order, work: Work) -> None:
        fields = {"identifier": order.id} | ({"birth_date": order.text} if order.text else {})
        with poison:
            Patient.model_validate(fields)

    scene.mixed_traffic(
        scene.documents(75, Order, text="1961-04-12"),
        scene.documents(8, Order, text="12 APR 61", tenant="clinic"),
        scene.documents(5, Order, text="", tenant="clinic"),
    )


@incident("poison document")
def parcels_of_one_surveyor(scene: Scene) -> None:
    """Twelve parcels of one surveyor have borders that cross themselves; an unrelated deploy is under way."""
    (poison,) = scene.causes

    @scene.service("parcels", Page)
    def join(page: Page, work: Work) -> None:
        if page.author == "surveyor":
            x, y = page.number * 1.25, page.size / 7
            raise poison(
                more.GEOSException(
                    f"TopologyException: side location conflict at {x} {y}. This can occur if the "
                    "input geometry is invalid."
                )
            )

    scene.deploy("4.17.2", "4.17.3")
    scene.mixed_traffic(scene.documents(60, Page), scene.documents(12, Page, author="surveyor"))


@incident("poison document")
def mails_without_a_body(scene: Scene) -> None:
    """Three mails have no body, which our reader does not expect of any mail; six others went well."""
    (poison,) = scene.causes

    @scene.service("mail_text", Mail)
    def read(mail: Mail, work: Work) -> None:
        body = None if mail.kind == "empty" else mail.text
        with poison:
            _ = body.strip()  # type: ignore[union-attr]

    scene.mixed_traffic(scene.documents(6, Mail), scene.documents(3, Mail, kind="empty"), every=600)


@incident("poison document")
def recordings_of_an_old_machine(scene: Scene) -> None:
    """Five recordings have a codec that nobody can read; our error has no text. An operator retried them."""
    (poison,) = scene.causes

    @scene.service("transcripts", Upload, needs="speech")
    def transcribe(upload: Upload, work: Work) -> None:
        if upload.kind == "dss":
            raise poison(CodecError())

    scene.mixed_traffic(scene.documents(48, Upload), scene.documents(5, Upload, kind="dss"), every=60)
    scene.run(hours=30)
    scene.retry_all()
    scene.traffic(10, Upload)
    scene.run(hours=30)


@incident("poison document")
def telemetry_of_one_robot_cut(scene: Scene) -> None:
    """A robot with a bad memory card sends reports that end too early; the others' reports are whole."""
    (poison,) = scene.causes

    @scene.service("telemetry", Order, needs="fleet")
    def store(order: Order, work: Work) -> None:
        with poison:
            json.loads(order.text)

    cut = {"text": lambda: '{"robot": 17, "pose": [4.1, 2.2], "log": "' + "x" * scene.random.randrange(40)}
    scene.mixed_traffic(
        scene.documents(200, Order, text='{"robot": 3}'), scene.documents(14, Order, **cut), every=10
    )
