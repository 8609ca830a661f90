"""Our program or its configuration is wrong: releases, pushes, defaults, leaks, and cases nobody thought of."""

from __future__ import annotations

import datetime
import decimal
import subprocess
from collections.abc import Sequence

import jinja2
import psycopg.errors

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.eighth import libraries as more
from tests.incidents.staging import Scene, incident


class RankingError(Exception):
    """The bibliometrics team's own."""


@incident("bug or bad deploy")
def release_reads_a_column_before_the_migration_ran(scene: Scene) -> None:
    """Release 4.18.0 came an hour before the migration that adds its column; then all went through."""
    (bug,) = scene.causes
    migrated = False

    @scene.service("securities", Invoice, needs="warehouse")
    def load(invoice: Invoice, work: Work) -> None:
        if scene.version == "4.18.0" and not migrated:
            text = (
                'column "lei_code" of relation "security" does not exist\nLINE 1: INSERT INTO security (isin, lei'
            )
            raise bug(psycopg.errors.UndefinedColumn(text))

    scene.traffic(60)
    scene.deploy("4.18.0")
    scene.traffic(25)
    scene.run(45)
    migrated = True
    scene.run(hours=3)
    scene.traffic(20)


@incident("bug or bad deploy")
def canary_parses_affiliations_that_are_not_there(scene: Scene) -> None:
    """The canary expects an affiliation for each author; machines with the old release work on."""
    (bug,) = scene.causes

    @scene.service("authors", Page)
    def parse(page: Page, work: Work) -> None:
        affiliation = None if page.number % 2 else page.tenant
        if scene.version == "4.18.0-rc1":
            with bug:
                affiliation.casefold()  # type: ignore[union-attr]

    scene.traffic(40, Page)
    scene.deploy("4.17.2", "4.17.2", "4.18.0-rc1")
    scene.traffic(60, Page)


@incident("bug or bad deploy")
def release_talks_to_the_parser_of_the_staging_network(scene: Scene) -> None:
    """Release 4.18.0 was built with the host of staging, unknown here; rolled back after an hour."""
    (bug,) = scene.causes

    @scene.service("fulltext", Upload, needs="grobid")
    def parse(upload: Upload, work: Work) -> None:
        if scene.version == "4.18.0":
            url = "https://grobid.staging.internal/api/processFulltextDocument"
            raise bug(lib.requests_refused(url, "[Errno -2] Name or service not known"))

    scene.traffic(50, Upload)
    scene.deploy("4.18.0")
    scene.traffic(20, Upload, every=60)
    scene.run(40)
    scene.deploy("4.17.2")
    scene.run(hours=2)
    scene.traffic(20, Upload)


@incident("bug or bad deploy")
def flag_for_the_new_tokenizer_without_its_vocabulary(scene: Scene) -> None:
    """A feature flag was turned on for everyone; the code behind it looks up a vocabulary that nobody ships."""
    (bug,) = scene.causes
    vocabularies = {"bpe-32k": 32_000}

    @scene.service("chunking", Page)
    def chunk(page: Page, work: Work) -> None:
        with bug:
            _ = vocabularies["unigram-64k" if bug.on else "bpe-32k"]

    scene.traffic(150, Page, every=10)
    bug.on = True
    scene.traffic(40, Page, every=10)


@incident("bug or bad deploy")
def share_of_self_citations_of_articles_that_cite_nothing(scene: Scene) -> None:
    """Editorials cite nothing, and the program always divided by their references; 4.17.3 handles them."""
    (bug,) = scene.causes

    @scene.service("bibliometrics", Page)
    def count(page: Page, work: Work) -> None:
        references = 0 if page.kind == "editorial" else 12
        if scene.version == "4.17.2":
            with bug:
                _ = 3 / references

    scene.mixed_traffic(scene.documents(70, Page, kind="article"), scene.documents(9, Page, kind="editorial"))
    scene.run(hours=1)
    scene.deploy("4.17.3")
    scene.retry_all()
    scene.mixed_traffic(scene.documents(20, Page, kind="article"), scene.documents(4, Page, kind="editorial"))
    scene.run(hours=2)


