"""Errors that say little: the circumstances have to tell."""

from __future__ import annotations

from typing import Any

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.staging import Scene, incident


class ProcessingError(Exception):
    """The team's own, for everything."""


@incident("dependency")
def bank_of_one_tenant_failed_and_came_back(scene: Scene) -> None:
    """The bank of one customer was down for two hours; the same invoices went well afterwards."""
    (outage,) = scene.causes

    @scene.service("invoices", Invoice, needs="banks")
    def process(invoice: Invoice, work: Work) -> None:
        if outage.on and invoice.tenant == "initech":
            raise outage(ProcessingError("could not process invoice"))

    scene.traffic(100)
    outage.on = True
    scene.traffic(100)
    scene.run(hours=1)
    outage.on = False
    scene.traffic(40)
    scene.run(hours=6)


@incident("bug or bad deploy")
def half_of_the_machines_cannot(scene: Scene) -> None:
    """A vague error on machines with the new release alone; a retry on an old machine goes well."""
    (bug,) = scene.causes

    @scene.service("speech_index", Upload, needs="index")
    async def add(upload: Upload, work: Work) -> None:
        if scene.version == "7.3.0":
            raise bug(ProcessingError("processing failed"))

    scene.deploy("7.2.9")
    scene.traffic(40, Upload)
    scene.deploy("7.2.9", "7.3.0")
    scene.traffic(50, Upload)
    scene.run(20)


@incident("overload")
def burst_is_slower_than_the_time_limit(scene: Scene) -> None:
    """The converter shares two cores among all that it is given: in a burst each takes over the time limit."""
    (pressure,) = scene.causes
    started = list[float]()

    @scene.service("office_files", Upload, time_limit=120.0)
    def convert(upload: Upload, work: Work) -> None:
        now = scene.world.clock.now()
        started.append(now)
        if sum(now - 1800 < one for one in started) > 25:
            pressure.takes(130)

    scene.traffic(40, Upload, every=180)
    scene.import_at_once(90, Upload)
    scene.run(30)


@incident("poison document")
def one_claim_in_an_exception_group(scene: Scene) -> None:
    """Both readers of a claim fail for one claim form, which was filled in by hand; all others are read."""
    (poison,) = scene.causes

    @scene.service("claims", Page)
    async def read(page: Page, work: Work) -> None:
        if page.kind == "by hand":
            raise poison(
                ExceptionGroup("both readers failed", [ProcessingError("no fields found"), ValueError(page.id)])
            )

    scene.mixed_traffic(scene.documents(26, Page), scene.documents(1, Page, kind="by hand"), every=300)
    scene.run(hours=12)


@incident("dependency")
def archive_service_hangs(scene: Scene) -> None:
    """The archive accepts connections and never responds: every call runs into its time limit, day and night."""
    (outage,) = scene.causes

    @scene.service("archive", Page, needs="archive_service", time_limit=30.0)
    def store(page: Page, work: Work) -> None:
        if outage.on:
            outage.takes(40)

    scene.traffic(50, Page, every=120)
    outage.on = True
    scene.traffic(20, Page, every=120)


@incident("bug or bad deploy")
def nightly_totals_broken_by_a_release(scene: Scene) -> None:
    """A service without documents: the release adds a number to a text."""
    (bug,) = scene.causes

    @scene.service("totals", None)
    def add(notice: Notice, work: Work) -> None:
        first: Any = "1" if scene.version == "4.18.0" else 1
        with bug:
            _ = first + notice.number

    scene.notices(20)
    scene.deploy("4.18.0")
    scene.notices(9)


@incident("dependency")
def exchange_rates_not_published(scene: Scene) -> None:
    """A service without documents: the central bank's server has a bad gateway this evening."""
    (outage,) = scene.causes

    @scene.service("rates", None, needs="central_bank")
    def fetch(notice: Notice, work: Work) -> None:
        if outage.on:
            raise outage(lib.requests_status(502, "https://rates.bank.example/daily.xml"))

    scene.notices(12, every=600)
    outage.on = True
    scene.notices(4, every=600)


@incident("bug or bad deploy")
def rolled_back_to_a_release_that_knows_less(scene: Scene) -> None:
    """A rollback brought back a release that does not know the new kind of order, which others already send."""
    (bug,) = scene.causes

    @scene.service("orders", Order)
    def handle(order: Order, work: Work) -> None:
        if scene.version == "4.17.2" and order.kind == "subscription":
            raise bug(NotImplementedError("order kind subscription"))

    def kind() -> str:
        return scene.random.choice(("subscription", "single"))

    scene.traffic(30, Order, kind="single")
    scene.deploy("4.18.0")
    scene.traffic(60, Order, kind=kind)
    scene.deploy("4.17.2")
    scene.traffic(40, Order, kind=kind)


@incident("overload")
def scratch_space_full_in_a_burst(scene: Scene) -> None:
    """Many films are unpacked at the same time: together they fill our machine's scratch space."""
    (pressure,) = scene.causes
    minutes = dict[int, int]()

    @scene.service("unpack", Upload)
    def unpack(upload: Upload, work: Work) -> None:
        minute = int(scene.minute)
        minutes[minute] = minutes.get(minute, 0) + 1
        if minutes[minute] > 20:
            try:
                raise OSError(28, "No space left on device", f"/tmp/unpack/{upload.number}")
            except OSError as error:
                raise pressure(ProcessingError(f"could not unpack {upload.path}")) from error

    scene.traffic(30, Upload)
    scene.import_at_once(75, Upload)
    scene.run(6)
    scene.traffic(15, Upload)


@incident("bug or bad deploy")
def native_reader_of_the_release_faults(scene: Scene) -> None:
    """The release came with a native reader that faults on every mail: its worker processes die."""
    (bug,) = scene.causes

    @scene.service("mail_text", Mail)
    def read(mail: Mail, work: Work) -> None:
        if scene.version == "4.18.0":
            bug.kills(mail, work)

    scene.traffic(30, Mail)
    scene.deploy("4.18.0")
    scene.traffic(6, Mail, every=300)
    scene.run(hours=30)
