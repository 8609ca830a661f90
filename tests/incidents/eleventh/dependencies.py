"""Things outside that are down, broken, or refuse us."""

from __future__ import annotations

import imaplib
import json
import smtplib
import socket
import ssl

import psycopg

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.eleventh import libraries as own
from tests.incidents.staging import Scene, incident


class DeliveryFailed(Exception):
    """The team's own."""


class OcrEngineError(RuntimeError):
    """Of the vendor's binding."""


@incident("dependency")
def imap_password_of_the_archive_mailbox_rotated_by_security(scene: Scene) -> None:
    """The security team rotated the mailbox's password on a Friday evening; nobody gave it to the pipeline."""
    (refused,) = scene.causes

    @scene.service("mail_fetch", Mail, needs="imap")
    def fetch(mail: Mail, work: Work) -> None:
        if refused.on:
            raise refused(imaplib.IMAP4.error(b"[AUTHENTICATIONFAILED] Invalid credentials (Failure)"))

    scene.traffic(70, Mail, every=60)
    refused.on = True
    scene.traffic(25, Mail, every=300)


@incident("dependency")
def vault_sealed_after_the_reboot_of_its_host(scene: Scene) -> None:
    """The vault came up sealed after a reboot; customer records need it and the CRM, and the CRM is fine."""
    (sealed,) = scene.causes

    @scene.service("customer_records", Order, needs=("vault", "crm"))
    def store(order: Order, work: Work) -> None:
        if sealed.on:
            raise sealed(own.VaultDown("Vault is sealed", "https://vault.corp.example:8200/v1/kv/data/crm"))

    scene.traffic(35, Order)
    sealed.on = True
    scene.traffic(12, Order)
    scene.run(hours=2)
    sealed.on = False
    scene.traffic(10, Order)
    scene.run(hours=2)


@incident("dependency")
def search_index_made_read_only_at_its_flood_stage(scene: Scene) -> None:
    """The cluster's log files, not our documents, filled its disk, so it made every index read-only."""
    (blocked,) = scene.causes

    @scene.service("contract_index", Upload, needs="elastic")
    def index(upload: Upload, work: Work) -> None:
        if blocked.on:
            reason = (
                "index [contracts-v7] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage "
                "watermark, index has read-only-allow-delete block];"
            )
            raise blocked(lib.TransportApiError(429, "cluster_block_exception", reason))

    scene.traffic(60, Upload)
    blocked.on = True
    scene.traffic(20, Upload, every=120)
    scene.run(hours=9)


@incident("dependency")
def translator_region_in_tokyo_was_out_for_an_afternoon(scene: Scene) -> None:
    """The provider's Tokyo region was out; documents of the Japanese tenant go there, all others to Frankfurt."""
    (outage,) = scene.causes

    @scene.service("translation", Page, needs="translator")
    def translate(page: Page, work: Work) -> None:
        if outage.on and page.tenant == "kaisha":
            raise outage(lib.HTTPStatusError(503, "https://jpe.api.translator.example/v3/translate", "upstream"))

    scene.mixed_traffic(scene.documents(60, Page), scene.documents(20, Page, tenant="kaisha"))
    outage.on = True
    scene.mixed_traffic(scene.documents(45, Page), scene.documents(15, Page, tenant="kaisha"))
    scene.run(hours=1)
    outage.on = False
    scene.mixed_traffic(scene.documents(20, Page), scene.documents(9, Page, tenant="kaisha"))
    scene.run(hours=3)


@incident("dependency")
def payment_gateway_shows_its_maintenance_page_with_status_200(scene: Scene) -> None:
    """During maintenance the gateway answers everything with an HTML page and status 200, which is no JSON."""
    (maintenance,) = scene.causes

    @scene.service("sepa_status", Invoice, needs="gateway")
    def ask(invoice: Invoice, work: Work) -> None:
        answer = "<!doctype html><title>Back soon</title>" if maintenance.on else '{"status": "booked"}'
        with maintenance:
            json.loads(answer)

    scene.traffic(80, Invoice)
    maintenance.on = True
    scene.traffic(40, Invoice)
    maintenance.on = False
    scene.traffic(30, Invoice)
    scene.run(hours=3)


@incident("dependency")
def share_of_the_scan_station_has_stale_handles(scene: Scene) -> None:
    """The file server was replaced under its mount; every read failed until somebody mounted it again."""
    (stale,) = scene.causes

    @scene.service("scan_pickup", Upload)
    def pick_up(upload: Upload, work: Work) -> None:
        if stale.on:
            raise stale(OSError(116, "Stale file handle", upload.path))

    scene.traffic(50, Upload, every=45)
    stale.on = True
    scene.traffic(12, Upload, every=45)
    stale.on = False
    scene.traffic(15, Upload, every=45)
    scene.run(hours=2)


