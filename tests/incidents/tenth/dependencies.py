"""Something outside is down, broken, or refuses us."""

from __future__ import annotations

import imaplib
import json
import smtplib
import socket

import requests
from aio_pika.exceptions import AMQPConnectionError
from psycopg.errors import ReadOnlySqlTransaction

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.staging import Scene, incident
from tests.incidents.tenth import libraries as more


class EnrichmentFailed(Exception):
    """The team's own."""


@incident("dependency")
def content_network_answers_503_everywhere_for_49_minutes(scene: Scene) -> None:
    """A customer's valid setting brought down most of a content network; it was mended within the hour."""
    (outage,) = scene.causes

    @scene.service("crawling", Page, needs="web", rung="fetching")
    def fetch(page: Page, work: Work) -> None:
        if outage.on:
            raise outage(lib.requests_status(503, f"https://www.paper{page.number % 5}.example/{page.id}"))

    scene.traffic(90, Page, every=10)
    outage.on = True
    scene.traffic(200, Page, every=14.7)
    outage.on = False
    scene.traffic(60, Page, every=10)
    scene.run(hours=5)


@incident("dependency")
def social_network_withdrew_its_own_name_servers(scene: Scene) -> None:
    """A network withdrew the routes of its name servers, so that its names are not found; it goes on."""
    (outage,) = scene.causes

    @scene.service("sharing", Page, needs="social_api")
    def share(page: Page, work: Work) -> None:
        if outage.on:
            raise outage(socket.gaierror(-3, "Temporary failure in name resolution"))

    scene.traffic(45, Page)
    outage.on = True
    scene.traffic(25, Page)


@incident("dependency")
def table_store_name_is_empty_in_the_eastern_region_only(scene: Scene) -> None:
    """An automation emptied the record of a cloud's table store in one region; tenants of the other go on."""
    (outage,) = scene.causes

    @scene.service("ledger_rows", Order, needs="tables")
    def put(order: Order, work: Work) -> None:
        if outage.on and order.tenant in ("acme", "globex"):
            raise outage(lib.EndpointConnectionError("https://dynamodb.us-east-1.amazonaws.com/"))

    scene.traffic(80, Order, every=20)
    outage.on = True
    scene.traffic(120, Order, every=20)
    outage.on = False
    scene.traffic(30, Order, every=20)
    scene.run(hours=3)


@incident("dependency")
def primary_came_back_from_failover_as_a_reader(scene: Scene) -> None:
    """After a failover the name of the primary pointed to a machine that only reads."""
    (outage,) = scene.causes

    @scene.service("booking", Invoice, needs="database")
    def book(invoice: Invoice, work: Work) -> None:
        if outage.on:
            raise outage(ReadOnlySqlTransaction("cannot execute INSERT in a read-only transaction"))

    scene.traffic(50, every=15)
    outage.on = True
    scene.traffic(70, every=15)
    outage.on = False
    scene.run(hours=4)


@incident("dependency")
def partner_never_renewed_the_certificate_of_one_gateway(scene: Scene) -> None:
    """One of two freight partners let its certificate expire over the weekend."""
    (expired,) = scene.causes

    @scene.service("freight", Order, needs="carriers")
    def ship(order: Order, work: Work) -> None:
        if expired.on and order.kind == "sea":
            with expired:
                raise requests.exceptions.SSLError(
                    "HTTPSConnectionPool(host='gw.sealine.example', port=443): Max retries exceeded with url: / "
                    "(Caused by SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] ...')))"
                ) from lib.certificate_expired("gw.sealine.example")

    scene.mixed_traffic(scene.documents(30, Order, kind="air"), scene.documents(20, Order, kind="sea"), every=300)
    expired.on = True
    scene.mixed_traffic(scene.documents(24, Order, kind="air"), scene.documents(16, Order, kind="sea"), every=300)


@incident("dependency")
def workspace_owner_removed_our_chat_integration(scene: Scene) -> None:
    """The owner of a chat workspace cleaned up its integrations and revoked our token, among others."""
    (revoked,) = scene.causes

    @scene.service("announcing", None, needs="chat")
    def announce(notice: Notice, work: Work) -> None:
        if revoked.on:
            raise revoked(more.SlackApiError("token_revoked"))

    scene.notices(40, every=600)
    revoked.on = True
    scene.notices(9, every=600)


@incident("dependency")
def prepaid_credit_of_the_summary_model_is_used_up(scene: Scene) -> None:
    """Nobody topped up the prepaid credit of a model provider; accounting paid on the next morning."""
    (unpaid,) = scene.causes

    @scene.service("summaries", Page, needs="model")
    def summarise(page: Page, work: Work) -> None:
        if unpaid.on:
            body = '{"error": {"message": "Insufficient Balance", "code": "invalid_request_error"}}'
            raise unpaid(lib.HTTPStatusError(402, "https://api.model.example/chat/completions", body))

    scene.traffic(100, Page, every=20)
    unpaid.on = True
    scene.traffic(40, Page, every=120)
    scene.run(hours=11)
    unpaid.on = False
    scene.traffic(20, Page)
    scene.run(hours=2)


