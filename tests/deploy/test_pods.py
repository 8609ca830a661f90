"""Each container of the manifests, started as its pod would start it: its user, its folders, its probes, its end.

There is no cluster here. A mount namespace stands for the container: the root file system is read-only, `/tmp` is
empty, and below `POD` are the volumes. The user has one capability: to read this checkout, wherever it is.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.deploy.cluster import WORKERS, objects, ours
from tests.deploy.cluster import settings_of as settings_in
from tests.support.servers import PostgresServer
from tests.support.servers.private import HOST, free_port
from tests.support.supervised_workers import ROOT, until

pytestmark = [pytest.mark.prove, pytest.mark.usefixtures("needs_kustomize", "needs_namespaces")]

POD = "/mnt"
USER = 10001
PATIENCE = 180.0
_CONTAINER = f"""
set -eu
mount --make-rprivate /
mount --bind "$1" {POD}
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -o remount,bind,ro /
shift
exec setpriv --reuid {USER} --regid {USER} --clear-groups --no-new-privs \\
  --bounding-set -all,+dac_read_search --inh-caps -all,+dac_read_search --ambient-caps +dac_read_search "$@"
"""
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@pytest.fixture(scope="module")
def needs_namespaces() -> None:
    """For tests that need what only root may do."""
    if os.geteuid() != 0 or not shutil.which("setpriv") or subprocess.call(["unshare", "--mount", "true"]):
        pytest.skip("a mount namespace cannot be made here: that needs root, unshare and setpriv")


class Pod:
    """A container of a manifest, with its volumes in a folder, and a free port instead of the one of its pod."""

    def __init__(self, name: str, folder: Path, secrets: dict[str, str]) -> None:
        found = objects("upgrade" if name == "onward-upgrade" else "small")
        self.container = ours(found)[name]
        self.port = free_port()
        for volume in ("data", "secrets"):
            (folder / volume).mkdir()
            shutil.chown(folder / volume, USER, USER)
        environ = settings_in(found, self.container)
        for key, value in environ.items():
            if key.endswith("_FILE"):
                secret = folder / "secrets" / Path(value).name
                secret.write_text(secrets[secret.name])
                secret.chmod(0o440)
                shutil.chown(secret, USER, USER)
                environ[key] = f"{POD}/secrets/{secret.name}"
        if "ONWARD_METRICS_ADDRESS" in environ:
            environ["ONWARD_METRICS_ADDRESS"] = f"{HOST}:{self.port}"
        self.args = [word.replace(":8321", f":{self.port}") for word in self.container["args"]]
        self.environ = {
            "PATH": os.defpath,
            "PYTHONPATH": str(ROOT / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "ONWARD_HOME": f"{POD}/data",
            **environ,
        }
        self.folder, self.log = folder, folder / "log"

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        command = [
            "unshare",
            "--mount",
            "sh",
            "-c",
            _CONTAINER,
            "sh",
            str(self.folder),
            sys.executable,
            "-m",
            "onward",
        ]
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                [*command, *self.args], cwd="/", env=self.environ, stdout=log, stderr=log, start_new_session=True
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def ask(self, probe: str) -> int:
        """The status that a probe gets, which names the pod by its address as the kubelet does."""
        path = self.container[f"{probe}Probe"]["httpGet"]["path"]
        request = urllib.request.Request(
            f"http://{HOST}:{self.port}{path}", headers={"Host": f"10.42.0.7:{self.port}"}
        )
        try:
            with _OPENER.open(request, timeout=10) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except OSError:
            return 0


@pytest.fixture(scope="module")
def secrets(needs_postgres: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A store whose tables were made by the job that comes first."""
    with PostgresServer(fsync=False) as server:
        found = {"store_url": f"{server.url()}\n", "console_token": "open-sesame-open-sesame\n"}
        job = Pod("onward-upgrade", tmp_path_factory.mktemp("upgrade"), found)
        with job.running() as process:
            assert process.wait(PATIENCE) == 0, job.log.read_text()
        assert "the tables were created" in job.log.read_text()
        yield found


@pytest.mark.parametrize("name", (*WORKERS, "onward-retry-job", "onward-console"))
def test_a_container_starts_answers_its_probes_and_ends(
    name: str, secrets: dict[str, str], tmp_path: Path
) -> None:
    pod = Pod(name, tmp_path, secrets)
    with pod.running() as process:
        until(lambda: process.poll() is not None or pod.ask("readiness") == 200, f"{name} is ready", PATIENCE)
        assert process.poll() is None, pod.log.read_text()
        assert (pod.ask("startup"), pod.ask("liveness")) == (200, 200)
        status = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        assert f"Uid:\t{USER}\t{USER}\t{USER}\t{USER}" in status
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0, pod.log.read_text()
    assert "Read-only file system" not in pod.log.read_text()


def test_a_container_can_write_to_its_volumes_alone(tmp_path: Path) -> None:
    """What stands for the container here does keep a program from writing elsewhere."""
    code = "import sys; open(sys.argv[1], 'w').write('x')"
    (tmp_path / "data").mkdir()
    shutil.chown(tmp_path / "data", USER, USER)
    written = {
        path: subprocess.call(
            ["unshare", "--mount", "sh", "-c", _CONTAINER, "sh", str(tmp_path), sys.executable, "-c", code, path],
            stderr=subprocess.DEVNULL,
        )
        for path in (f"{POD}/data/file", "/tmp/file", str(ROOT / "file"), "/etc/file", "/var/tmp/file")
    }
    assert [path for path, code in written.items() if code == 0] == [f"{POD}/data/file", "/tmp/file"]


def test_readiness_follows_the_store_and_liveness_does_not(
    secrets: dict[str, str], tmp_path: Path, needs_postgres: None
) -> None:
    with PostgresServer(fsync=False) as server:
        pod = Pod("onward-text", tmp_path, secrets | {"store_url": server.url()})
        with pod.running() as process:
            until(lambda: pod.ask("readiness") == 200, "it is ready", PATIENCE)
            server.stop()
            until(lambda: pod.ask("readiness") == 503, "it says that the store is away", PATIENCE)
            assert pod.ask("liveness") == 200, "a restart would not help"
            server.start()
            until(lambda: pod.ask("readiness") == 200, "it is ready again", PATIENCE)
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0, pod.log.read_text()