@incident("bug or bad deploy")
def coupon_dates_computed_on_the_leap_day(scene: Scene) -> None:
    """Since midnight it is 29 February, and our code asks for the same day of the next year, for each bond."""
    (bug,) = scene.causes
    today = datetime.date(2028, 2, 28)

    @scene.service("bonds", Order)
    def schedule(order: Order, work: Work) -> None:
        with bug:
            today.replace(year=today.year + 1)

    scene.traffic(100, Order, every=60)
    today = datetime.date(2028, 2, 29)
    scene.traffic(15, Order, every=60)


@incident("bug or bad deploy")
def release_carries_the_api_key_of_the_sandbox(scene: Scene) -> None:
    """Release 4.17.3 was packed with the sandbox's key; it is refused. The old release had the right one."""
    (bug,) = scene.causes

    @scene.service("summaries", Page, needs="llm")
    def summarise(page: Page, work: Work) -> None:
        if scene.version == "4.17.3":
            text = "Incorrect API key provided: sk-sandb**************9Qf2."
            raise bug(lib.AuthenticationError(401, text, "invalid_request_error", "invalid_api_key"))

    scene.traffic(45, Page)
    scene.deploy("4.17.2", "4.17.3")
    scene.traffic(30, Page)
    scene.deploy("4.17.2")
    scene.run(hours=2)
    scene.traffic(20, Page)


@incident("bug or bad deploy")
def release_never_gives_back_its_connections(scene: Scene) -> None:
    """Since 4.18.0 each document keeps a connection; the pool is empty after fifteen, at a traffic that is low."""
    (bug,) = scene.causes
    held = 0

    @scene.service("claims", Order, needs="claims_db")
    def store(order: Order, work: Work) -> None:
        nonlocal held
        if scene.version == "4.18.0":
            if held >= 15:
                text = "QueuePool limit of size 5 overflow 10 reached, connection timed out, timeout 30.00"
                raise bug(lib.SqlTimeoutError(text))
            held += 1

    scene.traffic(60, Order, every=120)
    scene.deploy("4.18.0")
    scene.traffic(40, Order, every=120)
    scene.deploy("4.17.2")
    scene.run(hours=2)
    scene.traffic(15, Order, every=120)


@incident("bug or bad deploy")
def new_model_makes_vectors_of_another_length(scene: Scene) -> None:
    """Release 4.18.0 brought another model, whose vectors do not fit into the collection."""
    (bug,) = scene.causes

    @scene.service("patent_vectors", Page, needs="vector_store", batch=16)
    def store(pages: Sequence[Page], work: Work) -> None:
        if scene.version == "4.18.0":
            text = "Wrong input: Vector dimension error: expected dim: 1024, got 768"
            raise bug(more.UnexpectedResponse(400, "Bad Request", text))

    for _ in range(4):
        scene.import_at_once(32, Page, together=16)
        scene.run(10)
    scene.deploy("4.18.0")
    scene.import_at_once(32, Page, together=16)
    scene.run(30)


@incident("bug or bad deploy")
def every_pdf_kills_the_worker_since_the_new_binding(scene: Scene) -> None:
    """The new binding of the PDF library has a segmentation fault at the first page of any file."""
    (bug,) = scene.causes

    @scene.service("pages_of_pdf", Upload)
    def split(upload: Upload, work: Work) -> None:
        if scene.version == "4.18.0":
            bug.kills(upload, work)

    scene.traffic(40, Upload)
    scene.deploy("4.18.0")
    scene.traffic(6, Upload, every=90)
    scene.run(30)


