"""It works, but is asked for too much: imports, backfills, reindexing, quarter's ends."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Sequence

import psycopg.errors

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Item, Mail, Notice, Order, Page, Upload
from tests.incidents.eighth import libraries as more
from tests.incidents.eighth.libraries import Meter
from tests.incidents.staging import Scene, incident


class CrawlError(Exception):
    """The crawler's own."""


@incident("overload")
def regulator_forbids_what_comes_too_fast(scene: Scene) -> None:
    """All filings of a quarter are asked for at once; the regulator answers 403 to what is over its rate."""
    (pressure,) = scene.causes
    site = Meter(scene, 60)

    @scene.service("quarterly_filings", Page, needs="regulator")
    def fetch(page: Page, work: Work) -> None:
        if site.is_full():
            body = "<title>Request Rate Threshold Exceeded</title>"
            raise pressure(lib.HTTPStatusError(403, f"https://filings.example/data/{page.number}.txt", body))

    scene.traffic(60, Page, every=20)
    scene.import_at_once(240, Page)
    scene.run(30)
    scene.traffic(20, Page, every=20)


@incident("overload")
def structure_parser_has_no_free_slot_during_the_backfile(scene: Scene) -> None:
    """A publisher's backfile arrives in hundreds; the PDF parser answers 503 when its slots are taken."""
    (pressure,) = scene.causes
    slots = Meter(scene, 25)

    @scene.service("backfile", Upload, needs="grobid")
    def parse(upload: Upload, work: Work) -> None:
        if slots.is_full():
            raise pressure(lib.requests_status(503, "http://grobid:8070/api/processHeader", {"Retry-After": "5"}))

    scene.traffic(40, Upload, every=10)
    for _ in range(3):
        scene.import_at_once(80, Upload)
        scene.run(5)


@incident("overload")
def catalogue_file_is_locked_by_our_own_workers(scene: Scene) -> None:
    """A reindexing of the whole catalogue lets all workers write into one SQLite file, which one at a time can."""
    (pressure,) = scene.causes
    writers = Meter(scene, 45)

    @scene.service("catalogue", Page)
    def write(page: Page, work: Work) -> None:
        if writers.is_full():
            raise pressure(sqlite3.OperationalError("database is locked"))

    scene.traffic(80, Page, every=5)
    scene.import_at_once(140, Page)
    scene.run(20)


@incident("overload")
def two_embedders_share_a_card_that_is_too_small(scene: Scene) -> None:
    """A backlog keeps both embedders busy, and the card has no memory for large batches, at times for no batch."""
    (pressure,) = scene.causes

    @scene.service("passage_vectors", Page, batch=32)
    def embed(pages: Sequence[Page], work: Work) -> None:
        if len(pages) > 12 or (pressure.on and scene.random.random() < 0.5):
            text = "CUDA out of memory. Tried to allocate 2.25 GiB. GPU 0 has a total capacity of 15.77 GiB"
            raise pressure(lib.OutOfMemoryErrorOfCuda(text))

    for _ in range(6):
        scene.import_at_once(8, Page, together=8)
        scene.run(5)
    pressure.on = True
    scene.import_at_once(96, Page, together=32)
    scene.run(3)
    pressure.on = False
    scene.run(30)
    scene.import_at_once(8, Page, together=8)


@incident("overload")
def token_budget_of_a_minute_used_up_by_annual_reports(scene: Scene) -> None:
    """Annual reports come in one week; their summaries need more tokens a minute than we have bought."""
    (pressure,) = scene.causes
    spent: dict[int, int] = {}

    @scene.service("annual_reports", Upload, needs="llm")
    def summarise(upload: Upload, work: Work) -> None:
        minute = int(scene.minute)
        tokens = 4_000 + upload.size % 9_000
        if spent.get(minute, 0) + tokens > 90_000:
            text = "Rate limit reached for gpt-5-mini in organization org-k2 on tokens per min (TPM): Limit 90000"
            raise pressure(
                lib.RateLimitError(429, text, "tokens", "rate_limit_exceeded", {"retry-after-ms": "14200"})
            )
        spent[minute] = spent.get(minute, 0) + tokens

    scene.traffic(30, Upload, every=30)
    scene.traffic(150, Upload, every=3)
    scene.run(5)


