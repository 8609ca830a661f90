"""Something outside is down, broken or refuses us: further domains, clients and moments of reading."""

from __future__ import annotations

import errno
import ftplib
import imaplib
import json
import subprocess
from collections.abc import Sequence

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Item, Mail, Order, Page, Upload
from tests.incidents.second import libraries as more
from tests.incidents.staging import Scene, incident


class ArchiveError(Exception):
    """What the imaging program raises for all that the picture archive does."""


@incident("dependency")
def xray_bucket_key_revoked(scene: Scene) -> None:
    """The hospital's security team revoked the access key of the image bucket; read after giving up."""
    (refusal,) = scene.causes

    @scene.service("xray-import", Upload, needs="image-bucket")
    def load(upload: Upload, work: Work) -> None:
        if refusal.on:
            raise refusal(
                lib.BotoClientError(
                    "InvalidAccessKeyId",
                    "The AWS Access Key Id you provided does not exist in our records.",
                    "GetObject",
                    403,
                )
            )

    scene.traffic(45, Upload, kind="dcm")
    refusal.on = True
    scene.traffic(12, Upload, kind="dcm")
    scene.run(hours=60)


@incident("dependency")
def transcription_out_of_credit(scene: Scene) -> None:
    """The account of the speech service has no credit left; its client calls that a rate limit."""
    (credit,) = scene.causes

    @scene.service("transcribing", Upload, needs="speech")
    async def transcribe(upload: Upload, work: Work) -> None:
        if credit.on:
            raise credit(
                lib.RateLimitError(
                    429,
                    "You exceeded your current quota, please check your plan and billing details.",
                    "insufficient_quota",
                    "insufficient_quota",
                )
            )

    scene.traffic(60, Upload, kind="mp3")
    credit.on = True
    scene.traffic(25, Upload, kind="mp3")
    scene.run(hours=5)


@incident("dependency")
def label_detection_account_disabled(scene: Scene) -> None:
    """The service account for image labels was disabled; an unrelated release went out an hour earlier."""
    (refusal,) = scene.causes

    @scene.service("image-labels", Upload)
    def label(upload: Upload, work: Work) -> None:
        if refusal.on:
            raise refusal(
                more.RefreshError(
                    "invalid_grant: Account has been disabled",
                    {"error": "invalid_grant", "error_description": "Account has been disabled"},
                )
            )

    scene.traffic(30, Upload, kind="png")
    scene.deploy("4.18.0")
    scene.traffic(60, Upload, every=60, kind="png")
    refusal.on = True
    scene.traffic(9, Upload, kind="png")
    scene.run(hours=1)


@incident("dependency")
def storage_account_of_one_tenant(scene: Scene) -> None:
    """The storage account of one tenant is gone from the name service; the other tenants' files are read."""
    (outage,) = scene.causes

    @scene.service("contract-reading", Upload, needs="blob-storage")
    def read(upload: Upload, work: Work) -> None:
        if outage.on and upload.tenant == "umbrella":
            raise outage(
                more.ServiceRequestError(
                    "<urllib3.connection.HTTPSConnection object at 0x7f21a3>: Failed to resolve "
                    "'umbrellalegal.blob.core.windows.net' ([Errno -2] Name or service not known)"
                )
            )

    scene.traffic(60, Upload, kind="pdf")
    outage.on = True
    scene.traffic(60, Upload, kind="pdf")


@incident("dependency")
def cache_failed_over_to_replica(scene: Scene) -> None:
    """After a failover the address of the cache points to a node that is still a replica: writes are refused."""
    (broken,) = scene.causes

    @scene.service("price-cache", Page, needs="cache")
    def put(page: Page, work: Work) -> None:
        if broken.on:
            raise broken(more.RedisReadOnlyError("You can't write against a read only replica."))

    scene.traffic(80, Page, every=5)
    broken.on = True
    scene.traffic(40, Page, every=5)
    scene.run(20)


@incident("dependency")
def search_cluster_lost_shards(scene: Scene) -> None:
    """Two nodes of the search cluster died: no shard of the product index is left; it recovers after an hour."""
    (outage,) = scene.causes

    @scene.service("product-index", Page, needs="search")
    def index(page: Page, work: Work) -> None:
        if outage.on:
            raise outage(
                more.elastic_error(
                    more.ElasticApiError,
                    503,
                    "unavailable_shards_exception",
                    "[products][3] primary shard is not active Timeout: [1m], request: [BulkShardRequest "
                    f"[[products][3]] containing [index {{[products][{page.id}]}}]]",
                )
            )

    scene.traffic(40, Page)
    outage.on = True
    scene.traffic(20, Page)
    scene.run(40)
    outage.on = False
    scene.traffic(20, Page)
    scene.run(hours=6)


