"""A file that takes a limited number of bytes: a transfer into it ends there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from onward.pipeline.fetch.fetch_errors import TooLarge


@dataclass(slots=True)
class _LimitedFile:
    """Refuses more than a number of bytes."""

    file: BinaryIO
    left: int
    refusal: str

    def write(self, data: bytes) -> int:
        self.left -= len(data)
        if self.left < 0:
            raise TooLarge(self.refusal)
        return self.file.write(data)


@contextmanager
def limited_file(path: Path, max_bytes: int, refusal: str) -> Iterator[BinaryIO]:
    """Open a file for writing that raises `TooLarge` with a message when it would get more bytes."""
    with path.open("wb") as file:
        # A wrapper with the one method that is needed.
        yield cast("BinaryIO", _LimitedFile(file, max_bytes, refusal))
