"""It works, but is asked for too much, or our machine is: imports, sales, ends of months."""

from __future__ import annotations

import smtplib
import socket
from collections import Counter

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.seventh import libraries as more
from tests.incidents.staging import Scene, incident


class Meter:
    """What can be done in a while; the rest is too much."""

    def __init__(self, scene: Scene, most: int, minutes: float = 1.0) -> None:
        self.scene, self.most, self.minutes = scene, most, minutes
        self.done: Counter[int] = Counter()

    @property
    def is_over(self) -> bool:
        """Count one more, and say whether it is one too many."""
        now = int(self.scene.minute / self.minutes)
        self.done[now] += 1
        return self.done[now] > self.most


@incident("overload")
def spring_catalogue_beyond_the_memory_of_the_index(scene: Scene) -> None:
    """The spring catalogue was imported at once, and the index refuses what does not fit into its memory."""
    (pressure,) = scene.causes
    meter = Meter(scene, 45)

    @scene.service("catalogue", Page, needs="index")
    def index(page: Page, work: Work) -> None:
        if meter.is_over:
            size = 15.3 + scene.random.randrange(9) / 10
            reason = (
                f"[parent] Data too large, data for [<http_request>] would be [{size:.1f}gb], limit of [15.2gb]"
            )
            raise pressure(lib.TransportApiError(429, "circuit_breaking_exception", reason))

    scene.traffic(60, Page)
    scene.import_at_once(240, Page, source="catalogue-spring")
    scene.run(20)


@incident("overload")
def fare_searches_beyond_the_contract_in_a_sale(scene: Scene) -> None:
    """A sale doubles the searches; the airline answers those above our contract's rate with a fault."""
    (pressure,) = scene.causes
    meter = Meter(scene, 4, minutes=0.5)

    @scene.service("fares", Order, needs="airline")
    def search(order: Order, work: Work) -> None:
        if meter.is_over:
            raise pressure(more.Fault("931|Application|TRANSACTION NOT PROCESSED - THRESHOLD REACHED"))

    scene.traffic(80, Order, every=12)
    scene.traffic(140, Order, every=5)


@incident("overload")
def gallery_pictures_beyond_the_memory_of_the_machine(scene: Scene) -> None:
    """A gallery of large pictures came at once; so many are open that there is no memory for the next one."""
    (pressure,) = scene.causes
    meter = Meter(scene, 20, minutes=0.1)

    @scene.service("gallery", Upload, concurrency=64)
    def shrink(upload: Upload, work: Work) -> None:
        if meter.is_over:
            raise pressure(MemoryError())

    scene.traffic(50, Upload, every=20)
    scene.import_at_once(
        110, Upload, source="gallery", size=lambda: scene.random.randrange(40_000_000, 60_000_000)
    )
    scene.run(30)


@incident("overload")
def repricing_and_orders_wait_for_the_same_rows(scene: Scene) -> None:
    """All items are given new prices at noon while orders come in: too many wait for the same rows too long."""
    (pressure,) = scene.causes

    @scene.service("repricing", Page, needs="shop_database", batch=25)
    def reprice(pages: list[Page], work: Work) -> None:
        """The long transactions, which hold the rows."""

    @scene.service("order_lines", Order, needs="shop_database")
    def book(order: Order, work: Work) -> None:
        if pressure.on and scene.random.random() < 0.45:
            raise pressure(more.MySQLError(1205, "Lock wait timeout exceeded; try restarting transaction"))

    scene.traffic(90, Order, every=20)
    pressure.on = True
    scene.publish(scene.documents(500, Page), together=25)
    scene.traffic(60, Order, every=10)
    pressure.on = False
    scene.traffic(60, Order, every=20)


@incident("overload")
def newsletter_faster_than_the_mail_provider_takes_it(scene: Scene) -> None:
    """The newsletter is sent as fast as we can, and the provider puts us off; by the next morning all is sent."""
    (pressure,) = scene.causes
    meter = Meter(scene, 60, minutes=10)

    @scene.service("newsletter", Mail, needs="smtp")
    def send(mail: Mail, work: Work) -> None:
        if meter.is_over:
            text = b"4.7.0 Our system has detected an unusual rate of mail from your IP. Try again later."
            raise pressure(smtplib.SMTPResponseException(421, text))

    scene.traffic(40, Mail)
    scene.import_at_once(260, Mail, source="newsletter-31")
    scene.run(hours=3)


