"""Something outside is down, broken or refuses us: archives, registries, warehouses, licences, file systems."""

from __future__ import annotations

import imaplib
import json
import ssl

import psycopg.errors

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.eighth import libraries as more
from tests.incidents.staging import Scene, incident


class EntitlementError(Exception):
    """The market data team's own."""


class DepositError(Exception):
    """The journal team's own: a deposit did not go through."""


class ToolkitError(Exception):
    """What the chemistry toolkit's wrapper raises for everything."""


@incident("dependency")
def oracle_listener_stopped_before_the_patent_load(scene: Scene) -> None:
    """A DBA stopped the listener of the patent database for a patch and did not start it again. It goes on."""
    (outage,) = scene.causes
    scene.dependency("patent_db", health=lambda: not outage.on)

    @scene.service("patent_load", Order, needs="patent_db")
    def load(order: Order, work: Work) -> None:
        if outage.on:
            raise outage(
                more.OracleDatabaseError("ORA-12541", "Cannot connect. No listener at host ora-pat-2 port 1521.")
            )

    scene.traffic(45, Order)
    outage.on = True
    scene.traffic(12, Order, every=60)


@incident("dependency")
def snowflake_warehouse_suspended_by_the_resource_monitor(scene: Scene) -> None:
    """Another department spent the month's credits, so the account's monitor keeps our warehouse suspended."""
    (outage,) = scene.causes

    @scene.service("trade_facts", Invoice, needs="snowflake")
    def load(invoice: Invoice, work: Work) -> None:
        if outage.on:
            text = "Warehouse 'LOAD_WH' cannot be resumed because resource monitor 'CORP' has exceeded its quota."
            raise outage(more.SnowflakeError(90073, "22000", text))

    scene.traffic(25, every=300)
    outage.on = True
    scene.traffic(9, every=300)
    scene.run(hours=7)


