"""Receives Onward's events over RabbitMQ, without Onward: `python consumer.py URL ROUTING_KEY…`."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from typing import Any

import aio_pika

QUEUE = "reports"


def handle(database: sqlite3.Connection, event: dict[str, Any]) -> bool:
    """Store what an event says; return False if it has come before."""
    with database:  # one transaction: the id is stored with the effect, or neither is
        is_new = database.execute("INSERT OR IGNORE INTO seen VALUES (?)", [event["event_id"]]).rowcount == 1
        if is_new:
            values = [event["event_type"], json.dumps(event["data"])]
            database.execute("INSERT INTO reports VALUES (?, ?)", values)
    return is_new


async def consume(url: str, *routing_keys: str, file: str = "reports.db") -> None:
    database = sqlite3.connect(file)
    database.execute("CREATE TABLE IF NOT EXISTS seen (event_id TEXT PRIMARY KEY)")
    database.execute("CREATE TABLE IF NOT EXISTS reports (event_type TEXT, data TEXT)")
    connection = await aio_pika.connect_robust(url)
    async with connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=100)
        exchange = await channel.declare_exchange("copilot.events", aio_pika.ExchangeType.TOPIC, durable=True)
        queue = await channel.declare_queue(QUEUE, durable=True, arguments={"x-queue-type": "quorum"})
        for key in routing_keys:
            await queue.bind(exchange, key)
        async with queue.iterator() as messages:
            async for message in messages:
                async with message.process(requeue=True):  # acknowledged after the effect is stored
                    handle(database, json.loads(message.body))


if __name__ == "__main__":
    asyncio.run(consume(*sys.argv[1:]))
