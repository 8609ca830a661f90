"""Too much at once, for a service outside or for our own machines."""

from __future__ import annotations

import smtplib
import sqlite3
from collections import deque

import psycopg

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Order, Page, Upload
from tests.incidents.second import libraries as more
from tests.incidents.staging import MINUTE, Scene, incident


class TranscriptionError(Exception):
    """The team's own."""


class Load:
    """Counts what was accepted within the last minute."""

    def __init__(self, scene: Scene, limit: int) -> None:
        self._scene, self._limit = scene, limit
        self._accepted = deque[float]()

    @property
    def is_too_high(self) -> bool:
        """Accept the running call, unless too many were accepted in this minute."""
        now = self._scene.world.clock.now()
        while self._accepted and self._accepted[0] <= now - MINUTE:
            self._accepted.popleft()
        if len(self._accepted) < self._limit:
            self._accepted.append(now)
            return False
        return True


@incident("overload")
def crawl_opened_too_many_files(scene: Scene) -> None:
    """A crawl of a whole site came at once: the workers have no file handles left."""
    (pressure,) = scene.causes
    load = Load(scene, 60)

    @scene.service("crawl", Page)
    def store(page: Page, work: Work) -> None:
        if load.is_too_high:
            raise pressure(OSError(24, "Too many open files", f"/var/cache/crawl/{page.number}.warc"))

    scene.traffic(40, Page)
    scene.import_at_once(260, Page)
    scene.run(10)


@incident("overload")
def chat_bot_over_its_rate(scene: Scene) -> None:
    """Monday morning: more questions come than the model's vendor allows in a minute."""
    (pressure,) = scene.causes
    load = Load(scene, 20)

    @scene.service("replies", Mail, needs="llm")
    async def reply(mail: Mail, work: Work) -> None:
        if load.is_too_high:
            raise pressure(
                more.anthropic_error(
                    more.AnthropicRateLimitError,
                    429,
                    "rate_limit_error",
                    "This request would exceed your organization's rate limit of 20 requests per minute.",
                )
            )

    scene.traffic(30, Mail)
    scene.traffic(150, Mail, every=1)


@incident("overload")
def campaign_relay_defers(scene: Scene) -> None:
    """A campaign of hundreds of mails at once: the relay defers what is over its limit."""
    (pressure,) = scene.causes
    load = Load(scene, 50)

    @scene.service("campaign", Mail, needs="relay")
    def send(mail: Mail, work: Work) -> None:
        if load.is_too_high:
            raise pressure(
                smtplib.SMTPSenderRefused(451, b"4.7.1 Too many messages, slow down", "news@shop.example")
            )

    scene.traffic(20, Mail)
    scene.import_at_once(300, Mail)
    scene.run(hours=1)


@incident("overload")
def ledger_out_of_connections(scene: Scene) -> None:
    """At the end of the month all machines ask the bookkeeping database: it has no connection left."""
    (pressure,) = scene.causes
    load = Load(scene, 40)

    @scene.service("booking", Invoice, needs="ledger")
    def book(invoice: Invoice, work: Work) -> None:
        if load.is_too_high:
            raise pressure(
                psycopg.OperationalError(
                    'connection failed: connection to server at "10.2.0.9", port 5432 failed: '
                    "FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute"
                )
            )

    scene.traffic(60)
    scene.import_at_once(120)
    scene.run(5)


@incident("overload")
def catalogue_file_locked(scene: Scene) -> None:
    """The library's catalogue is one SQLite file, and too many handlers write to it at once."""
    (pressure,) = scene.causes
    load = Load(scene, 30)

    @scene.service("catalogue", Page)
    def add(page: Page, work: Work) -> None:
        if load.is_too_high:
            raise pressure(sqlite3.OperationalError("database is locked"))

    scene.traffic(50, Page)
    scene.import_at_once(90, Page)
    scene.run(3)


@incident("overload")
def speech_card_out_of_memory(scene: Scene) -> None:
    """A day's recordings came together: the card cannot hold so many of them at once. One by one they work."""
    (pressure,) = scene.causes
    load = Load(scene, 12)

    @scene.service("transcripts", Upload)
    def transcribe(upload: Upload, work: Work) -> None:
        if load.is_too_high:
            try:
                raise lib.OutOfMemoryErrorOfCuda(
                    f"CUDA out of memory. Tried to allocate {upload.size % 900 + 100}.00 MiB. GPU 0 has a total "
                    "capacity of 23.65 GiB of which 41.94 MiB is free."
                )
            except RuntimeError as error:
                raise pressure(TranscriptionError("could not transcribe")) from error

    scene.traffic(20, Upload, every=60)
    scene.import_at_once(80, Upload)
    scene.run(30)


@incident("overload")
def stock_rows_locked_too_long(scene: Scene) -> None:
    """Hundreds of robots report at shift change: they wait too long for the lock of the same stock rows."""
    (pressure,) = scene.causes
    load = Load(scene, 70)

    @scene.service("stock", Order, needs="stock_db")
    def count(order: Order, work: Work) -> None:
        if load.is_too_high:
            raise pressure(
                more.MySQLOperationalError(1205, "Lock wait timeout exceeded; try restarting transaction")
            )

    scene.traffic(40, Order)
    scene.import_at_once(240, Order)
    scene.run(8)
    scene.traffic(20, Order)


@incident("overload")
def film_store_says_slow_down(scene: Scene) -> None:
    """A studio's whole archive is imported: the object store asks us to slow down."""
    (pressure,) = scene.causes
    load = Load(scene, 100)

    @scene.service("films", Upload, needs="bucket", batch=10)
    def copy(uploads: list[Upload], work: Work) -> None:
        if load.is_too_high:
            raise pressure(lib.BotoClientError("SlowDown", "Please reduce your request rate.", "PutObject", 503))

    scene.import_at_once(200, Upload, together=10)
    scene.run(10)
    scene.import_at_once(1800, Upload, together=10)
    scene.run(3)


@incident("overload")
def map_rendering_out_of_memory(scene: Scene) -> None:
    """A county's plans were imported at once: our machine's memory does not suffice for so many drawings."""
    (pressure,) = scene.causes
    load = Load(scene, 25)

    @scene.service("plans", Upload)
    def draw(upload: Upload, work: Work) -> None:
        if load.is_too_high:
            raise pressure(MemoryError())

    scene.traffic(45, Upload)
    scene.deploy("4.17.3")
    scene.traffic(45, Upload)
    scene.import_at_once(100, Upload)
    scene.run(20)


@incident("overload")
def ocr_pool_exhausted(scene: Scene) -> None:
    """The newspaper's weekend edition: all connections of our pool to the OCR service are in use. Read later."""
    (pressure,) = scene.causes
    load = Load(scene, 15)

    @scene.service("ocr", Page, needs="ocr_service")
    async def read(page: Page, work: Work) -> None:
        if load.is_too_high:
            raise pressure(lib.PoolTimeout())

    scene.traffic(30, Page)
    scene.import_at_once(110, Page)
    scene.run(hours=6)


@incident("overload")
def message_quota_of_the_clinic(scene: Scene) -> None:
    """A backlog of a weekend is sent to the clinic's gateway, which takes 10 messages in a minute."""
    (pressure,) = scene.causes
    load = Load(scene, 10)

    @scene.service("clinic_messages", Order, needs="gateway")
    def send(order: Order, work: Work) -> None:
        if load.is_too_high:
            raise pressure(lib.grpc_error("RESOURCE_EXHAUSTED", "too many concurrent streams"))

    scene.traffic(25, Order, every=60)
    scene.import_at_once(70, Order)
    scene.run(4)
