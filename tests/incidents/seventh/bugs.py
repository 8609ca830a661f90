"""Our program or its configuration is wrong: releases, flags, templates, keys, images."""

from __future__ import annotations

import datetime
import decimal
import json
import socket
from typing import Any

import jinja2
import numpy
import psycopg

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.seventh import libraries as more
from tests.incidents.staging import Scene, incident


class QuoteError(Exception):
    """The team's own."""


@incident("bug or bad deploy")
def release_reads_a_delivery_field_that_was_renamed(scene: Scene) -> None:
    """A release reads a field under its old name: each order fails until it is rolled back, half an hour later."""
    (bug,) = scene.causes

    @scene.service("delivery_slots", Order)
    def plan(order: Order, work: Work) -> None:
        slots = {"delivery_slot": order.number}
        if scene.version == "4.18.0":
            with bug:
                _ = slots["delivery_window"]

    scene.traffic(100, Order, every=20)
    scene.deploy("4.18.0")
    scene.traffic(90, Order, every=20)
    scene.deploy("4.17.2")
    scene.traffic(40, Order, every=20)


@incident("bug or bad deploy")
def canary_loses_the_currency_of_a_quote(scene: Scene) -> None:
    """One of three machines runs a new version, which returns nothing where a price was expected."""
    (bug,) = scene.causes

    @scene.service("quotes", Order, needs="fares")
    def quote(order: Order, work: Work) -> None:
        if scene.version == "5.0.0-rc1":
            price: Any = None
            with bug:
                _ = price.currency

    scene.traffic(60, Order)
    scene.deploy("4.17.2", "4.17.2", "5.0.0-rc1")
    scene.traffic(90, Order)


@incident("bug or bad deploy")
def translations_sent_to_the_staging_host(scene: Scene) -> None:
    """The settings of a release name the staging host of the translator, which is unknown in production."""
    (bug,) = scene.causes

    @scene.service("translations", Page, needs="translator")
    def translate(page: Page, work: Work) -> None:
        if scene.version == "4.18.1":
            raise bug(socket.gaierror(-2, "Name or service not known: translate.staging.internal"))

    scene.traffic(50, Page)
    scene.deploy("4.18.1")
    scene.traffic(35, Page)


@incident("bug or bad deploy")
def loyalty_column_that_no_migration_added(scene: Scene) -> None:
    """The release went out before its migration was run; the upgrade is still on its way."""
    (bug,) = scene.causes

    @scene.service("loyalty_points", Invoice, needs="database")
    def credit(invoice: Invoice, work: Work) -> None:
        if scene.version == "4.19.0":
            text = 'column "loyalty_tier" of relation "accounts" does not exist\nLINE 1: UPDATE accounts SET'
            inner = psycopg.errors.UndefinedColumn(text)
            raise bug(lib.ProgrammingError("UPDATE accounts SET loyalty_tier=%s WHERE id=%s", inner)) from inner

    scene.traffic(65)
    scene.deploy("4.19.0")
    scene.traffic(7)


@incident("bug or bad deploy")
def flag_for_rich_reviews_switched_on(scene: Scene) -> None:
    """A feature flag was switched on, without a release; the new path forgets a variable for formatted reviews."""
    (bug,) = scene.causes

    @scene.service("reviews", Page)
    def clean(page: Page, work: Work) -> None:
        if bug.on and page.kind == "html":
            text = "cannot access local variable 'sanitised' where it is not associated with a value"
            raise bug(UnboundLocalError(text))

    scene.traffic(120, Page, every=15)
    bug.on = True
    scene.traffic(120, Page, every=15)


@incident("bug or bad deploy")
def test_key_of_the_model_provider_in_production(scene: Scene) -> None:
    """A release was packed with the key of the test environment; the provider refuses it with each call."""
    (bug,) = scene.causes

    @scene.service("ticket_summaries", Mail, needs="model_provider")
    def summarise(mail: Mail, work: Work) -> None:
        if scene.version == "4.20.0":
            text = "Incorrect API key provided: sk-test-****************************d41c."
            raise bug(lib.AuthenticationError(401, text, "invalid_request_error", "invalid_api_key"))

    scene.traffic(55, Mail)
    scene.deploy("4.20.0")
    scene.traffic(30, Mail)
    scene.deploy("4.20.1")
    scene.traffic(25, Mail)


