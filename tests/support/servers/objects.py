"""A private object store: moto's S3 server, in a process of its own.

moto speaks the protocol over HTTP with Amazon's own client (listings in pages, uploads in parts, ranges,
signatures), comes as a wheel, and starts in a second. It keeps everything in memory.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import urllib.request
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.support.servers.private import HOST, PrivateServer, accepts

ROOT = Path(__file__).parents[3]
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "only-for-tests",
    "AWS_EC2_METADATA_DISABLED": "true",  # no request leaves this machine
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
MIN_PART_BYTES = 16


class ObjectServer(PrivateServer):
    """A private object store, whose requests can be made to fail or to wait.

        with ObjectServer() as server:
            blobs = S3Blobs(parse_s3_url(server.create_bucket("blobs")), scratch)
            server.ask("fail", status=503, code="SlowDown", count=3)

    `kill()` loses what it holds.
    """

    title = "moto's S3 server"

    def __init__(self, folder: Path | None = None, *, port: int = 0) -> None:
        super().__init__(folder, port)

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    def url(self, bucket: str, prefix: str = "blobs", *, port: int | None = None) -> str:
        """Where clients connect; the port of a Proxy goes in its place."""
        return f"s3://{bucket}/{prefix}?endpoint=http://{HOST}:{port or self.port}"

    def create_bucket(self, name: str = "") -> str:
        """Makes an empty bucket, and returns its name."""
        name = name or f"t-{secrets.token_hex(6)}"
        self.client.create_bucket(Bucket=name)
        return name

    @cached_property
    def client(self) -> Any:
        """A client of Amazon's library, to look behind the blobs."""
        import botocore.session

        return botocore.session.get_session().create_client(
            "s3",
            region_name="us-east-1",
            endpoint_url=self.endpoint,
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )

    def ask(self, route: str, **values: object) -> Any:
        """Calls a route of `object_server_process`."""
        return json.loads(self._call("GET", f"/-/{route}?{urlencode(values)}"))

    def check_signatures(self, check: bool) -> None:
        """Has it refuse unknown keys, or take any."""
        self._call("POST", "/moto-api/reset-auth", b"0" if check else b"inf")

    def _call(self, method: str, path: str, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(self.endpoint + path, body, {"Content-Type": "text/plain"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as response:
            found: bytes = response.read()
            return found

    def _prepare(self) -> None:
        """It keeps nothing in its folder."""

    def _spawn(self) -> subprocess.Popen[bytes]:
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "S3_UPLOAD_PART_MIN_SIZE": str(MIN_PART_BYTES)}
        # Larger objects are in files, not in memory.
        environ["MOTO_S3_DEFAULT_KEY_BUFFER_SIZE"] = str(1 << 20)
        program = "tests.support.servers.object_server_process"
        return self._run_logged([sys.executable, "-m", program, str(self.port)], environ)

    def _answers(self) -> bool:
        return accepts(self.port) and bool(self.ask("ready"))

    def _request_stop(self) -> None:
        self._running_process().terminate()
