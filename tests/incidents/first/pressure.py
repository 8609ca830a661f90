"""More trouble with capacity: slow under load, full, or locked, on our machines and elsewhere."""

from __future__ import annotations

import errno
import smtplib
import subprocess

import psycopg

from onward import Unavailable, Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.staging import HOUR, Scene, incident


@incident("overload")
def slow_under_load(scene: Scene) -> None:
    """During the import the geocoder is too slow for six of ten calls; at other times it is quick."""
    (load,) = scene.causes

    @scene.service("geocoding", Order, needs="geocoder")
    async def geocode(order: Order, work: Work) -> None:
        if load.on and scene.random.random() < 0.6:
            raise load(lib.ReadTimeout("timed out after 10.0 s"))

    scene.traffic(26, Order)
    load.on = True
    scene.import_at_once(60, Order)
    scene.run(4)


@incident("overload")
def statement_timeout_at_month_end(scene: Scene) -> None:
    """At the end of the month the database is so busy that a third of our statements hit its time limit."""
    (load,) = scene.causes

    @scene.service("totalling", Invoice, needs="ledger-db")
    def total(invoice: Invoice, work: Work) -> None:
        if load.on and scene.random.random() < 0.35:
            raise load(psycopg.errors.QueryCanceled("canceling statement due to statement timeout"))

    scene.traffic(26)
    load.on = True
    scene.traffic(50, every=3)


@incident("overload")
def lock_timeouts(scene: Scene) -> None:
    """Forty workers update one row of totals: lock timeouts for one in five."""
    (load,) = scene.causes

    @scene.service("counting", Order)
    def count(order: Order, work: Work) -> None:
        if load.on and scene.random.random() < 0.2:
            text = "canceling statement due to lock timeout\n"
            text += f'CONTEXT:  while updating tuple (0,{order.number}) in relation "totals"'
            raise load(psycopg.errors.LockNotAvailable(text))

    scene.traffic(20, Order)
    load.on = True
    scene.traffic(65, Order, every=2)


@incident("overload")
def serialisation_failures(scene: Scene) -> None:
    """With the import beside the daily traffic, transactions get in each other's way."""
    (load,) = scene.causes

    @scene.service("booking", Order, needs="ledger-db")
    def book(order: Order, work: Work) -> None:
        if load.on and scene.random.random() < 0.3:
            text = "could not serialize access due to concurrent update"
            raise load(psycopg.errors.SerializationFailure(text))

    scene.traffic(20, Order)
    load.on = True
    scene.traffic(45, Order, every=2)


@incident("overload")
def mail_relay_too_many_messages(scene: Scene) -> None:
    """The newsletter exceeds what the relay takes in an hour: 450, try again later."""
    (limit,) = scene.causes

    @scene.service("mailing", Mail, needs="relay")
    def send(mail: Mail, work: Work) -> None:
        if limit.on and scene.random.random() < 0.8:
            text = b"4.7.1 Error: too much mail from 192.0.2.17, try again later"
            raise limit(smtplib.SMTPDataError(450, text))

    scene.traffic(20, Mail)
    limit.on = True
    scene.import_at_once(80, Mail)
    scene.run(4)


@incident("overload")
def our_temporary_folder_is_full(scene: Scene) -> None:
    """Twelve conversions at once fill /tmp of the worker; when one ends, the next works."""
    (full,) = scene.causes

    @scene.service("converting", Upload)
    def convert(upload: Upload, work: Work) -> None:
        if full.on and scene.random.random() < 0.5:
            path = f"/tmp/convert-{scene.random.getrandbits(32):08x}.pdf"
            raise full(OSError(errno.ENOSPC, "No space left on device", path))

    scene.traffic(26, Upload)
    full.on = True
    scene.traffic(40, Upload, every=5)


@incident("overload")
def our_disk_is_full_for_good(scene: Scene) -> None:
    """The disk of our only worker is full: nothing works until somebody makes room."""
    (full,) = scene.causes

    @scene.service("storing", Upload)
    def store(upload: Upload, work: Work) -> None:
        if full.on:
            raise full(OSError(errno.ENOSPC, "No space left on device"))

    scene.traffic(26, Upload)
    full.on = True
    scene.traffic(20, Upload)


