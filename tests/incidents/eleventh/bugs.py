"""Programs and configurations of ours that are wrong."""

from __future__ import annotations

import datetime
from pathlib import Path

import jinja2
import psycopg

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.eleventh import libraries as own
from tests.incidents.staging import HOUR, Scene, incident


class UnknownLayout(Exception):
    """The team's own."""


@incident("bug or bad deploy")
def canary_machine_dereferences_a_missing_reply_address(scene: Scene) -> None:
    """One machine of three has the new version, which expects that each mail has a reply address."""
    (bug,) = scene.causes

    @scene.service("threads", Mail)
    def thread(mail: Mail, work: Work) -> None:
        if scene.version == "4.18.0-rc2":
            reply_to = None
            with bug:
                reply_to.lower()  # type: ignore[attr-defined]

    scene.traffic(40, Mail)
    scene.deploy("4.17.2", "4.17.2", "4.18.0-rc2")
    scene.traffic(45, Mail)


@incident("bug or bad deploy")
def pushed_configuration_names_the_staging_database(scene: Scene) -> None:
    """The release was built with the settings of staging: a host that production cannot reach."""
    (wrong,) = scene.causes

    @scene.service("bookings", Invoice, needs="bookings_db")
    def book(invoice: Invoice, work: Work) -> None:
        if scene.version == "4.17.3":
            text = (
                'connection failed: connection to server at "10.99.0.12", port 5432 failed: Connection timed out'
            )
            hint = "\n\tIs the server running on that host (db.staging.internal) and accepting TCP/IP connections?"
            raise wrong(psycopg.OperationalError(text + hint))

    scene.traffic(60)
    scene.deploy("4.17.3")
    scene.traffic(25)
    scene.deploy("4.17.2")
    scene.traffic(20)
    scene.run(hours=3)


@incident("bug or bad deploy")
def feature_flag_gave_a_third_of_pages_to_the_new_parser(scene: Scene) -> None:
    """A flag, not a deploy, sends a third of all pages to a parser with a mistake; the flag was taken back."""
    (bug,) = scene.causes

    @scene.service("outline", Page)
    def outline(page: Page, work: Work) -> None:
        if bug.on and page.number % 3 == 0:
            with bug:
                _ = "depth " + page.number  # type: ignore[operator]

    scene.traffic(60, Page)
    bug.on = True
    scene.traffic(75, Page)
    bug.on = False
    scene.traffic(15, Page)
    scene.run(5)
    scene.retry_all()


@incident("bug or bad deploy")
def release_before_its_migration_of_the_dossier_table(scene: Scene) -> None:
    """The release went out before the migration that it needs: a column is not there yet."""
    (bug,) = scene.causes

    @scene.service("dossiers", Upload, needs="postgres")
    def file(upload: Upload, work: Work) -> None:
        if scene.version == "5.0.0":
            text = 'column "retention_class" of relation "dossier" does not exist\nLINE 1: ..."retention_class")'
            raise bug(psycopg.errors.UndefinedColumn(text))

    scene.traffic(100, Upload, every=10)
    scene.deploy("5.0.0")
    scene.traffic(6, Upload, every=10)


@incident("bug or bad deploy")
def naive_dates_compared_in_a_release_that_was_rolled_back(scene: Scene) -> None:
    """The release compared dates with and without a zone; after an hour it was rolled back, all was put back."""
    (bug,) = scene.causes

    @scene.service("deadlines", Order)
    def due(order: Order, work: Work) -> None:
        if scene.version == "4.20.0":
            with bug:
                _ = datetime.datetime.fromisoformat("2026-04-01") < datetime.datetime(
                    2026, 4, 2, tzinfo=datetime.UTC
                )

    scene.traffic(30, Order, every=60)
    scene.deploy("4.20.0")
    scene.traffic(55, Order, every=60)
    scene.deploy("4.19.1")
    scene.traffic(10, Order, every=60)
    scene.retry_all()
    scene.run(hours=1)


@incident("bug or bad deploy")
def due_date_next_month_does_not_exist_on_the_31st(scene: Scene) -> None:
    """The program adds a month to today's date: on the 31st of March nothing works, with no deploy at all."""
    (bug,) = scene.causes
    today = [datetime.date(2026, 3, 30)]

    @scene.service("instalments", Invoice)
    def plan(invoice: Invoice, work: Work) -> None:
        with bug:
            today[0].replace(month=today[0].month + 1)

    scene.traffic(60, every=300)
    today[0] = datetime.date(2026, 3, 31)
    scene.traffic(40, every=300)


@incident("bug or bad deploy")
def model_file_left_out_of_the_container_image(scene: Scene) -> None:
    """The image of the release was built without the folder of models."""
    (bug,) = scene.causes

    @scene.service("classify_mails", Mail)
    def classify(mail: Mail, work: Work) -> None:
        if scene.version == "2026.03.1":
            with bug:
                Path("/opt/app/models/intent-v9.onnx").read_bytes()

    scene.traffic(35, Mail)
    scene.deploy("2026.03.1")
    scene.import_at_once(130, Mail)
    scene.run(20)


@incident("bug or bad deploy")
def new_tenant_is_missing_in_our_table_of_tax_rates(scene: Scene) -> None:
    """A customer was signed up and nobody entered it in our configuration: all of its invoices fail, no other."""
    (missing,) = scene.causes
    rates = {"acme": 19, "globex": 20, "initech": 21, "umbrella": 7.7}

    @scene.service("taxes", Invoice)
    def tax(invoice: Invoice, work: Work) -> None:
        with missing:
            _ = rates[invoice.tenant]

    scene.traffic(90)
    scene.mixed_traffic(scene.documents(60), scene.documents(24, tenant="hooli"))