@incident("dependency")
def model_provider_says_overloaded_to_everyone_for_hours(scene: Scene) -> None:
    """A model provider lost a data centre: it refuses all callers, even us with one call in two minutes."""
    (outage,) = scene.causes

    @scene.service("replies", Mail, needs="assistant")
    def draft(mail: Mail, work: Work) -> None:
        if outage.on:
            raise outage(more.OverloadedError())

    scene.traffic(60, Mail, every=120)
    outage.on = True
    scene.traffic(50, Mail, every=120)
    outage.on = False
    scene.traffic(15, Mail, every=120)
    scene.run(hours=3)


@incident("dependency")
def mailbox_password_of_one_tenant_was_changed_by_its_it(scene: Scene) -> None:
    """The IT of one tenant rotated the password of its mailbox and did not tell us."""
    (refused,) = scene.causes

    @scene.service("collecting", Mail, needs="imap")
    def collect(mail: Mail, work: Work) -> None:
        if refused.on and mail.tenant == "globex":
            raise refused(imaplib.IMAP4.error(b"[AUTHENTICATIONFAILED] Invalid credentials (Failure)"))

    scene.traffic(100, Mail, every=45)
    refused.on = True
    scene.traffic(80, Mail, every=45)


@incident("dependency")
def bank_replaced_its_file_server_and_its_host_key(scene: Scene) -> None:
    """The bank moved its file drop to another machine; our client rightly refuses its unknown key."""
    (moved,) = scene.causes

    @scene.service("payment_runs", Invoice, needs="bank_sftp")
    def deliver(invoice: Invoice, work: Work) -> None:
        if moved.on:
            raise moved(more.BadHostKeyException("Host key for server 'sftp.bank.example' does not match"))

    scene.traffic(12, every=7200)
    moved.on = True
    scene.traffic(3, every=7200)


@incident("dependency")
def shared_folder_went_stale_when_the_filer_failed_over(scene: Scene) -> None:
    """The file server failed over and all mounted folders are dead, until someone mounts them again."""
    (stale,) = scene.causes

    @scene.service("scans", Upload)
    def read(upload: Upload, work: Work) -> None:
        if stale.on:
            raise stale(OSError(116, "Stale file handle", upload.path))

    scene.traffic(70, Upload)
    stale.on = True
    scene.traffic(35, Upload)
    stale.on = False
    scene.run(hours=4)


