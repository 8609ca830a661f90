"""`onward mcp`: a server with tools for assistants."""

from __future__ import annotations

import logging
import os
import signal
from contextlib import closing

import click

from onward.cli import INTERRUPTED
from onward.cli.action_run import on_signals
from onward.settings import load_settings


@click.command()
@click.option("--allow-changes", is_flag=True, help="Also offer tools that change something: ingest and retry.")
@click.option("--http", "address", metavar="HOST:PORT", help="Serve over HTTP at /mcp, not over standard input.")
def mcp(allow_changes: bool, address: str | None) -> None:
    """Serve the store to assistants over the Model Context Protocol (MCP).

    The tools search, ask, show, thread and status only read. A client starts this command and talks to it over
    standard input and output. With --http, clients connect to http://HOST:PORT/mcp and send ONWARD_TOKEN, where it
    is set; it must be set for an address that other machines can reach.

    \b
    Examples:
      onward mcp
      onward mcp --allow-changes
      ONWARD_TOKEN=… onward mcp --http 127.0.0.1:8322
    """
    from onward.mcp_server.server import build, serve_stdio
    from onward.mcp_server.tools import StoreTools
    from onward.observe.logs import log_options, set_up_logs

    settings = load_settings()
    set_up_logs(logging.WARNING, **log_options(settings, "mcp"))
    with closing(StoreTools(settings, allow_changes=allow_changes)) as tools:
        server = build(tools, allow_changes=allow_changes)
        if address is None:
            with on_signals(_stop, signal.SIGINT):
                serve_stdio(server)
            return
        from onward.mcp_server.http import serve_http

        serve_http(server, settings, address, ready=lambda url: click.echo(f"Serving {url}", err=True))


def _stop() -> None:
    # At once: the thread that reads standard input cannot be interrupted, and would wait for the next line.
    click.echo("Stopped.", err=True)
    os._exit(INTERRUPTED)
