"""Troubles as the drivers and clients of well-known servers report them."""

from __future__ import annotations

import sqlite3

import psycopg

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Invoice, Mail, Notice, Order, Page, Upload
from tests.incidents.staging import Scene, incident


@incident("dependency")
def directory_server_down(scene: Scene) -> None:
    """The LDAP server is down: nobody's department can be looked up."""
    (outage,) = scene.causes

    @scene.service("assigning", Mail, needs="directory")
    def assign(mail: Mail, work: Work) -> None:
        if outage.on:
            raise outage(lib.LdapServerDown())

    scene.traffic(25, Mail)
    outage.on = True
    scene.traffic(12, Mail)


@incident("dependency")
def kafka_without_leader(scene: Scene) -> None:
    """The partition has no leader after a failed upgrade of the cluster; the service declares no needs."""
    (outage,) = scene.causes

    @scene.service("streaming", None)
    def stream(notice: Notice, work: Work) -> None:
        if outage.on:
            raise outage(lib.KafkaTimeoutError("KafkaTimeoutError: Failed to update metadata after 60.0 secs."))

    scene.notices(25)
    outage.on = True
    scene.notices(12)


@incident("dependency")
def ssh_key_removed(scene: Scene) -> None:
    """The bank removed our key from its SFTP server."""
    (refused,) = scene.causes

    @scene.service("delivering", Invoice, needs="sftp")
    def deliver(invoice: Invoice, work: Work) -> None:
        if refused.on:
            raise refused(lib.AuthenticationException("Authentication failed."))

    scene.traffic(25)
    refused.on = True
    scene.traffic(12)


@incident("dependency")
def database_gone_behind_an_orm(scene: Scene) -> None:
    """The database server was shut down; the ORM wraps the error of the driver and adds the statement."""
    (outage,) = scene.causes

    @scene.service("booking", Order, needs="ledger-db")
    def book(order: Order, work: Work) -> None:
        if outage.on:
            inner = psycopg.OperationalError("consuming input failed: server closed the connection unexpectedly")
            raise outage(lib.OperationalError(f"SELECT * FROM bookings WHERE id = '{order.id}'", inner)) from inner

    scene.traffic(25, Order)
    outage.on = True
    scene.traffic(12, Order)


@incident("bug or bad deploy")
def table_missing_behind_an_orm(scene: Scene) -> None:
    """The new release reads a table that only exists in the test environment."""
    (bug,) = scene.causes

    @scene.service("booking", Order, needs="ledger-db")
    def book(order: Order, work: Work) -> None:
        if scene.version == "4.18.0":
            inner = sqlite3.OperationalError("no such table: cost_centres")
            raise bug(lib.ProgrammingError("SELECT name FROM cost_centres WHERE id = ?", inner)) from inner

    scene.traffic(25, Order)
    scene.deploy("4.18.0")
    scene.traffic(15, Order)


@incident("dependency")
def no_primary_in_the_replica_set(scene: Scene) -> None:
    """Two of three members of the replica set are gone: there is no primary to write to."""
    (outage,) = scene.causes

    @scene.service("saving", Page, needs="mongo")
    def save(page: Page, work: Work) -> None:
        if outage.on:
            text = "No replica set members match selector 'Primary()', Timeout: 30s"
            raise outage(lib.ServerSelectionTimeoutError(text))

    scene.traffic(25, Page)
    outage.on = True
    scene.traffic(12, Page)


@incident("poison document")
def larger_than_the_database_takes(scene: Scene) -> None:
    """Two pages are larger than the 16 MB that the database takes for a document."""
    (poison,) = scene.causes

    @scene.service("saving", Page, needs="mongo")
    def save(page: Page, work: Work) -> None:
        if page.size > 16_793_598:
            raise poison(lib.DocumentTooLarge(f"BSON document too large ({page.size} bytes)"))

    huge = scene.documents(2, Page, size=lambda: scene.random.randrange(17_000_000, 40_000_000))
    scene.mixed_traffic(scene.documents(50, Page), huge)


@incident("poison document")
def scan_that_nobody_can_read(scene: Scene) -> None:
    """Four scans are black pages: the text recognition gives up on them."""
    (poison,) = scene.causes

    @scene.service("recognising", Upload)
    def recognise(upload: Upload, work: Work) -> None:
        if upload.text == "black":
            raise poison(lib.TesseractError(1, f"Error in pixReadStream: image {upload.path} has no resolution"))

    scene.mixed_traffic(scene.documents(50, Upload), scene.documents(4, Upload, text="black", kind="tiff"))


@incident("poison document")
def card_declined(scene: Scene) -> None:
    """The cards of three customers were declined; everybody else could pay."""
    (poison,) = scene.causes

    @scene.service("charging", Order, needs="payments")
    def charge(order: Order, work: Work) -> None:
        if order.text == "no money":
            raise poison(lib.CardError("Your card has insufficient funds."))

    scene.mixed_traffic(scene.documents(60, Order), scene.documents(3, Order, text="no money"))


@incident("dependency")
def model_key_revoked(scene: Scene) -> None:
    """The key for the model was found in a public repository, and its provider revoked it."""
    (refused,) = scene.causes

    @scene.service("summarising", Page)
    async def summarise(page: Page, work: Work) -> None:
        if refused.on:
            text = "Incorrect API key provided: sk-pr***9f2A."
            raise refused(lib.AuthenticationError(401, text, "invalid_request_error", "invalid_api_key"))

    scene.traffic(25, Page)
    refused.on = True
    scene.traffic(12, Page)


@incident("dependency")
def model_hangs(scene: Scene) -> None:
    """The model's endpoint accepts requests and does not answer, all afternoon."""
    (outage,) = scene.causes

    @scene.service("summarising", Page, needs="model")
    async def summarise(page: Page, work: Work) -> None:
        if outage.on:
            raise outage(lib.APITimeoutError())

    scene.traffic(25, Page)
    outage.on = True
    scene.traffic(15, Page)


@incident("bug or bad deploy")
def image_without_a_role(scene: Scene) -> None:
    """The new deployment has no role attached: the client of the object store finds no credentials."""
    (mistake,) = scene.causes

    @scene.service("uploading", Upload, needs="object-store")
    def put(upload: Upload, work: Work) -> None:
        if scene.version == "4.18.0":
            raise mistake(lib.NoCredentialsError())

    scene.traffic(25, Upload)
    scene.deploy("4.18.0")
    scene.traffic(12, Upload)


@incident("bug or bad deploy")
def queue_declared_differently(scene: Scene) -> None:
    """The new release declares a queue with other arguments than the broker has it: it closes the channel."""
    (bug,) = scene.causes

    @scene.service("announcing", Order, needs="broker")
    def announce(order: Order, work: Work) -> None:
        if scene.version == "4.18.0":
            text = "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'orders' in vhost '/'"
            raise bug(lib.ChannelClosedByBroker(406, text))

    scene.traffic(25, Order)
    scene.deploy("4.18.0")
    scene.traffic(12, Order)


@incident("dependency")
def connection_breaks_in_the_middle(scene: Scene) -> None:
    """A failing switch cuts long answers off: half of the downloads end too early, whatever is loaded."""
    (outage,) = scene.causes

    @scene.service("downloading", Upload, needs="mirror")
    async def download(upload: Upload, work: Work) -> None:
        if outage.on and scene.random.random() < 0.5:
            text = f"Response payload is not completed: <ContentLengthError: 400, expected {upload.size}>"
            raise outage(lib.ClientPayloadError(text))

    scene.traffic(25, Upload)
    outage.on = True
    scene.traffic(40, Upload)
