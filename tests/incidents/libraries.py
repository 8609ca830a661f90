"""Errors of libraries that are not installed here, with the names, fields and texts that the real ones have.

`requests`, `urllib3`, `psycopg`, `pydantic` and the standard library are used as they are.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any

import requests
from urllib3.exceptions import MaxRetryError, NewConnectionError
from urllib3.util.url import parse_url

REASONS = {
    400: "Bad Request",
    401: "Unauthorized",
    402: "Payment Required",
    403: "Forbidden",
    404: "Not Found",
    409: "Conflict",
    410: "Gone",
    413: "Request Entity Too Large",
    415: "Unsupported Media Type",
    422: "Unprocessable Entity",
    429: "Too Many Requests",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
    507: "Insufficient Storage",
}


def requests_status(code: int, url: str, headers: Mapping[str, str] | None = None) -> requests.HTTPError:
    """What `response.raise_for_status()` of requests raises."""
    response = requests.Response()
    response.status_code, response.url, response.reason = code, url, REASONS[code]
    response.headers.update({"Date": formatdate(1_800_000_000), **(headers or {})})
    side = "Client" if code < 500 else "Server"
    return requests.HTTPError(f"{code} {side} Error: {REASONS[code]} for url: {url}", response=response)


def requests_refused(url: str, why: str = "[Errno 111] Connection refused") -> requests.ConnectionError:
    """What requests raises when nobody listens, or a name is not found: wrapped twice."""
    at = parse_url(url)
    inner = NewConnectionError(
        SimpleNamespace(host=at.host, port=at.port or 443),  # type: ignore[arg-type]
        f"Failed to establish a new connection: {why}",
    )
    outer = MaxRetryError(SimpleNamespace(host=at.host, port=at.port or 443), at.path or "/", inner)  # type: ignore[arg-type]
    error = requests.ConnectionError(outer)
    error.__cause__ = outer
    return error


def requests_timeout(host: str, seconds: float) -> requests.ReadTimeout:
    return requests.ReadTimeout(
        f"HTTPSConnectionPool(host='{host}', port=443): Read timed out. (read timeout={seconds:g})"
    )


def certificate_expired(host: str) -> ssl.SSLCertVerificationError:
    return ssl.SSLCertVerificationError(
        1,
        "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired (_ssl.c:1006) "
        f"{host}",
    )


class HTTPStatusError(Exception):
    """httpx: a response with an error status."""

    __module__ = "httpx"

    def __init__(self, code: int, url: str, body: str = "", headers: Mapping[str, str] | None = None) -> None:
        side = "Client" if code < 500 else "Server"
        super().__init__(
            f"{side} error '{code} {REASONS[code]}' for url '{url}'\n"
            f"For more information check: https://developer.mozilla.org/en-US/docs/Web/HTTP/Status/{code}"
        )
        self.response = SimpleNamespace(status_code=code, headers=dict(headers or {}), text=body)
        self.request = SimpleNamespace(url=url, method="POST")


class TransportError(Exception):
    __module__ = "httpx"


class ConnectTimeout(TransportError):
    __module__ = "httpx"


class ReadTimeout(TransportError):
    __module__ = "httpx"


class PoolTimeout(TransportError):
    __module__ = "httpx"


class ClientError(Exception):
    """aiohttp."""

    __module__ = "aiohttp.client_exceptions"


class ClientConnectorError(ClientError, OSError):
    __module__ = "aiohttp.client_exceptions"

    def __init__(self, host: str, port: int, inner: OSError) -> None:
        OSError.__init__(self, inner.errno, inner.strerror)
        self.host, self.port, self.os_error = host, port, inner

    def __str__(self) -> str:
        return f"Cannot connect to host {self.host}:{self.port} ssl:default [{self.os_error.strerror}]"


class ServerDisconnectedError(ClientError):
    __module__ = "aiohttp.client_exceptions"


class ClientPayloadError(ClientError):
    __module__ = "aiohttp.client_exceptions"


class BotoClientError(Exception):
    """botocore: an error that the service returned."""

    def __init__(self, code: str, text: str, operation: str, status: int) -> None:
        super().__init__(f"An error occurred ({code}) when calling the {operation} operation: {text}")
        self.response = {
            "Error": {"Code": code, "Message": text},
            "ResponseMetadata": {"HTTPStatusCode": status, "RetryAttempts": 4, "HTTPHeaders": {}},
        }
        self.operation_name = operation


BotoClientError.__name__ = BotoClientError.__qualname__ = "ClientError"
BotoClientError.__module__ = "botocore.exceptions"


class EndpointConnectionError(Exception):
    __module__ = "botocore.exceptions"

    def __init__(self, url: str) -> None:
        super().__init__(f'Could not connect to the endpoint URL: "{url}"')


class NoCredentialsError(Exception):
    __module__ = "botocore.exceptions"

    def __init__(self) -> None:
        super().__init__("Unable to locate credentials")


class RpcError(Exception):
    """grpc: the base of what a call raises."""

    __module__ = "grpc"


class StatusCode(SimpleNamespace):
    __module__ = "grpc"

    def __repr__(self) -> str:
        return f"StatusCode.{self.name}"

    __str__ = __repr__


GRPC_NUMBERS = {
    "INVALID_ARGUMENT": 3,
    "DEADLINE_EXCEEDED": 4,
    "RESOURCE_EXHAUSTED": 8,
    "UNIMPLEMENTED": 12,
    "INTERNAL": 13,
    "UNAVAILABLE": 14,
    "UNAUTHENTICATED": 16,
}


class _InactiveRpcError(RpcError):
    __module__ = "grpc._channel"

    def __init__(self, code: str, details: str) -> None:
        self._code = StatusCode(name=code, value=(GRPC_NUMBERS[code], code.lower().replace("_", " ")))
        self._details = details
        super().__init__(
            f"<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.{code}\n"
            f'\tdetails = "{details}"\n>'
        )

    def code(self) -> Any:
        return self._code

    def details(self) -> str:
        return self._details


grpc_error = _InactiveRpcError


class RedisError(Exception):
    __module__ = "redis.exceptions"


class RedisConnectionError(RedisError):
    """redis names it like the built-in one."""


RedisConnectionError.__name__ = RedisConnectionError.__qualname__ = "ConnectionError"
RedisConnectionError.__module__ = "redis.exceptions"


class ResponseError(RedisError):
    __module__ = "redis.exceptions"


class OutOfMemoryError(ResponseError):
    __module__ = "redis.exceptions"


class BusyLoadingError(RedisConnectionError):
    __module__ = "redis.exceptions"


class AMQPConnectionError(Exception):
    __module__ = "pika.exceptions"


class ChannelClosedByBroker(Exception):
    __module__ = "pika.exceptions"

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.reply_code, self.reply_text = code, text

    def __str__(self) -> str:
        return f"({self.reply_code}, {self.reply_text!r})"


class APIError(Exception):
    """openai: what all of its errors have."""

    __module__ = "openai"


class APIConnectionError(APIError):
    __module__ = "openai"

    def __init__(self) -> None:
        super().__init__("Connection error.")


class APITimeoutError(APIConnectionError):
    __module__ = "openai"

    def __init__(self) -> None:
        Exception.__init__(self, "Request timed out.")


class APIStatusError(APIError):
    __module__ = "openai"

    def __init__(
        self, status: int, text: str, kind: str, code: str | None, headers: Mapping[str, str] = {}
    ) -> None:
        error = {"message": text, "type": kind, "param": None, "code": code}
        super().__init__(f"Error code: {status} - {{'error': {error}}}")
        self.status_code, self.code, self.type, self.body = status, code, kind, {"error": error}
        self.response = SimpleNamespace(status_code=status, headers=dict(headers))
        self.request_id = "req_7f3a90c2e1"


class RateLimitError(APIStatusError):
    __module__ = "openai"


class AuthenticationError(APIStatusError):
    __module__ = "openai"


class BadRequestError(APIStatusError):
    __module__ = "openai"


class NotFoundError(APIStatusError):
    __module__ = "openai"


class InternalServerError(APIStatusError):
    __module__ = "openai"


class ServerSelectionTimeoutError(Exception):
    __module__ = "pymongo.errors"


class AutoReconnect(Exception):
    __module__ = "pymongo.errors"


class DocumentTooLarge(Exception):
    __module__ = "pymongo.errors"


class TransportApiError(Exception):
    """elasticsearch: an error response of the cluster."""

    def __init__(self, status: int, kind: str, reason: str) -> None:
        super().__init__(status, kind, reason)
        self.status_code, self.error, self.info = status, kind, {"error": {"type": kind, "reason": reason}}

    def __str__(self) -> str:
        return f"ApiError({self.status_code}, '{self.error}', '{self.info['error']['reason']}')"


TransportApiError.__name__ = TransportApiError.__qualname__ = "ApiError"
TransportApiError.__module__ = "elasticsearch"


class UnidentifiedImageError(OSError):
    __module__ = "PIL"


class DecompressionBombError(Exception):
    __module__ = "PIL.Image"


class PdfReadError(Exception):
    __module__ = "pypdf.errors"


class FileNotDecryptedError(PdfReadError):
    __module__ = "pypdf.errors"


class InvalidFileException(Exception):
    __module__ = "openpyxl.utils.exceptions"


class PackageNotFoundError(Exception):
    __module__ = "docx.opc.exceptions"


class TesseractError(RuntimeError):
    __module__ = "pytesseract.pytesseract"

    def __init__(self, status: int, text: str) -> None:
        super().__init__(status, text)


class TemplateSyntaxError(Exception):
    __module__ = "jinja2.exceptions"


class UndefinedError(Exception):
    __module__ = "jinja2.exceptions"


class DBAPIError(Exception):
    """sqlalchemy wraps what a driver raises, and keeps it as `orig`."""

    __module__ = "sqlalchemy.exc"

    def __init__(self, statement: str, orig: BaseException) -> None:
        kind = f"{type(orig).__module__}.{type(orig).__name__}"
        super().__init__(
            f"({kind}) {orig}\n[SQL: {statement}]\n(Background on this error at: https://sqlalche.me/e/20/e3q8)"
        )
        self.orig, self.statement = orig, statement


class OperationalError(DBAPIError):
    __module__ = "sqlalchemy.exc"


class ProgrammingError(DBAPIError):
    __module__ = "sqlalchemy.exc"


class SqlTimeoutError(Exception):
    """sqlalchemy names it like the built-in one."""


SqlTimeoutError.__name__ = SqlTimeoutError.__qualname__ = "TimeoutError"
SqlTimeoutError.__module__ = "sqlalchemy.exc"


class StripeError(Exception):
    __module__ = "stripe"


class CardError(StripeError):
    __module__ = "stripe"


class KafkaTimeoutError(Exception):
    __module__ = "kafka.errors"


class OutOfMemoryErrorOfCuda(RuntimeError):
    """torch."""


OutOfMemoryErrorOfCuda.__name__ = OutOfMemoryErrorOfCuda.__qualname__ = "OutOfMemoryError"
OutOfMemoryErrorOfCuda.__module__ = "torch.cuda"


class LdapServerDown(Exception):
    def __init__(self) -> None:
        super().__init__({"result": -1, "desc": "Can't contact LDAP server", "ctrls": []})


LdapServerDown.__name__ = LdapServerDown.__qualname__ = "SERVER_DOWN"
LdapServerDown.__module__ = "ldap"


class SSHException(Exception):
    __module__ = "paramiko.ssh_exception"


class AuthenticationException(SSHException):
    __module__ = "paramiko.ssh_exception"