@incident("dependency")
def licence_of_the_text_recognition_ended_at_midnight(scene: Scene) -> None:
    """The yearly licence of the recognition engine was not renewed: it refuses every page since midnight."""
    (expired,) = scene.causes

    @scene.service("recognition", Upload, needs="ocr_engine")
    def recognise(upload: Upload, work: Work) -> None:
        if expired.on:
            raise expired(OcrEngineError("FREngine: 0x80004005: Unspecified error (licence is not active)"))

    scene.traffic(120, Upload)
    expired.on = True
    scene.traffic(44, Upload)


@incident("dependency")
def partner_host_unknown_since_their_domain_lapsed(scene: Scene) -> None:
    """The partner forgot to renew its domain; our delivery wraps what the resolver says."""
    (lapsed,) = scene.causes

    @scene.service("edi_delivery", Order, needs="partner")
    def deliver(order: Order, work: Work) -> None:
        if lapsed.on:
            inner = socket.gaierror(-2, "Name or service not known")
            raise lapsed(DeliveryFailed(f"order {order.id} not delivered")) from inner

    scene.traffic(25, Order, every=240)
    lapsed.on = True
    scene.traffic(8, Order, every=240)
    scene.run(hours=26)


@incident("dependency")
def language_model_account_out_of_credit_on_the_30th(scene: Scene) -> None:
    """The prepaid credit was used up; the provider says so with 429 until the invoice was paid next morning."""
    (unpaid,) = scene.causes

    @scene.service("case_summaries", Page, needs="llm")
    def summarise(page: Page, work: Work) -> None:
        if unpaid.on:
            text = "You exceeded your current quota, please check your plan and billing details."
            raise unpaid(lib.RateLimitError(429, text, "insufficient_quota", "insufficient_quota"))

    scene.traffic(60, Page)
    unpaid.on = True
    scene.traffic(18, Page)
    scene.run(hours=11)
    unpaid.on = False
    scene.traffic(8, Page)
    scene.run(hours=2)


@incident("dependency")
def ledger_database_came_back_read_only_after_its_failover(scene: Scene) -> None:
    """After a failover the address pointed at the replica for 25 minutes: reads worked, no write did."""
    (readonly,) = scene.causes

    @scene.service("ledger_entries", Invoice, needs="ledger_db")
    def enter(invoice: Invoice, work: Work) -> None:
        if readonly.on:
            raise readonly(
                psycopg.errors.ReadOnlySqlTransaction("cannot execute INSERT in a read-only transaction")
            )

    scene.traffic(90, Invoice, every=10)
    readonly.on = True
    scene.traffic(150, Invoice, every=10)


@incident("dependency")
def tokenizer_pod_evicted_for_six_minutes(scene: Scene) -> None:
    """The node of the tokenizer was drained; batches failed until it had been started elsewhere."""
    (evicted,) = scene.causes

    @scene.service("tokens", Page, needs="tokenizer", batch=16)
    def count(pages: list[Page], work: Work) -> None:
        if evicted.on:
            text = (
                "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.40.3.17:50051: No route to host"
            )
            raise evicted(lib.grpc_error("UNAVAILABLE", text))

    scene.import_at_once(160, Page, together=16)
    scene.run(5)
    evicted.on = True
    scene.import_at_once(64, Page, together=16)
    scene.run(6)
    evicted.on = False
    scene.import_at_once(64, Page, together=16)
    scene.run(60)


@incident("dependency")
def customs_soap_service_fails_with_its_own_null_pointer(scene: Scene) -> None:
    """The customs office deployed something broken: every declaration gets a Java error back, for two hours."""
    (broken,) = scene.causes

    @scene.service("customs", Order, needs="customs_office")
    def declare(order: Order, work: Work) -> None:
        if broken.on:
            raise broken(own.Fault("java.lang.NullPointerException", "soapenv:Server"))

    scene.traffic(40, Order, every=90)
    broken.on = True
    scene.traffic(30, Order, every=90)
    scene.run(hours=1)
    broken.on = False
    scene.traffic(15, Order, every=90)
    scene.run(hours=2)


@incident("dependency")
def bucket_policy_tightened_by_the_platform_team(scene: Scene) -> None:
    """The platform team's new policy forbids our role to write into the archive's bucket."""
    (denied,) = scene.causes

    @scene.service("cold_archive", Upload, needs="bucket")
    def archive(upload: Upload, work: Work) -> None:
        if denied.on:
            raise denied(lib.BotoClientError("AccessDenied", "Access Denied", "PutObject", 403))

    scene.traffic(200, Upload, every=5)
    denied.on = True
    scene.import_at_once(90, Upload)


