"""What is asked works, but it is asked too much, or our own machines are."""

from __future__ import annotations

import errno
import imaplib
from collections import Counter
from collections.abc import Sequence

import psycopg

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.fifth import libraries as more
from tests.incidents.staging import Scene, incident


class Meter:
    """Something that does so many things in a minute and no more."""

    def __init__(self, scene: Scene, most: int) -> None:
        self.scene, self.most, self.done = scene, most, Counter[int]()

    def is_full(self, weight: int = 1) -> bool:
        """Whether this minute's share is used up; if not, it is used."""
        minute = int(self.scene.minute)
        if self.done[minute] + weight > self.most:
            return True
        self.done[minute] += weight
        return False


class CounterLocked(Exception):
    """The team's own."""


@incident("overload")
def first_backfill_against_the_token_limit(scene: Scene) -> None:
    """A backfill of 400 pages asks for more tokens per minute than the account has; all get through in the end."""
    (pressure,) = scene.causes

    @scene.service("embeddings", Page, needs="openai")
    def embed(page: Page, work: Work) -> None:
        if tokens.is_full():
            text = "Rate limit reached for text-embedding-3-large on tokens per min (TPM): Limit 1000000."
            headers = {"retry-after": "20"}
            raise pressure(lib.RateLimitError(429, text, "tokens", "rate_limit_exceeded", headers))

    tokens = Meter(scene, 60)
    scene.traffic(30, Page)
    scene.import_at_once(400, Page, source="backfill")
    scene.run(hours=3)


@incident("overload")
def more_workers_than_connections(scene: Scene) -> None:
    """The autoscaler started workers for an import until the database had no connection left."""
    (pressure,) = scene.causes

    @scene.service("rows", Order, needs="postgres")
    def write(order: Order, work: Work) -> None:
        if slots.is_full():
            text = 'connection failed: FATAL:  sorry, too many clients already\nconnection to server at "10.0.4.2"'
            raise pressure(psycopg.OperationalError(text))

    slots = Meter(scene, 100)
    scene.traffic(60, Order)
    scene.import_at_once(350, Order)
    scene.run(4)


@incident("overload")
def table_with_too_little_capacity_for_the_sale(scene: Scene) -> None:
    """On the first day of the sale the orders exceed the capacity bought for the table, in waves of minutes."""
    (pressure,) = scene.causes

    @scene.service("carts", Order, needs="dynamodb")
    def put(order: Order, work: Work) -> None:
        if capacity.is_full():
            code, text = "ProvisionedThroughputExceededException", "The level of configured provisioned throughput"
            full = f"{text} for the table was exceeded. Consider increasing your provisioning level"
            raise pressure(lib.BotoClientError(code, full, "PutItem", 400))

    capacity = Meter(scene, 25)
    scene.traffic(60, Order, every=10)
    for _ in range(4):
        scene.traffic(90, Order, every=1)
        scene.traffic(18, Order, every=10)


@incident("overload")
def card_shared_with_the_nightly_training(scene: Scene) -> None:
    """A training job fills the graphics card at night; what is left is now enough for a batch and now not."""
    (pressure,) = scene.causes

    @scene.service("images", Upload, batch=8)
    def embed(uploads: Sequence[Upload], work: Work) -> None:
        if pressure.on and scene.random.random() < 0.3 + 0.08 * len(uploads):
            text = (
                "CUDA out of memory. Tried to allocate 1.17 GiB. GPU 0 has a total capacity of 23.69 GiB of which "
            )
            other = "402.31 MiB is free. Process 81733 has 21.06 GiB memory in use."
            raise pressure(lib.OutOfMemoryErrorOfCuda(text + other))

    def wave(count: int) -> None:
        for _ in range(count):
            scene.import_at_once(8, Upload, together=8, kind="jpg")
            scene.run(3)

    wave(20)
    pressure.on = True
    wave(20)
    pressure.on = False
    wave(10)


@incident("overload")
def everyone_updates_the_same_counter(scene: Scene) -> None:
    """Hundreds of imported documents of one customer update one row; most wait for its lock in vain at first."""
    (pressure,) = scene.causes

    @scene.service("usage", Invoice, needs="postgres")
    def count(invoice: Invoice, work: Work) -> None:
        try:
            if row.is_full():
                raise psycopg.errors.LockNotAvailable("canceling statement due to lock timeout")
        except psycopg.Error as error:
            raise pressure(CounterLocked(f"counter of {invoice.tenant} not updated")) from error

    row = Meter(scene, 40)
    scene.traffic(80, tenant="acme", every=10)
    scene.import_at_once(260, tenant="acme")
    scene.run(hours=2)


