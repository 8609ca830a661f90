"""Something outside is down, broken or refuses us: suppliers, carriers, providers, stores."""

from __future__ import annotations

import imaplib
import json
import smtplib
import ssl
import subprocess

import psycopg

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.seventh import libraries as more
from tests.incidents.staging import Scene, incident


class EnrichmentError(RuntimeError):
    """The team's own."""


@incident("dependency")
def airline_reservation_office_was_signed_off(scene: Scene) -> None:
    """The airline reservation system closed our office when a contract ended; every booking is refused since."""
    (refusal,) = scene.causes

    @scene.service("ticketing", Order, needs="reservation_system")
    def issue(order: Order, work: Work) -> None:
        if refusal.on:
            raise refusal(more.Fault("11|Session|OFFICE NCE1A09S5 NOT ACTIVE - CONTACT HELP DESK", "soap:Client"))

    scene.traffic(45, Order, every=60)
    refusal.on = True
    scene.traffic(12, Order, every=60)
    scene.run(hours=3)


@incident("dependency")
def short_message_centre_changed_its_password(scene: Scene) -> None:
    """The carrier changed the password of our account, and the mail about it went to somebody who has left."""
    (refusal,) = scene.causes

    @scene.service("texting", Order, needs="short_message_centre")
    def send(order: Order, work: Work) -> None:
        if refusal.on:
            raise refusal(more.PDUError("(13) bind_transceiver_resp: Bind Failed", 13))

    scene.traffic(60, Order, every=10)
    refusal.on = True
    scene.traffic(25, Order, every=10)


@incident("dependency")
def picture_bucket_of_one_region_has_errors(scene: Scene) -> None:
    """The object store has an incident in Frankfurt; pictures of shops in Ohio are stored as ever. It is over."""
    (outage,) = scene.causes

    @scene.service("pictures", Upload, needs="object_store")
    def store(upload: Upload, work: Work) -> None:
        if outage.on and upload.tenant in ("globex", "initech"):
            text = "We encountered an internal error. Please try again."
            raise outage(lib.BotoClientError("InternalError", text, "PutObject", 500))

    scene.traffic(80, Upload, every=15)
    outage.on = True
    scene.traffic(100, Upload, every=15)
    outage.on = False
    scene.traffic(60, Upload, every=15)
    scene.run(hours=5)


