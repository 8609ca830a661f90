"""Our program, its image or its configuration is wrong."""

from __future__ import annotations

import datetime
import os
from email.message import EmailMessage

import jinja2
import psycopg

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.staging import Scene, incident


class TotalsDiffer(Exception):
    """The team's own."""


@incident("bug or bad deploy")
def release_insists_on_a_message_id(scene: Scene) -> None:
    """Mails of office scanners have no message id; until 4.18.0 that was fine, since then they fail."""
    (bug,) = scene.causes

    @scene.service("mail_headers", Mail)
    def read(mail: Mail, work: Work) -> None:
        headers = {"From": mail.author} if mail.kind == "scanner" else {"From": mail.author, "Message-ID": mail.id}
        if scene.version == "4.18.0":
            with bug:
                _ = headers["Message-ID"]

    def kind() -> str:
        return scene.random.choice(("scanner", "person", "person", "list"))

    scene.traffic(100, Mail, kind=kind)
    scene.deploy("4.18.0")
    scene.traffic(70, Mail, kind=kind)


@incident("bug or bad deploy")
def canary_reads_no_body(scene: Scene) -> None:
    """One machine of two has the release candidate, which finds no body in any mail."""
    (bug,) = scene.causes

    @scene.service("bodies", Mail)
    def read(mail: Mail, work: Work) -> None:
        message = EmailMessage()
        message["Subject"] = mail.text
        if scene.version == "4.18.0rc1":
            with bug:
                message.get_body().get_content()  # type: ignore[union-attr]

    scene.traffic(40, Mail)
    scene.deploy("4.17.2", "4.18.0rc1")
    scene.traffic(40, Mail)


@incident("bug or bad deploy")
def release_with_the_address_of_the_test_system(scene: Scene) -> None:
    """The release was built with the settings of the test system, whose extractor does not exist here."""
    (bug,) = scene.causes

    @scene.service("text", Upload, needs="extractor")
    def extract(upload: Upload, work: Work) -> None:
        if scene.version == "4.18.1":
            why = "[Errno -2] Name or service not known"
            raise bug(lib.requests_refused("http://extractor.test.internal:9998/tika", why))

    scene.traffic(60, Upload)
    scene.deploy("4.18.1")
    scene.traffic(18, Upload)


@incident("bug or bad deploy")
def flag_for_the_new_deduplication(scene: Scene) -> None:
    """The flag for the new deduplication was on for half an hour; it puts headers into a set. Then it was off."""
    (bug,) = scene.causes

    @scene.service("deduplication", Mail)
    def compare(mail: Mail, work: Work) -> None:
        if bug.on:
            with bug:
                _ = {{"from": mail.author}}

    scene.traffic(50, Mail)
    bug.on = True
    scene.traffic(60, Mail)
    bug.on = False
    scene.traffic(50, Mail)
    scene.retry_all()


@incident("bug or bad deploy")
def release_before_its_migration(scene: Scene) -> None:
    """The release went out, the change of the tables did not."""
    (bug,) = scene.causes

    @scene.service("custodians", Mail, needs="database")
    def write(mail: Mail, work: Work) -> None:
        if scene.version == "4.19.0":
            why = 'column "custodian_id" of relation "mails" does not exist\nLINE 1: INSERT INTO mails (id, c'
            raise bug(psycopg.errors.UndefinedColumn(why))

    scene.traffic(80, Mail, every=10)
    scene.deploy("4.19.0")
    scene.traffic(40, Mail, every=10)
    scene.run(30)


@incident("bug or bad deploy")
def retention_on_the_last_day_of_february(scene: Scene) -> None:
    """On the 29th of February our code adds seven years to today: no such day. The next day all is well."""
    (bug,) = scene.causes

    @scene.service("retention", Invoice)
    def keep(invoice: Invoice, work: Work) -> None:
        today = datetime.date(2028, 2, 29) if bug.on else datetime.date(2028, 2, 28)
        with bug:
            today.replace(year=today.year + 7)

    scene.traffic(48, every=1800)
    bug.on = True
    scene.traffic(48, every=1800)
    bug.on = False
    scene.traffic(20, every=1800)


@incident("bug or bad deploy")
def totals_rounded_in_the_wrong_place(scene: Scene) -> None:
    """A release rounds before it adds up: one invoice in five is off by a cent. It was rolled back."""
    (bug,) = scene.causes

    @scene.service("totals", Invoice)
    def check(invoice: Invoice, work: Work) -> None:
        if scene.version == "4.18.0" and invoice.number % 5 == 0:
            total = invoice.size / 100
            raise bug(TotalsDiffer(f"sum of lines {total:.2f}, total {total + 0.01:.2f}"))

    scene.traffic(100)
    scene.deploy("4.18.0")
    scene.traffic(75)
    scene.deploy("4.17.2")
    scene.traffic(60)
    scene.retry_all()


@incident("bug or bad deploy")
def image_without_the_outlook_reader(scene: Scene) -> None:
    """The smaller image of the new release has no library for Outlook's files."""
    (bug,) = scene.causes

    @scene.service("opening", Upload)
    def open_file(upload: Upload, work: Work) -> None:
        if scene.version == "5.0.0" and upload.kind == "msg":
            raise bug(ModuleNotFoundError("No module named 'extract_msg'", name="extract_msg"))

    def kind() -> str:
        return scene.random.choice(("eml", "msg", "pdf"))

    scene.traffic(60, Upload, kind=kind)
    scene.deploy("5.0.0")
    scene.traffic(45, Upload, kind=kind)


