"""Any server that speaks OpenAI's embeddings: OpenAI itself, Ollama, vLLM and many more."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx2
import numpy as np
from numpy.typing import NDArray

from onward.retry import OnwardError, Permanent, Unavailable, redact

BYTES_A_TOKEN = 3
"""How long a token is taken to be where the tokenizer is not known: 3 letters, or a single sign of Chinese."""
LONGEST_ERROR = 500
_BATCH_CHARACTERS = 96_000
_HEALTH_TIMEOUT = 5.0
# Nothing about a document causes these; each would come back for every one, until a person acts.
_FOR_A_PERSON = {
    402: "the account has no credit; see to it where the key comes from",
    404: "the address or the name of the model is wrong, or the model is not loaded there",
    405: "the address is wrong; it usually ends in /v1",
}

# It would log every URL it calls, with whatever secrets that holds.
if (_client_log := logging.getLogger("httpx2")).level == logging.NOTSET:
    _client_log.setLevel(logging.WARNING)


class ModelHTTPError(OnwardError):
    """A model's server answered with an error; `status_code` and `headers` tell what may be done."""

    def __init__(self, message: str, status_code: int, headers: Mapping[str, str]) -> None:
        super().__init__(message, status_code, headers)
        self.status_code = status_code
        self.headers = headers

    def __str__(self) -> str:
        return str(self.args[0])


class ModelAnswerError(OnwardError):
    """A model's server answered with something that cannot be used; the next answer may be better."""


