"""Errors of further libraries that are not installed here, with their real names, modules and fields."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, TypeVar

from tests.incidents.libraries import REASONS

E = TypeVar("E", bound=BaseException)


def _kind(module: str, name: str, *bases: type[BaseException]) -> type[Exception]:
    made: type[Exception] = type(name, bases or (Exception,), {"__module__": module, "__qualname__": name})
    return made


def with_fields(error: E, /, **fields: Any) -> E:
    """Return the error with these attributes, as the library sets them."""
    for name, value in fields.items():
        setattr(error, name, value)
    return error


GoogleAuthError = _kind("google.auth.exceptions", "GoogleAuthError")
RefreshError = _kind("google.auth.exceptions", "RefreshError", GoogleAuthError)
GoogleAPICallError = _kind("google.api_core.exceptions", "GoogleAPICallError")
_ClientError = _kind("google.api_core.exceptions", "ClientError", GoogleAPICallError)
ResourceExhausted = _kind(
    "google.api_core.exceptions",
    "ResourceExhausted",
    _kind("google.api_core.exceptions", "TooManyRequests", _ClientError),
)
GoogleMapsApiError = _kind("googlemaps.exceptions", "ApiError")

AzureError = _kind("azure.core.exceptions", "AzureError")
ServiceRequestError = _kind("azure.core.exceptions", "ServiceRequestError", AzureError)
HttpResponseError = _kind("azure.core.exceptions", "HttpResponseError", AzureError)
ClientAuthenticationError = _kind("azure.core.exceptions", "ClientAuthenticationError", HttpResponseError)

RedisError = _kind("redis.exceptions", "RedisError")
RedisReadOnlyError = _kind(
    "redis.exceptions", "ReadOnlyError", _kind("redis.exceptions", "ResponseError", RedisError)
)
RedisMaxClients = _kind(
    "redis.exceptions", "MaxConnectionsError", _kind("redis.exceptions", "ConnectionError", RedisError)
)

PyMongoError = _kind("pymongo.errors", "PyMongoError")
NotPrimaryError = _kind(
    "pymongo.errors", "NotPrimaryError", _kind("pymongo.errors", "AutoReconnect", PyMongoError)
)
NoHostAvailable = _kind("cassandra.cluster", "NoHostAvailable")
NoBrokersAvailable = _kind("kafka.errors", "NoBrokersAvailable", _kind("kafka.errors", "KafkaError", RuntimeError))
LDAPSocketOpenError = _kind("ldap3.core.exceptions", "LDAPSocketOpenError")

PostgresError = _kind("asyncpg.exceptions._base", "PostgresError")
InvalidPasswordError = _kind("asyncpg.exceptions", "InvalidPasswordError", PostgresError)
UndefinedColumnError = _kind("asyncpg.exceptions", "UndefinedColumnError", PostgresError)
CheckViolationError = _kind("asyncpg.exceptions", "CheckViolationError", PostgresError)
TooManyConnectionsError = _kind("asyncpg.exceptions", "TooManyConnectionsError", PostgresError)

MySQLError = _kind("pymysql.err", "MySQLError")
MySQLOperationalError = _kind("pymysql.err", "OperationalError", MySQLError)
MySQLIntegrityError = _kind("pymysql.err", "IntegrityError", MySQLError)

ClientConnectorCertificateError = _kind("aiohttp.client_exceptions", "ClientConnectorCertificateError")
_ClientResponseError = _kind("aiohttp.client_exceptions", "ClientResponseError")

XMLSyntaxError = _kind("lxml.etree", "XMLSyntaxError", SyntaxError)
PandasParserError = _kind("pandas.errors", "ParserError", ValueError)
GEOSException = _kind("shapely.errors", "GEOSException", _kind("shapely.errors", "ShapelyError"))
TesseractNotFoundError = _kind("pytesseract.pytesseract", "TesseractNotFoundError", EnvironmentError)
ArrayMemoryError = _kind("numpy._core._exceptions", "_ArrayMemoryError", MemoryError)
InvalidDicomError = _kind("pydicom.errors", "InvalidDicomError")
ProduceKafkaException = _kind("cimpl", "KafkaException")

_AnthropicError = _kind("anthropic", "APIStatusError")
AnthropicRateLimitError = _kind("anthropic", "RateLimitError", _AnthropicError)
AnthropicPermissionError = _kind("anthropic", "PermissionDeniedError", _AnthropicError)
AnthropicBadRequestError = _kind("anthropic", "BadRequestError", _AnthropicError)

ElasticApiError = _kind("elasticsearch", "ApiError")
ElasticBadRequestError = _kind("elasticsearch", "BadRequestError", ElasticApiError)


def anthropic_error(kind: type[Exception], status: int, type_: str, text: str) -> Exception:
    """What the anthropic client raises for an error response."""
    body = {"type": "error", "error": {"type": type_, "message": text}}
    return with_fields(
        kind(f"Error code: {status} - {body}"),
        status_code=status,
        body=body,
        response=SimpleNamespace(status_code=status, headers={}),
    )


def elastic_error(kind: type[Exception], status: int, type_: str, reason: str) -> Exception:
    """What the elasticsearch client raises for an error response."""
    body = {"error": {"type": type_, "reason": reason}, "status": status}
    return with_fields(
        kind(f"{kind.__name__}({status}, '{type_}', {reason!r})"), status_code=status, body=body, error=type_
    )


def aiohttp_status(code: int, url: str, headers: dict[str, str] | None = None) -> Exception:
    """What `response.raise_for_status()` of aiohttp raises."""
    return with_fields(
        _ClientResponseError(f"{code}, message={REASONS[code]!r}, url={url!r}"),
        status=code,
        message=REASONS[code],
        headers=headers or {},
    )


def google_error(kind: type[Exception], code: int, text: str) -> Exception:
    """What google.api_core raises for an error response."""
    return with_fields(kind(f"{code} {text}"), code=code, message=text)


def azure_status(kind: type[Exception], code: int, reason: str, text: str) -> Exception:
    """What azure.core raises for an error response."""
    return with_fields(kind(text), status_code=code, reason=reason, message=text)
