"""Several troubles at once or one after the other, troubles that come and go, and two that nobody can tell."""

from __future__ import annotations

import email.utils
import http.client

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Order, Page, Upload
from tests.incidents.fourth import libraries as more
from tests.incidents.staging import Scene, incident


class SealedMail(Exception):
    """The team's own: a mail is encrypted for somebody else."""


class PipelineError(Exception):
    """The team's own, for everything."""


@incident("dependency", "poison document")
def mail_store_down_among_sealed_mails(scene: Scene) -> None:
    """The mail store resets connections for a while; mails of one lawyer are encrypted, before and after."""
    outage, poison = scene.causes

    @scene.service("mail_fetch", Mail, needs="mail store")
    def fetch(mail: Mail, work: Work) -> None:
        if outage.on:
            raise outage(ConnectionResetError(104, "Connection reset by peer"))
        if mail.author == "counsel":
            raise poison(SealedMail("no recipient info matches our certificates"))

    scene.mixed_traffic(scene.documents(60, Mail), scene.documents(5, Mail, author="counsel"))
    outage.on = True
    scene.traffic(25, Mail)
    outage.on = False
    scene.mixed_traffic(scene.documents(40, Mail), scene.documents(3, Mail, author="counsel"))


@incident("bug or bad deploy", "overload")
def rolled_back_then_put_back_all_at_once(scene: Scene) -> None:
    """A release broke the reading of sheets. After it was rolled back, the work of the day came at once."""
    bug, pressure = scene.causes
    pool = more.Meter(scene, 30)

    @scene.service("sheets", Upload, needs="converter")
    def read(upload: Upload, work: Work) -> None:
        if scene.version == "4.18.0" and upload.kind == "xlsx":
            with bug:
                _ = {"Sheet1": upload.text}["sheet1"]
        if pool.is_full():
            raise pressure(lib.PoolTimeout("timed out waiting for a connection from the pool"))

    scene.traffic(60, Upload)
    scene.deploy("4.18.0")
    scene.traffic(60, Upload)
    scene.deploy("4.17.2")
    scene.retry_all()
    scene.import_at_once(100, Upload)
    scene.run(20)


@incident("dependency", "dependency")
def directory_first_and_search_in_the_evening(scene: Scene) -> None:
    """The directory of people was away at noon; in the evening search refuses our key, which was rotated."""
    directory, search = scene.causes

    @scene.service("people", Mail, needs=["directory", "search"])
    def resolve(mail: Mail, work: Work) -> None:
        if directory.on:
            raise directory(lib.LdapServerDown())
        if search.on:
            raise search(lib.TransportApiError(401, "security_exception", "unable to authenticate user [archive]"))

    scene.traffic(50, Mail)
    directory.on = True
    scene.traffic(15, Mail)
    directory.on = False
    scene.traffic(40, Mail)
    scene.run(hours=6)
    search.on = True
    scene.traffic(12, Mail)


@incident("dependency", "bug or bad deploy", "poison document")
def billing_day_with_three_troubles(scene: Scene) -> None:
    """One customer removed its address for webhooks; the new release fails on credit notes; two invoices have no
    valid country."""
    outage, bug, poison = scene.causes

    @scene.service("billing", Invoice)
    def bill(invoice: Invoice, work: Work) -> None:
        if invoice.text == "country: ZZ":
            raise poison(ValueError("'ZZ' is not a country of ISO 3166"))
        if scene.version == "4.18.0" and invoice.kind == "credit":
            with bug:
                _ = "-" + invoice.size  # type: ignore[operator]

    @scene.service("webhooks", Order, needs="webhooks")
    def call(order: Order, work: Work) -> None:
        if outage.on and order.tenant == "initech":
            raise outage(lib.requests_status(404, "https://erp.initech.example/hooks/invoices"))

    def kind() -> str:
        return scene.random.choice(("invoice", "invoice", "credit"))

    scene.traffic(60, kind=kind)
    scene.traffic(60, Order)
    scene.deploy("4.18.0")
    outage.on = True
    scene.mixed_traffic(
        scene.documents(50, kind=kind),
        scene.documents(2, kind="invoice", text="country: ZZ"),
        scene.documents(50, Order),
    )


@incident("bug or bad deploy", "poison document")
def threads_that_never_end_and_mails_without_a_day(scene: Scene) -> None:
    """A release follows answers in circles; apart from that, some mails of one program have no readable date."""
    bug, poison = scene.causes

    @scene.service("threads", Mail)
    def order(mail: Mail, work: Work) -> None:
        with poison:
            email.utils.parsedate_to_datetime(
                "32 Foo" if mail.kind == "undated" else "Mon, 2 Mar 2026 10:00:00 +0000"
            )
        if scene.version == "4.18.0" and mail.text.startswith("Re:"):
            raise bug(RecursionError("maximum recursion depth exceeded in comparison"))

    def text() -> str:
        return scene.random.choice(("Re: offer", "offer", "minutes"))

    scene.mixed_traffic(scene.documents(80, Mail, text=text), scene.documents(5, Mail, kind="undated"))
    scene.deploy("4.18.0")
    scene.mixed_traffic(scene.documents(60, Mail, text=text), scene.documents(4, Mail, kind="undated"))