@incident("overload")
def parallel_postings_cannot_be_serialised(scene: Scene) -> None:
    """A night's postings all touch a few accounts at the same time; the database lets some of them start again."""
    (pressure,) = scene.causes

    @scene.service("postings", Invoice, needs="ledger_db")
    def post(invoice: Invoice, work: Work) -> None:
        if pressure.on and scene.random.random() < 0.6:
            text = "could not serialize access due to concurrent update"
            raise pressure(psycopg.errors.SerializationFailure(text))

    scene.traffic(50, every=60)
    pressure.on = True
    scene.import_at_once(160)
    scene.run(2)
    pressure.on = False
    scene.run(hours=1)
    scene.traffic(20, every=60)


@incident("overload")
def proofs_take_too_long_while_the_machine_is_full(scene: Scene) -> None:
    """A whole issue is typeset at once on one machine, and many runs exceed their time; later none does."""
    (pressure,) = scene.causes

    @scene.service("issue_proofs", Upload, time_limit=120)
    def typeset(upload: Upload, work: Work) -> None:
        if pressure.on and scene.random.random() < 0.5:
            pressure.takes(130)

    scene.traffic(40, Upload, every=60)
    pressure.on = True
    scene.import_at_once(30, Upload)
    scene.run(10)
    pressure.on = False
    scene.run(hours=3)
    scene.traffic(15, Upload, every=60)


@incident("overload")
def broker_blocks_publishers_while_a_backlog_fills_its_memory(scene: Scene) -> None:
    """An import floods the broker, whose memory alarm blocks who publishes; notices, not documents. It goes on."""
    (pressure,) = scene.causes
    broker = Meter(scene, 20)

    @scene.service("change_notices", None, needs="broker")
    def forward(notice: Notice, work: Work) -> None:
        if broker.is_full():
            raise pressure(more.ConnectionBlockedTimeout("Blocked connection timeout expired: low on memory"))

    scene.notices(40, every=10)
    scene.notices(200, every=1)


@incident("overload")
def cluster_lets_one_user_queue_so_many_jobs(scene: Scene) -> None:
    """A consortium's samples arrive together; the scheduler takes some jobs of a user and no more."""
    (pressure,) = scene.causes
    scheduler = Meter(scene, 10)

    @scene.service("alignments", Order, needs="slurm")
    def submit(order: Order, work: Work) -> None:
        if scheduler.is_full():
            error = subprocess.CalledProcessError(
                1,
                ["sbatch", "--parsable", f"align-{order.number}.sh"],
                stderr="sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed",
            )
            raise pressure(RuntimeError(error.stderr)) from error

    scene.traffic(20, Order, every=30)
    scene.import_at_once(90, Order)
    scene.run(12)


@incident("overload")
def crawl_of_all_journals_opens_too_many_files(scene: Scene) -> None:
    """A crawl of all journals starts together with the mail import, and our machine has no descriptors left."""
    (pressure,) = scene.causes
    descriptors = Meter(scene, 70)

    @scene.service("crawl", Page)
    def crawl(page: Page, work: Work) -> None:
        if descriptors.is_full():
            try:
                raise OSError(24, "Too many open files")
            except OSError as error:
                raise pressure(CrawlError(f"could not fetch {page.id}")) from error

    @scene.service("mail_import", Mail)
    def take(mail: Mail, work: Work) -> None:
        descriptors.is_full()

    scene.mixed_traffic(scene.documents(40, Page), scene.documents(40, Mail), every=5)
    scene.publish(scene.documents(120, Mail))
    scene.publish(scene.documents(120, Page))
    scene.run(10)


@incident("overload")
def image_stacks_fill_the_working_disk_when_many_arrive(scene: Scene) -> None:
    """Microscopes of a whole institute deliver at once; our working disk has room for some stacks, not for all."""
    (pressure,) = scene.causes
    gigabytes: dict[int, int] = {}

    @scene.service("image_stacks", Upload)
    def unpack(upload: Upload, work: Work) -> None:
        cleaning = int(scene.minute / 10)
        if gigabytes.get(cleaning, 0) + upload.size > 180:
            raise pressure(OSError(28, "No space left on device", f"/scratch/unpacked/{upload.number}.zarr"))
        gigabytes[cleaning] = gigabytes.get(cleaning, 0) + upload.size

    def stacks(count: int) -> list[Item]:
        return scene.documents(count, Upload, kind="zarr.zip", size=lambda: scene.random.randrange(4, 12))

    scene.arrive(stacks(40), every=120)
    scene.publish(stacks(55), source="sftp://imaging.institute.example")
    scene.run(45)
