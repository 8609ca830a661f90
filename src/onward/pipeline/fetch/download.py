"""Download a URL to a file, within limits, and from public addresses only unless the settings allow others."""

from __future__ import annotations

import itertools
import logging
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from email.message import Message
from importlib.metadata import version
from typing import Any, BinaryIO
from urllib.parse import unquote, urljoin, urlsplit

import httpcore2
import httpx2

from onward import OnwardError
from onward.pipeline.fetch.fetch_errors import EndlessRedirects, HTTPAnswerError, Refused, TooLarge, UnusableSource
from onward.pipeline.fetch.fetched_items import FetchLimits
from onward.pipeline.fetch.location import AddressGuard, canonical_url, is_url, shown
from onward.pipeline.read.mail_format import parameter, plain

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TRANSIENT_STATUSES = frozenset({408, 425, 429})
_TIMER_SLACK_SECONDS = 0.05  # a timer may fire this much too early
_MAX_NAME_CHARACTERS = 255
# The default of servers for unknown files.
_GENERIC_TYPES = ("application/octet-stream", "binary/octet-stream", "application/force-download")
_ACCEPT = "text/html,application/xhtml+xml,text/*;q=0.9,application/pdf;q=0.9,*/*;q=0.8"

# At INFO the client logs each URL with its credentials, and the unescaped text of the server.
if (_client_log := logging.getLogger("httpx2")).level == logging.NOTSET:
    _client_log.setLevel(logging.WARNING)


def download(url: str, target: BinaryIO, limits: FetchLimits, guard: AddressGuard) -> tuple[str, str, str]:
    """Download a URL; return the last URL without credentials, the name of the file and its media type."""
    deadline = time.monotonic() + limits.seconds
    transport = _Transport(guard, deadline)
    headers = {"User-Agent": f"onward/{version('onward')}", "Accept": _ACCEPT}
    timeout = httpx2.Timeout(limits.connect_seconds)
    with httpx2.Client(transport=transport, trust_env=False, headers=headers, timeout=timeout) as client:
        seen: set[tuple[str, str]] = set()
        for _ in range(limits.max_redirects + 1):
            # A redirect to the same URL that sets a cookie is no loop.
            state = (url, str(sorted((cookie.name, cookie.value or "") for cookie in client.cookies.jar)))
            if state in seen:
                raise EndlessRedirects(
                    f"{shown(url)} redirects to itself in a circle: open it in a browser to see why"
                )
            seen.add(state)
            errors = _classified_errors(url, limits, deadline)
            with errors, client.stream("GET", url, follow_redirects=False) as response:
                if response.status_code in _REDIRECTS and "location" in response.headers:
                    url = _redirected(url, response.headers["location"])
                    continue
                _check_status(url, response)
                _receive(url, response, target, limits)
                media_type = response.headers.get("content-type", "").strip()
                if media_type.lower().startswith(_GENERIC_TYPES):
                    media_type = ""
                return _without_credentials(url), _name(url, response), media_type
    raise EndlessRedirects(
        f"more than {limits.max_redirects} redirects, the last to {shown(url)}: give the URL it ends at"
    )


def _receive(url: str, response: httpx2.Response, target: BinaryIO, limits: FetchLimits) -> None:
    claimed = response.headers.get("content-length", "")
    size = int(claimed) if claimed.isdecimal() else 0
    decoded = 0
    for data in itertools.chain([b""], response.iter_bytes()):
        decoded += len(data)
        if max(size, decoded, response.num_bytes_downloaded) > limits.max_bytes:
            raise TooLarge(
                f"{shown(url)} is larger than {limits.max_bytes:,} bytes: fetch it yourself and ingest the file, "
                "or raise ONWARD_FETCH_MAX_BYTES"
            )
        target.write(data)


def _check_status(url: str, response: httpx2.Response) -> None:
    status = response.status_code
    if 200 <= status < 300:
        return
    # The server chooses the phrase: control characters in it must not reach a terminal.
    phrase = "".join(filter(str.isprintable, response.reason_phrase))
    answer = f"{shown(url)} answered {status} {phrase}".rstrip()
    if status in _TRANSIENT_STATUSES or status >= 500:
        retry_after = response.headers.get("retry-after")
        raise HTTPAnswerError(f"{answer}: the server cannot answer now", status, retry_after)
    if status in (401, 403, 407):
        remedy = "it is not open to everyone; fetch it yourself and ingest the file, or put credentials in the URL"
    elif status in (404, 410):
        remedy = "there is nothing there; check the URL"
    else:
        remedy = "open it in a browser to see why"
    raise Refused(f"{answer}: {remedy}", status)


