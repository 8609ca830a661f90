"""Something outside is down, broken or refuses us: signatures, registers, shares, legacy databases, partners."""

from __future__ import annotations

import ssl

import psycopg
import requests

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Notice, Order, Page, Upload
from tests.incidents.sixth import libraries as more
from tests.incidents.staging import Scene, incident


class ArchiveError(Exception):
    """The team's own."""


class MllpReject(Exception):
    """The team's own: the hospital's system acknowledged with a refusal."""


class TokenError(RuntimeError):
    """The team's own."""


@incident("dependency")
def signing_token_pulled_from_its_slot(scene: Scene) -> None:
    """The signing module was taken out of its slot when the rack was moved; the driver's error has no text."""
    (outage,) = scene.causes

    @scene.service("discharge_letters", Upload, needs="hsm")
    def sign(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(more.TokenNotPresent())

    scene.traffic(40, Upload)
    outage.on = True
    scene.traffic(12, Upload, every=60)


@incident("dependency")
def claims_register_locked_our_user(scene: Scene) -> None:
    """The password of our user at the claims register ran out over the weekend; it answers with a SOAP fault."""
    (outage,) = scene.causes

    @scene.service("claims", Order, needs="claims-register")
    def report(order: Order, work: Work) -> None:
        if outage.on:
            raise outage(more.Fault("SEC-0031 user VX4471 is locked, contact your key user", "soap:Client"))

    scene.traffic(25, Order, every=600)
    scene.run(hours=60)
    outage.on = True
    scene.traffic(9, Order, every=600)
    scene.run(hours=2)


@incident("dependency")
def policy_database_without_a_listener(scene: Scene) -> None:
    """The database's listener did not start after a patch night; forty minutes later it was started by hand."""
    (outage,) = scene.causes

    @scene.service("policies", Invoice)
    def look_up(invoice: Invoice, work: Work) -> None:
        if outage.on:
            down = more.OracleError("ORA-12541", "TNS:no listener")
            raise outage(ArchiveError(f"policy of {invoice.id} could not be read")) from down

    scene.traffic(60)
    outage.on = True
    scene.traffic(40, every=60)
    outage.on = False
    scene.traffic(50)
    scene.run(hours=5)


@incident("dependency")
def partner_has_a_new_file_server(scene: Scene) -> None:
    """The freight partner replaced its file server without a word; our client refuses the unknown host key."""
    (outage,) = scene.causes

    @scene.service("waybills", Order, needs="partner-sftp")
    def put(order: Order, work: Work) -> None:
        if outage.on:
            raise outage(more.BadHostKeyException("sftp.freight.example", "AAAAB3NzaC1yc2", "AAAAC3NzaC1lZD"))

    scene.traffic(70, Order)
    outage.on = True
    scene.traffic(5, Order)


@incident("dependency")
def one_customs_office_is_away(scene: Scene) -> None:
    """Each customs office has a gateway of its own; that of one port was away for an hour and a half."""
    (outage,) = scene.causes
    offices = ("antwerp", "hamburg", "gdynia", "trieste")

    @scene.service("declarations", Order, needs="customs")
    def declare(order: Order, work: Work) -> None:
        if outage.on and order.tenant == "gdynia":
            raise outage(lib.requests_status(503, f"https://{order.tenant}.customs.example/api/declarations"))

    scene.traffic(60, Order, tenant=lambda: scene.random.choice(offices))
    outage.on = True
    scene.traffic(90, Order, every=60, tenant=lambda: scene.random.choice(offices))
    outage.on = False
    scene.traffic(40, Order, tenant=lambda: scene.random.choice(offices))
    scene.run(hours=4)


@incident("dependency")
def share_of_the_scanners_not_mounted(scene: Scene) -> None:
    """After a restart of the file server the scanners' share was not mounted: every file is 'not found'."""
    (outage,) = scene.causes

    @scene.service("capture", Upload, needs="scan-share")
    def read(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(FileNotFoundError(2, "No such file or directory", f"/mnt/scans/{upload.id}"))

    scene.traffic(80, Upload)
    outage.on = True
    scene.traffic(45, Upload)
    outage.on = False
    scene.traffic(30, Upload)
    scene.run(hours=3)


@incident("dependency")
def time_stamps_answered_with_a_page(scene: Scene) -> None:
    """The time stamp authority shows its maintenance page instead of stamps, with status 200; its port answers."""
    (outage,) = scene.causes

    @scene.service("stamping", Upload, needs="tsa")
    def stamp(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(ValueError("time stamp response: expected SEQUENCE (0x30), found 0x3c at offset 0"))

    scene.dependency("tsa", health=lambda: True)
    scene.traffic(50, Upload)
    outage.on = True
    scene.traffic(24, Upload, every=300)
    outage.on = False
    scene.traffic(20, Upload)
    scene.run(hours=4)


@incident("dependency")
def ward_system_in_its_downtime(scene: Scene) -> None:
    """The ward's system is in its monthly downtime and rejects each message; health says the same."""
    (outage,) = scene.causes

    @scene.service("findings", Order, needs="ward-system")
    async def send(order: Order, work: Work) -> None:
        if outage.on:
            raise outage(MllpReject(f"MSA|AR|{order.number}|system in scheduled downtime"))

    scene.dependency("ward-system", health=lambda: not outage.on)
    scene.traffic(40, Order)
    outage.on = True
    scene.traffic(18, Order)


@incident("dependency")
def recognition_licence_ran_out(scene: Scene) -> None:
    """The yearly licence of the text recognition ended at midnight; the purchase order lies on a desk."""
    (outage,) = scene.causes

    @scene.service("recognition", Upload)
    def recognise(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(RuntimeError("FlexNet Licensing error:-10,32. Feature has expired. Feature: OCR_PAGES"))

    scene.traffic(100, Upload)
    outage.on = True
    scene.traffic(22, Upload, every=120)
    scene.run(hours=7)


@incident("dependency")
def resolver_answers_now_and_then(scene: Scene) -> None:
    """One of three resolvers of the data centre is broken for an afternoon: each third look-up fails."""
    (outage,) = scene.causes

    @scene.service("labels", Order, needs="carrier")
    def order_label(order: Order, work: Work) -> None:
        if outage.on and scene.random.random() < 0.34:
            raise outage(
                lib.requests_refused(
                    "https://labels.carrier.example/v2/label", "[Errno -3] Temporary failure in name resolution"
                )
            )

    scene.traffic(60, Order)
    outage.on = True
    scene.traffic(120, Order, every=90)
    outage.on = False
    scene.traffic(30, Order)
    scene.run(hours=2)


@incident("dependency")
def print_queue_stopped_on_letters_day(scene: Scene) -> None:
    """The print server's queue was stopped after a paper jam; the runs of letters are events without documents."""
    (outage,) = scene.causes

    @scene.service("letter_runs", None, needs="printer")
    def hand_over(notice: Notice, work: Work) -> None:
        if outage.on:
            raise outage(more.IPPError(1286, "server-error-not-accepting-jobs"))

    scene.notices(8, every=1800, what="letter run")
    outage.on = True
    scene.notices(3, every=1800, what="letter run")


@incident("dependency")
def queue_manager_of_the_bank_gone(scene: Scene) -> None:
    """The bank's queue manager ended its channel while the payments of a day were sent, and took it up again."""
    (outage,) = scene.causes

    @scene.service("payments", Invoice, needs="bank-mq")
    def put(invoice: Invoice, work: Work) -> None:
        if outage.on:
            raise outage(more.MQMIError(2009, "MQRC_CONNECTION_BROKEN"))

    scene.traffic(10)
    outage.on = True
    scene.import_at_once(150, together=50)
    scene.run(25)
    outage.on = False
    scene.run(hours=3)


@incident("dependency")
def new_site_behind_a_closed_firewall(scene: Scene) -> None:
    """A new warehouse was put to work before its firewall was opened to the registry: nothing ever got through."""
    (outage,) = scene.causes

    @scene.service("goods_in", Order, needs="registry")
    def register(order: Order, work: Work) -> None:
        raise outage(TimeoutError(110, "Connection timed out: registry.logistics.example:8443"))

    scene.traffic(9, Order, every=120)
    scene.run(hours=1)


@incident("dependency")
def stamp_service_breaks_itself(scene: Scene) -> None:
    """Bills need the archive, which works, and the stamp service, whose new release answers 500 to all."""
    (outage,) = scene.causes

    @scene.service("bills", Invoice, needs=("bill-archive", "stamp-service"), batch=10)
    def stamp(invoices: list[Invoice], work: Work) -> None:
        if outage.on:
            raise outage(lib.HTTPStatusError(500, "https://stamps.internal.example/v1/stamp", "null"))

    scene.dependency("bill-archive", health=lambda: True)
    scene.import_at_once(60, together=10)
    scene.run(30)
    outage.on = True
    scene.import_at_once(40, together=10)
    scene.run(50)
    outage.on = False
    scene.import_at_once(40, together=10)
    scene.run(hours=3)


@incident("dependency")
def provider_sees_us_in_another_country(scene: Scene) -> None:
    """Our traffic leaves through another country since last night; the model provider does not serve it."""
    (outage,) = scene.causes

    @scene.service("summaries", Page, needs="llm")
    def summarise(page: Page, work: Work) -> None:
        if outage.on:
            text = "Country, region, or territory not supported"
            code = "unsupported_country_region_territory"
            raise outage(lib.APIStatusError(403, text, "request_forbidden", code))

    scene.traffic(60, Page)
    scene.run(hours=8)
    outage.on = True
    scene.traffic(16, Page)


@incident("dependency")
def standby_took_over_half(scene: Scene) -> None:
    """After a failover the address still points to the old database, which only reads; mended after 20 minutes."""
    (outage,) = scene.causes

    @scene.service("entries", Invoice, needs="ledger-db")
    def book(invoice: Invoice, work: Work) -> None:
        if outage.on:
            text = "cannot execute INSERT in a read-only transaction"
            statement = "INSERT INTO entries (id, amount) VALUES (%(id)s, %(amount)s)"
            raise outage(lib.OperationalError(statement, psycopg.errors.ReadOnlySqlTransaction(text)))

    scene.traffic(80)
    outage.on = True
    scene.traffic(40)
    outage.on = False
    scene.traffic(60)
    scene.run(hours=2)


@incident("dependency")
def customer_switched_its_own_key_off(scene: Scene) -> None:
    """A hospital holds the key of its files in the object store and switched it off; others are not touched."""
    (outage,) = scene.causes

    @scene.service("patient_files", Upload, needs="object-store")
    def store(upload: Upload, work: Work) -> None:
        if outage.on and upload.tenant == "st-anna":
            text = "arn:aws:kms:eu-central-1:111122223333:key/5f7c is disabled."
            raise outage(lib.BotoClientError("KMS.DisabledException", text, "PutObject", 400))

    scene.mixed_traffic(scene.documents(60, Upload), scene.documents(30, Upload, tenant="st-anna"))
    outage.on = True
    scene.mixed_traffic(scene.documents(50, Upload), scene.documents(25, Upload, tenant="st-anna"))


@incident("dependency")
def partner_shows_the_wrong_certificate(scene: Scene) -> None:
    """The dispatch partner's new load balancer shows the certificate of another name."""
    (outage,) = scene.causes

    @scene.service("dispatch", Order, needs="dispatch-partner")
    def call(order: Order, work: Work) -> None:
        if outage.on:
            text = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: Hostname mismatch (_ssl.c:1006)"
            inner = ssl.SSLCertVerificationError(1, text)
            raise outage(requests.exceptions.SSLError(inner)) from inner

    scene.traffic(35, Order)
    outage.on = True
    scene.traffic(30, Order)
    outage.on = False
    scene.run(hours=2)


@incident("dependency", groups=2)
def virus_scanner_restarts_every_hour(scene: Scene) -> None:
    """The virus scanner dies whenever it loads its signatures, ten minutes of each hour, all night."""
    (outage,) = scene.causes

    @scene.service("incoming_files", Upload, needs="scanner")
    def scan(upload: Upload, work: Work) -> None:
        if scene.minute > 60 and scene.minute % 60 < 10:
            if scene.random.random() < 0.5:
                raise outage(ConnectionRefusedError(111, "Connection refused"))
            raise outage(ConnectionResetError(104, "Connection reset by peer"))

    scene.traffic(240, Upload, every=120)
    scene.run(hours=1)


@incident("dependency")
def news_agency_revoked_our_grant(scene: Scene) -> None:
    """The news agency revoked our grant by mistake for a morning: its token endpoint answers without a token."""
    (outage,) = scene.causes

    @scene.service("agency_feed", Page)
    def fetch(page: Page, work: Work) -> None:
        answer = {"error": "invalid_grant"} if outage.on else {"access_token": "e30"}
        try:
            _ = answer["access_token"]
        except KeyError as error:
            raise outage(TokenError(f"no token for the feed, the agency answered {answer}")) from error

    scene.traffic(90, Page)
    outage.on = True
    scene.traffic(60, Page, every=180)
    outage.on = False
    scene.traffic(20, Page)
    scene.run(hours=4)


@incident("dependency")
def disk_shelf_of_the_archive_dies_slowly(scene: Scene) -> None:
    """A shelf of the long-term archive is failing: first few reads fail, then most; it was replaced at night."""
    (outage,) = scene.causes
    shares = [0.0]

    @scene.service("restoring", Upload, needs="archive")
    def restore(upload: Upload, work: Work) -> None:
        if scene.random.random() < shares[-1]:
            raise outage(OSError(5, "Input/output error", f"/archive/shelf3/{upload.number}"))

    for share in (0.0, 0.05, 0.2, 0.5, 0.9, 0.95, 0.0):
        shares.append(share)
        scene.traffic(40, Upload)
    scene.run(hours=6)
