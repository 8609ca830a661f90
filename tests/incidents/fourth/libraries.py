"""More errors of libraries that are not installed here, and a meter for what allows so many calls a minute."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

from tests.incidents.staging import Scene


class Meter:
    """Something that takes so many calls each minute."""

    def __init__(self, scene: Scene, most: int) -> None:
        self._scene, self._most, self._taken = scene, most, Counter[int]()

    def is_full(self) -> bool:
        """Count a call; whether it is one too many."""
        minute = int(self._scene.minute)
        self._taken[minute] += 1
        return self._taken[minute] > self._most


class PyKCS11Error(Exception):
    """PyKCS11: what a hardware security module returned."""

    __module__ = "PyKCS11"

    def __init__(self, name: str, value: int) -> None:
        super().__init__(value)
        self.name, self.value = name, value

    def __str__(self) -> str:
        return f"{self.name} (0x{self.value:08X})"


class HttpError(Exception):
    """googleapiclient."""

    __module__ = "googleapiclient.errors"

    def __init__(self, status: int, url: str, text: str, reason: str) -> None:
        super().__init__(
            f'<HttpError {status} when requesting {url} returned "{text}". '
            f"Details: \"[{{'message': '{text}', 'domain': 'usageLimits', 'reason': '{reason}'}}]\">"
        )
        self.resp, self.uri, self.reason = SimpleNamespace(status=status), url, text

    @property
    def status_code(self) -> int:
        return int(self.resp.status)


class EmptyFileError(Exception):
    __module__ = "pypdf.errors"