@incident("bug or bad deploy")
def new_installation_without_its_settings(scene: Scene) -> None:
    """In the first minutes of a new installation a setting is missing that every document needs."""
    (bug,) = scene.causes

    @scene.service("first_search", Page, needs="search")
    def index(page: Page, work: Work) -> None:
        with bug:
            _ = os.environ["ARCHIVE_SEARCH_INDEX_NAME"]

    scene.import_at_once(20, Page)
    scene.run(4)


@incident("bug or bad deploy")
def new_font_library_ends_the_process(scene: Scene) -> None:
    """The font library of the new release ends the process at every PDF; other files are drawn."""
    (bug,) = scene.causes

    @scene.service("drawing", Upload)
    def draw(upload: Upload, work: Work) -> None:
        if scene.version == "4.18.0" and upload.kind == "pdf":
            bug.kills(upload, work)

    def kind() -> str:
        return scene.random.choice(("pdf", "docx", "txt"))

    scene.traffic(60, Upload, kind=kind, every=60)
    scene.deploy("4.18.0")
    scene.traffic(24, Upload, kind=kind, every=60)
    scene.run(hours=1)


@incident("bug or bad deploy")
def reminder_template_with_a_typing_error(scene: Scene) -> None:
    """Marketing changed the template of reminders, without a release; its greeting names nothing we have."""
    (bug,) = scene.causes
    good, bad = "Dear {{ customer.name }}", "Dear {{ costumer.name }}"

    @scene.service("reminders", None)
    def remind(notice: Notice, work: Work) -> None:
        template = jinja2.Template(bad if bug.on else good)
        with bug:
            template.render(customer={"name": notice.what})

    scene.notices(30, every=60)
    bug.on = True
    scene.notices(20, every=60)


@incident("bug or bad deploy")
def provider_does_not_know_our_new_parameter(scene: Scene) -> None:
    """The release sends a parameter that the provider of the language model does not accept."""
    (bug,) = scene.causes

    @scene.service("privilege_review", Mail, needs="model")
    def review(mail: Mail, work: Work) -> None:
        if scene.version == "4.20.0":
            text = "Unsupported parameter: 'max_tokens' is not supported with this model."
            raise bug(lib.BadRequestError(400, text, "invalid_request_error", "unsupported_parameter"))

    scene.traffic(45, Mail)
    scene.deploy("4.20.0")
    scene.traffic(25, Mail)


@incident("bug or bad deploy")
def vectors_of_another_length(scene: Scene) -> None:
    """A push of settings chose another model for embeddings; the index was made for the vectors of the old one."""
    (bug,) = scene.causes

    @scene.service("vectors", Page, needs="index", batch=20)
    def write(pages: list[Page], work: Work) -> None:
        if bug.on:
            why = "The [dense_vector] field [body_vector] has a different number of dimensions [1024] than [768]"
            raise bug(lib.TransportApiError(400, "document_parsing_exception", why))

    scene.import_at_once(200, Page, together=20)
    scene.run(60)
    bug.on = True
    scene.import_at_once(60, Page, together=20)
    scene.run(20)


@incident("bug or bad deploy")
def no_charset_on_one_path_of_the_code(scene: Scene) -> None:
    """From the first day our code forgets to set a name when a mail has only an HTML part."""
    (bug,) = scene.causes

    @scene.service("decoding", Mail)
    def decode(mail: Mail, work: Work) -> None:
        if mail.kind != "html":
            charset = "utf-8"
        with bug:
            mail.text.encode().decode(charset)  # type: ignore[possibly-undefined]

    def kind() -> str:
        return scene.random.choice(("plain", "plain", "mixed", "html"))

    scene.traffic(90, Mail, kind=kind)


@incident("bug or bad deploy")
def slow_pattern_for_signatures(scene: Scene) -> None:
    """The release has a pattern for signatures that takes minutes for each mail of a company with long ones."""
    (bug,) = scene.causes

    @scene.service("signatures", Mail, time_limit=30)
    def cut(mail: Mail, work: Work) -> None:
        if scene.version == "4.18.0" and mail.tenant in ("globex", "initech"):
            bug.takes(45)

    scene.traffic(80, Mail, every=60)
    scene.deploy("4.18.0")
    scene.traffic(40, Mail, every=60)


@incident("bug or bad deploy")
def image_runs_as_another_user(scene: Scene) -> None:
    """The hardened image runs as a user who may not write to the folder for pages."""
    (bug,) = scene.causes

    @scene.service("page_images", Upload)
    def render(upload: Upload, work: Work) -> None:
        if scene.version == "4.17.3":
            raise bug(PermissionError(13, "Permission denied", f"/var/lib/pages/{upload.number:06}.png"))

    scene.traffic(70, Upload)
    scene.deploy("4.17.3")
    scene.traffic(4, Upload)


@incident("bug or bad deploy")
def two_tables_locked_in_another_order(scene: Scene) -> None:
    """Since the release two steps lock the same tables in opposite order; a third of the orders fails at first."""
    (bug,) = scene.causes

    @scene.service("stock", Order, needs="database")
    def reserve(order: Order, work: Work) -> None:
        if scene.version == "4.18.0" and scene.random.random() < 0.35:
            raise bug(
                psycopg.errors.DeadlockDetected("deadlock detected\nDETAIL:  Process 4411 waits for ShareLock")
            )

    scene.traffic(150, Order, every=10)
    scene.deploy("4.18.0")
    scene.traffic(100, Order, every=10)
