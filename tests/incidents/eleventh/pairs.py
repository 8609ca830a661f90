"""Two or three troubles, at once or one after the other, and some that are hard to tell."""

from __future__ import annotations

import json
import smtplib
import unicodedata

import pydantic

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Mail, Order, Page, Upload
from tests.incidents.eleventh import libraries as own
from tests.incidents.eleventh.overload import Rate
from tests.incidents.staging import Scene, incident


class DirectoryError(Exception):
    """The team's own."""


class StepFailed(Exception):
    """The team's own, for everything."""


class Claim(pydantic.BaseModel):
    """What a claim must have."""

    policy: str
    amount: float


@incident("dependency", "bug or bad deploy")
def speech_service_down_while_a_release_mixes_up_its_units(scene: Scene) -> None:
    """The speech service was down for an hour; in that hour a release went out that divides by an empty length."""
    outage, bug = scene.causes

    @scene.service("recordings", Upload, needs="speech")
    def transcribe(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(lib.ServerDisconnectedError("Server disconnected"))
        if scene.version == "4.18.0":
            with bug:
                _ = upload.size / 0

    scene.traffic(50, Upload)
    outage.on = True
    scene.traffic(15, Upload)
    scene.deploy("4.18.0")
    scene.traffic(15, Upload)
    outage.on = False
    scene.traffic(35, Upload)


@incident("overload", "dependency")
def crawler_slowed_down_by_the_register_and_then_banned(scene: Scene) -> None:
    """The register first says that we ask too fast; as we went on, it banned our address for good."""
    pressure, banned = scene.causes
    rate = Rate(scene, 20)

    @scene.service("register", Page, needs="register")
    def fetch(page: Page, work: Work) -> None:
        url = f"https://register.example/companies/{page.number}"
        if banned.on:
            raise banned(lib.requests_status(403, url))
        if rate.is_over():
            raise pressure(lib.requests_status(429, url, {"Retry-After": "20"}))

    scene.traffic(30, Page)
    scene.import_at_once(120, Page)
    scene.run(3)
    banned.on = True
    scene.traffic(20, Page)


@incident("poison document", "bug or bad deploy")
def torn_scans_all_week_and_a_release_that_breaks_landscape(scene: Scene) -> None:
    """A worn cable tears a scan now and then; a release cannot rotate pages in landscape format."""
    poison, bug = scene.causes

    @scene.service("scan_pages", Upload)
    def straighten(upload: Upload, work: Work) -> None:
        if upload.text == "torn":
            raise poison(lib.PdfReadError("EOF marker not found"))
        if scene.version == "4.18.0" and upload.kind == "landscape":
            with bug:
                _ = (210, 297)[upload.number + 2]

    def week(count: int) -> None:
        landscape = scene.documents(count // 3, Upload, kind="landscape")
        scene.mixed_traffic(scene.documents(count, Upload), landscape, scene.documents(3, Upload, text="torn"))

    week(90)
    scene.deploy("4.18.0")
    week(60)


@incident("dependency", "dependency")
def object_store_out_in_the_night_and_address_register_next_day(scene: Scene) -> None:
    """One service needs two things: the store was out at night, the land register's token ended next morning."""
    store, register = scene.causes

    @scene.service("land_titles", Order, needs=("store", "land_register"))
    def file(order: Order, work: Work) -> None:
        if register.on:
            raise register(
                lib.HTTPStatusError(401, "https://land.example/api/titles", '{"error": "token_expired"}')
            )
        if store.on:
            raise store(own.S3Error("XMinioServerNotInitialized", "Server not initialized yet", "/titles"))

    scene.traffic(30, Order)
    store.on = True
    scene.traffic(14, Order)
    store.on = False
    scene.run(hours=8)
    scene.traffic(20, Order)
    register.on = True
    scene.traffic(10, Order)


@incident("poison document", "poison document")
def two_insurers_each_with_an_incomplete_export_of_claims(scene: Scene) -> None:
    """One insurer leaves out the policy, another writes amounts as words; the claims of all others are read."""
    missing, words = scene.causes

    @scene.service("claims", Order)
    def read(order: Order, work: Work) -> None:
        if order.tenant == "helvet":
            with missing:
                Claim.model_validate({"amount": 12.5})
        if order.tenant == "nordica":
            with words:
                Claim.model_validate({"policy": order.id, "amount": "zwölf"})

    scene.traffic(40, Order)
    scene.mixed_traffic(
        scene.documents(80, Order),
        scene.documents(13, Order, tenant="helvet"),
        scene.documents(8, Order, tenant="nordica"),
    )


@incident("bug or bad deploy", "poison document")
def release_wants_a_cost_centre_and_old_orders_lack_a_currency(scene: Scene) -> None:
    """A release reads a field that no order has; five orders of an old terminal lack the currency."""
    bug, poison = scene.causes

    @scene.service("accounting", Order)
    def account(order: Order, work: Work) -> None:
        fields = (
            {"total": order.size} if order.kind == "old terminal" else {"total": order.size, "currency": "CHF"}
        )
        with poison:
            _ = fields["currency"]
        if scene.version == "4.18.0":
            with bug:
                _ = fields["cost_centre"]

    scene.mixed_traffic(scene.documents(85, Order), scene.documents(5, Order, kind="old terminal"))
    scene.run(hours=2)
    scene.deploy("4.18.0")
    scene.traffic(22, Order)


@incident("overload", "bug or bad deploy")
def index_queue_full_while_a_release_addresses_a_missing_index(scene: Scene) -> None:
    """An import fills the queue of the search cluster; later a release writes to an index that nobody created."""
    pressure, bug = scene.causes
    rate = Rate(scene, 35)

    @scene.service("product_index", Page, needs="search")
    def index(page: Page, work: Work) -> None:
        if scene.version == "4.18.0":
            raise bug(lib.TransportApiError(404, "index_not_found_exception", "no such index [produkts]"))
        if rate.is_over():
            text = "rejected execution of coordinating operation [coordinating_and_primary_bytes=101, max=100]"
            raise pressure(lib.TransportApiError(429, "es_rejected_execution_exception", text))

    scene.traffic(45, Page)
    scene.import_at_once(150, Page)
    scene.run(30)
    scene.deploy("4.18.0")
    scene.traffic(28, Page)


@incident("dependency", "poison document", "bug or bad deploy")
def bad_monday_with_relay_down_odd_addresses_and_a_wrong_release(scene: Scene) -> None:
    """The relay was stopped over the weekend, four addresses are none, and Monday's release breaks subjects."""
    relay, poison, bug = scene.causes

    @scene.service("notifications", Mail, needs="relay")
    def send(mail: Mail, work: Work) -> None:
        if scene.version == "4.18.0" and mail.kind == "html":
            with bug:
                unicodedata.normalize("NFX", mail.text)  # type: ignore[arg-type]
        if relay.on:
            raise relay(smtplib.SMTPServerDisconnected("Connection unexpectedly closed"))
        if mail.author.endswith("@"):
            raise poison(
                smtplib.SMTPRecipientsRefused({mail.author: (501, b"5.1.3 Bad recipient address syntax")})
            )

    scene.mixed_traffic(scene.documents(60, Mail), scene.documents(4, Mail, author="kundenservice@", kind="txt"))
    relay.on = True
    scene.traffic(20, Mail)
    relay.on = False
    scene.run(hours=3)
    scene.deploy("4.18.0")
    scene.traffic(50, Mail)


@incident("overload", "poison document")
def summaries_over_their_rate_and_reports_over_the_context(scene: Scene) -> None:
    """A backlog is over the model's rate; two reports are longer than the model reads."""
    pressure, poison = scene.causes
    rate = Rate(scene, 25)

    @scene.service("report_summaries", Page, needs="llm")
    def summarise(page: Page, work: Work) -> None:
        if page.size > 5_000_000:
            text = f"This model's maximum context length is 128000 tokens, your messages have {page.size // 4}."
            raise poison(lib.BadRequestError(400, text, "invalid_request_error", "context_length_exceeded"))
        if rate.is_over():
            text = "Rate limit reached for requests per min (RPM): Limit 25"
            raise pressure(lib.RateLimitError(429, text, "requests", "rate_limit_exceeded", {"retry-after": "30"}))

    scene.traffic(30, Page)
    scene.publish([*scene.documents(90, Page), *scene.documents(2, Page, size=6_100_000)])
    scene.run(12)


@incident("dependency", "poison document")
def exchange_rates_gone_and_orders_with_half_a_document(scene: Scene) -> None:
    """The bank's exchange rates answer nothing at all since noon; some orders are cut off, before and after."""
    outage, poison = scene.causes

    @scene.service("exchange", Order, needs="rates")
    def convert(order: Order, work: Work) -> None:
        with poison:
            json.loads(order.text)
        if outage.on:
            with outage:
                json.loads("")

    whole, half = '{"lines": [{"sku": "A-7", "price": 12.5}]}', '{"lines": [{"sku": "A-7", "pri'
    scene.mixed_traffic(scene.documents(60, Order, text=whole), scene.documents(4, Order, text=half))
    outage.on = True
    scene.mixed_traffic(scene.documents(25, Order, text=whole), scene.documents(2, Order, text=half))


@incident("unclear")
def first_two_documents_of_a_new_step_fail_without_a_reason(scene: Scene) -> None:
    """A new step has seen two documents, both failed, and its error says nothing; the reason was never found."""
    (unknown,) = scene.causes

    @scene.service("enrichment", Page, needs="enricher")
    def enrich(page: Page, work: Work) -> None:
        raise unknown(StepFailed("step failed"))

    scene.traffic(2, Page)


@incident("dependency")
def tunnel_to_the_warehouse_flaps_all_morning(scene: Scene) -> None:
    """The VPN's line was faulty: it went away for two or three minutes, again and again."""
    (line,) = scene.causes

    @scene.service("stock_moves", Order, needs="warehouse")
    def move(order: Order, work: Work) -> None:
        if line.on:
            raise line(OSError(113, "No route to host"))

    scene.traffic(40, Order, every=20)
    for quiet in (6, 4, 9, 3, 5):
        line.on = True
        scene.traffic(7, Order, every=20)
        line.on = False
        scene.traffic(quiet * 3, Order, every=20)


@incident("dependency")
def directory_account_locked_and_a_vague_lookup_error(scene: Scene) -> None:
    """Our service account in the directory was locked; the team's wrapper says nothing of it."""
    (locked,) = scene.causes

    @scene.service("owner_lookup", Upload, needs="directory")
    def look_up(upload: Upload, work: Work) -> None:
        if locked.on:
            raise locked(DirectoryError("lookup failed")) from own.InvalidCredentials()

    scene.traffic(28, Upload)
    locked.on = True
    scene.traffic(11, Upload)
    scene.run(30)
