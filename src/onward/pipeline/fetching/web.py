"""URLs as sources: fetched to a file, within limits, and never from a private network by accident."""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from functools import partial
from importlib.metadata import version
from typing import Any, BinaryIO
from urllib.parse import unquote, urljoin, urlsplit

import httpcore2
import httpx2

from onward import OnwardError
from onward.pipeline.fetching.addresses import Guard
from onward.pipeline.fetching.errors import EndlessRedirects, HTTPAnswerError, Refused, TooLarge, UnusableSource
from onward.pipeline.fetching.items import Limits
from onward.pipeline.fetching.location import canonical_url, is_url, shown

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PASSING = frozenset({408, 425, 429})
_TIMER_SLACK = 0.05
"""A timer may go off so much before its time."""
_ACCEPT = "text/html,application/xhtml+xml,text/*;q=0.9,application/pdf;q=0.9,*/*;q=0.8"

# At INFO the client logs each URL with its password and token, and what the server wrote as it is.
if (_client_log := logging.getLogger("httpx2")).level == logging.NOTSET:
    _client_log.setLevel(logging.WARNING)


@dataclass(frozen=True, slots=True)
class Download:
    """What a server gave us, beside the bytes."""

    url: str
    """Where it was in the end, without credentials."""
    name: str
    media_type: str


def download(url: str, target: BinaryIO, limits: Limits, guard: Guard) -> Download:
    """Fetch a URL into a file, following redirects; raise what says whether to try again."""
    deadline = time.monotonic() + limits.seconds
    transport = _Transport(guard, deadline)
    headers = {"User-Agent": f"onward/{version('onward')}", "Accept": _ACCEPT}
    timeout = httpx2.Timeout(limits.connect_seconds)
    with httpx2.Client(transport=transport, trust_env=False, headers=headers, timeout=timeout) as client:
        seen: set[tuple[str, str]] = set()
        for _ in range(limits.max_redirects + 1):
            # A server that sets a cookie and sends us to the same place does not go in circles.
            state = (url, str(sorted((cookie.name, cookie.value or "") for cookie in client.cookies.jar)))
            if state in seen:
                raise EndlessRedirects(
                    f"{shown(url)} redirects to itself in a circle: open it in a browser to see why"
                )
            seen.add(state)
            with _telling(url, limits, deadline), client.stream("GET", url, follow_redirects=False) as response:
                if response.status_code in _REDIRECTS and "location" in response.headers:
                    url = _redirected(url, response.headers["location"])
                    continue
                _check_status(url, response)
                _receive(url, response, target, limits)
                return Download(_without_credentials(url), _name(url, response), _media_type(response))
    raise EndlessRedirects(
        f"more than {limits.max_redirects} redirects, the last to {shown(url)}: give the URL it ends at"
    )


def _receive(url: str, response: httpx2.Response, target: BinaryIO, limits: Limits) -> None:
    claimed = response.headers.get("content-length", "")
    if claimed.isdecimal() and int(claimed) > limits.max_bytes:
        raise _too_large(url, limits)
    decoded = 0
    for data in response.iter_bytes():
        decoded += len(data)
        if decoded > limits.max_bytes or response.num_bytes_downloaded > limits.max_bytes:
            raise _too_large(url, limits)
        target.write(data)


def _too_large(url: str, limits: Limits) -> TooLarge:
    return TooLarge(
        f"{shown(url)} is larger than {limits.max_bytes:,} bytes: fetch it yourself and ingest the file, "
        "or raise ONWARD_FETCH_MAX_BYTES"
    )


def _check_status(url: str, response: httpx2.Response) -> None:
    status = response.status_code
    if 200 <= status < 300:
        return
    # The phrase is the server's to choose: nothing of it may drive a terminal that shows the error or the log.
    phrase = "".join(one for one in response.reason_phrase if one.isprintable())
    told = f"{shown(url)} answered {status} {phrase}".rstrip()
    if status in _PASSING or status >= 500:
        raise HTTPAnswerError(f"{told}: the server cannot answer now", status, response.headers.get("retry-after"))
    if status in (401, 403, 407):
        remedy = "it is not open to everyone; fetch it yourself and ingest the file, or put credentials in the URL"
    elif status in (404, 410):
        remedy = "there is nothing there; check the URL"
    else:
        remedy = "open it in a browser to see why"
    raise Refused(f"{told}: {remedy}", status)


