"""Our own program or its configuration is wrong."""

from __future__ import annotations

import datetime
import re
import socket
import struct
from decimal import Decimal

import jinja2
import psycopg
import pydantic

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.staging import HOUR, Scene, incident


class Totals(pydantic.BaseModel):
    """What the totals of an invoice must have."""

    net: int
    vat_rate: int


class BatchError(Exception):
    """The team's own."""


@incident("bug or bad deploy")
def release_forgets_that_mails_may_have_no_subject_object(scene: Scene) -> None:
    """A release passes on nothing instead of the parsed subject; it was rolled back after forty minutes."""
    (bug,) = scene.causes

    @scene.service("threading", Mail)
    def thread(mail: Mail, work: Work) -> None:
        found = re.match("(report|offer|minutes)", mail.text) if scene.version != "4.18.0" else None
        if scene.version == "4.18.0":
            with bug:
                _ = found.group(0)  # type: ignore[union-attr]

    scene.traffic(80, Mail)
    scene.deploy("4.18.0")
    scene.traffic(80, Mail)
    scene.deploy("4.17.2")
    scene.traffic(30, Mail)
    scene.run(hours=2)


@incident("bug or bad deploy")
def canary_machine_reads_a_field_that_nobody_writes_yet(scene: Scene) -> None:
    """One machine in four runs the next release, which wants a field that only the release after it will write."""
    (bug,) = scene.causes

    @scene.service("pricing", Order)
    def price(order: Order, work: Work) -> None:
        if scene.version == "4.18.0-rc1":
            with bug:
                _ = {"net": order.size}["discount_group"]

    scene.traffic(40, Order)
    scene.deploy("4.17.2", "4.17.2", "4.17.2", "4.18.0-rc1")
    scene.traffic(60, Order)


@incident("bug or bad deploy")
def new_filter_pattern_backtracks_on_every_page(scene: Scene) -> None:
    """A release has a pattern that backtracks without end: every page takes longer than the limit."""
    (bug,) = scene.causes

    @scene.service("filtering", Page, time_limit=20)
    def check(page: Page, work: Work) -> None:
        if scene.version == "4.18.0":
            bug.takes(25)

    scene.traffic(70, Page, every=60)
    scene.deploy("4.18.0")
    scene.traffic(27, Page, every=60)
    scene.deploy("4.18.1")
    scene.traffic(20, Page, every=60)


@incident("bug or bad deploy")
def one_of_eight_machines_was_left_on_the_old_release(scene: Scene) -> None:
    """The release was copied to seven machines; the eighth does not know the flag that orders now have."""
    (bug,) = scene.causes

    @scene.service("routing", Order)
    def route(order: Order, work: Work) -> None:
        if order.kind == "rlp" and scene.version == "4.17.2":
            raise bug(ValueError("unknown order flag 'RLP'"))

    scene.traffic(60, Order)
    scene.deploy(*["4.18.0"] * 7, "4.17.2")
    scene.traffic(120, Order, kind="rlp", every=10)


@incident("bug or bad deploy")
def host_of_the_index_is_misspelt_since_the_configuration_push(scene: Scene) -> None:
    """Version 4.17.3 only changed the configuration: the host of the index is misspelt in it."""
    (bug,) = scene.causes

    @scene.service("entries", Page, needs="index")
    def index(page: Page, work: Work) -> None:
        if scene.version == "4.17.3":
            raise bug(socket.gaierror(-2, "Name or service not known"))

    scene.traffic(90, Page)
    scene.deploy("4.17.3")
    scene.traffic(30, Page)
    scene.deploy("4.17.4")
    scene.traffic(30, Page)
    scene.run(hours=2)


@incident("bug or bad deploy")
def flag_for_two_columns_was_switched_on_for_everyone(scene: Scene) -> None:
    """A feature flag was switched on without a release; the code behind it adds text to None."""
    (bug,) = scene.causes

    @scene.service("layout", Upload)
    def lay_out(upload: Upload, work: Work) -> None:
        if bug.on:
            right: str | None = None
            with bug:
                _ = upload.text + right  # type: ignore[operator]

    scene.traffic(110, Upload)
    bug.on = True
    scene.traffic(40, Upload)
    bug.on = False
    scene.traffic(40, Upload)


