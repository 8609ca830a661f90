"""RabbitMQ as the wire: it carries announcements of due rows to workers, and strangers' events to the ledger."""

from onward.backends.rabbitmq.wire import RabbitWire

__all__ = ["RabbitWire"]
