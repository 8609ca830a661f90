"""Defects, bad releases and wrong configuration, in many trades."""

from __future__ import annotations

import asyncio
import datetime
import socket
from types import SimpleNamespace
from typing import Any

import psycopg

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Order, Page, Upload
from tests.incidents.staging import Scene, incident


class InvoiceError(Exception):
    """The team's own."""


class RenderError(Exception):
    """The team's own."""


class ConfigError(Exception):
    """The team's own."""


@incident("bug or bad deploy")
def wrong_bank_host_deployed(scene: Scene) -> None:
    """A release brought the host name of the bank's server with a typing error; it was rolled back."""
    (bug,) = scene.causes

    @scene.service("payments", Invoice, needs="bank")
    def submit(invoice: Invoice, work: Work) -> None:
        if scene.version == "5.0.0":
            raise bug(socket.gaierror(-2, "Name or service not known: 'ebcis.bank.example'"))

    scene.traffic(60)
    scene.deploy("5.0.0")
    scene.traffic(20)
    scene.deploy("4.17.2")
    scene.traffic(20)
    scene.run(hours=2)


@incident("bug or bad deploy")
def secret_under_another_name(scene: Scene) -> None:
    """The new release reads its token under a name that nobody has set."""
    (bug,) = scene.causes

    @scene.service("iban_check", Invoice)
    def check(invoice: Invoice, work: Work) -> None:
        environment = {"IBAN_TOKEN": "x"}
        if scene.version == "4.18.0":
            with bug:
                _ = environment["IBAN_API_TOKEN"]

    scene.traffic(44)
    scene.deploy("4.18.0")
    scene.traffic(13)


@incident("bug or bad deploy")
def speech_package_missing_on_new_machines(scene: Scene) -> None:
    """The image of the new release lacks a package; half of the machines have the old one."""
    (bug,) = scene.causes

    @scene.service("transcripts", Upload)
    def transcribe(upload: Upload, work: Work) -> None:
        if scene.version == "4.18.0-rc2":
            raise bug(ModuleNotFoundError("No module named 'soundfile'", name="soundfile"))

    scene.traffic(30, Upload)
    scene.deploy("4.17.2", "4.18.0-rc2")
    scene.traffic(30, Upload)


@incident("bug or bad deploy")
def patients_migration_not_run(scene: Scene) -> None:
    """The release expects a column whose migration nobody has run."""
    (bug,) = scene.causes

    @scene.service("patients", Order, needs="database")
    def store(order: Order, work: Work) -> None:
        if scene.version == "4.19.0":
            raise bug(
                psycopg.errors.UndefinedColumn(
                    'column "consent_at" of relation "patients" does not exist\n'
                    "LINE 1: INSERT INTO patients (mrn, consent_at) VALUES ($1, $2)"
                )
            )

    scene.traffic(18, Order)
    scene.deploy("4.19.0")
    scene.traffic(12, Order)


@incident("bug or bad deploy")
def three_versions_the_last_one_bad(scene: Scene) -> None:
    """During a slow rolling deploy three versions run; only the newest forgets that a cover may be absent."""
    (bug,) = scene.causes

    @scene.service("newspaper_pages", Page)
    def typeset(page: Page, work: Work) -> None:
        cover: Any = None if scene.version == "4.19.0" else SimpleNamespace(width=3)
        with bug:
            _ = cover.width

    scene.deploy("4.17.2", "4.18.0")
    scene.traffic(40, Page)
    scene.deploy("4.17.2", "4.18.0", "4.19.0")
    scene.traffic(45, Page)


@incident("bug or bad deploy")
def library_changed_its_signature(scene: Scene) -> None:
    """A release came with a newer library, whose function lost an argument that we pass."""
    (bug,) = scene.causes

    def encode(film: str, *, preset: str) -> str:
        return film + preset

    @scene.service("films", Upload)
    def convert(upload: Upload, work: Work) -> None:
        options = {"preset": "slow"} | ({"two_pass": True} if scene.version == "4.17.9" else {})
        with bug:
            encode(upload.path, **options)  # type: ignore[arg-type]

    scene.traffic(70, Upload)
    scene.deploy("4.17.9")
    scene.traffic(8, Upload)
    scene.run(hours=30)


