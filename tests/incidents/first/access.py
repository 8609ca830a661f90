"""What we depend on works, but refuses us: a key, a certificate, an account."""

from __future__ import annotations

import imaplib
import smtplib

import psycopg
import requests

from onward import Classified, Kind, Unavailable, Work, classify
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.staging import Scene, incident


@incident("dependency")
def key_revoked_at_noon(scene: Scene) -> None:
    """The partner revoked our API key in the middle of the day: 401 for everything."""
    (refused,) = scene.causes

    @scene.service("syncing", Order, needs="partner")
    def sync(order: Order, work: Work) -> None:
        if refused.on:
            raise refused(lib.requests_status(401, f"https://api.partner.example/v1/orders/{order.id}"))

    scene.traffic(26, Order)
    refused.on = True
    scene.traffic(15, Order)


@incident("dependency")
def key_expired_without_needs(scene: Scene) -> None:
    """A token of a year ran out; the service declares no needs, and its client is of httpx."""
    (refused,) = scene.causes

    @scene.service("publishing", Page)
    async def publish(page: Page, work: Work) -> None:
        if refused.on:
            body = '{"error": "token_expired", "expired_at": "2026-11-17T00:00:00Z"}'
            raise refused(lib.HTTPStatusError(401, f"https://cms.example/api/pages/{page.id}", body))

    scene.traffic(32, Page)
    refused.on = True
    scene.traffic(20, Page)


@incident("dependency")
def out_of_credit(scene: Scene) -> None:
    """The account at the model provider has no credit left: 429, but waiting does not help."""
    (refused,) = scene.causes

    @scene.service("summarising", Page, needs="model")
    async def summarise(page: Page, work: Work) -> None:
        if refused.on:
            text = "You exceeded your current quota, please check your plan and billing details."
            raise refused(lib.RateLimitError(429, text, "insufficient_quota", "insufficient_quota"))

    scene.traffic(20, Page)
    refused.on = True
    scene.traffic(15, Page)
    scene.run(30)


@incident("dependency")
def payment_required(scene: Scene) -> None:
    """The geocoder wants to be paid: 402 since the first of the month."""
    (refused,) = scene.causes

    @scene.service("geocoding", Order, needs="geocoder")
    def geocode(order: Order, work: Work) -> None:
        if refused.on:
            raise refused(lib.requests_status(402, f"https://geo.example/search?q={order.number}"))

    scene.traffic(20, Order)
    refused.on = True
    scene.traffic(10, Order)


@incident("dependency")
def certificate_of_the_partner_expired(scene: Scene) -> None:
    """The partner forgot to renew the certificate."""
    (refused,) = scene.causes

    @scene.service("posting", Order, needs="partner")
    def post(order: Order, work: Work) -> None:
        if refused.on:
            try:
                raise lib.certificate_expired("edi.partner.example")
            except OSError as error:
                raise refused(requests.exceptions.SSLError(str(error))) from error

    scene.traffic(20, Order)
    refused.on = True
    scene.traffic(12, Order)


@incident("dependency")
def certificate_raw_and_without_needs(scene: Scene) -> None:
    """The same with the bare error of the standard library, in a service without needs and documents."""
    (refused,) = scene.causes

    @scene.service("pinging", None)
    def ping(notice: Notice, work: Work) -> None:
        if refused.on:
            raise refused(lib.certificate_expired("status.partner.example"))

    scene.notices(20)
    refused.on = True
    scene.notices(12)


@incident("dependency")
def mail_password_changed(scene: Scene) -> None:
    """Somebody changed the password of the mail account that we send with."""
    (refused,) = scene.causes

    @scene.service("mailing", Mail, needs="relay")
    def send(mail: Mail, work: Work) -> None:
        if refused.on:
            raise refused(
                smtplib.SMTPAuthenticationError(535, b"5.7.8 Error: authentication failed: UGFzc3dvcmQ6")
            )

    scene.traffic(18, Mail)
    refused.on = True
    scene.traffic(15, Mail)


@incident("dependency")
def database_password_rotated(scene: Scene) -> None:
    """The database's password was rotated, and the workers still have the old one."""
    (refused,) = scene.causes

    @scene.service("booking", Order, needs="ledger-db")
    def book(order: Order, work: Work) -> None:
        if refused.on:
            text = 'connection failed: FATAL:  password authentication failed for user "booking_rw"'
            raise refused(psycopg.OperationalError(text))

    scene.traffic(20, Order)
    refused.on = True
    scene.traffic(15, Order)


@incident("dependency")
def database_right_taken_away(scene: Scene) -> None:
    """An administrator took our role's right to a table away."""
    (refused,) = scene.causes

    @scene.service("reporting", Order)
    def report(order: Order, work: Work) -> None:
        if refused.on:
            raise refused(psycopg.errors.InsufficientPrivilege("permission denied for table monthly_totals"))

    scene.traffic(20, Order)
    refused.on = True
    scene.traffic(20, Order)


