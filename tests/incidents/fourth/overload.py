"""It works, but is asked for too much, or our machine is."""

from __future__ import annotations

import smtplib
import sqlite3
from collections import Counter

import psycopg

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Order, Page, Upload
from tests.incidents.fourth import libraries as more
from tests.incidents.staging import Scene, incident


@incident("overload")
def backfill_over_the_tokens_of_a_minute(scene: Scene) -> None:
    """A backfill of summaries asks the model for more tokens than we may have in a minute."""
    (pressure,) = scene.causes
    tokens = Counter[int]()

    @scene.service("backfill", Page, needs="model")
    def summarise(page: Page, work: Work) -> None:
        minute = int(scene.minute)
        if tokens[minute] + 900 > 30_000:
            text = (
                f"Rate limit reached for tokens per min (TPM): Limit 30000, Used {tokens[minute]}, Requested 900."
            )
            headers = {"retry-after": "20"}
            raise pressure(lib.RateLimitError(429, text, "tokens", "rate_limit_exceeded", headers))
        tokens[minute] += 900

    scene.traffic(20, Page)
    scene.import_at_once(140, Page)
    scene.run(10)


@incident("overload")
def more_workers_than_the_database_has_places(scene: Scene) -> None:
    """An import opens more connections than the database allows; the rest of the day it is enough."""
    (pressure,) = scene.causes
    places = more.Meter(scene, 40)

    @scene.service("registering", Upload, needs="database")
    def register(upload: Upload, work: Work) -> None:
        if places.is_full():
            why = 'connection to server at "10.0.4.12", port 5432 failed: FATAL:  sorry, too many clients already'
            raise pressure(psycopg.OperationalError(why))

    scene.traffic(60, Upload, every=20)
    scene.import_at_once(150, Upload)
    scene.run(30)
    scene.traffic(20, Upload, every=20)


@incident("overload")
def too_many_pages_on_one_graphics_card(scene: Scene) -> None:
    """A box of scans arrives at once; the card has room for a dozen pages at a time, the rest pass later."""
    (pressure,) = scene.causes
    card = more.Meter(scene, 12)

    @scene.service("layout", Upload)
    def recognise(upload: Upload, work: Work) -> None:
        if card.is_full():
            wanted = 200 + upload.size % 700
            raise pressure(
                lib.OutOfMemoryErrorOfCuda(
                    f"CUDA out of memory. Tried to allocate {wanted}.00 MiB. GPU 0 has a total capacity of "
                    "23.69 GiB of which 112.50 MiB is free."
                )
            )

    scene.traffic(40, Upload, every=30)
    scene.import_at_once(45, Upload)
    scene.run(12)


@incident("overload")
def bulk_writes_trip_the_breaker_of_the_index(scene: Scene) -> None:
    """An import writes hundreds of mails in batches; the index has no memory for so many requests at once."""
    (pressure,) = scene.causes
    heap = more.Meter(scene, 8)

    @scene.service("bulk", Mail, needs="index", batch=10)
    def write(mails: list[Mail], work: Work) -> None:
        if heap.is_full():
            why = (
                "[parent] Data too large, data for [<http_request>] would be [16355096754/15.2gb], which is "
                "larger than the limit of [16320875724/15.1gb]"
            )
            raise pressure(lib.TransportApiError(429, "circuit_breaking_exception", why))

    scene.import_at_once(60, Mail, together=10)
    scene.run(30)
    scene.import_at_once(240, Mail, together=10)
    scene.run(8)


@incident("overload")
def month_end_statements_flood_the_relay(scene: Scene) -> None:
    """At the end of the month all statements are mailed at once; the relay takes only so many connections."""
    (pressure,) = scene.causes
    relay = more.Meter(scene, 25)

    @scene.service("statements_out", Invoice, needs="relay")
    def send(invoice: Invoice, work: Work) -> None:
        if relay.is_full():
            raise pressure(smtplib.SMTPConnectError(421, b"4.7.0 Too many concurrent connections from 10.2.0.9"))

    scene.traffic(30)
    scene.import_at_once(120)
    scene.run(45)
    scene.traffic(30)


@incident("overload")
def store_asks_us_to_slow_down(scene: Scene) -> None:
    """A migration copies a whole archive under one prefix of the object store; it goes on."""
    (pressure,) = scene.causes
    prefix = more.Meter(scene, 50)

    @scene.service("migration", Mail, needs="object store")
    def copy(mail: Mail, work: Work) -> None:
        if prefix.is_full():
            text = "Please reduce your request rate."
            raise pressure(lib.BotoClientError("SlowDown", text, "CopyObject", 503))

    scene.traffic(30, Mail)
    for _ in range(3):
        scene.import_at_once(80, Mail)
        scene.run(1)


