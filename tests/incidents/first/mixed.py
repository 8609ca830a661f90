"""Several troubles at the same time, each with its own label."""

from __future__ import annotations

import io
import json
import zipfile

import psycopg

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.staging import Scene, incident


@incident("dependency", "poison document")
def torn_files_during_an_outage(scene: Scene) -> None:
    """While the virus scanner is down, two torn files arrive; they would fail in any case."""
    outage, poison = scene.causes

    @scene.service("scanning", Upload, needs="scanner")
    def scan(upload: Upload, work: Work) -> None:
        if upload.text == "torn":
            with poison:
                zipfile.ZipFile(io.BytesIO(b"torn"))
        if outage.on:
            raise outage(ConnectionRefusedError(111, "Connection refused"))

    scene.traffic(26, Upload)
    scene.traffic(2, Upload, text="torn")
    scene.traffic(20, Upload)
    outage.on = True
    scene.traffic(10, Upload)


@incident("bug or bad deploy", "dependency")
def deploy_and_outage(scene: Scene) -> None:
    """The deploy of the morning broke credit notes; at the same time the tax service is down for all."""
    bug, outage = scene.causes

    @scene.service("taxing", Invoice, needs="tax")
    def add_tax(invoice: Invoice, work: Work) -> None:
        if scene.version == "4.18.0" and invoice.number % 3 == 0:
            raise bug(AttributeError("'CreditNote' object has no attribute 'rate'"))
        if outage.on:
            raise outage(lib.requests_status(503, f"https://tax.internal/v2/rates/{invoice.id}"))

    scene.traffic(26)
    scene.deploy("4.18.0")
    scene.traffic(26)
    outage.on = True
    scene.traffic(15)


@incident("bug or bad deploy", "poison document")
def deploy_and_poison(scene: Scene) -> None:
    """Since the deploy a quarter of the mails fails; and there is one mail that no release could read."""
    bug, poison = scene.causes

    @scene.service("parsing", Mail)
    def parse(mail: Mail, work: Work) -> None:
        if mail.text == "garbage":
            with poison:
                b"\xff\xfe".decode("ascii")
        if scene.version == "v88" and mail.number % 4 == 0:
            raise bug(IndexError("string index out of range"))

    scene.deploy("v87")
    scene.traffic(26, Mail)
    scene.traffic(1, Mail, text="garbage")
    scene.traffic(20, Mail)
    scene.deploy("v88")
    scene.traffic(40, Mail)


@incident("overload", "poison document")
def limit_and_refusal(scene: Scene) -> None:
    """The import exceeds the rate limit of the courier; three of its orders are refused for their address."""
    limit, poison = scene.causes

    @scene.service("shipping", Order, needs="courier")
    def ship(order: Order, work: Work) -> None:
        if scene.random.random() < 0.4:
            raise limit(lib.requests_status(429, "https://api.courier.example/shipments", {"Retry-After": "20"}))
        if order.text == "no street":
            raise poison(lib.requests_status(400, f"https://api.courier.example/shipments?ref={order.id}"))

    good, bad = scene.documents(70, Order), scene.documents(3, Order, text="no street")
    scene.mixed_traffic(good, bad, every=3)
    scene.run(4)


@incident("dependency", "dependency")
def two_dependencies_down(scene: Scene) -> None:
    """The CRM refuses connections in the morning, and the score service expires our key in the afternoon."""
    crm, scores = scene.causes

    @scene.service("scoring", Order, needs=("crm", "scores"))
    def score(order: Order, work: Work) -> None:
        if crm.on:
            raise crm(ConnectionRefusedError(111, "Connection refused"))
        if scores.on:
            raise scores(lib.requests_status(401, f"https://scores.example/v1/score/{order.id}"))

    scene.traffic(20, Order)
    crm.on = True
    scene.traffic(10, Order)
    crm.on = False
    scene.traffic(20, Order)
    scores.on = True
    scene.traffic(10, Order)


@incident("dependency", "bug or bad deploy")
def outage_in_one_service_bug_in_another(scene: Scene) -> None:
    """The mail relay is down; in the same hour a deploy broke the service that makes thumbnails."""
    outage, bug = scene.causes

    @scene.service("mailing", Mail, needs="relay")
    def send(mail: Mail, work: Work) -> None:
        if outage.on:
            raise outage(TimeoutError(110, "Connection timed out"))

    @scene.service("thumbnailing", Upload)
    def shrink(upload: Upload, work: Work) -> None:
        if scene.version == "4.18.0":
            raise bug(TypeError("resize() missing 1 required positional argument: 'box'"))

    scene.traffic(18, Mail)
    scene.traffic(18, Upload)
    outage.on = True
    scene.deploy("4.18.0")
    scene.traffic(10, Mail)
    scene.traffic(15, Upload)


@incident("dependency")
def outage_right_after_a_deploy(scene: Scene) -> None:
    """Five minutes after a harmless deploy the bank's API goes down; every bank customer has the trouble."""
    (outage,) = scene.causes

    @scene.service("paying", Order, needs="bank")
    def pay(order: Order, work: Work) -> None:
        if outage.on:
            raise outage(lib.requests_status(502, f"https://api.bank.example/payments/{order.id}"))

    scene.traffic(26, Order)
    scene.deploy("4.18.0")
    scene.traffic(5, Order)
    outage.on = True
    scene.traffic(15, Order)


