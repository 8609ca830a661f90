"""Two troubles at once, and what nobody can tell."""

from __future__ import annotations

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Order, Page, Upload
from tests.incidents.second import libraries as more
from tests.incidents.staging import Scene, incident


@incident("dependency", "poison document")
def outage_beside_broken_scans(scene: Scene) -> None:
    """The archive is down for an hour; four broken scans were among the documents all the time."""
    outage, bad = scene.causes

    @scene.service("scan-archive", Upload, needs="archive")
    def store(upload: Upload, work: Work) -> None:
        if upload.text == "broken":
            raise bad(lib.UnidentifiedImageError(f"cannot identify image file '{upload.path}'"))
        if outage.on:
            raise outage(lib.requests_status(503, f"https://archive.example/items/{upload.number}"))

    scene.mixed_traffic(scene.documents(40, Upload), scene.documents(2, Upload, text="broken"))
    outage.on = True
    scene.mixed_traffic(scene.documents(20, Upload), scene.documents(2, Upload, text="broken"))
    scene.run(40)
    outage.on = False
    scene.traffic(20, Upload)
    scene.run(hours=6)


@incident("bug or bad deploy", "overload")
def defect_and_rate_limit(scene: Scene) -> None:
    """A release fails for refunds, while the exchange rates are asked for too often since this morning."""
    defect, load = scene.causes
    calls = [0]

    @scene.service("booking", Invoice, needs="rates")
    def book(invoice: Invoice, work: Work) -> None:
        calls[0] += 1
        if load.on and calls[0] % 3 == 0:
            raise load(
                lib.HTTPStatusError(429, "https://rates.example/latest", "slow down", {"Retry-After": "20"})
            )
        if scene.version == "4.18.0" and invoice.kind == "refund":
            with defect:
                {"sale": 1}[invoice.kind]

    def kind() -> str:
        return scene.random.choice(("sale", "sale", "refund"))

    scene.traffic(40, Invoice, kind=kind)
    load.on = True
    scene.traffic(40, Invoice, kind=kind, every=10)
    scene.deploy("4.18.0")
    scene.traffic(60, Invoice, kind=kind, every=10)


@incident("bug or bad deploy", "poison document", groups=(1, 1))
def defect_beside_old_bad_feeds(scene: Scene) -> None:
    """Some feeds have always been without a price; a release now reads the title by a wrong name."""
    defect, bad = scene.causes

    @scene.service("offer-feed", Page)
    def read(page: Page, work: Work) -> None:
        offer = {"title": page.text} if page.kind == "priceless" else {"title": page.text, "price": 3}
        with bad:
            offer["price"]
        if scene.version == "2.2.0":
            with defect:
                offer["headline"]

    scene.deploy("2.1.0")
    scene.mixed_traffic(scene.documents(70, Page), scene.documents(5, Page, kind="priceless"))
    scene.deploy("2.2.0")
    scene.mixed_traffic(scene.documents(25, Page), scene.documents(2, Page, kind="priceless"))


@incident("dependency", "dependency")
def token_refused_and_store_down(scene: Scene) -> None:
    """The token of the parcel service was revoked; an hour later the database of another service stopped."""
    refusal, outage = scene.causes

    @scene.service("parcel-tracking", Order, needs="parcel-service")
    def track(order: Order, work: Work) -> None:
        if refusal.on:
            raise refusal(lib.HTTPStatusError(401, f"https://parcels.example/track/{order.number}"))

    @scene.service("page-store", Page, needs="documents-database")
    def store(page: Page, work: Work) -> None:
        if outage.on:
            raise outage(
                lib.ServerSelectionTimeoutError(
                    "mongo-1:27017: [Errno 111] Connection refused, Timeout: 30s, Topology Description: "
                    "<TopologyDescription id: 66f0, topology_type: ReplicaSetNoPrimary>"
                )
            )

    scene.mixed_traffic(scene.documents(30, Order), scene.documents(30, Page))
    refusal.on = True
    scene.mixed_traffic(scene.documents(20, Order), scene.documents(20, Page), every=90)
    outage.on = True
    scene.mixed_traffic(scene.documents(10, Order), scene.documents(10, Page))


@incident("overload", "poison document")
def memory_short_and_one_huge_film(scene: Scene) -> None:
    """The graphics memory is too small for the peak; one film is in a format that nobody can decode."""
    load, bad = scene.causes
    running = [0]

    @scene.service("film-captions", Upload)
    def caption(upload: Upload, work: Work) -> None:
        if upload.text == "odd":
            raise bad(ValueError("unknown codec 'av99' in stream 0"))
        running[0] += 1
        if load.on and running[0] % 4 == 0:
            raise load(
                lib.OutOfMemoryErrorOfCuda(
                    f"CUDA out of memory. Tried to allocate {upload.size % 900 + 20} MiB. GPU 0 has a total "
                    "capacity of 15.77 GiB of which 11.19 MiB is free."
                )
            )

    scene.traffic(30, Upload, kind="mkv")
    load.on = True
    scene.mixed_traffic(
        scene.documents(40, Upload, kind="mkv"), scene.documents(1, Upload, kind="mkv", text="odd"), every=5
    )
    scene.run(15)


@incident("unclear")
def three_of_three_fail_without_a_reason(scene: Scene) -> None:
    """A converter of unknown origin fails for the first three documents and gives no reason."""
    (unknown,) = scene.causes

    @scene.service("conversion", Upload)
    def convert(upload: Upload, work: Work) -> None:
        raise unknown(RuntimeError("conversion failed"))

    scene.traffic(3, Upload)


@incident("unclear")
def one_of_two_fails_once(scene: Scene) -> None:
    """One of the first two documents failed once, with a text that says nothing; nothing else is known."""
    (unknown,) = scene.causes

    @scene.service("matching", Order, needs="register")
    def match(order: Order, work: Work) -> None:
        if order.text == "second":
            raise unknown(more.HttpResponseError("Operation returned an invalid status"))

    scene.traffic(1, Order)
    scene.traffic(1, Order, text="second", every=1)
