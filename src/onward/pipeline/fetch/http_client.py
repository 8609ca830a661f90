"""The HTTP client: requests within limits, to public addresses only unless the settings allow others."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from email.message import Message
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from typing import BinaryIO, Self
from urllib.parse import unquote, urljoin, urlsplit

import httpcore2
import httpx2

from onward import OnwardError
from onward.pipeline.fetch.fetch_errors import EndlessRedirects, HTTPAnswerError, Refused, TooLarge, UnusableSource
from onward.pipeline.fetch.fetched_items import FetchLimits
from onward.pipeline.fetch.guarded_network import Deadline, GuardedTransport
from onward.pipeline.fetch.location import AddressGuard, canonical_url, is_url, shown
from onward.pipeline.read.mail_format import parameter, plain

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TRANSIENT_STATUSES = frozenset({408, 425, 429})
_CONDITIONS = frozenset({"if-none-match", "if-modified-since"})
_TIMER_SLACK_SECONDS = 0.05  # a timer may fire this much too early
_MAX_NAME_CHARACTERS = 255
_MAX_DISPOSITION_CHARACTERS = 4_000  # the library takes the square of it
RACY_SECONDS = 2.0  # a time of change has whole seconds
# The default of servers for unknown files.
_GENERIC_TYPES = ("application/octet-stream", "binary/octet-stream", "application/force-download")
ACCEPT = "text/html,application/xhtml+xml,text/*;q=0.9,application/pdf;q=0.9,*/*;q=0.8"

# At INFO the client logs each URL with its credentials, and the unescaped text of the server.
if (_client_log := logging.getLogger("httpx2")).level == logging.NOTSET:
    _client_log.setLevel(logging.WARNING)


@dataclass(frozen=True, slots=True)
class Response:
    """What a server answered to a request."""

    url: str  # after the redirects that were followed, without credentials
    status: int
    headers: Mapping[str, str]  # by name in lower case
    name: str = ""  # of the file
    media_type: str = ""  # with its charset; "" if the server does not know it
    redirect: str = ""  # the URL of a redirect that was not followed
    received: bool = False  # whether the body was written to the target

    @property
    def not_modified(self) -> bool:
        """Return whether the content is what the conditions of the request name."""
        return self.status == 304

    @property
    def etag(self) -> str:
        return self.headers.get("etag", "")

    @property
    def last_modified(self) -> str:
        """The time of the last change; "" if the content may change once more within the same second."""
        changed = self.headers.get("last-modified", "")
        try:
            sent = parsedate_to_datetime(self.headers["date"]).timestamp()
        except (KeyError, ValueError, TypeError):
            sent = time.time()
        try:
            settled = parsedate_to_datetime(changed).timestamp() + RACY_SECONDS <= sent
        except (ValueError, TypeError):
            return changed
        return changed if settled else ""


class HttpClient:
    """Sends requests within limits, over connections that are kept and that the guard allows.

    One thread uses it at a time. Cookies are kept from one request to the next.
    """

    def __init__(self, limits: FetchLimits, guard: AddressGuard) -> None:
        self._limits, self._deadline = limits, Deadline()
        transport = GuardedTransport(guard, self._deadline, environment_proxies=limits.environment_proxies)
        self._client = httpx2.Client(
            transport=transport,
            trust_env=False,
            headers={"User-Agent": user_agent(limits.contact), "Accept": ACCEPT},
            timeout=httpx2.Timeout(limits.connect_seconds),
        )
        self._requests = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def get(
        self,
        url: str,
        target: BinaryIO,
        *,
        headers: Mapping[str, str] | None = None,
        follow: Callable[[str], bool] = lambda url: True,
        wanted: Callable[[Response], bool] = lambda response: True,
        seconds: float | None = None,
    ) -> Response:
        """Write what is at a URL to a target; raise if the server refuses it.

        `headers` are sent with each request. A redirect to a URL that `follow` declines ends the transfer, and so
        does the head of a response that is not `wanted`. The transfer takes at most `seconds`.
        """
        seconds = self._limits.seconds if seconds is None else seconds
        self._deadline.start(seconds)
        conditional = any(name.lower() in _CONDITIONS for name in headers or ())
        seen: set[tuple[str, str]] = set()
        for _ in range(self._limits.max_redirects + 1):
            # A redirect to the same URL that sets a cookie is no loop.
            state = (url, str(sorted((cookie.name, cookie.value or "") for cookie in self._client.cookies.jar)))
            if state in seen:
                raise EndlessRedirects(
                    f"{shown(url)} redirects to itself in a circle: open it in a browser to see why"
                )
            seen.add(state)
            with _classified_errors(url, self._limits, seconds, self._deadline.at):
                answer = self._send(url, headers)
                try:
                    response = _head(url, answer)
                    if answer.status_code in _REDIRECTS and "location" in answer.headers:
                        redirect = _redirected(url, answer.headers["location"])
                        if not follow(redirect):
                            return replace(response, redirect=_without_credentials(redirect))
                        url = redirect
                        continue
                    if response.not_modified and conditional:
                        return response
                    _check_status(url, answer)
                    if not wanted(response):
                        return response
                    _receive(url, answer, target, self._limits)
                    return replace(response, received=True)
                finally:
                    answer.close()
        raise EndlessRedirects(
            f"more than {self._limits.max_redirects} redirects, the last to {shown(url)}: give the URL it ends at"
        )

    def _send(self, url: str, headers: Mapping[str, str] | None) -> httpx2.Response:
        request = self._client.build_request("GET", url, headers=headers)
        self._requests += 1
        try:
            return self._client.send(request, stream=True, follow_redirects=False)
        except (httpcore2.RemoteProtocolError, httpcore2.ReadError, httpcore2.WriteError):
            if self._requests == 1:
                raise
            # The server may have closed a kept connection just now; the pool opens another one.
            return self._client.send(request, stream=True, follow_redirects=False)


def user_agent(contact: str = "") -> str:
    """Return how Onward names itself to servers, with the operator's address."""
    name = f"onward/{version('onward')}"
    return f"{name} (+{contact})" if contact else name


