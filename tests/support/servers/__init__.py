"""Private servers that tests kill and start again, and a proxy that cuts the network."""

from __future__ import annotations

from tests.support.servers import dovecot, pgbouncer, postgres, rabbitmq
from tests.support.servers.dovecot import Dovecot
from tests.support.servers.objects import ObjectServer
from tests.support.servers.pgbouncer import PgBouncer
from tests.support.servers.postgres import PostgresServer
from tests.support.servers.private import ServerError
from tests.support.servers.proxy import Proxy
from tests.support.servers.rabbitmq import RabbitServer

__all__ = [
    "Dovecot",
    "ObjectServer",
    "PgBouncer",
    "PostgresServer",
    "Proxy",
    "RabbitServer",
    "ServerError",
    "missing",
]


def missing() -> list[str]:
    """Return which servers cannot be started on this machine, why, and the remedy."""
    return [reason for server in (postgres, pgbouncer, rabbitmq, dovecot) if (reason := server.why_missing())]