@incident("dependency")
def scratch_file_system_lost_its_metadata_server(scene: Scene) -> None:
    """The metadata server of the cluster's scratch failed over badly for two hours; all nodes were evicted."""
    (outage,) = scene.causes

    @scene.service("read_archive", Upload, needs="scratch")
    def copy(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(OSError(108, "Cannot send after transport endpoint shutdown", f"/scratch/{upload.id}"))

    scene.traffic(60, Upload, every=20)
    outage.on = True
    scene.traffic(25, Upload, every=20)
    scene.run(hours=2)
    outage.on = False
    scene.run(hours=3)
    scene.traffic(20, Upload)


@incident("dependency", groups=2)
def doi_registry_serves_a_chain_without_its_intermediate(scene: Scene) -> None:
    """The registry renewed its certificate and forgot the intermediate one; both services that call it fail."""
    (outage,) = scene.causes

    def call() -> None:
        if outage.on:
            text = "certificate verify failed: unable to get local issuer certificate (_ssl.c:1006)"
            raise outage(ssl.SSLCertVerificationError(1, f"[SSL: CERTIFICATE_VERIFY_FAILED] {text}"))

    @scene.service("doi_deposit", Page, needs="doi_registry")
    def deposit(page: Page, work: Work) -> None:
        call()

    @scene.service("doi_lookup", Upload, needs="doi_registry")
    def look_up(upload: Upload, work: Work) -> None:
        call()

    scene.mixed_traffic(scene.documents(20, Page), scene.documents(20, Upload))
    outage.on = True
    scene.mixed_traffic(scene.documents(8, Page), scene.documents(8, Upload))


@incident("dependency")
def filings_site_answers_with_its_maintenance_page(scene: Scene) -> None:
    """The regulator's site has a window at night: it answers 200 with a page of HTML where JSON was."""
    (outage,) = scene.causes

    @scene.service("filings", Page, needs="regulator")
    def fetch(page: Page, work: Work) -> None:
        body = "<!DOCTYPE html><title>Scheduled maintenance</title>" if outage.on else '{"cik": 320193}'
        with outage:
            json.loads(body)

    scene.traffic(70, Page, every=60)
    outage.on = True
    scene.traffic(30, Page, every=60)
    outage.on = False
    scene.run(hours=5)
    scene.traffic(20, Page, every=60)


@incident("dependency")
def embedding_endpoint_of_one_region_fails_for_european_tenants(scene: Scene) -> None:
    """The provider's endpoint in Frankfurt was broken for 90 minutes; tenants of other regions saw nothing."""
    (outage,) = scene.causes

    @scene.service("abstract_vectors", Page, needs="embedder")
    def embed(page: Page, work: Work) -> None:
        if outage.on and page.tenant == "eu-publisher":
            raise outage(
                lib.HTTPStatusError(500, "https://eu-central-1.embed.example/v1/embeddings", "internal error")
            )

    def some(europe: int, rest: int) -> None:
        scene.mixed_traffic(scene.documents(europe, Page, tenant="eu-publisher"), scene.documents(rest, Page))

    some(30, 50)
    outage.on = True
    some(25, 40)
    scene.run(60)
    outage.on = False
    scene.run(hours=6)
    some(10, 10)


@incident("dependency")
def exchange_entitlement_lapsed_at_the_data_vendor(scene: Scene) -> None:
    """The contract for one exchange ended, and the vendor answers for its quotes no more. All others arrive."""
    (refusal,) = scene.causes

    @scene.service("closing_prices", Order, needs="vendor")
    def fetch(order: Order, work: Work) -> None:
        if refusal.on and order.kind == "XETR":
            raise refusal(EntitlementError("NOT_ENTITLED: user 8814 has no permission for exchange XETR"))

    def day(dax: int) -> None:
        scene.mixed_traffic(scene.documents(dax, Order, kind="XETR"), scene.documents(30, Order, kind="XNYS"))

    day(25)
    scene.run(hours=20)
    refusal.on = True
    day(22)
    scene.run(hours=3)


@incident("dependency")
def virus_scanner_socket_vanished_after_its_update(scene: Scene) -> None:
    """The scanner's daemon died while it loaded new signatures; its socket is gone, so the error names a file."""
    (outage,) = scene.causes

    @scene.service("scan_manuscripts", Upload, needs="clamd")
    def scan(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(FileNotFoundError(2, "No such file or directory", "/run/clamav/clamd.ctl"))

    scene.traffic(80, Upload)
    outage.on = True
    scene.traffic(18, Upload)


@incident("dependency")
def kafka_permission_for_the_citation_topic_revoked(scene: Scene) -> None:
    """The platform team tidied up access rules, and our user may not write to the topic. No documents involved."""
    (refusal,) = scene.causes

    @scene.service("citation_alerts", None, needs="kafka")
    def send(notice: Notice, work: Work) -> None:
        if refusal.on:
            raise refusal(
                more.KafkaException("TOPIC_AUTHORIZATION_FAILED", 29, "Broker: Topic authorization failed")
            )

    scene.notices(40)
    refusal.on = True
    scene.notices(15)
    scene.run(hours=1)


@incident("dependency")
def vector_store_restored_from_a_snapshot_without_our_collection(scene: Scene) -> None:
    """The hosting team restored the vector store from a snapshot that was older than our collection."""
    (outage,) = scene.causes

    @scene.service("article_index", Page, needs="vector_store")
    def index(page: Page, work: Work) -> None:
        if outage.on:
            text = "Not found: Collection `articles_v3` doesn't exist!"
            raise outage(more.UnexpectedResponse(404, "Not Found", text))

    scene.traffic(120, Page, every=10)
    scene.run(hours=8)
    outage.on = True
    scene.traffic(35, Page, every=10)


@incident("dependency")
def chemistry_toolkit_finds_no_licence_server(scene: Scene) -> None:
    """The licence server moved to another network that our machines do not reach; the toolkit is terse."""
    (outage,) = scene.causes

    @scene.service("structures", Upload, needs="licence_server")
    def draw(upload: Upload, work: Work) -> None:
        if outage.on:
            try:
                raise OSError(113, "No route to host")
            except OSError as error:
                raise outage(ToolkitError("checkout failed (-15,570)")) from error

    scene.traffic(22, Upload, every=120)
    outage.on = True
    scene.traffic(6, Upload, every=120)
    scene.run(40)


@incident("dependency")
def kerberos_account_of_the_lake_locked_over_the_weekend(scene: Scene) -> None:
    """The identity team locked our service account on Saturday; nothing was written to the lake since."""
    (refusal,) = scene.causes

    @scene.service("lake_writer", Order, needs="hdfs", batch=10)
    def write(orders: list[Order], work: Work) -> None:
        if refusal.on:
            text = (
                "Major (851968): Unspecified failure, Minor (2529638930): Client's credentials have been revoked"
            )
            raise refusal(more.GSSError(text))

    for _ in range(5):
        scene.import_at_once(20, Order, together=10)
        scene.run(30)
    refusal.on = True
    scene.import_at_once(20, Order, together=10)
    scene.run(hours=3)
    scene.import_at_once(10, Order, together=10)
    scene.run(hours=1)


@incident("dependency")
def tape_robot_stuck_while_recalling_old_volumes(scene: Scene) -> None:
    """The arm of the tape library is stuck: every recall waits until our time limit. Mended after three hours."""
    (outage,) = scene.causes
    scene.dependency("tape", health=lambda: not outage.on)

    @scene.service("recall_volumes", Upload, needs="tape", time_limit=600)
    def recall(upload: Upload, work: Work) -> None:
        if outage.on:
            outage.takes(640)

    scene.traffic(15, Upload, every=900)
    outage.on = True
    scene.traffic(5, Upload, every=900)
    scene.run(hours=3)
    outage.on = False
    scene.run(hours=5)


@incident("dependency", groups=2)
def reference_resolver_flaps_all_afternoon(scene: Scene) -> None:
    """The resolver's proxy loses its backends for some minutes in each quarter of an hour, all afternoon."""
    (outage,) = scene.causes

    @scene.service("references", Page, needs="resolver")
    def resolve(page: Page, work: Work) -> None:
        if scene.minute > 30 and scene.minute % 15 < 6:
            code = 502 if page.number % 3 else 504
            raise outage(lib.requests_status(code, f"https://resolver.example/works/10.1234/{page.number}"))

    scene.traffic(320, Page, every=45)


@incident("dependency")
def exchange_sftp_changed_its_host_key_unannounced(scene: Scene) -> None:
    """The exchange moved its file server, which has a new host key now. Three files a day come from there."""
    (refusal,) = scene.causes

    @scene.service("settlement_files", Invoice, needs="exchange_sftp")
    def fetch(invoice: Invoice, work: Work) -> None:
        if refusal.on:
            raise refusal(more.BadHostKeyException("sftp.exchange.example"))

    scene.traffic(12, every=28_800)
    refusal.on = True
    scene.traffic(3, every=28_800)


@incident("dependency")
def warehouse_name_points_to_the_demoted_primary(scene: Scene) -> None:
    """After a failover the name of the warehouse still led to the old primary for 25 minutes, which only reads."""
    (outage,) = scene.causes

    @scene.service("positions", Invoice, needs="warehouse")
    def write(invoice: Invoice, work: Work) -> None:
        if outage.on:
            text = "cannot execute INSERT in a read-only transaction"
            inner = psycopg.errors.ReadOnlySqlTransaction(text)
            raise outage(lib.OperationalError("INSERT INTO position (isin, day) VALUES (%s, %s)", inner))

    scene.traffic(50, every=15)
    outage.on = True
    scene.traffic(30, every=15)
    scene.run(18)
    outage.on = False
    scene.run(hours=2)
    scene.traffic(30, every=15)


@incident("dependency")
def one_dead_backend_of_three_at_the_reference_parser(scene: Scene) -> None:
    """One of three machines behind the parser's balancer is broken but not taken out: each third call is cut."""
    (outage,) = scene.causes
    calls = iter(range(10_000))

    @scene.service("parse_references", Page, needs="parser")
    def parse(page: Page, work: Work) -> None:
        if outage.on and (next(calls) + scene.random.randrange(2)) % 3 == 0:
            raise outage(ConnectionResetError(104, "Connection reset by peer"))

    scene.traffic(60, Page)
    outage.on = True
    scene.traffic(90, Page)


@incident("dependency")
def storage_account_of_one_data_provider_disabled(scene: Scene) -> None:
    """One data provider did not pay for its storage account, and files cannot be fetched there. Others can."""
    (refusal,) = scene.causes

    @scene.service("deliveries", Upload, needs="blob_store")
    def fetch(upload: Upload, work: Work) -> None:
        if refusal.on and upload.tenant == "globex":
            raise refusal(more.HttpResponseError(403, "AccountIsDisabled", "The specified account is disabled."))

    scene.traffic(100, Upload, every=20)
    refusal.on = True
    scene.traffic(60, Upload, every=20)


@incident("dependency")
def submission_mailbox_unavailable_at_the_host(scene: Scene) -> None:
    """The mail host moved the mailbox of an editorial office to another server; over after 40 minutes."""
    (outage,) = scene.causes

    @scene.service("submissions", Mail, needs="imap")
    def fetch(mail: Mail, work: Work) -> None:
        if outage.on:
            try:
                raise imaplib.IMAP4.abort("command: SELECT => [UNAVAILABLE] Temporary authentication failure")
            except imaplib.IMAP4.abort as error:
                raise outage(DepositError(f"mail {mail.number} was not fetched")) from error

    scene.traffic(40, Mail)
    outage.on = True
    scene.traffic(20, Mail, every=60)
    scene.run(20)
    outage.on = False
    scene.run(hours=3)
