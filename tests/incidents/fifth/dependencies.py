"""Something outside is down, broken, moved, or does not let us in."""

from __future__ import annotations

import ftplib
import imaplib
import json
import smtplib
import socket
import subprocess
from collections.abc import Sequence

import psycopg
import requests

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.fifth import libraries as more
from tests.incidents.staging import Scene, incident


class FetchFailed(Exception):
    """The crawler's own."""


@incident("dependency")
def vector_shard_without_a_replica(scene: Scene) -> None:
    """Both nodes that held one of four shards of the vector store died; points of the other shards are written."""
    (outage,) = scene.causes

    @scene.service("vectors", Page, needs="qdrant")
    def upsert(page: Page, work: Work) -> None:
        if outage.on and page.number % 4 == 2:
            text = "Service internal error: The replica set for shard 2 on peer 771 has no active replica"
            raise outage(more.UnexpectedResponse(500, "Internal Server Error", text))

    scene.traffic(60, Page)
    outage.on = True
    scene.traffic(60, Page)


@incident("dependency")
def credit_of_the_embedding_account_is_used_up(scene: Scene) -> None:
    """The credit card behind the provider's account expired; it answers 429 to everything until someone pays."""
    (outage,) = scene.causes

    @scene.service("embeddings", Page, needs="openai")
    def embed(page: Page, work: Work) -> None:
        if outage.on:
            text = "You exceeded your current quota, please check your plan and billing details."
            raise outage(lib.RateLimitError(429, text, "insufficient_quota", "insufficient_quota"))

    scene.traffic(120, Page)
    outage.on = True
    scene.traffic(25, Page, every=120)
    scene.run(hours=9)


@incident("dependency")
def brokers_patched_one_after_the_other(scene: Scene) -> None:
    """Kafka's brokers were patched; three times for some minutes there were too few replicas in sync."""
    (outage,) = scene.causes

    @scene.service("click_stream", None, needs="kafka")
    def forward(notice: Notice, work: Work) -> None:
        if outage.on:
            raise outage(more.NotEnoughReplicasError())

    scene.notices(60)
    for _ in range(3):
        outage.on = True
        scene.notices(8)
        outage.on = False
        scene.notices(20)


@incident("dependency")
def bucket_of_one_customer_locked_by_security(scene: Scene) -> None:
    """The security team tightened the policy of one customer's bucket; all other buckets can be written."""
    (outage,) = scene.causes

    @scene.service("archive", Upload, needs="s3")
    def store(upload: Upload, work: Work) -> None:
        if outage.on and upload.tenant == "umbrella":
            raise outage(lib.BotoClientError("AccessDenied", "Access Denied", "PutObject", 403))

    scene.traffic(80, Upload)
    outage.on = True
    scene.traffic(50, Upload)
    scene.run(hours=3)


@incident("dependency")
def model_server_not_started_on_the_first_day(scene: Scene) -> None:
    """A new installation got its first documents before anybody had started the inference server."""
    (outage,) = scene.causes
    scene.dependency("triton", health=lambda: not outage.on)

    @scene.service("entities", Page, needs="triton")
    def infer(page: Page, work: Work) -> None:
        if outage.on:
            text = "failed to connect to all addresses; last error: ipv4:10.2.0.9:8001: Connection refused"
            raise outage(more.InferenceServerException("StatusCode.UNAVAILABLE", text))

    outage.on = True
    scene.traffic(5, Page)


@incident("dependency")
def writer_pointed_at_the_standby(scene: Scene) -> None:
    """After a fail-over the database's name led to the standby for six minutes: nothing could be written."""
    (outage,) = scene.causes

    @scene.service("ledger_rows", Order, needs="postgres")
    def write(order: Order, work: Work) -> None:
        if outage.on:
            raise outage(psycopg.errors.ReadOnlySqlTransaction("cannot execute INSERT in a read-only transaction"))

    scene.traffic(100, Order, every=10)
    outage.on = True
    scene.traffic(36, Order, every=10)
    outage.on = False
    scene.traffic(60, Order, every=10)
    scene.run(hours=1)


@incident("dependency")
def vault_sealed_after_a_restart(scene: Scene) -> None:
    """The secret store was restarted at night and stayed sealed; the warehouse that is also needed was well."""
    (outage,) = scene.causes

    @scene.service("exports", Invoice, needs=("vault", "warehouse"))
    def export(invoice: Invoice, work: Work) -> None:
        if outage.on:
            raise outage(more.VaultDown("Vault is sealed, on get http://vault:8200/v1/secret/data/warehouse"))

    scene.traffic(40, every=300)
    outage.on = True
    scene.traffic(12, every=300)