@incident("overload", "dependency")
def reindexing_then_a_revoked_token(scene: Scene) -> None:
    """A reindexing is more than the embedding service takes; the next day its owner revoked our token."""
    pressure, outage = scene.causes
    slots = more.Meter(scene, 30)

    @scene.service("reindexing", Page, needs="embeddings")
    def embed(page: Page, work: Work) -> None:
        if outage.on:
            raise outage(lib.grpc_error("UNAUTHENTICATED", "token has been revoked"))
        if slots.is_full():
            raise pressure(lib.grpc_error("RESOURCE_EXHAUSTED", "queue of model server is full (64)"))

    scene.traffic(40, Page)
    scene.import_at_once(110, Page)
    scene.run(hours=24)
    scene.traffic(20, Page)
    outage.on = True
    scene.traffic(20, Page)


@incident("poison document", "poison document")
def two_exporters_with_their_own_faults(scene: Scene) -> None:
    """One exporter writes amounts with a comma, another leaves out the number of the order."""
    comma, missing = scene.causes

    @scene.service("exports", Invoice)
    def read(invoice: Invoice, work: Work) -> None:
        if invoice.author == "exporter-a":
            with comma:
                float("1.204,50")
        if invoice.author == "exporter-b":
            with missing:
                _ = {"amount": invoice.size}["order_number"]

    scene.traffic(50)
    scene.mixed_traffic(
        scene.documents(80), scene.documents(8, author="exporter-a"), scene.documents(13, author="exporter-b")
    )


@incident("bug or bad deploy", "dependency")
def rolled_back_behind_its_own_data(scene: Scene) -> None:
    """A release wrote a new form of records; rolled back, we cannot read them. Meanwhile the store was away."""
    bug, outage = scene.causes

    @scene.service("records", Order, needs="store")
    def read(order: Order, work: Work) -> None:
        if outage.on:
            raise outage(lib.EndpointConnectionError("https://store.internal:9000/records"))
        if order.kind == "v3" and scene.version != "4.18.0":
            raise bug(PipelineError("record has version 3, this program reads up to version 2"))

    scene.traffic(60, Order, kind="v2")
    scene.deploy("4.18.0")
    scene.traffic(30, Order, kind="v3")
    scene.deploy("4.17.2")
    scene.traffic(25, Order, kind="v3")
    outage.on = True
    scene.traffic(10, Order, kind="v2")
    outage.on = False
    scene.run(hours=1)
    scene.traffic(15, Order, kind="v2")


@incident("unclear")
def release_and_new_network_in_one_night(scene: Scene) -> None:
    """The release and the move to a new network were in the same night; since then each of the few documents
    fails, and the error says nothing."""
    (unknown,) = scene.causes

    @scene.service("night_run", Order, needs="warehouse")
    def load(order: Order, work: Work) -> None:
        if unknown.on:
            raise unknown(PipelineError("step 4 failed"))

    scene.traffic(20, Order)
    scene.run(hours=9)
    scene.deploy("4.18.0")
    unknown.on = True
    scene.traffic(4, Order)


@incident("unclear")
def one_strange_state_and_never_again(scene: Scene) -> None:
    """One page failed once with an error that nobody has seen before, and passed at the second try."""
    (unknown,) = scene.causes
    failed = set[str]()

    @scene.service("publishing", Page, needs="site")
    def publish(page: Page, work: Work) -> None:
        if page.number == 17 and page.id not in failed:
            failed.add(page.id)
            raise unknown(RuntimeError("unexpected state"))

    scene.traffic(40, Page)


@incident("dependency", groups=2)
def text_extractor_in_a_crash_loop(scene: Scene) -> None:
    """The container with the text extractor restarts every few minutes: refused, or cut off in the middle."""
    (outage,) = scene.causes

    @scene.service("extracting", Upload, needs="extractor")
    def extract(upload: Upload, work: Work) -> None:
        if outage.on and scene.random.random() < 0.5:
            raise outage(http.client.RemoteDisconnected("Remote end closed connection without response"))
        if outage.on:
            raise outage(lib.requests_refused("http://extractor:9998/tika"))

    scene.traffic(50, Upload)
    for _ in range(5):
        outage.on = True
        scene.traffic(6, Upload)
        outage.on = False
        scene.traffic(8, Upload)


@incident("dependency")
def language_model_dies_slowly(scene: Scene) -> None:
    """The provider of the language model fails more and more of our few calls, in the end all; it goes on."""
    (outage,) = scene.causes
    share = [0.0]

    @scene.service("summaries", Page, needs="model")
    def summarise(page: Page, work: Work) -> None:
        if scene.random.random() < share[0]:
            text = "The server had an error while processing your request. Sorry about that!"
            raise outage(lib.InternalServerError(500, text, "server_error", None))

    for share[0] in (0.0, 0.1, 0.5, 1.0):
        scene.traffic(30, Page, every=60)


@incident("dependency")
def entity_service_flaps(scene: Scene) -> None:
    """The other team's service that finds names in texts is there for some minutes, and away for some."""
    (outage,) = scene.causes

    @scene.service("entities", Page, needs="entities")
    def find(page: Page, work: Work) -> None:
        if outage.on:
            why = "upstream connect error or disconnect/reset before headers. reset reason: connection termination"
            raise outage(lib.grpc_error("UNAVAILABLE", why))

    scene.traffic(40, Page, every=15)
    for _ in range(6):
        outage.on = not outage.on
        scene.traffic(12, Page, every=15)
