"""The manifests of `deploy/kubernetes` as they are applied, and what is asked of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.kustomize import Manifest, build

KUBERNETES = Path(__file__).parents[2] / "deploy" / "kubernetes"
OVERLAYS = ("small", "autoscaled")
BUILDS = (*OVERLAYS, "upgrade")
WORKERS = ("onward-intake", "onward-text", "onward-embedding", "onward-summarization")


def objects(name: str, kind: str = "") -> list[Manifest]:
    """The objects of an overlay, or of the job before it, of one kind or all."""
    folder = KUBERNETES / name if name == "upgrade" else KUBERNETES / "overlays" / name
    return [one for one in build(folder) if not kind or one["kind"] == kind]


def named(name: str, kind: str) -> dict[str, Manifest]:
    return {one["metadata"]["name"]: one for one in objects(name, kind)}


def pods(found: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """Each pod template among some objects, with the name of what makes pods of it."""
    for one in found:
        if "template" in one.get("spec", {}):
            yield one["metadata"]["name"], one["spec"]["template"]


def ours(found: list[Manifest]) -> dict[str, dict[str, Any]]:
    """The only container of each pod of Onward."""
    containers = {}
    for name, pod in pods(found):
        if pod["metadata"]["labels"]["app.kubernetes.io/name"] == "onward":
            (containers[name],) = pod["spec"]["containers"]
    return containers


def settings_of(found: list[Manifest], container: dict[str, Any]) -> dict[str, str]:
    """The variables of a container, with those of its config map."""
    maps = {one["metadata"]["name"]: one["data"] for one in found if one["kind"] == "ConfigMap"}
    environ: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        environ |= maps[source["configMapRef"]["name"]]
    return environ | {one["name"]: one["value"] for one in container["env"]}


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Whether a label selector selects something with these labels."""
    for rule in selector.get("matchExpressions", ()):
        is_in = labels.get(rule["key"]) in rule["values"]
        if is_in != {"In": True, "NotIn": False}[rule["operator"]]:
            return False
    wanted: dict[str, str] = selector.get("matchLabels", {})
    return wanted.items() <= labels.items()


def build_with(folder: Path, *, resource: str, component: str) -> list[Manifest]:
    """Build an overlay of a resource with a component, as a user would write one."""
    where = os.path.relpath(KUBERNETES.resolve(), folder.resolve())
    text = f"resources: [{where}/{resource}]\ncomponents: [{where}/components/{component}]\n"
    (folder / "kustomization.yaml").write_text(text)
    return list(build(folder))
