"""An API that our services call is down, or answers with errors."""

from __future__ import annotations

import requests

from onward import Unavailable, Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Notice, Order, Page, Upload
from tests.incidents.staging import Scene, incident


@incident("dependency")
def lying_health_call(scene: Scene) -> None:
    """The load balancer's health page says OK while every request of the tax service returns 503."""
    (outage,) = scene.causes
    scene.dependency("tax", health=lambda: True)

    @scene.service("taxing", needs="tax")
    def add_tax(invoice: Invoice, work: Work) -> None:
        if outage.on:
            raise outage(lib.requests_status(503, f"https://tax.internal/v2/rates?invoice={invoice.id}"))

    scene.traffic(26)
    outage.on = True
    scene.traffic(15)
    scene.run(hours=1)


@incident("dependency")
def wrapped_by_our_own_error(scene: Scene) -> None:
    """The archive's gateway returns 502, and our client wraps that into an error of its own."""
    (outage,) = scene.causes

    class ArchiveError(Exception):
        """Ours."""

    @scene.service("archiving", Upload, needs="archive")
    def archive(upload: Upload, work: Work) -> None:
        if outage.on:
            try:
                raise lib.HTTPStatusError(502, f"https://archive.internal/put/{upload.id}", "<html>nginx</html>")
            except lib.HTTPStatusError as error:
                raise outage(ArchiveError(f"could not archive {upload.path} ({upload.size} bytes)")) from error

    scene.traffic(20, Upload)
    outage.on = True
    scene.traffic(12, Upload)


@incident("dependency")
def model_endpoint_500(scene: Scene) -> None:
    """The model provider has an incident: internal errors for all requests."""
    (outage,) = scene.causes

    @scene.service("summarising", Page, needs="model")
    async def summarise(page: Page, work: Work) -> None:
        if outage.on:
            raise outage(
                lib.InternalServerError(
                    500,
                    "The server had an error while processing your request. Sorry about that!",
                    "server_error",
                    None,
                )
            )

    scene.traffic(20, Page)
    outage.on = True
    scene.traffic(12, Page)
    scene.run(hours=5)


@incident("dependency")
def model_endpoint_60_percent(scene: Scene) -> None:
    """The provider is degraded: six of ten requests fail with 500, the others work."""
    (outage,) = scene.causes

    @scene.service("summarising", Page, needs="model")
    async def summarise(page: Page, work: Work) -> None:
        if outage.on and scene.random.random() < 0.6:
            raise outage(
                lib.InternalServerError(
                    500, "The server had an error while processing your request.", "server_error", None
                )
            )

    scene.traffic(20, Page)
    outage.on = True
    scene.traffic(32, Page)


@incident("dependency")
def grpc_unavailable_in_batches(scene: Scene) -> None:
    """The embedding server is gone; batches of 16 fail as a whole."""
    (outage,) = scene.causes

    @scene.service("embedding", Page, needs="embedder", batch=16)
    def embed(pages: list[Page], work: Work) -> None:
        if outage.on:
            raise outage(
                lib.grpc_error(
                    "UNAVAILABLE",
                    "failed to connect to all addresses; last error: ipv4:10.2.0.8:50051: Connection refused",
                )
            )

    scene.import_at_once(64, Page, together=16)
    scene.run(30)
    outage.on = True
    scene.import_at_once(32, Page, together=16)
    scene.run(15)


@incident("dependency")
def single_order_during_a_night_outage(scene: Scene) -> None:
    """Only one order arrived during the bank's nightly outage; the breaker never had a second opinion."""
    (outage,) = scene.causes

    @scene.service("paying", Order, needs="bank")
    def pay(order: Order, work: Work) -> None:
        if outage.on:
            raise outage(
                lib.requests_status(503, f"https://api.bank.example/payments/{order.id}", {"Retry-After": "1800"})
            )

    scene.traffic(20, Order, every=600)
    outage.on = True
    scene.traffic(1, Order)
    scene.run(25)


@incident("dependency")
def given_up_after_days(scene: Scene) -> None:
    """The ministry's portal returned 500 for a week; the documents were given up."""
    (outage,) = scene.causes

    @scene.service("filing", Invoice)
    def file(invoice: Invoice, work: Work) -> None:
        if outage.on:
            raise outage(lib.requests_status(500, f"https://portal.ministry.example/filing/{invoice.id}/submit"))

    scene.traffic(20)
    outage.on = True
    scene.traffic(8, every=3600)
    scene.run(hours=72)


@incident("dependency")
def listener_without_needs_or_documents(scene: Scene) -> None:
    """The SMS provider answers 503 for an hour; the service declares neither documents nor needs."""
    (outage,) = scene.causes

    @scene.service("texting", None)
    def text(notice: Notice, work: Work) -> None:
        if outage.on:
            raise outage(lib.requests_status(503, f"https://sms.example/v1/messages/{notice.number}"))

    scene.notices(26)
    outage.on = True
    scene.notices(20)


@incident("dependency")
def handler_says_unavailable(scene: Scene) -> None:
    """The handler knows what an outage looks like and says so."""
    (outage,) = scene.causes

    @scene.service("translating", Page, needs="translator")
    async def translate(page: Page, work: Work) -> None:
        if outage.on:
            raise outage(Unavailable("translator", "maintenance window", retry_after=900))

    scene.traffic(15, Page)
    outage.on = True
    scene.traffic(5, Page)
    scene.run(20)


@incident("dependency")
def second_of_two_dependencies(scene: Scene) -> None:
    """Of two dependencies the first one works; the score service returns 500 and has no health call."""
    (outage,) = scene.causes
    scene.dependency("crm", health=lambda: True)

    @scene.service("scoring", Order, needs=("crm", "scores"))
    def score(order: Order, work: Work) -> None:
        if outage.on:
            raise outage(lib.HTTPStatusError(500, f"http://scores.internal/score/{order.id}"))

    scene.traffic(20, Order)
    outage.on = True
    scene.traffic(15, Order)


@incident("dependency")
def provider_changed_its_answer(scene: Scene) -> None:
    """The weather provider shows an HTML maintenance page with status 200: nothing can be parsed."""
    (outage,) = scene.causes

    @scene.service("forecasting", Page, needs="weather")
    def forecast(page: Page, work: Work) -> None:
        body = "<html><title>Scheduled maintenance</title></html>" if outage.on else '{"t": 21.5}'
        response = requests.Response()
        response._content, response.status_code = body.encode(), 200
        with outage:
            response.json()

    scene.traffic(20, Page)
    outage.on = True
    scene.traffic(15, Page)


@incident("dependency")
def hundreds_in_an_import(scene: Scene) -> None:
    """Two hundred pages were imported when the crawler's proxy was down."""
    (outage,) = scene.causes

    @scene.service("fetching", Page)
    async def fetch(page: Page, work: Work) -> None:
        if outage.on:
            raise outage(
                lib.HTTPStatusError(502, f"http://proxy.internal:3128/fetch?u=https://wiki.example/{page.id}")
            )

    scene.traffic(20, Page)
    outage.on = True
    scene.import_at_once(200, Page)
    scene.run(4)
