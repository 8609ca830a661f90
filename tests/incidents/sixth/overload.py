"""What works is asked for too much: rates, connections, locks, memory, disks, quotas, backlogs."""

from __future__ import annotations

import smtplib
from collections import Counter

import psycopg

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.sixth import libraries as more
from tests.incidents.staging import Scene, incident


class OcrError(Exception):
    """The team's own."""


class Capacity:
    """So many calls in a minute, and no more."""

    def __init__(self, scene: Scene, most: int) -> None:
        self.scene, self.most = scene, most
        self.minutes = Counter[int]()

    def is_used_up(self) -> bool:
        minute = int(self.scene.minute)
        if self.minutes[minute] >= self.most:
            return True
        self.minutes[minute] += 1
        return False


@incident("overload")
def labels_of_the_last_friday(scene: Scene) -> None:
    """Before the holidays the shop orders more labels in a minute than the carrier allows."""
    (pressure,) = scene.causes
    capacity = Capacity(scene, 20)

    @scene.service("labels", Order, needs="carrier")
    def order_label(order: Order, work: Work) -> None:
        if capacity.is_used_up():
            url = "https://api.carrier.example/v3/shipments"
            raise pressure(lib.requests_status(429, url, {"Retry-After": "30"}))

    scene.traffic(40, Order)
    scene.import_at_once(130, Order)
    scene.run(20)


@incident("overload")
def too_many_sessions_for_the_old_database(scene: Scene) -> None:
    """The yearly import opens more sessions than the old database is set up for; it went well with one worker."""
    (pressure,) = scene.causes
    capacity = Capacity(scene, 25)

    @scene.service("premiums", Invoice, needs="host-db")
    def book(invoice: Invoice, work: Work) -> None:
        if capacity.is_used_up():
            raise pressure(more.OracleError("ORA-00020", "maximum number of processes (300) exceeded"))

    scene.traffic(60)
    scene.import_at_once(200, together=20)
    scene.run(hours=3)


@incident("overload")
def import_and_clerks_want_the_same_rows(scene: Scene) -> None:
    """A bulk correction and the clerks' changes wait for each other's locks until one of them gives up."""
    (pressure,) = scene.causes

    @scene.service("addresses", Invoice, needs="customer-db")
    def change(invoice: Invoice, work: Work) -> None:
        if pressure.on and scene.random.random() < 0.45:
            raise pressure(more.MySqlError(1205, "Lock wait timeout exceeded; try restarting transaction"))

    scene.traffic(60)
    pressure.on = True
    scene.import_at_once(120, together=4)
    scene.traffic(40, every=15)
    pressure.on = False
    scene.traffic(40)
    scene.run(hours=2)


@incident("overload")
def recognition_under_a_pile_of_scans(scene: Scene) -> None:
    """A cellar of files was scanned in one night; the recognition's two cores do not keep up with it."""
    (pressure,) = scene.causes
    capacity = Capacity(scene, 6)

    @scene.service("recognition", Upload)
    def recognise(upload: Upload, work: Work) -> None:
        if capacity.is_used_up():
            slow = RuntimeError("Tesseract process timeout")
            raise pressure(OcrError(f"no text for {upload.id}")) from slow

    scene.traffic(50, Upload)
    scene.import_at_once(90, Upload, source="cellar")
    scene.run(hours=2)
    scene.traffic(20, Upload)


@incident("overload")
def graphics_card_shared_with_a_training(scene: Scene) -> None:
    """For an hour a training had most of the card's memory: batches did not fit, single pages sometimes."""
    (pressure,) = scene.causes

    @scene.service("embeddings", Page, batch=16)
    def embed(pages: list[Page], work: Work) -> None:
        if pressure.on and (len(pages) > 2 or scene.random.random() < 0.6):
            size = 0.4 * len(pages)
            text = f"CUDA out of memory. Tried to allocate {size:.2f} GiB. GPU 0 has a total capacity of 15.77 GiB"
            raise pressure(
                lib.OutOfMemoryErrorOfCuda(f"{text} of which {scene.random.randrange(90, 380)} MiB is free.")
            )

    scene.import_at_once(96, Page, together=16)
    scene.run(30)
    pressure.on = True
    scene.import_at_once(48, Page, together=16)
    scene.run(60)
    pressure.on = False
    scene.import_at_once(32, Page, together=16)
    scene.run(hours=2)


