"""Something outside is down, broken, or refuses us: mail servers, stores, licences, keys, names, networks."""

from __future__ import annotations

import imaplib
import json
import smtplib
import socket
import ssl

import psycopg
import requests

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.fourth import libraries as more
from tests.incidents.staging import Scene, incident


class SyncError(Exception):
    """The team's own: an attachment was not fetched."""


class SealError(Exception):
    """The team's own: a document was not sealed."""


class EngineError(Exception):
    """The team's own: the recognition engine returned a code."""


@incident("dependency")
def journal_mailbox_refuses_plain_sign_in(scene: Scene) -> None:
    """The customer's security team switched off sign-in with passwords for the journal mailbox."""
    (outage,) = scene.causes

    @scene.service("journal", Mail, needs="mailbox")
    def fetch(mail: Mail, work: Work) -> None:
        if outage.on:
            raise outage(imaplib.IMAP4.error(b"LOGIN failed."))

    scene.traffic(60, Mail, every=45)
    outage.on = True
    scene.traffic(25, Mail, every=45)


@incident("dependency")
def secret_of_the_app_registration_lapsed(scene: Scene) -> None:
    """The secret of our registration with the mail provider expired at night; renewed in the morning."""
    (outage,) = scene.causes

    @scene.service("attachments", Mail)
    def fetch(mail: Mail, work: Work) -> None:
        if outage.on:
            inner = lib.requests_status(401, "https://login.provider.example/8f1c/oauth2/v2.0/token")
            raise outage(SyncError(f"attachment of {mail.id} not fetched")) from inner

    scene.traffic(70, Mail, every=60)
    outage.on = True
    scene.traffic(40, Mail, every=300)
    outage.on = False
    scene.retry_all()
    scene.traffic(10, Mail)


@incident("dependency")
def customer_disabled_its_own_key(scene: Scene) -> None:
    """One customer brings its own encryption key and disabled it; others' documents are stored as before."""
    (outage,) = scene.causes

    @scene.service("vault", Upload, needs="object store")
    def store(upload: Upload, work: Work) -> None:
        if outage.on and upload.tenant == "umbrella":
            text = "arn:aws:kms:eu-central-1:4471:key/9b0e is disabled."
            raise outage(lib.BotoClientError("KMS.DisabledException", text, "PutObject", 400))

    scene.traffic(120, Upload)
    outage.on = True
    scene.traffic(80, Upload)


@incident("dependency")
def evidence_share_went_stale(scene: Scene) -> None:
    """The filer with the files of one matter was replaced; our mount of it was not renewed."""
    (outage,) = scene.causes

    @scene.service("hashing", Upload)
    def digest(upload: Upload, work: Work) -> None:
        if outage.on and upload.tenant == "matter-0417":
            raise outage(OSError(116, "Stale file handle", f"/mnt/matter-0417/{upload.id}"))

    def tenant() -> str:
        return scene.random.choice(("matter-0388", "matter-0402", "matter-0417"))

    scene.traffic(90, Upload, tenant=tenant)
    outage.on = True
    scene.traffic(60, Upload, tenant=tenant)


@incident("dependency")
def socket_of_the_virus_scanner_gone(scene: Scene) -> None:
    """An update of the system removed the virus scanner's daemon, and its socket with it."""
    (outage,) = scene.causes
    scene.dependency("scanner", health=lambda: not outage.on)

    @scene.service("scanning", Mail, needs="scanner")
    def scan(mail: Mail, work: Work) -> None:
        if outage.on:
            raise outage(FileNotFoundError(2, "No such file or directory", "/run/clamav/clamd.ctl"))

    scene.traffic(40, Mail)
    outage.on = True
    scene.traffic(12, Mail)


@incident("dependency")
def index_turned_read_only(scene: Scene) -> None:
    """A log of slow queries filled the disks of the search cluster, which then allowed no more writes."""
    (outage,) = scene.causes

    @scene.service("mail_search", Mail, needs="search")
    def index(mail: Mail, work: Work) -> None:
        if outage.on:
            why = (
                "index [mail-2026] blocked by: [FORBIDDEN/12/index read-only / allow delete (api)]; "
                "disk usage exceeded flood-stage watermark"
            )
            raise outage(lib.TransportApiError(403, "cluster_block_exception", why))

    scene.traffic(100, Mail, every=20)
    outage.on = True
    scene.traffic(30, Mail, every=20)
    scene.run(hours=3)


