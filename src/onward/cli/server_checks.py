"""What `onward doctor` checks of servers: the PostgreSQL that holds a store, the RabbitMQ that is the bus."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from onward.cli.checks import Check, ok, warning, wrong
from onward.facts.wording import counted, duration, number, size
from onward.recovery.phrasing import command
from onward.retry.errors import OnwardError
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward.backends.postgres.examining import ExaminedServer
    from onward.backends.rabbitmq.connection import Line
    from onward.backends.sqlite.examining import Examined
    from onward.model.ledger import Subscription

SKEW = 60.0
"""Seconds by which a time may lie ahead without being wrong."""
SLOW = 0.02
"""Seconds for a question and its answer; every commit takes a few of them."""
APART = 5.0
"""Seconds by which two clocks may differ."""
ANSWER_SECONDS = 10.0
_INSTALL = "pip install 'onward[{}]'"


# -- PostgreSQL


def check_postgres(url: str, examined: list[Examined | ExaminedServer]) -> Iterator[Check]:
    """Whether a store on PostgreSQL can be used, and what is worth a look on its server."""
    try:
        from onward.backends.postgres.examining import examine
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


def _server(found: ExaminedServer) -> Iterator[Check]:
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


def _schema(found: ExaminedServer) -> Iterator[Check]:
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


def _rights(found: ExaminedServer) -> Iterator[Check]:
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


def _slots(found: ExaminedServer) -> Iterator[Check]:
    from onward.backends.postgres.examining import EACH_PROCESS

    free = max(0, found.slots - found.used)
    text = f"{number(free)} of {number(found.slots)} are free; a worker process takes up to {EACH_PROCESS}"
    if free < EACH_PROCESS:
        remedy = "raise max_connections (or the limit of the user or database), or start fewer worker processes"
        yield warning("connections", text, remedy)
    else:
        yield ok("connections", text)


def _vacuum(found: ExaminedServer) -> Iterator[Check]:
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


def check_rabbitmq(url: str, subscriptions: Sequence[Subscription]) -> Iterator[Check]:
    """Whether the broker answers, takes messages, and has the queues that services hear through."""
    try:
        import onward.backends.rabbitmq  # noqa: F401
    except ModuleNotFoundError as error:
        yield wrong("bus", f"the package {error.name!r} is missing", _INSTALL.format("rabbitmq"))
        return
    try:
        yield from asyncio.run(_ask_broker(url, subscriptions))
    except OnwardError as error:
        text, _, remedy = str(error).partition(". ")
        yield wrong("bus", text, remedy or "check ONWARD_BUS, and that the broker runs")
    except TimeoutError:
        text = f"{redact(url)} did not answer within {duration(int(ANSWER_SECONDS))}"
        yield wrong("bus", text, "is the broker overloaded, or a firewall between?")


async def _ask_broker(url: str, subscriptions: Sequence[Subscription]) -> list[Check]:
    from onward.backends.rabbitmq.connection import Line

    line = Line(url, "onward doctor", on_ended=lambda reason: None, on_blocked=lambda: None)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await line.open()
        # In this order: a broker short of space reads nothing more from who has tried to send.
        queues = await _queues(line, subscriptions)
        return [await _taking(line), *queues]
    finally:
        await line.close()


async def _taking(line: Line) -> Check:
    """Send a message that no queue gets: a broker short of space says so only to those who send."""
    version = ".".join(map(str, line.version)) or "of an unknown version"
    channel = await line.channel()
    began = time.monotonic()
    sending = asyncio.ensure_future(channel.basic_publish(b"", routing_key="onward.doctor"))
    blocking = asyncio.ensure_future(line.blocking.wait())
    await asyncio.wait({sending, blocking}, timeout=ANSWER_SECONDS, return_when=asyncio.FIRST_COMPLETED)
    took = time.monotonic() - began
    answered = sending.done() and not line.blocked
    sending.cancel()
    blocking.cancel()
    await asyncio.wait({sending, blocking})
    where = f"RabbitMQ {version} at {line.url.host}:{line.url.port}"
    if line.blocked:
        remedy = "free memory or disk space on its machine; `rabbitmqctl status` says which is short"
        return warning("bus", f"{where} takes no messages: {line.blocked}; workers look in the ledger", remedy)
    if not answered:
        return warning("bus", f"{where} does not confirm messages", "see its log")
    return ok("bus", f"{where}, {took * 1000:.1f} ms to confirm a message")


async def _queues(line: Line, subscriptions: Sequence[Subscription]) -> list[Check]:
    """Whether every queue that there is, is as it has to be; one that is missing is made by the next worker."""
    from aiormq import exceptions

    from onward.backends.rabbitmq.explaining import vhost_of
    from onward.backends.rabbitmq.topology import Topology, queue_arguments
    from onward.backends.rabbitmq.wire import EXCHANGE
    from onward.ports.wire import Queue

    queues = tuple(Queue(one.service, "", one.failed_queue, 0) for one in subscriptions)
    found, missing, waiting = [], [], 0
    for name in Topology(EXCHANGE, queues).queue_names():
        try:
            async with asyncio.timeout(ANSWER_SECONDS), line.passing_channel() as channel:
                there = await channel.queue_declare(name, passive=True)
                waiting += there.message_count or 0
                # With what it should be like; as it exists, nothing is made.
                await channel.queue_declare(name, durable=True, arguments=queue_arguments(line.version))
        except exceptions.ChannelNotFoundEntity:
            missing.append(name)
        except exceptions.AMQPError as error:
            text, _, remedy = str(line.explain(error)).partition(". ")
            delete = command(f"rabbitmqctl -p {vhost_of(line.url)} delete_queue", name)
            found.append(wrong("queues", text, remedy or delete))
    if missing:
        names = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
        makes = "makes it" if len(missing) == 1 else "makes them"
        text = f"{counted(len(missing), 'queue')} not made yet ({names}): the next `onward worker` {makes}"
        found.append(ok("queues", text))
    elif not found:
        text = f"{counted(len(queues) * 2 + 1, 'queue')} as they should be, {counted(waiting, 'message')} in them"
        found.append(ok("queues", text))
    return found
