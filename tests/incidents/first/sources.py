"""Documents that come together: archives, imports, days, and what sets them aside."""

from __future__ import annotations

import email.errors
import json
import mailbox

import psycopg

from onward import NotReady, RetryPolicy, Schedule, Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Order, OrdersFound, Page, Upload
from tests.incidents.staging import DAY, HOUR, Scene, incident


@incident("poison document")
def one_archive_of_many(scene: Scene) -> None:
    """Of four mail archives one was written by a broken exporter: its forty mails all fail."""
    (poison,) = scene.causes

    @scene.service("parsing", Mail)
    def parse(mail: Mail, work: Work) -> None:
        if mail.path.startswith("/archives/1998"):
            raise poison(email.errors.HeaderParseError("expected atom at a start of dot-atom-text but found '=?'"))

    for year in (1996, 1997):
        scene.import_at_once(40, Mail, source=f"{year}.mbox", path=f"/archives/{year}.mbox")
    scene.import_at_once(40, Mail, source="1998.mbox", path="/archives/1998.mbox")
    scene.import_at_once(40, Mail, source="1999.mbox", path="/archives/1999.mbox")
    scene.run(4)


@incident("poison document")
def set_aside_by_the_service(scene: Scene) -> None:
    """The service sets aside what fails: three messages of an archive have no readable date."""
    (poison,) = scene.causes

    @scene.service("dating", Mail, sets_aside=True)
    def date(mail: Mail, work: Work) -> None:
        if mail.text == "no date":
            raise poison(ValueError(f"day is out of range for month: {mail.number}"))

    good, bad = scene.documents(60, Mail), scene.documents(3, Mail, text="no date")
    scene.publish([*good[:25], *bad, *good[25:]], source="list.mbox")
    scene.run(30)


@incident("dependency")
def set_aside_in_an_outage(scene: Scene) -> None:
    """A service that sets aside, without needs: the language detector is down for the second half of an import."""
    (outage,) = scene.causes

    @scene.service("detecting", Page, sets_aside=True, batch=5)
    def detect(pages: list[Page], work: Work) -> None:
        if outage.on:
            raise outage(lib.requests_refused("http://detector:7000/detect"))

    scene.import_at_once(30, Page, together=5, source="wiki")
    outage.on = True
    scene.import_at_once(30, Page, together=5, source="wiki")
    scene.run(30)


@incident("poison document")
def half_of_an_import_is_rubbish(scene: Scene) -> None:
    """Somebody uploaded 30 thumbnails.db files among 30 documents; the daily traffic is fine."""
    (poison,) = scene.causes

    @scene.service("reading", Upload)
    def read(upload: Upload, work: Work) -> None:
        if upload.kind == "db":
            raise poison(UnicodeDecodeError("utf-8", b"\xd0\xcf\x11\xe0", 0, 1, "invalid continuation byte"))

    scene.traffic(40, Upload)
    rubbish = scene.documents(30, Upload, kind="db", author="s.haddad")
    scene.mixed_traffic(scene.documents(20, Upload, author="s.haddad"), rubbish, every=1)
    scene.traffic(20, Upload)


@incident("poison document")
def malformed_events(scene: Scene) -> None:
    """An old program sends three messages that are no JSON; all other messages can be read."""
    (poison,) = scene.causes
    poison.finds = lambda letter: letter.unread

    @scene.service("accepting", Order)
    def accept(order: Order, work: Work) -> None:
        """Works."""

    scene.traffic(20, Order)
    for number in range(3):
        scene.app.publish_raw(b'{"event_type": "OrdersFound", "data": {"ids": [' + str(number).encode())
        scene.traffic(5, Order)


@incident("bug or bad deploy")
def announced_and_never_written(scene: Scene) -> None:
    """Since its release our importer announces orders in a transaction that it rolls back: none is there."""
    (bug,) = scene.causes
    bug.finds = lambda letter: letter.service_name == "accepting"

    @scene.service("accepting", Order)
    def accept(order: Order, work: Work) -> None:
        """Works."""

    scene.traffic(20, Order)
    scene.deploy("4.18.0")
    for order in scene.documents(12, Order):
        scene.app.publish(OrdersFound.of([order]))
        scene.run(5)


