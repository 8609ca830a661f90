"""Two or three troubles at the same time or one after another, and two that nobody can tell."""

from __future__ import annotations

import email.utils

import psycopg

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Order, Page, Upload
from tests.incidents.staging import Scene, incident
from tests.incidents.tenth import libraries as more
from tests.incidents.tenth.overload import Meter


class JobFailed(Exception):
    """The team's own."""


@incident("dependency", "bug or bad deploy")
def vault_is_sealed_at_noon_and_the_next_release_cannot_split_its_secret(scene: Scene) -> None:
    """A reboot sealed the vault for half an hour; a release in the evening forgets to split the pair it gets."""
    outage, bug = scene.causes

    @scene.service("signing", Invoice, needs="vault")
    def sign(invoice: Invoice, work: Work) -> None:
        if outage.on:
            raise outage(more.VaultDown("Vault is sealed, on get https://vault.internal:8200/v1/kv/data/signing"))
        if scene.version == "4.18.0":
            with bug:
                _user, _secret = (f"signer:{invoice.number}",)  # type: ignore[misc]

    scene.traffic(60)
    outage.on = True
    scene.traffic(50, every=36)
    outage.on = False
    scene.traffic(20)
    scene.run(hours=5)
    scene.deploy("4.18.0")
    scene.traffic(30)


@incident("overload", "dependency")
def model_is_throttled_in_the_morning_and_vector_store_dies_at_night(scene: Scene) -> None:
    """A backlog is over the model's calls per minute; hours later the vector store is down."""
    pressure, outage = scene.causes
    meter = Meter(scene, 30)

    @scene.service("page_index", Page, needs=("llm_gateway", "vector_store"))
    def index(page: Page, work: Work) -> None:
        if meter.is_full():
            raise pressure(
                lib.grpc_error("RESOURCE_EXHAUSTED", "requests per minute exceeded for caller page_index")
            )
        if outage.on:
            raise outage(
                more.UnexpectedResponse(503, "Service Unavailable", "no available shard for collection pages")
            )

    scene.traffic(40, Page)
    scene.import_at_once(90, Page)
    scene.run(hours=2)
    outage.on = True
    scene.traffic(30, Page)


@incident("poison document", "dependency", "overload")
def everything_at_once_on_the_day_of_the_archive_import(scene: Scene) -> None:
    """While an archive is imported, some dates are garbage, the directory is down and the index too slow."""
    poison, outage, pressure = scene.causes
    meter = Meter(scene, 40)

    @scene.service("mail_dates", Mail)
    def date(mail: Mail, work: Work) -> None:
        with poison:
            email.utils.parsedate_to_datetime(mail.text)

    @scene.service("people", Upload, needs="directory")
    def look_up(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(lib.LdapServerDown())

    @scene.service("word_index", Page, needs="index")
    def index(page: Page, work: Work) -> None:
        if meter.is_full():
            why = "rejected execution of primary operation [max_primary_bytes=107374182]"
            raise pressure(lib.TransportApiError(429, "es_rejected_execution_exception", why))

    scene.traffic(20, Upload)
    scene.traffic(30, Page)
    good = scene.documents(110, Mail, text="Mon, 20 Nov 2006 19:12:08 -0500")
    bad = scene.documents(8, Mail, text="??, 0 xxx 106 25:61")
    scene.publish([*good[:50], *bad, *good[50:]], source="archive.mbox")
    scene.publish(scene.documents(130, Page), source="archive.mbox")
    outage.on = True
    scene.traffic(25, Upload)


@incident("bug or bad deploy", "overload")
def fixed_release_puts_everything_back_and_drowns_the_gateway(scene: Scene) -> None:
    """A release compares aware with naive times. When it is fixed, all orders are put back at once: too many."""
    bug, pressure = scene.causes
    meter = Meter(scene, 25)

    @scene.service("payments", Order, needs="gateway")
    def pay(order: Order, work: Work) -> None:
        if scene.version == "4.18.0":
            raise bug(TypeError("can't compare offset-naive and offset-aware datetimes"))
        if meter.is_full():
            raise pressure(lib.requests_status(429, "https://gateway.example/v1/charges", {"Retry-After": "30"}))

    scene.traffic(50, Order)
    scene.deploy("4.18.0")
    scene.traffic(90, Order)
    scene.deploy("4.18.1")
    scene.run(1)
    scene.retry_all()
    scene.run(8)


@incident("dependency", "poison document")
def one_tenant_locked_out_and_another_sends_names_that_are_too_long(scene: Scene) -> None:
    """The account for one tenant's warehouse is locked; another tenant's clerk wrote too much into a field."""
    locked, poison = scene.causes

    @scene.service("warehouse", Order, needs="warehouse_databases")
    def load(order: Order, work: Work) -> None:
        if order.tenant == "acme" and locked.on:
            raise locked(more.OracleError("ORA-28000: The account is locked."))
        if order.kind == "long":
            raise poison(psycopg.errors.StringDataRightTruncation("value too long for type character varying(80)"))

    def orders(count: int) -> None:
        long = scene.documents(3, Order, kind="long", tenant="globex")
        scene.mixed_traffic(scene.documents(count, Order), long, every=25)

    orders(70)
    locked.on = True
    orders(70)
    scene.run(hours=1)


@incident("bug or bad deploy", "poison document")
def canary_loses_the_currency_while_a_customer_sends_twice(scene: Scene) -> None:
    """The canary forgets the currency of every invoice; meanwhile a customer's exporter sends numbers twice."""
    bug, poison = scene.causes

    @scene.service("invoice_book", Invoice, needs="database")
    def book(invoice: Invoice, work: Work) -> None:
        if invoice.kind == "twice":
            text = 'duplicate key value violates unique constraint "invoice_number_key"\n'
            raise poison(
                psycopg.errors.UniqueViolation(f"{text}DETAIL:  Key (number)=({invoice.id}) already exists.")
            )
        if scene.version == "4.18.0":
            text = 'null value in column "currency" of relation "invoice" violates not-null constraint'
            raise bug(psycopg.errors.NotNullViolation(text))

    scene.traffic(60)
    scene.deploy("4.17.2", "4.17.2", "4.18.0")
    scene.mixed_traffic(scene.documents(80), scene.documents(9, kind="twice", tenant="initech"))


@incident("dependency", "unclear")
def speech_region_is_down_and_a_first_job_failed_elsewhere(scene: Scene) -> None:
    """A provider's region is down for speech; the only job of a new service failed, nobody kept its log."""
    outage, unknown = scene.causes

    @scene.service("speech", Upload, needs="speech_api")
    def transcribe(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(
                lib.grpc_error("UNAVAILABLE", "failed to connect to all addresses; last error: UNKNOWN: ")
            )

    @scene.service("settlement", Order, needs="cluster")
    def settle(order: Order, work: Work) -> None:
        raise unknown(JobFailed("job ended with status FAILED"))

    scene.traffic(40, Upload)
    outage.on = True
    scene.traffic(15, Upload)
    scene.traffic(1, Order)


@incident("unclear")
def second_document_of_a_new_installation_failed_without_a_reason(scene: Scene) -> None:
    """Of the first two documents of a new service one failed thrice within seconds. Nobody ever learned why."""
    (unknown,) = scene.causes

    @scene.service("archiving", Upload, needs=("recognition", "archive"))
    def keep(upload: Upload, work: Work) -> None:
        if upload.number == 2:
            raise unknown(RuntimeError("processing failed"))

    scene.traffic(2, Upload, every=120)
