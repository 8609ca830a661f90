"""Serves the tools over standard input and output, or over HTTP."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable
from typing import Any

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

from onward.mcp_server.tools import NOTICE, Facts, StoreTools
from onward.retry.errors import OnwardError
from onward.retry.redact import redact

INSTRUCTIONS = f"""\
Onward keeps mail archives, web pages and folders of files, searchable by words and meaning. `ask` returns passages
that answer a question, `search` finds messages, `show` returns a whole message, `thread` the messages of a
discussion and its summary, `status` what was ingested and what failed. Cite messages by subject, author and date.
{NOTICE}"""
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=True)


def build(tools: StoreTools, *, allow_changes: bool = False) -> MCPServer[Any]:
    """Return a server with the tools that read, and with those that change something if that is allowed."""
    server: MCPServer[Any] = MCPServer(
        "onward",
        title="Onward",
        instructions=INSTRUCTIONS,
        version=importlib.metadata.version("onward"),
        log_level="WARNING",
    )
    for tool in (tools.search, tools.ask, tools.show, tools.thread, tools.status):
        server.add_tool(_explained(tool), annotations=_READS)
    if allow_changes:
        for change in (tools.ingest, tools.retry):
            server.add_tool(_explained(change), annotations=_CHANGES)
    return server


def _explained(tool: Callable[..., Facts]) -> Callable[..., Facts]:
    """Return a tool that reports what a caller can put right, with the remedy; any other error is only logged."""

    @functools.wraps(tool)
    def run(*args: Any, **options: Any) -> Facts:
        try:
            return tool(*args, **options)
        except OnwardError as error:
            raise ToolError(redact(str(error))) from error

    return run


def serve_stdio(server: MCPServer[Any]) -> None:
    """Serve until standard input ends."""
    anyio.run(server.run_stdio_async)