@incident("dependency")
def no_names_after_a_change_of_the_router(scene: Scene) -> None:
    """For eight minutes after a change of the router no name was resolved. It is over."""
    (outage,) = scene.causes

    @scene.service("crawling", Page)
    def fetch(page: Page, work: Work) -> None:
        if outage.on:
            raise outage(socket.gaierror(-3, "Temporary failure in name resolution"))

    scene.traffic(60, Page, every=20)
    outage.on = True
    scene.traffic(24, Page, every=20)
    outage.on = False
    scene.traffic(60, Page, every=20)


@incident("dependency")
def certificate_of_the_timestamp_authority_lapsed(scene: Scene) -> None:
    """The authority whose timestamps we buy forgot to renew its certificate."""
    (outage,) = scene.causes

    @scene.service("sealing", Order, needs="timestamps")
    def seal(order: Order, work: Work) -> None:
        if outage.on:
            inner: ssl.SSLError = lib.certificate_expired("tsa.trust.example")
            try:
                raise requests.exceptions.SSLError(inner) from inner
            except requests.exceptions.SSLError as error:
                raise outage(SealError("document was not sealed")) from error

    scene.traffic(35, Order)
    outage.on = True
    scene.traffic(15, Order)


@incident("dependency")
def clearing_house_shows_a_maintenance_page(scene: Scene) -> None:
    """In its window at night the clearing house answers everything with a page for people, and status 200."""
    (outage,) = scene.causes

    @scene.service("clearing", Invoice, needs="clearing house")
    def clear(invoice: Invoice, work: Work) -> None:
        if outage.on:
            with outage:
                json.loads("<!doctype html><title>We will be back soon</title>")

    scene.traffic(80, every=40)
    outage.on = True
    scene.traffic(30, every=60)
    outage.on = False
    scene.run(hours=2)
    scene.traffic(20, every=40)


@incident("dependency")
def european_half_of_the_gateway_down(scene: Scene) -> None:
    """The payment gateway lost its European region; payments of American customers go on."""
    (outage,) = scene.causes

    @scene.service("charging", Order, needs="gateway")
    def charge(order: Order, work: Work) -> None:
        if outage.on and order.kind == "eu":
            raise outage(lib.requests_status(503, "https://eu.gateway.example/v2/charges"))

    def region() -> str:
        return scene.random.choice(("eu", "us", "us"))

    scene.traffic(90, Order, kind=region, every=15)
    outage.on = True
    scene.traffic(70, Order, kind=region, every=15)


@incident("dependency")
def our_sender_is_on_a_blocklist(scene: Scene) -> None:
    """One large mail provider put our address on its blocklist and refuses every mail to its customers."""
    (outage,) = scene.causes

    @scene.service("dispatch", Mail, needs="relay")
    def send(mail: Mail, work: Work) -> None:
        if outage.on and mail.tenant == "bigmail":
            why = b"5.7.1 Client host [203.0.113.7] blocked, see https://sender.bigmail.example/7f21"
            raise outage(smtplib.SMTPSenderRefused(550, why, "billing@ours.example"))

    def provider() -> str:
        return scene.random.choice(("bigmail", "bigmail", "own domain", "smallmail"))

    scene.traffic(100, Mail, tenant=provider)
    outage.on = True
    scene.traffic(60, Mail, tenant=provider)


@incident("dependency")
def recognition_licence_ended_with_the_year(scene: Scene) -> None:
    """The licence of the recognition engine ended at midnight: scans fail, files with a text need no engine."""
    (outage,) = scene.causes

    @scene.service("reading", Upload, needs="recognition")
    def read(upload: Upload, work: Work) -> None:
        if outage.on and upload.kind in ("tif", "pdf"):
            raise outage(EngineError("FREngine 0x80042014: FlexNet -10,32: feature OCR_PAGES has expired"))

    def kind() -> str:
        return scene.random.choice(("tif", "pdf", "txt", "eml"))

    scene.traffic(60, Upload, kind=kind, every=120)
    outage.on = True
    scene.traffic(30, Upload, kind=kind, every=120)