@incident("bug or bad deploy")
def due_dates_cannot_be_made_on_the_leap_day(scene: Scene) -> None:
    """The due date is today with the next year: on the 29th of February there is no such day."""
    (bug,) = scene.causes

    @scene.service("due_dates", Invoice)
    def due(invoice: Invoice, work: Work) -> None:
        today = datetime.date(2028, 2, 28 if scene.minute < 6 * 60 else 29)
        with bug:
            today.replace(year=today.year + 1)

    scene.traffic(36, every=600)
    scene.traffic(24, every=600)


@incident("bug or bad deploy")
def build_number_of_the_new_year_does_not_fit_its_field(scene: Scene) -> None:
    """The scanner packs year, month and day into a signed number, which is too small from New Year on."""
    (bug,) = scene.causes

    @scene.service("malware_scan", Mail)
    def scan(mail: Mail, work: Work) -> None:
        stamp = 2_112_310_001 if scene.world.clock.now() - began < 2 * HOUR else 2_201_010_001
        with bug:
            struct.pack("<i", stamp)

    began = scene.world.clock.now()
    scene.traffic(120, Mail, every=60)
    scene.traffic(75, Mail, every=60)


@incident("bug or bad deploy")
def image_was_built_without_a_wheel(scene: Scene) -> None:
    """The image of the release lacks a package; the import is inside the handler."""
    (bug,) = scene.causes

    @scene.service("tables", Upload)
    def extract(upload: Upload, work: Work) -> None:
        if scene.version == "5.0.0":
            raise bug(ModuleNotFoundError("No module named 'camelot'", name="camelot"))

    scene.traffic(25, Upload)
    scene.deploy("5.0.0")
    scene.import_at_once(90, Upload)
    scene.run(20)


@incident("bug or bad deploy")
def release_went_out_before_its_migration(scene: Scene) -> None:
    """The workers were deployed, the migration of the database was not run."""
    (bug,) = scene.causes

    @scene.service("invoice_rows", Invoice, needs="database")
    def store(invoice: Invoice, work: Work) -> None:
        if scene.version == "4.18.0":
            raise bug(
                psycopg.errors.UndefinedColumn(
                    'column "vat_scheme" of relation "invoice" does not exist\nLINE 1: ...'
                )
            )

    scene.traffic(60, every=20)
    scene.deploy("4.18.0")
    scene.traffic(12, every=20)


@incident("bug or bad deploy")
def secret_was_cut_off_in_the_new_deployment_file(scene: Scene) -> None:
    """The new deployment file lost the end of the key; machines with the old file still get in."""
    (bug,) = scene.causes

    @scene.service("transcripts", Upload, needs="speech")
    def transcribe(upload: Upload, work: Work) -> None:
        if scene.version == "4.18.0":
            text = (
                "Incorrect API key provided: sk-proj-9f2. You can find your API key at https://platform.example."
            )
            raise bug(lib.AuthenticationError(401, text, "invalid_request_error", "invalid_api_key"))

    scene.traffic(50, Upload)
    scene.deploy("4.17.2", "4.18.0")
    scene.traffic(70, Upload)


@incident("bug or bad deploy", groups=None)
def upgraded_native_parser_kills_the_worker_with_every_file(scene: Scene) -> None:
    """The release has a native parser that was built for other processors: each call ends the process."""
    (bug,) = scene.causes

    @scene.service("parsing", Upload)
    def parse(upload: Upload, work: Work) -> None:
        if scene.version == "4.18.0":
            bug.kills(upload, work)

    scene.traffic(50, Upload)
    scene.deploy("4.18.0")
    scene.traffic(12, Upload, every=60)
    scene.run(30)


@incident("bug or bad deploy")
def sessions_are_never_given_back_since_the_release(scene: Scene) -> None:
    """Since the release each call keeps its connection: the pool is empty after some minutes."""
    (bug,) = scene.causes
    leaked = [0]

    @scene.service("accounts", Order, needs="database")
    def update(order: Order, work: Work) -> None:
        if scene.version == "4.18.0":
            leaked[0] += 1
            if leaked[0] > 15:
                text = "QueuePool limit of size 5 overflow 10 reached, connection timed out, timeout 30.00"
                raise bug(lib.SqlTimeoutError(text))

    scene.traffic(100, Order, every=20)
    scene.deploy("4.18.0")
    scene.traffic(70, Order, every=20)
    scene.deploy("4.17.2")
    scene.traffic(40, Order, every=20)
    scene.run(hours=2)


