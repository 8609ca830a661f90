"""Builds a kustomization with the kustomize of this machine: the program itself, or the one in `kubectl`."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

Manifest = dict[str, Any]


def command() -> list[str] | None:
    """Return the command that builds a folder, without the folder."""
    if found := shutil.which("kustomize"):
        return [found, "build"]
    if found := shutil.which("kubectl"):
        return [found, "kustomize"]
    return None


def why_missing() -> str:
    """Why no kustomization can be built here, and the remedy; empty if one can."""
    if command() is not None:
        return ""
    return "kustomize: found neither `kustomize` (4 or newer) nor `kubectl` (1.21 or newer); install one of them"


@cache
def build(folder: Path) -> tuple[Manifest, ...]:
    """Return the objects that a folder is built into."""
    words = command()
    assert words is not None, why_missing()
    built = subprocess.run([*words, str(folder)], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return tuple(one for one in yaml.safe_load_all(built.stdout) if one)
