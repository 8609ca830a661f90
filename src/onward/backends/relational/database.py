"""What a relational backend has to bring."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Database(Protocol):
    """Connections, transactions and named statements of one database.

    Many may write at the same time. Whoever changes what it has read must have read it in its transaction: that
    locks it until the end. What cannot be locked by reading, because it may not be there yet, is locked by name.
    """

    def close(self) -> None: ...

    def transaction(self, *, alone: bool = False) -> AbstractContextManager[None]:
        """Hold what is needed to write; nested blocks join the outermost one.

        `alone`: no other transaction is under way at the same time; for rare changes that all others rely on.
        """
        ...

    def in_transaction(self) -> bool:
        """Whether this thread is in one."""
        ...

    def lock(self, kind: str, names: Sequence[str] = ("",)) -> bool:
        """Keep other transactions off these names until the end; False: there are no others."""
        ...

    def watch(self, woken: set[str]) -> None:
        """When the transaction is committed, tell workers elsewhere, if services were woken by then."""
        ...

    def read(self, name: str, *parameters: Any) -> Any:
        """The answer of a named query, as plain lists and values; in a transaction, what is read is locked."""
        ...

    def glance(self, name: str, *parameters: Any) -> Any:
        """The same without locking anything."""
        ...

    def fetch(self, name: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of a named query, for what JSON cannot carry: bytes."""
        ...

    def run(self, name: str, *parameters: Any) -> int:
        """Execute a named statement; answer how many rows it changed."""
        ...

    def send(self, name: str, *parameters: Any) -> None:
        """The same without an answer, and without waiting; what fails shows later in the transaction."""
        ...

    def bulk(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        """Execute a named statement for many rows at once."""
        ...

    def reserve(self, table: str) -> int:
        """A row id that no row has had, and that nobody else gets."""
        ...