@incident("bug or bad deploy")
def typesetting_gets_three_seconds_where_it_had_three_hundred(scene: Scene) -> None:
    """A push of the configuration lost two digits: since 4.17.2+cfg81 every typesetting run is stopped at 3 s."""
    (bug,) = scene.causes

    @scene.service("proofs", Upload)
    def typeset(upload: Upload, work: Work) -> None:
        if scene.version == "4.17.2+cfg81" and upload.size > 8_000:
            try:
                raise bug(subprocess.TimeoutExpired(["lualatex", "-halt-on-error", "article.tex"], 3.0))
            except subprocess.TimeoutExpired as error:
                raise bug(RuntimeError("the proof was not made")) from error

    scene.traffic(70, Upload)
    scene.deploy("4.17.2+cfg81")
    scene.traffic(40, Upload)


@incident("bug or bad deploy")
def first_installation_with_a_variable_that_was_not_replaced(scene: Scene) -> None:
    """The first minutes of a new installation: the template's variable was never replaced by a number."""
    (bug,) = scene.causes

    @scene.service("genomes", Upload)
    def plan(upload: Upload, work: Work) -> None:
        with bug:
            int("${CHUNK_BASES}")

    scene.traffic(7, Upload, every=15)
    scene.run(2)


@incident("bug or bad deploy")
def template_push_names_a_field_that_no_alert_has(scene: Scene) -> None:
    """The editors pushed a new template of the alert, with a misspelt name; no documents take part."""
    (bug,) = scene.causes
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=True)

    @scene.service("alert_texts", None)
    def render(notice: Notice, work: Work) -> None:
        with bug:
            text = "{{ notice.whatt }}" if bug.on else "{{ notice.what }}"
            environment.from_string(text).render(notice=notice)

    scene.notices(60)
    bug.on = True
    scene.notices(20)


@incident("bug or bad deploy")
def release_formats_yen_with_two_decimals(scene: Scene) -> None:
    """Since 4.18.0 amounts are rounded with too small a precision, so that only amounts in yen fail."""
    (bug,) = scene.causes

    @scene.service("statements_of_funds", Invoice)
    def total(invoice: Invoice, work: Work) -> None:
        precision = 9 if scene.version == "4.18.0" else 28
        amount = decimal.Decimal(88_123_456_789 if invoice.kind == "JPY" else 81_234)
        with bug:
            amount.quantize(decimal.Decimal("0.01"), context=decimal.Context(prec=precision))

    def some(yen: int, rest: int) -> None:
        scene.mixed_traffic(scene.documents(yen, kind="JPY"), scene.documents(rest, kind="EUR"))

    some(15, 45)
    scene.deploy("4.18.0")
    some(9, 30)
    scene.run(hours=1)


@incident("bug or bad deploy", groups=2)
def release_runs_as_a_user_who_may_not_write(scene: Scene) -> None:
    """The new unit file starts the workers as another user; two services cannot write to their folders."""
    (bug,) = scene.causes

    def write(folder: str) -> None:
        if scene.version == "4.18.1":
            raise bug(PermissionError(13, "Permission denied", f"/var/lib/pipeline/{folder}/.lock"))

    @scene.service("thumbnails", Upload)
    def draw(upload: Upload, work: Work) -> None:
        write("thumbnails")

    @scene.service("mail_bodies", Mail)
    def store(mail: Mail, work: Work) -> None:
        write("bodies")

    scene.mixed_traffic(scene.documents(20, Upload), scene.documents(20, Mail))
    scene.deploy("4.18.1")
    scene.mixed_traffic(scene.documents(9, Upload), scene.documents(9, Mail))


@incident("bug or bad deploy")
def new_loop_is_closed_under_half_of_the_calls(scene: Scene) -> None:
    """Release 4.18.0 shares an event loop that one of its threads closes; more than half of the calls fail."""
    (bug,) = scene.causes

    @scene.service("quotes", Order, needs="vendor")
    def fetch(order: Order, work: Work) -> None:
        if scene.version == "4.18.0" and scene.random.random() < 0.55:
            try:
                raise bug(RuntimeError("Event loop is closed"))
            except RuntimeError as error:
                raise bug(RankingError("no quote")) from error

    scene.traffic(80, Order)
    scene.deploy("4.18.0")
    scene.traffic(50, Order)