@incident("dependency")
def resolver_gone_for_the_crawler(scene: Scene) -> None:
    """The cluster's DNS pods were evicted for twenty minutes; the crawler says only that a fetch failed."""
    (outage,) = scene.causes

    @scene.service("crawl", Page, needs="internet")
    def fetch(page: Page, work: Work) -> None:
        try:
            if outage.on:
                raise socket.gaierror(-3, "Temporary failure in name resolution")
        except OSError as error:
            raise outage(FetchFailed(f"fetch of /{page.id} failed")) from error

    scene.traffic(150, Page, every=6)
    outage.on = True
    scene.traffic(200, Page, every=6)
    outage.on = False
    scene.traffic(50, Page, every=6)
    scene.run(hours=1)


@incident("dependency")
def one_website_of_many_is_off(scene: Scene) -> None:
    """One of the crawled websites moved to another hoster over the weekend and does not answer at all."""
    (outage,) = scene.causes
    sites = ["city-news.example", "law-blog.example", "gazette.example", "port-authority.example"]

    @scene.service("render", Page, needs="web")
    def render(page: Page, work: Work) -> None:
        if outage.on and page.tenant == "gazette.example":
            url = f"https://{page.tenant}/{page.id}"
            raise outage(more.BrowserError(f"Page.goto: net::ERR_CONNECTION_TIMED_OUT at {url}"))

    scene.traffic(90, Page, tenant=lambda: scene.random.choice(sites))
    outage.on = True
    scene.traffic(90, Page, tenant=lambda: scene.random.choice(sites))
    scene.run(hours=5)


@incident("dependency")
def licence_server_of_the_ocr_engine(scene: Scene) -> None:
    """The machine with the OCR engine's licences is off; the engine's program ends with its own exit status."""
    (outage,) = scene.causes

    @scene.service("ocr", Upload, needs="licences")
    def recognise(upload: Upload, work: Work) -> None:
        if outage.on:
            command = ["ocrengine", "--lang", "deu", upload.path]
            said = "licence checkout failed: -15,570 cannot connect to 27000@lic01"
            error = subprocess.CalledProcessError(3, command, stderr=said)
            raise outage(RuntimeError(f"{said} (exit status 3)")) from error

    scene.traffic(45, Upload, kind="tiff", every=60)
    outage.on = True
    scene.traffic(9, Upload, kind="tiff", every=60)
    scene.run(20)