@incident("dependency")
def meter_store_has_no_primary(scene: Scene) -> None:
    """The replica set of the meter readings has no primary; the service stores readings in batches."""
    (outage,) = scene.causes

    @scene.service("meter-readings", Order, needs="readings", batch=20)
    def store(readings: Sequence[Item], work: Work) -> None:
        if outage.on:
            raise outage(
                more.with_fields(
                    more.NotPrimaryError(
                        "not primary, full error: {'topologyVersion': {'counter': 9}, 'ok': 0.0, 'errmsg': "
                        "'not primary', 'code': 10107, 'codeName': 'NotWritablePrimary'}"
                    ),
                    code=10107,
                )
            )

    for _ in range(4):
        scene.import_at_once(50, Order)
        scene.run(10)
    outage.on = True
    scene.import_at_once(50, Order)
    scene.run(30)


@incident("dependency")
def ring_unreachable_through_firewall(scene: Scene) -> None:
    """A firewall rule cut us off from the log database; no document was ever stored by this new service."""
    (outage,) = scene.causes

    @scene.service("access-logs", Upload, needs="log-database")
    def store(upload: Upload, work: Work) -> None:
        hosts = {
            f"<Host: 10.20.0.{n}:9042 dc-west>": OSError(
                errno.ETIMEDOUT,
                f"Tried connecting to [('10.20.0.{n}', 9042)]. Last error: Connection timed out",
            )
            for n in (11, 12)
        }
        raise outage(more.NoHostAvailable("Unable to complete the operation against any hosts", hosts))

    scene.traffic(14, Upload, kind="log")
    scene.run(hours=3)


@incident("dependency")
def stream_brokers_stopped(scene: Scene) -> None:
    """All brokers of the event stream are stopped; the error says only its class name."""
    (outage,) = scene.causes

    @scene.service("order-stream", Order)
    async def send(order: Order, work: Work) -> None:
        if outage.on:
            raise outage(more.NoBrokersAvailable("NoBrokersAvailable"))

    scene.traffic(100, Order, every=10)
    outage.on = True
    scene.traffic(50, Order, every=10)


@incident("dependency")
def supplier_changed_ftp_password(scene: Scene) -> None:
    """One supplier changed the password of its FTP server; the catalogues of the others are loaded."""
    (refusal,) = scene.causes

    @scene.service("catalogue-load", Upload, needs="suppliers")
    def load(upload: Upload, work: Work) -> None:
        if refusal.on and upload.tenant == "globex":
            raise refusal(ftplib.error_perm("530 Login incorrect."))

    scene.traffic(40, Upload, kind="csv", every=600)
    refusal.on = True
    scene.traffic(40, Upload, kind="csv", every=600)


@incident("dependency")
def claims_mailbox_login_refused(scene: Scene) -> None:
    """The password of the claims mailbox expired: every fetch is refused at the login."""
    (refusal,) = scene.causes

    @scene.service("claims-fetch", Mail, needs="mailbox", rung="fetching")
    def fetch(mail: Mail, work: Work) -> None:
        if refusal.on:
            raise refusal(imaplib.IMAP4.error("b'[AUTHENTICATIONFAILED] Invalid credentials (Failure)'"))

    scene.traffic(22, Mail)
    refusal.on = True
    scene.traffic(6, Mail)
    scene.run(hours=30)


@incident("dependency")
def directory_unreachable_wrapped(scene: Scene) -> None:
    """The staff directory is down; the approval step raises its own error from that."""
    (outage,) = scene.causes

    @scene.service("approvals", Invoice, needs=("directory", "ledger"))
    def approve(invoice: Invoice, work: Work) -> None:
        if outage.on:
            try:
                raise more.LDAPSocketOpenError(
                    "('unable to open socket', [(LDAPSocketOpenError('socket connection error while opening: "
                    "[Errno 113] No route to host'), ('10.4.0.8', 636))])"
                )
            except Exception as error:
                raise outage(LookupError(f"no approver found for {invoice.author}")) from error

    scene.traffic(33, Invoice)
    outage.on = True
    scene.traffic(15, Invoice)


