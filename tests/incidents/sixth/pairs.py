"""Several troubles at once or one after another, one amid healthy neighbours, and what nobody can tell."""

from __future__ import annotations

import imaplib
import json
from collections import Counter

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Order, Page, Upload
from tests.incidents.sixth import libraries as more
from tests.incidents.staging import Scene, incident


class TransferError(Exception):
    """The team's own, for everything."""


class ConverterError(Exception):
    """The team's own, without a text."""


@incident("dependency", "poison document")
def pictures_refused_and_pictures_damaged(scene: Scene) -> None:
    """Since its upgrade the picture archive does not know our name; a device also sends files without a header."""
    outage, poison = scene.causes

    @scene.service("pictures", Upload, needs="picture-archive")
    def store(upload: Upload, work: Work) -> None:
        if upload.author == "ct-2":
            raise poison(more.InvalidDicomError())
        if outage.on:
            raise outage(RuntimeError("association rejected (permanent): called AE title not recognised"))

    scene.mixed_traffic(scene.documents(70, Upload), scene.documents(3, Upload, author="ct-2"))
    outage.on = True
    scene.mixed_traffic(scene.documents(20, Upload), scene.documents(2, Upload, author="ct-2"))
    scene.run(hours=1)


@incident("bug or bad deploy", "overload")
def put_back_all_at_once_after_the_repair(scene: Scene) -> None:
    """A release could not read its own settings; after the repair everything was put back in one go, too much."""
    bug, pressure = scene.causes
    minutes = Counter[int]()

    @scene.service("full_text", Page, needs="index")
    def index(page: Page, work: Work) -> None:
        if scene.version == "4.18.0":
            with bug:
                _ = {"analyser": "german"}["analyzer"]
        minute = int(scene.minute)
        minutes[minute] += 1
        if minutes[minute] > 25:
            text = "rejected execution of coordinating operation [coordinating_and_primary_bytes=1073741824]"
            raise pressure(lib.TransportApiError(429, "es_rejected_execution_exception", text))

    scene.traffic(60, Page)
    scene.deploy("4.18.0")
    scene.traffic(120, Page, every=20)
    scene.deploy("4.18.1")
    scene.retry_all()
    scene.run(10)


@incident("dependency", "dependency")
def sealed_vault_and_then_a_lost_link(scene: Scene) -> None:
    """In the morning the vault was sealed for half an hour; in the evening the link to the database broke."""
    vault, link = scene.causes

    @scene.service("dossiers", Order, needs=("vault", "dossier-db"))
    def store(order: Order, work: Work) -> None:
        if vault.on:
            raise vault(
                more.VaultDown("Vault is sealed, on get https://vault.internal:8200/v1/secret/data/dossier")
            )
        if link.on:
            raise link(more.PyodbcError("08S01", "Communication link failure (0) (SQLExecDirectW)"))

    scene.traffic(50, Order)
    vault.on = True
    scene.traffic(30, Order, every=60)
    vault.on = False
    scene.traffic(30, Order)
    scene.run(hours=8)
    link.on = True
    scene.traffic(10, Order, every=60)


@incident("poison document", "bug or bad deploy")
def bills_of_one_utility_and_a_new_rounding(scene: Scene) -> None:
    """One utility sends broken JSON, as it has for weeks; the new release also fails on some of all bills."""
    poison, bug = scene.causes

    @scene.service("utility_bills", Invoice)
    def read(invoice: Invoice, work: Work) -> None:
        if invoice.tenant == "stadtwerk":
            with poison:
                json.loads('{"meter": 12, "reading": 0044.1}')
        if scene.version == "4.18.0" and invoice.number % 4 == 0:
            raise bug(AssertionError(f"rounded amount of {invoice.id} is negative"))

    scene.mixed_traffic(scene.documents(80), scene.documents(6, tenant="stadtwerk"))
    scene.deploy("4.18.0")
    scene.mixed_traffic(scene.documents(60), scene.documents(4, tenant="stadtwerk"))


@incident("overload", "dependency")
def over_the_tokens_and_then_no_provider(scene: Scene) -> None:
    """Back issues were summarised too fast for our tokens per minute; later the provider itself was away."""
    pressure, outage = scene.causes
    minutes = Counter[int]()

    @scene.service("summaries", Page, needs="llm")
    def summarise(page: Page, work: Work) -> None:
        if outage.on:
            raise outage(lib.InternalServerError(503, "The server is currently unavailable", "server_error", None))
        minute = int(scene.minute)
        if minutes[minute] >= 15:
            text = (
                "Rate limit reached for org-7Q on tokens per min (TPM): Limit 90000, Used 89120, Requested 2210."
            )
            raise pressure(lib.RateLimitError(429, text, "tokens", "rate_limit_exceeded"))
        minutes[minute] += 1

    scene.traffic(20, Page)
    scene.import_at_once(80, Page, together=8)
    scene.run(hours=2)
    outage.on = True
    scene.traffic(25, Page, every=60)
    outage.on = False
    scene.run(hours=2)