@incident("dependency")
def file_handles_stale_after_the_filer_moved(scene: Scene) -> None:
    """The filer failed over to its twin; the mount of the workers was stale until it was mounted again."""
    (outage,) = scene.causes

    @scene.service("intake", Upload)
    def read(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(OSError(116, "Stale file handle", upload.path))

    scene.traffic(70, Upload)
    outage.on = True
    scene.traffic(30, Upload)
    outage.on = False
    scene.retry_all()
    scene.traffic(30, Upload)


@incident("dependency")
def maintenance_page_instead_of_an_answer(scene: Scene) -> None:
    """The language model's gateway answered 200 with a maintenance page for 25 minutes, then all was well."""
    (outage,) = scene.causes

    @scene.service("summaries", Page, needs="llm_gateway")
    def summarise(page: Page, work: Work) -> None:
        with outage:
            json.loads("<html><h1>We'll be right back</h1></html>" if outage.on else "{}")

    scene.traffic(60, Page)
    outage.on = True
    scene.traffic(50, Page)
    outage.on = False
    scene.traffic(40, Page)
    scene.run(hours=4)


@incident("dependency")
def mail_server_of_a_customer_hangs_up(scene: Scene) -> None:
    """A customer's old mail server breaks connections off all night long, and lets every fourth one through."""
    (outage,) = scene.causes

    @scene.service("mailboxes", None, needs="imap")
    def poll(notice: Notice, work: Work) -> None:
        if outage.on and scene.random.random() < 0.75:
            raise outage(imaplib.IMAP4.abort("socket error: EOF occurred in violation of protocol (_ssl.c:2427)"))

    scene.notices(40, every=60)
    outage.on = True
    scene.notices(60, every=60)


@incident("dependency")
def customers_revoked_the_grant(scene: Scene) -> None:
    """An administrator of one customer removed our app from their drive; the other customers' drives are read."""
    (outage,) = scene.causes

    @scene.service("drive_sync", Upload, needs="google_drive")
    def sync(upload: Upload, work: Work) -> None:
        if outage.on and upload.tenant == "initech":
            answer = {"error": "invalid_grant", "error_description": "Token has been expired or revoked."}
            raise outage(more.RefreshError("invalid_grant: Token has been expired or revoked.", answer))

    scene.traffic(60, Upload, every=60)
    outage.on = True
    scene.traffic(48, Upload, every=60)


@incident("dependency")
def partner_forgot_the_intermediate_certificate(scene: Scene) -> None:
    """The carrier renewed the certificate of its API and forgot the intermediate one; nobody can verify it."""
    (outage,) = scene.causes

    @scene.service("labels", Order, needs="carrier")
    def label(order: Order, work: Work) -> None:
        if outage.on:
            text = "certificate verify failed: unable to get local issuer certificate (_ssl.c:1006)"
            raise outage(requests.exceptions.SSLError(f"[SSL: CERTIFICATE_VERIFY_FAILED] {text}"))

    scene.traffic(25, Order, every=90)
    outage.on = True
    scene.traffic(7, Order, every=90)


@incident("dependency")
def vector_store_on_a_dying_disk(scene: Scene) -> None:
    """A disk of the vector store is dying: with the same few writes as ever, more and more of them time out."""
    (outage,) = scene.causes
    share = 0.0

    @scene.service("chunks", Page, needs="milvus")
    def insert(page: Page, work: Work) -> None:
        if scene.random.random() < share:
            raise outage(more.MilvusException(1, "insert failed: deadline exceeded, wal fsync took 41.8s"))

    for share in (0.0, 0.0, 0.1, 0.3, 0.7, 1.0):  # noqa: B007 — the handler reads it
        scene.traffic(20, Page, every=60)


@incident("dependency")
def table_read_only_without_its_keeper(scene: Scene) -> None:
    """ClickHouse lost its keeper for an hour and made its tables read-only; rows come in batches."""
    (outage,) = scene.causes

    @scene.service("usage_rows", Order, needs="clickhouse", batch=50)
    def insert(orders: Sequence[Order], work: Work) -> None:
        if outage.on:
            raise outage(more.ServerException(242, "Table is in readonly mode (replica path: /tables/01/usage)"))

    scene.import_at_once(200, Order, together=50)
    outage.on = True
    scene.import_at_once(150, Order, together=50)
    scene.run(hours=1)
    outage.on = False
    scene.run(hours=2)


@incident("dependency")
def basic_login_switched_off_by_the_mail_provider(scene: Scene) -> None:
    """The mail provider ended logins with a password on the first of the month, as announced a year ago."""
    (outage,) = scene.causes

    @scene.service("outgoing", Mail, needs="smtp")
    def send(mail: Mail, work: Work) -> None:
        if outage.on:
            text = b"5.7.139 Authentication unsuccessful, basic authentication is disabled. [AM0PR01CA0123]"
            raise outage(smtplib.SMTPAuthenticationError(535, text))

    scene.traffic(50, Mail, every=200)
    outage.on = True
    scene.traffic(20, Mail, every=200)
    scene.run(hours=26)


@incident("dependency")
def search_team_rolled_its_server_back(scene: Scene) -> None:
    """The search team rolled back its server, which no longer knows a method that we have called for weeks."""
    (outage,) = scene.causes

    @scene.service("search_upserts", Page, needs="search_api")
    def upsert(page: Page, work: Work) -> None:
        if outage.on:
            raise outage(lib.grpc_error("UNIMPLEMENTED", "unknown method BulkUpsert for service search.v2.Index"))

    scene.traffic(90, Page, every=20)
    outage.on = True
    scene.traffic(30, Page, every=20)


@incident("dependency")
def partner_changed_the_password_of_the_drop(scene: Scene) -> None:
    """A partner changed the password of its FTP drop without a word; the nightly files could not be delivered."""
    (outage,) = scene.causes

    @scene.service("nightly_drop", Invoice, needs="partner_ftp")
    def deliver(invoice: Invoice, work: Work) -> None:
        if outage.on:
            raise outage(ftplib.error_perm("530 Login incorrect."))

    for night in range(4):
        outage.on = night == 3
        scene.import_at_once(20, together=20, source="nightly")
        scene.run(hours=24 if night < 3 else 1)


@incident("dependency")
def new_machines_may_not_fetch_the_model(scene: Scene) -> None:
    """The firewall of new machines blocks the model hub: half of the workers have no model, the others a copy."""
    (outage,) = scene.causes

    @scene.service("classify", Mail, needs="model_hub")
    def classify(mail: Mail, work: Work) -> None:
        if outage.on and scene.random.random() < 0.5:
            raise outage(OSError("We couldn't connect to 'https://huggingface.co' to load the files."))

    scene.traffic(60, Mail)
    outage.on = True
    scene.traffic(60, Mail)
