"""Checks of `onward doctor` of what the store holds, and of its server and the broker."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import time
from typing import TYPE_CHECKING

from onward.cli.doctor import MAX_SKEW_SECONDS, Check, Checks, ok, warning, wrong
from onward.cli.output import events_wait
from onward.ops.lookup import worker_command
from onward.ops.queries.services import service_facts
from onward.ops.text.format import counted, duration, moment, number, shell_command, size, worker_process
from onward.recovery.retry_decision import RetryJobRules
from onward.retry.errors import OnwardError
from onward.retry.redact import redact
from onward.runtime.process_identity import alive_workers, is_gone

if TYPE_CHECKING:
    from onward.cli.doctor import Examined
    from onward.gateway.connection import BrokerConnection
    from onward.ledger.postgres.inspection import ServerInspection
    from onward.ledger.store import Store
    from onward.settings import Settings

SLOW_SECONDS = 0.02  # for a question and its answer; every commit takes a few of them
APART_SECONDS = 5.0  # by which two clocks may differ
BEHIND_SECONDS = 30.0  # by which a replica may be behind
RESPONSE_SECONDS = 10.0
ALIVE_SECONDS = 90.0
LATELY_SECONDS = 86_400.0  # workers that disappeared earlier are not reported
NAMED_WORKERS = 3
INSTALL = "pip install 'onward[{}]'"


def _warning_if(bad: bool, name: str, text: str, remedy: str) -> Check:
    return warning(name, text, remedy) if bad else ok(name, text)


def explained(name: str, error: OnwardError, otherwise: str) -> Check:
    """Return the check for an error that says after its first sentence what to do about it."""
    text, _, remedy = str(error).partition(". ")
    return wrong(name, text, remedy or otherwise)


# -- PostgreSQL


def check_postgres(url: str, examined: Examined) -> Checks:
    """Check that a store on PostgreSQL can be used, and the settings of its server."""
    try:
        from onward.ledger.postgres.inspection import MAX_PROCESS_CONNECTIONS, examine
    except ModuleNotFoundError as error:
        yield wrong("store", f"the package {error.name!r} is missing", INSTALL.format("postgres"))
        return
    try:
        found = examine(url, future=MAX_SKEW_SECONDS)
    except OnwardError as error:
        yield explained("store", error, "check ONWARD_STORE, and that the server runs")
        return
    examined.append(found)
    yield from _check_server(found)
    if found.pooled:
        yield _check_pooler(found)
    yield from _check_schema(found)
    yield _check_rights(found)
    free = max(0, found.slots - found.used)
    taken = f"a worker process takes up to {MAX_PROCESS_CONNECTIONS}"
    text = f"{number(free)} of {number(found.slots)} are free; {taken}"
    remedy = "raise max_connections (or the limit of the user or database), or start fewer worker processes"
    yield _warning_if(free < MAX_PROCESS_CONNECTIONS, "connections", text, remedy)
    yield from _check_vacuum(found)


def _check_server(found: ServerInspection) -> Checks:
    if found.read_only:
        remedy = "name the server that takes changes in ONWARD_STORE"
        yield wrong("server", f"{found.address} cannot be written: {found.read_only}", remedy)
    elif not found.encrypted and is_far(found.host):
        text = f"PostgreSQL {found.server_version}; passwords and documents cross a public network in clear"
        yield warning("server", text, "add ?sslmode=verify-full to ONWARD_STORE")
    else:
        secure = "encrypted" if found.encrypted else "not encrypted"
        yield ok("server", f"PostgreSQL {found.server_version} at {found.host or 'a local socket'}, {secure}")
    took = f"{found.latency * 1000:.1f} ms for a question and its answer"
    remedy = "run the workers nearer to the database: each commit takes several of these"
    yield _warning_if(found.latency > SLOW_SECONDS, "latency", took, remedy)
    ahead, apart = abs(found.ahead), "within 0.1 s of"
    if ahead >= 0.1:
        apart = f"{duration(ahead)} {'ahead of' if found.ahead > 0 else 'behind'}"
    remedy = "let NTP keep both right; what is due follows the server's clock"
    yield _warning_if(ahead > APART_SECONDS, "clocks", f"the server's clock is {apart} this machine's", remedy)


def check_replica(settings: Settings) -> Checks:
    """Check that the replica, if there is one, can be read, and how far it is behind."""
    if settings.store_replica is None:
        return
    try:
        from onward.ledger.postgres.inspection import examine_replica

        address, behind = examine_replica(settings.store, settings.store_replica)
    except (OnwardError, ModuleNotFoundError) as error:
        text = f"{redact(str(error))}; console, search and lists read from the primary meanwhile"
        yield warning("replica", text, "check ONWARD_STORE_REPLICA, and that the standby runs")
        return
    lag = "behind, nobody knows by how much" if math.isinf(behind) else f"{duration(behind)} behind"
    text = f"{address} is {lag if behind else 'as new as the primary'}"
    remedy = "see why the standby does not follow: pg_stat_wal_receiver there, pg_stat_replication on the primary"
    yield _warning_if(behind > BEHIND_SECONDS, "replica", text, remedy)


def _check_pooler(found: ServerInspection) -> Check:
    text = "a pooler gives each transaction another connection: nothing is prepared or set for a session"
    if found.listens:
        return ok("pooler", f"{text}; workers listen around it")
    remedy = "let workers listen around it: add direct=HOST:PORT of the server to ONWARD_STORE"
    return ok("pooler", f"{text}; workers look for events every second ({remedy})")


def is_far(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        return False  # a name, of which nobody knows where it leads


def _check_schema(found: ServerInspection) -> Checks:
    where, schema, known = found.address, found.schema, found.known_schema
    if not schema:
        if not found.forbidden:
            text = f"has no tables in the schema {found.schema_name} yet; the first `onward ingest` makes them"
            yield ok("store", f"{where} {text}")
    elif schema > known:
        text = f"{where} has schema version {schema}, this Onward knows {known}"
        yield wrong("store", text, "pip install --upgrade onward")
    elif schema < known:
        yield ok("store", f"{where}, schema version {schema}; the next start brings it to version {known}")
    else:
        for one in found.lacking:
            remedy = "stop all workers and restore the schema from a copy"
            if one.statement:
                remedy = f"as the owner of the schema, with psql: {one.statement}"
            yield wrong("store", f"{where} lacks {one.what}", remedy)
        if not found.lacking:
            yield ok("store", f"{where}, schema {found.schema_name}, {size(found.size)}, schema version {schema}")


def _check_rights(found: ServerInspection) -> Check:
    user, name = _quoted(found.user), _quoted(found.schema_name)
    if found.forbidden:
        tables = ", ".join(f"{what} ({rights})" for what, rights in found.forbidden[:3])
        more = f" and {number(len(found.forbidden) - 3)} more" if len(found.forbidden) > 3 else ""
        remedy = (
            f"GRANT USAGE ON SCHEMA {name} TO {user}; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES "
            f"IN SCHEMA {name} TO {user}; GRANT USAGE ON ALL SEQUENCES IN SCHEMA {name} TO {user}"
        )
        return wrong("rights", f"user {found.user} may not use {tables}{more}", remedy)
    if not found.schema and not found.may_create:
        text = f"user {found.user} may not make the schema {found.schema_name}"
        return wrong("rights", text, f"CREATE SCHEMA {name} AUTHORIZATION {user}")
    if 0 < found.schema < found.known_schema and not found.may_upgrade:
        text = f"user {found.user} may not bring the tables to version {found.known_schema}"
        return wrong("rights", text, "start one worker as the owner of the schema; then the others")
    return ok("rights", f"user {found.user} may do all that is needed")


def _check_vacuum(found: ServerInspection) -> Checks:
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


def check_gateway(settings: Settings) -> Checks:
    """Check that the broker, if there is one, takes messages, and that its inbox queue is as it should be."""
    url = settings.gateway_url
    if url is None:
        yield ok("gateway", "none: no events come from other programs, and none leave")
        return
    try:
        import onward.gateway  # noqa: F401
    except ModuleNotFoundError as error:
        yield wrong("gateway", f"the package {error.name!r} is missing", INSTALL.format("rabbitmq"))
        return
    try:
        yield from asyncio.run(_check_broker(url))
    except OnwardError as error:
        yield explained("gateway", error, "check ONWARD_GATEWAY, and that the broker runs")
    except TimeoutError:
        text = f"{redact(url)} did not respond within {duration(int(RESPONSE_SECONDS))}"
        yield wrong("gateway", text, "is the broker overloaded, or is there a firewall in between?")


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
        effect = "other programs cannot publish events, and events for them wait in the store"
        text = f"{where} takes no messages: {connection.blocked}; {effect}"
        return warning("gateway", text, remedy)
    if not confirmed:
        return warning("gateway", f"{where} does not confirm messages", "see its log")
    return ok("gateway", f"{where}, {took * 1000:.1f} ms to confirm a message")


async def _check_inbox(connection: BrokerConnection) -> Check:
    """Check that the inbox queue, if it exists, is as it has to be."""
    from aiormq import exceptions

    from onward.gateway.connection import vhost_of
    from onward.gateway.gateway import queue_arguments
    from onward.gateway.inbox import INBOX

    try:
        async with asyncio.timeout(RESPONSE_SECONDS), connection.short_channel() as channel:
            found = await channel.queue_declare(INBOX, passive=True)
            # With the right arguments; as the queue exists, none is made.
            await channel.queue_declare(INBOX, durable=True, arguments=queue_arguments(connection.version))
    except exceptions.ChannelNotFoundEntity:
        return ok("inbox", f"queue {INBOX} is not made yet: the next `onward worker` makes it")
    except exceptions.AMQPError as error:
        remedy = shell_command(f"rabbitmqctl -p {vhost_of(connection.url)} delete_queue", INBOX)
        return explained("inbox", connection.explain(error), remedy)
    return ok("inbox", f"queue {INBOX} is as it should be, {counted(found.message_count or 0, 'message')} in it")


# -- the content of the store


def check_contents(settings: Settings, examined: Examined) -> Checks:
    """Check the content of a store if it can be opened and its schema is current."""
    from onward.backend_urls import open_store

    if not examined or examined[0].schema != examined[0].known_schema or not examined[0].usable:
        return
    # Not through an app, which would take the write lock to say what services it has.
    store = open_store(settings.store)
    try:
        found = examined[0]
        if found.astray:
            verb = "points" if found.astray == 1 else "point"
            text = f"{counted(found.astray, 'document')} {verb} to ledger rows that do not exist"
            remedy = f"the retry job frees them, beside a worker: {worker_command(store)}"
            yield warning("ledger", text, remedy)
        elif found.astray is not None:
            yield ok("ledger", "every document's row exists")
        if found.future:
            many = f"{counted(found.future, 'document')} {'was' if found.future == 1 else 'were'}"
            text = f"{many} changed in the future, up to {moment(found.latest)}"
            yield warning("times", text, "the clock was wrong, here or there: let NTP keep it right")
        elif found.future is not None:
            yield ok("times", "nothing was changed in the future")
        yield from _check_workers(store)
        yield from _check_services(store)
        yield from _check_dependencies(store)
        yield _check_retry_job(store, RetryJobRules.of(settings, store.subscriptions()))
        yield from _check_outbox(store, settings.gateway_url is not None)
    finally:
        store.close()


def _check_workers(store: Store) -> Checks:
    now = store.now()
    known = store.workers(alive_within=LATELY_SECONDS)
    gone = [one for one in known if one["last_seen"] < now - ALIVE_SECONDS or is_gone(one)]
    alive = len(known) - len(gone)
    yield ok("workers", f"{counted(alive, 'worker')} alive" if alive else "none runs just now")
    if gone:
        named = [
            f"{worker_process(one['worker'])}, last heard of {duration(round(now - one['last_seen']))} ago"
            for one in gone[:NAMED_WORKERS]
        ]
        more = "; …" if len(gone) > NAMED_WORKERS else ""
        text = f"{counted(len(gone), 'worker')} vanished: {'; '.join(named)}{more}"
        remedy = "what they had goes on when another worker runs; see its log for why it died"
        yield warning("workers", text, remedy)


def _check_services(store: Store) -> Checks:
    found = [one for one in service_facts(store) if one["due"] and not one["workers"]]
    for one in found:
        text = f"{events_wait(one['waiting'])} for {one['service']}, and no worker runs it"
        yield warning("services", text, "onward services")
    if not found:
        yield ok("services", "no event waits for a service that no worker runs")


def _check_dependencies(store: Store) -> Checks:
    failing = [breaker for breaker in store.breakers() if breaker.failing_since is not None]
    for one in failing:
        since = f" since {moment(one.failing_since)}"
        if one.by_hand:
            what = f"is out of service by hand{since}"
        elif not one.open and one.unreached_since is not None:
            what = f"has not been reached{since}"
        elif one.openings > 1:
            what = f"fails on and off{since} ({one.openings} times)"
        else:
            what = f"is down{since}" if one.open else f"was down{since}, and works again"
        yield warning("dependencies", f"{one.dependency} {what}: {one.reason}", one.remedy or "onward breakers")
    if not failing:
        yield ok("dependencies", "none is known to be down")


def _check_retry_job(store: Store, rules: RetryJobRules) -> Check:
    from onward.ops.queries.status import overdue, retry_job_status
    from onward.ops.text.needs import overdue_sentence

    job, late = retry_job_status(store, rules), overdue(store, rules)
    if late.total and not alive_workers(store):
        return warning("retry job", overdue_sentence(late.total), worker_command(store))
    ago = job.seconds_ago
    if job.waiting and job.overdue:
        ran = f"has not run for {duration(ago)}" if ago is not None else "has never run here"
        text = f"{counted(job.waiting, 'document')} may wait for it, and it {ran}"
        return warning("retry job", text, worker_command(store))
    if ago is None:
        return ok("retry job", "has not run yet; nothing waits for it")
    return ok("retry job", f"ran {duration(max(0, round(ago)))} ago")


def _check_outbox(store: Store, has_gateway: bool) -> Checks:
    from onward.ops.queries.outbox import read_outbox
    from onward.ops.text.needs import outbox_sentences

    found = read_outbox(store)
    is_behind = found.late or bool(found.trouble)
    for text in outbox_sentences(found):
        remedy = "" if found.served else worker_command(store)
        yield warning("outbox", text, remedy) if is_behind else ok("outbox", text)
        is_behind = False  # what follows is about events that no queue takes, which is no fault
    if has_gateway and not found.waiting and not found.unroutable and not found.trouble:
        yield ok("outbox", "no event waits to leave for other programs")
