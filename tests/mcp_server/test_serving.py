"""`onward mcp` as a process: over standard input and output, and over HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from onward.pipeline.app import build
from onward.pipeline.sources import submit
from onward.settings import load_settings
from tests.support.command_runs import environment, mail, onward, write_mailbox

pytestmark = pytest.mark.prove

TOKEN = "a-token-of-the-console"
HELLO = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
    '"clientInfo":{"name":"test","version":"1"}}}\n'
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with one mail."""
    folder = tmp_path_factory.mktemp("mcp")
    app = build(load_settings({"ONWARD_HOME": str(folder / "home")}))
    submit(
        app, str(write_mailbox(folder / "list.mbox", [mail(1, "Pump", "The pump fails because a seal is worn.")]))
    )
    app.work_until_idle()
    app.close()
    return folder / "home"


def test_the_client_of_the_sdk_starts_it_and_calls_its_tools(home: Path) -> None:
    async def talk() -> None:
        command = StdioServerParameters(
            command=sys.executable, args=["-m", "onward", "mcp"], env=environment(home)
        )
        async with Client(stdio_client(command)) as client:
            assert client.instructions is not None
            assert "written by others" in client.instructions
            listed = await client.list_tools()
            assert {tool.name for tool in listed.tools} == {"search", "ask", "show", "thread", "status"}
            answer = await client.call_tool("ask", {"question": "Why does the pump fail?"})
            assert answer.structured_content is not None
            (passage,) = answer.structured_content["passages"]
            assert passage["text"] == "The pump fails because a seal is worn."
            shown = await client.call_tool("show", {"id": passage["message_id"]})
            assert shown.structured_content is not None
            assert "a seal is worn" in shown.structured_content["text"]
            wrong = await client.call_tool("search", {"query": "pump", "limit": 0})
            assert wrong.is_error
            found = await client.call_tool("search", {"query": "pump"})
            assert found.structured_content is not None
            assert found.structured_content["total"] == 1, "a wrong call ends nothing"

    asyncio.run(talk())


@contextmanager
def running(home: Path, *args: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "onward", "mcp", *args],
        env={**os.environ, **environment(home), **more},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@pytest.mark.parametrize(("how", "code", "said"), (("Ctrl-C", 130, "Stopped.\n"), ("end of input", 0, "")))
def test_it_ends_at_once(home: Path, how: str, code: int, said: str) -> None:
    with running(home) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(HELLO)
        process.stdin.flush()
        assert '"name":"onward"' in process.stdout.readline()
        if how == "Ctrl-C":
            process.send_signal(signal.SIGINT)
        else:
            process.stdin.close()
        assert process.wait(60) == code
        assert process.stderr.read() == said


@pytest.mark.prove
def test_over_http_it_needs_the_token_of_the_console(home: Path) -> None:
    async def talk(url: str) -> None:
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as http:
            async with Client(streamable_http_client(url, http_client=http)) as client:
                found = await client.call_tool("search", {"query": "pump"})
                assert found.structured_content is not None
                assert found.structured_content["total"] == 1
            assert (await http.post(url, json={}, headers={"Host": "evil.example"})).status_code == 421
            assert (await http.post(url, json={}, headers={"Origin": "http://evil.example"})).status_code == 403
        async with httpx2.AsyncClient() as http:
            refused = await http.post(url, json={})
            assert (refused.status_code, refused.json()["title"]) == (401, "A token is needed")

    with running(home, "--http", "127.0.0.1:0", ONWARD_TOKEN=TOKEN) as process:
        assert process.stderr is not None
        url = process.stderr.readline().removeprefix("Serving ").strip()
        assert url.endswith("/mcp")
        asyncio.run(talk(url))
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


def test_an_address_that_others_reach_needs_a_token(home: Path) -> None:
    refused = onward(home, "mcp", "--http", "0.0.0.0:0")
    assert refused.exit_code == 1
    assert "set ONWARD_TOKEN" in refused.stderr
    assert onward(home, "mcp", "--http", "nowhere").exit_code == 1
