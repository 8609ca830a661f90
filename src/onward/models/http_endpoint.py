"""A server that speaks the OpenAI protocol (OpenAI, Ollama, vLLM and many more), and one of its models."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Mapping
from typing import Any

import httpx2

from onward.retry import OnwardError, Unavailable, redact

BYTES_PER_TOKEN = 3  # the estimated length of a token of an unknown tokenizer: 3 letters, or one Chinese character
MAX_ERROR_CHARACTERS = 500
CONNECT_SECONDS = 10.0
HEALTH_SECONDS = 5.0
# Statuses that no document causes: they come back for every document until a person acts.
_REMEDIES = {
    401: "the key is missing or wrong; set ONWARD_{0}_KEY",
    402: "the account has no credit; see to it where the key comes from",
    403: "the key may not use this; check what it is allowed to do, or set ONWARD_{0}_KEY",
    404: "the address or the name of the model is wrong, or the model is not loaded there",
    405: "the address is wrong; it usually ends in /v1",
}

# At INFO the client logs every URL it calls, with the secrets in it.
if (_client_log := logging.getLogger("httpx2")).level == logging.NOTSET:
    _client_log.setLevel(logging.WARNING)


class ModelHTTPError(OnwardError):
    """The server of a model returned an error status; `onward.classify` reads `status_code` and `headers`."""

    def __init__(self, message: str, status_code: int, headers: Mapping[str, str]) -> None:
        super().__init__(message, status_code, headers)
        self.status_code = status_code
        self.headers = headers

    def __str__(self) -> str:
        return str(self.args[0])


class ModelAnswerError(OnwardError):
    """The server of a model returned something that cannot be used; the next response may be better."""


class HTTPModel:
    """One model of a server: a pool of connections, a limit of calls at a time, and classified errors."""

    remote = True

    def __init__(
        self, url: str, name: str, *, dependency: str, key: str | None, concurrency: int, read_timeout: float
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{redact(url)!r} is no address of a model; give one like http://localhost:11434/v1")
        if key is not None and not (key.isascii() and key.isprintable()):
            raise ValueError(f"the key of the {dependency} holds characters no key has; was it copied whole?")
        self.model = f"http:{name}"
        self.name = name
        self.dependency = dependency
        self.address = redact(url.rstrip("/"))
        self._key = key
        self._slots = threading.BoundedSemaphore(concurrency)
        self._client = httpx2.Client(
            base_url=url.rstrip("/") + "/",
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx2.Timeout(read_timeout, connect=CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=concurrency + 1, max_keepalive_connections=concurrency),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address!r}, {self.name!r})"

    # Any: the JSON of the server is checked where it is used.
    def post(self, path: str, body: Mapping[str, object], *, key: str = "") -> dict[str, Any]:
        """Send a request for this model and return the JSON object of the response."""
        headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": _header_value(key)} if key else {})
        # A lone surrogate cannot be encoded: it is replaced, so that the rest is sent.
        content = json.dumps({"model": self.name, **body}, ensure_ascii=False).encode("utf-8", "replace")
        with self._slots:
            try:
                response = self._client.post(path, content=content, headers=headers)
            except httpx2.TransportError as error:
                raise self._unavailable(f"{self.address} cannot be used: {self._describe(error)}") from None
            except httpx2.DecodingError as error:
                raise self._unavailable(f"{self.address} answered bytes that cannot be read: {error}") from None
        if response.status_code != 200:
            raise self._status_error(response)
        try:
            answer = json.loads(response.content)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise self._unavailable(f"{self.address} did not answer with JSON, but: {self._error_text(response)}")
        return answer

    def healthy(self) -> bool:
        """Return True if the server responds within `HEALTH_SECONDS`; raise with the reason if not."""
        try:
            response = self._client.get("models", timeout=HEALTH_SECONDS)
        except httpx2.HTTPError as error:
            raise self._unavailable(f"{self.address} cannot be used: {self._describe(error)}") from None
        # Not every server can list its models: a 404 here comes from a server that is up.
        if response.status_code >= 500 or response.status_code in (401, 403):
            raise self._status_error(response)
        return True

    def close(self) -> None:
        self._client.close()

    def _unavailable(self, message: str) -> Unavailable:
        return Unavailable(self.dependency, message)

    def _status_error(self, response: httpx2.Response) -> OnwardError:
        status = response.status_code
        message = f"{self.dependency}: {self.address} answered {status}: {self._error_text(response)}"
        remedy = _REMEDIES.get(status, "").format(self.dependency.upper())
        if 300 <= status < 400:
            remedy = f"it sends us to {redact(response.headers.get('location', '?'))}; use the right address"
        if remedy:
            return Unavailable(self.dependency, message, opens=True, remedy=remedy)
        headers = {"Retry-After": value} if (value := response.headers.get("retry-after")) else {}
        return ModelHTTPError(message, status, headers)

    def _error_text(self, response: httpx2.Response) -> str:
        """Return the error message of the server, short and without secrets."""
        text = response.text[: 20 * MAX_ERROR_CHARACTERS]
        try:
            error = json.loads(response.content)
            error = error.get("error", error) if isinstance(error, dict) else error
            error = error.get("message", error) if isinstance(error, dict) else error
            text = error if isinstance(error, str) else json.dumps(error)
        except (ValueError, RecursionError):
            pass
        text = self._hide(" ".join(text.split())) or "(nothing)"
        return text if len(text) <= MAX_ERROR_CHARACTERS else text[: MAX_ERROR_CHARACTERS - 1] + "…"

    def _describe(self, error: Exception) -> str:
        return self._hide(f"{type(error).__name__}: {error}")[:MAX_ERROR_CHARACTERS]

    def _hide(self, text: str) -> str:
        return redact(text.replace(self._key, "***") if self._key else text)


def fitting_characters(text: str, size: int) -> int:
    """Estimate how many characters of a text fit into `size` bytes."""
    first = text[:size]
    used = len(first.encode("utf-8", "replace"))
    return len(first) if used <= size else max(1, len(first) * size // used)


def _header_value(key: str) -> str:
    plain = key.isascii() and key.isprintable() and len(key) <= 200
    return key if plain else hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