def _redirected(url: str, location: str) -> str:
    """Return the URL of a redirect; credentials are kept only for the same scheme, host and port."""
    joined = urljoin(_without_credentials(url), location.strip())
    if not is_url(joined.lower()):
        raise UnusableSource(
            f"{shown(url)} redirects to {shown(joined)!r}, and only http:// and https:// URLs are fetched"
        )
    new = httpx2.URL(_without_credentials(canonical_url(joined)))
    old = httpx2.URL(url)
    if (old.scheme, old.host, old.port) == (new.scheme, new.host, new.port) and old.userinfo:
        new = new.copy_with(username=old.username, password=old.password)
    return str(new)


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _name(url: str, response: httpx2.Response) -> str:
    headers = Message()
    headers["content-disposition"] = response.headers.get("content-disposition", "")
    given = plain(parameter(headers, "filename", "content-disposition"), limit=_MAX_NAME_CHARACTERS)
    names = (path.replace("\\", "/").rpartition("/")[2] for path in (given, unquote(urlsplit(url).path)))
    name = next(filter(None, names), "")
    # Some servers send "x.gz" as "x" with a content encoding, which is decoded by now.
    encodings = response.headers.get("content-encoding", "").lower().replace(" ", "").split(",")
    if "gzip" in encodings and name.lower().endswith(".gz"):
        name = name[:-3]
    return name


@contextmanager
def _classified_errors(url: str, limits: FetchLimits, deadline: float) -> Iterator[None]:
    """Turn the errors of the client into errors that name the URL and are classified correctly."""
    try:
        yield
    except OnwardError:
        raise
    except (httpcore2.TimeoutException, httpx2.TimeoutException) as error:
        if time.monotonic() < deadline - _TIMER_SLACK_SECONDS:
            raise TimeoutError(f"{shown(url)} did not answer within {limits.connect_seconds:g} s") from error
        raise TimeoutError(
            f"{shown(url)} did not answer completely within {limits.seconds:g} s: "
            "raise ONWARD_FETCH_SECONDS if it needs longer"
        ) from error
    except (httpx2.InvalidURL, httpx2.RemoteProtocolError) as error:
        # The client parses the target of a redirect before this code does; it raises these for nothing else here.
        raise UnusableSource(
            f"{shown(url)} redirects to something that is no URL: only http:// and https:// URLs are fetched"
        ) from error
    except httpx2.DecodingError as error:
        raise ConnectionError(f"{shown(url)} sent data that cannot be decoded: {error}") from error
    except (httpcore2.NetworkError, httpcore2.ProtocolError, httpx2.TransportError) as error:
        raise ConnectionError(
            f"{shown(url)} could not be fetched: {str(error) or type(error).__name__}"
        ) from error


class _Body(httpx2.SyncByteStream):
    def __init__(self, stream: Iterable[bytes], close: Callable[[], None]) -> None:
        self._stream, self._close = stream, close

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._stream)

    def close(self) -> None:
        self._close()


class _Transport(httpx2.BaseTransport):
    """Sends requests over connections that the guard allows."""

    # Not httpx's transport with a private part replaced: if that was renamed, the guard would be lost silently.

    def __init__(self, guard: AddressGuard, deadline: float) -> None:
        self._pool = httpcore2.ConnectionPool(network_backend=_GuardedNetwork(guard, deadline))

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        target = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        headers, content, extensions = request.headers.raw, request.stream, request.extensions
        inner = httpcore2.Request(request.method, target, headers=headers, content=content, extensions=extensions)
        answer = self._pool.handle_request(inner)
        body = _Body(answer.iter_stream(), answer.close)
        return httpx2.Response(answer.status, headers=answer.headers, stream=body, extensions=answer.extensions)

    def close(self) -> None:
        self._pool.close()


class _GuardedNetwork(httpcore2.NetworkBackend):
    """Connects only to the addresses that the guard returns for a host."""

    def __init__(self, guard: AddressGuard, deadline: float) -> None:
        self._guard, self._deadline = guard, deadline
        self._network = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:

        def connect(address: str) -> httpcore2.NetworkStream:
            remaining = _remaining(self._deadline, timeout)
            stream = self._network.connect_tcp(address, port, remaining, local_address, socket_options)
            return _TimedStream(stream, self._deadline)

        *others, last = self._guard.addresses(host, port)
        for address in others:
            with suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                return connect(address)
        return connect(last)


class _TimedStream(httpcore2.NetworkStream):
    """A connection that ends at its deadline: a byte a minute would reset the other timeouts."""

    def __init__(self, stream: httpcore2.NetworkStream, deadline: float) -> None:
        self._stream, self._deadline = stream, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _remaining(self._deadline, timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _remaining(self._deadline, timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        timeout = _remaining(self._deadline, timeout)
        return _TimedStream(self._stream.start_tls(ssl_context, server_hostname, timeout), self._deadline)

    def get_extra_info(self, info: str) -> Any:  # Any is the type in the library
        return self._stream.get_extra_info(info)


def _remaining(deadline: float, timeout: float | None) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise httpcore2.ReadTimeout("the time for the whole transfer is over")
    return left if timeout is None else min(timeout, left)
