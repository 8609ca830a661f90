"""It works, but more is asked of it than it can do at once."""

from __future__ import annotations

import errno
import sqlite3

import psycopg

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Order, Page, Upload
from tests.incidents.staging import Scene, incident


@incident("overload")
def rate_limit_of_the_crm(scene: Scene) -> None:
    """An import of 120 orders runs into the CRM's limit of some calls a minute: 429 with Retry-After."""
    (limit,) = scene.causes
    calls = dict[int, int]()

    @scene.service("syncing", Order, needs="crm")
    def sync(order: Order, work: Work) -> None:
        minute = int(scene.minute)
        calls[minute] = calls.get(minute, 0) + 1
        if calls[minute] > 20:
            raise limit(
                lib.requests_status(429, f"https://crm.example/api/orders/{order.id}", {"Retry-After": "30"})
            )

    scene.traffic(15, Order)
    scene.import_at_once(120, Order)
    scene.run(3)


@incident("overload")
def rate_limit_without_retry_after(scene: Scene) -> None:
    """The same without a header, without needs, and half of the calls go through."""
    (limit,) = scene.causes

    @scene.service("looking-up", Order)
    async def look_up(order: Order, work: Work) -> None:
        if limit.on and scene.random.random() < 0.5:
            raise limit(lib.HTTPStatusError(429, f"https://geo.example/v1/lookup?q={order.id}", "slow down"))

    scene.traffic(20, Order)
    limit.on = True
    scene.traffic(40, Order, every=5)


@incident("overload")
def model_tokens_per_minute(scene: Scene) -> None:
    """The model provider limits tokens a minute, and we send more."""
    (limit,) = scene.causes

    @scene.service("summarising", Page, needs="model")
    async def summarise(page: Page, work: Work) -> None:
        if limit.on and scene.random.random() < 0.7:
            text = "Rate limit reached for large-2 in organization org-Xk29 on tokens per min (TPM): "
            text += f"Limit 200000, Used 198{page.number}. Please try again in 7.3s."
            raise limit(lib.RateLimitError(429, text, "tokens", "rate_limit_exceeded", {"retry-after": "8"}))

    scene.traffic(15, Page)
    limit.on = True
    scene.import_at_once(60, Page)
    scene.run(4)


@incident("overload")
def too_many_connections(scene: Scene) -> None:
    """Twenty new workers together use up the connections of the database."""
    (limit,) = scene.causes

    @scene.service("booking", Order, needs="ledger-db")
    def book(order: Order, work: Work) -> None:
        if limit.on and scene.random.random() < 0.4:
            raise limit(psycopg.OperationalError("connection failed: FATAL:  sorry, too many clients already"))

    scene.traffic(20, Order)
    limit.on = True
    scene.traffic(40, Order, every=10)


@incident("overload")
def sqlite_is_locked(scene: Scene) -> None:
    """Too many writers share one SQLite file: now and then one waits in vain."""
    (limit,) = scene.causes

    @scene.service("recording", Mail)
    def record(mail: Mail, work: Work) -> None:
        if scene.random.random() < 0.15:
            raise limit(sqlite3.OperationalError("database is locked"))

    scene.traffic(65, Mail, every=2)


@incident("overload")
def deadlocks(scene: Scene) -> None:
    """Two services update the same rows in another order: under load the database ends one of the two."""
    (limit,) = scene.causes

    @scene.service("booking", Order, needs="ledger-db")
    def book(order: Order, work: Work) -> None:
        if limit.on and scene.random.random() < 0.2:
            pid = scene.random.randrange(1000, 30_000)
            raise limit(
                psycopg.errors.DeadlockDetected(
                    f"deadlock detected\nDETAIL:  Process {pid} waits for ShareLock on transaction {pid * 31}; "
                    f"blocked by process {pid + 3}."
                )
            )

    scene.traffic(20, Order)
    limit.on = True
    scene.traffic(50, Order, every=3)


