"""More errors of libraries that are not installed here, with the names and texts that the real ones have."""

from __future__ import annotations


class Fault(Exception):
    """zeep: a SOAP fault."""

    __module__ = "zeep.exceptions"

    def __init__(self, message: str, code: str = "soap:Server") -> None:
        super().__init__(message)
        self.message, self.code, self.detail = message, code, None


class PDUError(RuntimeError):
    """smpplib: the short message centre answered with an error."""

    __module__ = "smpplib.exceptions"


class TwilioRestException(Exception):
    __module__ = "twilio.base.exceptions"

    def __init__(self, status: int, uri: str, text: str, code: int) -> None:
        super().__init__(status, uri, text)
        self.status, self.uri, self.msg, self.code, self.method = status, uri, text, code, "POST"

    def __str__(self) -> str:
        return f"HTTP {self.status} error: {self.msg}"


class CassandraUnavailable(Exception):
    def __init__(self, level: str, required: int, alive: int) -> None:
        info = {"consistency": level, "required_replicas": required, "alive_replicas": alive}
        super().__init__(
            "Error from server: code=1000 [Unavailable exception] "
            f'message="Cannot achieve consistency level {level}" info={info}'
        )


CassandraUnavailable.__name__ = CassandraUnavailable.__qualname__ = "Unavailable"
CassandraUnavailable.__module__ = "cassandra"


class SalesforceExpiredSession(Exception):
    __module__ = "simple_salesforce.exceptions"

    def __init__(self, url: str, content: str) -> None:
        super().__init__(url, 401, content)
        self.url, self.status, self.content = url, 401, content

    def __str__(self) -> str:
        return f"Expired session for {self.url}. Response content: {self.content}"


class InferenceServerException(Exception):
    __module__ = "tritonclient.utils"

    def __init__(self, text: str, status: str) -> None:
        super().__init__(text)
        self._msg, self._status = text, status

    def __str__(self) -> str:
        return f"[{self._status}] {self._msg}"

    def status(self) -> str:
        return self._status


class KafkaException(Exception):
    __module__ = "cimpl"


class VaultForbidden(Exception):
    def __init__(self, url: str) -> None:
        super().__init__(f"permission denied, on get {url}")


VaultForbidden.__name__ = VaultForbidden.__qualname__ = "Forbidden"
VaultForbidden.__module__ = "hvac.exceptions"


class OracleError(Exception):
    """oracledb."""

    def __init__(self, number: int, text: str) -> None:
        code = f"ORA-{number:05}"
        super().__init__(f"{code}: {text}\nHelp: https://docs.oracle.com/error-help/db/{code.lower()}/")


OracleError.__name__ = OracleError.__qualname__ = "DatabaseError"
OracleError.__module__ = "oracledb.exceptions"


class MySQLError(Exception):
    """pymysql: a number and a text."""


MySQLError.__name__ = MySQLError.__qualname__ = "OperationalError"
MySQLError.__module__ = "pymysql.err"


class ResourceExhausted(Exception):
    """google: a quota per minute is used up."""

    __module__ = "google.api_core.exceptions"
    code = 429

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.message = text

    def __str__(self) -> str:
        return f"429 {self.message}"


class PoolTimeout(Exception):
    __module__ = "psycopg_pool"


class LangDetectException(Exception):
    __module__ = "langdetect.lang_detect_exception"

    def __init__(self) -> None:
        super().__init__("No features in text.")
        self.code = 5

    def get_code(self) -> int:
        return self.code


class UnexpectedResponse(Exception):
    """qdrant."""

    __module__ = "qdrant_client.http.exceptions"

    def __init__(self, status: int, reason: str, text: str) -> None:
        super().__init__(status, reason, text)
        self.status_code, self.reason_phrase, self.content = status, reason, text.encode()

    def __str__(self) -> str:
        first = f"Unexpected Response: {self.status_code} ({self.reason_phrase})"
        return f"{first}\nRaw response content:\n{self.content!r}"


class ResponseHandlingException(Exception):
    __module__ = "qdrant_client.http.exceptions"


class HttpResponseError(Exception):
    """azure."""

    __module__ = "azure.core.exceptions"

    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(f"({code}) {text}\nCode: {code}\nMessage: {text}")
        self.status_code, self.reason = status, code


class StorageError(Exception):
    """minio: an answer of the object store."""

    def __init__(self, code: str, text: str, resource: str) -> None:
        super().__init__(f"S3 operation failed; code: {code}, message: {text}, resource: {resource}")
        self.code = code


StorageError.__name__ = StorageError.__qualname__ = "S3Error"
StorageError.__module__ = "minio.error"