@incident("overload")
def spool_full_while_a_disk_image_is_unpacked(scene: Scene) -> None:
    """A collection is unpacked faster than it is worked off, and our spool is full until others are done."""
    (pressure,) = scene.causes
    free, last = [15.0], [0.0]

    @scene.service("unpacking", Upload)
    def unpack(upload: Upload, work: Work) -> None:
        free[0], last[0] = min(15.0, free[0] + (scene.minute - last[0]) * 4), scene.minute
        free[0] -= 1
        if free[0] < 0:
            free[0] = 0.0
            raise pressure(OSError(28, "No space left on device", f"/var/spool/unpack/{upload.number}"))

    scene.traffic(25, Upload, every=60)
    scene.import_at_once(50, Upload)
    scene.run(25)
    scene.traffic(15, Upload, every=60)


@incident("overload")
def embeddings_slower_with_every_batch(scene: Scene) -> None:
    """A crawl brings pages ever faster; above what the embedding server can do, part of the calls time out."""
    (pressure,) = scene.causes
    server = more.Meter(scene, 12)

    @scene.service("embedding", Page, needs="embeddings")
    def embed(page: Page, work: Work) -> None:
        if server.is_full():
            raise pressure(lib.requests_timeout("embed.internal", 30))

    for every in (20.0, 10.0, 6.0, 3.0, 2.0):
        scene.traffic(50, Page, every=every)


@incident("overload")
def everybody_writes_to_the_same_file(scene: Scene) -> None:
    """Twice as many workers as usual write to one small database file during an import; most wait too long."""
    (pressure,) = scene.causes
    writers = Counter[int]()

    @scene.service("catalogue", Order, needs="catalogue")
    def write(order: Order, work: Work) -> None:
        minute = int(scene.minute)
        writers[minute] += 1
        if scene.random.random() < (writers[minute] - 10) / 40:
            raise pressure(sqlite3.OperationalError("database is locked"))

    scene.traffic(60, Order, every=10)
    scene.import_at_once(70, Order)
    scene.run(10)


@incident("overload")
def out_of_file_handles_in_an_import(scene: Scene) -> None:
    """A worker opens every attachment of an import at once; the usual traffic needs a tenth of the handles."""
    (pressure,) = scene.causes
    handles = more.Meter(scene, 30)

    @scene.service("attaching", Mail)
    def attach(mail: Mail, work: Work) -> None:
        if handles.is_full():
            raise pressure(OSError(24, "Too many open files", mail.path))

    scene.traffic(80, Mail, every=20)
    scene.import_at_once(90, Mail)
    scene.run(15)
    scene.traffic(30, Mail, every=20)


@incident("overload")
def one_mailbox_is_read_too_fast(scene: Scene) -> None:
    """The provider allows few calls a minute for each mailbox; we fetch a huge one, and others beside it."""
    (pressure,) = scene.causes
    mailbox = more.Meter(scene, 10)

    @scene.service("collecting", Mail, needs="provider")
    def collect(mail: Mail, work: Work) -> None:
        if mail.author == "ceo" and mailbox.is_full():
            url = f"https://graph.provider.example/v1.0/users/ceo/messages/{mail.number}"
            raise pressure(lib.requests_status(429, url, {"Retry-After": "30"}))

    scene.traffic(30, Mail)
    scene.publish([*scene.documents(40, Mail), *scene.documents(40, Mail, author="ceo")])
    scene.run(5)


@incident("overload")
def quota_of_the_day_used_up_at_noon(scene: Scene) -> None:
    """A reindexing used up the calls that we may make in a day; they come back at midnight."""
    (pressure,) = scene.causes
    calls = Counter[int]()

    @scene.service("drive_files", Upload, needs="drive")
    def fetch(upload: Upload, work: Work) -> None:
        day = int(scene.minute // 1440)
        if calls[day] >= 150:
            text = "Quota exceeded for quota metric 'Queries' and limit 'Queries per day' of service 'drive'"
            raise pressure(
                more.HttpError(403, f"https://drive.example/v3/{upload.number}", text, "dailyLimitExceeded")
            )
        calls[day] += 1

    scene.traffic(40, Upload, every=120)
    scene.traffic(140, Upload, every=15)
    scene.run(hours=4)
