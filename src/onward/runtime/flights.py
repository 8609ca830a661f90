"""Flights: commits that are under way while the engine goes on claiming and handling."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

MOST_FLIGHTS = 2
"""One that the database is at, and one that is being prepared for it."""


class Flights:
    """Belongs to the event loop."""

    def __init__(self, landed: Callable[[], None]) -> None:
        self._told = landed
        self._flying: set[asyncio.Future[None]] = set()
        self._failures: list[BaseException] = []

    def __len__(self) -> int:
        return len(self._flying)

    def start(self, flight: asyncio.Future[None]) -> None:
        self._flying.add(flight)
        flight.add_done_callback(self._landed)

    def _landed(self, flight: asyncio.Future[None]) -> None:
        self._flying.discard(flight)
        error = flight.exception()
        if error is not None:
            self._failures.append(error)
        self._told()

    def failure(self) -> BaseException | None:
        """Why a flight failed; each failure is told once."""
        return self._failures.pop(0) if self._failures else None

    async def land(self, *, all_of_them: bool = True) -> None:
        """Wait for those that are under way, or for one of them."""
        if self._flying:
            await asyncio.wait(
                self._flying, return_when=asyncio.ALL_COMPLETED if all_of_them else asyncio.FIRST_COMPLETED
            )
