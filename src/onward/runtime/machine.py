"""Which processes of this machine are still there, and which one this is."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

_PROC = Path("/proc")
_forks: list[None] = []
os.register_at_fork(after_in_child=partial(_forks.append, None))


def generation() -> int:
    """How many forks this process is away from the first; to ask for its number is a system call."""
    return len(_forks)


def describe_process() -> dict[str, Any]:
    """What tells this process from any other, now and later; empty where the system does not say."""
    machine, born = _machine(), _born(os.getpid())
    return {"machine": machine, "born": born} if machine and born else {}


def is_gone(about: dict[str, Any]) -> bool:
    """Whether a process that described itself so is known to have ended; only its own machine can tell."""
    machine = about.get("machine")
    if not machine or machine != _machine():
        return False
    return _born(int(about["pid"])) != about.get("born")


def _machine() -> str:
    """This boot of this machine, as seen from this container: process numbers mean the same within it."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{(_PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return ""


def _born(pid: int) -> str:
    """When a process began; a number that is used again has another time. Empty: there is none."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    # A zombie is as good as gone: it only waits for its parent to hear of it.
    return "" if fields[0] in "ZX" else fields[19]
