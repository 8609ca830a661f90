"""More errors of libraries that are not installed here, with the names and texts that the real ones have."""

from __future__ import annotations

from types import SimpleNamespace


class Fault(Exception):
    """zeep: a SOAP fault that the server answered with."""

    __module__ = "zeep.exceptions"

    def __init__(self, message: str, code: str = "soap:Server") -> None:
        super().__init__(message)
        self.message, self.code = message, code


class OracleError(Exception):
    """oracledb: what the server or its listener answers, with its number in front."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(SimpleNamespace(full_code=code, message=f"{code}: {text}"))

    def __str__(self) -> str:
        return str(self.args[0].message)


OracleError.__name__ = OracleError.__qualname__ = "DatabaseError"
OracleError.__module__ = "oracledb.exceptions"


class MQMIError(Exception):
    """pymqi: a call to the queue manager failed."""

    __module__ = "pymqi"

    def __init__(self, reason: int, name: str) -> None:
        super().__init__(2, reason)
        self.comp, self.reason, self.name = 2, reason, name

    def __str__(self) -> str:
        return f"MQI Error. Comp: {self.comp}, Reason {self.reason}: FAILED: {self.name}"


class TokenNotPresent(Exception):
    """pkcs11: these have no text."""

    __module__ = "pkcs11.exceptions"


class BadHostKeyException(Exception):
    __module__ = "paramiko.ssh_exception"

    def __init__(self, host: str, got: str, expected: str) -> None:
        super().__init__(host, got, expected)

    def __str__(self) -> str:
        return "Host key for server '{}' does not match: got '{}', expected '{}'".format(*self.args)


class PdfError(Exception):
    __module__ = "pikepdf._core"


class MySqlError(Exception):
    """pymysql: a number and a text."""


MySqlError.__name__ = MySqlError.__qualname__ = "OperationalError"
MySqlError.__module__ = "pymysql.err"


class VaultDown(Exception):
    __module__ = "hvac.exceptions"


class HttpResponseError(Exception):
    """azure: an error that a storage account answered with."""

    __module__ = "azure.core.exceptions"

    def __init__(self, status: int, code: str, text: str) -> None:
        super().__init__(f"({code}) {text}\nErrorCode:{code}")
        self.status_code, self.error_code = status, code


class WriteTimeout(Exception):
    __module__ = "cassandra"

    def __init__(self, got: int) -> None:
        super().__init__(
            "Error from server: code=1100 [Coordinator node timed out waiting for replica nodes' responses] "
            f'message="Operation timed out - received only {got} responses." '
            f"info={{'consistency': 'QUORUM', 'required_responses': 2, 'received_responses': {got}}}"
        )


class InvalidDicomError(Exception):
    __module__ = "pydicom.errors"

    def __init__(self) -> None:
        super().__init__(
            "File is missing DICOM File Meta Information header or the 'DICM' prefix is missing from the header. "
            "Use force=True to force reading."
        )


class IPPError(Exception):
    """cups: a status and its name."""

    __module__ = "cups"


class PyodbcError(Exception):
    """pyodbc: a state and a text."""

    def __init__(self, state: str, text: str) -> None:
        super().__init__(state, f"[{state}] [Microsoft][ODBC Driver 18 for SQL Server][SQL Server]{text}")


PyodbcError.__name__ = PyodbcError.__qualname__ = "OperationalError"
PyodbcError.__module__ = "pyodbc"


class ResourceExhausted(Exception):
    """google: a quota is used up."""

    __module__ = "google.api_core.exceptions"

    def __init__(self, text: str) -> None:
        super().__init__(f"429 {text}")
        self.code, self.message = 429, text
