"""Services outside of the program fail, as operators of many trades have seen them."""

from __future__ import annotations

import ftplib
import json
import socket
import subprocess

import psycopg

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Order, Page, Upload
from tests.incidents.second import libraries as more
from tests.incidents.staging import Scene, incident


class EbicsError(Exception):
    """The team's own, for all that goes wrong with the bank."""


class DispatchError(Exception):
    """The team's own, in the warehouse."""


class FREngineError(Exception):
    """The binding of a commercial OCR engine."""


class SpeechError(Exception):
    """A vendor's client: it has a status and an empty text."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status


@incident("dependency")
def bank_server_certificate_ran_out(scene: Scene) -> None:
    """The bank forgot to renew its certificate; the team's own error is raised from that."""
    (outage,) = scene.causes

    @scene.service("payments", Invoice, needs="bank")
    def submit(invoice: Invoice, work: Work) -> None:
        if outage.on:
            try:
                raise lib.certificate_expired("ebics.bank.example")
            except OSError as error:
                raise outage(EbicsError("could not submit payment file")) from error

    scene.traffic(60, every=120)
    outage.on = True
    scene.traffic(22, every=120)


@incident("dependency")
def sms_account_without_credit(scene: Scene) -> None:
    """The prepaid account of the text message provider is empty; the deploy an hour before is unrelated."""
    (outage,) = scene.causes

    @scene.service("texting", Mail)
    async def send(mail: Mail, work: Work) -> None:
        if outage.on:
            raise outage(
                lib.HTTPStatusError(402, "https://api.texts.example/v2/send", '{"detail": "balance is 0.00"}')
            )

    scene.traffic(80, Mail, every=60)
    scene.deploy("4.18.0")
    scene.traffic(70, Mail, every=60)
    outage.on = True
    scene.traffic(25, Mail, every=60)


