"""Several troubles at once or one after the other, first minutes of installations, and what nobody can tell."""

from __future__ import annotations

import socket

import psycopg
import psycopg.errors
from lxml import etree  # type: ignore[import-untyped]

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Order, Page, Upload
from tests.incidents.eighth import libraries as more
from tests.incidents.eighth.libraries import Meter
from tests.incidents.staging import Scene, incident


class VendorError(Exception):
    """The team's own, for everything that the vendor's program says."""


class MatchingError(Exception):
    """The fund team's own."""


@incident("dependency")
def new_installation_behind_a_closed_firewall(scene: Scene) -> None:
    """The first minutes in a new data centre: nobody has opened the way to the search cluster yet."""
    (outage,) = scene.causes

    @scene.service("search_index", Page, needs="search_cluster")
    def index(page: Page, work: Work) -> None:
        raise outage(lib.ConnectTimeout("timed out connecting to 10.20.4.11:9200"))

    scene.traffic(6, Page, every=20)
    scene.run(3)


@incident("dependency", "poison document")
def warehouse_fails_over_while_one_registry_sends_cut_records(scene: Scene) -> None:
    """The warehouse was restarted by its host; a registry's records were cut in the middle, before and after."""
    outage, poison = scene.causes

    @scene.service("trials", Order, needs="warehouse")
    def load(order: Order, work: Work) -> None:
        with poison:
            etree.fromstring("<trial><arm>" if order.tenant == "registry-3" else "<trial/>")
        if outage.on:
            text = "terminating connection due to administrator command"
            raise outage(psycopg.errors.AdminShutdown(text))

    def some(right: int, cut: int) -> None:
        scene.mixed_traffic(scene.documents(right, Order), scene.documents(cut, Order, tenant="registry-3"))

    some(40, 3)
    outage.on = True
    some(20, 2)
    outage.on = False
    scene.run(hours=4)
    some(20, 2)


@incident("bug or bad deploy", "poison document")
def release_breaks_older_articles_and_some_are_encrypted(scene: Scene) -> None:
    """Release 4.18.0 cannot handle scans; since long before, a few files with a password could not be read."""
    bug, poison = scene.causes

    @scene.service("article_text", Upload)
    def read(upload: Upload, work: Work) -> None:
        if upload.kind == "locked":
            raise poison(lib.FileNotDecryptedError("File has not been decrypted"))
        if scene.version == "4.18.0" and upload.kind == "scan":
            with bug:
                _ = {"born-digital": 1}[upload.kind]

    def some(scans: int, locked: int, rest: int) -> None:
        scene.mixed_traffic(
            scene.documents(scans, Upload, kind="scan"),
            scene.documents(locked, Upload, kind="locked"),
            scene.documents(rest, Upload, kind="pdf"),
        )

    some(25, 3, 40)
    scene.run(hours=5)
    scene.deploy("4.18.0")
    some(20, 2, 30)


@incident("overload", "dependency")
def provider_is_slow_with_many_requests_and_later_gone(scene: Scene) -> None:
    """Our import is over the provider's rate in the morning; in the afternoon the provider itself is down."""
    pressure, outage = scene.causes
    rate = Meter(scene, 40)

    @scene.service("claims_vectors", Page, needs="embedder")
    def embed(page: Page, work: Work) -> None:
        if outage.on:
            raise outage(lib.APIConnectionError())
        if rate.is_full():
            text = "Rate limit reached for requests per min (RPM): Limit 40, Used 40, Requested 1."
            raise pressure(lib.RateLimitError(429, text, "requests", "rate_limit_exceeded", {"retry-after": "20"}))

    scene.traffic(30, Page)
    scene.import_at_once(130, Page)
    scene.run(hours=4)
    outage.on = True
    scene.traffic(20, Page)


@incident("dependency", "bug or bad deploy")
def outage_of_the_rates_service_and_a_hasty_fix(scene: Scene) -> None:
    """The rates service was down; to help, we released a cache in haste that fails for each order since then."""
    outage, bug = scene.causes

    @scene.service("conversion", Order, needs="rates")
    def convert(order: Order, work: Work) -> None:
        if scene.version == "4.17.3-hotfix":
            cached: dict[str, float] | None = None
            with bug:
                _ = cached["USD"]  # type: ignore[index]
        if outage.on:
            raise outage(lib.requests_status(503, "https://rates.example/v1/latest"))

    scene.traffic(60, Order)
    outage.on = True
    scene.traffic(20, Order)
    outage.on = False
    scene.run(hours=2)
    scene.deploy("4.17.3-hotfix")
    scene.traffic(25, Order)