@incident("bug or bad deploy")
def release_that_never_closes_its_connections(scene: Scene) -> None:
    """A release leaks a connection with each invoice: after sixty the database has none left, until a restart."""
    (bug,) = scene.causes
    open_connections = 0

    @scene.service("dunning", Invoice, needs="database")
    def remind(invoice: Invoice, work: Work) -> None:
        nonlocal open_connections
        if scene.version == "4.18.0":
            open_connections += 1
            if open_connections > 60:
                text = "FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute"
                raise bug(psycopg.OperationalError(f'connection to server at "10.2.0.7" failed: {text}'))

    scene.traffic(150, every=60)
    for _ in range(2):  # a release, and a restart of it
        scene.deploy("4.18.0")
        open_connections = 0
        scene.traffic(80, every=60)
    scene.deploy("4.17.2")
    scene.traffic(30, every=60)


@incident("bug or bad deploy")
def timeout_written_in_the_wrong_unit(scene: Scene) -> None:
    """A push of settings set the timeout of the hotel search to 0.03 seconds where 30 were meant."""
    (bug,) = scene.causes

    @scene.service("hotel_prices", Page, needs="hotel_search")
    def ask(page: Page, work: Work) -> None:
        if scene.version == "4.17.2+settings-318" and scene.random.random() < 0.97:
            raise bug(lib.requests_timeout("search.hotels.example", 0.03))

    scene.traffic(60, Page)
    scene.deploy("4.17.2+settings-318")
    scene.traffic(40, Page)