@incident("overload")
def cannot_fork(scene: Scene) -> None:
    """Too many converters are running: the machine cannot start another process."""
    (limit,) = scene.causes

    @scene.service("converting", Upload)
    def convert(upload: Upload, work: Work) -> None:
        if limit.on and scene.random.random() < 0.5:
            raise limit(BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"))

    scene.traffic(20, Upload)
    limit.on = True
    scene.traffic(32, Upload, every=3)


@incident("overload")
def converter_killed_for_memory(scene: Scene) -> None:
    """Beside the nightly job there is not enough memory: the kernel kills every other converter."""
    (limit,) = scene.causes

    @scene.service("converting", Upload)
    def convert(upload: Upload, work: Work) -> None:
        if limit.on and scene.random.random() < 0.5:
            raise limit(subprocess.CalledProcessError(-9, ["soffice", "--headless", upload.path]))

    scene.traffic(20, Upload)
    limit.on = True
    scene.traffic(26, Upload, every=10)


@incident("overload")
def redis_out_of_memory(scene: Scene) -> None:
    """The cache has reached its maximum: it refuses to store more, at every attempt."""
    (limit,) = scene.causes

    @scene.service("caching", Page, needs="redis")
    def cache(page: Page, work: Work) -> None:
        if limit.on:
            raise limit(lib.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."))

    scene.traffic(26, Page)
    limit.on = True
    scene.traffic(15, Page)


@incident("overload")
def search_cluster_rejects_bulk(scene: Scene) -> None:
    """The reindexing fills the queue of the search cluster, which rejects writes."""
    (limit,) = scene.causes

    @scene.service("indexing", Page, needs="cluster", batch=10)
    def index(pages: list[Page], work: Work) -> None:
        if limit.on and scene.random.random() < 0.9:
            reason = "rejected execution of TransportService$7 on EsThreadPoolExecutor[name = node-2/write, "
            reason += f"queue capacity = 1000] ({len(pages)} docs)"
            raise limit(lib.TransportApiError(429, "es_rejected_execution_exception", reason))

    scene.import_at_once(40, Page, together=10)
    limit.on = True
    scene.import_at_once(80, Page, together=10)
    scene.run(4)


@incident("overload")
def http_pool_timeouts(scene: Scene) -> None:
    """Our HTTP client has ten connections for fifty calls at once: calls wait for a connection in vain."""
    (limit,) = scene.causes

    @scene.service("checking", Page, needs="website")
    async def check(page: Page, work: Work) -> None:
        if limit.on and scene.random.random() < 0.4:
            raise limit(lib.PoolTimeout(""))

    scene.traffic(20, Page)
    limit.on = True
    scene.traffic(40, Page, every=2)


@incident("overload")
def handlers_too_slow_at_the_peak(scene: Scene) -> None:
    """At the peak the machine is so busy that one document in three exceeds the time limit; retried, it works."""
    (load,) = scene.causes

    @scene.service("rendering", Invoice, time_limit=60)
    def render(invoice: Invoice, work: Work) -> None:
        if load.on and scene.random.random() < 0.35:
            load.takes(61)

    scene.traffic(20)
    load.on = True
    scene.traffic(26, every=90)


@incident("overload")
def rate_limit_every_day_at_nine(scene: Scene) -> None:
    """Every morning at nine the CRM limits us for a while; it is over now, and all has been done."""
    (limit,) = scene.causes

    @scene.service("syncing", Order, needs="crm")
    def sync(order: Order, work: Work) -> None:
        if limit.on and scene.random.random() < 0.6:
            headers = {"Retry-After": "60", "X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "0"}
            raise limit(lib.requests_status(429, f"https://crm.example/api/orders/{order.id}", headers))

    for _ in range(2):
        scene.traffic(10, Order, every=300)
        limit.on = True
        scene.traffic(20, Order, every=5)
        limit.on = False
        scene.traffic(10, Order, every=HOUR)


@incident("overload")
def daily_quota_used_up(scene: Scene) -> None:
    """The free plan allows 1 000 lookups a day, and they are used up at four in the afternoon."""
    (limit,) = scene.causes

    @scene.service("looking-up", None, needs="registry")
    def look_up(notice: Notice, work: Work) -> None:
        if limit.on:
            headers = {"Retry-After": "28800", "X-RateLimit-Reset": "1800028800"}
            raise limit(lib.requests_status(429, f"https://registry.example/companies/{notice.number}", headers))

    scene.notices(26)
    limit.on = True
    scene.notices(15)


@incident("overload")
def handler_says_wait(scene: Scene) -> None:
    """The handler knows the limit of the fax gateway, three at a time, and says so."""
    (limit,) = scene.causes

    @scene.service("faxing", Order, needs="fax")
    def fax(order: Order, work: Work) -> None:
        if limit.on and scene.random.random() < 0.7:
            raise limit(Unavailable("fax", "all 3 lines are busy", retry_after=45))

    scene.traffic(20, Order)
    limit.on = True
    scene.traffic(20, Order, every=10)


@incident("overload", groups=2)
def server_busy_503_and_timeouts(scene: Scene) -> None:
    """Our import overwhelms the old document server: 503 for some, timeouts for others, the rest works."""
    (load,) = scene.causes

    @scene.service("loading", Upload, needs="dms")
    def fetch(upload: Upload, work: Work) -> None:
        if load.on:
            dice = scene.random.random()
            if dice < 0.25:
                raise load(lib.requests_status(503, f"http://dms/doc/{upload.number}", {"Retry-After": "5"}))
            if dice < 0.5:
                raise load(lib.requests_timeout("dms", 30))

    scene.traffic(20, Upload)
    load.on = True
    scene.import_at_once(70, Upload)
    scene.run(4)
