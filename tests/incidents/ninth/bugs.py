"""Our own program or its configuration is wrong: releases, canaries, flags, images, dates, forgotten set-up."""

from __future__ import annotations

import datetime

import psycopg
import yaml  # type: ignore[import-untyped]

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.staging import Scene, incident


class StepError(Exception):
    """The team's own."""


@incident("bug or bad deploy")
def canary_with_the_search_host_of_the_test_stage(scene: Scene) -> None:
    """The new release goes to one of two machines, with a search host that exists only in the test network."""
    (bug,) = scene.causes

    @scene.service("index_writer", Page, needs="search")
    def write(page: Page, work: Work) -> None:
        if scene.version == "4.18.0-rc2":
            url = "http://search.test.internal:9200/pages/_doc"
            raise bug(lib.requests_refused(url, "[Errno -2] Name or service not known"))

    scene.traffic(50, Page)
    scene.deploy("4.17.2", "4.18.0-rc2")
    scene.traffic(40, Page)


@incident("bug or bad deploy")
def release_with_a_missing_sender_rolled_back_after_half_an_hour(scene: Scene) -> None:
    """A release could not handle mails for want of a parsed sender; it was rolled back, and all went well."""
    (bug,) = scene.causes

    @scene.service("mail_threads", Mail)
    def thread(mail: Mail, work: Work) -> None:
        sender = None if scene.version == "4.18.0" else mail.author
        with bug:
            sender.lower()  # type: ignore[union-attr]

    scene.traffic(60, Mail)
    scene.deploy("4.18.0")
    scene.traffic(45, Mail, every=40)
    scene.deploy("4.17.2")
    scene.traffic(40, Mail)
    scene.run(hours=3)


@incident("bug or bad deploy")
def release_before_its_migration_of_the_ledger(scene: Scene) -> None:
    """The release writes a column that the forgotten migration was to add."""
    (bug,) = scene.causes

    @scene.service("ledger", Invoice, needs="database")
    def book(invoice: Invoice, work: Work) -> None:
        if scene.version == "4.18.0":
            text = 'column "tax_country" of relation "entries" does not exist\nLINE 1: ...TO entries (id, tax_'
            raise bug(psycopg.errors.UndefinedColumn(text))

    scene.traffic(80)
    scene.deploy("4.18.0")
    scene.traffic(30)
    scene.run(hours=1)


@incident("bug or bad deploy")
def slim_image_without_the_graphics_library(scene: Scene) -> None:
    """The new container image is smaller, and lacks a library that deskewing of scans loads when it is used."""
    (bug,) = scene.causes

    @scene.service("deskew", Upload)
    def deskew(upload: Upload, work: Work) -> None:
        if scene.version == "5.0.0" and upload.kind == "tif":
            raise bug(ImportError("libGL.so.1: cannot open shared object file: No such file or directory"))

    scene.mixed_traffic(scene.documents(40, Upload), scene.documents(40, Upload, kind="tif"))
    scene.deploy("5.0.0")
    scene.mixed_traffic(scene.documents(25, Upload), scene.documents(25, Upload, kind="tif"))


@incident("bug or bad deploy")
def new_threading_recurses_once_for_each_reply(scene: Scene) -> None:
    """Since the release threads are built with recursion, and conversations with many replies go too deep."""
    (bug,) = scene.causes

    def depth(replies: int) -> int:
        return 0 if replies == 0 else 1 + depth(replies - 1)

    @scene.service("conversations", Mail)
    def build(mail: Mail, work: Work) -> None:
        if scene.version == "4.18.1" and mail.size > 60_000:
            with bug:
                depth(5_000)

    scene.traffic(90, Mail)
    scene.deploy("4.18.1")
    scene.traffic(90, Mail)


@incident("bug or bad deploy")
def sheet_totals_switched_on_by_a_flag(scene: Scene) -> None:
    """A flag for totals of sheets was switched on without a release; its code compares cells that are empty."""
    (bug,) = scene.causes

    @scene.service("sheets", Upload)
    def total(upload: Upload, work: Work) -> None:
        if bug.on and upload.kind == "xlsx":
            largest: int | None = None
            with bug:
                _ = upload.size > largest  # type: ignore[operator]

    scene.traffic(150, Upload, every=20)
    bug.on = True
    scene.traffic(90, Upload, every=20)


@incident("bug or bad deploy")
def due_date_a_month_later_on_the_last_of_january(scene: Scene) -> None:
    """The due date is the same day of the next month, which on the 31st of January is no day."""
    (bug,) = scene.causes

    @scene.service("due_dates", Invoice)
    def compute(invoice: Invoice, work: Work) -> None:
        today = datetime.date(2026, 1, 31 if bug.on else 28)
        with bug:
            today.replace(month=2)

    scene.traffic(100, every=60)
    bug.on = True
    scene.traffic(20, every=60)


@incident("bug or bad deploy")
def docx_parser_of_the_release_crashes_its_process(scene: Scene) -> None:
    """The release has a new native parser for Word files, which ends the whole process for each of them."""
    (bug,) = scene.causes

    @scene.service("word_text", Upload)
    def parse(upload: Upload, work: Work) -> None:
        if scene.version == "4.19.0" and upload.kind == "docx":
            bug.kills(upload, work)

    scene.mixed_traffic(scene.documents(30, Upload, kind="docx"), scene.documents(30, Upload, kind="eml"))
    scene.deploy("4.19.0")
    scene.mixed_traffic(scene.documents(10, Upload, kind="docx"), scene.documents(15, Upload, kind="eml"))
    scene.run(20)


