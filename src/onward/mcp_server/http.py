"""Serves the tools over HTTP, behind the checks of the console: host, rate, size, origin and token."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

from onward.console.middleware import AccessMiddleware
from onward.console.server import SHUTDOWN_SECONDS, check_token, host_names, listen, split_address, url_of
from onward.console.sessions import Sessions
from onward.settings import Settings

PATH = "/mcp"


class _Server(uvicorn.Server):
    """A server that ends with exit code 0 after a signal."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.force_exit or (self.should_exit and sig == signal.SIGINT)
        self.should_exit = True


def build_http(server: MCPServer[Any], settings: Settings, host: str) -> AccessMiddleware:
    """Return the web app of a server: each call is a request of its own, and needs no session."""
    token = settings.token.get_secret_value() if settings.token else None
    web = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # checked before
    )
    return AccessMiddleware(web, settings, Sessions(token), host_names(settings, host))


def serve_http(server: MCPServer[Any], settings: Settings, address: str, *, ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; `ready` gets the URL."""
    host, port = split_address(address)
    check_token(address, host, settings.token.get_secret_value() if settings.token else None)
    with listen(host, port) as listening:
        config = uvicorn.Config(
            build_http(server, settings, host),
            ws="none",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            lifespan="on",
        )
        ready(url_of(host, listening) + PATH.removeprefix("/"))
        _Server(config).run(sockets=[listening])
