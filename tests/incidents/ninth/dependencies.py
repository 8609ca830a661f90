"""What is outside and does not do its work: mailboxes, databases, shares, portals, gateways, licences."""

from __future__ import annotations

import http.client
import imaplib
import json
import smtplib
import socket

import psycopg

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.ninth import libraries as more
from tests.incidents.staging import Scene, incident


class TokenError(Exception):
    """The team's own."""


@incident("dependency")
def imap_login_switched_off_by_the_law_firms_administrator(scene: Scene) -> None:
    """The firm's administrator switched off password logins for IMAP; every mailbox refuses us since then."""
    (outage,) = scene.causes

    @scene.service("mail_pickup", Mail, needs="mailbox")
    def fetch(mail: Mail, work: Work) -> None:
        if outage.on:
            raise outage(imaplib.IMAP4.error(b"[AUTHENTICATIONFAILED] LOGIN failed."))

    scene.traffic(70, Mail, every=45)
    outage.on = True
    scene.traffic(12, Mail, every=45)


@incident("dependency")
def oracle_password_of_the_matter_database_expired_overnight(scene: Scene) -> None:
    """The password of our account at the bank's Oracle database expired at midnight; found in the morning."""
    (outage,) = scene.causes

    @scene.service("matter_lookup", Order, needs=["matters", "archive"])
    def look_up(order: Order, work: Work) -> None:
        if outage.on:
            raise outage(more.OracleError("ORA-28001: the password has expired"))

    scene.traffic(50, Order)
    outage.on = True
    scene.traffic(30, Order, every=600)


@incident("dependency")
def umbrella_took_our_role_off_its_own_bucket(scene: Scene) -> None:
    """One customer keeps its files in a bucket of its own, and removed our role there; the others go on."""
    (outage,) = scene.causes

    @scene.service("bucket_copy", Upload, needs="object_store")
    def copy(upload: Upload, work: Work) -> None:
        if outage.on and upload.tenant == "umbrella":
            text = "User: arn:aws:sts::401722:assumed-role/worker is not authorized to perform: s3:GetObject"
            raise outage(lib.BotoClientError("AccessDenied", text, "GetObject", 403))

    scene.traffic(80, Upload)
    outage.on = True
    scene.traffic(60, Upload)
    scene.run(hours=3)
    scene.traffic(20, Upload)


@incident("dependency")
def promoted_standby_stayed_read_only_for_some_minutes(scene: Scene) -> None:
    """After a failover the database was read-only for six minutes; then it took everything."""
    (outage,) = scene.causes

    @scene.service("register", Invoice, needs="database")
    def write(invoice: Invoice, work: Work) -> None:
        if outage.on:
            raise outage(psycopg.errors.ReadOnlySqlTransaction("cannot execute INSERT in a read-only transaction"))

    scene.traffic(60, every=10)
    outage.on = True
    scene.traffic(36, every=10)
    outage.on = False
    scene.traffic(40, every=10)
    scene.run(hours=2)


