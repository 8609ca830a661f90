"""A release or a setting of ours is wrong, and it shows after a deploy."""

from __future__ import annotations

import json
import sqlite3

import psycopg
import pydantic

from onward import Classified, Kind, Permanent, Work, classify
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.staging import Scene, incident


@incident("bug or bad deploy")
def renamed_field(scene: Scene) -> None:
    """Release 4.18 reads `vat_rate`, which the invoices call `vat`: all fail at once."""
    (bug,) = scene.causes

    @scene.service("reading", Invoice)
    def read(invoice: Invoice, work: Work) -> None:
        data = {"vat": 0.19, "total": invoice.size}
        with bug:
            data["vat_rate" if scene.version == "4.18.0" else "vat"]

    scene.traffic(26)
    scene.deploy("4.18.0")
    scene.traffic(18)


@incident("bug or bad deploy")
def none_type_after_deploy(scene: Scene) -> None:
    """The new release forgot that orders of guests have no customer: a third of the orders fail."""
    (bug,) = scene.causes

    @scene.service("greeting", Order)
    async def greet(order: Order, work: Work) -> None:
        customer = None if order.number % 3 == 0 else order
        if scene.version == "2026.11.16-1":
            with bug:
                customer.author  # type: ignore[union-attr] # noqa: B018

    scene.deploy("2026.11.09-2")
    scene.traffic(30, Order)
    scene.deploy("2026.11.16-1")
    scene.traffic(30, Order)


@incident("bug or bad deploy")
def ten_percent_bug(scene: Scene) -> None:
    """The new rounding fails for amounts that end in 0: one document in ten since the deploy."""
    (bug,) = scene.causes

    @scene.service("rounding", Invoice)
    def round_up(invoice: Invoice, work: Work) -> None:
        if scene.version == "5.0.0":
            with bug:
                _ = 100 / (invoice.number % 10)

    scene.traffic(40, every=30)
    scene.deploy("5.0.0")
    scene.traffic(40, every=30)


@incident("bug or bad deploy")
def rolling_deploy(scene: Scene) -> None:
    """Half of the machines have the new release, and all that they get fails; the other half works."""
    (bug,) = scene.causes

    @scene.service("parsing", Mail)
    def parse(mail: Mail, work: Work) -> None:
        if scene.version == "v87":
            raise bug(AttributeError("'str' object has no attribute 'decode'"))

    scene.deploy("v86")
    scene.traffic(20, Mail)
    scene.deploy("v86", "v87")
    scene.traffic(20, Mail)


@incident("bug or bad deploy")
def rolled_back(scene: Scene) -> None:
    """A bad release was rolled back after a quarter of an hour; its dead letters are still there."""
    (bug,) = scene.causes

    @scene.service("pricing", Order)
    def price(order: Order, work: Work) -> None:
        if scene.version == "v2.9":
            raise bug(TypeError("unsupported operand type(s) for *: 'decimal.Decimal' and 'float'"))

    scene.deploy("v2.8")
    scene.traffic(20, Order)
    scene.deploy("v2.9")
    scene.traffic(12, Order)
    scene.deploy("v2.8")
    scene.traffic(20, Order)


@incident("bug or bad deploy")
def fixed_by_the_next_release(scene: Scene) -> None:
    """The fix is out since an hour, new documents work; the operator has not put the old ones back yet."""
    (bug,) = scene.causes

    @scene.service("tagging", Page)
    def tag(page: Page, work: Work) -> None:
        if scene.version == "1.31.0":
            raise bug(IndexError("list index out of range"))

    scene.deploy("1.30.2")
    scene.traffic(20, Page)
    scene.deploy("1.31.0")
    scene.traffic(15, Page)
    scene.deploy("1.31.1")
    scene.traffic(15, Page)
    scene.run(hours=1)


@incident("bug or bad deploy")
def migration_forgotten(scene: Scene) -> None:
    """The release went out before its migration: a column does not exist."""
    (bug,) = scene.causes

    @scene.service("booking", Order, needs="ledger-db")
    def book(order: Order, work: Work) -> None:
        if scene.version == "3.7.0":
            raise bug(
                psycopg.errors.UndefinedColumn(
                    'column "cost_centre" of relation "bookings" does not exist\n'
                    "LINE 1: INSERT INTO bookings (id, cost_centre)"
                )
            )

    scene.deploy("3.6.9")
    scene.traffic(20, Order)
    scene.deploy("3.7.0")
    scene.traffic(20, Order)


@incident("bug or bad deploy")
def migration_forgotten_sqlite(scene: Scene) -> None:
    """The same with a real SQLite table, in a service that handles events only."""
    (bug,) = scene.causes
    table = sqlite3.connect(":memory:", check_same_thread=False)
    table.execute("CREATE TABLE seen (id TEXT)")

    @scene.service("counting", None)
    def count(notice: Notice, work: Work) -> None:
        with bug:
            column = "first_seen" if scene.version == "12" else "id"
            table.execute(f"INSERT INTO seen ({column}) VALUES (?)", (notice.number,))

    scene.deploy("11")
    scene.notices(20)
    scene.deploy("12")
    scene.notices(12)
    table.close()


@incident("bug or bad deploy")
def new_endpoint_does_not_exist(scene: Scene) -> None:
    """Our new release calls /v3/convert, which the converter does not offer: 404 for each document."""
    (bug,) = scene.causes

    @scene.service("converting", Upload, needs="converter")
    def convert(upload: Upload, work: Work) -> None:
        if scene.version == "0.9.0":
            raise bug(lib.requests_status(404, "http://converter.internal/v3/convert"))

    scene.deploy("0.8.5")
    scene.traffic(20, Upload)
    scene.deploy("0.9.0")
    scene.traffic(15, Upload)


