"""Who gets in, what they may send, and what every answer carries."""

from __future__ import annotations

import hashlib
import hmac
import re
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest
from fastapi.routing import APIRoute
from starlette.requests import HTTPConnection

from onward.console import live, middleware, server, sessions
from onward.console.action_forms import FORMS
from onward.console.live import Live
from onward.console.middleware import HEADERS, RateLimiter, client_name, host_name
from onward.console.pages import ROUTERS
from onward.console.pages.login import own_path
from onward.console.server import CannotServe, serve
from onward.console.sessions import Sessions, cookie_name
from onward.observe.logs import log_formatter
from tests.console.inspecting import harm_in
from tests.support.console_client import HTML, Site, pipeline, serving

TOKEN = "correct horse battery staple"
FORM_TOKEN = re.compile(r'name="form_token" value="([^"]+)"')
ROUTES = [one for router in ROUTERS for one in router.routes if isinstance(one, APIRoute)]
PAGES = sorted({one.path for one in ROUTES if "GET" in (one.methods or ()) and "{" not in one.path})


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A console that wants a token."""
    app = pipeline(tmp_path_factory.mktemp("locked"), ONWARD_SERVE_REQUESTS_PER_SECOND="10000")
    with serving(app, token=TOKEN) as site:
        yield site
    app.close()


@pytest.fixture
def visitor(locked: Site) -> Iterator[httpx2.Client]:
    """Somebody who has not been here before."""
    with httpx2.Client(base_url=locked.url, timeout=60.0) as client:
        yield client


def log_in(client: httpx2.Client, token: str = TOKEN, **fields: str) -> httpx2.Response:
    return client.post("/login", data={"token": token, **fields}, headers=HTML)


# -- tokens and sessions


def test_on_this_machine_no_token_is_needed(library: Site) -> None:
    assert library.client.get("/settings", headers=HTML).status_code == 200


@pytest.mark.parametrize("address", ("0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.org:0"))
def test_other_machines_are_not_served_without_a_token(address: str, tmp_path: Path) -> None:
    app = pipeline(tmp_path)
    with pytest.raises(CannotServe, match="set ONWARD_TOKEN to a long random text"):
        serve(app, address)
    app.close()


def test_other_machines_are_not_served_with_a_token_that_is_soon_guessed(tmp_path: Path) -> None:
    app = pipeline(tmp_path, ONWARD_TOKEN="short")
    with pytest.raises(CannotServe, match="has only 5 characters: give it at least 16"):
        serve(app, "0.0.0.0:0")
    app.close()


def test_a_program_comes_in_with_the_token(visitor: httpx2.Client) -> None:
    for given, status in ((TOKEN, 200), (f" {TOKEN}", 200), ("wrong", 401), (TOKEN[:-1], 401)):
        answer = visitor.get("/settings", headers={"authorization": f"Bearer {given}"})
        assert answer.status_code == status, given
    assert visitor.get("/settings", headers={"authorization": f"Basic {TOKEN}"}).status_code == 401
    refused = visitor.get("/v3/documents")
    assert refused.headers["www-authenticate"].startswith("Bearer")
    assert refused.json()["title"] == "A token is needed"


def test_a_token_may_have_any_characters() -> None:
    own = Sessions("schlüssel-☃")
    as_sent = "schlüssel-☃".encode().decode("latin-1")
    assert own.is_allowed(f"Bearer {as_sent}", None)
    assert not own.is_allowed("Bearer schl\udcfcssel", "\udcff")
    assert own.is_token("schlüssel-☃")


def test_tokens_cookies_and_forms_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr("onward.console.sessions.hmac.compare_digest", compare)
    own = Sessions(TOKEN)
    own.is_token("guess")
    own.is_valid("1.a.b")
    cookie = own.begin()
    own.is_own_form(cookie, "guess")
    assert [one for one, _ in compared] == [b"guess", b"b", cookie.rpartition(".")[2].encode(), b"guess"]


@pytest.mark.parametrize("path", [one for one in PAGES if one != "/login"])
def test_nothing_is_shown_to_strangers(path: str, visitor: httpx2.Client) -> None:
    answer = visitor.get(path)
    assert answer.status_code == 401, "for a program"
    answer = visitor.get(path, headers=HTML)
    assert answer.status_code == 303, "for a person"
    assert answer.headers["location"].startswith("/login")
    assert not answer.cookies


@pytest.mark.parametrize("path", ("/v3/documents", "/live/overview", "/openapi.json", "/metrics", "/do/retry"))
def test_nothing_is_told_to_strangers(path: str, visitor: httpx2.Client) -> None:
    assert visitor.get(path).status_code == 401
    assert visitor.post(path).status_code == 401


def test_who_logs_in_gets_to_where_they_wanted(visitor: httpx2.Client) -> None:
    asked = visitor.get("/search?q=a+b&page=2", headers=HTML)
    assert asked.headers["location"] == "/login?next=%2Fsearch%3Fq%3Da%2Bb%26page%3D2"
    form = visitor.get(asked.headers["location"], headers=HTML).text
    assert 'name="next" value="/search?q=a+b&amp;page=2"' in form
    done = log_in(visitor, next="/search?q=a+b&page=2")
    assert (done.status_code, done.headers["location"]) == (303, "/search?q=a+b&page=2")
    assert visitor.get("/search?q=a+b&page=2", headers=HTML).status_code == 200
    assert visitor.get("/login", headers=HTML).headers["location"] == "/"


def test_who_follows_a_link_from_elsewhere_is_asked_again_from_here(visitor: httpx2.Client) -> None:
    """A browser sends the cookie only when a page of this server asks."""
    from_mail = {
        **HTML,
        "sec-fetch-site": "cross-site",
        "sec-fetch-mode": "navigate",
        "sec-fetch-dest": "document",
    }
    answer = visitor.get("/failures", headers=from_mail)
    assert (answer.status_code, answer.headers["refresh"]) == (200, "0; url=/login?next=%2Ffailures")
    assert "One moment" in answer.text


@pytest.mark.parametrize(
    "path",
    ("//evil.example", "/\\evil.example", "https://evil.example", "", "x", "/\t/evil.example", "javascript:x"),
)
def test_a_login_leads_nowhere_else(path: str, visitor: httpx2.Client) -> None:
    assert own_path(path) == "/"
    assert log_in(visitor, next=path).headers["location"] == "/"


def test_a_wrong_token_is_said_and_begins_nothing(visitor: httpx2.Client) -> None:
    answer = log_in(visitor, "wrong")
    assert (answer.status_code, len(answer.cookies)) == (401, 0)
    assert "That is not the token." in answer.text


def test_a_session_is_for_this_browser_and_this_site_alone(visitor: httpx2.Client) -> None:
    kept = log_in(visitor).headers["set-cookie"].lower()
    assert "httponly" in kept
    assert "samesite=strict" in kept
    assert "path=/" in kept
    assert "max-age=43200" in kept
    assert "domain" not in kept
    assert "secure" not in kept
    behind_tls = visitor.post("/login", data={"token": TOKEN}, headers={**HTML, "x-forwarded-proto": "https"})
    assert "secure" in behind_tls.headers["set-cookie"].lower()


def test_two_consoles_on_one_host_do_not_take_each_others_session(locked: Site, visitor: httpx2.Client) -> None:
    log_in(visitor)
    with serving(locked.app, token="another token") as other:
        other.client.cookies.update(visitor.cookies)  # as a browser does, whatever the port
        assert other.client.get("/settings").status_code == 401
        log_in(other.client, "another token")
        visitor.cookies.update(other.client.cookies)
        assert visitor.get("/settings").status_code == 200, "it is still logged in here"
        assert other.client.get("/settings").status_code == 200


@pytest.mark.parametrize(
    ("host", "name"),
    (
        ("localhost:8321", "onward_session_8321"),
        ("[::1]:9000", "onward_session_9000"),
        ("[::1]", "onward_session"),
        ("onward.example.org", "onward_session"),
        ("localhost:; path=/x", "onward_session"),
        ("localhost:٣", "onward_session"),
    ),
)
def test_a_cookie_is_named_by_the_port(host: str, name: str) -> None:
    headers = [(b"host", host.encode("latin-1", "ignore"))]
    assert cookie_name(HTTPConnection({"type": "http", "headers": headers})) == name


def test_a_logout_ends_the_session_for_everybody_who_has_its_cookie(locked: Site, visitor: httpx2.Client) -> None:
    log_in(visitor)
    stolen = dict(visitor.cookies)
    assert len(stolen) == 1
    page = visitor.get("/settings", headers=HTML).text
    (form_token,) = FORM_TOKEN.findall(page)
    assert visitor.post("/logout", headers=HTML).status_code == 403, "without the form's token"
    done = visitor.post("/logout", data={"form_token": form_token}, headers=HTML)
    assert (done.status_code, done.headers["location"]) == (303, "/login?ended=true")
    assert "max-age=0" in done.headers["set-cookie"].lower()
    assert "You are logged out." in visitor.get("/login?ended=true", headers=HTML).text
    with httpx2.Client(base_url=locked.url, cookies=stolen, timeout=60.0) as thief:
        assert thief.get("/settings").status_code == 401


def test_cookies_that_nobody_signed_are_worth_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    own, now = Sessions(TOKEN), time.time()
    cookie = own.begin()
    about, _, signature = cookie.rpartition(".")
    assert own.is_valid(cookie)
    later = f"{int(now) + 10**9}.{about.partition('.')[2]}.{signature}"
    by_other_key = hmac.new(hashlib.sha256(b"guess").digest(), f"session {about}".encode(), hashlib.sha256)
    for forged in (
        "",
        ".",
        "..",
        about,
        f"{about}.",
        later,
        f"{about}.{by_other_key.hexdigest()}",
        f"{about}.{own.form_token(cookie)}",
        "x.y.z",
        "²." + signature,
        "\udcff",
        "9" * 10_000,
    ):
        assert not own.is_valid(forged), forged
    assert not Sessions("another token").is_valid(cookie)
    assert not Sessions(None).is_valid(cookie)
    monkeypatch.setattr(sessions, "SESSION_SECONDS", -1.0)
    assert not own.is_valid(own.begin()), "it is too old"


def test_only_so_many_tokens_can_be_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "time", SimpleNamespace(monotonic=lambda: 1_000.0))  # no token comes back
    app = pipeline(tmp_path)
    with serving(app, token=TOKEN) as site:
        answers = [log_in(site.client, f"guess {one}") for one in range(middleware.LOGINS_PER_MINUTE + 5)]
        assert [one.status_code for one in answers[-5:]] == [429] * 5
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert log_in(site.client).status_code == 429, "nor the right one, so that nobody learns which it is"
        assert site.client.get("/settings", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    app.close()


# -- other sites


def test_a_form_is_only_taken_from_the_browser_it_was_given_to(site: Site) -> None:
    page = site.page("/settings")
    assert not FORM_TOKEN.findall(page), "without a token nobody logs out"
    (cookie,) = dict(site.client.cookies).values()
    own: Sessions = Sessions(None)
    name = next(iter(FORMS))
    for given in ({}, {"form_token": ""}, {"form_token": "x" * 64}, {"form_token": own.form_token(cookie)}):
        assert site.client.post(f"/do/{name}", data=given, headers=HTML).status_code == 403, given
    site.client.cookies.clear()
    assert site.client.post(f"/do/{name}", data={"form_token": "x"}, headers=HTML).status_code == 403


@pytest.mark.parametrize(
    "headers",
    (
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://["},
        {"origin": "http://127.0.0.1:1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ),
)
def test_a_page_of_another_site_changes_nothing(headers: dict[str, str], library: Site) -> None:
    for path in ("/do/retry", "/v3/documents", "/ingest", "/login", "/api/errors"):
        answer = library.client.post(path, json={}, headers=headers)
        assert (answer.status_code, answer.json()["title"]) == (403, "From another site"), path


def test_a_page_of_another_site_cannot_look_inside(library: Site) -> None:
    foreign = {"sec-fetch-site": "cross-site", **HTML}
    framed = {**foreign, "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}
    fetched = {**foreign, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "empty"}
    linked = {**foreign, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert library.client.get("/search?q=a", headers=framed).status_code == 403
    assert library.client.get("/live/overview", headers=fetched).status_code == 403
    assert library.client.get("/search?q=a", headers=linked).status_code == 200
    assert "access-control-allow-origin" not in library.client.get("/", headers={"origin": "https://a.b"}).headers


@pytest.mark.parametrize(
    "host", ("evil.example", "localhost.evil.example", "localhost@evil.example", "", "a b", "[::1")
)
def test_a_name_that_points_here_but_is_not_ours_is_refused(host: str, library: Site) -> None:
    for headers in ({}, HTML):
        answer = library.client.get("/settings", headers={"host": host, **headers})
        assert answer.status_code == 421
        assert "ONWARD_SERVE_HOSTS" in answer.text
        assert "set-cookie" not in answer.headers
        _check_headers(answer)


def test_a_refusal_can_be_read_without_its_style_which_is_refused_too(library: Site) -> None:
    foreign = {"host": "evil.example"}
    answer = library.client.get("/settings", headers=foreign | HTML)
    (style,) = re.findall(r'rel="stylesheet" href="([^"]+)"', answer.text)
    assert library.client.get(style, headers=foreign).status_code == 421
    assert '<svg width="24" height="24"' in answer.text, "else it is as large as the window"


@pytest.mark.parametrize(
    "host", ("localhost", "LOCALHOST:80", "localhost.", "127.0.0.1:8321", "[::1]:8321", "10.1.2.3")
)
def test_names_of_this_machine_and_addresses_are_answered(host: str, library: Site) -> None:
    assert library.client.get("/settings", headers={"host": host}).status_code == 200


def test_hosts_and_clients_are_told_apart() -> None:
    assert host_name("Example.ORG.:80") == "example.org"
    assert host_name("[2001:DB8::1]:80") == "2001:db8::1"
    assert host_name("a:b") == host_name("a/b") == host_name("[::1]x") == ""
    assert client_name("2001:db8::1") == client_name("2001:db8::ffff:2"), "one customer, many addresses"
    assert client_name("2001:db8::1") != client_name("2001:db8:0:1::1")
    assert client_name("::ffff:192.0.2.1") == client_name("192.0.2.1") != client_name("192.0.2.2")
    assert client_name("no address") == "no address"


# -- how much and how often


def test_a_body_is_not_taken_beyond_its_limit(tmp_path: Path) -> None:
    app = pipeline(tmp_path, ONWARD_SERVE_MAX_UPLOAD_BYTES="2000000", ONWARD_SERVE_REQUESTS_PER_SECOND="1000")
    piece = b"x" * 100_000
    with serving(app) as site:
        # Of the login, which reads every form that anybody sends.
        for path, pieces in (("/login", 11), ("/ingest", 21)):
            whole = site.client.post(path, content=piece * pieces, headers={"content-type": "text/plain"})
            assert whole.status_code == 413, f"{path} with a length"
            assert "ONWARD_SERVE_MAX_UPLOAD_BYTES" in whole.json()["detail"]
        form = {"content-type": "application/x-www-form-urlencoded"}
        endless = site.client.post("/login", content=(piece for _ in range(11)), headers=form)
        assert endless.status_code == 413, "in pieces"
        _check_headers(endless)
        assert site.client.post("/login", content=piece * 9, headers=form).status_code != 413
    app.close()


@pytest.mark.parametrize("length", ("9" * 19, "9" * 5000, "-1", "1, 2", "x"))
def test_a_length_that_makes_no_sense_is_refused(length: str, library: Site) -> None:
    assert _raw(library, f"POST /login HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n") in (
        400,
        413,
    )


def test_a_body_that_does_not_come_is_not_waited_for(library: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "BODY_SECONDS", 0.05)
    head = "POST /login HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-www-form-urlencoded\r\n"
    assert _raw(library, f"{head}content-length: 10\r\n\r\ntoken") == 408


def test_a_request_that_does_not_come_is_not_waited_for_but_streams_stay(
    library: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "REQUEST_SECONDS", 0.05)
    monkeypatch.setattr(live, "KEEP_ALIVE_SECONDS", 0.05)
    port = int(library.url.rpartition(":")[2])
    with library.client.stream("GET", "/live/overview") as stream:
        lines = stream.iter_lines()
        for sent in (
            b"",
            b"GET / HTTP/1.1\r\nhost: local",
            b"GET /static/icon.svg HTTP/1.1\r\nhost: localhost\r\n\r\nGET",
        ):
            with socket.create_connection(("127.0.0.1", port), 30) as connection:
                connection.sendall(sent)
                while connection.recv(65536):
                    pass  # until it is closed from the other side
        for _ in range(5):
            assert next(line for line in lines if line.startswith(": still there"))


def test_there_are_only_so_many_streams(library: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_WATCHERS", 0)
    answer = library.client.get("/live/overview")
    assert (answer.status_code, answer.json()["title"]) == (503, "Too many open live pages")
    assert "retry-after" in answer.headers


def test_a_stream_that_breaks_off_is_logged_without_its_secrets(
    library: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(self: Live, name: str) -> AsyncIterator[bytes]:
        yield b"retry: 3000\n\n"
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr(Live, "watch", broken)
    with pytest.raises(httpx2.RemoteProtocolError), library.client.stream("GET", "/live/overview") as stream:
        list(stream.iter_lines())
    _check_logged(caplog, "a request failed: RuntimeError: password=***")


def _check_logged(caplog: pytest.LogCaptureFixture, line: str) -> None:
    """Each error is logged once, by the console, and what is written has no secrets in it."""
    lines = [one for one in caplog.records if one.levelname == "ERROR" and one.exc_info]
    assert {(one.name, one.getMessage()) for one in lines} == {("onward", line)}
    written = log_formatter().format(lines[0])
    assert "Traceback" in written
    assert "hunter2" not in written


def _raw(site: Site, text: str) -> int:
    """The status of what is answered to these very bytes."""
    port = int(site.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall(text.encode("latin-1"))
        return int(connection.recv(100).split(b" ")[1])


def test_who_asks_too_often_is_told_when_to_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "BURST", 20)
    app = pipeline(tmp_path, ONWARD_SERVE_REQUESTS_PER_SECOND="0.001")
    with serving(app) as site:
        answers = [site.client.get("/static/icon.svg") for _ in range(21)]
        assert [one.status_code for one in answers] == [200] * 20 + [429]
        assert int(answers[-1].headers["retry-after"]) > 100
        page = site.client.get("/", headers=HTML)
        assert (page.status_code, harm_in(page.text)) == (429, [])
        _check_headers(page)
    app.close()


def test_clients_are_counted_one_by_one_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "MAX_CLIENTS", 2)
    rates = RateLimiter(1.0, 2.0)
    assert [rates.wait("a", 0.0) for _ in range(3)] == [0.0, 0.0, 1.0]
    assert rates.wait("b", 0.0) == 0.0
    assert rates.wait("a", 1.0) == 0.0
    rates.wait("c", 1.0)
    assert len(rates._known) == 2


# -- what every answer carries


def _check_headers(answer: httpx2.Response) -> None:
    for name, value in HEADERS.items():
        assert answer.headers[name] == value, f"{answer.request.url}: {name}"
    assert "cache-control" in answer.headers
    assert "server" not in answer.headers


@pytest.mark.parametrize("path", PAGES)
def test_pages_are_harmless_and_say_so(path: str, library: Site) -> None:
    answer = library.client.get(path, headers=HTML, follow_redirects=True)
    assert answer.status_code == 200
    assert harm_in(answer.text) == []
    _check_headers(answer)


@pytest.mark.parametrize(
    "path",
    (
        "/nothing",
        "/v3/nothing",
        "/v3/documents",
        "/openapi.json",
        "/healthz",
        "/static/onward.css",
        "/static/no",
        "/live/x",
    ),
)
def test_all_other_answers_carry_the_same_headers(path: str, library: Site) -> None:
    for method in ("GET", "POST", "HEAD", "DELETE", "OPTIONS", "TRACE", "NONSENSE"):
        _check_headers(library.client.request(method, path))


def test_the_policy_lets_nothing_run_that_stands_in_a_page() -> None:
    policy = HEADERS["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "*" not in policy
    assert "http" not in policy
    for name in ("base-uri 'none'", "frame-ancestors 'none'", "form-action 'self'"):
        assert name in policy


def test_the_head_of_a_page_can_be_asked_for(library: Site) -> None:
    for path in ("/settings", "/v3/documents", "/openapi.json", "/healthz", "/metrics"):
        answer = library.client.head(path)
        assert (answer.status_code, answer.content) == (200, b""), path
        assert answer.headers["content-type"] == library.client.get(path).headers["content-type"]
    assert library.client.head("/live/overview").status_code == 405, "it would never end"


# -- files, secrets, errors


@pytest.mark.parametrize(
    "path",
    (
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e%2f%2e%2e%2f%2e%2e%2fetc/passwd",
        "/static//etc/passwd",
        "/static/..%5capp.py",
        "/static/%00",
        "/threads/../../../../etc/passwd",
        "/threads/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/documents/messages/..%2f..%2f..%2fetc%2fpasswd",
        "/documents/archives/%2fetc%2fpasswd/raw",
        "/documents/..%2f..%2fetc/passwd",
        "/v3/documents/..%2f..%2fetc%2fpasswd",
        "/confirm/..%2f..%2fetc%2fpasswd",
        "/live/..%2f..%2fetc%2fpasswd",
    ),
)
def test_no_path_reaches_the_file_system(path: str, library: Site) -> None:
    port = int(library.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        # A client would tidy the path up.
        connection.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.split(b" ")[1] in (b"404", b"422", b"400"), answer[:300]
    assert b"root:" not in answer
    assert b"import" not in answer


def test_an_error_shows_neither_where_it_happened_nor_what_it_carried(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("password=hunter2 at postgresql://app:hunter2@db/x")

    monkeypatch.setattr("onward.console.pages.settings.describe_ladder", fail)
    for headers in ({}, HTML):
        answer = site.client.get("/settings", headers=headers)
        assert answer.status_code == 500
        assert "Internal error" in answer.text
        for secret in ("hunter2", "Traceback", "RuntimeError", "settings.py"):
            assert secret not in answer.text
        _check_headers(answer)
    _check_logged(caplog, "a request failed: RuntimeError: password=*** at postgresql://app:***@db/x")


def test_what_is_refused_is_refused_on_a_page_without_secrets(library: Site) -> None:
    page = library.page("/threads/" + "x" * 300 + "%00%ff<script>", 404)
    assert harm_in(page) == []
    assert "<script>" not in page.replace('<script src="/static', "")
    answer = library.client.get("/search", params={"page": "postgresql://a:hunter2@b"}, headers=HTML)
    assert answer.status_code == 422
    assert "hunter2" not in answer.text


def test_secrets_among_the_settings_are_not_shown(tmp_path: Path) -> None:
    app = pipeline(
        tmp_path,
        ONWARD_GATEWAY="amqp://app:hunter2@localhost:1/",
        ONWARD_EMBEDDER_KEY="hunter2-key",
        ERROR_REPORTER_URL="https://:hunter2@onward.example.org",
        RABBITMQ_PASSWORD="hunter2",
        ONWARD_TOKEN=TOKEN,
    )
    with serving(app) as site:
        page = site.page("/settings")
    app.close()
    assert "hunter2" not in page
    assert TOKEN not in page
    assert "amqp://app:***@localhost:1/" in page
