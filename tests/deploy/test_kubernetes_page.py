"""The page about Kubernetes: commands are accepted, numbers are those of the manifests, queries of KEDA work."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml  # type: ignore[import-untyped]

from onward.ledger.postgres.connections import MAX_CONNECTIONS
from onward.ledger.postgres.inspection import MAX_PROCESS_CONNECTIONS
from tests.conftest import need_server
from tests.deploy.cluster import KUBERNETES, OVERLAYS, WORKERS, named, objects, ours
from tests.deploy.test_compose import parse
from tests.observe.servers import PrometheusServer, scrape
from tests.support.command_runs import SAMPLE, environment, onward
from tests.support.servers.__main__ import find_monitoring, missing_monitoring
from tests.support.servers.private import HOST, free_port
from tests.support.supervised_workers import until

pytestmark = pytest.mark.usefixtures("needs_kustomize")

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "kubernetes.md").read_text()
TEXTS = [
    PAGE,
    (ROOT / "deploy" / "README.md").read_text(),
    (KUBERNETES / "upgrade" / "kustomization.yaml").read_text(),
]
KUBECTL = sorted(
    {line.strip() for text in TEXTS for line in re.findall(r"^#? *(kubectl .*)$", text, re.MULTILINE)}
)
BUSY = 10
"""The connections of a worker pod that works, at most, as measured with the pipeline."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def table(first: str) -> dict[str, list[str]]:
    """The rows of the table whose head contains a text, by their first cell."""
    found = next(part for part in PAGE.split("\n\n") if part.startswith("|") and first in part.splitlines()[0])
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in found.splitlines()[2:]]
    return {row[0].strip("`"): row[1:] for row in rows}


# -- commands


