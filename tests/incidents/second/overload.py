"""More is asked for than a service or the machine can give: further clients and resources."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Sequence

import psycopg

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Item, Mail, Order, Page, Upload
from tests.incidents.second import libraries as more
from tests.incidents.staging import Scene, incident


class Capacity:
    """Serves a number of requests a minute."""

    def __init__(self, scene: Scene, each_minute: int) -> None:
        self.scene, self.each_minute, self.used = scene, each_minute, Counter[int]()

    def is_full(self) -> bool:
        minute = int(self.scene.minute)
        self.used[minute] += 1
        return self.used[minute] > self.each_minute


@incident("overload")
def table_throughput_exceeded(scene: Scene) -> None:
    """An import of two hundred orders exceeds the write capacity that was bought for the table."""
    (load,) = scene.causes
    capacity = Capacity(scene, 30)

    @scene.service("order-table", Order, needs="order-table")
    def put(order: Order, work: Work) -> None:
        if capacity.is_full():
            raise load(
                lib.BotoClientError(
                    "ProvisionedThroughputExceededException",
                    "The level of configured provisioned throughput for the table was exceeded. Consider "
                    "increasing your provisioning level with the UpdateTable API.",
                    "PutItem",
                    400,
                )
            )

    scene.traffic(40, Order)
    scene.import_at_once(200, Order)
    scene.run(20)


@incident("overload")
def all_connections_of_the_ledger_taken(scene: Scene) -> None:
    """At the end of the month all connections of the ledger database are taken."""
    (load,) = scene.causes
    capacity = Capacity(scene, 10)

    @scene.service("ledger-posting", Invoice, needs="ledger")
    async def post(invoice: Invoice, work: Work) -> None:
        if capacity.is_full():
            raise load(
                more.with_fields(more.TooManyConnectionsError("sorry, too many clients already"), sqlstate="53300")
            )

    scene.traffic(30, Invoice)
    scene.import_at_once(80, Invoice)
    scene.run(15)
    scene.traffic(20, Invoice)


@incident("overload")
def sockets_of_the_worker_used_up(scene: Scene) -> None:
    """So many pages are fetched side by side that the process has no file handles left."""
    (load,) = scene.causes
    capacity = Capacity(scene, 60)

    @scene.service("crawling", Page)
    async def fetch(page: Page, work: Work) -> None:
        if capacity.is_full():
            raise load(
                lib.ClientConnectorError(f"{page.id}.example", 443, OSError(errno.EMFILE, "Too many open files"))
            )

    scene.traffic(30, Page, every=10)
    scene.import_at_once(180, Page)
    scene.run(10)


@incident("overload")
def token_budget_of_the_model(scene: Scene) -> None:
    """A reindexing sends more text to the model than our organization may in a minute."""
    (load,) = scene.causes
    capacity = Capacity(scene, 15)

    @scene.service("ruling-headlines", Upload, needs="language-model")
    async def head(upload: Upload, work: Work) -> None:
        if capacity.is_full():
            raise load(
                more.anthropic_error(
                    more.AnthropicRateLimitError,
                    429,
                    "rate_limit_error",
                    "This request would exceed your organization's rate limit of 80,000 input tokens per minute. "
                    "Please reduce the prompt length or the maximum tokens requested, or try again later.",
                )
            )

    scene.traffic(40, Upload)
    scene.import_at_once(120, Upload, together=20, source="reindex")
    scene.run(30)


@incident("overload")
def stock_rows_locked(scene: Scene) -> None:
    """During the sale everybody updates the same rows of the stock: waits for their locks run out."""
    (load,) = scene.causes
    capacity = Capacity(scene, 12)

    @scene.service("stock-reservation", Order, needs="shop-database")
    def reserve(order: Order, work: Work) -> None:
        if capacity.is_full():
            inner = more.MySQLOperationalError(1205, "Lock wait timeout exceeded; try restarting transaction")
            raise load(
                lib.OperationalError("UPDATE stock SET reserved = reserved + %(n)s WHERE sku = %(sku)s", inner)
            ) from inner

    scene.traffic(60, Order, every=10)
    scene.traffic(150, Order, every=2)


@incident("overload")
def cache_has_no_free_connection(scene: Scene) -> None:
    """Three machines were added, and the cache does not take so many clients."""
    (load,) = scene.causes
    capacity = Capacity(scene, 14)

    @scene.service("session-cache", Mail, needs="cache")
    def put(mail: Mail, work: Work) -> None:
        if capacity.is_full():
            raise load(more.RedisMaxClients("max number of clients reached"))

    scene.traffic(50, Mail, every=10)
    scene.traffic(120, Mail, every=2)
    scene.run(5)


@incident("overload")
def producer_queue_full(scene: Scene) -> None:
    """Log lines are handed to the stream faster than it takes them: the local queue is full."""
    (load,) = scene.causes
    capacity = Capacity(scene, 4)

    @scene.service("log-shipping", Upload, batch=20)
    def ship(uploads: Sequence[Item], work: Work) -> None:
        if capacity.is_full():
            raise load(BufferError("Local: Queue full"))

    scene.import_at_once(60, Upload, together=20, kind="log")
    scene.run(10)
    scene.import_at_once(240, Upload, together=20, kind="log")
    scene.run(30)


@incident("overload")
def volumes_do_not_fit_in_memory_together(scene: Scene) -> None:
    """Several volumes of tomography are loaded at once and do not fit; alone each of them does."""
    (load,) = scene.causes
    capacity = Capacity(scene, 3)

    @scene.service("volume-rendering", Upload)
    def render(upload: Upload, work: Work) -> None:
        if capacity.is_full():
            raise load(
                more.ArrayMemoryError(
                    f"Unable to allocate {1 + upload.size % 30 / 10:.2f} GiB for an array with shape "
                    f"({300 + upload.size % 400}, 512, 512) and data type float64"
                )
            )

    scene.traffic(30, Upload, kind="nii", every=60)
    scene.import_at_once(24, Upload, kind="nii")
    scene.run(45)


@incident("overload")
def weather_requests_limited(scene: Scene) -> None:
    """The weather service allows twenty requests a minute and says when to come back."""
    (load,) = scene.causes
    capacity = Capacity(scene, 20)

    @scene.service("weather-of-claims", Order)
    async def ask(order: Order, work: Work) -> None:
        if capacity.is_full():
            raise load(
                more.aiohttp_status(429, f"https://weather.example/v1/at?claim={order.id}", {"Retry-After": "40"})
            )

    scene.traffic(50, Order)
    scene.import_at_once(70, Order)
    scene.run(3)


@incident("overload")
def bulk_queue_of_the_search_cluster(scene: Scene) -> None:
    """The reindexing fills the write queue of the search cluster; a release went out just before."""
    (load,) = scene.causes
    capacity = Capacity(scene, 25)

    @scene.service("log-index", Upload, needs="search")
    def index(upload: Upload, work: Work) -> None:
        if capacity.is_full():
            raise load(
                more.elastic_error(
                    more.ElasticApiError,
                    429,
                    "es_rejected_execution_exception",
                    "rejected execution of coordinating operation [coordinating_and_primary_bytes=105906176, "
                    "max_coordinating_and_primary_bytes=107374182]",
                )
            )

    scene.traffic(60, Upload, kind="log", every=10)
    scene.deploy("4.18.1")
    scene.import_at_once(300, Upload, kind="log")
    scene.run(25)


@incident("overload")
def vision_quota_of_the_minute(scene: Scene) -> None:
    """The photos of a fair are labelled at once: the requests of a minute are used up."""
    (load,) = scene.causes
    capacity = Capacity(scene, 18)

    @scene.service("photo-labels", Upload, needs="vision")
    def label(upload: Upload, work: Work) -> None:
        if capacity.is_full():
            raise load(
                more.google_error(
                    more.ResourceExhausted,
                    429,
                    "Quota exceeded for quota metric 'Requests' and limit 'Requests per minute' of service "
                    "'vision.googleapis.com' for consumer 'project_number:41927'.",
                )
            )

    scene.traffic(40, Upload, kind="jpg")
    scene.import_at_once(90, Upload, kind="jpg")
    scene.run(12)


@incident("overload")
def no_more_processes(scene: Scene) -> None:
    """Each call starts a converter; at the peak the machine cannot start another process."""
    (load,) = scene.causes
    capacity = Capacity(scene, 16)

    @scene.service("office-to-pdf", Upload)
    def convert(upload: Upload, work: Work) -> None:
        if capacity.is_full():
            raise load(BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"))

    scene.traffic(40, Upload, kind="docx")
    scene.import_at_once(64, Upload, kind="docx")
    scene.run(20)


@incident("overload")
def deadlocks_of_concurrent_merges(scene: Scene) -> None:
    """Many merges of customer records at once lock one another; one after the other they work."""
    (load,) = scene.causes
    capacity = Capacity(scene, 10)

    @scene.service("customer-merge", Order, needs="customers", batch=5)
    def merge(orders: Sequence[Item], work: Work) -> None:
        if capacity.is_full():
            try:
                raise psycopg.errors.DeadlockDetected(
                    "deadlock detected\nDETAIL:  Process 4711 waits for ShareLock on transaction 99120; "
                    "blocked by process 4720."
                )
            except psycopg.Error as error:
                raise load(RuntimeError("customers were not merged")) from error

    scene.import_at_once(30, Order, together=5)
    scene.run(10)
    scene.import_at_once(100, Order, together=5)
    scene.run(30)
