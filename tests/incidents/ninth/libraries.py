"""More errors of libraries that are not installed here, with the names and texts that the real ones have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tests.incidents.staging import Scene

T = TypeVar("T", bound=type)


def real_name(module: str, name: str) -> Callable[[T], T]:
    """Give a class the module and the name that it has in its library."""

    def rename(kind: T) -> T:
        kind.__module__, kind.__name__, kind.__qualname__ = module, name, name
        return kind

    return rename


@real_name("oracledb.exceptions", "DatabaseError")
class OracleError(Exception):
    pass


@real_name("hvac.exceptions", "VaultDown")
class VaultDown(Exception):
    pass


@real_name("paramiko.ssh_exception", "BadHostKeyException")
class BadHostKey(Exception):
    def __init__(self, host: str, got: str, expected: str) -> None:
        super().__init__(host, got, expected)
        self.hostname, self.got, self.expected = host, got, expected

    def __str__(self) -> str:
        return (
            f"Host key for server '{self.hostname}' does not match: got '{self.got}', expected '{self.expected}'"
        )


@real_name("exchangelib.errors", "ErrorServerBusy")
class ErrorServerBusy(Exception):
    def __init__(self, back_off: float) -> None:
        super().__init__("The server cannot service this request right now. Try again later.")
        self.back_off = back_off


@real_name("azure.core.exceptions", "HttpResponseError")
class AzureError(Exception):
    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(f"{text}\nRequestId:5d1e0c7b-901e-0044-4f2a-9a7c1b000000\nErrorCode:{code}")
        self.status_code, self.error_code, self.reason = status, code, text


@real_name("pypdf.errors", "EmptyFileError")
class EmptyFileError(Exception):
    pass


@real_name("redis.exceptions", "ReadOnlyError")
class RedisReadOnly(Exception):
    pass


@real_name("botocore.exceptions", "ReadTimeoutError")
class BotoReadTimeout(Exception):
    def __init__(self, url: str) -> None:
        super().__init__(f'Read timeout on endpoint URL: "{url}"')


@real_name("extract_msg.exceptions", "InvalidFileFormatError")
class InvalidMsgError(Exception):
    pass


@real_name("zeep.exceptions", "Fault")
class SoapFault(Exception):
    def __init__(self, message: str, code: str, detail: Any = None) -> None:
        super().__init__(message)
        self.message, self.code, self.detail = message, code, detail


class Meter:
    """Counts what is let through in each stretch of time."""

    def __init__(self, scene: Scene, limit: int, minutes: float = 1.0, *, counts_refused: bool = False) -> None:
        self._scene, self._limit, self._minutes, self._counts_refused = scene, limit, minutes, counts_refused
        self._seen = dict[int, int]()

    def is_full(self) -> bool:
        """Whether this call is one too many."""
        stretch = int(self._scene.minute / self._minutes)
        seen = self._seen.get(stretch, 0)
        if seen < self._limit or self._counts_refused:
            self._seen[stretch] = seen + 1
        return seen >= self._limit