@incident("dependency")
def outage_days_after_a_deploy(scene: Scene) -> None:
    """Four days after the last deploy, which changed nothing here, the object store's endpoint is gone."""
    (outage,) = scene.causes

    @scene.service("uploading", Upload, needs="object-store")
    def put(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(lib.EndpointConnectionError("https://store.internal/inbox"))

    scene.traffic(20, Upload, every=HOUR)
    scene.deploy("4.18.0")
    scene.traffic(26, Upload, every=DAY / 10)
    outage.on = True
    scene.traffic(12, Upload)


@incident("bug or bad deploy")
def monthly_path_of_an_old_release(scene: Scene) -> None:
    """The release is a week old; today its monthly statements run for the first time, and each of them fails."""
    (bug,) = scene.causes

    @scene.service("stating", Invoice)
    def state(invoice: Invoice, work: Work) -> None:
        if scene.version == "4.18.0" and invoice.kind == "statement":
            with bug:
                {"2026-10": 1}[invoice.text]

    scene.traffic(20, every=HOUR, kind="bill")
    scene.traffic(10, kind="statement")
    scene.deploy("4.18.0")
    scene.traffic(26, every=DAY / 6, kind="bill")
    scene.traffic(20, kind="statement", text="2026-11")


@incident("bug or bad deploy")
def canary_machine(scene: Scene) -> None:
    """One of four machines got the new release as a canary; what it takes fails, and works elsewhere."""
    (bug,) = scene.causes

    @scene.service("pricing", Order)
    def price(order: Order, work: Work) -> None:
        if scene.version == "4.18.0-rc1":
            raise bug(RuntimeError("price list is not loaded"))

    scene.traffic(20, Order)
    scene.deploy("4.17.2", "4.17.2", "4.18.0-rc1", "4.17.2")
    scene.traffic(26, Order)


@incident("dependency")
def patient_policy(scene: Scene) -> None:
    """A service with a patient policy of its own waits for a nightly file that the partner did not deliver."""
    (missing,) = scene.causes

    @scene.service("reconciling", Invoice, needs="sftp", policy=RetryPolicy(Schedule((60, 600)), max_tries=5))
    def reconcile(invoice: Invoice, work: Work) -> None:
        if missing.on:
            raise missing(FileNotFoundError(2, "No such file", "/outgoing/settlement-2026-11-17.csv"))

    scene.traffic(20)
    missing.on = True
    scene.traffic(10)
    scene.run(hours=1)


@incident("bug or bad deploy")
def customers_are_never_ready(scene: Scene) -> None:
    """Since the deploy the handler waits for a customer record under a wrong id, which nobody will ever write."""
    (bug,) = scene.causes

    @scene.service("matching", Order)
    def match(order: Order, work: Work) -> None:
        if scene.version == "4.18.0":
            raise bug(NotReady(f"customer None/{order.author} is not there yet"))

    scene.traffic(26, Order)
    scene.deploy("4.18.0")
    scene.traffic(12, Order)
    scene.run(20)


@incident("poison document")
def duplicate_key(scene: Scene) -> None:
    """Two orders have the number of an order of last year: the database's unique index refuses them."""
    (poison,) = scene.causes

    @scene.service("booking", Order, needs="ledger-db")
    def book(order: Order, work: Work) -> None:
        if order.text == "again":
            text = 'duplicate key value violates unique constraint "bookings_number_key"\n'
            raise poison(
                psycopg.errors.UniqueViolation(f"{text}DETAIL:  Key (number)=({order.number}) already exists.")
            )

    scene.mixed_traffic(scene.documents(40, Order), scene.documents(2, Order, text="again"))


@incident("poison document")
def repaired_and_processed(scene: Scene) -> None:
    """A bad mailbox file was repaired by its owner and put back; all is processed, the group is history."""
    (poison,) = scene.causes

    @scene.service("splitting", Upload)
    def split(upload: Upload, work: Work) -> None:
        if poison.on and upload.kind == "mbox":
            raise poison(mailbox.FormatError("line 4711 is no header"))

    poison.on = True
    scene.mixed_traffic(scene.documents(26, Upload), scene.documents(1, Upload, kind="mbox"))
    poison.on = False
    scene.retry_all()
    scene.traffic(20, Upload)


@incident("bug or bad deploy")
def foreign_json_of_a_new_partner(scene: Scene) -> None:
    """Our new reader cannot parse JSON with a byte order mark, which a fifth of all documents has."""
    (bug,) = scene.causes

    @scene.service("reading", Upload)
    def read(upload: Upload, work: Work) -> None:
        if scene.version == "4.18.0":  # before, the mark was removed
            with bug:
                json.loads("\ufeff{}" if upload.number % 5 == 0 else "{}")

    scene.traffic(32, Upload)
    scene.deploy("4.18.0")
    scene.traffic(40, Upload)