@incident("bug or bad deploy")
def release_sends_a_parameter_that_the_model_does_not_know(scene: Scene) -> None:
    """A release asks for another model but still sends a parameter that this one refuses."""
    (bug,) = scene.causes

    @scene.service("tags", Page, needs="llm")
    def tag(page: Page, work: Work) -> None:
        if scene.version == "4.19.0":
            text = "Unsupported parameter: 'max_tokens' is not supported with this model. "
            text += "Use 'max_completion_tokens' instead."
            raise bug(lib.BadRequestError(400, text, "invalid_request_error", "unsupported_parameter"))

    scene.traffic(130, Page, every=15)
    scene.deploy("4.19.0")
    scene.traffic(40, Page, every=15)


@incident("bug or bad deploy")
def spreadsheets_break_in_a_rewritten_branch(scene: Scene) -> None:
    """A release rewrote the branch for spreadsheets and broke it; files of all other kinds are fine."""
    (bug,) = scene.causes

    @scene.service("office_files", Upload)
    def read(upload: Upload, work: Work) -> None:
        if upload.kind == "xlsx" and scene.version == "4.18.0":
            with bug:
                _ = upload.rows  # type: ignore[attr-defined]

    scene.traffic(90, Upload)
    scene.deploy("4.18.0")
    scene.traffic(90, Upload)


@incident("bug or bad deploy")
def free_plan_has_no_branch_in_the_rate_table(scene: Scene) -> None:
    """Since a tenant was moved to the new free plan, its orders reach code that no one has written a case for."""
    (bug,) = scene.causes

    @scene.service("billing", Order)
    def bill(order: Order, work: Work) -> None:
        if not (bug.on and order.tenant == "umbrella"):
            rate = 3
        with bug:
            _ = order.size * rate  # type: ignore[possibly-undefined]

    scene.traffic(80, Order)
    bug.on = True
    scene.traffic(80, Order)


@incident("bug or bad deploy")
def report_template_uses_a_name_that_is_not_given(scene: Scene) -> None:
    """A new template of the hourly report uses a value that the program does not pass."""
    (bug,) = scene.causes
    old, new = "{{ what }}", "{{ what }} for {{ period.start }}"

    @scene.service("hourly_report", None)
    def report(notice: Notice, work: Work) -> None:
        with bug:
            jinja2.Template(new if scene.version == "4.17.3" else old).render(what=notice.what)

    scene.notices(30, every=3600)
    scene.deploy("4.17.3")
    scene.notices(5, every=3600)


@incident("bug or bad deploy")
def worker_now_runs_as_a_user_who_may_not_write(scene: Scene) -> None:
    """The new image runs as another user, to whom the working folder does not belong."""
    (bug,) = scene.causes

    @scene.service("thumbnails", Upload)
    def shrink(upload: Upload, work: Work) -> None:
        if scene.version == "4.18.0":
            name = f"/var/lib/thumbs/{upload.number}.part"
            raise bug(PermissionError(13, "Permission denied", name))

    scene.traffic(40, Upload)
    scene.deploy("4.18.0")
    scene.traffic(6, Upload)


@incident("bug or bad deploy")
def totals_of_whole_batches_lost_a_field_in_the_release(scene: Scene) -> None:
    """The release renamed a field in one place only, so that no batch of invoices can be totalled."""
    (bug,) = scene.causes

    @scene.service("totals", Invoice, batch=20)
    def total(invoices: list[Invoice], work: Work) -> None:
        given = {"net": sum(one.size for one in invoices), "vat_rate": int(Decimal(19))}
        if scene.version == "4.18.0":
            given["vatrate"] = given.pop("vat_rate")
        try:
            Totals(**given)
        except pydantic.ValidationError as error:
            raise bug(BatchError("batch was not totalled")) from error

    scene.import_at_once(100, together=20)
    scene.run(30)
    scene.deploy("4.18.0")
    scene.import_at_once(60, together=20)
    scene.run(30)
