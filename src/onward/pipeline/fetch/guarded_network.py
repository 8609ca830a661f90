"""Network connections to allowed addresses only, with one deadline for a transfer, and through proxies if set."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.request import (  # type: ignore[attr-defined]  # one is missing in the types
    getproxies_environment,
    proxy_bypass_environment,
)

import httpcore2
import httpx2

from onward.pipeline.fetch.fetch_errors import UnusableProxy
from onward.pipeline.fetch.location import AddressGuard, shown


@dataclass(slots=True)
class Deadline:
    """When the current transfer has to be complete; each transfer of a client sets it again."""

    at: float = float("inf")

    def start(self, seconds: float) -> None:
        self.at = time.monotonic() + seconds

    def remaining(self, timeout: float | None) -> float:
        left = self.at - time.monotonic()
        if left <= 0:
            raise httpcore2.ReadTimeout("the time for the whole transfer is over")
        return left if timeout is None else min(timeout, left)


class GuardedTransport(httpx2.BaseTransport):
    """Sends requests over connections that the guard allows."""

    # Not httpx's transport with a private part replaced: if that was renamed, the guard would be lost silently.

    def __init__(self, guard: AddressGuard, deadline: Deadline, *, environment_proxies: bool = False) -> None:
        self._guard, self._deadline = guard, deadline
        self._proxies = getproxies_environment() if environment_proxies else {}
        self._direct = httpcore2.ConnectionPool(network_backend=_GuardedNetwork(guard, deadline))
        self._by_proxy: dict[str, httpcore2.ConnectionPool] = {}

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        target = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        headers, content, extensions = request.headers.raw, request.stream, request.extensions
        inner = httpcore2.Request(request.method, target, headers=headers, content=content, extensions=extensions)
        answer = self._pool(url).handle_request(inner)
        body = _Body(answer.iter_stream(), answer.close)
        return httpx2.Response(answer.status, headers=answer.headers, stream=body, extensions=answer.extensions)

    def close(self) -> None:
        for pool in (self._direct, *self._by_proxy.values()):
            pool.close()

    def _pool(self, url: httpx2.URL) -> httpcore2.ConnectionPool:
        """Return the pool for a URL: of its proxy, or of direct connections."""
        address = self._proxies.get(url.scheme) or self._proxies.get("all", "")
        host = f"{url.host}:{url.port}" if url.port else url.host
        if not address or proxy_bypass_environment(host, self._proxies):
            return self._direct
        # The proxy connects, so its own look-up decides. A name that only the proxy knows cannot be checked here.
        with suppress(ConnectionError):
            self._guard.addresses(url.host, url.port or (443 if url.scheme == "https" else 80))
        if address not in self._by_proxy:
            proxy = _proxy(address, url.scheme)
            # The address of the proxy was chosen by the operator: it may be private.
            network = _GuardedNetwork(AddressGuard(allow_private=True), self._deadline)
            self._by_proxy[address] = httpcore2.ConnectionPool(proxy=proxy, network_backend=network)
        return self._by_proxy[address]


def _proxy(address: str, scheme: str) -> httpcore2.Proxy:
    variable = f"{scheme.upper()}_PROXY or ALL_PROXY"
    try:
        parsed = httpx2.Proxy(address if "://" in address else f"http://{address}")
        if parsed.url.scheme not in ("http", "https") or not parsed.url.host:
            raise ValueError(f"the scheme {parsed.url.scheme!r} is not supported")
    except (httpx2.InvalidURL, ValueError) as error:
        raise UnusableProxy(
            f"the proxy {shown(address)!r} of {variable} cannot be used ({error}): give http://HOST:PORT or "
            "https://HOST:PORT, or set ONWARD_FETCH_PROXY=none"
        ) from None
    return httpcore2.Proxy(str(parsed.url), auth=parsed.raw_auth, headers=parsed.headers.raw)


class _Body(httpx2.SyncByteStream):
    def __init__(self, stream: Iterable[bytes], close: Callable[[], None]) -> None:
        self._stream, self._close = stream, close

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._stream)

    def close(self) -> None:
        self._close()


class _GuardedNetwork(httpcore2.NetworkBackend):
    """Connects only to the addresses that the guard returns for a host."""

    def __init__(self, guard: AddressGuard, deadline: Deadline) -> None:
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
            remaining = self._deadline.remaining(timeout)
            stream = self._network.connect_tcp(address, port, remaining, local_address, socket_options)
            return _TimedStream(stream, self._deadline)

        *others, last = self._guard.addresses(host, port)
        for address in others:
            with suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                return connect(address)
        return connect(last)


class _TimedStream(httpcore2.NetworkStream):
    """A connection that keeps to the deadline: a byte a minute would reset the other timeouts."""

    def __init__(self, stream: httpcore2.NetworkStream, deadline: Deadline) -> None:
        self._stream, self._deadline = stream, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._deadline.remaining(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.remaining(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        remaining = self._deadline.remaining(timeout)
        return _TimedStream(self._stream.start_tls(ssl_context, server_hostname, remaining), self._deadline)

    def get_extra_info(self, info: str) -> Any:  # Any is the type in the library
        return self._stream.get_extra_info(info)
