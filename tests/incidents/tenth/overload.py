"""It works, but is asked for too much, or our machine is."""

from __future__ import annotations

import smtplib
import sqlite3

import psycopg
from playwright.sync_api import TimeoutError as BrowserTimeout

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.staging import Scene, incident
from tests.incidents.tenth import libraries as more


class Meter:
    """Takes so many calls in a window of time, and no more."""

    def __init__(self, scene: Scene, most: int, minutes: float = 1.0) -> None:
        self.scene, self.most, self.minutes = scene, most, minutes
        self.window, self.used = -1, 0

    def is_full(self, amount: int = 1) -> bool:
        """Whether this call is too much; if not, it counts."""
        window = int(self.scene.minute / self.minutes)
        if window != self.window:
            self.window, self.used = window, 0
        if self.used + amount > self.most:
            return True
        self.used += amount
        return False


@incident("overload")
def archive_import_spends_the_tokens_of_each_minute(scene: Scene) -> None:
    """An archive is imported at once, which is more than our tokens per minute at the provider of vectors."""
    (pressure,) = scene.causes
    meter = Meter(scene, 40_000)

    @scene.service("mail_vectors", Mail, needs="embedding")
    def embed(mail: Mail, work: Work) -> None:
        if meter.is_full(900 + mail.number % 300):
            text = "Rate limit reached for text-embedding-3-large in organization org-k2 on tokens per min (TPM): "
            text += (
                f"Limit 40000, Used {meter.used}, Requested {900 + mail.number % 300}. Please try again in 1.2s."
            )
            headers = {"retry-after-ms": "1200", "x-ratelimit-remaining-tokens": "0"}
            raise pressure(lib.RateLimitError(429, text, "tokens", "rate_limit_exceeded", headers))

    scene.traffic(30, Mail, every=20)
    scene.import_at_once(160, Mail, source="archive-2009.mbox")
    scene.run(12)


@incident("overload")
def quarter_end_opens_more_connections_than_the_database_has(scene: Scene) -> None:
    """At the end of the quarter all departments book at once, and the database has no connection left for some."""
    (pressure,) = scene.causes
    meter = Meter(scene, 12, 0.1)

    @scene.service("quarter_booking", Invoice, needs="database")
    def book(invoice: Invoice, work: Work) -> None:
        if meter.is_full():
            with pressure:
                raise psycopg.OperationalError(
                    'connection failed: connection to server at "10.0.4.7", port 5432 failed: '
                    "FATAL:  sorry, too many clients already"
                )

    scene.traffic(60)
    for _ in range(5):
        scene.import_at_once(30)
        scene.run(3)
    scene.run(hours=1)


@incident("overload")
def one_huge_channel_makes_its_partition_hot(scene: Scene) -> None:
    """Everyone reads one channel after an announcement: the replicas of its partition time out, for it alone."""
    (pressure,) = scene.causes
    meter = Meter(scene, 20)

    @scene.service("messages", Page, needs="message_store")
    def read(page: Page, work: Work) -> None:
        if page.tenant == "announcements" and meter.is_full():
            raise pressure(more.CassandraReadTimeout())

    scene.traffic(80, Page, every=5)
    scene.mixed_traffic(scene.documents(80, Page), scene.documents(220, Page, tenant="announcements"), every=1.0)
    scene.run(20)


@incident("overload")
def newsletter_is_slowed_down_by_the_big_mail_host(scene: Scene) -> None:
    """A newsletter goes out faster than a big mail host takes from one sender."""
    (pressure,) = scene.causes
    meter = Meter(scene, 25, 5)

    @scene.service("newsletter", Mail, needs="smtp")
    def send(mail: Mail, work: Work) -> None:
        if meter.is_full():
            text = b"4.7.28 Our system has detected an unusual rate of mail originating from your IP address."
            raise pressure(smtplib.SMTPDataError(421, text))

    scene.traffic(40, Mail, every=60)
    scene.import_at_once(120, Mail)
    scene.run(45)


@incident("overload")
def stock_rows_are_fought_over_on_the_sale_day(scene: Scene) -> None:
    """On the sale day hundreds of orders want the same few stock rows, and wait too long for locks."""
    (pressure,) = scene.causes
    meter = Meter(scene, 3, 0.05)

    @scene.service("reserving", Order, needs="stock_database")
    def reserve(order: Order, work: Work) -> None:
        if meter.is_full():
            raise pressure(psycopg.errors.LockNotAvailable("canceling statement due to lock timeout"))

    scene.traffic(70, Order, every=20)
    scene.traffic(160, Order, every=0.7)
    scene.traffic(40, Order, every=20)
    scene.run(30)


