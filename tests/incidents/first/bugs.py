"""The program is wrong, and no deploy of these days shows it."""

from __future__ import annotations

import asyncio
import datetime
import re

import pydantic

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.staging import Scene, incident


@incident("bug or bad deploy")
def never_worked(scene: Scene) -> None:
    """A new service: its first thirty documents all fail with the same KeyError."""
    (bug,) = scene.causes

    @scene.service("reading", Invoice)
    def read(invoice: Invoice, work: Work) -> None:
        with bug:
            {"total": 1}["vat"]

    scene.traffic(20)


@incident("bug or bad deploy")
def first_document_ever(scene: Scene) -> None:
    """The very first document of a new service fails: a function is called that does not exist."""
    (bug,) = scene.causes

    @scene.service("greeting", Order)
    async def greet(order: Order, work: Work) -> None:
        with bug:
            order.full_name()  # type: ignore[attr-defined]

    scene.traffic(1, Order)
    scene.run(30)


@incident("bug or bad deploy")
def feature_flag(scene: Scene) -> None:
    """Marketing switched the new discounts on, at 14:00 and without a deploy: all orders fail since."""
    (bug,) = scene.causes

    @scene.service("pricing", Order)
    def price(order: Order, work: Work) -> None:
        if bug.on:
            raise bug(TypeError("'NoneType' object is not subscriptable"))

    scene.traffic(40, Order)
    bug.on = True
    scene.traffic(18, Order)


@incident("bug or bad deploy")
def feature_flag_for_some(scene: Scene) -> None:
    """The new layout was switched on for a quarter of the tenants, without a deploy: theirs fail."""
    (bug,) = scene.causes

    @scene.service("rendering", Page)
    def render(page: Page, work: Work) -> None:
        if bug.on and page.tenant == "globex":
            raise bug(lib.UndefinedError("'dict object' has no attribute 'hero_image'"))

    scene.traffic(26, Page)
    bug.on = True
    scene.traffic(40, Page)


@incident("bug or bad deploy")
def last_day_of_the_month(scene: Scene) -> None:
    """On the 31st our date arithmetic asks for a 31st of September: everything fails from midnight on."""
    (bug,) = scene.causes

    @scene.service("scheduling", Order)
    def schedule(order: Order, work: Work) -> None:
        with bug:
            datetime.date(2026, 8, 31 if bug.on else 30).replace(month=9)

    scene.traffic(40, Order, every=900)
    bug.on = True
    scene.traffic(20, Order, every=600)


@incident("bug or bad deploy")
def provider_changed_its_schema(scene: Scene) -> None:
    """The CRM renamed a field, announced months ago, and we did not follow: our parser fails for all."""
    (bug,) = scene.causes

    class Customer(pydantic.BaseModel):
        mail: str

    @scene.service("enriching", Order, needs="crm")
    def enrich(order: Order, work: Work) -> None:
        with bug:
            Customer.model_validate({"email" if bug.on else "mail": f"{order.author}@example.org"})

    scene.traffic(32, Order)
    bug.on = True
    scene.traffic(18, Order)


@incident("bug or bad deploy")
def api_version_switched_off(scene: Scene) -> None:
    """The courier switched off version 1 of its API, which we still call: 410 Gone for all."""
    (bug,) = scene.causes

    @scene.service("shipping", Order, needs="courier")
    def ship(order: Order, work: Work) -> None:
        if bug.on:
            raise bug(lib.requests_status(410, "https://api.courier.example/v1/shipments"))

    scene.traffic(26, Order)
    bug.on = True
    scene.traffic(20, Order)


@incident("bug or bad deploy")
def counter_overflow(scene: Scene) -> None:
    """Our numbers passed 32 767, and the column that we chose holds no more: every booking fails from then on."""
    import struct

    (bug,) = scene.causes

    @scene.service("numbering", Invoice)
    def give_number(invoice: Invoice, work: Work) -> None:
        with bug:
            struct.pack("h", 32_720 + invoice.number)

    scene.traffic(70)


@incident("bug or bad deploy")
def clock_of_our_machines(scene: Scene) -> None:
    """The clocks of our machines are off by twenty minutes: the store refuses all signatures as too old."""
    (skew,) = scene.causes

    @scene.service("uploading", Upload, needs="object-store")
    def put(upload: Upload, work: Work) -> None:
        if skew.on:
            text = "The difference between the request time and the current time is too large."
            raise skew(lib.BotoClientError("RequestTimeTooSkewed", text, "PutObject", 403))

    scene.traffic(26, Upload)
    skew.on = True
    scene.traffic(15, Upload)