class Endpoint:
    """One server: a pool of connections, a limit of calls at a time, and errors that say whose they are."""

    def __init__(
        self,
        url: str,
        *,
        dependency: str,
        key: str | None = None,
        concurrency: int = 4,
        connect_timeout: float = 10.0,
        read_timeout: float = 60.0,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{redact(url)!r} is no address of a model; give one like http://localhost:11434/v1")
        if key is not None and not (key.isascii() and key.isprintable()):
            raise ValueError(f"the key of the {dependency} holds characters no key has; was it copied whole?")
        self.dependency = dependency
        self.address = redact(url.rstrip("/"))
        self._key = key
        self._slots = threading.BoundedSemaphore(concurrency)
        self._client = httpx2.Client(
            base_url=url.rstrip("/") + "/",
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx2.Timeout(read_timeout, connect=connect_timeout),
            limits=httpx2.Limits(max_connections=concurrency + 1, max_keepalive_connections=concurrency),
        )

    def __repr__(self) -> str:
        return f"Endpoint({self.address!r})"

    # Any: what a stranger's JSON holds is found out where it is used.
    def post(self, path: str, body: Mapping[str, object], *, key: str = "") -> dict[str, Any]:
        """Send a request and give back the object it is answered with."""
        headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": _header_value(key)} if key else {})
        # A lone surrogate cannot be sent; that must not stop the rest.
        content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        with self._slots:
            try:
                response = self._client.post(path, content=content, headers=headers)
            except httpx2.TransportError as error:
                raise self._unavailable(f"{self.address} cannot be used: {self._describe(error)}") from None
            except httpx2.DecodingError as error:
                raise self._unavailable(f"{self.address} answered bytes that cannot be read: {error}") from None
        if response.status_code != 200:
            raise self._refused(response)
        try:
            answer = json.loads(response.content)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise self._unavailable(f"{self.address} did not answer with JSON, but: {self._text(response)}")
        return answer

    def healthy(self) -> bool:
        """Ask quickly whether the server answers; raises with the reason where it does not."""
        try:
            response = self._client.get("models", timeout=_HEALTH_TIMEOUT)
        except httpx2.HTTPError as error:
            raise self._unavailable(f"{self.address} cannot be used: {self._describe(error)}") from None
        # Not every server lists its models; one that says so is up.
        if response.status_code >= 500 or response.status_code in (401, 403):
            raise self._refused(response)
        return True

    def close(self) -> None:
        self._client.close()

    def _unavailable(self, message: str) -> Unavailable:
        return Unavailable(self.dependency, message)

    def _refused(self, response: httpx2.Response) -> OnwardError:
        status = response.status_code
        message = f"{self.dependency}: {self.address} answered {status}: {self._text(response)}"
        remedy = _FOR_A_PERSON.get(status)
        if 300 <= status < 400:
            remedy = f"it sends us to {redact(response.headers.get('location', '?'))}; use the right address"
        if remedy is not None:
            return Unavailable(self.dependency, message, opens=True, remedy=remedy)
        kept = {"Retry-After": value} if (value := response.headers.get("retry-after")) else {}
        return ModelHTTPError(message, status, kept)

    def _text(self, response: httpx2.Response) -> str:
        """What the server itself says is wrong, short and without secrets."""
        text = response.text[: 20 * LONGEST_ERROR]
        try:
            said = json.loads(response.content)
            said = said.get("error", said) if isinstance(said, dict) else said
            said = said.get("message", said) if isinstance(said, dict) else said
            text = said if isinstance(said, str) else json.dumps(said)
        except (ValueError, RecursionError):
            pass
        text = self._hide(" ".join(text.split())) or "(nothing)"
        return text if len(text) <= LONGEST_ERROR else text[: LONGEST_ERROR - 1] + "…"

    def _describe(self, error: Exception) -> str:
        return self._hide(f"{type(error).__name__}: {error}")[:LONGEST_ERROR]

    def _hide(self, text: str) -> str:
        return redact(text.replace(self._key, "***") if self._key else text)


class HTTPEmbedder:
    """Embeds texts by calling a server; what is too long for its model is embedded in parts."""

    remote = True

    def __init__(
        self,
        url: str,
        name: str,
        *,
        key: str | None = None,
        dependency: str = "embedder",
        batch: int = 64,
        max_tokens: int = 2048,
        concurrency: int = 4,
        connect_timeout: float = 10.0,
        read_timeout: float = 60.0,
    ) -> None:
        self.model = f"http:{name}"
        self.dimensions: int | None = None
        self.max_tokens = max_tokens
        self.batch = batch
        self._name = name
        self._lock = threading.Lock()
        self._endpoint = Endpoint(
            url,
            dependency=dependency,
            key=key,
            concurrency=concurrency,
            connect_timeout=connect_timeout,
            read_timeout=read_timeout,
        )

    def __repr__(self) -> str:
        return f"HTTPEmbedder({self._endpoint.address!r}, {self._name!r})"

    def embed(self, texts: Sequence[str], *, key: str = "") -> NDArray[np.float32]:
        parts: list[str] = []
        owners: list[int] = []
        for number, text in enumerate(texts):
            for part in _parts(text, self.max_tokens * BYTES_A_TOKEN):
                parts.append(part)
                owners.append(number)
        if texts and not parts and self.dimensions is None:
            self._request(["."], key)  # nothing to embed, but how long is a vector of it?
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

    def healthy(self) -> bool:
        return self._endpoint.healthy()

    def close(self) -> None:
        self._endpoint.close()

    def _requests(self, parts: list[str]) -> Iterator[list[str]]:
        """Put into each request as many texts as it should carry, and no more characters than it should."""
        group: list[str] = []
        size = 0
        for part in parts:
            if group and (len(group) >= self.batch or size + len(part) > _BATCH_CHARACTERS):
                yield group
                group, size = [], 0
            group.append(part)
            size += len(part)
        if group:
            yield group

    def _request(self, texts: list[str], key: str) -> NDArray[np.float32]:
        answer = self._endpoint.post("embeddings", {"model": self._name, "input": texts}, key=key)
        vectors = self._checked(answer.get("data"), len(texts))
        with self._lock:
            if self.dimensions is None:
                self.dimensions = vectors.shape[1]
        if vectors.shape[1] != self.dimensions:
            raise self._wrong(f"vectors of {vectors.shape[1]} dimensions, after others of {self.dimensions}")
        return vectors

    def _checked(self, data: object, count: int) -> NDArray[np.float32]:
        """Put the vectors into the order of the texts, or say what is wrong with them."""
        if not isinstance(data, list) or not all(isinstance(one, dict) for one in data):
            raise self._wrong("no list of vectors")
        if len(data) != count:
            raise self._wrong(f"{len(data)} vectors for {count} texts")
        order = [one.get("index", place) for place, one in enumerate(data)]
        if sorted(map(str, order)) != sorted(map(str, range(count))):
            raise self._wrong(f"vectors with the indexes {str(order)[:80]} for {count} texts")
        by_index = dict(zip(order, data, strict=True))
        try:
            vectors = np.array([by_index[place]["embedding"] for place in range(count)], np.float32)
        except (KeyError, TypeError, ValueError) as error:
            raise self._wrong(f"vectors that are not rows of numbers ({type(error).__name__})") from None
        if vectors.ndim != 2 or vectors.shape[1] == 0:
            raise self._wrong("empty vectors")
        if not np.isfinite(vectors).all():
            raise self._wrong("vectors with numbers that are not finite")
        return vectors

    def _wrong(self, what: str) -> Permanent:
        return Permanent(
            f"{self._endpoint.dependency}: {self._endpoint.address} answered {what}; "
            f"check that {self._name!r} is an embedding model"
        )


def head(text: str, size: int) -> int:
    """Tell how many characters of a text fit into so many bytes, about."""
    first = text[:size]
    used = len(first.encode("utf-8", "replace"))
    return len(first) if used <= size else max(1, len(first) * size // used)


def _parts(text: str, size: int) -> Iterator[str]:
    """Cut what is too long at a space, if there is one near; of a blank text nothing is left."""
    text = text.strip()
    while (longest := head(text, size)) < len(text):
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


def _header_value(key: str) -> str:
    plain = key.isascii() and key.isprintable() and len(key) <= 200
    return key if plain else hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
