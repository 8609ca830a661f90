"""More errors of libraries that are not installed here: vector stores, model servers, queues, clouds."""

from __future__ import annotations

from types import SimpleNamespace

from tests.incidents.libraries import ResponseError


class UnexpectedResponse(Exception):
    """qdrant: an answer with an error status."""

    __module__ = "qdrant_client.http.exceptions"

    def __init__(self, status: int, reason: str, error: str) -> None:
        content = f'{{"status":{{"error":"{error}"}},"time":0.000412}}'
        super().__init__(f"Unexpected Response: {status} ({reason})\nRaw response content:\nb'{content}'")
        self.status_code, self.reason_phrase, self.content = status, reason, content.encode()


class ResponseHandlingException(Exception):
    __module__ = "qdrant_client.http.exceptions"


class MilvusException(Exception):
    __module__ = "pymilvus.exceptions"

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"<MilvusException: (code={code}, message={text})>")
        self.code, self.message = code, text


class InferenceServerException(Exception):
    __module__ = "tritonclient.utils"

    def __init__(self, status: str, text: str) -> None:
        super().__init__(f"[{status}] {text}")


class NotEnoughReplicasError(Exception):
    __module__ = "kafka.errors"

    def __init__(self) -> None:
        super().__init__("[Error 19] NotEnoughReplicasError")


class ClusterDownError(ResponseError):
    __module__ = "redis.exceptions"


class VaultDown(Exception):
    __module__ = "hvac.exceptions"


class ServerException(Exception):
    """clickhouse."""

    __module__ = "clickhouse_driver.errors"

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"Code: {code}.\nDB::Exception: {text}")
        self.code = code


class ClientAuthenticationError(Exception):
    """azure."""

    __module__ = "azure.core.exceptions"

    def __init__(self, text: str, detail: str) -> None:
        super().__init__(f"{text}\nErrorCode:AuthenticationFailed\nauthenticationerrordetail:{detail}")
        self.status_code, self.error_code = 403, "AuthenticationFailed"


class RefreshError(Exception):
    __module__ = "google.auth.exceptions"


class ResourceExhausted(Exception):
    __module__ = "google.api_core.exceptions"

    def __init__(self, text: str) -> None:
        super().__init__(f"429 {text}")
        self.code = 429


class BadHostKeyException(Exception):
    __module__ = "paramiko.ssh_exception"

    def __init__(self, host: str, got: str, expected: str) -> None:
        super().__init__(f"Host key for server '{host}' does not match: got '{got}', expected '{expected}'")


class SlackApiError(Exception):
    __module__ = "slack_sdk.errors"

    def __init__(self, error: str, status: int) -> None:
        answer = {"ok": False, "error": error}
        super().__init__(f"The request to the Slack API failed.\nThe server responded with: {answer}")
        self.response = SimpleNamespace(status_code=status, data=answer, headers={"Retry-After": "30"})


class OverloadedError(Exception):
    """anthropic: the provider has too much to do."""

    __module__ = "anthropic"

    def __init__(self) -> None:
        body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        super().__init__(f"Error code: 529 - {body}")
        self.status_code, self.body = 529, body


class ArrowInvalid(ValueError):
    __module__ = "pyarrow.lib"


class TwilioRestException(Exception):
    __module__ = "twilio.base.exceptions"

    def __init__(self, status: int, code: int, text: str) -> None:
        super().__init__(f"HTTP {status} error: Unable to create record: {text}")
        self.status, self.code = status, code


class BrowserError(Exception):
    """playwright."""


BrowserError.__name__ = BrowserError.__qualname__ = "Error"
BrowserError.__module__ = "playwright._impl._errors"


class BrowserTimeout(BrowserError):
    """playwright names it like the built-in one."""


BrowserTimeout.__name__ = BrowserTimeout.__qualname__ = "TimeoutError"
BrowserTimeout.__module__ = "playwright._impl._errors"


class ServiceFault(Exception):
    """zeep: what a SOAP service answers."""


ServiceFault.__name__ = ServiceFault.__qualname__ = "Fault"
ServiceFault.__module__ = "zeep.exceptions"
