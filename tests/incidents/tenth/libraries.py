"""More errors of libraries that are not installed here, with the names and texts that the real ones have."""

from __future__ import annotations

from types import SimpleNamespace


def _named(kind: type[Exception], module: str, name: str) -> None:
    kind.__module__, kind.__name__, kind.__qualname__ = module, name, name


class SlackApiError(Exception):
    __module__ = "slack_sdk.errors"

    def __init__(self, error: str) -> None:
        self.response = {"ok": False, "error": error}
        super().__init__(
            "The request to the Slack API failed. (url: https://slack.com/api/chat.postMessage)\n"
            f"The server responded with: {self.response}"
        )


class OverloadedError(Exception):
    """anthropic: status 529."""

    __module__ = "anthropic"

    def __init__(self) -> None:
        body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        super().__init__(f"Error code: 529 - {body}")
        self.status_code, self.body = 529, body
        self.response = SimpleNamespace(status_code=529, headers={"x-should-retry": "true"})


class VaultDown(Exception):
    __module__ = "hvac.exceptions"


class RefreshError(Exception):
    __module__ = "google.auth.exceptions"


class BadHostKeyException(Exception):
    __module__ = "paramiko.ssh_exception"


class UnexpectedResponse(Exception):
    """qdrant."""

    __module__ = "qdrant_client.http.exceptions"

    def __init__(self, status: int, reason: str, content: str) -> None:
        super().__init__()
        self.status_code, self.reason_phrase, self.content = status, reason, content.encode()

    def __str__(self) -> str:
        first = f"Unexpected Response: {self.status_code} ({self.reason_phrase})"
        return f"{first}\nRaw response content:\n{self.content!r}"


class CassandraReadTimeout(Exception):
    def __init__(self) -> None:
        super().__init__(
            "Error from server: code=1200 [Coordinator node timed out waiting for replica nodes' responses] "
            'message="Operation timed out - received only 0 responses." '
            "info={'consistency': 'LOCAL_QUORUM', 'required_responses': 2, 'received_responses': 0}"
        )


_named(CassandraReadTimeout, "cassandra", "ReadTimeout")


class GoogleHttpError(Exception):
    def __init__(self, status: int, url: str, reason: str, details: str) -> None:
        super().__init__(f'<HttpError {status} when requesting {url} returned "{reason}". Details: "{details}">')
        self.resp, self.status_code, self.reason = SimpleNamespace(status=status), status, reason


_named(GoogleHttpError, "googleapiclient.errors", "HttpError")


class InferenceServerException(Exception):
    """Triton."""

    __module__ = "tritonclient.utils"

    def __init__(self, status: str, text: str) -> None:
        super().__init__(f"[{status}] {text}")


class OracleError(Exception):
    pass


_named(OracleError, "oracledb.exceptions", "DatabaseError")


class ModelInputError(Exception):
    """cohere."""


_named(ModelInputError, "cohere.errors.bad_request_error", "BadRequestError")