@incident("dependency", "poison document", "bug or bad deploy")
def three_troubles_in_three_services(scene: Scene) -> None:
    """The toll operator is down, one driver's photos are no pictures, and a release broke the rosters."""
    outage, poison, bug = scene.causes

    @scene.service("tolls", Order, needs="toll-operator")
    def toll(order: Order, work: Work) -> None:
        if outage.on:
            inner = lib.ConnectTimeout("timed out")
            raise outage(TransferError("toll data could not be transferred")) from inner

    @scene.service("photos", Upload)
    def look(upload: Upload, work: Work) -> None:
        if upload.author == "driver-19":
            raise poison(lib.UnidentifiedImageError(f"cannot identify image file '{upload.path}'"))

    @scene.service("rosters", Page)
    def plan(page: Page, work: Work) -> None:
        if scene.version == "4.18.0":
            with bug:
                _ = "8" + page.number  # type: ignore[operator]

    scene.traffic(30, Order)
    scene.mixed_traffic(scene.documents(30, Upload), scene.documents(5, Upload, author="driver-19"))
    scene.traffic(30, Page)
    outage.on = True
    scene.deploy("4.18.0")
    scene.traffic(15, Order)
    scene.mixed_traffic(scene.documents(30, Upload), scene.documents(3, Upload, author="driver-19"))
    scene.traffic(12, Page)


@incident("dependency", "bug or bad deploy")
def storage_shut_while_a_trial_runs(scene: Scene) -> None:
    """The storage account's owner shut it to our network; on the trial machine the date format is wrong."""
    outage, bug = scene.causes

    @scene.service("evidence", Upload, needs="storage-account")
    def store(upload: Upload, work: Work) -> None:
        if outage.on:
            text = "This request is not authorized to perform this operation."
            raise outage(more.HttpResponseError(403, "AuthorizationFailure", text))

    @scene.service("hearings", Invoice)
    def schedule(invoice: Invoice, work: Work) -> None:
        if scene.version == "9.1.0-trial":
            raise bug(ValueError("time data '04.05.2026' does not match format '%Y-%m-%d'"))

    scene.traffic(25, Upload)
    scene.traffic(25)
    scene.deploy("9.0.2", "9.1.0-trial")
    scene.traffic(40)
    outage.on = True
    scene.traffic(14, Upload)


@incident("poison document", "overload")
def calendar_mails_amid_a_migration(scene: Scene) -> None:
    """A migration asks the mail store for too much; seven invitations name a time zone that does not exist."""
    poison, pressure = scene.causes
    minutes = Counter[int]()

    @scene.service("migration", Mail, needs="mail-store")
    def copy(mail: Mail, work: Work) -> None:
        if mail.kind == "ics":
            raise poison(LookupError(f"unknown time zone 'Customised Time Zone {mail.number % 3}'"))
        minute = int(scene.minute)
        minutes[minute] += 1
        if minutes[minute] > 40:
            raise pressure(lib.HTTPStatusError(503, "https://mail.example/EWS/Exchange.asmx", "ErrorServerBusy"))

    scene.traffic(40, Mail)
    mails = [*scene.documents(180, Mail), *scene.documents(7, Mail, kind="ics")]
    scene.random.shuffle(mails)
    scene.publish(mails, source="mailboxes")
    scene.run(hours=1)


@incident("dependency")
def mailbox_of_the_court_closed(scene: Scene) -> None:
    """The court's administrator closed the mailbox that we fetch from; filing does not need it and goes on."""
    (outage,) = scene.causes

    @scene.service("court_mail", Mail, needs="court-imap")
    def fetch(mail: Mail, work: Work) -> None:
        if outage.on:
            raise outage(imaplib.IMAP4.error(b"[AUTHENTICATIONFAILED] Authentication failed."))

    @scene.service("filing", Order)
    def file(order: Order, work: Work) -> None:
        """Nothing goes wrong here."""

    scene.traffic(30, Mail)
    scene.traffic(30, Order)
    outage.on = True
    scene.traffic(4, Mail, every=900)
    scene.traffic(30, Order)


@incident("unclear")
def two_plans_on_the_first_day(scene: Scene) -> None:
    """On its first day a converter got two plans and ended with an exception without a text for both."""
    (unknown,) = scene.causes

    @scene.service("plans", Upload, needs="converter")
    def convert(upload: Upload, work: Work) -> None:
        raise unknown(ConverterError())

    scene.traffic(2, Upload, every=20)


@incident("unclear")
def one_parcel_once_and_nothing_since(scene: Scene) -> None:
    """After weeks without work a service got one parcel, which has just failed once; its error only says so."""
    (unknown,) = scene.causes

    @scene.service("parcels", Order, needs="depot")
    def hand_over(order: Order, work: Work) -> None:
        raise unknown(TransferError("transfer failed"))

    scene.traffic(1, Order, every=2)
