"""Everything works, but is asked for too much: imports, backlogs, Monday mornings, small machines."""

from __future__ import annotations

import psycopg

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Order, Page, Upload
from tests.incidents.ninth import libraries as more
from tests.incidents.staging import Scene, incident


@incident("overload")
def archive_import_over_the_token_rate_of_the_embeddings(scene: Scene) -> None:
    """The archive of a university is imported at once; the provider lets six batches a minute through."""
    (pressure,) = scene.causes
    meter = more.Meter(scene, 6)

    @scene.service("embed_chunks", Page, needs="embeddings", batch=16)
    def embed(pages: list[Page], work: Work) -> None:
        if meter.is_full():
            text = (
                "Rate limit reached for text-embedding-3-small in organization org-Qk1 on tokens per min (TPM): "
                "Limit 1000000, Used 993120, Requested 14210."
            )
            raise pressure(
                lib.RateLimitError(429, text, "tokens", "rate_limit_exceeded", {"retry-after": "12"}), *pages
            )

    scene.traffic(20, Page)
    scene.import_at_once(480, Page, together=16)
    scene.run(12)


@incident("overload")
def more_workers_than_connections_of_the_database(scene: Scene) -> None:
    """Workers were added for a deadline, and together they open more connections than the database has."""
    (pressure,) = scene.causes
    meter = more.Meter(scene, 40, 0.1)

    @scene.service("case_index", Order, needs="database")
    def index(order: Order, work: Work) -> None:
        if meter.is_full():
            text = (
                'connection failed: connection to server at "10.20.0.15", port 5432 failed: '
                "FATAL:  sorry, too many clients already"
            )
            raise pressure(psycopg.OperationalError(text))

    scene.traffic(60, Order)
    scene.import_at_once(200, Order)
    scene.run(20)
    scene.traffic(15, Order)


@incident("overload")
def graphics_card_shared_with_a_training_run(scene: Scene) -> None:
    """While many scans come at once, the graphics card has no room for all; a few at a time always fit."""
    (pressure,) = scene.causes
    meter = more.Meter(scene, 12, 0.25)

    @scene.service("layout", Upload)
    def analyse(upload: Upload, work: Work) -> None:
        if meter.is_full():
            text = (
                "CUDA out of memory. Tried to allocate 1.12 GiB. GPU 0 has a total capacity of 23.68 GiB "
                "of which 402.19 MiB is free."
            )
            raise pressure(lib.OutOfMemoryErrorOfCuda(text))

    scene.traffic(50, Upload)
    scene.import_at_once(70, Upload)
    scene.run(15)
    scene.traffic(30, Upload)


@incident("overload")
def mailbox_server_asks_us_to_come_back_later(scene: Scene) -> None:
    """A litigation hold copies a large mailbox, and the mail server throttles what is over its budget."""
    (pressure,) = scene.causes
    meter = more.Meter(scene, 25, counts_refused=True)

    @scene.service("mailbox_copy", Mail, needs="exchange")
    def copy(mail: Mail, work: Work) -> None:
        if meter.is_full():
            raise pressure(more.ErrorServerBusy(7.5))

    scene.traffic(40, Mail)
    scene.traffic(240, Mail, every=1.5)


@incident("overload")
def parallel_imports_deadlock_in_the_same_tables(scene: Scene) -> None:
    """Four large deliveries are written at once into the same tables, and lock each other out now and then."""
    (pressure,) = scene.causes
    busy = [0.0]

    @scene.service("party_index", Invoice, needs="database")
    def write(invoice: Invoice, work: Work) -> None:
        if scene.random.random() < busy[0]:
            text = (
                "deadlock detected\nDETAIL:  Process 20711 waits for ShareLock on transaction 8812044; "
                "blocked by process 20698."
            )
            raise pressure(psycopg.errors.DeadlockDetected(text))

    scene.traffic(80)
    busy[0] = 0.35
    for source in ("delivery-1", "delivery-2", "delivery-3", "delivery-4"):
        scene.import_at_once(50, source=source)
    scene.run(2)
    busy[0] = 0.02
    scene.run(30)
    scene.traffic(30)