@incident("dependency")
def file_server_exported_the_share_anew(scene: Scene) -> None:
    """The university's file server was restarted and its share has to be mounted again; nobody declared it."""
    (outage,) = scene.causes

    @scene.service("thesis_text", Upload)
    def extract(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(OSError(116, "Stale file handle", upload.path))

    scene.traffic(90, Upload, every=60)
    outage.on = True
    scene.traffic(25, Upload, every=60)


@incident("dependency")
def name_server_of_the_cluster_answers_now_and_then(scene: Scene) -> None:
    """One of three name servers of the cluster is broken: about every third lookup fails, all afternoon."""
    (outage,) = scene.causes
    calls = [0]

    @scene.service("link_check", Page, needs="web")
    def check(page: Page, work: Work) -> None:
        calls[0] += 1
        if outage.on and (calls[0] % 3 == 0 or calls[0] % 7 == 0):
            raise outage(socket.gaierror(-3, "Temporary failure in name resolution"))

    scene.traffic(60, Page, every=20)
    outage.on = True
    scene.traffic(120, Page, every=20)
    scene.run(30)


@incident("dependency")
def postal_gateway_account_without_credit(scene: Scene) -> None:
    """The prepaid account at the letter printer is empty; letters go out again when somebody pays."""
    (outage,) = scene.causes

    @scene.service("letters", Invoice, needs="letter_printer")
    def post(invoice: Invoice, work: Work) -> None:
        if outage.on:
            raise outage(lib.requests_status(402, "https://api.letterhouse.example/v3/letters"))

    scene.traffic(45, every=120)
    outage.on = True
    scene.traffic(9, every=120)
    scene.run(hours=9)


@incident("dependency")
def certificate_of_the_timestamp_authority_ran_out(scene: Scene) -> None:
    """The authority that stamps archived files let its certificate expire; our error says little of it."""
    (outage,) = scene.causes

    @scene.service("seal", Upload, needs="timestamps")
    def seal(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(RuntimeError("sealing failed")) from lib.certificate_expired("tsa.trustcentre.example")

    scene.traffic(40, Upload)
    outage.on = True
    scene.traffic(15, Upload)
    scene.run(hours=5)


@incident("dependency")
def virus_scanner_stopped_after_its_update(scene: Scene) -> None:
    """The scanner's daemon did not start again after an update; what we see is that its socket is not there."""
    (outage,) = scene.causes

    @scene.service("virus_scan", Mail, needs="clamd")
    def scan(mail: Mail, work: Work) -> None:
        if outage.on:
            raise outage(FileNotFoundError(2, "No such file or directory", "/run/clamav/clamd.ctl"))

    scene.traffic(100, Mail, every=15)
    outage.on = True
    scene.traffic(30, Mail, every=15)
    outage.on = False
    scene.traffic(50, Mail, every=15)
    scene.run(hours=1)


@incident("dependency")
def search_cluster_blocked_writes_at_its_disk_mark(scene: Scene) -> None:
    """The disks of the search cluster are nearly full, so it refuses to write until somebody clears them."""
    (outage,) = scene.causes

    @scene.service("search_writer", Page, needs="search")
    def write(page: Page, work: Work) -> None:
        if outage.on:
            reason = (
                "index [clippings-2026] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage "
                "watermark, index has read-only-allow-delete block];"
            )
            raise outage(lib.TransportApiError(429, "cluster_block_exception", reason))

    scene.traffic(80, Page)
    outage.on = True
    scene.traffic(14, Page)


@incident("dependency")
def one_customers_record_system_closed_each_night(scene: Scene) -> None:
    """One customer takes its record system down every night for an hour; deliveries to the others go well."""
    (outage,) = scene.causes

    @scene.service("deliver", Order, needs="webhooks")
    def deliver(order: Order, work: Work) -> None:
        if outage.on and order.tenant == "initech":
            raise outage(lib.HTTPStatusError(503, "https://records.initech.example/hooks/onward"))

    for _ in range(2):
        scene.traffic(60, Order, every=120)
        outage.on = True
        scene.traffic(40, Order, every=90)
        outage.on = False
        scene.traffic(30, Order, every=120)
        scene.run(hours=20)


@incident("dependency")
def our_mail_address_on_a_block_list(scene: Scene) -> None:
    """Our sending address is on a block list, and the relay of the recipients refuses every message."""
    (outage,) = scene.causes

    @scene.service("notify", Mail, needs="relay")
    def send(mail: Mail, work: Work) -> None:
        if outage.on:
            said = b"5.7.1 Service unavailable; Client host [203.0.113.7] blocked using zen.spamhaus.org"
            raise outage(smtplib.SMTPRecipientsRefused({f"{mail.author}@bank.example": (554, said)}))

    scene.traffic(60, Mail)
    outage.on = True
    scene.traffic(25, Mail)


@incident("dependency")
def vision_service_worse_from_hour_to_hour(scene: Scene) -> None:
    """A cloud service for handwriting loses its machines one after the other, until none is left."""
    (outage,) = scene.causes
    share = [0.0]

    @scene.service("handwriting", Upload, needs="vision")
    def read(upload: Upload, work: Work) -> None:
        if scene.random.random() < share[0]:
            raise outage(lib.grpc_error("UNAVAILABLE", "failed to connect to all addresses; last error: UNKNOWN"))

    for share[0] in (0.0, 0.1, 0.4, 1.0):
        scene.traffic(50, Upload, every=40)


@incident("dependency")
def translator_sent_its_maintenance_page_with_status_200(scene: Scene) -> None:
    """The translator was under maintenance for an hour and answered with a page of HTML, which is no JSON."""
    (outage,) = scene.causes

    @scene.service("translate", Page, needs="translator")
    def translate(page: Page, work: Work) -> None:
        answer = "<html><body>Back soon!</body></html>" if outage.on else '{"text": "ok"}'
        with outage:
            json.loads(answer)

    scene.traffic(75, Page)
    outage.on = True
    scene.traffic(40, Page, every=90)
    outage.on = False
    scene.traffic(25, Page)


@incident("dependency")
def client_secret_of_the_mail_app_ran_out_a_minute_ago(scene: Scene) -> None:
    """The secret with which we get tokens for mailboxes has expired; the first three mails have failed."""
    (outage,) = scene.causes

    @scene.service("graph_mail", Mail, needs="graph")
    def fetch(mail: Mail, work: Work) -> None:
        if outage.on:
            text = "AADSTS7000222: The provided client secret keys for app '9f1c64c2-55e0-4b2f' are expired."
            raise outage(TokenError(text))

    scene.traffic(40, Mail)
    outage.on = True
    scene.traffic(3, Mail, every=20)


@incident("dependency")
def bank_moved_its_file_server_and_its_host_key_changed(scene: Scene) -> None:
    """The bank moved its SFTP server without notice; nightly statements are refused for the new host key."""
    (outage,) = scene.causes

    @scene.service("statement_fetch", Invoice, needs="bank_sftp")
    def fetch(invoice: Invoice, work: Work) -> None:
        if outage.on:
            raise outage(more.BadHostKey("sftp.bank.example", "AAAAC3NzaC1lZDI1NTE5", "AAAAB3NzaC1yc2EAAAAD"))

    for _ in range(3):
        scene.import_at_once(14, source="nightly")
        scene.run(hours=24)
    outage.on = True
    scene.import_at_once(12, source="nightly")
    scene.run(hours=7)


@incident("dependency")
def share_with_german_ocr_data_not_mounted(scene: Scene) -> None:
    """The share with the language data for German was not mounted after a reboot; other languages are local."""
    (outage,) = scene.causes

    @scene.service("ocr", Upload)
    def recognise(upload: Upload, work: Work) -> None:
        if outage.on and upload.tenant == "kanzlei":
            text = "Error opening data file /mnt/ocr/deu.traineddata: Transport endpoint is not connected"
            raise outage(lib.TesseractError(1, text))

    def day(german: int, other: int) -> None:
        scene.mixed_traffic(
            scene.documents(german, Upload, tenant="kanzlei"), scene.documents(other, Upload), every=60
        )

    day(40, 60)
    outage.on = True
    day(22, 35)


@incident("dependency")
def office_converter_restarts_all_the_time(scene: Scene) -> None:
    """The container that converts Office files is killed and restarted again and again; storage is well."""
    (outage,) = scene.causes
    scene.dependency("converter", health=lambda: not outage.on)
    scene.dependency("storage", health=lambda: True)

    @scene.service("to_pdf", Upload, needs=["converter", "storage"])
    def convert(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(http.client.RemoteDisconnected("Remote end closed connection without response"))

    scene.traffic(50, Upload)
    for _ in range(4):
        outage.on = True
        scene.traffic(6, Upload, every=20)
        outage.on = False
        scene.traffic(8, Upload, every=20)


@incident("dependency")
def search_not_yet_installed_at_the_new_customer(scene: Scene) -> None:
    """In the first minutes of a new installation its search server has not been started yet."""
    (outage,) = scene.causes
    scene.dependency("search", health=lambda: False)

    @scene.service("indexing", Page, needs="search")
    def index(page: Page, work: Work) -> None:
        raise outage(lib.ClientConnectorError("search", 9200, ConnectionRefusedError(111, "Connect call failed")))

    scene.import_at_once(5, Page)
    scene.run(4)


@incident("dependency")
def court_portal_accepts_and_never_answers(scene: Scene) -> None:
    """Since the evening the portal of the courts takes connections and never answers, until our time is up."""
    (outage,) = scene.causes

    @scene.service("court_filings", Order, needs="portal", time_limit=60)
    def fetch(order: Order, work: Work) -> None:
        if outage.on:
            outage.takes(61)

    scene.traffic(40, Order, every=90)
    outage.on = True
    scene.traffic(12, Order, every=90)
    scene.run(hours=2)


@incident("dependency")
def reporting_store_without_a_primary(scene: Scene) -> None:
    """The reporting database lost its primary; the service counts usage and handles no documents."""
    (outage,) = scene.causes

    @scene.service("usage_report", None, needs="reports")
    def count(notice: Notice, work: Work) -> None:
        if outage.on:
            why = "No primary available for writes, Timeout: 30s, Topology Description: ReplicaSetNoPrimary"
            raise outage(lib.ServerSelectionTimeoutError(why))

    scene.notices(30)
    outage.on = True
    scene.notices(10)
    scene.run(20)


@incident("dependency")
def embedding_endpoint_removed_by_the_platform_team(scene: Scene) -> None:
    """The platform team shut the embedding endpoint down over the weekend; a large import of chunks waits."""
    (outage,) = scene.causes

    @scene.service("embed", Page, needs="embeddings", batch=16)
    def embed(pages: list[Page], work: Work) -> None:
        if outage.on:
            raise outage(lib.requests_status(503, "https://embed.platform.internal/v1/embeddings"))

    scene.import_at_once(160, Page, together=16)
    scene.run(hours=2)
    outage.on = True
    scene.import_at_once(320, Page, together=16)
    scene.run(hours=1)
