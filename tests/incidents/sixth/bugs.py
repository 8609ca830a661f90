"""Our program or its configuration is wrong: releases, flags, migrations, images, roll-backs, calendars."""

from __future__ import annotations

import datetime
import enum
import socket

import jinja2
import psycopg
import pydantic

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.staging import Scene, incident


class Delivery(enum.Enum):
    """What the older release knows."""

    WHOLE = "WHOLE"
    NONE = "NONE"


class Shipment(pydantic.BaseModel):
    """What the newer release asks of a shipment."""

    weight_grams: int


class SchemaError(Exception):
    """The team's own."""


@incident("bug or bad deploy")
def release_before_its_database_change(scene: Scene) -> None:
    """The release went out before the migration that it needs; it was rolled back after a quarter of an hour."""
    (bug,) = scene.causes

    @scene.service("contracts", Invoice, needs="contract-db")
    def store(invoice: Invoice, work: Work) -> None:
        if scene.version == "4.18.0":
            text = 'column "risk_class" of relation "contract" does not exist'
            statement = "INSERT INTO contract (id, risk_class) VALUES (%s, %s)"
            raise bug(lib.ProgrammingError(statement, psycopg.errors.UndefinedColumn(text)))

    scene.traffic(70)
    scene.deploy("4.18.0")
    scene.traffic(30)
    scene.deploy("4.17.2")
    scene.traffic(30)
    scene.run(hours=2)


@incident("bug or bad deploy")
def new_reader_on_one_of_two_machines(scene: Scene) -> None:
    """A new reader of letters runs on one machine as a trial and trips over letters without a subject line."""
    (bug,) = scene.causes

    @scene.service("letters", Page)
    def read(page: Page, work: Work) -> None:
        if scene.version == "5.0.0rc1" and page.kind in {"html", "eml", "txt"}:
            subject: str | None = None
            with bug:
                subject.strip()  # type: ignore[union-attr]

    scene.traffic(50, Page)
    scene.deploy("4.17.2", "5.0.0rc1")
    scene.traffic(60, Page)


@incident("bug or bad deploy")
def release_that_asks_the_test_system(scene: Scene) -> None:
    """The release carries the host of the test system, unknown in production; the next one is right."""
    (bug,) = scene.causes

    @scene.service("vehicles", Order, needs="vehicle-register")
    def look_up(order: Order, work: Work) -> None:
        if scene.version == "2026.11":
            with bug:
                raise socket.gaierror(-2, "Name or service not known: kfz-register.test.internal")

    scene.deploy("2026.10")
    scene.traffic(60, Order)
    scene.deploy("2026.11")
    scene.traffic(25, Order)
    scene.deploy("2026.11.1")
    scene.traffic(30, Order)
    scene.run(hours=2)


@incident("bug or bad deploy")
def terms_that_begin_on_a_leap_day(scene: Scene) -> None:
    """On the 29th of February every policy that begins today fails: its end is sought on the 29th of next year."""
    (bug,) = scene.causes
    today = [datetime.date(2028, 2, 28)]

    @scene.service("terms", Invoice)
    def compute(invoice: Invoice, work: Work) -> None:
        with bug:
            today[0].replace(year=today[0].year + 1)

    scene.traffic(90, every=300)
    today[0] = datetime.date(2028, 2, 29)
    scene.traffic(50, every=300)


@incident("bug or bad deploy")
def flag_for_the_new_surcharge(scene: Scene) -> None:
    """A flag for the new surcharge was set for one customer without its table: the divisor is zero."""
    (bug,) = scene.causes

    @scene.service("surcharges", Order)
    def compute(order: Order, work: Work) -> None:
        divisor = 0 if bug.on and order.tenant == "globex" else 100
        with bug:
            _ = order.size / divisor

    scene.traffic(120, Order)
    bug.on = True
    scene.traffic(60, Order)


@incident("bug or bad deploy")
def reminder_with_a_renamed_field(scene: Scene) -> None:
    """The release renamed a field, but not in the template of reminders; all other letters are printed."""
    (bug,) = scene.causes
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=True)

    @scene.service("printing", Page)
    def render(page: Page, work: Work) -> None:
        name = "debtor" if scene.version == "4.18.0" else "customer"
        template = "Dear {{ customer }}" if page.kind == "reminder" else "Good day"
        with bug:
            environment.from_string(template).render({name: page.author})

    scene.traffic(80, Page, kind=lambda: scene.random.choice(("reminder", "offer", "bill")))
    scene.deploy("4.18.0")
    scene.traffic(45, Page, kind=lambda: scene.random.choice(("reminder", "offer", "bill")))


@incident("bug or bad deploy")
def client_that_sends_the_wrong_type(scene: Scene) -> None:
    """Since the upgrade our client sends XML as plain text; the authority's endpoint refuses that with a 415."""
    (bug,) = scene.causes

    @scene.service("tax_notices", Invoice, needs="tax-authority")
    def send(invoice: Invoice, work: Work) -> None:
        if scene.version == "7.3.0":
            raise bug(lib.HTTPStatusError(415, "https://gateway.tax.example/notices", "expected application/xml"))

    scene.deploy("7.2.4")
    scene.traffic(45)
    scene.deploy("7.3.0")
    scene.traffic(18)