@incident("dependency")
def outage_and_deploy_at_the_same_minute(scene: Scene) -> None:
    """The address service dies in the minute of our deploy; its health call says so, a rollback did nothing."""
    (outage,) = scene.causes
    scene.dependency("addresses", health=lambda: not outage.on)

    @scene.service("addressing", Order, needs="addresses")
    def address(order: Order, work: Work) -> None:
        if outage.on:
            raise outage(lib.requests_refused(f"http://addresses.internal:8080/a/{order.number}"))

    scene.traffic(26, Order)
    outage.on = True
    scene.deploy("4.18.0")
    scene.traffic(8, Order)
    scene.deploy("4.17.2")
    scene.traffic(8, Order)


@incident("overload")
def limit_right_after_a_deploy(scene: Scene) -> None:
    """The deploy doubled the number of workers, and now the CRM's rate limit is hit all the time."""
    (limit,) = scene.causes

    @scene.service("syncing", Order, needs="crm")
    async def sync(order: Order, work: Work) -> None:
        if scene.version == "4.18.0" and scene.random.random() < 0.5:
            raise limit(lib.HTTPStatusError(429, "https://crm.example/api/orders", headers={"Retry-After": "15"}))

    scene.traffic(26, Order)
    scene.deploy("4.18.0")
    scene.traffic(40, Order, every=5)


@incident("bug or bad deploy", "poison document", groups=(1, 2))
def worker_crashes_and_a_bug(scene: Scene) -> None:
    """One drawing crashes the worker process; apart from that the new release fails for all spreadsheets."""
    bug, poison = scene.causes

    @scene.service("reading", Upload)
    def read(upload: Upload, work: Work) -> None:
        if upload.kind == "dwg":
            poison.kills(upload, work)
        if scene.version == "4.18.0" and upload.kind == "xlsx":
            raise bug(AttributeError("module 'openpyxl' has no attribute 'load_workbook_fast'"))

    scene.traffic(20, Upload)
    scene.traffic(1, Upload, kind="dwg")
    scene.run(20)
    scene.deploy("4.18.0")
    scene.traffic(32, Upload)


@incident("bug or bad deploy")
def every_document_crashes_the_worker(scene: Scene) -> None:
    """The new release links a broken library: each picture kills its worker process."""
    (bug,) = scene.causes

    @scene.service("thumbnailing", Upload)
    def shrink(upload: Upload, work: Work) -> None:
        if scene.version == "4.18.0":
            bug.kills(upload, work)

    scene.traffic(20, Upload)
    scene.deploy("4.18.0")
    scene.import_at_once(6, Upload)
    scene.run(30)


@incident("poison document", "poison document")
def two_kinds_of_bad_files(scene: Scene) -> None:
    """One branch sends invoices without a total, another one with half a JSON; all others are fine."""
    missing, torn = scene.causes

    @scene.service("parsing", Invoice)
    def parse(invoice: Invoice, work: Work) -> None:
        with torn:
            body = json.loads('{"total": 1' if invoice.author == "branch-7" else '{"total": 1}')
        if invoice.author == "branch-3":
            with missing:
                body["subtotal"]

    bad = [*scene.documents(5, author="branch-7"), *scene.documents(4, author="branch-3")]
    scene.mixed_traffic(scene.documents(60), bad)


@incident("dependency", "overload")
def outage_then_thundering_herd(scene: Scene) -> None:
    """The database was down for half an hour; when it came back, all that had waited used up its connections."""
    outage, herd = scene.causes

    @scene.service("booking", Order, needs="ledger-db")
    def book(order: Order, work: Work) -> None:
        if outage.on:
            raise outage(psycopg.OperationalError("connection failed: Connection refused"))
        if herd.on and scene.random.random() < 0.5:
            text = "connection failed: FATAL:  remaining connection slots are reserved for superusers"
            raise herd(psycopg.errors.TooManyConnections(text))

    scene.traffic(20, Order)
    outage.on = True
    scene.traffic(20, Order)
    outage.on, herd.on = False, True
    scene.traffic(26, Order, every=5)


@incident("dependency", groups=3)
def same_outage_in_three_services(scene: Scene) -> None:
    """The message broker is down; three services use it, each with the same error from the same client of ours."""
    (outage,) = scene.causes

    def announce() -> None:
        if outage.on:
            raise outage(lib.AMQPConnectionError("[Errno 111] Connection refused"))

    @scene.service("announcing-orders", Order, needs="broker")
    def orders(order: Order, work: Work) -> None:
        announce()

    @scene.service("announcing-pages", Page, needs="broker")
    def pages(page: Page, work: Work) -> None:
        announce()

    @scene.service("announcing-news", None)
    def news(notice: Notice, work: Work) -> None:
        announce()

    for _ in range(2):
        scene.traffic(8, Order)
        scene.traffic(8, Page)
        scene.notices(8)
        outage.on = True


@incident("bug or bad deploy", "bug or bad deploy")
def two_bugs_of_one_release(scene: Scene) -> None:
    """The big release has two defects: one for attachments, one for replies."""
    attachments, replies = scene.causes

    @scene.service("parsing", Mail)
    def parse(mail: Mail, work: Work) -> None:
        if scene.version != "v90":
            return
        if mail.number % 4 == 0:
            raise attachments(AttributeError("'NoneType' object has no attribute 'get_payload'"))
        if mail.number % 4 == 1:
            raise replies(TypeError("expected string or bytes-like object, got 'Header'"))

    scene.deploy("v89")
    scene.traffic(32, Mail)
    scene.deploy("v90")
    scene.traffic(32, Mail)
