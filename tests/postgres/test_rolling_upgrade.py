"""Workers of a released version and of this one side by side on one store: nothing is lost or doubled."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path

import psycopg
import pytest

from onward.ledger.postgres.connections import OLDEST_COMPATIBLE_VERSION
from onward.torture.fault_injection import TortureHooks
from onward.torture.torture_run import LEASE_SECONDS, Scratch, TortureOptions, _Run, open_scratch
from onward.torture.worker_groups import Fleet, WorkerGroup
from onward.torture.workload import build
from tests.conftest import need_server
from tests.store.released.kept_stores import VERSIONS, kept_facts
from tests.support.servers import PostgresServer
from tests.support.supervised_workers import ROOT, until

pytestmark = [pytest.mark.prove, pytest.mark.timeout(600)]

FIRST, DOCUMENTS, KILLS, SEED = 60, 240, 4, 7
_PUBLISH = """
import sys
from onward.torture.workload import ParcelArrived, WorkloadPlan, build
app, plan = build(), WorkloadPlan(int(sys.argv[1]), int(sys.argv[2]))
for number in range(int(sys.argv[3])):
    parcel = plan.parcel(number)
    app.publish(ParcelArrived.of(parcel), documents=[parcel])
app.close()
"""


def released_code(version: str, folder: Path) -> Path:
    """Return the `src` folder of a released version, out of the history of this repository."""
    commit = kept_facts(version)["commit"]
    found = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=False)
    if found.returncode:
        need_server(f"the code of {version}: commit {commit[:12]} is not in this clone; git fetch --unshallow")
    with tarfile.open(fileobj=BytesIO(found.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


class MixedFleet(Fleet):
    """One group of old workers and one of new ones; an old group that ends by itself is replaced by a new one."""

    old_environ: Mapping[str, str]
    old_group: WorkerGroup | None = None
    ended_by_itself = False

    def fill(self) -> None:
        if self.old_group is None:
            self.old_group = WorkerGroup(self.folder, self.old_environ, processes=self.processes, lease=self.lease)
            self.groups.append(self.old_group)
        elif not self.old_group.is_up and self.old_group.process.returncode != -9:
            self.ended_by_itself = True
        elif not self.old_group.is_up:  # the run has killed it: another old one takes its place
            self.old_group = None
        super().fill()


@pytest.mark.parametrize("version", VERSIONS)
def test_old_and_new_workers_share_a_store_under_load(
    version: str, tmp_path: Path, needs_postgres: None, report: Callable[[str], None]
) -> None:
    code = released_code(version, tmp_path)
    with PostgresServer(fsync=False) as server, open_scratch(server.url()) as scratch:
        old = {**scratch.environ, "PYTHONPATH": str(code)}
        arguments = [str(number) for number in (DOCUMENTS, SEED, FIRST)]
        subprocess.run([sys.executable, "-c", _PUBLISH, *arguments], env=old, cwd=tmp_path, check=True)
        fleet = MixedFleet(scratch.folder, scratch.environ, 1, 2, LEASE_SECONDS)
        fleet.old_environ = old
        with fleet:
            schema = scratch.store.rpartition("=")[2]
            counted = (
                f"SELECT sum(n) FROM {schema}.status_counts WHERE collection = 'labels' AND status = 'processed'"
            )
            with psycopg.connect(server.url(), autocommit=True) as connection:
                until(lambda: (connection.execute(counted.encode()).fetchone() or (0,))[0], "old workers work")
            fleet.size = 2  # from now on, a new group, which upgrades the tables
            facts = run(scratch, fleet)
            log = (scratch.folder / "log").read_text()
    report(" ".join(f"{name} {value}" for name, value in facts.items() if isinstance(value, int | float)))
    assert (facts["lost"], facts["doubled"], facts["blamed"], facts["unfinished"]) == (0, 0, 0, 0)
    assert facts["finished"] == DOCUMENTS
    assert facts["clean"]
    if kept_facts(version)["postgres"]["schema_version"] >= OLDEST_COMPATIBLE_VERSION:
        assert not fleet.ended_by_itself, "old workers go on"
    elif fleet.ended_by_itself:
        assert "written by a newer Onward" in log or "by a newer Onward while" in log


def run(scratch: Scratch, fleet: Fleet) -> dict[str, object]:
    app = build(scratch.settings)
    try:
        options = TortureOptions(documents=DOCUMENTS, kills=KILLS, processes=2, workers=2, seed=SEED)
        torture = _Run(options, scratch, app, fleet, lambda _: None, TortureHooks())
        torture._published = FIRST
        return torture.run().as_dict()
    finally:
        app.close()
