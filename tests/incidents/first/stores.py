"""A database, an object store or a file share is down or damaged."""

from __future__ import annotations

import sqlite3
import subprocess

import psycopg

from onward import Work
from tests.incidents import libraries as lib
from tests.incidents.documents import Mail, Order, Page, Upload
from tests.incidents.staging import Scene, incident


@incident("dependency")
def database_failover(scene: Scene) -> None:
    """The customers' database fails over: for six minutes the server terminates all connections."""
    (outage,) = scene.causes

    @scene.service("matching", Order, needs="customers")
    def match(order: Order, work: Work) -> None:
        if outage.on:
            raise outage(psycopg.errors.AdminShutdown("terminating connection due to administrator command"))

    scene.traffic(20, Order, every=20)
    outage.on = True
    scene.traffic(18, Order, every=20)


@incident("dependency")
def database_down_without_needs(scene: Scene) -> None:
    """The reporting database is stopped; whoever wrote the service never declared that it needs it."""
    (outage,) = scene.causes

    @scene.service("reporting", Order)
    def report(order: Order, work: Work) -> None:
        if outage.on:
            raise outage(
                psycopg.OperationalError(
                    'connection failed: connection to server at "10.4.0.17", port 5432 failed: '
                    "Connection refused\n"
                    "\tIs the server running on that host and accepting TCP/IP connections?"
                )
            )

    scene.traffic(26, Order)
    outage.on = True
    scene.traffic(20, Order)


@incident("dependency")
def one_region_of_the_object_store(scene: Scene) -> None:
    """The object store's eu-central region has trouble: files of two tenants that live there cannot be read."""
    (outage,) = scene.causes

    @scene.service("loading", Upload, needs="object-store")
    def load(upload: Upload, work: Work) -> None:
        if outage.on and upload.tenant in ("acme", "globex"):
            raise outage(
                lib.EndpointConnectionError(f"https://s3.eu-central-1.amazonaws.com/{upload.tenant}/{upload.id}")
            )

    scene.traffic(20, Upload)
    outage.on = True
    scene.traffic(20, Upload)


@incident("dependency")
def one_shard_of_the_database(scene: Scene) -> None:
    """Shard 3 of four lost its primary: a quarter of the orders cannot be written."""
    (outage,) = scene.causes

    @scene.service("booking", Order, needs="ledger-db")
    def book(order: Order, work: Work) -> None:
        if outage.on and int(order.id[:2], 16) % 4 == 3:
            raise outage(lib.AutoReconnect("shard3-a.db.internal:27017: [Errno 104] Connection reset by peer"))

    scene.traffic(26, Order, every=30)
    outage.on = True
    scene.traffic(26, Order, every=30)


@incident("dependency")
def share_not_mounted(scene: Scene) -> None:
    """The file server was rebooted and the share was not mounted again: every path is missing."""
    (outage,) = scene.causes

    @scene.service("reading", Upload, needs="share")
    def read(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(FileNotFoundError(2, "No such file or directory", upload.path))

    scene.traffic(26, Upload)
    outage.on = True
    scene.traffic(15, Upload)
    scene.run(hours=3)


@incident("dependency")
def stale_file_handle(scene: Scene) -> None:
    """The NFS server failed over, and the mounts of the workers are stale."""
    (outage,) = scene.causes

    @scene.service("reading", Upload)
    def read(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(OSError(116, "Stale file handle", upload.path))

    scene.traffic(24, Upload)
    outage.on = True
    scene.traffic(20, Upload)


@incident("dependency")
def disk_of_the_file_server_broken(scene: Scene) -> None:
    """A disk of the file server dies: input/output errors for everything below one volume."""
    (outage,) = scene.causes

    @scene.service("reading", Upload, needs="share")
    def read(upload: Upload, work: Work) -> None:
        if outage.on and upload.author in ("m.okafor", "p.moreau", "a.novak"):
            raise outage(OSError(5, "Input/output error", upload.path))

    scene.traffic(20, Upload)
    outage.on = True
    scene.traffic(24, Upload)


@incident("dependency")
def redis_still_loading(scene: Scene) -> None:
    """Redis was restarted and reads its 60 GB from disk for a quarter of an hour."""
    (outage,) = scene.causes

    @scene.service("deduplicating", Mail, needs="redis")
    def deduplicate(mail: Mail, work: Work) -> None:
        if outage.on:
            raise outage(lib.BusyLoadingError("Redis is loading the dataset in memory"))

    scene.traffic(20, Mail, every=30)
    outage.on = True
    scene.traffic(20, Mail, every=30)


@incident("dependency")
def read_only_replica(scene: Scene) -> None:
    """After a failover the address still leads to the old primary, which is read-only now."""
    (outage,) = scene.causes

    @scene.service("booking", Order, needs="ledger-db")
    def book(order: Order, work: Work) -> None:
        if outage.on:
            raise outage(psycopg.errors.ReadOnlySqlTransaction("cannot execute INSERT in a read-only transaction"))

    scene.traffic(20, Order)
    outage.on = True
    scene.traffic(15, Order)


@incident("dependency")
def local_reference_database_corrupt(scene: Scene) -> None:
    """The nightly copy of the postcode database arrived damaged."""
    (outage,) = scene.causes

    @scene.service("addressing", Order, needs="postcodes")
    def address(order: Order, work: Work) -> None:
        if outage.on:
            raise outage(sqlite3.DatabaseError("database disk image is malformed"))

    scene.traffic(26, Order)
    outage.on = True
    scene.traffic(15, Order)


@incident("dependency")
def external_command_cannot_reach_its_server(scene: Scene) -> None:
    """The backup tool that we start cannot reach the vault: it exits with status 255."""
    (outage,) = scene.causes

    @scene.service("backing-up", Upload, needs="vault")
    def back_up(upload: Upload, work: Work) -> None:
        if outage.on:
            command = ["rsync", "-az", upload.path, "vault.internal:/data"]
            stderr = "ssh: connect to host vault.internal port 22: No route to host\n"
            stderr += "rsync error: unexplained error (code 255)"
            raise outage(subprocess.CalledProcessError(255, command, stderr=stderr))

    scene.traffic(20, Upload)
    outage.on = True
    scene.traffic(12, Upload)


@incident("dependency")
def down_from_the_first_document(scene: Scene) -> None:
    """A new installation: the search cluster was never started, so nothing has ever worked."""
    (outage,) = scene.causes

    @scene.service("indexing", Page, needs="cluster")
    def index(page: Page, work: Work) -> None:
        raise outage(lib.requests_refused(f"http://search-1:9200/pages/_doc/{page.id}"))

    scene.import_at_once(25, Page)
    scene.run(hours=1)


@incident("dependency")
def operator_retried_in_vain(scene: Scene) -> None:
    """The scanner's server is down all day; the operator pressed retry at noon, and everything failed again."""
    (outage,) = scene.causes

    @scene.service("scanning", Upload)
    def scan(upload: Upload, work: Work) -> None:
        if outage.on:
            raise outage(ConnectionRefusedError(111, "Connection refused"))

    scene.traffic(20, Upload)
    outage.on = True
    scene.traffic(12, Upload)
    scene.run(hours=4)
    scene.retry_all()
    scene.run(hours=1)