@incident("overload")
def out_of_file_handles(scene: Scene) -> None:
    """Too many handlers at once: the process has no file handles left."""
    (limit,) = scene.causes

    @scene.service("reading", Upload)
    def read(upload: Upload, work: Work) -> None:
        if limit.on and scene.random.random() < 0.5:
            raise limit(OSError(errno.EMFILE, "Too many open files", upload.path))

    scene.traffic(20, Upload)
    limit.on = True
    scene.traffic(32, Upload, every=4)


@incident("overload")
def out_of_memory_under_load(scene: Scene) -> None:
    """Eight large reports at a time do not fit into memory; one at a time they do."""
    (limit,) = scene.causes

    @scene.service("rendering", Invoice)
    def render(invoice: Invoice, work: Work) -> None:
        if limit.on and scene.random.random() < 0.5:
            raise limit(MemoryError())

    scene.traffic(26)
    limit.on = True
    scene.import_at_once(40)
    scene.run(4)


@incident("overload")
def gpu_memory(scene: Scene) -> None:
    """Two models share a graphics card since this morning; most batches run out of its memory."""
    (limit,) = scene.causes

    @scene.service("embedding", Page, batch=16, needs="gpu")
    def embed(pages: list[Page], work: Work) -> None:
        if limit.on and scene.random.random() < 0.9:
            free = scene.random.randrange(20, 400)
            raise limit(
                lib.OutOfMemoryErrorOfCuda(
                    f"CUDA out of memory. Tried to allocate 512.00 MiB. "
                    f"GPU 0 has a total capacity of 23.65 GiB of which {free}.00 MiB is free."
                )
            )

    scene.import_at_once(32, Page, together=16)
    limit.on = True
    scene.import_at_once(64, Page, together=16)
    scene.run(4)


@incident("overload")
def connection_pool_exhausted(scene: Scene) -> None:
    """Our pool of ten connections is too small for forty slots."""
    (limit,) = scene.causes

    @scene.service("matching", Order)
    def match(order: Order, work: Work) -> None:
        if limit.on and scene.random.random() < 0.35:
            raise limit(
                lib.SqlTimeoutError(
                    "QueuePool limit of size 10 overflow 5 reached, "
                    "connection timed out, timeout 30.00 (Background on this error at: https://sqlalche.me/e/20/3o7r)"
                )
            )

    scene.traffic(20, Order)
    limit.on = True
    scene.traffic(40, Order, every=3)


@incident("overload")
def object_store_slow_down(scene: Scene) -> None:
    """The object store throttles a prefix that we write too fast: SlowDown, status 503."""
    (limit,) = scene.causes

    @scene.service("uploading", Upload, needs="object-store")
    def put(upload: Upload, work: Work) -> None:
        if limit.on and scene.random.random() < 0.5:
            raise limit(lib.BotoClientError("SlowDown", "Please reduce your request rate.", "PutObject", 503))

    scene.traffic(20, Upload)
    limit.on = True
    scene.import_at_once(80, Upload)
    scene.run(4)


@incident("overload")
def throttled_table(scene: Scene) -> None:
    """The table's provisioned throughput is too small for the end of the month."""
    (limit,) = scene.causes

    @scene.service("counting", Invoice, needs="table")
    def count(invoice: Invoice, work: Work) -> None:
        if limit.on and scene.random.random() < 0.6:
            text = "The level of configured provisioned throughput for the table was exceeded. "
            text += "Consider increasing your provisioning level."
            raise limit(lib.BotoClientError("ProvisionedThroughputExceededException", text, "PutItem", 400))

    scene.traffic(20)
    limit.on = True
    scene.traffic(40, every=2)


@incident("overload")
def grpc_resource_exhausted(scene: Scene) -> None:
    """The vector service rejects what exceeds its queue."""
    (limit,) = scene.causes

    @scene.service("placing", Page, needs="vectors")
    async def place(page: Page, work: Work) -> None:
        if limit.on and scene.random.random() < 0.6:
            raise limit(
                lib.grpc_error(
                    "RESOURCE_EXHAUSTED",
                    f"queue full: {scene.random.randrange(1000, 1100)} of 1000 requests pending",
                )
            )

    scene.traffic(20, Page)
    limit.on = True
    scene.import_at_once(60, Page)
    scene.run(4)
