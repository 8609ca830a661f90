"""Checks of servers by `onward doctor`: a store on PostgreSQL, and a RabbitMQ that other programs publish to."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from onward.cli.doctor.checks import Check, ok, warning, wrong
from onward.ops.text.format import counted, duration, number, shell_command, size
from onward.retry.errors import OnwardError
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward.gateway.connection import BrokerConnection
    from onward.ledger.postgres.inspection import ServerInspection
    from onward.ledger.sqlite.inspection import FileInspection

SKEW = 60.0
"""Seconds by which a time may lie ahead without being wrong."""
SLOW = 0.02
"""Seconds for a question and its answer; every commit takes a few of them."""
APART = 5.0
"""Seconds by which two clocks may differ."""
RESPONSE_SECONDS = 10.0
_INSTALL = "pip install 'onward[{}]'"


# -- PostgreSQL


def check_postgres(url: str, examined: list[FileInspection | ServerInspection]) -> Iterator[Check]:
    """Check that a store on PostgreSQL can be used, and the settings of its server."""
    try:
        from onward.ledger.postgres.inspection import examine
    except ModuleNotFoundError as error:
        yield wrong("store", f"the package {error.name!r} is missing", _INSTALL.format("postgres"))
        return
    try:
        found = examine(url, future=SKEW)
    except OnwardError as error:
        # Such an error says what to do about it.
        text, _, remedy = str(error).partition(". ")
        yield wrong("store", text, remedy or "check ONWARD_STORE, and that the server runs")
        return
    examined.append(found)
    yield from _server(found)
    yield from _schema(found)
    yield from _rights(found)
    yield from _slots(found)
    yield from _vacuum(found)


def _server(found: ServerInspection) -> Iterator[Check]:
    secure = "encrypted" if found.encrypted else "not encrypted"
    if found.read_only:
        remedy = "name the server that takes changes in ONWARD_STORE"
        yield wrong("server", f"{found.address} cannot be written: {found.read_only}", remedy)
    elif not found.encrypted and _is_far(found.host):
        text = f"PostgreSQL {found.server_version}; passwords and documents cross a public network in clear"
        yield warning("server", text, "add ?sslmode=verify-full to ONWARD_STORE")
    else:
        yield ok("server", f"PostgreSQL {found.server_version} at {found.host or 'a local socket'}, {secure}")
    took = f"{found.latency * 1000:.1f} ms for a question and its answer"
    if found.latency > SLOW:
        yield warning(
            "latency", took, "run the workers nearer to the database: each commit takes several of these"
        )
    else:
        yield ok("latency", took)
    apart = f"the server's clock is {_apart(found.ahead)} this machine's"
    if abs(found.ahead) > APART:
        yield warning("clocks", apart, "let NTP keep both right; what is due follows the server's clock")
    else:
        yield ok("clocks", apart)


def _is_far(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        return False  # a name, of which nobody knows where it leads


def _apart(ahead: float) -> str:
    if abs(ahead) < 0.1:
        return "within 0.1 s of"
    return f"{duration(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'}"


def _schema(found: ServerInspection) -> Iterator[Check]:
    name = found.schema_name
    if not found.schema and not found.forbidden:
        yield ok(
            "store",
            f"{found.address} has no tables in the schema {name} yet; the first `onward ingest` makes them",
        )
        return
    if not found.schema:
        return
    if found.schema > found.known_schema:
        text = f"{found.address} has schema version {found.schema}, this Onward knows {found.known_schema}"
        yield wrong("store", text, "pip install --upgrade onward")
        return
    if found.schema < found.known_schema:
        older = f"schema version {found.schema}; the next start brings it to version {found.known_schema}"
        yield ok("store", f"{found.address}, {older}")
        return
    for one in found.lacking:
        remedy = "stop all workers and restore the schema from a copy"
        if one.statement:
            remedy = f"as the owner of the schema, with psql: {one.statement}"
        yield wrong("store", f"{found.address} lacks {one.what}", remedy)
    if not found.lacking:
        yield ok("store", f"{found.address}, schema {name}, {size(found.size)}, schema version {found.schema}")


def _rights(found: ServerInspection) -> Iterator[Check]:
    user, name = _quoted(found.user), _quoted(found.schema_name)
    if found.forbidden:
        tables = ", ".join(f"{what} ({rights})" for what, rights in found.forbidden[:3])
        more = f" and {number(len(found.forbidden) - 3)} more" if len(found.forbidden) > 3 else ""
        remedy = (
            f"GRANT USAGE ON SCHEMA {name} TO {user}; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES "
            f"IN SCHEMA {name} TO {user}; GRANT USAGE ON ALL SEQUENCES IN SCHEMA {name} TO {user}"
        )
        yield wrong("rights", f"user {found.user} may not use {tables}{more}", remedy)
    elif not found.schema and not found.may_create:
        text = f"user {found.user} may not make the schema {found.schema_name}"
        yield wrong("rights", text, f"CREATE SCHEMA {name} AUTHORIZATION {user}")
    elif found.schema < found.known_schema and found.schema and not found.may_upgrade:
        text = f"user {found.user} may not bring the tables to version {found.known_schema}"
        yield wrong("rights", text, "start one worker as the owner of the schema; then the others")
    else:
        yield ok("rights", f"user {found.user} may do all that is needed")


def _slots(found: ServerInspection) -> Iterator[Check]:
    from onward.ledger.postgres.inspection import MAX_PROCESS_CONNECTIONS

    free = max(0, found.slots - found.used)
    text = (
        f"{number(free)} of {number(found.slots)} are free; a worker process takes up to {MAX_PROCESS_CONNECTIONS}"
    )
    if free < MAX_PROCESS_CONNECTIONS:
        remedy = "raise max_connections (or the limit of the user or database), or start fewer worker processes"
        yield warning("connections", text, remedy)
    else:
        yield ok("connections", text)


def _vacuum(found: ServerInspection) -> Iterator[Check]:
    if not found.autovacuum:
        remedy = "ALTER SYSTEM SET autovacuum = on; ALTER SYSTEM SET track_counts = on; SELECT pg_reload_conf()"
        yield wrong("vacuum", "autovacuum is off: the ledger grows, and slows down, for ever", remedy)
        return
    for pid, who, age in found.long:
        text = f"a transaction is open for {duration(age)} (process {pid}, {who}): nothing is cleaned up meanwhile"
        yield warning("vacuum", text, f"end it: SELECT pg_terminate_backend({pid})")
    for gid, age in found.prepared:
        text = f"a prepared transaction is open for {duration(age)}: nothing is cleaned up meanwhile"
        yield warning("vacuum", text, f"end it: ROLLBACK PREPARED '{gid}'")
    for table, dead in found.bloated:
        name = f"{_quoted(found.schema_name)}.{table}"
        text = f"{number(dead)} dead rows in {table}, more than live ones"
        yield warning("vacuum", text, f"see why autovacuum does not keep up; by hand: VACUUM {name}")
    if not found.long and not found.prepared and not found.bloated:
        yield ok("vacuum", "autovacuum is on, and no transaction holds it back")


def _quoted(name: str) -> str:
    return name if name.isidentifier() and name.islower() else '"' + name.replace('"', '""') + '"'


# -- RabbitMQ


def check_rabbitmq(url: str) -> Iterator[Check]:
    """Check that the broker responds and accepts messages, and that the inbox queue is as it should be."""
    try:
        import onward.gateway  # noqa: F401
    except ModuleNotFoundError as error:
        yield wrong("bus", f"the package {error.name!r} is missing", _INSTALL.format("rabbitmq"))
        return
    try:
        yield from asyncio.run(_check_broker(url))
    except OnwardError as error:
        text, _, remedy = str(error).partition(". ")
        yield wrong("bus", text, remedy or "check ONWARD_BUS, and that the broker runs")
    except TimeoutError:
        text = f"{redact(url)} did not respond within {duration(int(RESPONSE_SECONDS))}"
        yield wrong("bus", text, "is the broker overloaded, or is there a firewall in between?")


async def _check_broker(url: str) -> list[Check]:
    from onward.gateway.connection import BrokerConnection

    connection = BrokerConnection(url, "onward doctor", on_ended=lambda reason: None)
    try:
        async with asyncio.timeout(RESPONSE_SECONDS):
            await connection.open()
        # In this order: a broker short of space reads nothing more from a connection that has published.
        inbox = await _check_inbox(connection)
        return [await _check_publishing(connection), inbox]
    finally:
        await connection.close()


async def _check_publishing(connection: BrokerConnection) -> Check:
    """Publish a message that no queue gets: only to a publisher does a broker report that it is short of space."""
    version = ".".join(map(str, connection.version)) or "of an unknown version"
    channel = await connection.channel()
    began = time.monotonic()
    publishing = asyncio.ensure_future(channel.basic_publish(b"", routing_key="onward.doctor"))
    blocking = asyncio.ensure_future(connection.blocking.wait())
    await asyncio.wait({publishing, blocking}, timeout=RESPONSE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    took = time.monotonic() - began
    confirmed = publishing.done() and not connection.blocked
    publishing.cancel()
    blocking.cancel()
    await asyncio.wait({publishing, blocking})
    where = f"RabbitMQ {version} at {connection.url.host}:{connection.url.port}"
    if connection.blocked:
        remedy = "free memory or disk space on its machine; `rabbitmqctl status` says which is short"
        text = f"{where} takes no messages: {connection.blocked}; other programs cannot publish events"
        return warning("bus", text, remedy)
    if not confirmed:
        return warning("bus", f"{where} does not confirm messages", "see its log")
    return ok("bus", f"{where}, {took * 1000:.1f} ms to confirm a message")


async def _check_inbox(connection: BrokerConnection) -> Check:
    """Check that the inbox queue, if it exists, is as it has to be."""
    from aiormq import exceptions

    from onward.gateway.error_messages import vhost_of
    from onward.gateway.inbox import INBOX, queue_arguments

    try:
        async with asyncio.timeout(RESPONSE_SECONDS), connection.short_channel() as channel:
            found = await channel.queue_declare(INBOX, passive=True)
            # With the right arguments; as the queue exists, none is made.
            await channel.queue_declare(INBOX, durable=True, arguments=queue_arguments(connection.version))
    except exceptions.ChannelNotFoundEntity:
        return ok("inbox", f"queue {INBOX} is not made yet: the next `onward worker` makes it")
    except exceptions.AMQPError as error:
        text, _, remedy = str(connection.explain(error)).partition(". ")
        return wrong(
            "inbox",
            text,
            remedy or shell_command(f"rabbitmqctl -p {vhost_of(connection.url)} delete_queue", INBOX),
        )
    return ok("inbox", f"queue {INBOX} is as it should be, {counted(found.message_count or 0, 'message')} in it")
