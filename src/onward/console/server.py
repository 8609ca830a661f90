"""Builds the console and the API as one web app, and serves it: locally, or behind a token on any address."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import resources
from types import FrameType
from typing import cast

import uvicorn
from fastapi import FastAPI
from starlette.staticfiles import StaticFiles
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from onward.app import App
from onward.console import api, pages
from onward.console.live import Live
from onward.console.middleware import AccessMiddleware
from onward.console.operations import Operations
from onward.console.page_templates import OUTAGE_SECONDS
from onward.console.pages.overview import OVERDUE_SECONDS
from onward.console.problems import add_handlers, add_routers
from onward.console.sessions import Sessions
from onward.console.timed_cache import TimedCache
from onward.ops.queries.services import Outage
from onward.ops.queries.status import Overdue
from onward.retry import OnwardError
from onward.settings import Settings

LOCAL = ("localhost", "127.0.0.1", "::1")
SHUTDOWN_SECONDS = 5  # that open requests get to end
REQUEST_SECONDS = 20.0  # until a request begins; at most twice as long, as connections are checked in such steps
MAX_CONNECTIONS = 2_500
OTHER_FILES = 200
MIN_TOKEN_LENGTH = 16  # of a token that other machines may guess at


def build(app: App, *, hosts: frozenset[str] = frozenset(LOCAL), token: str | None = None) -> AccessMiddleware:
    """Build the web app for a store; `hosts` are the host names that it accepts."""
    web = FastAPI(
        title="Onward",
        version="3",
        description="Submit documents, see what becomes of them, and put right what went wrong.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    web.state.onward = app
    web.state.sessions = Sessions(token)
    web.state.operations = Operations(app)
    web.state.overdue = TimedCache[Overdue](OVERDUE_SECONDS)
    web.state.outages = TimedCache[list[Outage]](OUTAGE_SECONDS)
    # Rendering costs the thread's processor time; with a remote store the wall time, which includes its work.
    web.state.live = Live(
        lambda name: pages.render_part(web, name),
        lambda: time.monotonic() if app.store.remote else time.thread_time(),
    )
    add_handlers(web)
    api.add_routes(web)
    add_routers(web, pages.ROUTERS)
    web.mount("/static", StaticFiles(directory=str(resources.files("onward.console") / "static")))
    return AccessMiddleware(web, app.settings, web.state.sessions, hosts)


class CannotServe(OnwardError):
    """The console cannot be started as it was asked for; the message says what to do."""


class _Server(uvicorn.Server):
    """A server that ends its streams before it waits for requests to end."""

    def __init__(self, web: AccessMiddleware) -> None:
        super().__init__(configure(web))
        self._state = web.web.state

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # Not kept, to be raised again at the end: that would kill the process before it has put things away.
        self.force_exit = self.force_exit or (self.should_exit and sig == signal.SIGINT)
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._state.live.close()
        self._state.monitoring.stop()
        await asyncio.to_thread(self._state.operations.close)
        await super().shutdown(sockets)


class _Connection(H11Protocol):
    """A connection that is closed when nothing whole comes over it for a while."""

    _waiting: asyncio.TimerHandle | None = None
    _looked = False
    _seen: RequestResponseCycle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._waiting = self.loop.call_later(REQUEST_SECONDS, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        cycle = cast("RequestResponseCycle | None", self.cycle)  # none before the first
        at_rest = cycle is None or cycle.response_complete
        if at_rest and self._looked and self._seen is cycle:
            self.transport.close()  # no new request since the last look
            return
        self._looked, self._seen = at_rest, cycle
        self._waiting = self.loop.call_later(REQUEST_SECONDS, self._look)


def serve(
    app: App,
    address: str,
    *,
    ready: Callable[[str], None] | None = None,
    also: Callable[[Callable[[], None]], None] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; `ready` gets the URL, `also` the function that stops the server."""
    host, port = split_address(address)
    token = app.settings.token.get_secret_value() if app.settings.token else None
    check_token(address, host, token)
    listening = listen(host, port)
    server = _Server(build(app, hosts=host_names(app.settings, host), token=token))
    with listening:
        if ready is not None:
            ready(url_of(host, listening))
        if also is not None:
            also(partial(server.handle_exit, signal.SIGTERM, None))
        # What was imported stays: to look through all of it for garbage, again and again, keeps pages waiting.
        gc.collect()
        gc.freeze()
        server.run(sockets=[listening])


def configure(web: AccessMiddleware, *, patience: int = SHUTDOWN_SECONDS) -> uvicorn.Config:
    return uvicorn.Config(
        web,
        http=_Connection,
        ws="none",
        log_config=None,
        log_level="error",  # of each request that makes no sense there would be a line
        access_log=False,
        server_header=False,
        proxy_headers=True,
        forwarded_allow_ips="127.0.0.1,::1",
        timeout_graceful_shutdown=patience,
        limit_concurrency=_most_connections(),
        lifespan="off",
    )


def split_address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdecimal() or int(port[:6]) > 65535:
        raise CannotServe(f"{address!r} is no address: give a host and a port, such as 127.0.0.1:8321.")
    return host, int(port)


def check_token(address: str, host: str, token: str | None) -> None:
    with suppress(ValueError):
        if host == "localhost" or ipaddress.ip_address(host).is_loopback:
            return
    make = 'python3 -c "import secrets; print(secrets.token_urlsafe(24))"'
    if not token:
        raise CannotServe(
            f"{address} can be reached from other machines, so a token is needed: set ONWARD_TOKEN to a long "
            f"random text, such as `{make}` prints, or serve on 127.0.0.1."
        )
    if len(token) < MIN_TOKEN_LENGTH:
        raise CannotServe(
            f"{address} can be reached from other machines, and ONWARD_TOKEN has only {len(token)} characters: "
            f"give it at least {MIN_TOKEN_LENGTH}, such as `{make}` prints."
        )


def url_of(host: str, listening: socket.socket) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}/"


def _most_connections() -> int:
    """Return the maximum number of connections: each is an open file, and the store needs some, too."""
    try:
        import resource
    except ImportError:  # Windows
        return MAX_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            soft = most
    return MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else max(10, min(MAX_CONNECTIONS, soft - OTHER_FILES))


def host_names(settings: Settings, host: str) -> frozenset[str]:
    """Return the allowed host names: another name may belong to an attacker whose DNS points here."""
    named = [one.strip().lower() for one in settings.serve_hosts.split(",") if one.strip()]
    names = {*LOCAL, host.lower(), *named}
    if host in ("0.0.0.0", "::"):
        names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    return frozenset(names)


def listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise CannotServe(f"there is no address {host!r} on this machine ({error.strerror}).") from error
    listening = socket.socket(family, kind, protocol)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(where)
        listening.listen(2048)
    except OSError as error:
        listening.close()
        raise CannotServe(
            f"{host}:{port} cannot be used: {error.strerror}. Choose another one with --address, such as "
            f"--address 127.0.0.1:{port + 1 if 0 < port < 65535 else 8322}."
        ) from error
    return listening