@incident("bug or bad deploy")
def we_send_a_bad_body(scene: Scene) -> None:
    """The new release sends amounts as text, and the bank rejects every payment with 422."""
    (bug,) = scene.causes

    @scene.service("paying", Order, needs="bank")
    async def pay(order: Order, work: Work) -> None:
        if scene.version == "6.1":
            body = json.dumps({"detail": [{"loc": ["body", "amount"], "msg": "value is not a valid decimal"}]})
            raise bug(lib.HTTPStatusError(422, f"https://api.bank.example/v2/payments?ref={order.id}", body))

    scene.deploy("6.0")
    scene.traffic(26, Order)
    scene.deploy("6.1")
    scene.traffic(20, Order)


@incident("bug or bad deploy")
def our_validation_became_too_strict(scene: Scene) -> None:
    """A release made `number` at most 30 in our own model: from then on everything is refused."""
    (bug,) = scene.causes

    class Strict(pydantic.BaseModel):
        number: int = pydantic.Field(le=30)

    @scene.service("checking", Order)
    def check(order: Order, work: Work) -> None:
        if scene.version == "21.0":
            with bug:
                Strict(number=order.number)

    scene.deploy("20.4")
    scene.traffic(35, Order)
    scene.deploy("21.0")
    scene.traffic(25, Order)


@incident("bug or bad deploy")
def endless_recursion(scene: Scene) -> None:
    """The new folding of quotes calls itself without end for replies that quote replies."""
    (bug,) = scene.causes

    def fold(depth: int) -> int:
        return fold(depth + 1)

    @scene.service("folding", Mail)
    def handle(mail: Mail, work: Work) -> None:
        if scene.version == "v14" and mail.number % 4 == 0:
            with bug:
                fold(0)

    scene.deploy("v13")
    scene.traffic(26, Mail)
    scene.deploy("v14")
    scene.traffic(26, Mail)


@incident("bug or bad deploy")
def too_slow_since_the_deploy(scene: Scene) -> None:
    """The new regular expression backtracks for minutes on every page: the time limit is exceeded."""
    (bug,) = scene.causes

    @scene.service("cleaning", Page, time_limit=60)
    def clean(page: Page, work: Work) -> None:
        if scene.version == "9.9.0":
            bug.takes(61)

    scene.deploy("9.8.2")
    scene.traffic(20, Page)
    scene.deploy("9.9.0")
    scene.traffic(8, Page, every=300)


@incident("bug or bad deploy")
def batches_fail_since_the_deploy(scene: Scene) -> None:
    """The new vectoriser cannot concatenate: every batch of eight fails, and so does each document alone."""
    (bug,) = scene.causes

    @scene.service("embedding", Page, batch=8)
    def embed(pages: list[Page], work: Work) -> None:
        if scene.version == "2.0":
            raise bug(
                ValueError("all the input array dimensions except for the concatenation axis must match exactly")
            )

    scene.deploy("1.9")
    scene.import_at_once(40, Page, together=8)
    scene.run(30)
    scene.deploy("2.0")
    scene.import_at_once(24, Page, together=8)
    scene.run(5)


@incident("bug or bad deploy")
def deploy_on_a_quiet_night(scene: Scene) -> None:
    """After the deploy of the night only three orders came, and all three failed."""
    (bug,) = scene.causes

    @scene.service("confirming", Order)
    def confirm(order: Order, work: Work) -> None:
        if scene.version == "4.18.0":
            raise bug(NameError("name 'render_totals' is not defined"))

    scene.traffic(40, Order)
    scene.deploy("4.18.0")
    scene.traffic(3, Order, every=1800)


@incident("bug or bad deploy")
def first_document_after_a_deploy(scene: Scene) -> None:
    """A deploy five minutes ago, one document, one failure: the handler's signature changed."""
    (bug,) = scene.causes

    def total(net: float) -> float:
        return net

    @scene.service("totalling", Invoice)
    def handle(invoice: Invoice, work: Work) -> None:
        if scene.version == "4.18.0":
            with bug:
                total(invoice.size, 0.19)  # type: ignore[call-arg]

    scene.traffic(50)
    scene.deploy("4.18.0")
    scene.run(5)
    scene.traffic(1)


@incident("bug or bad deploy")
def own_classifier_hides_the_kind(scene: Scene) -> None:
    """A classifier of ours declares every error transient; the release is broken all the same."""
    (bug,) = scene.causes

    def patient(error: BaseException) -> Classified:
        return Classified(Kind.TRANSIENT) if isinstance(error, KeyError) else classify(error)

    @scene.service("routing", Mail, classify=patient)
    def route(mail: Mail, work: Work) -> None:
        if scene.version == "77":
            with bug:
                {"billing": 1}["Billing"]

    scene.deploy("76")
    scene.traffic(20, Mail)
    scene.deploy("77")
    scene.traffic(15, Mail)


@incident("bug or bad deploy")
def assertion_of_ours(scene: Scene) -> None:
    """A new release checks an invariant that was never true for credit notes: a fifth fails, as Permanent."""
    (bug,) = scene.causes

    @scene.service("balancing", Invoice)
    def balance(invoice: Invoice, work: Work) -> None:
        if scene.version == "4.19.0" and invoice.number % 5 == 0:
            raise bug(Permanent(f"credit and debit differ by {invoice.size / 100:.2f} in {invoice.id}"))

    scene.traffic(32)
    scene.deploy("4.19.0")
    scene.traffic(32)
