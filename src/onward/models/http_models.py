"""Models by any server that speaks the OpenAI protocol (OpenAI, Ollama, vLLM and many more), and the embedder."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import httpx2
import numpy as np
from numpy.typing import NDArray

from onward.retry import OnwardError, Permanent, Unavailable, redact

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
MAX_REQUEST_CHARACTERS = 96_000

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


class HTTPModel:
    """One model of a server: a pool of connections, a limit of calls at a time, and classified errors."""

    remote = True
    dependency: str

    def __init__(self, url: str, name: str, key: str | None, concurrency: int, read_timeout: float) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{redact(url)!r} is no address of a model; give one like http://localhost:11434/v1")
        if key is not None and not (key.isascii() and key.isprintable()):
            raise ValueError(f"the key of the {self.dependency} holds characters no key has; was it copied whole?")
        self.model, self.name = f"http:{name}", name
        self.address = self.where = redact(url.rstrip("/"))
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
        headers = {"Content-Type": "application/json"}
        if key:
            plain = key.isascii() and key.isprintable() and len(key) <= 200
            digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
            headers["Idempotency-Key"] = key if plain else digest
        # A lone surrogate cannot be encoded: it is replaced, so that the rest is sent.
        content = json.dumps({"model": self.name, **body}, ensure_ascii=False).encode("utf-8", "replace")
        with self._slots:
            try:
                response = self._client.post(path, content=content, headers=headers)
            except httpx2.TransportError as error:
                raise self._unusable(error) from None
            except httpx2.DecodingError as error:
                message = f"{self.address} answered bytes that cannot be read: {error}"
                raise Unavailable(self.dependency, message) from None
        if response.status_code != 200:
            raise self._status_error(response)
        answer = None
        with suppress(ValueError):
            answer = json.loads(response.content)
        if not isinstance(answer, dict):
            message = f"{self.address} did not answer with JSON, but: {self._error_text(response)}"
            raise Unavailable(self.dependency, message)
        return answer

    def healthy(self) -> bool:
        """Return True if the server responds within `HEALTH_SECONDS`; raise with the reason if not."""
        try:
            response = self._client.get("models", timeout=HEALTH_SECONDS)
        except httpx2.HTTPError as error:
            raise self._unusable(error) from None
        # Not every server can list its models: a 404 here comes from a server that is up.
        if response.status_code >= 500 or response.status_code in (401, 403):
            raise self._status_error(response)
        return True

    def close(self) -> None:
        self._client.close()

    def _unusable(self, error: Exception) -> Unavailable:
        reason = self._hide(f"{type(error).__name__}: {error}")[:MAX_ERROR_CHARACTERS]
        return Unavailable(self.dependency, f"{self.address} cannot be used: {reason}")

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
        with suppress(ValueError, RecursionError):
            error = json.loads(response.content)
            for name in ("error", "message"):
                error = error.get(name, error) if isinstance(error, dict) else error
            text = error if isinstance(error, str) else json.dumps(error)
        text = self._hide(" ".join(text.split())) or "(nothing)"
        return text if len(text) <= MAX_ERROR_CHARACTERS else text[: MAX_ERROR_CHARACTERS - 1] + "…"

    def _hide(self, text: str) -> str:
        return redact(text.replace(self._key, "***") if self._key else text)


def fitting_characters(text: str, size: int) -> int:
    """Estimate how many characters of a text fit into `size` bytes."""
    first = text[:size]
    used = len(first.encode("utf-8", "replace"))
    return len(first) if used <= size else max(1, len(first) * size // used)


class HTTPEmbedder(HTTPModel):
    """Embeds texts by calling a server; a text that is too long for its model is embedded in parts."""

    title_repeats = 1
    holds_gil = False
    batch_texts = 256

    def __init__(
        self,
        url: str,
        name: str,
        *,
        key: str | None = None,
        batch: int = 64,
        max_tokens: int = 2048,
        concurrency: int = 4,
        read_timeout: float = 60.0,
        dependency: str = "embedder",
    ) -> None:
        self.dependency = dependency
        super().__init__(url, name, key, concurrency, read_timeout)
        self.dimensions: int | None = None
        self.max_tokens, self.batch = max_tokens, batch
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str], *, key: str = "", query: bool = False) -> NDArray[np.float32]:
        texts_in_parts = [list(_parts(text, self.max_tokens * BYTES_PER_TOKEN)) for text in texts]
        parts = [part for each in texts_in_parts for part in each]
        owners = [number for number, each in enumerate(texts_in_parts) for _ in each]
        if texts and not parts and self.dimensions is None:
            self._request(["."], key)  # nothing to embed, but the length of a vector must be known
        rows = np.zeros((len(texts), self.dimensions or 0), np.float32)
        start = 0
        for number, group in enumerate(self._requests(parts)):
            vectors = _normalised(self._request(group, f"{key}-{number}" if key and number else key))
            if rows.shape[1] != vectors.shape[1]:
                rows = np.zeros((len(texts), vectors.shape[1]), np.float32)
            weights = np.array([len(part) for part in group], np.float32)[:, None]
            np.add.at(rows, owners[start : start + len(group)], vectors * weights)
            start += len(group)
        return _normalised(rows)

    def _requests(self, parts: list[str]) -> Iterator[list[str]]:
        """Group texts into requests of at most `batch` texts and `MAX_REQUEST_CHARACTERS` characters."""
        group: list[str] = []
        size = 0
        for part in parts:
            if group and (len(group) >= self.batch or size + len(part) > MAX_REQUEST_CHARACTERS):
                yield group
                group, size = [], 0
            group.append(part)
            size += len(part)
        if group:
            yield group

    def _request(self, texts: list[str], key: str) -> NDArray[np.float32]:
        answer = self.post("embeddings", {"input": texts}, key=key)
        try:
            vectors = _vectors(answer.get("data"), len(texts))
            width = vectors.shape[1]
            with self._lock:
                self.dimensions = self.dimensions or width
            if width != self.dimensions:
                raise ValueError(f"vectors of {width} dimensions, after others of {self.dimensions}")
        except ValueError as error:
            remedy = f"check that {self.name!r} is an embedding model"
            raise Permanent(f"{self.dependency}: {self.address} answered {error}; {remedy}") from None
        return vectors


def _vectors(data: object, count: int) -> NDArray[np.float32]:
    """Return the vectors in the order of the texts; raise if they cannot be used."""
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        raise ValueError("no list of vectors")
    if len(data) != count:
        raise ValueError(f"{len(data)} vectors for {count} texts")
    order = [item.get("index", place) for place, item in enumerate(data)]
    if sorted(map(str, order)) != sorted(map(str, range(count))):
        raise ValueError(f"vectors with the indexes {str(order)[:80]} for {count} texts")
    by_index = dict(zip(order, data, strict=True))
    try:
        vectors = np.array([by_index[place]["embedding"] for place in range(count)], np.float32)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"vectors that are not rows of numbers ({type(error).__name__})") from None
    if vectors.ndim != 2 or vectors.shape[1] == 0:
        raise ValueError("empty vectors")
    if not np.isfinite(vectors).all():
        raise ValueError("vectors with numbers that are not finite")
    return vectors


def _parts(text: str, size: int) -> Iterator[str]:
    """Cut a text into parts of about `size` bytes, at a space if one is near; a blank text has none."""
    text = text.strip()
    while (longest := fitting_characters(text, size)) < len(text):
        cut = max(text.rfind(" ", longest // 2, longest), text.rfind("\n", longest // 2, longest))
        cut = cut if cut > 0 else longest
        yield text[:cut].rstrip()
        text = text[cut:].lstrip()
    if text:
        yield text


def _normalised(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths: NDArray[np.float32] = np.linalg.norm(rows, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    return rows / lengths
