"""Invoices are read and converted into euros.

An ordinary Onward app; `examples.day` runs it, breaks what it needs, and deploys it twice. Its version comes
from the environment, as a deployment would set it:

    1.0     reads invoices
    1.1     reads who is taxed, too, but forgets that private customers have no VAT number
    1.2     does not forget them
"""

from __future__ import annotations

import os

from examples.rates import RATES, ask
from onward import App, Document, Event, Work, names

VERSION = os.environ.get("INVOICES_VERSION", "1.0")
EXCHANGE = os.environ.get("INVOICES_RATES", "http://127.0.0.1:8027")


class Invoice(Document):
    """An invoice as it came: lines such as `total: 12.50`."""

    text: str


class Amount(Document):
    """What an invoice asks for."""

    total: float
    currency: str
    taxed: str = ""


class Booking(Document):
    """What is paid in the end."""

    euros: float


class InvoiceArrived(Event):
    invoice_id: str = names(Invoice)


class AmountRead(Event):
    amount_id: str = names(Amount)


app = App(version=VERSION)
app.dependency("rates", health=lambda: bool(ask(EXCHANGE)))


@app.service("reading", on=InvoiceArrived, finishes=Invoice)
def read(invoice: Invoice, work: Work) -> None:
    fields = dict(line.split(": ", 1) for line in invoice.text.splitlines())
    if fields["currency"] not in RATES:
        raise ValueError(f"nobody knows the currency {fields['currency']!r}")
    amount = Amount(
        id=invoice.id, total=float(fields["total"]), currency=fields["currency"], taxed=vat_number(fields)
    )
    work.add(amount)
    work.emit(AmountRead.of(amount))


@app.service("converting", on=AmountRead, finishes=Amount, needs="rates")
def convert(amount: Amount, work: Work) -> None:
    work.add(Booking(id=amount.id, euros=round(amount.total * ask(f"{EXCHANGE}/{amount.currency}"), 2)))


def vat_number(fields: dict[str, str]) -> str:
    """The number of whoever is taxed, as this version reads it."""
    if VERSION == "1.0":
        return ""
    return fields["vat"] if VERSION == "1.1" else fields.get("vat", "")
