"""The program or its configuration is wrong: further libraries, rollouts and moments."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import psycopg

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Item, Mail, Notice, Order, Page, Upload
from tests.incidents.second import libraries as more
from tests.incidents.staging import Scene, incident


@incident("bug or bad deploy")
def release_reads_amounts_with_commas(scene: Scene) -> None:
    """A release parses amounts without replacing the comma: invoices from abroad fail, a third of all."""
    (defect,) = scene.causes

    @scene.service("tax-totals", Invoice)
    def total(invoice: Invoice, work: Work) -> None:
        text = invoice.text if scene.version == "2.9.0" else invoice.text.replace(",", ".")
        with defect:
            Decimal(text)

    def amount() -> str:
        return scene.random.choice(("118.40", "99.00", "1049,95"))

    scene.deploy("2.8.4")
    scene.traffic(60, Invoice, text=amount)
    scene.deploy("2.9.0")
    scene.traffic(60, Invoice, text=amount)


@incident("bug or bad deploy")
def thumbnailer_after_library_upgrade(scene: Scene) -> None:
    """A release upgraded the image library, which has removed a constant that we use."""
    (defect,) = scene.causes

    @scene.service("thumbnails", Upload, needs="image-bucket")
    def shrink(upload: Upload, work: Work) -> None:
        if scene.version == "5.0.0":
            raise defect(AttributeError("module 'PIL.Image' has no attribute 'ANTIALIAS'"))

    scene.traffic(40, Upload, kind="jpg")
    scene.deploy("5.0.0")
    scene.traffic(15, Upload, kind="jpg")
    scene.run(hours=30)


@incident("bug or bad deploy")
def frame_append_on_new_machines(scene: Scene) -> None:
    """Half of the machines have the new release, whose table library has no such method any more."""
    (defect,) = scene.causes

    @scene.service("sales-tables", Upload, batch=10)
    def tabulate(uploads: Sequence[Item], work: Work) -> None:
        if scene.version == "3.3.0":
            raise defect(AttributeError("'DataFrame' object has no attribute 'append'"))

    scene.deploy("3.2.9")
    for _ in range(3):
        scene.import_at_once(40, Upload, kind="xlsx")
        scene.run(10)
    scene.deploy("3.2.9", "3.3.0")
    for _ in range(6):
        scene.publish(scene.documents(10, Upload, kind="xlsx"), together=10)
        scene.run(5)


@incident("bug or bad deploy")
def new_service_never_worked(scene: Scene) -> None:
    """A new service multiplies with a rate that is never set: none of its documents was ever finished."""
    (defect,) = scene.causes

    @scene.service("commission", Order)
    async def charge(order: Order, work: Work) -> None:
        rate: Any = None
        with defect:
            order.number * rate

    scene.traffic(11, Order)
    scene.run(hours=2)


@incident("bug or bad deploy")
def bucket_of_another_stage(scene: Scene) -> None:
    """A release has the bucket name of the test stage, which does not exist in this account."""
    (wrong,) = scene.causes

    @scene.service("speech-upload", Upload, needs="media-bucket")
    def put(upload: Upload, work: Work) -> None:
        if scene.version == "1.44.0":
            raise wrong(
                lib.BotoClientError("NoSuchBucket", "The specified bucket does not exist", "PutObject", 404)
            )

    scene.deploy("1.43.7")
    scene.traffic(50, Upload, kind="wav")
    scene.deploy("1.44.0")
    scene.traffic(20, Upload, kind="wav")
    scene.run(hours=1)


@incident("bug or bad deploy")
def staging_host_rolled_back(scene: Scene) -> None:
    """A release has a host name that is known only on the staging network; it was rolled back."""
    (wrong,) = scene.causes

    @scene.service("stream-publishing", Order, needs="stream")
    def send(order: Order, work: Work) -> None:
        if scene.version == "8.3.0":
            raise wrong(socket.gaierror(-2, "Name or service not known"))

    scene.deploy("8.2.5")
    scene.traffic(40, Order)
    scene.deploy("8.3.0")
    scene.traffic(12, Order)
    scene.deploy("8.2.5")
    scene.traffic(40, Order)
    scene.run(hours=3)


@incident("bug or bad deploy")
def column_of_a_migration_not_run(scene: Scene) -> None:
    """The release was deployed, its migration was forgotten: the new column does not exist."""
    (defect,) = scene.causes

    @scene.service("ledger-entries", Invoice, needs="ledger")
    async def enter(invoice: Invoice, work: Work) -> None:
        if scene.version == "4.18.0":
            raise defect(
                more.with_fields(
                    more.UndefinedColumnError('column "vat_scheme" of relation "entries" does not exist'),
                    sqlstate="42703",
                )
            )

    scene.traffic(37, Invoice)
    scene.deploy("4.18.0")
    scene.traffic(22, Invoice)


@incident("bug or bad deploy")
def converter_missing_in_image(scene: Scene) -> None:
    """The new base image has no ffmpeg: every recording fails, while another release changes nothing."""
    (missing,) = scene.causes

    @scene.service("recordings", Upload)
    def convert(upload: Upload, work: Work) -> None:
        if scene.version in ("6.1.0", "6.1.1"):
            raise missing(FileNotFoundError(2, "No such file or directory", "ffmpeg"))

    scene.deploy("6.0.9")
    scene.traffic(33, Upload, kind="m4a")
    scene.deploy("6.1.0")
    scene.traffic(9, Upload, kind="m4a")
    scene.deploy("6.1.1")
    scene.traffic(9, Upload, kind="m4a")


@incident("bug or bad deploy")
def recognition_missing_on_one_machine(scene: Scene) -> None:
    """One of three machines was set up without the text recognition program; retries go elsewhere."""
    (missing,) = scene.causes

    @scene.service("scan-text", Upload)
    def recognize(upload: Upload, work: Work) -> None:
        if scene.version == "3.0.1+arm":
            raise missing(
                more.TesseractNotFoundError(
                    "tesseract is not installed or it's not in your PATH. See README file for more information."
                )
            )

    scene.deploy("3.0.1", "3.0.1", "3.0.1+arm")
    scene.traffic(75, Upload, kind="tiff")


@incident("bug or bad deploy")
def environment_variable_renamed(scene: Scene) -> None:
    """A release reads a setting by its new name; the deployment still sets the old one."""
    (wrong,) = scene.causes

    @scene.service("speech-to-text", Upload, needs="speech")
    def transcribe(upload: Upload, work: Work) -> None:
        if scene.version == "12.4":
            with wrong:
                os.environ["ONWARD_TEST_SPEECH_MODEL_NAME"]

    scene.deploy("12.3")
    scene.traffic(29, Upload, kind="ogg")
    scene.deploy("12.4")
    scene.traffic(1, Upload, kind="ogg")
    scene.run(30)


@incident("bug or bad deploy")
def due_dates_on_the_31st(scene: Scene) -> None:
    """Due dates are made by raising the month: from the 31st on this fails for all invoices; no deploy."""
    (defect,) = scene.causes

    @scene.service("due-dates", Invoice)
    def due(invoice: Invoice, work: Work) -> None:
        today = date(2026, 8, 31) if defect.on else date(2026, 8, 30)
        with defect:
            today.replace(month=today.month + 1)

    scene.traffic(65, Invoice)
    defect.on = True
    scene.traffic(31, Invoice)


@incident("bug or bad deploy")
def client_newer_than_server_contract(scene: Scene) -> None:
    """The release calls a method that the route planner's contract does not have."""
    (defect,) = scene.causes

    @scene.service("route-planning", Order, needs="planner")
    async def plan(order: Order, work: Work) -> None:
        if scene.version == "0.31.0":
            raise defect(lib.grpc_error("UNIMPLEMENTED", "Method not found: planner.v2.Planner/PlanMany"))

    scene.deploy("0.30.2")
    scene.traffic(44, Order)
    scene.deploy("0.31.0")
    scene.traffic(17, Order)
    scene.run(hours=20)