@incident("overload")
def whole_archive_copied_anew_faster_than_the_store_allows(scene: Scene) -> None:
    """The whole archive is copied to colder storage with all workers, and the object store slows us down."""
    (pressure,) = scene.causes
    meter = more.Meter(scene, 60)

    @scene.service("cold_copy", Upload, needs="object_store")
    def copy(upload: Upload, work: Work) -> None:
        if meter.is_full():
            raise pressure(lib.BotoClientError("SlowDown", "Please reduce your request rate.", "PutObject", 503))

    scene.traffic(30, Upload)
    scene.traffic(240, Upload, every=0.6)
    scene.run(10)


@incident("overload")
def scratch_disk_full_while_a_huge_delivery_is_unpacked(scene: Scene) -> None:
    """A delivery of films is unpacked all at once and fills our scratch disk; with fewer at a time it fits."""
    (pressure,) = scene.causes
    meter = more.Meter(scene, 15, 2.0)

    @scene.service("unpack_films", Upload)
    def unpack(upload: Upload, work: Work) -> None:
        if meter.is_full():
            raise pressure(OSError(28, "No space left on device", f"/scratch/unpack/{upload.number}"))

    scene.traffic(40, Upload, every=60)
    scene.import_at_once(65, Upload, source="films")
    scene.run(25)


@incident("overload")
def small_machine_recognises_a_box_of_scans_too_slowly(scene: Scene) -> None:
    """Boxes of scans come all at once one morning; the processors are shared, and many scans take too long."""
    (pressure,) = scene.causes
    waiting = [0]

    @scene.service("scan_text", Upload, time_limit=90)
    def recognise(upload: Upload, work: Work) -> None:
        waiting[0] -= 1
        if waiting[0] > 0 and waiting[0] % 3:
            pressure.takes(91)

    scene.traffic(60, Upload)
    waiting[0] = 60
    scene.import_at_once(60, Upload, source="boxes")
    scene.run(hours=2)
    scene.traffic(20, Upload)


@incident("overload")
def connection_pool_too_small_on_monday_morning(scene: Scene) -> None:
    """On Monday morning everybody's mails come at once, and the pool of connections is too small for it."""
    (pressure,) = scene.causes
    meter = more.Meter(scene, 20, 0.2)

    @scene.service("mail_meta", Mail, needs="database")
    def write(mail: Mail, work: Work) -> None:
        if meter.is_full():
            text = "QueuePool limit of size 5 overflow 10 reached, connection timed out, timeout 30.00"
            raise pressure(lib.SqlTimeoutError(text))

    scene.traffic(50, Mail)
    scene.run(hours=12)
    scene.traffic(300, Mail, every=0.3)
    scene.traffic(30, Mail, every=20)
    scene.run(20)


@incident("overload")
def search_cluster_trips_its_breaker_on_large_bulks(scene: Scene) -> None:
    """A new index is filled from everything that there is, and the cluster's heap is too small for the bulks."""
    (pressure,) = scene.causes
    meter = more.Meter(scene, 5, 0.5)

    @scene.service("refill", Page, needs="search", batch=20)
    def fill(pages: list[Page], work: Work) -> None:
        if len(pages) > 5 and meter.is_full():
            reason = (
                "[parent] Data too large, data for [<http_request>] would be [4093284320/3.8gb], "
                "which is larger than the limit of [4080218931/3.7gb]"
            )
            raise pressure(lib.TransportApiError(429, "circuit_breaking_exception", reason), *pages)

    scene.traffic(20, Page)
    scene.import_at_once(400, Page, together=20)
    scene.run(15)


@incident("overload")
def answers_of_the_language_model_slower_than_we_wait(scene: Scene) -> None:
    """Our own model server answers eight requests a minute; a backlog of contracts waits longer than it may."""
    (pressure,) = scene.causes
    meter = more.Meter(scene, 8)

    @scene.service("clauses", Order, needs="model_server")
    def find(order: Order, work: Work) -> None:
        if meter.is_full():
            raise pressure(lib.requests_timeout("llm.internal", 30))

    scene.traffic(40, Order)
    scene.traffic(90, Order, every=3)
    scene.traffic(10, Order, every=60)
    scene.run(hours=1)
