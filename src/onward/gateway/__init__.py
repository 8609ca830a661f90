"""The gateway: enters events that other programs publish to RabbitMQ into the ledger."""

from onward.gateway.connection import BrokerError, BrokerUnavailable
from onward.gateway.gateway import Gateway

__all__ = ["BrokerError", "BrokerUnavailable", "Gateway"]