@incident("bug or bad deploy")
def event_loop_misused(scene: Scene) -> None:
    """The handler calls asyncio.run inside of a running loop, for documents with attachments only: about half."""
    (bug,) = scene.causes

    @scene.service("fetching", Mail)
    async def fetch(mail: Mail, work: Work) -> None:
        if mail.number % 2:
            never = asyncio.sleep(0)
            try:
                with bug:
                    asyncio.run(never)
            finally:
                never.close()

    scene.traffic(26, Mail)


@incident("bug or bad deploy")
def half_of_the_code_path(scene: Scene) -> None:
    """A new service that was never right for refunds, which are every third document."""
    (bug,) = scene.causes

    @scene.service("refunding", Order)
    def refund(order: Order, work: Work) -> None:
        if order.number % 3 == 0:
            with bug:
                _ = order.size / (order.number % 3)

    scene.traffic(75, Order)


@incident("bug or bad deploy")
def import_of_a_new_source(scene: Scene) -> None:
    """Our parser of message ids is wrong for ids with a dollar sign, which are common: it always was."""
    (bug,) = scene.causes

    @scene.service("threading", Mail)
    def thread(mail: Mail, work: Work) -> None:
        id = mail.id.replace(".", "$") if mail.number % 4 == 0 else mail.id
        with bug:
            found = re.fullmatch(r"<[\w.]+@[\w.]+>", id)
            found.group()  # type: ignore[union-attr]

    scene.traffic(65, Mail)


@incident("bug or bad deploy")
def listener_never_worked(scene: Scene) -> None:
    """The new auditor finishes no documents, and fails for every event since its first day."""
    (bug,) = scene.causes

    @scene.service("auditing", None)
    async def audit(notice: Notice, work: Work) -> None:
        raise bug(NotImplementedError("audit of " + notice.what))

    scene.notices(20)
    scene.run(10)


@incident("bug or bad deploy")
def work_misused(scene: Scene) -> None:
    """The handler of a new service adds a plain dict to its work, which Onward refuses."""
    (bug,) = scene.causes

    @scene.service("collecting", Page)
    def collect(page: Page, work: Work) -> None:
        with bug:
            work.add({"id": page.id})  # type: ignore[type-var]

    scene.traffic(12, Page)


@incident("bug or bad deploy")
def template_of_the_office(scene: Scene) -> None:
    """The office edited the mail template in production and forgot a bracket: no mail can be rendered."""
    (bug,) = scene.causes

    @scene.service("writing", Mail, needs="relay")
    def write(mail: Mail, work: Work) -> None:
        if bug.on:
            raise bug(lib.TemplateSyntaxError("unexpected '}', expected ')'"))

    scene.traffic(32, Mail)
    bug.on = True
    scene.traffic(15, Mail)


@incident("bug or bad deploy")
def setting_changed_by_hand(scene: Scene) -> None:
    """Somebody set the page size to `ten` in the live settings; every worker reads it for each document."""
    (mistake,) = scene.causes

    @scene.service("paging", Upload)
    def paginate(upload: Upload, work: Work) -> None:
        with mistake:
            int("ten" if mistake.on else "10")

    scene.traffic(26, Upload)
    mistake.on = True
    scene.traffic(20, Upload)


@incident("bug or bad deploy")
def too_small_a_time_limit(scene: Scene) -> None:
    """The new service has a time limit of 5 s, and any document takes 20: nothing was ever finished."""
    (mistake,) = scene.causes

    @scene.service("recognising", Upload, time_limit=5)
    def recognise(upload: Upload, work: Work) -> None:
        mistake.takes(20)

    scene.traffic(8, Upload, every=300)


@incident("bug or bad deploy")
def wrapped_bug(scene: Scene) -> None:
    """A KeyError of ours is wrapped into a generic error of ours with the id of each order."""
    (bug,) = scene.causes

    class BookingFailed(Exception):
        """Ours."""

    @scene.service("booking", Order)
    def book(order: Order, work: Work) -> None:
        try:
            {"EUR": 1}["eur"]
        except KeyError as error:
            raise bug(BookingFailed(f"order {order.id} of {order.author} ({order.size} cents)")) from error

    scene.traffic(20, Order)
