"""Private servers that can be killed and started again, and a network that can be cut, for tests and torture."""

from __future__ import annotations

from onward.torture.servers import postgres, rabbitmq
from onward.torture.servers.postgres import PostgresServer
from onward.torture.servers.private import ServerError
from onward.torture.servers.proxy import Proxy
from onward.torture.servers.rabbitmq import RabbitServer

__all__ = ["PostgresServer", "Proxy", "RabbitServer", "ServerError", "missing"]


def missing() -> list[str]:
    """Which servers cannot be started on this machine, why, and what to do about it."""
    return [reason for reason in (postgres.why_missing(), rabbitmq.why_missing()) if reason]