@incident("bug or bad deploy")
def next_month_has_no_such_day(scene: Scene) -> None:
    """No deploy: since the 31st, our computation of the due date asks for a day that the next month lacks."""
    (bug,) = scene.causes

    @scene.service("due_dates", Invoice)
    def compute(invoice: Invoice, work: Work) -> None:
        day = 31 if bug.on else 30
        with bug:
            datetime.date(2026, 8, day).replace(month=9)

    scene.traffic(90, every=300)
    bug.on = True
    scene.traffic(40, every=300)


@incident("bug or bad deploy")
def template_with_a_misspelled_field(scene: Scene) -> None:
    """The campaign's new template names a field that does not exist; our own error is raised from that."""
    (bug,) = scene.causes

    @scene.service("campaign", Mail, needs="relay")
    def send(mail: Mail, work: Work) -> None:
        if scene.version == "4.17.3":
            try:
                raise lib.UndefinedError("'frist_name' is undefined")
            except Exception as error:
                raise bug(RenderError("could not render mail")) from error

    scene.traffic(25, Mail)
    scene.deploy("4.17.3")
    scene.traffic(60, Mail, every=5)


@incident("bug or bad deploy")
def replies_nested_without_end(scene: Scene) -> None:
    """The new release walks threads recursively and never stops for replies; other mails go well."""
    (bug,) = scene.causes

    def walk(mail: Mail) -> int:
        return 1 + walk(mail)

    @scene.service("threads", Mail)
    def sort(mail: Mail, work: Work) -> None:
        if scene.version == "4.18.0" and mail.kind == "reply":
            with bug:
                walk(mail)

    kinds = ("reply", "new", "new", "new")
    scene.traffic(60, Mail, kind=lambda: scene.random.choice(kinds))
    scene.deploy("4.18.0")
    scene.traffic(60, Mail, kind=lambda: scene.random.choice(kinds))


@incident("bug or bad deploy")
def drawings_scaled_by_nothing(scene: Scene) -> None:
    """Since the release the scale of CAD drawings is 0; PDF plans are not scaled, and go well."""
    (bug,) = scene.causes

    @scene.service("plans", Upload)
    def draw(upload: Upload, work: Work) -> None:
        scale = 0 if scene.version == "2026.11" and upload.kind == "dwg" else 50
        try:
            _ = upload.size / scale
        except ZeroDivisionError as error:
            raise bug(RenderError(f"could not render {upload.path}")) from error

    scene.traffic(50, Upload, kind=lambda: scene.random.choice(("dwg", "pdf")))
    scene.deploy("2026.11")
    scene.traffic(50, Upload, kind=lambda: scene.random.choice(("dwg", "pdf")))


@incident("bug or bad deploy")
def size_limit_deployed_in_the_wrong_unit(scene: Scene) -> None:
    """The new configuration gives the limit in megabytes where the program reads bytes: all are too large."""
    (bug,) = scene.causes

    @scene.service("uploads", Upload)
    def accept(upload: Upload, work: Work) -> None:
        limit = 25 if scene.version == "4.17.2+config7" else 25_000_000
        if upload.size > limit:
            raise bug(ValueError(f"document of {upload.size} bytes is larger than the limit of {limit}"))

    scene.traffic(55, Upload)
    scene.deploy("4.17.2+config7")
    scene.traffic(21, Upload)


@incident("bug or bad deploy")
def vague_invoice_error_fixed_and_retried(scene: Scene) -> None:
    """A bad release could not process invoices; a fix was deployed and an operator retried them all."""
    (bug,) = scene.causes

    @scene.service("invoices", Invoice)
    def process(invoice: Invoice, work: Work) -> None:
        if scene.version == "5.1.0":
            raise bug(InvoiceError("could not process invoice"))

    scene.traffic(40)
    scene.deploy("5.1.0")
    scene.traffic(26)
    scene.run(hours=25)
    scene.deploy("5.1.1")
    scene.retry_all()
    scene.traffic(20)


