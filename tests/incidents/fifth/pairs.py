"""Two or three troubles at once or one after the other, and two that nobody can tell."""

from __future__ import annotations

from collections.abc import Sequence

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Order, Page, Upload
from tests.incidents.fifth import libraries as more
from tests.incidents.fifth.overload import Meter
from tests.incidents.staging import Scene, incident


class GeocodingError(Exception):
    """The team's own."""


class ScannerError(Exception):
    """The team's own."""


@incident("dependency", "bug or bad deploy")
def release_right_after_the_cache_came_back(scene: Scene) -> None:
    """A cache lost a third of its slots for 15 minutes; the release that followed breaks calendar mails."""
    outage, bug = scene.causes

    @scene.service("threads", Mail, needs="redis")
    def join(mail: Mail, work: Work) -> None:
        if outage.on and mail.number % 3 == 0:
            raise outage(more.ClusterDownError("CLUSTERDOWN Hash slot not served"))
        if scene.version == "4.18.0" and mail.kind == "ics":
            organiser: dict[str, str] | None = None
            with bug:
                _ = organiser["address"]  # type: ignore[index]

    def kind() -> str:
        return scene.random.choice(["eml", "eml", "eml", "ics"])

    scene.traffic(60, Mail, kind=kind)
    outage.on = True
    scene.traffic(30, Mail, kind=kind)
    outage.on = False
    scene.traffic(20, Mail, kind=kind)
    scene.deploy("4.18.0")
    scene.traffic(60, Mail, kind=kind)


@incident("overload", "dependency")
def first_too_fast_and_then_shut_out(scene: Scene) -> None:
    """A backfill ran into the maps provider's rate; the next day the provider suspended the account for it."""
    pressure, outage = scene.causes

    @scene.service("geocoding", Order, needs="maps")
    def locate(order: Order, work: Work) -> None:
        if outage.on:
            answer = lib.requests_status(403, "https://maps.example.com/v1/geocode")
            raise outage(GeocodingError("REQUEST_DENIED: this account has been suspended")) from answer
        if rate.is_full():
            answer = lib.requests_status(429, "https://maps.example.com/v1/geocode", {"Retry-After": "60"})
            raise pressure(GeocodingError("OVER_QUERY_LIMIT: too many requests per minute")) from answer

    rate = Meter(scene, 40)
    scene.traffic(40, Order)
    scene.import_at_once(200, Order, source="backfill")
    scene.run(hours=20)
    outage.on = True
    scene.traffic(20, Order, every=120)


@incident("dependency", "dependency")
def feature_store_and_object_store(scene: Scene) -> None:
    """Two things that one service needs fail the same morning: a name is not found, then a store is in repair."""
    names, repair = scene.causes

    @scene.service("training_rows", Invoice, needs=("feature_store", "object_store"))
    def build(invoice: Invoice, work: Work) -> None:
        if names.on:
            why = "[Errno -2] Name or service not known"
            raise names(lib.requests_refused("https://features.ml.example/v2/rows", why))
        if repair.on:
            text = "Service is unable to handle request."
            raise repair(lib.BotoClientError("ServiceUnavailable", text, "GetObject", 503))

    scene.traffic(50)
    names.on = True
    scene.traffic(20)
    names.on, repair.on = False, True
    scene.run(30)
    scene.traffic(20)
    repair.on = False
    scene.run(hours=3)


@incident("poison document", "overload", "dependency")
def a_bad_monday_in_the_mail_room(scene: Scene) -> None:
    """Mails with empty attachments, a full virus scanner, and an archive whose key had run out, on one morning."""
    poison, pressure, outage = scene.causes

    @scene.service("attachments", Mail)
    def take_out(mail: Mail, work: Work) -> None:
        if mail.size == 0:
            raise poison(
                ValueError(f"attachment of {mail.author} has no content: expected at least 1 byte, got 0")
            )

    @scene.service("virus_scan", Upload, needs="scanner")
    def scan(upload: Upload, work: Work) -> None:
        if scanner.is_full():
            raise pressure(ScannerError("ERROR: Too many queued scans, MaxQueue exceeded"))

    @scene.service("cold_storage", Invoice, needs="azure_blob")
    def store(invoice: Invoice, work: Work) -> None:
        if outage.on:
            detail = "Signature not valid in the specified time frame: Expiry [Mon, 02 Mar 2026 00:00:00 GMT]"
            raise outage(more.ClientAuthenticationError("Server failed to authenticate the request.", detail))

    scanner = Meter(scene, 20)
    scene.traffic(30, every=60)
    scene.traffic(20, Upload)
    outage.on = True
    scene.mixed_traffic(
        scene.documents(60, Mail, size=lambda: scene.random.randrange(500, 9000)),
        scene.documents(8, Mail, size=0),
        scene.documents(15),
        every=20,
    )
    scene.import_at_once(90, Upload)
    scene.run(4)


@incident("poison document", "dependency")
def bad_lines_in_batches_and_a_bank_that_moved(scene: Scene) -> None:
    """Payments go out in batches: some have a wrong account number; then the bank's host key changed."""
    poison, outage = scene.causes

    @scene.service("payments", Invoice, needs="bank_sftp", batch=16)
    def pay(invoices: Sequence[Invoice], work: Work) -> None:
        wrong = [one for one in invoices if one.text.endswith("00 0000")]
        if wrong:
            raise poison(ValueError("IBAN check digits are wrong"), *wrong)
        if outage.on:
            raise outage(more.BadHostKeyException("sftp.bank.example", "AAAAC3NzaC1lZDI1", "AAAAB3NzaC1yc2E"))

    def day(wrong: int) -> None:
        documents = [*scene.documents(48 - wrong), *scene.documents(wrong, text="DE00 0000")]
        scene.random.shuffle(documents)
        scene.publish(documents, together=16)
        scene.run(hours=2)

    day(0)
    day(3)
    outage.on = True
    day(2)