@incident("overload")
def table_was_sized_for_quiet_days(scene: Scene) -> None:
    """A backlog is written faster than the capacity that was bought for the table."""
    (pressure,) = scene.causes
    meter = Meter(scene, 45)

    @scene.service("event_rows", Order, needs="tables")
    def put(order: Order, work: Work) -> None:
        if meter.is_full():
            text = "The level of configured provisioned throughput for the table was exceeded. "
            text += "Consider increasing your provisioning level with the UpdateTable API."
            raise pressure(lib.BotoClientError("ProvisionedThroughputExceededException", text, "PutItem", 400))

    scene.traffic(60, Order, every=10)
    scene.import_at_once(150, Order)
    scene.run(6)


@incident("overload")
def two_jobs_share_the_memory_of_one_graphics_card(scene: Scene) -> None:
    """While another team's training shares the card, its memory is enough for a part of our calls only."""
    (pressure,) = scene.causes

    @scene.service("captions", Upload)
    def caption(upload: Upload, work: Work) -> None:
        if pressure.on and scene.random.random() < 0.55:
            raise pressure(
                lib.OutOfMemoryErrorOfCuda(
                    f"CUDA out of memory. Tried to allocate {scene.random.randrange(200, 900)}.00 MiB. GPU 0 has "
                    "a total capacity of 23.69 GiB of which 112.00 MiB is free. Process 28117 has 17.10 GiB."
                )
            )

    scene.traffic(50, Upload)
    pressure.on = True
    scene.traffic(90, Upload, every=10)
    pressure.on = False
    scene.traffic(20, Upload)
    scene.run(hours=3)


@incident("overload")
def browsers_starve_while_a_large_site_is_crawled(scene: Scene) -> None:
    """A crawl opens far more browser tabs than the machine has cores, and pages do not load in time."""
    (pressure,) = scene.causes
    meter = Meter(scene, 15, 0.5)

    @scene.service("rendering", Page)
    def render(page: Page, work: Work) -> None:
        if meter.is_full():
            url = f"https://www.museum.example/{page.id}"
            with pressure:
                raise BrowserTimeout(
                    f'Page.goto: Timeout 30000ms exceeded.\nCall log:\n  - navigating to "{url}"\n'
                )

    scene.traffic(45, Page, every=20)
    scene.import_at_once(100, Page, source="https://www.museum.example/")
    scene.run(20)
    scene.traffic(10, Page, every=20)


@incident("overload")
def everyone_files_on_the_last_day_of_the_deadline(scene: Scene) -> None:
    """On the last day the whole country files its taxes: the portal takes only a part of the calls."""
    (pressure,) = scene.causes

    @scene.service("filing", Invoice, needs="tax_portal")
    def file(invoice: Invoice, work: Work) -> None:
        if pressure.on and scene.random.random() < 0.6:
            headers = {"Retry-After": "90", "X-Queue-Length": str(scene.random.randrange(9000, 30000))}
            raise pressure(lib.requests_status(503, "https://portal.tax.example/filings", headers))

    scene.traffic(40, every=300)
    pressure.on = True
    scene.traffic(90, every=40)


@incident("overload")
def daily_allowance_of_the_translation_is_gone_by_the_evening(scene: Scene) -> None:
    """A catalogue is translated at once: the allowance of the day is used up; after midnight it goes on."""
    (pressure,) = scene.causes
    meter = Meter(scene, 130, 8 * 60)  # it is four in the afternoon

    @scene.service("translating", Page, needs="translator")
    def translate(page: Page, work: Work) -> None:
        if meter.is_full():
            url = "https://translation.googleapis.com/v3/projects/catalogue:translateText?alt=json"
            text = "Quota exceeded for quota metric 'v3 requests' and limit 'v3 requests per day'"
            raise pressure(more.GoogleHttpError(429, url, text, "RATE_LIMIT_EXCEEDED"))

    scene.traffic(90, Page, every=200)
    scene.import_at_once(60, Page)
    scene.run(hours=4)


@incident("overload")
def local_buffer_of_the_producer_overflows_in_bursts(scene: Scene) -> None:
    """Sensors report all at once after a storm, faster than the broker confirms: the local buffer is full."""
    (pressure,) = scene.causes
    meter = Meter(scene, 10, 0.25)

    @scene.service("forwarding", None, needs="stream")
    def forward(notice: Notice, work: Work) -> None:
        if meter.is_full():
            raise pressure(BufferError("Local: Queue full"))

    scene.notices(60, every=10)
    scene.notices(140, every=0.5)
    scene.notices(20, every=10)


@incident("overload")
def four_importers_write_to_one_small_file_database(scene: Scene) -> None:
    """Four importers were started on one database file, which lets one of them write at a time."""
    (pressure,) = scene.causes

    @scene.service("catalogue", Upload)
    def write(upload: Upload, work: Work) -> None:
        if pressure.on and scene.random.random() < 0.4:
            raise pressure(sqlite3.OperationalError("database is locked"))

    scene.traffic(60, Upload, every=10)
    pressure.on = True
    scene.traffic(200, Upload, every=2)
    pressure.on = False
    scene.traffic(30, Upload, every=10)
