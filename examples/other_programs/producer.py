"""Publishes an event for Onward over RabbitMQ, without Onward: `python producer.py URL TYPE ROUTING_KEY DATA`."""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from datetime import UTC, datetime
from typing import Any

import aio_pika


def envelope(event_type: str, data: dict[str, Any]) -> dict[str, Any]:
    return {
        "event_type": event_type,
        "event_id": str(uuid.uuid4()),
        "timestamp": datetime.now(UTC).isoformat(),
        "data": data,
    }


async def publish(url: str, routing_key: str, event: dict[str, Any]) -> None:
    """Publish an event; if this raises, call it again with the same event, which has its `event_id`."""
    connection = await aio_pika.connect(url)
    async with connection:
        # Each message is confirmed by the broker. It raises if no queue takes the routing key.
        channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        exchange = await channel.declare_exchange("copilot.events", aio_pika.ExchangeType.TOPIC, durable=True)
        message = aio_pika.Message(
            json.dumps(event).encode(),
            content_type="application/json",
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            message_id=event["event_id"],
        )
        await exchange.publish(message, routing_key, mandatory=True)


if __name__ == "__main__":
    url, event_type, routing_key, data = sys.argv[1:]
    asyncio.run(publish(url, routing_key, envelope(event_type, json.loads(data))))
