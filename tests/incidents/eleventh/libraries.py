"""More errors of libraries that are not installed here, with the names, fields and texts of the real ones."""

from __future__ import annotations

from types import SimpleNamespace


class VaultDown(Exception):
    """hvac: the vault is sealed, or has no leader."""

    __module__ = "hvac.exceptions"

    def __init__(self, text: str, url: str) -> None:
        super().__init__(text)
        self.errors, self.method, self.url = [text], "get", url

    def __str__(self) -> str:
        return f"{self.errors[0]}, on {self.method} {self.url}"


class Fault(Exception):
    """zeep: a SOAP fault."""

    __module__ = "zeep.exceptions"

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.message, self.code = message, code

    def __str__(self) -> str:
        return self.message


class InvalidCredentials(Exception):
    """python-ldap."""

    def __init__(self) -> None:
        super().__init__({"result": 49, "desc": "Invalid credentials", "info": "data 775, v4563"})


InvalidCredentials.__name__ = InvalidCredentials.__qualname__ = "INVALID_CREDENTIALS"
InvalidCredentials.__module__ = "ldap"


class OverloadedError(Exception):
    """anthropic: status 529."""

    __module__ = "anthropic"

    def __init__(self) -> None:
        body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        super().__init__(f"Error code: 529 - {body}")
        self.status_code, self.body = 529, body
        self.response = SimpleNamespace(status_code=529, headers={"x-should-retry": "true"})


class S3Error(Exception):
    """minio."""

    __module__ = "minio.error"

    def __init__(self, code: str, message: str, resource: str) -> None:
        super().__init__(
            f"S3 operation failed; code: {code}, message: {message}, resource: {resource}, request_id: 17C5A2, "
            "host_id: dd9025ba"
        )
        self.code, self.message = code, message


class SlackApiError(Exception):
    """slack-sdk."""

    __module__ = "slack_sdk.errors"

    def __init__(self, error: str, status: int, headers: dict[str, str]) -> None:
        answer = {"ok": False, "error": error}
        super().__init__(
            "The request to the Slack API failed. (url: https://slack.com/api/chat.postMessage)\n"
            f"The server responded with: {answer}"
        )
        self.response = SimpleNamespace(status_code=status, headers=headers, data=answer)


class IdempotencyError(Exception):
    __module__ = "stripe"

    def __init__(self, key: str) -> None:
        super().__init__(
            f"Keys for idempotent requests can only be used with the same parameters they were first used with. "
            f"Try using a key other than '{key}' if you meant to execute a different request."
        )
        self.http_status, self.code = 400, "idempotency_key_in_use"


class InvalidRequestError(Exception):
    __module__ = "stripe"

    def __init__(self, message: str, code: str, param: str) -> None:
        super().__init__(message)
        self.http_status, self.code, self.param = 400, code, param