@incident("dependency")
def picture_archive_rejects_association(scene: Scene) -> None:
    """The picture archive of the hospital rejects every association; the error is a class of the program."""
    (outage,) = scene.causes
    scene.dependency("picture-archive", health=lambda: not outage.on)

    @scene.service("study-transfer", Upload, needs="picture-archive")
    def transfer(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(ArchiveError("Association rejected, aborted or never connected"))

    scene.traffic(26, Upload, kind="dcm")
    outage.on = True
    scene.traffic(11, Upload, kind="dcm")
    scene.run(45)


@incident("dependency")
def recognition_licence_expired(scene: Scene) -> None:
    """The licence of the text recognition engine, a bought program, expired at midnight."""
    (refusal,) = scene.causes

    @scene.service("recognition", Upload)
    def recognize(upload: Upload, work: Work) -> None:
        if refusal.on:
            try:
                raise subprocess.CalledProcessError(
                    213, ["frecli", "-if", upload.path, "-of", "/tmp/out.txt"], stderr="License has expired."
                )
            except subprocess.CalledProcessError as error:
                raise refusal(RuntimeError(f"engine: {error.stderr} (code 0x8004001B)")) from error

    scene.traffic(70, Upload, kind="pdf")
    refusal.on = True
    scene.traffic(18, Upload, kind="pdf")
    scene.run(hours=12)


@incident("dependency")
def billing_password_rotated(scene: Scene) -> None:
    """The database team rotated the password of the billing user without telling anybody."""
    (refusal,) = scene.causes

    @scene.service("bill-posting", Invoice)
    async def post(invoice: Invoice, work: Work) -> None:
        if refusal.on:
            raise refusal(
                more.with_fields(
                    more.InvalidPasswordError('password authentication failed for user "billing"'),
                    sqlstate="28P01",
                )
            )

    scene.traffic(50, Invoice)
    refusal.on = True
    scene.traffic(10, Invoice)


@incident("dependency", groups=2)
def shop_database_restarts(scene: Scene) -> None:
    """The shop's database crashed and was restarted: connections break, then are refused; it is well again."""
    (outage,) = scene.causes

    @scene.service("stock-levels", Order, needs="shop-database")
    def update(order: Order, work: Work) -> None:
        if outage.on:
            late = scene.minute > 25
            text = (
                "Can't connect to MySQL server on 'db1' ([Errno 111] Connection refused)"
                if late
                else "Lost connection to MySQL server during query"
            )
            inner = more.MySQLOperationalError(2003 if late else 2013, text)
            raise outage(
                lib.OperationalError("UPDATE stock SET level = level - %(n)s WHERE sku = %(sku)s", inner)
            ) from inner

    scene.traffic(40, Order)
    outage.on = True
    scene.traffic(30, Order)
    outage.on = False
    scene.traffic(60, Order)
    scene.run(hours=2)


@incident("dependency")
def map_server_sends_maintenance_page(scene: Scene) -> None:
    """The map server returns its maintenance page with status 200: what should be JSON is HTML."""
    (outage,) = scene.causes

    @scene.service("parcel-outlines", Order, needs="map-server")
    def outline(order: Order, work: Work) -> None:
        body = "<!doctype html><title>Maintenance</title>" if outage.on else '{"type": "Polygon"}'
        with outage:
            json.loads(body)

    scene.traffic(48, Order)
    outage.on = True
    scene.traffic(16, Order)
    scene.run(20)


@incident("dependency")
def acquirer_of_one_country_down(scene: Scene) -> None:
    """The bank behind the payments of one country is down; 3 versions of the worker run side by side."""
    (outage,) = scene.causes

    @scene.service("captures", Order, needs="payments")
    def capture(order: Order, work: Work) -> None:
        if outage.on and order.tenant == "initech":
            raise outage(lib.HTTPStatusError(502, f"https://pay.example/v3/br/captures/{order.id}"))

    scene.deploy("7.0.1", "7.0.2", "7.1.0")
    scene.traffic(45, Order)
    outage.on = True
    scene.traffic(45, Order)


@incident("dependency")
def device_gateway_gone_in_batches(scene: Scene) -> None:
    """The gateway of the devices is down: whole batches of commands fail, until it is back."""
    (outage,) = scene.causes

    @scene.service("device-commands", Order, needs="gateway", batch=16)
    async def send(commands: Sequence[Item], work: Work) -> None:
        if outage.on:
            raise outage(
                lib.grpc_error(
                    "UNAVAILABLE",
                    "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.8.0.4:50051: "
                    "Failed to connect to remote host: connect: Connection refused (111)",
                )
            )

    scene.import_at_once(96, Order, together=16)
    scene.run(30)
    outage.on = True
    scene.import_at_once(64, Order, together=16)
    scene.run(30)
    outage.on = False
    scene.run(hours=4)


@incident("dependency")
def tax_office_certificate_expired(scene: Scene) -> None:
    """The tax office forgot to renew its certificate, in the middle of a rolling deploy of ours."""
    (refusal,) = scene.causes

    @scene.service("tax-reports", Invoice, needs="tax-office")
    async def send(invoice: Invoice, work: Work) -> None:
        if refusal.on:
            raise refusal(
                more.ClientConnectorCertificateError(
                    "Cannot connect to host api.tax.example:443 ssl:True [SSLCertVerificationError: (1, '[SSL: "
                    "CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired "
                    "(_ssl.c:1000)')]"
                )
            )

    scene.traffic(30, Invoice)
    scene.deploy("4.17.2", "4.17.3")
    scene.traffic(10, Invoice)
    refusal.on = True
    scene.traffic(14, Invoice)
    scene.deploy("4.17.3")
    scene.traffic(10, Invoice)