@incident("overload")
def scratch_disk_too_small_for_the_import(scene: Scene) -> None:
    """An import unpacks more at the same time than the workers' scratch disks hold."""
    (pressure,) = scene.causes

    @scene.service("unpack", Upload)
    def unpack(upload: Upload, work: Work) -> None:
        if disk.is_full():
            raise pressure(OSError(errno.ENOSPC, "No space left on device", f"/scratch/{upload.number}.tmp"))

    disk = Meter(scene, 30)
    scene.traffic(50, Upload, kind="zip")
    scene.import_at_once(150, Upload, kind="zip", source="migration")
    scene.run(3)


@incident("overload")
def model_provider_overloaded_by_everybody(scene: Scene) -> None:
    """On the day of a new model the provider has too many customers: half of our calls are turned away."""
    (pressure,) = scene.causes

    @scene.service("answers", Mail, needs="anthropic")
    def answer(mail: Mail, work: Work) -> None:
        if pressure.on and scene.random.random() < 0.5:
            raise pressure(more.OverloadedError())

    scene.traffic(80, Mail)
    pressure.on = True
    scene.traffic(100, Mail)


@incident("overload")
def send_buffer_of_the_producer_full(scene: Scene) -> None:
    """An import hands over events faster than the producer can send them."""
    (pressure,) = scene.causes

    @scene.service("events_out", Order)
    def produce(order: Order, work: Work) -> None:
        if buffer.is_full():
            raise pressure(BufferError("Local: Queue full"))

    buffer = Meter(scene, 120)
    scene.traffic(40, Order, every=5)
    scene.import_at_once(300, Order)
    scene.run(20)


@incident("overload")
def alarm_storm_into_one_channel(scene: Scene) -> None:
    """A flapping sensor makes hundreds of alarms, and the chat takes so many messages per minute."""
    (pressure,) = scene.causes

    @scene.service("alarms", None, needs="slack")
    def post(notice: Notice, work: Work) -> None:
        if channel.is_full():
            raise pressure(more.SlackApiError("ratelimited", 429))

    channel = Meter(scene, 50)
    scene.notices(40)
    scene.notices(240, every=0.4, what="sensor 12")


@incident("overload")
def browsers_for_the_whole_crawl_on_two_cores(scene: Scene) -> None:
    """The crawl was given ten times the pages per minute; the two cores of the renderers cannot keep up."""
    (pressure,) = scene.causes

    @scene.service("render", Page)
    def render(page: Page, work: Work) -> None:
        if cores.is_full():
            text = (
                f'Page.goto: Timeout 30000ms exceeded.\nCall log:\n  - navigating to "https://{page.id}.example/"'
            )
            raise pressure(more.BrowserTimeout(text))

    cores = Meter(scene, 12)
    scene.traffic(60, Page, every=10)
    scene.traffic(150, Page, every=1)
    scene.traffic(30, Page, every=20)


@incident("overload")
def recognition_queue_longer_than_our_patience(scene: Scene) -> None:
    """The text recognition serves everyone in turn; at a quarter's end the queue outlasts the time limit."""
    (pressure,) = scene.causes

    @scene.service("ocr", Upload, needs="ocr_server", time_limit=15)
    def recognise(upload: Upload, work: Work) -> None:
        if server.is_full():
            pressure.takes(16)

    server = Meter(scene, 3)
    scene.traffic(40, Upload, kind="tiff", every=30)
    scene.import_at_once(30, Upload, kind="tiff")
    scene.run(hours=1)


@incident("overload")
def proxy_sheds_what_the_index_cannot_take(scene: Scene) -> None:
    """The mesh's proxy lets so many requests through to the index and turns the rest away as unavailable."""
    (pressure,) = scene.causes

    @scene.service("index", Page, needs="index")
    def index(page: Page, work: Work) -> None:
        if proxy.is_full():
            body = "upstream connect error or disconnect/reset before headers. reset reason: overflow"
            raise pressure(lib.HTTPStatusError(503, "http://index.search.svc/bulk", body=body))

    proxy = Meter(scene, 45)
    scene.traffic(50, Page, every=10)
    scene.import_at_once(240, Page)
    scene.run(2)


@incident("overload")
def mailboxes_opened_all_at_once(scene: Scene) -> None:
    """After a weekend the archive opens every mailbox at the same time, more than the provider allows."""
    (pressure,) = scene.causes

    @scene.service("mail_archive", Mail, needs="imap")
    def fetch(mail: Mail, work: Work) -> None:
        if logins.is_full():
            raise pressure(imaplib.IMAP4.error("b'[ALERT] Too many simultaneous connections. (Failure)'"))

    logins = Meter(scene, 15)
    scene.traffic(30, Mail, every=60)
    scene.run(hours=60)
    scene.import_at_once(70, Mail)
    scene.run(30)
