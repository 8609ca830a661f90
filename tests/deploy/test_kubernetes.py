"""The manifests in `deploy/kubernetes` are valid, and start what Onward accepts, with no needless right."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml  # type: ignore[import-untyped]

from onward.model.metric_catalogue import CATALOGUE
from onward.pipeline.app import build as build_pipeline
from onward.runtime.supervisor import DRAIN_GRACE_SECONDS, HANG_GRACE_SECONDS
from onward.settings import load_settings
from tests.deploy.cluster import (
    BUILDS,
    OVERLAYS,
    WORKERS,
    build_with,
    named,
    objects,
    ours,
    pods,
    selects,
)
from tests.deploy.cluster import settings_of as settings_in
from tests.deploy.scaled_object import SCALED_OBJECT
from tests.deploy.test_compose import DEPLOY, DOCKERFILE, KNOWN, parse

pytestmark = pytest.mark.usefixtures("needs_kustomize")

VERSIONS = ("1.30", "1.33", "1.37")
"""The releases whose schemas check the manifests: the oldest that has all they use, and later ones."""
SECRETS = "/run/secrets/onward"
BYTES = {"Mi": 2**20, "Gi": 2**30}
SERVICES = build_pipeline(store="sqlite://:memory:").registry.services


def size(text: str) -> int:
    return int(text[:-2]) * BYTES[text[-2:]]


def services_of(container: dict[str, Any]) -> list[str]:
    return str(parse(container["args"]).params["services"]).split(",")


# -- the schemas of Kubernetes and KEDA


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", BUILDS)
def test_every_object_is_valid_by_the_schema_of_kubernetes(name: str, version: str) -> None:
    checked = 0
    for one in objects(name):
        if one["kind"] != "ScaledObject":
            kubernetes_validate.validate(one, version, strict=True)
            checked += 1
    assert checked == len(objects(name)) - len(objects(name, "ScaledObject")) > 0


def test_a_wrong_object_is_not_valid() -> None:
    """The schemas are strict: a name that Kubernetes would ignore is found, deep inside too."""
    spoilers: tuple[Callable[[Any], object], ...] = (
        lambda pod: pod.update(terminationGraceSeconds=660),
        lambda pod: pod["containers"][0]["securityContext"].update(readOnlyRootFilesytem=True),
        lambda pod: pod["containers"][0]["readinessProbe"]["httpGet"].pop("port"),
    )
    for spoil in spoilers:
        one = copy.deepcopy(named("small", "Deployment")["onward-text"])
        spoil(one["spec"]["template"]["spec"])
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(one, VERSIONS[0], strict=True)


def test_every_scaled_object_is_valid() -> None:
    found = objects("autoscaled", "ScaledObject")
    for one in found:
        jsonschema.validate(one, SCALED_OBJECT)
    assert [one["metadata"]["name"] for one in found] == sorted(WORKERS)
    wrong = copy.deepcopy(found[0])
    wrong["spec"]["triggers"][0]["metadata"]["threshhold"] = "1"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, SCALED_OBJECT)


@pytest.mark.parametrize("name", OVERLAYS)
def test_everything_is_in_one_namespace(name: str) -> None:
    (namespace,) = objects(name, "Namespace")
    spaces = {one["metadata"].get("namespace") for one in objects(name) if one["kind"] != "Namespace"}
    assert spaces == {namespace["metadata"]["name"]}
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


# -- what runs


@pytest.mark.parametrize("name", BUILDS)
def test_every_command_is_one_that_onward_accepts(name: str) -> None:
    run = {who: parse(one["args"]).info_name for who, one in ours(objects(name)).items()}
    others = {"onward-console": "serve", "onward-retry-job": "retry-job"}
    assert run == (
        {"onward-upgrade": "upgrade"} if name == "upgrade" else dict.fromkeys(WORKERS, "worker") | others
    )


@pytest.mark.parametrize("name", OVERLAYS)
def test_every_service_is_run_by_one_deployment(name: str) -> None:
    containers = ours(objects(name))
    run = Counter(service for who in WORKERS for service in services_of(containers[who]))
    assert run == dict.fromkeys(SERVICES, 1)


@pytest.mark.parametrize("name", BUILDS)
def test_every_variable_is_a_setting_and_is_accepted(name: str, tmp_path: Path) -> None:
    for container in ours(objects(name)).values():
        environ = settings_in(objects(name), container)
        assert environ.keys() <= KNOWN
        plain = {one: value for one, value in environ.items() if not one.endswith("_FILE")}
        settings = load_settings(plain, None)
        assert settings.log_format == "json"
        if "ports" in container and container["args"][0] != "serve":
            (port,) = container["ports"]
            assert settings.metrics_address == f"0.0.0.0:{port['containerPort']}"


@pytest.mark.parametrize("name", BUILDS)
def test_the_image_is_named_once_and_has_the_version_of_this_release(name: str) -> None:
    images = {one["image"] for one in ours(objects(name)).values()}
    assert images == {f"registry.example.org/onward:{installed_version('onward')}"}
    others = {
        container["image"]
        for _, pod in pods(objects(name))
        for container in pod["spec"]["containers"]
        if container["image"] not in images
    }
    assert others <= {yaml.safe_load((DEPLOY / "compose.yml").read_text())["services"]["postgres"]["image"]}


def test_a_worker_may_finish_what_it_runs_before_it_is_killed() -> None:
    longest = load_settings({}).time_limit_seconds + HANG_GRACE_SECONDS + DRAIN_GRACE_SECONDS
    for name in OVERLAYS:
        for who in WORKERS:
            assert (
                named(name, "Deployment")[who]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
                > longest
            )


def test_no_number_of_replicas_undoes_what_keda_has_decided() -> None:
    for who in WORKERS:
        assert "replicas" not in named("autoscaled", "Deployment")[who]["spec"]
        assert named("small", "Deployment")[who]["spec"]["replicas"] == 1


# -- rights


@pytest.mark.parametrize("name", BUILDS)
def test_no_container_runs_as_root_or_can_change_its_image(name: str) -> None:
    seen = 0
    for who, pod in pods(objects(name)):
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True, who
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["automountServiceAccountToken"] is False
        assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & spec.keys()
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, who
            seen += 1
        assert all(volume.keys() - {"name"} <= {"secret", "emptyDir"} for volume in spec["volumes"])
    assert seen == {"small": 7, "autoscaled": 6, "upgrade": 1}[name]


@pytest.mark.parametrize("name", BUILDS)
def test_containers_have_the_user_and_the_folders_of_the_image(name: str) -> None:
    (user,) = re.findall(r"useradd .*--uid (\d+)", DOCKERFILE)
    (home,) = re.findall(r"ONWARD_HOME=(\S+)", DOCKERFILE)
    for who, pod in pods(objects(name)):
        if who not in ours(objects(name)):
            continue
        assert pod["spec"]["securityContext"]["runAsUser"] == int(user)
        (container,) = pod["spec"]["containers"]
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        written = {one["mountPath"]: one["name"] for one in container["volumeMounts"] if not one.get("readOnly")}
        assert written == {home: "data", "/tmp": "tmp"}
        assert all("emptyDir" in volumes[volume] for volume in written.values())
        assert size(volumes["data"]["emptyDir"]["sizeLimit"]) > load_settings({}).fetch_max_bytes


@pytest.mark.parametrize("name", BUILDS)
def test_onward_is_not_process_1_and_is_told_nothing_by_the_cluster(name: str) -> None:
    for who, pod in pods(objects(name)):
        assert pod["spec"]["enableServiceLinks"] is False
        assert pod["spec"].get("shareProcessNamespace", False) is (who in ours(objects(name)))


@pytest.mark.parametrize("name", BUILDS)
def test_every_container_has_the_resources_it_asks_for(name: str) -> None:
    for _, pod in pods(objects(name)):
        for container in pod["spec"]["containers"]:
            asked, limits = container["resources"]["requests"], container["resources"]["limits"]
            assert {"cpu", "memory"} <= asked.keys()
            assert size(asked["memory"]) <= size(limits["memory"])
            assert "cpu" not in limits


# -- secrets


@pytest.mark.parametrize("name", BUILDS)
def test_secrets_are_named_and_never_written_down(name: str) -> None:
    assert objects(name, "Secret") == []
    for _, pod in pods(objects(name)):
        (volume,) = (one["secret"] for one in pod["spec"]["volumes"] if "secret" in one)
        assert volume["secretName"] == "onward-secrets"
        keys = {one["key"]: one["path"] for one in volume["items"]}
        (container,) = pod["spec"]["containers"]
        environ = {one["name"]: one["value"] for one in container["env"]}
        files = {value for key, value in environ.items() if key.endswith("_FILE")}
        assert files == {f"{SECRETS}/{path}" for path in keys.values()}, (
            "each container gets what it reads, no more"
        )
        assert all(key == path for key, path in keys.items())
        for key, value in environ.items():
            assert key.endswith("_FILE") or not re.search("PASS|STORE|TOKEN|KEY|GATEWAY", key)
            assert "://" not in value


def test_the_secret_is_made_of_the_files_that_compose_uses() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yml").read_text())
    files = {Path(one["file"]).name for one in compose["secrets"].values()}
    for name in BUILDS:
        for _, pod in pods(objects(name)):
            (volume,) = (one["secret"] for one in pod["spec"]["volumes"] if "secret" in one)
            assert {one["key"] for one in volume["items"]} <= files


def test_a_gateway_is_added_to_every_process_that_publishes(tmp_path: Path) -> None:
    found = build_with(tmp_path, resource="base", component="gateway")
    for who, pod in pods(found):
        environ = settings_in(found, ours(found)[who])
        assert environ["ONWARD_GATEWAY_FILE"] == f"{SECRETS}/gateway_url"
        assert environ.keys() <= KNOWN
        (volume,) = (one["secret"] for one in pod["spec"]["volumes"] if "secret" in one)
        assert {"key": "gateway_url", "path": "gateway_url"} in volume["items"]
        assert {"key": "store_url", "path": "store_url"} in volume["items"]
    for one in found:
        kubernetes_validate.validate(one, VERSIONS[0], strict=True)
    assert "onward-gateway" in {one["metadata"]["name"] for one in found if one["kind"] == "NetworkPolicy"}


# -- probes, budgets, policies, the service


@pytest.mark.parametrize("name", OVERLAYS)
def test_every_process_is_asked_at_a_port_that_it_has(name: str) -> None:
    for container in ours(objects(name)).values():
        (port,) = container["ports"]
        asked = {probe: container[f"{probe}Probe"]["httpGet"] for probe in ("startup", "liveness", "readiness")}
        assert {probe: one["path"] for probe, one in asked.items()} == {
            "startup": "/healthz",
            "liveness": "/healthz",
            "readiness": "/readyz",
        }
        assert {one["port"] for one in asked.values()} == {port["name"]}
        if container["args"][0] == "serve":
            assert parse(container["args"]).params["address"] == f"0.0.0.0:{port['containerPort']}"


@pytest.mark.parametrize("name", OVERLAYS)
def test_prometheus_is_led_to_the_port_of_the_metrics(name: str) -> None:
    for who, pod in pods(objects(name)):
        if who not in (*WORKERS, "onward-retry-job"):
            continue
        (port,) = ours(objects(name))[who]["ports"]
        assert pod["metadata"]["annotations"] == {
            "prometheus.io/scrape": "true",
            "prometheus.io/port": str(port["containerPort"]),
            "prometheus.io/path": "/metrics",
        }


@pytest.mark.parametrize("name", OVERLAYS)
def test_a_drained_node_stops_one_pod_of_a_kind_at_a_time(name: str) -> None:
    labels = {who: pod["metadata"]["labels"] for who, pod in pods(objects(name)) if who in ours(objects(name))}
    budgets = named(name, "PodDisruptionBudget")
    assert budgets.keys() == labels.keys()
    for who, budget in budgets.items():
        assert [one for one in labels if selects(budget["spec"]["selector"], labels[one])] == [who]
        # More, and a node could not be drained where there is one pod.
        assert (budget["spec"]["maxUnavailable"], "minAvailable" in budget["spec"]) == (1, False)


def test_the_service_leads_to_the_console() -> None:
    service = named("small", "Service")["onward-console"]
    selected = [
        who for who, pod in pods(objects("small")) if service["spec"]["selector"].items() <= labels_of(pod).items()
    ]
    assert selected == ["onward-console"]
    (port,) = ours(objects("small"))["onward-console"]["ports"]
    assert [one["targetPort"] for one in service["spec"]["ports"]] == [port["name"]]
    (settings,) = objects("small", "ConfigMap")
    hosts = settings["data"]["ONWARD_SERVE_HOSTS"].split(",")
    assert {"onward-console", "onward-console.onward.svc"} <= set(hosts)


def labels_of(pod: dict[str, Any]) -> dict[str, str]:
    labels: dict[str, str] = pod["metadata"]["labels"]
    return labels


def allowed(name: str, who: str, direction: str) -> set[int]:
    """The ports that the policies of an overlay open for a pod, to it or from it."""
    labels = next(
        labels_of(pod) for found, pod in [*pods(objects(name)), *pods(objects("upgrade"))] if found == who
    )
    ports = set()
    for policy in objects(name, "NetworkPolicy"):
        if selects(policy["spec"]["podSelector"], labels):
            for rule in policy["spec"].get(direction, ()):
                ports |= {port["port"] for port in rule["ports"]}
    return ports


@pytest.mark.parametrize("name", OVERLAYS)
def test_a_pod_reaches_and_is_reached_where_it_has_to_be_and_nowhere_else(name: str) -> None:
    everything = named(name, "NetworkPolicy")["onward-deny-all"]["spec"]
    assert (everything["podSelector"], everything["policyTypes"]) == ({}, ["Ingress", "Egress"])
    for who in (*WORKERS, "onward-retry-job", "onward-console", "onward-upgrade"):
        assert allowed(name, who, "egress") == {53, 5432} | ({80, 443} if who == "onward-intake" else set())
        scraped = {9464} if who in (*WORKERS, "onward-retry-job") else set()
        assert allowed(name, who, "ingress") == (scraped or ({8321} if who == "onward-console" else set()))


def test_nobody_but_onward_reaches_the_postgres_of_the_small_overlay() -> None:
    assert (allowed("small", "postgres", "ingress"), allowed("small", "postgres", "egress")) == ({5432}, set())
    (rule,) = named("small", "NetworkPolicy")["postgres"]["spec"]["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "onward"}}}]
    (rule,) = named("small", "NetworkPolicy")["onward-store"]["spec"]["egress"]
    assert rule["to"] == [{"podSelector": {"matchLabels": {"app.kubernetes.io/name": "postgres"}}}]


@pytest.mark.parametrize("name", OVERLAYS)
def test_every_policy_is_about_a_pod_that_there_is(name: str) -> None:
    labels = [labels_of(pod) for _, pod in pods(objects(name))]
    for policy in objects(name, "NetworkPolicy"):
        assert any(selects(policy["spec"]["podSelector"], one) for one in labels), policy["metadata"]["name"]


# -- KEDA


SCALED = ("onward-embedding", "onward-intake", "onward-summarization", "onward-text")


@pytest.mark.parametrize("who", SCALED)
def test_workers_are_scaled_by_what_waits_for_their_own_services(who: str) -> None:
    one = named("autoscaled", "ScaledObject")[who]["spec"]
    assert one["scaleTargetRef"] == {"name": who}
    run = services_of(ours(objects("autoscaled"))[who])
    queries = [trigger["metadata"]["query"] for trigger in one["triggers"]]
    assert [re.findall(r"queue_\w+", query) for query in queries] == [["queue_depth"], ["queue_oldest_seconds"]]
    for query in queries:
        assert set(re.findall(r"(\w+)\{", query)) <= CATALOGUE.keys()
        assert set(re.findall(r'job="(\w+)"', query)) == {"onward"}
        (pattern,) = re.findall(r'queue=~"([^"]+)"', query)
        assert [name for name in SERVICES if re.fullmatch(pattern, name)] == run


@pytest.mark.parametrize("who", SCALED)
def test_workers_of_a_dependency_are_not_scaled_by_its_outage_nor_to_zero(who: str) -> None:
    one = named("autoscaled", "ScaledObject")[who]["spec"]
    (first, *_) = services_of(ours(objects("autoscaled"))[who])
    needs = [*SERVICES[first].needs]
    for trigger in one["triggers"]:
        assert re.findall(r'dependency="(\w+)"', trigger["metadata"]["query"]) == needs
    # A worker probes its dependency: without one, the breaker would never close.
    assert one["minReplicaCount"] >= len(needs)
    assert one["minReplicaCount"] <= one["fallback"]["replicas"] <= one["maxReplicaCount"]