@incident("dependency")
def speech_key_revoked(scene: Scene) -> None:
    """The vendor revoked our key after a leak; its client says only the status. Read after giving up."""
    (outage,) = scene.causes

    @scene.service("transcripts", Upload, needs="speech")
    def transcribe(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(SpeechError(401))

    scene.traffic(15, Upload, every=300)
    outage.on = True
    scene.traffic(9, Upload, every=300)
    scene.run(hours=30)


@incident("dependency")
def interface_engine_of_the_hospital_down(scene: Scene) -> None:
    """The hospital's interface engine was restarted; both messages of an order fail in a task group."""
    (outage,) = scene.causes

    @scene.service("orders_to_ward", Order, needs="engine")
    async def deliver(order: Order, work: Work) -> None:
        if outage.on:
            raise outage(
                ExceptionGroup(
                    "unhandled errors in a TaskGroup",
                    [ConnectionResetError(104, "Connection reset by peer"), BrokenPipeError(32, "Broken pipe")],
                )
            )

    scene.traffic(40, Order)
    outage.on = True
    scene.traffic(16, Order)
    outage.on = False
    scene.run(hours=3)


@incident("dependency")
def tiles_of_one_region_down(scene: Scene) -> None:
    """The map provider's servers in one region are down; the tiles of all other regions are drawn."""
    (outage,) = scene.causes

    @scene.service("tiles", Page)
    def draw(page: Page, work: Work) -> None:
        if outage.on and page.tenant == "ap-south":
            raise outage(lib.requests_status(503, f"https://ap-south.tiles.example/14/{page.number}/88.pbf"))

    regions = ("ap-south", "eu-west", "us-east")
    scene.traffic(60, Page, tenant=lambda: scene.random.choice(regions))
    outage.on = True
    scene.traffic(60, Page, tenant=lambda: scene.random.choice(regions))


@incident("dependency")
def customs_ftp_password_rotated(scene: Scene) -> None:
    """The customs office changed the password of our account on its server."""
    (outage,) = scene.causes

    @scene.service("declarations", Order)
    def declare(order: Order, work: Work) -> None:
        if outage.on:
            raise outage(ftplib.error_perm("530 Login incorrect."))

    scene.traffic(24, Order, every=600)
    outage.on = True
    scene.traffic(6, Order, every=600)


@incident("dependency")
def ocr_licence_expired(scene: Scene) -> None:
    """The yearly licence of the library's OCR engine ended at midnight."""
    (outage,) = scene.causes

    @scene.service("ocr", Upload)
    def read(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(FREngineError("FREngine.InitializeEngine failed: 0x80004005. Your license has expired."))

    scene.traffic(110, Upload)
    outage.on = True
    scene.traffic(40, Upload)


@incident("dependency")
def code_host_in_maintenance(scene: Scene) -> None:
    """The code host was in maintenance for an hour: git says only its exit status. Read after recovery."""
    (outage,) = scene.causes

    @scene.service("code_fetch", Upload, needs="git")
    def fetch(upload: Upload, work: Work) -> None:
        if outage.on:
            error = subprocess.CalledProcessError(128, ["git", "fetch", "--depth=1", "origin"])
            error.stderr = b"fatal: unable to access 'https://git.example/': The requested URL returned error: 503"
            raise outage(error)

    scene.traffic(50, Upload)
    outage.on = True
    scene.traffic(30, Upload)
    scene.run(45)
    outage.on = False
    scene.traffic(10, Upload)
    scene.run(hours=4)


@incident("dependency")
def tax_portal_returns_a_page_of_html(scene: Scene) -> None:
    """The tax portal shows a maintenance page with status 200, in place of JSON, to every call."""
    (outage,) = scene.causes

    @scene.service("tax_forms", Invoice, needs="portal")
    def file_form(invoice: Invoice, work: Work) -> None:
        body = "<html><title>Maintenance</title></html>" if outage.on else '{"receipt": "R-1"}'
        with outage:
            json.loads(body)

    scene.traffic(90)
    outage.on = True
    scene.traffic(35)


@incident("dependency")
def one_tenant_withdrew_consent(scene: Scene) -> None:
    """An administrator of one customer withdrew our access to its mailboxes; those of the others are read."""
    (outage,) = scene.causes

    @scene.service("mailboxes", Mail)
    def read(mail: Mail, work: Work) -> None:
        if outage.on and mail.tenant == "umbrella":
            raise outage(
                more.RefreshError(
                    "invalid_grant: Token has been expired or revoked.",
                    {"error": "invalid_grant", "error_description": "Token has been expired or revoked."},
                )
            )

    scene.traffic(80, Mail)
    outage.on = True
    scene.traffic(80, Mail)


@incident("dependency")
def robots_not_dispatched(scene: Scene) -> None:
    """The message broker of the robots is down: our error says nothing of that, the health call does."""
    (outage,) = scene.causes
    scene.dependency("robots", health=lambda: not outage.on)

    @scene.service("picking", Order, needs="robots")
    def dispatch(order: Order, work: Work) -> None:
        if outage.on:
            raise outage(DispatchError(f"robot not dispatched for {order.id}"))

    scene.traffic(45, Order, every=10)
    outage.on = True
    scene.traffic(45, Order, every=10)


@incident("dependency")
def chat_account_suspended(scene: Scene) -> None:
    """The vendor of the language model suspended our organization over an unpaid bill."""
    (outage,) = scene.causes

    @scene.service("replies", Mail, needs="llm")
    async def reply(mail: Mail, work: Work) -> None:
        if outage.on:
            raise outage(
                more.anthropic_error(
                    more.AnthropicPermissionError, 403, "permission_error", "This organization has been disabled."
                )
            )

    scene.traffic(33, Mail)
    outage.on = True
    scene.traffic(12, Mail)
    scene.run(hours=1)
    scene.retry_all()


@incident("dependency")
def network_share_went_stale(scene: Scene) -> None:
    """The file server with the scans was replaced under the running workers."""
    (outage,) = scene.causes

    @scene.service("scans", Upload)
    def read(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(OSError(116, "Stale file handle", upload.path))

    scene.traffic(70, Upload)
    outage.on = True
    scene.traffic(28, Upload)


@incident("dependency")
def virus_scanner_socket_gone(scene: Scene) -> None:
    """The virus scanner's daemon died and its socket with it; a release some hours ago is not to blame."""
    (outage,) = scene.causes

    @scene.service("virus_scan", Upload, needs=("clamd", "quarantine"))
    def scan(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(FileNotFoundError(2, "No such file or directory", "/run/clamav/clamd.ctl"))

    scene.traffic(30, Upload)
    scene.deploy("4.17.3")
    scene.traffic(120, Upload, every=90)
    outage.on = True
    scene.traffic(20, Upload)


@incident("dependency")
def geocoder_billing_unlinked(scene: Scene) -> None:
    """Somebody in accounting unlinked the billing account from the maps project."""
    (outage,) = scene.causes

    @scene.service("addresses", Order)
    def locate(order: Order, work: Work) -> None:
        if outage.on:
            raise outage(
                more.with_fields(
                    more.GoogleMapsApiError(
                        "REQUEST_DENIED (You must enable Billing on the Google Cloud Project at "
                        "https://console.cloud.google.com/project/_/billing/enable)"
                    ),
                    status="REQUEST_DENIED",
                )
            )

    scene.traffic(200, Order, every=5)
    outage.on = True
    scene.traffic(150, Order, every=5)


@incident("dependency")
def ledger_database_read_only(scene: Scene) -> None:
    """After a failover the name of the primary points to a standby: nothing can be written."""
    (outage,) = scene.causes

    @scene.service("booking", Invoice, needs="ledger")
    def book(invoice: Invoice, work: Work) -> None:
        if outage.on:
            raise outage(psycopg.errors.ReadOnlySqlTransaction("cannot execute INSERT in a read-only transaction"))

    scene.traffic(25)
    outage.on = True
    scene.traffic(25)
    outage.on = False
    scene.run(hours=1)


@incident("dependency")
def news_agency_name_not_found(scene: Scene) -> None:
    """The agency lost its domain; an operator retried everything, and it failed again."""
    (outage,) = scene.causes

    @scene.service("agency_feed", Page)
    def fetch(page: Page, work: Work) -> None:
        if outage.on:
            raise outage(socket.gaierror(-2, "Name or service not known"))

    scene.traffic(36, Page)
    outage.on = True
    scene.traffic(5, Page)
    scene.run(hours=26)
    scene.retry_all()
    scene.run(hours=26)


@incident("dependency")
def code_index_lost_its_shards(scene: Scene) -> None:
    """Two machines of the search cluster are lost: batches of files cannot be indexed."""
    (outage,) = scene.causes

    @scene.service("code_index", Upload, needs="search", batch=8)
    def index(uploads: list[Upload], work: Work) -> None:
        if outage.on:
            raise outage(lib.TransportApiError(503, "unavailable_shards_exception", "primary shard is not active"))

    scene.import_at_once(64, Upload, together=8)
    outage.on = True
    scene.import_at_once(48, Upload, together=8)
    scene.run(20)


@incident("dependency")
def silent_error_until_it_recovered(scene: Scene) -> None:
    """Our error has no text; all fail for two hours with two dependencies, and then all go well again."""
    (outage,) = scene.causes

    @scene.service("campaign", Mail, needs=("relay", "addresses"))
    def send(mail: Mail, work: Work) -> None:
        if outage.on:
            try:
                raise ConnectionAbortedError(103, "Software caused connection abort")
            except OSError as error:
                raise outage(DispatchError()) from error

    scene.traffic(50, Mail)
    outage.on = True
    scene.traffic(50, Mail)
    scene.run(hours=2)
    outage.on = False
    scene.traffic(20, Mail)
    scene.run(hours=5)


@incident("dependency")
def patient_server_fails_inside(scene: Scene) -> None:
    """The FHIR server returns 500 to every request, an hour after our rolling deploy was finished."""
    (outage,) = scene.causes

    @scene.service("patients", Order, needs="fhir")
    async def store(order: Order, work: Work) -> None:
        if outage.on:
            raise outage(lib.HTTPStatusError(500, f"https://fhir.example/r4/Patient/{order.id}", "HAPI-0389"))

    scene.traffic(20, Order)
    scene.deploy("4.17.2", "4.18.0")
    scene.traffic(10, Order)
    scene.deploy("4.18.0")
    scene.traffic(100, Order)
    outage.on = True
    scene.traffic(18, Order)


@incident("dependency")
def video_bucket_access_withdrawn(scene: Scene) -> None:
    """The customer's administrator removed us from the policy of the bucket with the films of one studio."""
    (outage,) = scene.causes

    @scene.service("films", Upload, needs="bucket")
    def fetch(upload: Upload, work: Work) -> None:
        if outage.on and upload.tenant == "globex":
            try:
                raise lib.BotoClientError("AccessDenied", "Access Denied", "GetObject", 403)
            except Exception as error:
                raise outage(RuntimeError("could not fetch film")) from error

    scene.traffic(60, Upload)
    outage.on = True
    scene.traffic(60, Upload)