@incident("bug or bad deploy", "bug or bad deploy")
def hotfix_with_a_mistake_of_its_own(scene: Scene) -> None:
    """A release recurses without end on every page; the hotfix an hour later calls a function with too little."""
    release, hotfix = scene.causes

    def depth(page: Page) -> int:
        return 1 + depth(page)

    def height(page: Page, unit: str) -> str:
        return f"{page.size} {unit}"

    @scene.service("layout", Page)
    def lay_out(page: Page, work: Work) -> None:
        if scene.version == "4.18.0":
            with release:
                depth(page)
        if scene.version == "4.18.1":
            with hotfix:
                height(page)  # type: ignore[call-arg]

    scene.traffic(50, Page, every=60)
    scene.deploy("4.18.0")
    scene.traffic(10, Page, every=60)
    scene.deploy("4.18.1")
    scene.traffic(10, Page, every=60)
    scene.deploy("4.18.2")
    scene.traffic(20, Page, every=60)


@incident("bug or bad deploy", "poison document")
def names_with_apostrophes_and_locked_files(scene: Scene) -> None:
    """A release forgets to quote names; files that are locked with a password have failed before and after it."""
    bug, poison = scene.causes

    @scene.service("catalogue", Upload, needs="postgres")
    def enter(upload: Upload, work: Work) -> None:
        if upload.text == "locked":
            raise poison(lib.FileNotDecryptedError("File has not been decrypted"))
        if scene.version == "4.18.0" and "'" in upload.author:
            text = f'syntax error at or near "{upload.author.split(chr(39))[1]}"'
            raise bug(lib.ProgrammingError("INSERT INTO catalogue (author) VALUES ('...')", SyntaxError(text)))

    def some(count: int, locked: int) -> None:
        names = ["m.okafor", "s.haddad", "t.nakamura", "d.o'brien", "c.d'angelo"]
        scene.mixed_traffic(
            scene.documents(count, Upload, kind="pdf", author=lambda: scene.random.choice(names)),
            scene.documents(locked, Upload, kind="pdf", text="locked"),
        )

    some(70, 3)
    scene.deploy("4.18.0")
    some(50, 3)


@incident("dependency", "dependency", groups=[1, None])
def a_broken_card_and_a_changed_answer(scene: Scene) -> None:
    """One of two graphics cards has broken memory; elsewhere a provider renamed a field, until noon."""
    card, answer = scene.causes

    @scene.service("detect", Upload, needs="gpu")
    def detect(upload: Upload, work: Work) -> None:
        if card.on and scene.random.random() < 0.5:
            raise card(RuntimeError("CUDA error: uncorrectable ECC error encountered"))

    @scene.service("titles", Page, needs="llm")
    def name(page: Page, work: Work) -> None:
        body = {"outputs": [{"text": page.text}]} if answer.on else {"choices": [{"text": page.text}]}
        with answer:
            _ = body["choices"][0]["text"]

    scene.mixed_traffic(scene.documents(60, Upload, kind="jpg"), scene.documents(60, Page))
    card.on = answer.on = True
    scene.mixed_traffic(scene.documents(40, Upload, kind="jpg"), scene.documents(40, Page))
    answer.on = False
    scene.run(hours=3)
    scene.retry_all()
    scene.mixed_traffic(scene.documents(30, Upload, kind="jpg"), scene.documents(40, Page))


@incident("dependency", "bug or bad deploy")
def region_down_while_a_flag_is_tried(scene: Scene) -> None:
    """The European region of the tax service is off; a flag breaks half of another service's pages."""
    outage, bug = scene.causes

    @scene.service("tax_reports", Invoice, needs="tax_service")
    def report(invoice: Invoice, work: Work) -> None:
        if outage.on and invoice.tenant == "eu-west":
            raise outage(more.ServiceFault("Backend system temporarily not available (region eu-west)"))

    @scene.service("previews", Page)
    def preview(page: Page, work: Work) -> None:
        if bug.on and page.number % 2:
            width = None
            with bug:
                _ = min(width, 800)  # type: ignore[call-overload]

    def some(count: int) -> None:
        regions = ["eu-west", "us-east", "ap-south"]
        scene.mixed_traffic(
            scene.documents(count, tenant=lambda: scene.random.choice(regions)), scene.documents(count, Page)
        )

    some(50)
    outage.on = bug.on = True
    some(30)


@incident("unclear")
def minus_one_on_the_first_three(scene: Scene) -> None:
    """A service got its first three documents a minute ago and failed with a number that nobody knows."""
    (unknown,) = scene.causes

    @scene.service("signatures", Upload, needs="signing")
    def sign(upload: Upload, work: Work) -> None:
        raise unknown(RuntimeError("error -1"))

    scene.traffic(3, Upload, every=20)


@incident("unclear")
def two_of_nine_failed_once(scene: Scene) -> None:
    """Two orders failed once each, hours apart and without a reason, and went through at the next try."""
    (unknown,) = scene.causes
    failed: set[str] = set()

    @scene.service("stock", Order, needs="warehouse")
    def reserve(order: Order, work: Work) -> None:
        if order.text == "unlucky" and order.id not in failed:
            failed.add(order.id)
            raise unknown(RuntimeError("unexpected result"))

    scene.mixed_traffic(scene.documents(7, Order), scene.documents(2, Order, text="unlucky"), every=5400)
