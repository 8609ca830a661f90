"""Errors of libraries for science, publishing and finance, with the names and texts that the real ones have."""

from __future__ import annotations

from types import SimpleNamespace

from tests.incidents.staging import Scene


class Meter:
    """Something that takes this many calls in a minute and refuses the rest."""

    def __init__(self, scene: Scene, most: int) -> None:
        self._scene, self._most = scene, most
        self._taken: dict[int, int] = {}

    def is_full(self) -> bool:
        """Whether the call at this moment is one too many."""
        minute = int(self._scene.minute)
        taken = self._taken[minute] = self._taken.get(minute, 0) + 1
        return taken > self._most


class OracleDatabaseError(Exception):
    """python-oracledb."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}\nHelp: https://docs.oracle.com/error-help/db/{code.lower()}/")


OracleDatabaseError.__name__ = OracleDatabaseError.__qualname__ = "DatabaseError"
OracleDatabaseError.__module__ = "oracledb.exceptions"


class SnowflakeError(Exception):
    """The connector of Snowflake: a number, an SQL state and a text."""

    def __init__(self, number: int, state: str, text: str) -> None:
        super().__init__(f"{number:06} ({state}): 01b2c3d4-0000-7a5e: {text}")
        self.errno, self.sqlstate, self.msg = number, state, text


SnowflakeError.__name__ = SnowflakeError.__qualname__ = "ProgrammingError"
SnowflakeError.__module__ = "snowflake.connector.errors"


class KafkaException(Exception):
    """confluent_kafka: its only argument is a KafkaError."""

    __module__ = "cimpl"

    def __init__(self, code: str, value: int, text: str) -> None:
        super().__init__(f'KafkaError{{code={code},val={value},str="{text}"}}')


class UnexpectedResponse(Exception):
    """The client of Qdrant."""

    __module__ = "qdrant_client.http.exceptions"

    def __init__(self, status: int, reason: str, text: str) -> None:
        self.status_code = status
        raw = '{"status":{"error":"' + text + '"},"time":0.000071}'
        super().__init__(f"Unexpected Response: {status} ({reason})\nRaw response content:\n{raw.encode()!r}")


class MilvusException(Exception):
    __module__ = "pymilvus.exceptions"

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"<MilvusException: (code={code}, message={text})>")
        self.code, self.message = code, text


class HttpResponseError(Exception):
    """azure.core."""

    __module__ = "azure.core.exceptions"

    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(f"{text}\nRequestId:7c1f09aa-301e-0042-5dd1\nErrorCode:{code}")
        self.status_code, self.error_code = status, code
        self.response = SimpleNamespace(status_code=status, headers={})


class BadHostKeyException(Exception):
    __module__ = "paramiko.ssh_exception"

    def __init__(self, host: str) -> None:
        super().__init__(host)
        self.hostname = host

    def __str__(self) -> str:
        return f"Host key for server '{self.hostname}' does not match: got 'AAAAC3Nza8Fq', expected 'AAAAC3Nzb1Xw'"


class GSSError(Exception):
    __module__ = "gssapi.raw.misc"


class WriteTimeout(Exception):
    """The driver of Cassandra."""

    __module__ = "cassandra"


class ConnectionBlockedTimeout(Exception):
    __module__ = "pika.exceptions"


class ParserError(ValueError):
    """pandas."""

    __module__ = "pandas.errors"


class ArrowInvalid(ValueError):
    __module__ = "pyarrow.lib"


class OverloadedError(Exception):
    """anthropic: the provider has too many requests of all its customers."""

    __module__ = "anthropic"

    def __init__(self) -> None:
        super().__init__(
            "Error code: 529 - {'type': 'error', 'error': {'type': 'overloaded_error', 'message': 'Overloaded'}}"
        )
        self.status_code = 529
        self.response = SimpleNamespace(status_code=529, headers={})