@incident("dependency")
def bucket_policy_changed(scene: Scene) -> None:
    """The owner of the bucket changed its policy: AccessDenied for each file."""
    (refused,) = scene.causes

    @scene.service("loading", Upload, needs="object-store")
    def load(upload: Upload, work: Work) -> None:
        if refused.on:
            raise refused(lib.BotoClientError("AccessDenied", "Access Denied", "GetObject", 403))

    scene.traffic(26, Upload)
    refused.on = True
    scene.traffic(20, Upload)


@incident("dependency")
def session_token_expired(scene: Scene) -> None:
    """The machine's credentials are not renewed any more, for the metadata service of the cloud is broken."""
    (refused,) = scene.causes

    @scene.service("loading", Upload, needs="object-store")
    async def load(upload: Upload, work: Work) -> None:
        if refused.on:
            text = "The provided token has expired."
            try:
                raise lib.BotoClientError("ExpiredToken", text, "GetObject", 400)
            except lib.BotoClientError as error:
                raise refused(OSError(f"cannot load s3://inbox/{upload.id}")) from error

    scene.traffic(20, Upload)
    refused.on = True
    scene.traffic(15, Upload)


@incident("dependency")
def share_without_permission(scene: Scene) -> None:
    """After a restore the share belongs to root: permission denied for every file."""
    (refused,) = scene.causes

    @scene.service("reading", Upload, needs="share")
    def read(upload: Upload, work: Work) -> None:
        if refused.on:
            raise refused(PermissionError(13, "Permission denied", upload.path))

    scene.traffic(20, Upload)
    refused.on = True
    scene.traffic(18, Upload)


@incident("dependency")
def firewall_forbids_us(scene: Scene) -> None:
    """The archive's firewall blocks our address since tonight: 403 for one of our two services."""
    (refused,) = scene.causes

    @scene.service("archiving", Upload, needs="archive")
    def archive(upload: Upload, work: Work) -> None:
        if refused.on:
            raise refused(lib.requests_status(403, f"https://archive.example/items/{upload.id}"))

    @scene.service("thumbnailing", Page)
    def shrink(page: Page, work: Work) -> None:
        """Works."""

    scene.traffic(20, Upload)
    scene.traffic(10, Page)
    refused.on = True
    scene.traffic(12, Upload)
    scene.traffic(10, Page)


@incident("dependency")
def one_tenant_cancelled_the_contract(scene: Scene) -> None:
    """One of four tenants has withdrawn our access to its mailbox; the other mailboxes work."""
    (refused,) = scene.causes

    @scene.service("fetching", Mail, needs="mailboxes")
    def fetch(mail: Mail, work: Work) -> None:
        if refused.on and mail.tenant == "initech":
            raise refused(imaplib.IMAP4.error(b"[AUTHENTICATIONFAILED] Invalid credentials (Failure)"))

    scene.traffic(20, Mail)
    refused.on = True
    scene.traffic(32, Mail)


@incident("dependency")
def grpc_unauthenticated(scene: Scene) -> None:
    """The vector service does not accept our token any more."""
    (refused,) = scene.causes

    @scene.service("placing", Page, needs="vectors", batch=8)
    def place(pages: list[Page], work: Work) -> None:
        if refused.on:
            raise refused(lib.grpc_error("UNAUTHENTICATED", "token is expired by 3h12m7s"))

    scene.import_at_once(32, Page, together=8)
    refused.on = True
    scene.import_at_once(24, Page, together=8)
    scene.run(4)


@incident("dependency")
def handler_opens_the_breaker(scene: Scene) -> None:
    """The handler recognises a locked account and opens the breaker at once, with a remedy."""
    (refused,) = scene.causes

    @scene.service("paying", Order, needs="bank")
    def pay(order: Order, work: Work) -> None:
        if refused.on:
            raise refused(Unavailable("bank", "account locked", opens=True, remedy="call the bank"))

    scene.traffic(20, Order)
    refused.on = True
    scene.traffic(5, Order)


@incident("dependency")
def own_classifier_knows_the_vault(scene: Scene) -> None:
    """A classifier of ours says that this error is the vault's; the vault is sealed after a restart."""
    (refused,) = scene.causes

    class VaultSealed(Exception):
        """Ours."""

    def judge(error: BaseException) -> Classified:
        if isinstance(error, VaultSealed):
            return Classified(Kind.TRANSIENT, unavailable=True, dependency="vault")
        return classify(error)

    @scene.service("signing", Invoice, needs=("vault", "clock"), classify=judge)
    def sign(invoice: Invoice, work: Work) -> None:
        if refused.on:
            raise refused(VaultSealed(f"cannot sign {invoice.id}"))

    scene.traffic(20)
    refused.on = True
    scene.traffic(10)


@incident("dependency")
def disk_of_the_database_is_full(scene: Scene) -> None:
    """The database server has no disk space left: it reads, but writes nothing."""
    (full,) = scene.causes

    @scene.service("booking", Order, needs="ledger-db")
    def book(order: Order, work: Work) -> None:
        if full.on:
            text = f'could not extend file "base/16401/{order.number}": No space left on device\n'
            text += "HINT:  Check free disk space."
            raise full(psycopg.errors.DiskFull(text))

    scene.traffic(20, Order)
    full.on = True
    scene.traffic(15, Order)