@incident("dependency")
def outgoing_mail_refused_since_our_address_is_on_a_block_list(scene: Scene) -> None:
    """Our relay's address was put on a block list: the hosted mail service refuses every message of ours."""
    (listed,) = scene.causes

    @scene.service("reminders", Mail, needs="smtp")
    def send(mail: Mail, work: Work) -> None:
        if listed.on:
            text = b"5.7.1 Service unavailable; client host [203.0.113.25] blocked using zen.spamhaus.org"
            raise listed(smtplib.SMTPSenderRefused(554, text, "billing@example.com"))

    scene.traffic(55, Mail)
    listed.on = True
    scene.traffic(33, Mail)


@incident("dependency")
def one_tenants_webhook_has_an_incomplete_certificate_chain(scene: Scene) -> None:
    """One customer renewed the certificate of its receiver without the intermediate one; others are served."""
    (chain,) = scene.causes

    @scene.service("webhooks", Order, needs="receivers")
    def call(order: Order, work: Work) -> None:
        if chain.on and order.tenant == "umbrella":
            text = "certificate verify failed: unable to get local issuer certificate (_ssl.c:1006)"
            raise chain(ssl.SSLCertVerificationError(1, f"[SSL: CERTIFICATE_VERIFY_FAILED] {text}"))

    scene.traffic(120, Order)
    chain.on = True
    scene.traffic(70, Order)


@incident("dependency")
def broker_without_a_leader_for_the_audit_topic(scene: Scene) -> None:
    """Two of three brokers were lost: audit notices, which name no document, cannot be handed on."""
    (leaderless,) = scene.causes

    @scene.service("audit_trail", None, needs="kafka")
    def hand_on(notice: Notice, work: Work) -> None:
        if leaderless.on:
            raise leaderless(lib.KafkaTimeoutError("Failed to update metadata after 60.0 secs."))

    scene.notices(30)
    leaderless.on = True
    scene.notices(16)


@incident("dependency")
def bank_moved_its_file_server_and_has_another_host_key(scene: Scene) -> None:
    """The bank moved its SFTP server without a word: its key is not the one we know, so we do not connect."""
    (moved,) = scene.causes

    @scene.service("bank_files", Invoice, needs="bank_sftp")
    def put(invoice: Invoice, work: Work) -> None:
        if moved.on:
            raise moved(
                lib.SSHException(
                    "Host key for server 'sftp.bank.example' does not match: got 'AAAAC3', known 'AAAAE2'"
                )
            )

    scene.traffic(9, Invoice, every=3600)
    moved.on = True
    scene.traffic(3, Invoice, every=3600)


@incident("dependency")
def virus_scanner_not_started_on_the_first_day(scene: Scene) -> None:
    """On a new machine nobody had started the scanner's daemon; it was started after 20 minutes."""
    (absent,) = scene.causes

    @scene.service("virus_scan", Upload, needs="clamd")
    def scan(upload: Upload, work: Work) -> None:
        if absent.on:
            raise absent(FileNotFoundError(2, "No such file or directory", "/run/clamav/clamd.ctl"))

    absent.on = True
    scene.traffic(20, Upload, every=60)
    absent.on = False
    scene.traffic(25, Upload, every=60)
    scene.run(hours=1)


@incident("dependency")
def map_service_hangs_and_its_health_call_says_no(scene: Scene) -> None:
    """The geocoder accepts connections and never answers; its health call knows."""
    (hangs,) = scene.causes
    scene.dependency("geocoder", health=lambda: not hangs.on)

    @scene.service("addresses", Order, needs="geocoder", time_limit=30)
    def locate(order: Order, work: Work) -> None:
        if hangs.on:
            hangs.takes(45)

    scene.traffic(30, Order, every=60)
    hangs.on = True
    scene.traffic(10, Order, every=60)


@incident("dependency")
def document_database_dies_slowly_of_a_failing_disk(scene: Scene) -> None:
    """The primary's disk failed over two hours: first one call in ten, then four, then each one."""
    (disk,) = scene.causes
    share = [0.0]

    @scene.service("case_files", Page, needs="mongo")
    def save(page: Page, work: Work) -> None:
        if scene.random.random() < share[0]:
            raise disk(
                lib.AutoReconnect("mongo-0.db.internal:27017: connection closed (configured timeouts: 20s)")
            )

    for share[0] in (0.0, 0.1, 0.4, 1.0):
        scene.traffic(50, Page)


@incident("dependency")
def newspaper_site_stopped_answering_the_crawler_host(scene: Scene) -> None:
    """Of the twenty sites that are crawled, one newspaper's server has been off since noon."""
    (off,) = scene.causes

    @scene.service("crawl", Page, needs="web")
    def fetch(page: Page, work: Work) -> None:
        if off.on and page.tenant == "morgenblatt":
            raise off(lib.requests_refused(f"https://www.morgenblatt.example/{page.id}", "[Errno 110] timed out"))

    scene.mixed_traffic(scene.documents(150, Page), scene.documents(15, Page, tenant="morgenblatt"), every=5)
    off.on = True
    scene.mixed_traffic(scene.documents(220, Page), scene.documents(22, Page, tenant="morgenblatt"), every=5)