def _head(url: str, answer: httpx2.Response) -> Response:
    media_type = answer.headers.get("content-type", "").strip()
    if media_type.lower().startswith(_GENERIC_TYPES):
        media_type = ""
    headers = {name.lower(): value for name, value in answer.headers.items()}
    return Response(_without_credentials(url), answer.status_code, headers, _name(url, answer), media_type)


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
    headers["content-disposition"] = response.headers.get("content-disposition", "")[:_MAX_DISPOSITION_CHARACTERS]
    given = plain(parameter(headers, "filename", "content-disposition"), limit=_MAX_NAME_CHARACTERS)
    names = (path.replace("\\", "/").rpartition("/")[2] for path in (given, unquote(urlsplit(url).path)))
    name = next(filter(None, names), "")
    # Some servers send "x.gz" as "x" with a content encoding, which is decoded by now.
    encodings = response.headers.get("content-encoding", "").lower().replace(" ", "").split(",")
    if "gzip" in encodings and name.lower().endswith(".gz"):
        name = name[:-3]
    return name


@contextmanager
def _classified_errors(url: str, limits: FetchLimits, seconds: float, deadline: float) -> Iterator[None]:
    """Turn the errors of the client into errors that name the URL and are classified correctly."""
    try:
        yield
    except OnwardError:
        raise
    except (httpcore2.TimeoutException, httpx2.TimeoutException) as error:
        if time.monotonic() < deadline - _TIMER_SLACK_SECONDS:
            raise TimeoutError(f"{shown(url)} did not answer within {limits.connect_seconds:g} s") from error
        raise TimeoutError(
            f"{shown(url)} did not answer completely within {seconds:g} s: "
            "raise ONWARD_FETCH_SECONDS if it needs longer"
        ) from error
    except (httpx2.InvalidURL, httpx2.RemoteProtocolError) as error:
        # The client parses the target of a redirect before this code does; it raises these for nothing else here.
        raise UnusableSource(
            f"{shown(url)} redirects to something that is no URL: only http:// and https:// URLs are fetched"
        ) from error
    except httpx2.DecodingError as error:
        raise ConnectionError(f"{shown(url)} sent data that cannot be decoded: {error}") from error
    except httpcore2.ProxyError as error:
        raise ConnectionError(f"the proxy does not lead to {shown(url)}: {error}") from error
    except (httpcore2.NetworkError, httpcore2.ProtocolError, httpx2.TransportError) as error:
        raise ConnectionError(
            f"{shown(url)} could not be fetched: {str(error) or type(error).__name__}"
        ) from error