@incident("dependency")
def writes_went_to_the_old_primary(scene: Scene) -> None:
    """After a failover the database's address led to the old server for ten minutes. It is over."""
    (outage,) = scene.causes

    @scene.service("ledger", Invoice, needs="database")
    def book(invoice: Invoice, work: Work) -> None:
        if outage.on:
            raise outage(psycopg.errors.ReadOnlySqlTransaction("cannot execute INSERT in a read-only transaction"))

    scene.traffic(120, every=10)
    outage.on = True
    scene.traffic(60, every=10)
    outage.on = False
    scene.traffic(120, every=10)


@incident("dependency")
def event_bus_without_brokers(scene: Scene) -> None:
    """The brokers of the bus were shut down in a test of the emergency plan; the notices name no document."""
    (outage,) = scene.causes

    @scene.service("forwarding", None, needs="bus")
    def forward(notice: Notice, work: Work) -> None:
        if outage.on:
            raise outage(lib.KafkaTimeoutError("KafkaTimeoutError: Failed to update metadata after 60.0 secs."))

    scene.notices(40)
    outage.on = True
    scene.notices(15)


@incident("dependency")
def signing_module_is_restarted(scene: Scene) -> None:
    """Someone restarted the hardware module with our keys two minutes ago."""
    (outage,) = scene.causes
    scene.dependency("signing module", health=lambda: not outage.on)

    @scene.service("signing", Invoice, needs="signing module")
    def sign(invoice: Invoice, work: Work) -> None:
        if outage.on:
            raise outage(more.PyKCS11Error("CKR_DEVICE_REMOVED", 0x32))

    scene.traffic(25, every=60)
    outage.on = True
    scene.traffic(3, every=40)


@incident("dependency")
def first_day_before_the_firewall_was_opened(scene: Scene) -> None:
    """A new installation: the network team has not yet opened the way to the search cluster."""
    (outage,) = scene.causes
    scene.dependency("search", health=lambda: False)

    @scene.service("first_index", Upload, needs="search")
    def index(upload: Upload, work: Work) -> None:
        raise outage(lib.ClientConnectorError("search-1.corp.example", 9200, OSError(113, "No route to host")))

    scene.import_at_once(8, Upload)
    scene.run(12)


@incident("dependency")
def role_lost_its_right_to_read(scene: Scene) -> None:
    """The platform team tidied up roles: ours may no longer read the bucket. The service names no needs."""
    (outage,) = scene.causes

    @scene.service("restoring", Mail)
    def restore(mail: Mail, work: Work) -> None:
        if outage.on:
            text = f"User: arn:aws:sts::4471:assumed-role/archive/i-{mail.number:06x} is not authorized"
            raise outage(lib.BotoClientError("AccessDenied", text, "GetObject", 403))

    scene.traffic(45, Mail)
    outage.on = True
    scene.traffic(45, Mail)
    scene.run(hours=5)


@incident("dependency")
def exchange_rates_came_empty(scene: Scene) -> None:
    """The bank's feed of exchange rates was empty for an hour: no invoice was converted. Then it was mended."""
    (outage,) = scene.causes

    @scene.service("converting", Invoice, needs="rates")
    def convert(invoice: Invoice, work: Work) -> None:
        rates = {} if outage.on else {"EUR": 1.0, "SEK": 11.2}
        with outage:
            _ = rates["SEK"]

    scene.traffic(60, every=60)
    outage.on = True
    scene.traffic(60, every=60)
    outage.on = False
    scene.traffic(60, every=60)
    scene.run(hours=2)


@incident("dependency")
def converter_for_office_files_killed(scene: Scene) -> None:
    """The office converter on the next machine was stopped; our code says of everything that it failed."""
    (outage,) = scene.causes

    @scene.service("previews", Upload, needs="converter")
    def preview(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(RuntimeError("conversion failed")) from ConnectionResetError(
                104, "Connection reset by peer"
            )

    scene.traffic(30, Upload)
    outage.on = True
    scene.traffic(14, Upload)


@incident("dependency")
def filer_hangs_without_an_error(scene: Scene) -> None:
    """The filer stopped to answer: each read waits until its time is over, also on a quiet afternoon."""
    (outage,) = scene.causes
    scene.dependency("filer", health=lambda: not outage.on)

    @scene.service("copying", Upload, needs="filer", time_limit=60)
    def copy(upload: Upload, work: Work) -> None:
        if outage.on:
            outage.takes(90)

    scene.traffic(50, Upload, every=120)
    outage.on = True
    scene.traffic(9, Upload, every=120)