@incident("bug or bad deploy")
def price_sent_as_object(scene: Scene) -> None:
    """The release sends prices as objects; the product index has a number there and rejects them all."""
    (defect,) = scene.causes

    @scene.service("shop-index", Page, needs="search")
    def index(page: Page, work: Work) -> None:
        if scene.version == "4.20.0":
            raise defect(
                more.elastic_error(
                    more.ElasticBadRequestError,
                    400,
                    "document_parsing_exception",
                    f"[1:{40 + page.number % 30}] failed to parse field [price] of type [scaled_float] in "
                    f"document with id '{page.id}'. Preview of field's value: '{{amount=19.9, currency=EUR}}'",
                )
            )

    scene.traffic(120, Page, every=5)
    scene.deploy("4.20.0")
    scene.traffic(60, Page, every=5)


@incident("bug or bad deploy")
def recursive_category_walk(scene: Scene) -> None:
    """A release walks categories by recursion without an end for trees that the old one handled."""
    (defect,) = scene.causes

    def walk(depth: int) -> int:
        return walk(depth - 1) + 1 if depth else 0

    @scene.service("categories", Page)
    def place(page: Page, work: Work) -> None:
        if scene.version == "2.0.0" and page.kind == "deep":
            with defect:
                walk(100_000)

    def kind() -> str:
        return scene.random.choice(("deep", "flat", "flat"))

    scene.deploy("1.9.9")
    scene.traffic(60, Page, kind=kind)
    scene.deploy("2.0.0")
    scene.traffic(45, Page, kind=kind)