@incident("overload")
def scoring_too_slow_under_the_backlog(scene: Scene) -> None:
    """After a weekend's pause the backlog is scored at once; with so many at a time each is too slow."""
    (pressure,) = scene.causes
    meter = Meter(scene, 10)

    @scene.service("churn_scores", Order, time_limit=20, concurrency=16)
    def score(order: Order, work: Work) -> None:
        if pressure.on and meter.is_over:
            pressure.takes(21)

    scene.traffic(50, Order)
    pressure.on = True
    scene.import_at_once(90, Order)
    scene.run(20)
    pressure.on = False
    scene.traffic(20, Order)


@incident("overload")
def temporary_disk_full_while_archives_unpack(scene: Scene) -> None:
    """Forty mail archives are unpacked at the same time, and the disk for temporary files is too small for it."""
    (pressure,) = scene.causes
    meter = Meter(scene, 9, minutes=4)

    @scene.service("mail_archives", Upload)
    def unpack(upload: Upload, work: Work) -> None:
        if meter.is_over:
            raise pressure(OSError(28, "No space left on device", f"/tmp/unpack-{upload.number}/cur"))

    scene.traffic(20, Upload, every=120)
    scene.import_at_once(40, Upload, size=lambda: scene.random.randrange(2_000_000_000, 4_000_000_000))
    scene.run(45)


@incident("overload")
def pictures_read_beyond_the_limit_of_the_account(scene: Scene) -> None:
    """A new model is trained on all pictures: the storage account gives out no more than its rate."""
    (pressure,) = scene.causes
    meter = Meter(scene, 30)

    @scene.service("picture_features", Upload, needs="blob_store")
    def extract(upload: Upload, work: Work) -> None:
        if meter.is_over:
            raise pressure(more.HttpResponseError(503, "ServerBusy", "Egress is over the account limit."))

    scene.traffic(70, Upload, every=10)
    scene.import_at_once(180, Upload)
    scene.run(9)


@incident("overload")
def rating_engine_slow_at_the_end_of_the_month(scene: Scene) -> None:
    """All invoices are made on the last evening of the month; the engine is not done in time with all."""
    (pressure,) = scene.causes
    meter = Meter(scene, 25)

    @scene.service("month_end", Invoice, needs="rating_engine")
    def rate(invoice: Invoice, work: Work) -> None:
        if meter.is_over:
            raise pressure(lib.grpc_error("DEADLINE_EXCEEDED", "Deadline Exceeded"))

    scene.traffic(100, every=30)
    scene.traffic(200, every=1)
    scene.run(15)


@incident("overload")
def producer_queue_full_while_events_are_replayed(scene: Scene) -> None:
    """A month of clicks is replayed into the broker, faster than the producer can hand them over."""
    (pressure,) = scene.causes
    meter = Meter(scene, 50, minutes=0.25)

    @scene.service("click_replay", None, needs="broker")
    def forward(notice: Notice, work: Work) -> None:
        if meter.is_over:
            raise pressure(BufferError("Local: Queue full"))

    scene.notices(50, every=5, what="click")
    scene.notices(260, every=0.05, what="replayed click")
    scene.run(3)


@incident("overload")
def crawl_asks_for_more_names_than_the_resolver_answers(scene: Scene) -> None:
    """The crawl of all competitors' pages starts on the hour; the cluster's resolver drops what is too much."""
    (pressure,) = scene.causes
    meter = Meter(scene, 35)

    @scene.service("competitor_pages", Page)
    def fetch(page: Page, work: Work) -> None:
        if meter.is_over:
            raise pressure(socket.gaierror(-3, "Temporary failure in name resolution"))

    for _ in range(2):
        scene.traffic(30, Page, every=60)
        scene.import_at_once(80, Page, source="hourly crawl")
        scene.run(5)


@incident("unclear")
def one_label_of_five_and_an_empty_error(scene: Scene) -> None:
    """A service with five documents in its life had one failure without a text, once, and nobody found out why."""
    (unknown,) = scene.causes

    @scene.service("customs_labels", Order, needs="customs")
    def declare(order: Order, work: Work) -> None:
        if order.number == 4 and not unknown.on:
            unknown.on = True
            raise unknown(Exception())

    scene.traffic(5, Order, every=1200)
