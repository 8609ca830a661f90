"""Two troubles at once, and one that nobody can tell."""

from __future__ import annotations

import json

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Order, Page
from tests.incidents.staging import Scene, incident


class StatementError(Exception):
    """The team's own."""


@incident("dependency", "poison document")
def statements_cut_while_the_bank_is_down(scene: Scene) -> None:
    """The bank is unreachable; some statements that came before and after were cut off while they were copied."""
    outage, poison = scene.causes

    @scene.service("statements", Invoice, needs="bank")
    def book(invoice: Invoice, work: Work) -> None:
        if invoice.text.startswith("{"):
            with poison:
                json.loads(invoice.text)
        if outage.on:
            raise outage(lib.requests_refused("https://api.bank.example/v1/statements"))

    scene.mixed_traffic(scene.documents(50), scene.documents(4, text='{"entries": [{"amount": 1'))
    outage.on = True
    scene.mixed_traffic(scene.documents(20), scene.documents(3, text='{"entries": [{"amount": 1'))
    outage.on = False
    scene.run(hours=6)


@incident("bug or bad deploy", "dependency")
def bad_release_and_a_refused_key(scene: Scene) -> None:
    """A release broke orders of one kind; a day before, the carrier had blocked our key for another service."""
    bug, outage = scene.causes

    @scene.service("packing", Order)
    def pack(order: Order, work: Work) -> None:
        if scene.version == "4.18.0" and order.tenant == "acme":
            with bug:
                _ = [][order.number]

    @scene.service("tracking", Page, needs="carrier")
    def track(page: Page, work: Work) -> None:
        if outage.on:
            raise outage(lib.requests_status(401, f"https://api.carrier.example/track/{page.number}"))

    scene.traffic(20, Page)
    scene.traffic(40, Order)
    outage.on = True
    scene.traffic(15, Page)
    scene.run(hours=20)
    scene.deploy("4.18.0")
    scene.traffic(40, Order)


@incident("overload", "poison document")
def index_over_its_rate_and_bad_mails(scene: Scene) -> None:
    """A backlog is over the index's rate; three mails have a date that no parser reads."""
    pressure, poison = scene.causes
    minutes = dict[int, int]()

    @scene.service("mail_index", Mail, needs="index")
    def index(mail: Mail, work: Work) -> None:
        if mail.kind == "broken":
            raise poison(ValueError(f"could not read the date of {mail.id}"))
        minute = int(scene.minute)
        if minutes.get(minute, 0) >= 30:
            raise pressure(
                lib.TransportApiError(429, "es_rejected_execution_exception", "queue capacity is 200, 200 queued")
            )
        minutes[minute] = minutes.get(minute, 0) + 1

    scene.traffic(30, Mail)
    documents = [*scene.documents(110, Mail), *scene.documents(3, Mail, kind="broken")]
    scene.publish(documents)
    scene.run(15)


@incident("unclear")
def one_statement_and_no_word(scene: Scene) -> None:
    """The first and only document of a new service failed, with an error that has no text and no cause."""
    (unknown,) = scene.causes

    @scene.service("statements", Invoice, needs="bank")
    def book(invoice: Invoice, work: Work) -> None:
        raise unknown(StatementError())

    scene.traffic(1)
    scene.run(5)
