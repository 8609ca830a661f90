"""Repositories that tests write, and a server that gives them by git's own protocol over HTTP."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

AUTHOR = "Ada <ada@example.org>"
MONTH = 2_678_400
START = 1_772_445_600  # 2 March 2026


class GitRepository:
    """A bare repository whose commits are whole states of its files."""

    def __init__(self, folder: Path, branch: str = "main", *options: str) -> None:
        self.folder, self.branch = folder, branch
        self.files: dict[str, bytes] = {}
        self.modes: dict[str, str] = {}
        self.seconds = START
        self._first = True
        subprocess.run(["git", "init", "-q", "--bare", "-b", branch, *options, folder], check=True)

    @property
    def location(self) -> str:
        return f"git+file://{self.folder}"

    def git(self, *arguments: str, data: bytes = b"") -> str:
        command = ["git", f"--git-dir={self.folder}", *arguments]
        environment = os.environ | {"GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org"}
        return subprocess.run(
            command, input=data, check=True, capture_output=True, env=environment
        ).stdout.decode()

    def commit(
        self,
        changes: Mapping[str, bytes | str | None] | None = None,
        message: str = "A change",
        *,
        author: str = AUTHOR,
        branch: str = "",
        amend: bool = False,
        modes: Mapping[str, str] | None = None,
    ) -> str:
        """Commit changed files, None for a deleted one; return the id of the commit."""
        self.seconds += 60
        self.modes |= modes or {}
        for path, content in (changes or {}).items():
            if content is None:
                del self.files[path]
            else:
                self.files[path] = content.encode() if isinstance(content, str) else content
        ref = f"refs/heads/{branch or self.branch}"
        begins = self._first
        self._first = False
        parent = f"from {ref}^0\n" if not begins else ""
        if amend:
            parent = f"from {ref}^1\n" if self.git("rev-list", "--count", ref).strip() != "1" else ""
        elif branch and not begins:
            parent = f"from refs/heads/{self.branch}^0\n"
        text = message.encode()
        stream = [f"commit {ref}\nauthor {author} {self.seconds} +0000\ncommitter {author} {self.seconds} +0000\n"]
        parts = [stream[0].encode(), b"data %d\n" % len(text), text, b"\n", parent.encode(), b"deleteall\n"]
        for path, data in self.files.items():
            mode = self.modes.get(path, "100644")
            if mode == "160000":
                parts.append(f"M {mode} {data.decode()} {path}\n".encode())
            else:
                parts += [f"M {mode} inline {path}\ndata {len(data)}\n".encode(), data, b"\n"]
        self.git("fast-import", "--quiet", "--force", data=b"".join(parts))
        return self.git("rev-parse", ref).strip()


@dataclass
class GitServer:
    """What the server gives, and what it was asked."""

    port: int
    root: Path
    user: str = ""  # "name:password" that it asks for
    fails_with: int = 0
    redirects_to: str = ""
    requests: list[str] = field(default_factory=list)

    def location(self, name: str, host: str = "127.0.0.1") -> str:
        return f"git+http://{host}:{self.port}/{name}"


class _Handler(BaseHTTPRequestHandler):
    server_state: GitServer

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def _answer(self) -> None:
        import base64

        state = self.server_state
        state.requests.append(f"{self.command} {self.path}")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if state.redirects_to:
            return self._give(302, {"Location": state.redirects_to + self.path})
        if state.fails_with:
            return self._give(state.fails_with, {})
        expected = "Basic " + base64.b64encode(state.user.encode()).decode()
        if state.user and self.headers.get("Authorization") != expected:
            return self._give(401, {"WWW-Authenticate": 'Basic realm="git"'})
        path, _, query = self.path.partition("?")
        given = {
            "GIT_PROJECT_ROOT": str(state.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        answer = subprocess.run(
            ["git", "http-backend"], input=body, env=os.environ | given, capture_output=True, check=False
        ).stdout
        head, _, content = answer.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        return self._give(int(headers.pop("Status", "200").split()[0]), headers, content)

    def _give(self, status: int, headers: Mapping[str, str], content: bytes = b"") -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def serve_git(root: Path) -> Iterator[GitServer]:
    """Give the repositories of a folder over HTTP until the block ends."""

    class Handler(_Handler):
        pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state: Any = GitServer(server.server_address[1], root)
    Handler.server_state = state
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