@incident("bug or bad deploy")
def release_leaks_database_connections_until_none_is_left(scene: Scene) -> None:
    """The release forgets to give connections back; with the usual traffic, the pool is empty after 30 orders."""
    (leak,) = scene.causes
    taken = [0]

    @scene.service("order_history", Order, needs="orders_db")
    def write(order: Order, work: Work) -> None:
        if scene.version == "4.18.0":
            taken[0] += 1
            if taken[0] > 30:
                text = "QueuePool limit of size 20 overflow 10 reached, connection timed out, timeout 30.00"
                raise leak(
                    lib.SqlTimeoutError(f"{text} (Background on this error at: https://sqlalche.me/e/20/3o7r)")
                )

    scene.traffic(120, Order)
    scene.deploy("4.18.0")
    scene.traffic(60, Order)
    scene.deploy("4.17.2")
    scene.traffic(20, Order)
    scene.run(hours=2)


@incident("bug or bad deploy", groups=None)
def new_native_image_library_crashes_on_each_picture(scene: Scene) -> None:
    """The release has a library built for another processor: each picture ends the worker's process."""
    (bug,) = scene.causes

    @scene.service("thumbnails", Upload)
    def shrink(upload: Upload, work: Work) -> None:
        if scene.version == "4.18.1":
            bug.kills(upload, work)

    scene.traffic(40, Upload)
    scene.deploy("4.18.1")
    scene.traffic(9, Upload)
    scene.run(30)


@incident("bug or bad deploy")
def digest_template_uses_a_name_that_was_removed(scene: Scene) -> None:
    """The template of the daily digest, sent upon notices, uses a name that the release no longer passes."""
    (bug,) = scene.causes
    template = jinja2.Environment(undefined=jinja2.StrictUndefined).from_string("Dear {{ reader }}")

    @scene.service("digests", None)
    def render(notice: Notice, work: Work) -> None:
        with bug:
            template.render({} if scene.version == "4.18.0" else {"reader": notice.what})

    scene.notices(25)
    scene.deploy("4.18.0")
    scene.notices(14)


@incident("bug or bad deploy")
def pattern_of_the_release_backtracks_beyond_the_time_limit(scene: Scene) -> None:
    """A new pattern for signatures backtracks for minutes on long mails; short ones still go through."""
    (slow,) = scene.causes

    @scene.service("signatures", Mail, time_limit=60)
    def strip(mail: Mail, work: Work) -> None:
        if scene.version == "4.18.0" and mail.size > 20_000:
            slow.takes(80)

    scene.traffic(80, Mail, every=120)
    scene.deploy("4.18.0")
    scene.traffic(30, Mail, every=120)


@incident("bug or bad deploy")
def first_installation_with_the_wrong_bucket_region(scene: Scene) -> None:
    """A new installation whose settings name the wrong region: nothing has ever been stored."""
    (wrong,) = scene.causes

    @scene.service("evidence_store", Upload, needs="s3")
    def put(upload: Upload, work: Work) -> None:
        text = "The authorization header is malformed; the region 'us-east-1' is wrong; expecting 'eu-central-1'"
        raise wrong(lib.BotoClientError("AuthorizationHeaderMalformed", text, "PutObject", 400))

    scene.traffic(7, Upload)


@incident("bug or bad deploy")
def base_image_without_a_locale_breaks_names_with_umlauts(scene: Scene) -> None:
    """The new base image has no UTF-8 locale: letters to people with umlauts fail, which worked before."""
    (bug,) = scene.causes

    @scene.service("letters", Mail)
    def write(mail: Mail, work: Work) -> None:
        with bug:
            mail.text.encode("ascii" if scene.version == "4.17.3" else "utf-8")

    names = ("Anna Weber", "Jörg Müller", "Paul Schmidt", "Ida Krause", "Zoë Brandt")
    scene.traffic(75, Mail, text=lambda: scene.random.choice(names))
    scene.deploy("4.17.3")
    scene.traffic(75, Mail, text=lambda: scene.random.choice(names))


@incident("bug or bad deploy")
def rolled_back_version_cannot_read_the_newer_layout(scene: Scene) -> None:
    """The release wrote a new layout and was rolled back for another reason; the old version cannot read it."""
    (bug,) = scene.causes

    @scene.service("forms", Order)
    def read(order: Order, work: Work) -> None:
        if order.kind == "layout-3" and scene.version < "4.18":
            raise bug(UnknownLayout("layout 3 is newer than this program"))

    scene.traffic(40, Order, kind="layout-2")
    scene.deploy("4.18.0")
    scene.traffic(30, Order, kind="layout-3")
    scene.deploy("4.17.2")
    scene.mixed_traffic(scene.documents(12, Order, kind="layout-2"), scene.documents(16, Order, kind="layout-3"))


@incident("bug or bad deploy")
def release_makes_the_same_idempotency_key_each_time(scene: Scene) -> None:
    """The release makes the key of a payment from the day alone; the provider refuses all but the first."""
    (bug,) = scene.causes
    used = set[str]()

    @scene.service("charges", Order, needs="payments")
    def charge(order: Order, work: Work) -> None:
        key = order.id
        if scene.version == "4.19.0":
            key = f"charge-{int(scene.minute * 60 // (24 * HOUR))}"
            if key in used:
                raise bug(own.IdempotencyError(key))
        used.add(key)

    scene.traffic(30, Order)
    scene.deploy("4.19.0")
    scene.traffic(18, Order)