@incident("overload")
def scratch_disk_full_at_night(scene: Scene) -> None:
    """The conversion of a thousand drawings fills the scratch disk; it is emptied as conversions end."""
    (pressure,) = scene.causes
    capacity = Capacity(scene, 15)

    @scene.service("drawings", Upload)
    def convert(upload: Upload, work: Work) -> None:
        if capacity.is_used_up():
            path = f"/scratch/convert/{upload.number}.tmp"
            raise pressure(OSError(28, "No space left on device", path))

    scene.traffic(80, Upload)
    scene.import_at_once(110, Upload)
    scene.run(12)


@incident("overload")
def newsletter_over_the_connections_of_the_relay(scene: Scene) -> None:
    """The authority's newsletter goes out all at once, over more connections than the relay gives one sender."""
    (pressure,) = scene.causes
    capacity = Capacity(scene, 30)

    @scene.service("newsletter", Mail, needs="relay")
    def send(mail: Mail, work: Work) -> None:
        if capacity.is_used_up():
            text = b"4.7.0 mx2.relay.example Error: too many connections from 192.0.2.40"
            raise pressure(smtplib.SMTPConnectError(421, text))

    scene.traffic(30, Mail)
    scene.import_at_once(140, Mail)
    scene.run(3)


@incident("overload")
def translations_beyond_the_quota_of_a_minute(scene: Scene) -> None:
    """The back catalogue is translated at full speed, over the characters that we may have per minute."""
    (pressure,) = scene.causes
    capacity = Capacity(scene, 12)

    @scene.service("translating", Page, needs="translator")
    async def translate(page: Page, work: Work) -> None:
        if capacity.is_used_up():
            text = "Quota exceeded for quota metric 'v3 general model characters per minute'"
            raise pressure(more.ResourceExhausted(text))

    scene.traffic(20, Page)
    scene.traffic(150, Page, every=3)
    scene.run(4)


@incident("overload")
def wide_store_slower_and_slower(scene: Scene) -> None:
    """Sensor pages are written at a rate that grows all day; replicas answer late, first rarely, then often."""
    (pressure,) = scene.causes

    @scene.service("sensor_pages", Page, needs="wide-store")
    def write(page: Page, work: Work) -> None:
        if scene.random.random() < chance:
            raise pressure(more.WriteTimeout(1))

    chance = 0.0
    for every, slow in ((60, 0.0), (20, 0.03), (6, 0.15), (2, 0.4), (1, 0.6), (60, 0.0)):
        chance = slow
        scene.traffic(60, Page, every=every)
    scene.run(hours=1)


@incident("overload")
def file_server_that_hangs_up_on_many(scene: Scene) -> None:
    """The print shop's file server takes ten sessions; those above are dropped before they see its banner."""
    (pressure,) = scene.causes
    capacity = Capacity(scene, 10)

    @scene.service("print_files", Upload, needs="print-shop")
    def put(upload: Upload, work: Work) -> None:
        if capacity.is_used_up():
            raise pressure(lib.SSHException("Error reading SSH protocol banner"))

    scene.traffic(40, Upload)
    for _ in range(3):
        scene.import_at_once(35, Upload)
        scene.run(50)
    scene.traffic(20, Upload)


@incident("overload")
def reports_of_all_branches_at_six(scene: Scene) -> None:
    """All branches ask for their report at six o'clock; the pool of the reporting database has fifteen places."""
    (pressure,) = scene.causes
    capacity = Capacity(scene, 15)

    @scene.service("branch_reports", None, needs="reporting-db")
    def report(notice: Notice, work: Work) -> None:
        if capacity.is_used_up():
            text = "FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute"
            raise pressure(
                psycopg.OperationalError(f'connection to server at "10.4.0.9", port 5432 failed: {text}')
            )

    scene.notices(20, every=60)
    scene.notices(85, every=0.1)
    scene.run(30)