def _redirected(url: str, location: str) -> str:
    """Give the URL to go on with; credentials go with it only where they were meant to be sent."""
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


def _media_type(response: httpx2.Response) -> str:
    media_type: str = response.headers.get("content-type", "").strip()
    # Servers say so of whatever they do not know.
    generic = ("application/octet-stream", "binary/octet-stream", "application/force-download")
    return "" if media_type.lower().startswith(generic) else media_type


def _name(url: str, response: httpx2.Response) -> str:
    """Give the name of the file, as the server or else the URL calls it."""
    headers = Message()
    headers["content-disposition"] = response.headers.get("content-disposition", "")
    name = headers.get_filename() or unquote(urlsplit(url).path)
    name = name.replace("\\", "/").rpartition("/")[2]
    # Some servers send "x.gz" as "x" in a content encoding, which is undone by now.
    encodings = response.headers.get("content-encoding", "").lower().replace(" ", "").split(",")
    if "gzip" in encodings and name.lower().endswith(".gz"):
        name = name[:-3]
    return name


@contextmanager
def _telling(url: str, limits: Limits, deadline: float) -> Iterator[None]:
    """Turn the client's errors into ones that name the URL and are classified for what they are."""
    try:
        yield
    except OnwardError:
        raise
    except (httpcore2.TimeoutException, httpx2.TimeoutException) as error:
        if time.monotonic() < deadline - _TIMER_SLACK:
            raise TimeoutError(f"{shown(url)} did not answer within {limits.connect_seconds:g} s") from error
        raise TimeoutError(
            f"{shown(url)} did not answer completely within {limits.seconds:g} s: "
            "raise ONWARD_FETCH_SECONDS if it needs longer"
        ) from error
    except (httpx2.InvalidURL, httpx2.RemoteProtocolError) as error:
        # The client looks at where a redirect leads before we can; of its own it complains of nothing else.
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
    """The body of an answer, as httpx wants it."""

    def __init__(self, stream: Iterable[bytes], close: Callable[[], None]) -> None:
        self._stream, self._close = stream, close

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._stream)

    def close(self) -> None:
        self._close()


class _Transport(httpx2.BaseTransport):
    """Sends requests over connections that the guard allows.

    Of its own, not httpx's with a part replaced: should that part be called otherwise one day, the guard would
    be gone without anyone noticing.
    """

    def __init__(self, guard: Guard, deadline: float) -> None:
        self._pool = httpcore2.ConnectionPool(network_backend=_GuardedNetwork(guard, deadline))

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request, and give the answer as soon as its head is there."""
        url = request.url
        answer = self._pool.handle_request(
            httpcore2.Request(
                method=request.method,
                url=httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        body = _Body(answer.iter_stream(), answer.close)
        return httpx2.Response(answer.status, headers=answer.headers, stream=body, extensions=answer.extensions)

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()


class _GuardedNetwork(httpcore2.NetworkBackend):
    """Connects to the addresses that the guard gives for a host, and to nothing else."""

    def __init__(self, guard: Guard, deadline: float) -> None:
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
        """Try the allowed addresses of a host one after the other."""
        *others, last = self._guard.addresses(host, port)
        connect = partial(
            self._network.connect_tcp, port=port, local_address=local_address, socket_options=socket_options
        )
        for address in others:
            try:
                return self._timed(connect(address, timeout=_remaining(self._deadline, timeout)))
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return self._timed(connect(last, timeout=_remaining(self._deadline, timeout)))

    def _timed(self, stream: httpcore2.NetworkStream) -> httpcore2.NetworkStream:
        return _TimedStream(stream, self._deadline)


class _TimedStream(httpcore2.NetworkStream):
    """A connection that ends at its deadline, however alive it seems: a byte a minute resets other timeouts."""

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

    def get_extra_info(self, info: str) -> Any:  # Any is what the library says
        return self._stream.get_extra_info(info)


def _remaining(deadline: float, timeout: float | None) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise httpcore2.ReadTimeout("the time for the whole transfer is over")
    return left if timeout is None else min(timeout, left)