@cache
def flags(command: str) -> str:
    """What `kubectl` says about the options of a command."""
    helped = subprocess.run(
        ["kubectl", *command.split(), "--help"], capture_output=True, text=True, check=True
    ).stdout
    return helped + subprocess.run(["kubectl", "options"], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("line", KUBECTL)
def test_kubectl_takes_what_the_page_tells_to_type(line: str) -> None:
    words = shlex.split(line.partition(" -- ")[0])
    name = "create secret generic" if words[1] == "create" else words[1]
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl on this machine")
    for flag in (word.partition("=")[0] for word in words if word.startswith("--")):
        assert f"{flag}=" in flags(name) or f"{flag} " in flags(name), f"kubectl {name} has no {flag}"


@pytest.mark.parametrize("line", KUBECTL)
def test_what_the_page_names_is_there(line: str) -> None:
    kinds = {"deployment": "Deployment", "service": "Service", "job": "Job"}
    for path in re.findall(r"deploy/kubernetes/\S+", line):
        assert (ROOT / path).is_file() or (ROOT / path / "kustomization.yaml").is_file()
    for kind, name in re.findall(r"\b(deployment|service|job)[/ ]([\w-]+)", line):
        assert name in {**named("small", kinds[kind]), **named("upgrade", kinds[kind])}
    if " -- onward " in line:
        parse(shlex.split(line.partition(" -- onward ")[2]))
    for target in re.findall(r"port-forward .*?\d+:(\d+)", line):
        ports = named("small", "Service")["onward-console"]["spec"]["ports"]
        assert [port["port"] for port in ports] == [int(target)]


def test_there_are_commands_to_check() -> None:
    assert {line.split()[1] for line in KUBECTL} >= {"apply", "create", "wait", "exec", "port-forward", "delete"}


def test_objects_on_the_page_are_valid() -> None:
    policy, config = (yaml.safe_load(block) for block in blocks("yaml"))
    kubernetes_validate.validate(policy, "1.30", strict=True)
    components = {
        one["metadata"]["labels"]["app.kubernetes.io/component"] for one in objects("small", "Deployment")
    }
    (rule,) = policy["spec"]["podSelector"]["matchExpressions"]
    assert set(rule["values"]) < components
    assert config["scrape_configs"][0]["job_name"] == "onward"


# -- numbers


def test_the_table_of_deployments_names_their_services() -> None:
    listed = table("services")
    assert listed.keys() == named("small", "Deployment").keys()
    for who in WORKERS:
        run = parse(ours(objects("small"))[who]["args"]).params["services"].split(",")
        assert re.findall(r"`(\w+)`", listed[who][0]) == list(dict.fromkeys(one.partition(".")[0] for one in run))


def test_the_table_of_scaling_has_the_numbers_of_the_scaled_objects() -> None:
    listed = table("queue_depth")
    scaled = named("autoscaled", "ScaledObject")
    assert listed.keys() == scaled.keys()
    for name, one in scaled.items():
        spec = one["spec"]
        pods = f"{spec['minReplicaCount']} to {spec['maxReplicaCount']}"
        assert listed[name] == [pods, *(trigger["metadata"]["threshold"] for trigger in spec["triggers"])]


def test_the_table_of_connections_is_what_the_pools_allow() -> None:
    # The pools of the supervisor, of the process with its LISTEN, and of the process for fetched bytes.
    worker = MAX_CONNECTIONS + MAX_PROCESS_CONNECTIONS + MAX_CONNECTIONS
    assert f"The limit is {worker}:" in PAGE
    retry_job, console = MAX_CONNECTIONS, 2 * MAX_CONNECTIONS
    pods = {
        "overlays/small": len(WORKERS),
        "overlays/autoscaled": sum(
            one["spec"]["maxReplicaCount"] for one in objects("autoscaled", "ScaledObject")
        ),
    }
    listed = {name: [int(cell) for cell in row] for name, row in table("connections when").items()}
    assert listed == {
        name: [count, count * BUSY + 3 + MAX_CONNECTIONS, count * worker + retry_job + console]
        for name, count in pods.items()
    }
    (postgres,) = (one["spec"]["template"]["spec"] for one in objects("small", "StatefulSet"))
    (allowed,) = re.findall(r"max_connections=(\d+)", " ".join(postgres["containers"][0]["args"]))
    assert int(allowed) > listed["overlays/small"][-1]


def test_the_grace_on_the_page_is_that_of_the_workers() -> None:
    for name in OVERLAYS:
        pod = named(name, "Deployment")["onward-text"]["spec"]["template"]["spec"]
        assert f"`terminationGracePeriodSeconds` is {pod['terminationGracePeriodSeconds']};" in PAGE


# -- Prometheus


@pytest.fixture(scope="module")
def needs_monitoring() -> None:
    """Its name marks the tests that use it as long proofs."""
    need_server("; ".join(missing_monitoring()))


def test_prometheus_accepts_the_configuration_on_the_page(needs_monitoring: None, tmp_path: Path) -> None:
    # The Prometheus of Debian is built without Kubernetes: who is to be scraped is left out, the rest is checked.
    config = yaml.safe_load(blocks("yaml")[1])
    assert [one["role"] for one in config["scrape_configs"][0].pop("kubernetes_sd_configs")] == ["pod"]
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump(config))
    checked = subprocess.run(
        [find_monitoring("promtool") or "", "check", "config", "--syntax-only", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr


@contextmanager
def retry_job(home: Path, port: int) -> Iterator[None]:
    """The process whose metrics are there even if all workers are scaled to zero."""
    environ = {**os.environ, **environment(home), "ONWARD_METRICS_ADDRESS": f"{HOST}:{port}"}
    process = subprocess.Popen(
        [sys.executable, "-m", "onward", "retry-job"], env=environ, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def test_every_query_of_keda_gets_a_number_and_none_during_an_outage(
    needs_monitoring: None, tmp_path: Path
) -> None:
    home, port = tmp_path / "home", free_port()
    assert onward(home, "ingest", "--no-wait", str(SAMPLE)).exit_code == 0
    scaled: dict[str, Any] = named("autoscaled", "ScaledObject")
    queries = {
        name: [trigger["metadata"]["query"] for trigger in one["spec"]["triggers"]] for name, one in scaled.items()
    }
    config = {"scrape_configs": [scrape("onward", f"{HOST}:{port}")]}
    with retry_job(home, port), PrometheusServer(config) as server:

        def values(name: str) -> list[list[float]]:
            """What KEDA gets for each trigger: one number, or none, which it takes for 0."""
            return [[value for _, value in server.query(query)] for query in queries[name]]

        until(lambda: values("onward-intake")[0] == [1.0], "the submitted source is counted", 120.0)
        until(lambda: values("onward-intake")[1] > [0.0], "its age is known", 120.0)
        for name in ("onward-text", "onward-embedding", "onward-summarization"):
            assert values(name) == [[0.0], [0.0]], name
        assert onward(home, "breakers", "open", "embedder", "--reason", "moving it").exit_code == 0
        until(lambda: values("onward-embedding") == [[], []], "its workers are not scaled by the outage", 120.0)
        assert values("onward-summarization") == [[0.0], [0.0]]