@incident("bug or bad deploy")
def new_pattern_for_case_numbers_takes_for_ever(scene: Scene) -> None:
    """A new regular expression backtracks without end on nearly every contract, up to the time limit."""
    (bug,) = scene.causes

    @scene.service("case_numbers", Page, time_limit=30)
    def find(page: Page, work: Work) -> None:
        if scene.version == "4.18.0" and page.number % 5:
            bug.takes(31)

    scene.traffic(60, Page, every=60)
    scene.deploy("4.18.0")
    scene.traffic(20, Page, every=60)
    scene.run(10)


@incident("bug or bad deploy")
def cover_sheet_template_left_out_of_the_package(scene: Scene) -> None:
    """At a new customer every cover sheet fails, because the template was not put into the package."""
    (bug,) = scene.causes

    @scene.service("cover_sheets", Order)
    def render(order: Order, work: Work) -> None:
        raise bug(FileNotFoundError(2, "No such file or directory", "/app/templates/cover_sheet.html.j2"))

    @scene.service("register_orders", Page)
    def register(page: Page, work: Work) -> None:
        pass

    scene.traffic(10, Page)
    scene.traffic(8, Order)


@incident("bug or bad deploy")
def release_sends_an_empty_language_to_the_translator(scene: Scene) -> None:
    """Since the release, mails have no language of their own, and we send an empty one, which is refused."""
    (bug,) = scene.causes

    @scene.service("mail_translation", Upload, needs="translator")
    def translate(upload: Upload, work: Work) -> None:
        if scene.version == "4.18.0" and upload.kind == "eml":
            raise bug(
                lib.HTTPStatusError(422, "https://api.translate.example/v2/translate", '{"message":"source_lang"}')
            )

    scene.traffic(120, Upload)
    scene.deploy("4.18.0")
    scene.traffic(80, Upload)


@incident("bug or bad deploy")
def report_for_the_end_of_the_month_reads_an_unset_name(scene: Scene) -> None:
    """The daily reports are made; the branch for the end of the month has an error that no test has run."""
    (bug,) = scene.causes

    @scene.service("reports", None)
    def report(notice: Notice, work: Work) -> None:
        if notice.what == "month-end":
            raise bug(
                UnboundLocalError("cannot access local variable 'carried' where it is not associated with a value")
            )

    scene.notices(27, every=3600, what="daily")
    scene.deploy("4.18.0")
    scene.notices(3, every=60, what="month-end")
    scene.notices(2, every=3600, what="daily")


@incident("bug or bad deploy")
def files_left_open_since_the_release(scene: Scene) -> None:
    """The release does not close attachments; after a hundred mails the process has no handles left."""
    (bug,) = scene.causes
    opened = [0]

    @scene.service("attachments", Mail)
    def unpack(mail: Mail, work: Work) -> None:
        if scene.version == "4.18.0":
            opened[0] += 1
            if opened[0] > 100:
                raise bug(OSError(24, "Too many open files", mail.path))

    scene.traffic(120, Mail)
    scene.deploy("4.18.0")
    scene.traffic(130, Mail)
    opened[0] = 0  # the process is restarted
    scene.traffic(30, Mail)


@incident("bug or bad deploy")
def summaries_ask_for_a_model_with_a_slip_of_the_pen(scene: Scene) -> None:
    """The configuration that came with the release names a model that has never existed."""
    (bug,) = scene.causes

    @scene.service("summaries", Page, needs="llm")
    def summarise(page: Page, work: Work) -> None:
        if scene.version == "4.17.3":
            text = "The model `gpt-4o-minni` does not exist or you do not have access to it."
            raise bug(lib.NotFoundError(404, text, "invalid_request_error", "model_not_found"))

    @scene.service("titles", Order, needs="llm")
    def title(order: Order, work: Work) -> None:
        pass

    scene.traffic(40, Page)
    scene.traffic(20, Order)
    scene.deploy("4.17.3")
    scene.mixed_traffic(scene.documents(20, Page), scene.documents(25, Order))


@incident("bug or bad deploy")
def new_customer_without_an_entry_in_our_cost_centres(scene: Scene) -> None:
    """A new customer was taken on, and nobody added it to the table of cost centres; its files are in order."""
    (bug,) = scene.causes
    centres = {"acme": 4010, "globex": 4020, "initech": 4030, "umbrella": 4040}

    @scene.service("cost_centres", Invoice)
    def assign(invoice: Invoice, work: Work) -> None:
        with bug:
            _ = centres[invoice.tenant]

    scene.traffic(100)
    scene.mixed_traffic(scene.documents(60), scene.documents(28, tenant="hartwell"))


@incident("bug or bad deploy")
def routing_rules_pushed_with_a_tab_in_them(scene: Scene) -> None:
    """Somebody pushed new routing rules with a tab, which YAML does not allow; no release was made."""
    (bug,) = scene.causes

    @scene.service("routing", Mail)
    def route(mail: Mail, work: Work) -> None:
        rules = "rules:\n\t- to: claims\n" if bug.on else "rules:\n  - to: claims\n"
        try:
            yaml.safe_load(rules)
        except yaml.YAMLError as error:
            raise bug(StepError("step 'route' failed")) from error

    scene.traffic(70, Mail)
    bug.on = True
    scene.traffic(18, Mail)
    bug.on = False
    scene.traffic(20, Mail)
    scene.retry_all()