@incident("bug or bad deploy")
def release_sends_whole_files_to_the_model(scene: Scene) -> None:
    """The release forgot to cut rulings into parts: the model refuses nearly all of them as too long."""
    (defect,) = scene.causes

    @scene.service("case-notes", Upload, needs="language-model")
    async def note(upload: Upload, work: Work) -> None:
        if scene.version == "9.2.0" and upload.size > 2000:
            raise defect(
                more.anthropic_error(
                    more.AnthropicBadRequestError,
                    400,
                    "invalid_request_error",
                    f"prompt is too long: {200_000 + upload.size} tokens > 200000 maximum",
                )
            )

    scene.deploy("9.1.6")
    scene.traffic(50, Upload, kind="pdf")
    scene.deploy("9.2.0")
    scene.traffic(26, Upload, kind="pdf")


@incident("bug or bad deploy")
def coroutine_not_awaited(scene: Scene) -> None:
    """A hotfix forgot an await in a service of events that name no document."""
    (defect,) = scene.causes

    async def rates() -> dict[str, float]:
        return {"EUR": 1.0}

    @scene.service("rate-refresh", None)
    async def refresh(notice: Notice, work: Work) -> None:
        pending: Any = rates()
        if scene.version == "4.17.3":
            pending.close()
            with defect:
                pending["EUR"]
        await asyncio.ensure_future(pending)

    scene.notices(30)
    scene.deploy("4.17.3")
    scene.notices(12)


@incident("bug or bad deploy")
def number_column_too_small(scene: Scene) -> None:
    """Our table keeps reading numbers in 32 bits; the counter has passed that, and all inserts fail."""
    (defect,) = scene.causes

    @scene.service("sensor-readings", Order, needs="readings")
    def insert(order: Order, work: Work) -> None:
        if defect.on:
            raise defect(psycopg.errors.NumericValueOutOfRange("integer out of range"))

    scene.traffic(150, Order, every=4)
    defect.on = True
    scene.traffic(70, Order, every=4)
    scene.run(hours=1)


@incident("bug or bad deploy")
def race_on_a_shared_dictionary(scene: Scene) -> None:
    """Threads share a dictionary without a lock: now and then one fails, and its next try goes well."""
    (defect,) = scene.causes

    @scene.service("log-statistics", Upload)
    def count(upload: Upload, work: Work) -> None:
        if scene.random.random() < 0.12:
            seen = dict.fromkeys(range(3))
            with defect:
                for key in seen:
                    seen[key + 10] = None

    scene.traffic(150, Upload, kind="log", every=10)


@incident("bug or bad deploy")
def unexpected_none_from_own_helper(scene: Scene) -> None:
    """A release returns nothing from a helper for mails without a subject, wrapped in an error of ours."""
    (defect,) = scene.causes

    def subject(mail: Mail) -> Any:
        return SimpleNamespace(text=mail.text) if mail.number % 4 else None

    @scene.service("routing", Mail)
    def route(mail: Mail, work: Work) -> None:
        if scene.version == "4.17.4":
            try:
                subject(mail).text  # noqa: B018
            except AttributeError as error:
                raise defect(RuntimeError(f"mail {mail.id} could not be routed")) from error

    scene.traffic(80, Mail, every=10)
    scene.deploy("4.17.2", "4.17.4")
    scene.traffic(40, Mail, every=10)
    scene.deploy("4.17.4")
    scene.traffic(40, Mail, every=10)
