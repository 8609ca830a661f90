"""Two or three troubles in one incident, at once or one after the other, and some that nobody can tell."""

from __future__ import annotations

import sqlite3

import psycopg
import pydantic

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Order, Page, Upload
from tests.incidents.ninth import libraries as more
from tests.incidents.staging import Scene, incident


class PdfiumError(RuntimeError):
    """pypdfium2."""

    __module__ = "pypdfium2._helpers.misc"


class Party(pydantic.BaseModel):
    """What the new release wants of a party."""

    name: str
    vat_id: str = pydantic.Field(min_length=8)


class ConnectorError(Exception):
    """The team's own."""


@incident("dependency", "poison document")
def vault_sealed_while_locked_contracts_come_in(scene: Scene) -> None:
    """The store of secrets was sealed after a restart; a few contracts have a password, then and before."""
    outage, poison = scene.causes

    @scene.service("contracts", Upload, needs="vault")
    def read(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(
                more.VaultDown("Vault is sealed, on get https://vault.internal:8200/v1/kv/data/contracts")
            )
        if upload.text == "locked":
            raise poison(PdfiumError("Failed to load document (PDFium: Incorrect password error)."))

    scene.mixed_traffic(scene.documents(60, Upload), scene.documents(4, Upload, text="locked"))
    outage.on = True
    scene.mixed_traffic(scene.documents(15, Upload), scene.documents(1, Upload, text="locked"))
    outage.on = False
    scene.traffic(20, Upload)
    scene.run(hours=4)


@incident("bug or bad deploy", "overload")
def broken_html_release_during_the_quarterly_import(scene: Scene) -> None:
    """A release lost its handling of web pages, while the quarterly import keeps a small SQLite file locked."""
    bug, pressure = scene.causes
    meter = more.Meter(scene, 30, 0.25)

    @scene.service("page_text", Upload)
    def extract(upload: Upload, work: Work) -> None:
        if scene.version == "4.18.0" and upload.kind == "html":
            raise bug(AttributeError("'NoneType' object has no attribute 'find_all'"))

    @scene.service("quarter", Invoice)
    def enter(invoice: Invoice, work: Work) -> None:
        if meter.is_full():
            raise pressure(sqlite3.OperationalError("database is locked"))

    scene.mixed_traffic(scene.documents(70, Upload), scene.documents(30))
    scene.deploy("4.18.0")
    scene.publish(scene.documents(120))
    scene.traffic(70, Upload, every=10)


@incident("dependency", "bug or bad deploy")
def index_down_in_the_morning_and_a_bad_release_at_noon(scene: Scene) -> None:
    """The index was down for some minutes in the morning; at noon a release read a setting by a wrong name."""
    outage, bug = scene.causes
    scene.dependency("index", health=lambda: not outage.on)

    @scene.service("catalogue", Page, needs="index")
    def enter(page: Page, work: Work) -> None:
        if scene.version == "4.18.0":
            with bug:
                _ = {"index_name": "pages"}["index"]
        if outage.on:
            raise outage(lib.requests_status(503, "http://index.internal:9200/_bulk"))

    scene.traffic(40, Page)
    outage.on = True
    scene.traffic(12, Page)
    outage.on = False
    scene.traffic(60, Page)
    scene.run(hours=2)
    scene.deploy("4.18.0")
    scene.traffic(14, Page)


@incident("bug or bad deploy", "poison document")
def stricter_parties_and_dates_that_are_none(scene: Scene) -> None:
    """A release wants a tax number of every party, which private people do not have; apart from that, some
    documents of one exporter have a date that the index cannot read, as they had before the release."""
    bug, poison = scene.causes

    @scene.service("parties", Order, needs="search")
    def enter(order: Order, work: Work) -> None:
        if order.text == "30.02.2026":
            reason = "failed to parse field [signed_on] of type [date] in document with id '" + order.id + "'"
            raise poison(lib.TransportApiError(400, "mapper_parsing_exception", reason))
        if scene.version == "4.18.0" and order.tenant == "private":
            with bug:
                Party(name=order.author, vat_id="")

    for version in ("4.17.2", "4.18.0"):
        scene.deploy(version)
        scene.mixed_traffic(
            scene.documents(50, Order),
            scene.documents(20, Order, tenant="private"),
            scene.documents(4, Order, tenant="globex", text="30.02.2026"),
        )


@incident("overload", "dependency")
def speech_service_throttles_and_then_falls_over(scene: Scene) -> None:
    """A backlog of recordings is over the quota of the speech service; two hours later all of it is down."""
    pressure, outage = scene.causes
    meter = more.Meter(scene, 15)

    @scene.service("speech", Upload, needs="speech")
    def transcribe(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(lib.grpc_error("UNAVAILABLE", "Socket closed"))
        if meter.is_full():
            text = (
                "Quota exceeded for quota metric 'Requests' and limit 'Requests per minute' of service 'speech'."
            )
            raise pressure(lib.grpc_error("RESOURCE_EXHAUSTED", text))

    scene.traffic(30, Upload)
    scene.traffic(80, Upload, every=1)
    scene.run(hours=2)
    scene.traffic(30, Upload)
    outage.on = True
    scene.traffic(15, Upload)


@incident("dependency", "dependency")
def power_cut_in_the_room_of_two_servers(scene: Scene) -> None:
    """A power cut took the key store and the file store of one room; they came back after half an hour."""
    first, second = scene.causes

    @scene.service("legal_hold", Upload, needs=["keys", "files"])
    def hold(upload: Upload, work: Work) -> None:
        if first.on and upload.number % 2:
            raise first(lib.RedisConnectionError("Error 113 connecting to keys.internal:6379. No route to host."))
        if second.on:
            raise second(OSError(112, "Host is down", f"//files/hold/{upload.number}"))

    scene.traffic(60, Upload)
    first.on = second.on = True
    scene.traffic(40, Upload, every=45)
    first.on = second.on = False
    scene.traffic(20, Upload)
    scene.run(hours=1)


@incident("dependency", "poison document", "bug or bad deploy")
def region_lost_and_odd_messages_and_a_new_user(scene: Scene) -> None:
    """The storage of one region is down, a customer exports mails that are cut short, and the new image runs
    under a user that may not write where OCR puts its work."""
    outage, poison, bug = scene.causes

    @scene.service("blob_copy", Upload, needs="blobs")
    def copy(upload: Upload, work: Work) -> None:
        if outage.on and upload.tenant == "initech":
            raise outage(more.AzureError(503, "ServerBusy", "The server is currently unable to receive requests."))

    @scene.service("msg_text", Mail)
    def read(mail: Mail, work: Work) -> None:
        if mail.tenant == "exporter":
            raise poison(more.InvalidMsgError("File was confirmed to be an olefile, but was not an MSG file."))

    @scene.service("ocr_work", Page)
    def recognise(page: Page, work: Work) -> None:
        if scene.version == "5.1.0":
            raise bug(PermissionError(13, "Permission denied", f"/var/spool/ocr/{page.id}.tif"))

    for version in ("4.17.2", "5.1.0"):
        scene.deploy(version)
        cut = scene.documents(4, Mail, tenant="exporter")
        scene.mixed_traffic(
            scene.documents(40, Upload), scene.documents(30, Mail), cut, scene.documents(20, Page), every=15
        )
        outage.on = True


@incident("overload", "poison document", "dependency")
def full_cache_and_odd_claims_and_a_refusing_registry(scene: Scene) -> None:
    """A burst fills the cache's memory, six claims name a contract that does not exist, and the registry of
    companies refuses our account since its contract ended."""
    pressure, poison, outage = scene.causes
    meter = more.Meter(scene, 50, 2.0)

    @scene.service("dedupe", Mail, needs="cache")
    def remember(mail: Mail, work: Work) -> None:
        if meter.is_full():
            raise pressure(lib.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."))

    @scene.service("claims", Order, needs="database")
    def enter(order: Order, work: Work) -> None:
        if order.text.startswith("K-"):
            text = (
                'insert or update on table "claims" violates foreign key constraint "claims_contract_fkey"\n'
                f'DETAIL:  Key (contract)=({order.text}) is not present in table "contracts".'
            )
            raise poison(psycopg.errors.ForeignKeyViolation(text))

    @scene.service("companies", Page, needs="registry")
    def look_up(page: Page, work: Work) -> None:
        if outage.on:
            raise outage(more.SoapFault("Contract for user 'onward01' has ended", "env:Client.Authorization"))

    scene.mixed_traffic(scene.documents(40, Mail), scene.documents(40, Order), scene.documents(20, Page), every=20)
    outage.on = True
    scene.publish(scene.documents(130, Mail))
    odd = scene.documents(6, Order, text=lambda: f"K-{scene.random.randrange(10_000)}")
    scene.mixed_traffic(scene.documents(50, Order), odd, scene.documents(20, Page), every=20)


@incident("bug or bad deploy", "poison document")
def two_kinds_of_value_errors_in_the_payment_reader(scene: Scene) -> None:
    """A release reads amounts with the wrong separator for one format; beside that, three remittances name
    an account whose check digits are wrong. Both are a ValueError of the same service."""
    bug, poison = scene.causes

    @scene.service("remittances", Invoice)
    def read(invoice: Invoice, work: Work) -> None:
        if invoice.text == "wrong account":
            raise poison(ValueError(f"IBAN check digits do not match: DE00{invoice.number:018}"))
        if scene.version == "4.18.0" and invoice.kind == "camt":
            with bug:
                float("1,50")

    scene.mixed_traffic(
        scene.documents(40, kind="mt940"),
        scene.documents(40, kind="camt"),
        scene.documents(1, text="wrong account"),
    )
    scene.deploy("4.18.0")
    scene.mixed_traffic(
        scene.documents(30, kind="mt940"),
        scene.documents(30, kind="camt"),
        scene.documents(2, text="wrong account"),
    )


@incident("unclear")
def new_connector_and_two_failures_without_a_word(scene: Scene) -> None:
    """The first two mails through a new connector failed with an error that says nothing, then it was stopped."""
    (unknown,) = scene.causes

    @scene.service("connector", Mail, needs="records")
    def pass_on(mail: Mail, work: Work) -> None:
        raise unknown(ConnectorError())

    scene.traffic(2, Mail, every=5)


@incident("unclear")
def three_files_and_a_number_from_a_closed_library(scene: Scene) -> None:
    """On its first day a bought library returned -1 for all three files that it was given; nobody knows why."""
    (unknown,) = scene.causes

    @scene.service("drawings", Upload)
    def render(upload: Upload, work: Work) -> None:
        raise unknown(RuntimeError("render returned -1"))

    scene.traffic(3, Upload, every=60)
