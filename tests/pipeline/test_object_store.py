"""The whole pipeline with its blobs in an object store: machines share nothing but the store and the bucket."""

from __future__ import annotations

import base64
import json
import os
import random
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from onward.pipeline.app import build
from onward.pipeline.documents import Archive, source_id
from onward.pipeline.sources import collect_blobs, source_status
from onward.settings import load_settings
from tests.support.command_runs import environment, mail, write_mailbox
from tests.support.servers import ObjectServer
from tests.support.servers.private import descendants
from tests.support.supervised_workers import until

pytestmark = pytest.mark.prove

ONWARD = [sys.executable, "-m", "onward"]


class Machine:
    """A data folder of its own, and the commands of its user."""

    def __init__(self, home: Path, **settings: str) -> None:
        self.home = home
        self.settings = load_settings({"ONWARD_HOME": str(home), **settings})
        self.environ = {**os.environ, **environment(home), "ONWARD_METRICS_ADDRESS": "off", **settings}

    def run(self, *args: str) -> bytes:
        ran = subprocess.run([*ONWARD, *args], env=self.environ, capture_output=True, check=False, timeout=240)
        assert ran.returncode == 0, ran.stderr.decode() + ran.stdout.decode()
        return ran.stdout

    def archive(self, source: Path) -> str:
        """The id of the archive that has the content of a source."""
        with closing(build(self.settings)) as app:
            ids = [row.id for row in app.store.find(Archive, "source_id", [source_id(str(source))])]
            (found,) = (one.id for one in app.store.get_many(Archive, ids) if one.blob is not None)
            return found


@pytest.fixture
def mailbox(tmp_path: Path) -> Path:
    mails = [mail(number, "The pier", f"Plank {number} of the pier is loose.") for number in range(20)]
    return write_mailbox(tmp_path / "pier.mbox", mails)


def keys(server: ObjectServer, url: str, part_of_key: str = "") -> list[str]:
    found = server.client.list_objects_v2(Bucket=url.split("/")[2])
    return [one["Key"] for one in found.get("Contents", ()) if part_of_key in one["Key"]]


def uploads(server: ObjectServer, url: str) -> list[str]:
    found = server.client.list_multipart_uploads(Bucket=url.split("/")[2])
    return [one["Key"] for one in found.get("Uploads", ())]


def test_a_mailbox_is_ingested_read_ingested_again_and_forgotten(
    object_server: ObjectServer, bucket_url: str, tmp_path: Path, mailbox: Path
) -> None:
    here = Machine(tmp_path / "home", ONWARD_BLOBS=bucket_url)
    facts = json.loads(here.run("ingest", str(mailbox), "--json"))
    assert [one["status"] for one in facts["sources"]] == ["completed"]
    assert not (here.home / "blobs").exists()
    (data,) = keys(object_server, bucket_url, "/data-")
    assert data.endswith(f"-{mailbox.stat().st_size}")
    assert here.run("show", "--raw", f"archives/{here.archive(mailbox)}") == mailbox.read_bytes()
    here.run("ingest", str(mailbox))
    assert keys(object_server, bucket_url, "/data-") == [data], "it was uploaded once"
    here.run("forget", str(mailbox))
    assert keys(object_server, bucket_url) == []


def test_what_one_machine_ingested_another_reads(
    object_server: ObjectServer, bucket_url: str, postgres_store_url: str, tmp_path: Path, mailbox: Path
) -> None:
    shared = {"ONWARD_STORE": postgres_store_url, "ONWARD_BLOBS": bucket_url}
    one, another = (Machine(tmp_path / name, **shared) for name in ("one", "another"))
    one.run("ingest", str(mailbox))
    assert len(keys(object_server, bucket_url, "/data-")) == 1
    assert another.run("show", "--raw", f"archives/{another.archive(mailbox)}") == mailbox.read_bytes()


def mails_with_attachments(size: int) -> bytes:
    """A mailbox of about this size with little to read in it."""
    noise = base64.encodebytes(random.Random(0).randbytes(size * 3 // 4 // 2)).decode()
    return "".join(
        f"From ada@example.org Mon Mar  2 09:00:00 2026\nFrom: Ada <ada@example.org>\nSubject: Charts {number}\n"
        f"Message-ID: <{number}@example.org>\nDate: Mon, 02 Mar 2026 09:00:00 +0000\nMIME-Version: 1.0\n"
        'Content-Type: multipart/mixed; boundary="b"\n\n--b\nContent-Type: text/plain\n\nThe charts.\n'
        "--b\nContent-Type: application/octet-stream\nContent-Transfer-Encoding: base64\n"
        f'Content-Disposition: attachment; filename="charts.bin"\n\n{noise}\n--b--\n\n'
        for number in range(2)
    ).encode()


def test_a_worker_that_is_killed_during_an_upload_loses_and_leaves_nothing(
    object_server: ObjectServer, bucket_url: str, tmp_path: Path
) -> None:
    here, bucket = Machine(tmp_path / "home", ONWARD_BLOBS=bucket_url), bucket_url.split("/")[2]
    mailbox = tmp_path / "large.mbox"
    mailbox.write_bytes(mails_with_attachments(20 << 20))
    here.run("ingest", "--no-wait", str(mailbox))
    object_server.ask("hold", part=2)
    with subprocess.Popen(
        [*ONWARD, "worker", "--until-idle", "0"], env=here.environ, stderr=subprocess.DEVNULL
    ) as worker:
        try:
            assert object_server.ask("held", seconds=50), "the upload has begun"
            for pid in descendants(worker.pid):
                os.kill(pid, signal.SIGKILL)
            assert keys(object_server, bucket_url, "/data-") == [], "nothing is found of it"
        finally:
            object_server.ask("release")
        until(lambda: worker.poll() is not None, "the worker has nothing left to do")
    with closing(build(here.settings)) as app:
        assert source_status(app, str(mailbox)).status == "completed"
        assert len(keys(object_server, bucket_url, "/data-")) == 1
        assert len(uploads(object_server, bucket_url)) == 1, "that of the killed process"
        assert collect_blobs(app) == 0
        assert len(uploads(object_server, bucket_url)) == 1, "it is young"
        object_server.ask("age", bucket=bucket, part_of_key="blobs/", seconds=100_000)
        assert collect_blobs(app) == 0, "the whole one has a document"
        assert uploads(object_server, bucket_url) == []
    assert here.run("show", "--raw", f"archives/{here.archive(mailbox)}") == mailbox.read_bytes()