@incident("bug or bad deploy")
def files_that_nobody_closes(scene: Scene) -> None:
    """The release does not close files: a worker handles seventy documents, then none until its restart."""
    (bug,) = scene.causes
    opened = 0

    @scene.service("thumbnails", Upload)
    def draw(upload: Upload, work: Work) -> None:
        nonlocal opened
        if scene.version == "4.18.0":
            opened += 1
            if opened > 70:
                raise bug(OSError(24, "Too many open files", upload.path))

    scene.traffic(150, Upload)
    scene.deploy("4.18.0")
    for _ in range(2):
        opened = 0
        scene.traffic(100, Upload)
    scene.deploy("4.18.1")
    scene.traffic(40, Upload)
    scene.run(hours=2)


@incident("bug or bad deploy")
def half_the_machines_cannot_read_the_new_form(scene: Scene) -> None:
    """In a rolling deploy the older machines are given what the newer ones write, a form they do not know."""
    (bug,) = scene.causes

    @scene.service("tracking", Order)
    def read(order: Order, work: Work) -> None:
        if order.kind == "v7" and scene.version == "5.9.3":
            raise bug(SchemaError("cannot read schema 7, this release knows 1 to 6"))

    scene.deploy("5.9.3")
    scene.traffic(40, Order, kind="v6")
    scene.deploy("6.0.0", "5.9.3")
    scene.traffic(50, Order, kind="v7")


@incident("bug or bad deploy")
def references_followed_round_and_round(scene: Scene) -> None:
    """The release follows references of legal texts without a memory: two that name each other never end."""
    (bug,) = scene.causes

    def follow(depth: int) -> int:
        return follow(depth + 1)

    @scene.service("statutes", Page)
    def link(page: Page, work: Work) -> None:
        if scene.version == "4.18.0" and page.number % 3:
            with bug:
                follow(0)

    scene.traffic(40, Page)
    scene.deploy("4.18.0")
    scene.traffic(15, Page)


@incident("bug or bad deploy")
def pattern_that_never_comes_back(scene: Scene) -> None:
    """The release has a pattern for addresses that takes minutes on ordinary mails with long lines."""
    (bug,) = scene.causes

    @scene.service("addresses", Mail, time_limit=20)
    def find(mail: Mail, work: Work) -> None:
        if scene.version == "4.18.0" and mail.size > 20_000:
            bug.takes(21)

    scene.traffic(60, Mail)
    scene.deploy("4.18.0")
    scene.traffic(24, Mail, every=120)


@incident("bug or bad deploy")
def times_with_and_without_a_zone(scene: Scene) -> None:
    """The first minutes of a new installation: the service compares times with and without a zone, so all fail."""
    (bug,) = scene.causes

    @scene.service("deadlines", Order)
    def check(order: Order, work: Work) -> None:
        with bug:
            without = datetime.datetime(2026, 5, 4)  # noqa: DTZ001
            _ = without < datetime.datetime(2026, 5, 4, tzinfo=datetime.UTC)

    scene.traffic(15, Order, every=10)


@incident("bug or bad deploy")
def image_without_its_model(scene: Scene) -> None:
    """The image of the release was built without the file of the layout model."""
    (bug,) = scene.causes

    @scene.service("layout", Upload)
    def analyse(upload: Upload, work: Work) -> None:
        if scene.version == "4.18.0":
            raise bug(FileNotFoundError(2, "No such file or directory", "/opt/capture/models/layout-v3.onnx"))

    scene.traffic(60, Upload)
    scene.deploy("4.18.0")
    scene.traffic(35, Upload)
    scene.deploy("4.18.1")
    scene.traffic(10, Upload)
    scene.retry_all()
    scene.run(5)


@incident("bug or bad deploy", groups=None)
def image_library_that_crashes(scene: Scene) -> None:
    """The release has a new image library; every TIFF file, which was read before, kills the worker."""
    (bug,) = scene.causes

    @scene.service("images", Upload)
    def convert(upload: Upload, work: Work) -> None:
        if scene.version == "4.18.0" and upload.kind == "tiff":
            bug.kills(upload, work)

    scene.mixed_traffic(scene.documents(30, Upload, kind="png"), scene.documents(20, Upload, kind="tiff"))
    scene.deploy("4.18.0")
    scene.mixed_traffic(
        scene.documents(16, Upload, kind="png"), scene.documents(6, Upload, kind="tiff"), every=180
    )


@incident("bug or bad deploy")
def rolled_back_to_what_knows_less(scene: Scene) -> None:
    """The roll-back brought a release back that does not know partial deliveries, which exist since last week."""
    (bug,) = scene.causes

    @scene.service("deliveries", Order)
    def read(order: Order, work: Work) -> None:
        if scene.version == "3.1.0":
            with bug:
                Delivery(order.text)

    def state() -> str:
        return scene.random.choice(("WHOLE", "NONE", "PARTIAL"))

    scene.deploy("3.1.0")
    scene.traffic(30, Order, text="WHOLE")
    scene.deploy("3.2.0")
    scene.traffic(60, Order, text=state)
    scene.deploy("3.1.0")
    scene.traffic(30, Order, text=state)


@incident("bug or bad deploy")
def release_that_asks_for_grams(scene: Scene) -> None:
    """The release asks for a field that the warehouses' notices have always called by another name."""
    (bug,) = scene.causes

    @scene.service("weights", None)
    def read(notice: Notice, work: Work) -> None:
        if scene.version == "4.18.0":
            with bug:
                Shipment.model_validate({"weight": notice.number, "unit": "g"})

    scene.notices(20, every=600)
    scene.deploy("4.18.0")
    scene.notices(7, every=600)
