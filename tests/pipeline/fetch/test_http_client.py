"""The HTTP client: conditional requests, kept connections, redirects and bodies that are not wanted, proxies."""

from __future__ import annotations

import io
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from onward.pipeline.fetch import AddressGuard, FetchLimits
from onward.pipeline.fetch.fetch_errors import PrivateAddress, UnusableProxy
from onward.pipeline.fetch.http_client import HttpClient
from tests.pipeline.fetch.public import GUARD, PAGE
from tests.support.web_server import Handler, Site, serve


@pytest.fixture
def client() -> Iterator[HttpClient]:
    with HttpClient(FetchLimits(), GUARD) as client:
        yield client


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A server that the environment names as the proxy."""
    for name in ("no_proxy", "NO_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serve() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url("", "127.0.0.1"))
        yield proxy


def _conditional(handler: Handler) -> None:
    if handler.headers.get("If-None-Match") == '"1"':
        handler.give(b"", 304, ETag='"1"')
    else:
        handler.give(PAGE, ETag='"1"', Last_Modified="Mon, 05 Jan 2026 10:00:00 GMT")


def test_what_did_not_change_is_not_sent_again(site: Site, client: HttpClient) -> None:
    site.answers["/"] = _conditional
    first = client.get(site.url("/"), first_body := io.BytesIO())
    assert (first.etag, first.last_modified) == ('"1"', "Mon, 05 Jan 2026 10:00:00 GMT")
    assert (first_body.getvalue(), first.received, first.not_modified) == (PAGE, True, False)
    again = client.get(site.url("/"), body := io.BytesIO(), headers={"If-None-Match": first.etag})
    assert (body.getvalue(), again.received, again.not_modified) == (b"", False, True)


def test_a_connection_serves_many_requests(site: Site, client: HttpClient) -> None:
    ports = []

    def answer(handler: Handler) -> None:
        handler.protocol_version = "HTTP/1.1"
        ports.append(handler.client_address[1])
        handler.give(PAGE, Connection="keep-alive")

    site.answers["/"] = answer
    for _ in range(3):
        assert client.get(site.url("/"), io.BytesIO()).received
    assert len(ports) == 3
    assert len(set(ports)) == 1


def test_a_kept_connection_that_the_server_closed_is_opened_again(client: HttpClient) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def run() -> None:
            head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
            first, _ = server.accept()
            first.recv(10_000)
            first.sendall(head)
            first.recv(10_000)  # the second request arrives on the kept connection, and is not answered
            first.close()
            with suppress(OSError):
                second, _ = server.accept()
                second.recv(10_000)
                second.sendall(head)
                second.close()

        thread = threading.Thread(target=run)
        thread.start()
        url = f"http://site.example:{server.getsockname()[1]}/"
        try:
            for _ in range(2):
                client.get(url, body := io.BytesIO())
                assert body.getvalue() == b"ok"
        finally:
            server.shutdown(socket.SHUT_RDWR)  # ends a thread that still waits for a connection
            thread.join()


def test_a_redirect_can_be_declined(site: Site, client: HttpClient) -> None:
    site.redirect("/a", "/b?x=1#part")
    response = client.get(site.url("/a"), io.BytesIO(), follow=lambda url: False)
    assert (response.status, response.redirect) == (302, site.url("/b?x=1"))
    assert [path for _, path, _ in site.requests] == ["/a"]


def test_a_body_that_is_not_wanted_is_not_received(site: Site, client: HttpClient) -> None:
    def endless(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "video/mp4")
        handler.end_headers()
        while not site.over.is_set():
            handler.wfile.write(b"x" * 100_000)

    site.answers["/"] = endless
    response = client.get(
        site.url("/"), body := io.BytesIO(), wanted=lambda response: not response.media_type.startswith("video/")
    )
    assert (response.received, response.media_type, body.getvalue()) == (False, "video/mp4", b"")


def test_the_operator_can_be_reached(site: Site) -> None:
    site.page("/", PAGE)
    with HttpClient(FetchLimits(contact="https://example.org/bot"), GUARD) as client:
        client.get(site.url("/"), io.BytesIO(), headers={"Accept": "text/plain"})
    headers = site.requests[0][2]
    assert headers["User-Agent"].startswith("onward/")
    assert headers["User-Agent"].endswith(" (+https://example.org/bot)")
    assert headers["Accept"] == "text/plain"


PROXIED = FetchLimits(environment_proxies=True)


def _through_proxy(url: str, guard: AddressGuard = GUARD) -> bytes:
    with HttpClient(PROXIED, guard) as client:
        client.get(url, body := io.BytesIO())
    return body.getvalue()


def test_a_proxy_of_the_environment_is_used_if_allowed(proxy: Site) -> None:
    proxy.page("http://site.example/x", b"through the proxy")  # a proxy is asked for the whole URL
    assert _through_proxy("http://site.example/x") == b"through the proxy"


def test_a_host_without_proxy_is_reached_directly(
    site: Site, proxy: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.page("/", PAGE)
    monkeypatch.setenv("no_proxy", "other.example,site.example")
    assert _through_proxy(site.url("/")) == PAGE
    assert proxy.requests == []


@pytest.mark.parametrize("host", ("10.0.0.1", "169.254.169.254", "[::1]", "intranet.example"))
def test_a_proxy_is_not_asked_for_a_private_address(proxy: Site, host: str) -> None:
    with pytest.raises(PrivateAddress):
        _through_proxy(f"http://{host}/")
    assert proxy.requests == []


def test_a_name_that_only_the_proxy_knows_is_left_to_it(proxy: Site) -> None:
    def resolve(host: str, port: int) -> list[str]:
        if host == "127.0.0.1":
            return [host]
        raise ConnectionError(f"the host {host!r} is not found")

    proxy.page("http://far.example/", PAGE)
    assert _through_proxy("http://far.example/", AddressGuard(resolve=resolve)) == PAGE


def test_a_proxy_that_cannot_be_used_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "socks5://me:secret@proxy.example:1080")
    with pytest.raises(UnusableProxy, match=r"proxy\.example.*HTTP_PROXY.*give http://HOST:PORT") as caught:
        _through_proxy("http://site.example/")
    assert "secret" not in str(caught.value)