@incident("bug or bad deploy")
def bucket_of_the_test_system(scene: Scene) -> None:
    """The release was configured with the bucket of the test system, which does not exist here."""
    (bug,) = scene.causes

    @scene.service("films", Upload, needs="bucket")
    def fetch(upload: Upload, work: Work) -> None:
        if scene.version == "4.18.1":
            raise bug(lib.BotoClientError("NoSuchBucket", "The specified bucket does not exist", "GetObject", 404))

    scene.traffic(38, Upload)
    scene.deploy("4.18.1")
    scene.traffic(16, Upload)


@incident("bug or bad deploy")
def prompt_became_too_long(scene: Scene) -> None:
    """The new release puts the whole handbook in each prompt: the model refuses all of them."""
    (bug,) = scene.causes

    @scene.service("replies", Mail, needs="llm")
    async def reply(mail: Mail, work: Work) -> None:
        if scene.version == "4.18.0":
            raise bug(
                lib.BadRequestError(
                    400,
                    "This model's maximum context length is 128000 tokens. However, your messages resulted in "
                    f"{141_000 + mail.number} tokens.",
                    "invalid_request_error",
                    "context_length_exceeded",
                )
            )

    scene.traffic(48, Mail)
    scene.deploy("4.18.0")
    scene.traffic(19, Mail)


@incident("bug or bad deploy")
def new_image_without_a_locale(scene: Scene) -> None:
    """The new base image has no locale: names with accents cannot be printed any more, others can."""
    (bug,) = scene.causes

    @scene.service("address_labels", Order)
    def label(order: Order, work: Work) -> None:
        with bug:
            order.text.encode("ascii" if scene.version == "4.17.4" else "utf-8")

    names = ("Müller", "Smith", "Nováková", "Jones", "Brown")
    scene.traffic(60, Order, text=lambda: scene.random.choice(names))
    scene.deploy("4.17.4")
    scene.traffic(60, Order, text=lambda: scene.random.choice(names))


@incident("bug or bad deploy")
def first_day_of_a_new_service(scene: Scene) -> None:
    """A service that was declared today has never worked: its attribute is misspelled."""
    (bug,) = scene.causes

    @scene.service("citations", Page)
    def cite(page: Page, work: Work) -> None:
        with bug:
            _ = page.txet  # type: ignore[attr-defined]

    scene.traffic(35, Page)


@incident("bug or bad deploy")
def event_loop_within_another(scene: Scene) -> None:
    """The handler became asynchronous in the release, and one of its calls starts a loop of its own."""
    (bug,) = scene.causes

    @scene.service("crawl", Page)
    async def fetch(page: Page, work: Work) -> None:
        if scene.version == "4.18.0":
            with bug:
                waiting = asyncio.sleep(0)
                try:
                    asyncio.run(waiting)
                finally:
                    waiting.close()

    scene.traffic(28, Page)
    scene.deploy("4.18.0")
    scene.traffic(28, Page)
    scene.deploy("4.17.2")
    scene.run(hours=8)


@incident("bug or bad deploy")
def settings_file_not_found_after_move(scene: Scene) -> None:
    """The release looks for its tax table where the package no longer puts it; batches of forms fail."""
    (bug,) = scene.causes

    @scene.service("tax_forms", Invoice, batch=6)
    def compute(invoices: list[Invoice], work: Work) -> None:
        if scene.version == "2026.2":
            try:
                raise FileNotFoundError(2, "No such file or directory", "/app/tables/2026.csv")
            except OSError as error:
                raise bug(ConfigError("tax table is not available")) from error

    scene.import_at_once(60, together=6)
    scene.run(30)
    scene.deploy("2026.2")
    scene.import_at_once(30, together=6)
    scene.run(30)