@incident("dependency")
def domain_of_one_feed_supplier_ran_out(scene: Scene) -> None:
    """A supplier forgot to renew its domain; the feeds of all other suppliers are fetched."""
    (outage,) = scene.causes

    @scene.service("feeds", Page, needs="web")
    def fetch(page: Page, work: Work) -> None:
        if outage.on and page.tenant == "garden-tools":
            url = "https://feeds.garden-tools.example/export.xml"
            raise outage(lib.requests_refused(url, "[Errno -2] Name or service not known"))

    def feeds(count: int) -> None:
        others = [scene.documents(count, Page, tenant=one) for one in ("lamps", "toys", "pet-food")]
        scene.mixed_traffic(*others, scene.documents(count // 2, Page, tenant="garden-tools"), every=120)

    feeds(12)
    outage.on = True
    feeds(14)


@incident("dependency")
def fraud_score_answers_with_a_maintenance_page(scene: Scene) -> None:
    """From two until forty past two the fraud service answers with status 200 and a page for people."""
    (outage,) = scene.causes

    @scene.service("fraud_check", Order, needs="fraud_score")
    def check(order: Order, work: Work) -> None:
        answer = "<html><body>We will be back soon</body></html>" if outage.on else '{"score": 12}'
        with outage:
            json.loads(answer)

    scene.traffic(50, Order, every=60)
    outage.on = True
    scene.traffic(40, Order, every=60)
    outage.on = False
    scene.traffic(20, Order, every=60)
    scene.retry_all()


@incident("dependency")
def new_proxy_of_the_network_team_breaks_trust(scene: Scene) -> None:
    """The network team put a proxy in between that signs with its own root, which nobody trusts."""
    (outage,) = scene.causes

    @scene.service("tax", Invoice, needs="tax_rates")
    def rate(invoice: Invoice, work: Work) -> None:
        if outage.on:
            reason = "certificate verify failed: self-signed certificate in certificate chain (_ssl.c:1006)"
            raise outage(ssl.SSLCertVerificationError(1, f"[SSL: CERTIFICATE_VERIFY_FAILED] {reason}"))

    scene.traffic(30)
    outage.on = True
    scene.traffic(9)


@incident("dependency")
def basket_store_without_a_quorum_on_and_off(scene: Scene) -> None:
    """Two of three Cassandra nodes restart again and again: ten minutes well, ten minutes not."""
    (outage,) = scene.causes

    @scene.service("baskets", Order, needs="cassandra")
    def keep(order: Order, work: Work) -> None:
        if outage.on:
            raise outage(more.CassandraUnavailable("LOCAL_QUORUM", 2, 1))

    for _ in range(3):
        outage.on = False
        scene.traffic(20, Order, every=30)
        outage.on = True
        scene.traffic(20, Order, every=30)


@incident("dependency")
def integration_user_of_the_ticket_desk_deactivated(scene: Scene) -> None:
    """An administrator of the support desk deactivated the user that our program works as."""
    (refusal,) = scene.causes

    @scene.service("cases", Mail, needs="support_desk")
    def open_case(mail: Mail, work: Work) -> None:
        if refusal.on:
            body = "[{'message': 'Session expired or invalid', 'errorCode': 'INVALID_SESSION_ID'}]"
            url = f"https://acme.my.salesforce.example/services/data/v59.0/sobjects/Case/50000{mail.number}"
            raise refusal(more.SalesforceExpiredSession(url, body))

    scene.traffic(35, Mail, every=90)
    refusal.on = True
    scene.traffic(18, Mail, every=90)
    scene.run(hours=5)


@incident("dependency")
def licence_server_of_the_text_recognition_gone(scene: Scene) -> None:
    """The machine with the licences of the text recognition was switched off in a clean-up of the server room."""
    (outage,) = scene.causes

    @scene.service("recognition", Upload)
    def recognise(upload: Upload, work: Work) -> None:
        if outage.on:
            text = "Cannot connect to license server system. FlexNet Licensing error:-15,570. System Error: 115"
            raise outage(
                subprocess.CalledProcessError(3, ["/opt/fre/cli", "-if", upload.path], stderr=text.encode())
            )

    scene.traffic(28, Upload, every=45)
    outage.on = True
    scene.traffic(14, Upload, every=45)
    scene.run(hours=2)


@incident("dependency")
def media_share_not_mounted_after_power_cut(scene: Scene) -> None:
    """After a power cut the share with the pictures was not mounted for an hour: no file is found."""
    (outage,) = scene.causes

    @scene.service("thumbnails", Upload)
    def shrink(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(FileNotFoundError(2, "No such file or directory", f"/mnt/media/{upload.id}"))

    scene.traffic(90, Upload)
    outage.on = True
    scene.traffic(60, Upload, every=60)
    outage.on = False
    scene.traffic(60, Upload)
    scene.run(hours=1)


@incident("dependency")
def ranking_model_unloaded_by_its_team(scene: Scene) -> None:
    """The team of the model server unloaded the version that we call; the server itself is well."""
    (outage,) = scene.causes
    scene.dependency("model_server", health=lambda: True)

    @scene.service("recommendations", Order, needs="model_server")
    def rank(order: Order, work: Work) -> None:
        if outage.on:
            text = "Request for unknown model: 'basket_ranker' version 7 is not at ready state"
            raise outage(more.InferenceServerException(text, "StatusCode.UNAVAILABLE"))

    scene.traffic(150, Order, every=5)
    outage.on = True
    scene.traffic(60, Order, every=5)


@incident("dependency")
def our_mail_server_on_a_block_list_of_one_provider(scene: Scene) -> None:
    """One large mail provider has put our address on its block list; mails to all others are delivered."""
    (refusal,) = scene.causes

    @scene.service("confirmations", Mail, needs="smtp")
    def send(mail: Mail, work: Work) -> None:
        if refusal.on and mail.kind == "outlook":
            text = b"5.7.1 Messages from [203.0.113.25] weren't sent: the network is on our block list (S3140)."
            raise refusal(smtplib.SMTPDataError(550, text))

    def mails(count: int) -> None:
        rest = [scene.documents(count, Mail, kind=one) for one in ("gmail", "webmail", "company")]
        scene.mixed_traffic(*rest, scene.documents(count, Mail, kind="outlook"), every=20)

    mails(15)
    refusal.on = True
    mails(15)


@incident("dependency")
def billing_database_left_as_read_only_copy(scene: Scene) -> None:
    """A fail-over went half-way: the address of the billing database now leads to a read-only copy."""
    (outage,) = scene.causes

    @scene.service("rating", Invoice, needs="billing_database")
    def rate(invoice: Invoice, work: Work) -> None:
        if outage.on:
            raise outage(psycopg.errors.ReadOnlySqlTransaction("cannot execute INSERT in a read-only transaction"))

    scene.traffic(100, every=10)
    outage.on = True
    scene.traffic(45, every=10)
    outage.on = False
    scene.run(hours=1)


@incident("dependency")
def session_cache_cannot_save_its_snapshot(scene: Scene) -> None:
    """The disk of the Redis machine, which another team runs, is full, and Redis takes no writes. Just begun."""
    (outage,) = scene.causes

    @scene.service("stock_levels", Order, needs="redis")
    def count(order: Order, work: Work) -> None:
        if outage.on:
            text = "Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."
            raise outage(lib.ResponseError(f"MISCONF {text}"))

    scene.traffic(120, Order, every=10)
    outage.on = True
    scene.traffic(4, Order, every=10)


@incident("dependency")
def warehouse_snapshot_host_drops_connections(scene: Scene) -> None:
    """The warehouse's SFTP host closes each connection at once; the nightly and hourly snapshots do not come."""
    (outage,) = scene.causes

    @scene.service("stock_snapshot", None, needs="warehouse")
    def pull(notice: Notice, work: Work) -> None:
        if outage.on:
            raise outage(lib.SSHException("Error reading SSH protocol banner"))

    scene.notices(20, every=3600, what="hourly snapshot")
    outage.on = True
    scene.notices(5, every=3600, what="hourly snapshot")


@incident("dependency")
def address_check_gone_but_payment_well(scene: Scene) -> None:
    """Orders need the address check and the payment provider; only the address check is not there."""
    (outage,) = scene.causes
    scene.dependency("address_check", health=lambda: not outage.on)
    scene.dependency("payments", health=lambda: True)

    @scene.service("checkout", Order, needs=("address_check", "payments"))
    def complete(order: Order, work: Work) -> None:
        if outage.on:
            raise outage(lib.grpc_error("UNAVAILABLE", "name resolver error: produced zero addresses"))

    scene.traffic(75, Order)
    outage.on = True
    scene.traffic(30, Order)


@incident("dependency")
def first_documents_before_the_vector_store_runs(scene: Scene) -> None:
    """A new installation: the vector store's container has not been started yet, and six pages were imported."""
    (outage,) = scene.causes
    outage.on = True

    @scene.service("vectors", Page, needs="vector_store")
    def add(page: Page, work: Work) -> None:
        if outage.on:
            raise outage(more.ResponseHandlingException("[Errno 111] Connection refused"))

    scene.import_at_once(6, Page)
    scene.run(4)


@incident("dependency")
def parcel_label_service_dies_by_degrees(scene: Scene) -> None:
    """The carrier's label service loses one node after the other; our number of parcels is the same all day."""
    (outage,) = scene.causes

    @scene.service("labels", Order, needs="carrier")
    def fetch_label(order: Order, work: Work) -> None:
        share = (0.0, 0.0, 0.1, 0.3, 0.6)[int(scene.minute // 30)] if scene.minute < 150 else 1.0
        if scene.random.random() < share:
            raise outage(lib.requests_timeout("labels.carrier.example", 20))

    scene.traffic(180, Order, every=60)


@incident("dependency")
def place_finder_hangs_up_and_we_say_little(scene: Scene) -> None:
    """The geocoder of another firm hangs up on each request; our error says only that enrichment failed."""
    (outage,) = scene.causes

    @scene.service("hotel_places", Page, needs="geocoder")
    def place(page: Page, work: Work) -> None:
        if outage.on:
            try:
                raise ConnectionResetError(104, "Connection reset by peer")
            except ConnectionResetError as error:
                raise outage(EnrichmentError("enrichment failed")) from error

    scene.traffic(22, Page, every=120)
    outage.on = True
    scene.traffic(4, Page, every=120)


@incident("dependency")
def virus_scanner_socket_missing(scene: Scene) -> None:
    """The virus scanner's daemon on the machine died at an update of its signatures."""
    (outage,) = scene.causes

    @scene.service("attachment_scan", Mail, needs="virus_scanner")
    def scan(mail: Mail, work: Work) -> None:
        if outage.on:
            raise outage(FileNotFoundError(2, "No such file or directory", "/var/run/clamav/clamd.ctl"))

    scene.traffic(50, Mail)
    outage.on = True
    scene.traffic(20, Mail)
    scene.run(hours=2)


@incident("dependency")
def password_of_the_subscriber_database_expired(scene: Scene) -> None:
    """The database of the subscribers lets passwords expire after 180 days, and ours became that old."""
    (refusal,) = scene.causes

    @scene.service("subscriber_sync", Order, needs="subscriber_database", batch=10)
    def sync(orders: list[Order], work: Work) -> None:
        if refusal.on:
            raise refusal(more.OracleError(28001, "the password has expired"))

    scene.import_at_once(80, Order, together=10)
    scene.run(60)
    refusal.on = True
    scene.import_at_once(40, Order, together=10)
    scene.run(30)


@incident("dependency")
def support_mailbox_closes_while_we_read(scene: Scene) -> None:
    """The mailbox server is being moved: for two hours sessions end in the middle, now and then one is whole."""
    (outage,) = scene.causes

    @scene.service("inbox", Mail, needs="imap")
    def fetch(mail: Mail, work: Work) -> None:
        if outage.on and scene.random.random() < 0.85:
            raise outage(imaplib.IMAP4.abort("socket error: EOF occurred in violation of protocol (_ssl.c:2406)"))

    scene.traffic(60, Mail, every=60)
    outage.on = True
    scene.traffic(40, Mail, every=180)
    outage.on = False
    scene.traffic(30, Mail, every=60)
