"""Calls of the store with `await`: each runs in a thread, so that the event loop goes on meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from onward.ledger.dialect import Database

T = TypeVar("T")


async def off_loop(db: Database | None, call: Callable[[], T]) -> T:
    """Make a call in a thread; in place, if the caller has a transaction open, which belongs to its thread."""
    if db is not None and db.in_transaction():
        return call()
    import asyncio  # not at the top: a command that only reads starts without it

    return await asyncio.to_thread(call)