@incident("dependency", "overload", "poison document", groups=(1, 1, 1))
def monday_with_no_names_then_a_backlog_and_some_bad_mails(scene: Scene) -> None:
    """Names did not resolve for half an hour; the mails that had waited were too many for the index, then all at
    once; and four mails of a list manager have no readable header, all day."""
    outage, pressure, poison = scene.causes
    bulk = Meter(scene, 35)

    @scene.service("list_archive", Mail, needs="index")
    def index(mail: Mail, work: Work) -> None:
        if mail.tenant == "old-list":
            raise poison(ValueError("header 'Date' is empty"))
        if outage.on:
            raise outage(socket.gaierror(-3, "Temporary failure in name resolution"))
        if bulk.is_full():
            reason = "rejected execution of coordinating operation [coordinating_and_primary_bytes=107374182]"
            raise pressure(lib.TransportApiError(429, "es_rejected_execution_exception", reason))

    scene.mixed_traffic(scene.documents(50, Mail), scene.documents(2, Mail, tenant="old-list"))
    outage.on = True
    scene.traffic(15, Mail, every=60)
    scene.run(15)
    outage.on = False
    scene.run(hours=1)
    scene.publish([*scene.documents(120, Mail), *scene.documents(2, Mail, tenant="old-list")])
    scene.run(30)


@incident("bug or bad deploy", "overload")
def release_of_the_parser_while_the_graph_has_a_rush(scene: Scene) -> None:
    """A release mixes up two arguments of the parser; the citation graph, elsewhere, has a rush of writes."""
    bug, pressure = scene.causes
    writes = Meter(scene, 20)

    @scene.service("jats", Page)
    def parse(page: Page, work: Work) -> None:
        if scene.version == "4.18.0":
            with bug:
                "".join([page.number])  # type: ignore[list-item]

    @scene.service("citation_graph", Order, needs="cassandra")
    def write(order: Order, work: Work) -> None:
        if writes.is_full():
            text = "Error from server: code=1100 [Coordinator node timed out waiting for replica nodes' responses]"
            raise pressure(more.WriteTimeout(text))

    scene.mixed_traffic(scene.documents(40, Page), scene.documents(40, Order), every=10)
    scene.deploy("4.18.0")
    scene.publish(scene.documents(70, Order))
    scene.traffic(15, Page)
    scene.run(10)


@incident("dependency", "dependency")
def service_with_two_needs_loses_first_one_then_the_other(scene: Scene) -> None:
    """The embedder's token was revoked in the morning; the vector store was unreachable at night."""
    refusal, outage = scene.causes

    @scene.service("semantic_index", Page, needs=("embedder", "vector_store"))
    def index(page: Page, work: Work) -> None:
        if refusal.on:
            raise refusal(lib.grpc_error("UNAUTHENTICATED", "token of client pipeline-7 was revoked"))
        if outage.on:
            text = (
                "Fail connecting to server on milvus-proxy:19530, illegal connection params or server unavailable"
            )
            raise outage(more.MilvusException(2, text))

    scene.traffic(40, Page)
    refusal.on = True
    scene.traffic(15, Page)
    refusal.on = False
    scene.run(hours=8)
    scene.traffic(20, Page)
    outage.on = True
    scene.traffic(12, Page)


@incident("poison document", "poison document")
def two_submitters_with_two_kinds_of_wrong_records(scene: Scene) -> None:
    """One submitter uses accession numbers of others again; another one's descriptions are far too long."""
    again, long = scene.causes

    @scene.service("accessions", Order, needs="registry_db")
    def register(order: Order, work: Work) -> None:
        if order.tenant == "institute-a":
            text = f"Key (accession)=(SAMN{order.number:08}) already exists."
            kind = 'duplicate key value violates unique constraint "sample_accession_key"'
            raise again(psycopg.errors.UniqueViolation(f"{kind}\nDETAIL:  {text}"))
        if len(order.text) > 250:
            raise long(psycopg.errors.StringDataRightTruncation("value too long for type character varying(250)"))

    scene.mixed_traffic(
        scene.documents(80, Order),
        scene.documents(6, Order, tenant="institute-a"),
        scene.documents(4, Order, tenant="institute-b", text="soil " * 90),
    )
    scene.run(hours=1)


