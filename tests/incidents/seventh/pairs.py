"""Two or three troubles, at the same time or one after the other."""

from __future__ import annotations

import json

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Order, Page, Upload
from tests.incidents.seventh import libraries as more
from tests.incidents.seventh.overload import Meter
from tests.incidents.staging import Scene, incident


class StaleRatesError(Exception):
    """The team's own."""


class ReceiptError(Exception):
    """The team's own."""


@incident("dependency", "bug or bad deploy")
def text_credit_used_up_and_a_release_for_gift_cards(scene: Scene) -> None:
    """The credit for text messages is used up; an hour later a release breaks the messages about gift cards."""
    refusal, bug = scene.causes

    @scene.service("text_messages", Order, needs="texting")
    def send(order: Order, work: Work) -> None:
        if scene.version == "4.18.0" and order.kind == "gift":
            with bug:
                _ = order.text.split("|")[2]
        if refusal.on:
            uri = "/2010-04-01/Accounts/AC5ef8/Messages.json"
            text = "Unable to create record: Account not active, insufficient funds"
            raise refusal(more.TwilioRestException(401, uri, text, 20005))

    def orders(count: int) -> None:
        scene.mixed_traffic(scene.documents(count, Order), scene.documents(count // 3, Order, kind="gift"))

    orders(60)
    refusal.on = True
    orders(24)
    refusal.on = False
    scene.run(hours=1)
    scene.deploy("4.18.0")
    orders(45)


@incident("dependency", "overload")
def broker_down_and_then_the_pool_too_small_to_catch_up(scene: Scene) -> None:
    """The broker was away for an hour; hours later a week of counts is loaded, too much for the pool."""
    outage, pressure = scene.causes
    meter = Meter(scene, 20)

    @scene.service("stock_counts", Order, needs=("broker", "stock_database"))
    def count(order: Order, work: Work) -> None:
        if outage.on:
            text = 'KafkaError{code=_ALL_BROKERS_DOWN,val=-187,str="3/3 brokers are down"}'
            raise outage(more.KafkaException(text))
        if meter.is_over:
            raise pressure(more.PoolTimeout("couldn't get a connection after 30.00 sec"))

    scene.traffic(50, Order, every=60)
    outage.on = True
    scene.traffic(15, Order, every=240)
    outage.on = False
    scene.run(hours=3)
    scene.traffic(30, Order, every=60)
    scene.import_at_once(80, Order, source="stock counts of the week")
    scene.run(10)


@incident("poison document", "bug or bad deploy")
def odd_tickets_and_a_release_that_forgets_attachments(scene: Scene) -> None:
    """Since ever a few tickets come as broken JSON; today's release fails at each ticket with an attachment."""
    poison, bug = scene.causes

    @scene.service("tickets", Mail)
    def read(mail: Mail, work: Work) -> None:
        with poison:
            json.loads(mail.text)
        if scene.version == "4.18.0" and mail.kind == "pdf":
            raise bug(AttributeError("'list' object has no attribute 'filename'"))

    def tickets(count: int, odd: int) -> None:
        broken = scene.documents(odd, Mail, text='{"subject": "Re: "refund""}')
        scene.mixed_traffic(scene.documents(count, Mail, text='{"subject": "Refund"}'), broken)

    tickets(100, 4)
    scene.deploy("4.18.0")
    tickets(80, 3)


@incident("dependency", "dependency")
def secrets_refused_and_later_the_rates_stand_still(scene: Scene) -> None:
    """First the vault refuses us, as our role ran out; once that is mended, the bank publishes no new rates."""
    refusal, stale = scene.causes

    @scene.service("prices", Order, needs=("vault", "exchange_rates"))
    def price(order: Order, work: Work) -> None:
        if refusal.on:
            raise refusal(more.VaultForbidden("https://vault.internal:8200/v1/secret/data/rates"))
        if stale.on and order.kind != "EUR":
            raise stale(StaleRatesError(f"newest rate EUR/{order.kind} is 26 hours old, limit is 24"))

    def bookings(count: int) -> None:
        scene.traffic(count, Order, every=120, kind=lambda: scene.random.choice(("EUR", "EUR", "USD", "SEK")))

    bookings(50)
    refusal.on = True
    bookings(15)
    refusal.on = False
    scene.run(hours=2)
    bookings(40)
    stale.on = True
    bookings(40)
    stale.on = False
    bookings(20)
    scene.retry_all()


@incident("overload", "poison document")
def picture_vectors_fill_the_card_and_one_is_no_picture(scene: Scene) -> None:
    """The import fills the memory of the graphics card, until it is through; four files are no pictures at all."""
    pressure, poison = scene.causes
    meter = Meter(scene, 40)

    @scene.service("picture_vectors", Upload)
    def embed(upload: Upload, work: Work) -> None:
        if upload.size == 0:
            raise poison(OSError("image file is truncated (0 bytes not processed)"))
        if meter.is_over:
            tried = scene.random.randrange(200, 900)
            text = f"CUDA out of memory. Tried to allocate {tried}.00 MiB. GPU 0 has a total capacity of 23.69 GiB"
            raise pressure(lib.OutOfMemoryErrorOfCuda(text))

    scene.traffic(40, Upload)
    documents = [*scene.documents(130, Upload), *scene.documents(4, Upload, size=0)]
    scene.random.shuffle(documents)
    scene.publish(documents, source="pictures of the season")
    scene.run(25)


@incident("bug or bad deploy", "dependency", "poison document")
def three_troubles_of_a_travel_agency_on_one_day(scene: Scene) -> None:
    """A release breaks seat maps; the insurer is down at noon; two vouchers name a day that is none."""
    bug, outage, poison = scene.causes
    scene.dependency("insurer", health=lambda: not outage.on)

    @scene.service("seat_maps", Page)
    def draw(page: Page, work: Work) -> None:
        if scene.version == "6.2.0" and page.tenant in ("acme", "globex"):
            raise bug(TypeError("'<' not supported between instances of 'NoneType' and 'int'"))

    @scene.service("insurances", Order, needs="insurer")
    def insure(order: Order, work: Work) -> None:
        if outage.on:
            raise outage(lib.HTTPStatusError(502, "https://api.insurer.example/policies"))

    @scene.service("vouchers", Invoice)
    def redeem(invoice: Invoice, work: Work) -> None:
        if invoice.kind == "odd":
            raise poison(ValueError("day is out of range for month"))

    scene.mixed_traffic(scene.documents(40, Page), scene.documents(40, Order), scene.documents(20))
    scene.deploy("6.2.0")
    scene.mixed_traffic(scene.documents(40, Page), scene.documents(15, Order), scene.documents(2, kind="odd"))
    outage.on = True
    scene.mixed_traffic(scene.documents(15, Order), scene.documents(20))
    outage.on = False
    scene.mixed_traffic(scene.documents(20, Page), scene.documents(20, Order))


@incident("bug or bad deploy", "overload")
def wrong_bucket_in_the_release_and_a_quota_by_the_minute(scene: Scene) -> None:
    """A release names a bucket that does not exist; an hour after it is fixed, an import exceeds a quota."""
    bug, pressure = scene.causes
    meter = Meter(scene, 30)

    @scene.service("page_vectors", Page, needs="embeddings")
    def embed(page: Page, work: Work) -> None:
        if scene.version == "4.18.0":
            text = "The specified bucket does not exist"
            raise bug(lib.BotoClientError("NoSuchBucket", text, "GetObject", 404))
        if meter.is_over:
            what = "aiplatform.googleapis.com/online_prediction_requests_per_base_model"
            raise pressure(more.ResourceExhausted(f"Quota exceeded for {what} with base model: text-embedding"))

    scene.traffic(50, Page)
    scene.deploy("4.18.0")
    scene.traffic(20, Page)
    scene.deploy("4.18.1")
    scene.run(hours=1)
    scene.traffic(30, Page)
    scene.import_at_once(90, Page)
    scene.run(12)


@incident("bug or bad deploy", "poison document")
def flag_for_new_taxes_and_receipts_of_one_till(scene: Scene) -> None:
    """A flag turned on new taxes and breaks Swiss receipts; one till has sent empty receipts before and after."""
    bug, poison = scene.causes

    @scene.service("receipts", Invoice)
    def book(invoice: Invoice, work: Work) -> None:
        if not invoice.text:
            raise poison(ReceiptError(f"receipt {invoice.id} has no lines"))
        if bug.on and invoice.kind == "CH":
            raise bug(ReceiptError("no rate for the class of tax")) from KeyError("CH-2026-reduced")

    def receipts(count: int) -> None:
        sound = scene.documents(count, kind=lambda: scene.random.choice(("AT", "DE", "CH", "IT")))
        scene.mixed_traffic(sound, scene.documents(4, text="", author="till-17"), every=20)

    receipts(80)
    bug.on = True
    receipts(80)