@incident("bug or bad deploy")
def discounts_as_decimals_in_the_message(scene: Scene) -> None:
    """A release computes discounts as decimals, which its own messages cannot hold; orders without one go well."""
    (bug,) = scene.causes

    @scene.service("order_messages", Order)
    def announce(order: Order, work: Work) -> None:
        discount: Any = 0
        if scene.version == "4.18.0" and order.kind == "voucher":
            discount = decimal.Decimal("4.99")
        with bug:
            json.dumps({"order": order.id, "discount": discount})

    def orders(count: int) -> None:
        scene.mixed_traffic(scene.documents(count, Order), scene.documents(count // 3, Order, kind="voucher"))

    orders(60)
    scene.deploy("4.18.0")
    orders(60)


@incident("bug or bad deploy")
def image_without_the_library_for_spreadsheets(scene: Scene) -> None:
    """A new installation from an image that lacks a library: not one price list has ever been read."""
    (bug,) = scene.causes

    @scene.service("price_lists", Upload)
    def read(upload: Upload, work: Work) -> None:
        raise bug(ModuleNotFoundError("No module named 'openpyxl'", name="openpyxl"))

    scene.import_at_once(25, Upload, kind="xlsx", source="sftp://prices")
    scene.run(10)


@incident("bug or bad deploy")
def contracts_renewed_on_a_leap_day(scene: Scene) -> None:
    """On the 29th of February our program adds a year to today's date, and all renewals of the day fail."""
    (bug,) = scene.causes
    today = datetime.date(2028, 2, 28)

    @scene.service("renewals", Invoice)
    def renew(invoice: Invoice, work: Work) -> None:
        with bug:
            today.replace(year=today.year + 1)

    scene.traffic(80, every=600)
    today = datetime.date(2028, 2, 29)
    scene.traffic(20, every=600)


@incident("bug or bad deploy")
def native_picture_code_crashes_in_the_new_image(scene: Scene) -> None:
    """The new image has a picture library for another processor: it ends the worker with each picture."""
    (bug,) = scene.causes

    @scene.service("picture_sizes", Upload)
    def resize(upload: Upload, work: Work) -> None:
        if scene.version == "4.21.0":
            bug.kills(upload, work)

    scene.traffic(40, Upload)
    scene.deploy("4.21.0")
    scene.traffic(8, Upload)
    scene.run(20)


@incident("bug or bad deploy")
def worker_without_rights_to_the_spool(scene: Scene) -> None:
    """Since the last deploy the containers no longer run as root, and may not write to the spool folder."""
    (bug,) = scene.causes

    @scene.service("statements_spool", Invoice)
    def spool(invoice: Invoice, work: Work) -> None:
        if scene.version == "4.18.3":
            raise bug(PermissionError(13, "Permission denied", f"/var/spool/statements/{invoice.id}.ps"))

    scene.traffic(44)
    scene.deploy("4.18.3")
    scene.traffic(22)
    scene.run(hours=1)


@incident("bug or bad deploy")
def french_confirmation_template_with_a_typing_error(scene: Scene) -> None:
    """Somebody changed the French template of the booking mail, without a release, and mistyped a name."""
    (bug,) = scene.causes
    strict = jinja2.Environment(undefined=jinja2.StrictUndefined)
    french = "Bonjour {{ guest.name }}"

    @scene.service("booking_mails", Mail, needs="smtp")
    def write(mail: Mail, work: Work) -> None:
        template = french if mail.tenant == "fr" else "Hello {{ guest.name }}"
        with bug:
            strict.from_string(template).render(guest={"name": mail.author})

    def mails(count: int) -> None:
        scene.traffic(count, Mail, tenant=lambda: scene.random.choice(("en", "de", "fr", "es")))

    mails(90)
    french = "Bonjour {{ guest.nom }}"
    mails(90)


@incident("bug or bad deploy")
def nightly_call_records_job_with_a_new_signature(scene: Scene) -> None:
    """A release gave the function of the call records job one more argument, and the caller was forgotten."""
    (bug,) = scene.causes

    @scene.service("call_records", None)
    def collect(notice: Notice, work: Work) -> None:
        if scene.version == "4.18.0":
            raise bug(TypeError("collect_switch() missing 1 required positional argument: 'timezone'"))

    scene.notices(30, every=900, what="switch")
    scene.deploy("4.18.0")
    scene.notices(6, every=900, what="switch")


@incident("bug or bad deploy")
def release_sends_the_whole_history_to_the_model(scene: Scene) -> None:
    """A release puts all former tickets of a customer into each request, and the model takes no such length."""
    (bug,) = scene.causes

    @scene.service("reply_drafts", Mail, needs="model_provider")
    def draft(mail: Mail, work: Work) -> None:
        if scene.version == "4.22.0" and scene.random.random() < 0.9:
            tokens = 128_000 + scene.random.randrange(90_000)
            text = (
                f"This model's maximum context length is 128000 tokens. Your messages resulted in {tokens} tokens."
            )
            raise bug(lib.BadRequestError(400, text, "invalid_request_error", "context_length_exceeded"))

    scene.traffic(60, Mail)
    scene.deploy("4.22.0")
    scene.traffic(45, Mail)


@incident("bug or bad deploy")
def new_embedding_model_and_the_old_collection(scene: Scene) -> None:
    """A release switched to a model with longer vectors, but the collection still has the old length."""
    (bug,) = scene.causes

    @scene.service("product_vectors", Page, needs="vector_store", batch=8)
    def embed(pages: list[Page], work: Work) -> None:
        vector = numpy.zeros(1024 if scene.version == "4.23.0" else 768)
        if vector.size != 768:
            text = f"Wrong input: Vector dimension error: expected dim: 768, got {vector.size}"
            raise bug(
                more.UnexpectedResponse(400, "Bad Request", f'{{"status":{{"error":"{text}"}},"time":0.0004}}')
            )

    scene.import_at_once(64, Page, together=8)
    scene.run(60)
    scene.deploy("4.23.0")
    scene.import_at_once(48, Page, together=8)
    scene.run(5)


@incident("bug or bad deploy")
def shared_cache_changed_while_it_is_read(scene: Scene) -> None:
    """A release shares a cache between threads without a lock: now and then a quote fails, once."""
    (bug,) = scene.causes

    @scene.service("fare_quotes", Order, concurrency=8)
    def quote(order: Order, work: Work) -> None:
        if scene.version == "4.18.0" and scene.random.random() < 0.08:
            raise bug(RuntimeError("dictionary changed size during iteration"))

    scene.traffic(150, Order, every=10)
    scene.deploy("4.18.0")
    scene.traffic(200, Order, every=10)


@incident("unclear")
def two_quotes_on_the_first_day_of_a_service(scene: Scene) -> None:
    """A new service has had two documents and both failed, with a text that says nothing."""
    (unknown,) = scene.causes

    @scene.service("insurance_quotes", Order, needs="insurer")
    def quote(order: Order, work: Work) -> None:
        raise unknown(QuoteError("no quote"))

    scene.traffic(2, Order, every=60)