@incident("dependency", "bug or bad deploy")
def expired_certificate_and_a_wrong_topic_on_one_day(scene: Scene) -> None:
    """The courts' site let its certificate expire; that day our release writes to a topic that is not there."""
    outage, bug = scene.causes

    @scene.service("judgments", Page, needs="courts")
    def fetch(page: Page, work: Work) -> None:
        if outage.on:
            raise outage(lib.certificate_expired("judgments.courts.example"))

    @scene.service("publish_changes", Upload, needs="kafka")
    def publish(upload: Upload, work: Work) -> None:
        if scene.version == "4.18.0":
            text = "Broker: Unknown topic or partition: citations.prd.v22"
            raise bug(more.KafkaException("UNKNOWN_TOPIC_OR_PART", 3, text))

    scene.mixed_traffic(scene.documents(30, Page), scene.documents(30, Upload))
    outage.on = True
    scene.traffic(12, Page)
    scene.deploy("4.18.0")
    scene.mixed_traffic(scene.documents(8, Page), scene.documents(18, Upload))
    scene.deploy("4.17.2")
    scene.run(hours=3)
    scene.traffic(10, Upload)


@incident("overload", "bug or bad deploy")
def model_busy_with_everybody_and_a_bad_prompt_release(scene: Scene) -> None:
    """The provider has more requests than it can take, ours among them; our release formats a prompt wrongly."""
    pressure, bug = scene.causes

    @scene.service("plain_language", Page, needs="llm")
    def explain(page: Page, work: Work) -> None:
        if scene.version == "4.18.0" and page.tenant == "umbrella":
            with bug:
                "{title} in {words} words".format_map({"title": page.id})
        if pressure.on and scene.random.random() < 0.4:
            raise pressure(more.OverloadedError())

    scene.traffic(60, Page)
    pressure.on = True
    scene.import_at_once(60, Page, tenant="acme")
    scene.run(20)
    pressure.on = False
    scene.run(hours=3)
    scene.deploy("4.18.0")
    scene.traffic(50, Page)


@incident("dependency", "poison document")
def publisher_site_down_and_articles_that_were_withdrawn(scene: Scene) -> None:
    """The publisher's site had an outage of an hour; three articles were withdrawn for good, as it says."""
    outage, poison = scene.causes

    @scene.service("landing_pages", Page, needs="publisher")
    def fetch(page: Page, work: Work) -> None:
        url = f"https://www.publisher.example/doi/10.5555/{page.number}"
        if outage.on:
            raise outage(lib.requests_timeout("www.publisher.example", 20))
        if page.kind == "withdrawn":
            raise poison(lib.requests_status(410, url))

    scene.mixed_traffic(scene.documents(60, Page), scene.documents(3, Page, kind="withdrawn"))
    outage.on = True
    scene.traffic(20, Page)
    scene.run(50)
    outage.on = False
    scene.run(hours=5)


@incident("unclear")
def first_two_matches_of_a_new_service_with_two_needs(scene: Scene) -> None:
    """A new service has done two documents, both of which failed with a word that fits everything."""
    (unknown,) = scene.causes

    @scene.service("matching", Invoice, needs=("prices", "book"))
    def match(invoice: Invoice, work: Work) -> None:
        raise unknown(MatchingError("not matched"))

    scene.traffic(2, every=10)


@incident("unclear")
def single_conversion_that_failed_once_before_any_other(scene: Scene) -> None:
    """The vendor's converter was just installed; its first file failed a moment ago, with a number and no text."""
    (unknown,) = scene.causes

    @scene.service("converter", Upload, needs="vendor_tool")
    def convert(upload: Upload, work: Work) -> None:
        raise unknown(VendorError(-1))

    scene.traffic(1, Upload, every=1)