@incident("dependency")
def recognition_engine_finds_no_floating_licence(scene: Scene) -> None:
    """The licence server of the text recognition was rebooted; the engine only says a number."""
    (outage,) = scene.causes
    scene.dependency("licence_server", health=lambda: not outage.on)

    @scene.service("recognition", Upload, needs="licence_server")
    def recognise(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(RuntimeError("engine could not be initialised (-5012)"))

    scene.traffic(40, Upload)
    outage.on = True
    scene.traffic(20, Upload)
    outage.on = False
    scene.traffic(20, Upload)


@incident("dependency")
def cache_reads_its_dump_for_minutes_after_a_reboot(scene: Scene) -> None:
    """The cache's machine was rebooted for a kernel update; it refuses until its data is loaded."""
    (loading,) = scene.causes

    @scene.service("deduplicating", Page, needs="cache")
    def check(page: Page, work: Work) -> None:
        if loading.on:
            raise loading(lib.BusyLoadingError("Redis is loading the dataset in memory"))

    scene.traffic(120, Page, every=3)
    loading.on = True
    scene.traffic(60, Page, every=3)
    loading.on = False
    scene.traffic(40, Page, every=30)


@incident("dependency")
def search_cluster_turned_read_only_since_its_disks_are_full(scene: Scene) -> None:
    """Another team's logs filled the disks of the search cluster, which now takes no document from anyone."""
    (full,) = scene.causes

    @scene.service("search_entries", Page, needs="search_cluster")
    def index(page: Page, work: Work) -> None:
        if full.on:
            why = "index [pages] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark];"
            raise full(lib.TransportApiError(429, "cluster_block_exception", why))

    scene.traffic(90, Page, every=60)
    full.on = True
    scene.traffic(45, Page, every=60)


@incident("dependency")
def message_broker_is_gone_while_nightly_notices_are_sent(scene: Scene) -> None:
    """The broker did not come up again after its update; it was found in the morning."""
    (outage,) = scene.causes

    @scene.service("nightly_notices", None, needs="broker")
    async def pass_on(notice: Notice, work: Work) -> None:
        if outage.on:
            raise outage(AMQPConnectionError("[Errno 111] Connect call failed ('10.3.0.12', 5672)"))

    scene.notices(30, every=120)
    outage.on = True
    scene.notices(30, every=120)
    scene.run(hours=7)
    outage.on = False
    scene.run(hours=2)


@incident("dependency")
def customer_deleted_the_endpoint_that_our_webhooks_call(scene: Scene) -> None:
    """A customer moved its shop to another system; what listened to our webhooks is gone. Others get theirs."""
    (gone,) = scene.causes

    @scene.service("webhooks", Order, needs="customer_endpoints")
    def call(order: Order, work: Work) -> None:
        if gone.on and order.tenant == "initech":
            raise gone(lib.requests_status(404, "https://shop.initech.example/hooks/orders"))

    scene.traffic(120, Order, every=15)
    gone.on = True
    scene.traffic(120, Order, every=15)
    scene.run(hours=12)


@incident("dependency")
def key_of_the_service_account_was_deleted_in_the_console(scene: Scene) -> None:
    """Someone deleted an old key of a service account in the cloud's console: it was ours. Just noticed."""
    (deleted,) = scene.causes

    @scene.service("drive_export", Upload, needs="drive")
    def export(upload: Upload, work: Work) -> None:
        if deleted.on:
            raise deleted(more.RefreshError("invalid_grant: Invalid JWT Signature.", {"error": "invalid_grant"}))

    scene.traffic(55, Upload, every=90)
    deleted.on = True
    scene.traffic(4, Upload, every=90)


@incident("dependency")
def leased_line_to_the_registry_comes_and_goes(scene: Scene) -> None:
    """A digger hurt the line to the company registry: it works for minutes, then not. The error is vague."""
    (broken,) = scene.causes

    @scene.service("company_data", Order, needs="registry")
    def enrich(order: Order, work: Work) -> None:
        if broken.on and int(scene.minute) % 11 < 6:
            with broken:
                raise EnrichmentFailed("no company data") from lib.requests_timeout("registry.example", 20)

    scene.traffic(60, Order)
    broken.on = True
    scene.traffic(150, Order)
    broken.on = False
    scene.traffic(20, Order)


@incident("dependency")
def dying_disk_makes_the_address_service_ever_slower(scene: Scene) -> None:
    """A disk of the address service dies: calls take longer and longer, at last all longer than our limit."""
    (dying,) = scene.causes
    calls = [0]

    @scene.service("addresses", Order, needs="geocoder", time_limit=30)
    def locate(order: Order, work: Work) -> None:
        if dying.on:
            calls[0] += 1
            if calls[0] > 15:
                dying.takes(31 + order.number % 5)
                return
            scene.world.clock.advance(2.0 * calls[0] * 0.9)

    scene.traffic(60, Order, every=60)
    dying.on = True
    scene.traffic(45, Order, every=60)


@incident("dependency")
def tax_office_answers_with_its_maintenance_page(scene: Scene) -> None:
    """During its maintenance the tax office answered all calls with a web page and status 200."""
    (closed,) = scene.causes

    @scene.service("tax_numbers", Invoice, needs="tax_office")
    def verify(invoice: Invoice, work: Work) -> None:
        with closed:
            json.loads("<!DOCTYPE html><html lang='de'><title>Wartung</title>" if closed.on else '{"valid": true}')

    scene.traffic(60, every=45)
    closed.on = True
    scene.traffic(50, every=45)
    closed.on = False
    scene.traffic(30, every=45)
    scene.retry_all()
    scene.run(hours=2)


@incident("dependency")
def our_sending_address_is_on_a_public_block_list(scene: Scene) -> None:
    """A neighbour in our address range sent spam; the relay of our recipients now refuses every mail."""
    (blocked,) = scene.causes

    @scene.service("dispatch", Mail, needs="smarthost")
    def send(mail: Mail, work: Work) -> None:
        if blocked.on:
            text = b"5.7.1 Service unavailable; Client host [192.0.2.25] blocked using zen.spamhaus.org"
            raise blocked(smtplib.SMTPSenderRefused(554, text, f"{mail.author}@our-firm.example"))

    scene.traffic(150, Mail, every=12)
    blocked.on = True
    scene.traffic(60, Mail, every=12)


@incident("dependency")
def half_of_the_model_servers_cards_have_broken_memory(scene: Scene) -> None:
    """One of two graphics cards of the model server is broken: about half of the calls fail."""
    (broken,) = scene.causes

    @scene.service("vectors", Page, needs="model_server")
    def embed(page: Page, work: Work) -> None:
        if broken.on and scene.random.random() < 0.5:
            text = "onnxruntime execute failure 1: CUDA failure 214: uncorrectable ECC error encountered"
            raise broken(more.InferenceServerException("StatusCode.INTERNAL", text))

    scene.traffic(100, Page, every=10)
    broken.on = True
    scene.traffic(120, Page, every=10)
