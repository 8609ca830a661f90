"""Identities of processes: whether a process of this machine has ended, and the identity of this one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onward.ledger.store import Store

_PROC = Path("/proc")


def describe_process(pid: int | None = None) -> dict[str, Any]:
    """Return a text that identifies a process (None: this one); empty if the system has no such data."""
    machine, born = _machine(), _born(os.getpid() if pid is None else pid)
    return {"machine": machine, "born": born} if machine and born else {}


def is_gone(about: dict[str, Any]) -> bool:
    """Return whether the process with this identity is known to have ended. Only its own machine knows."""
    machine = about.get("machine")
    if not machine or machine != _machine():
        return False
    return _born(int(about["pid"])) != about.get("born")


def user_name() -> str:
    """Return the name of the user who runs this process."""
    import getpass  # not at the top: most processes do not need it

    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"  # a process without a user name, as in some containers


def alive_workers(store: Store) -> list[dict[str, Any]]:
    """Return the workers that were seen lately, without processes of this machine that have ended."""
    return [one for one in store.workers() if not is_gone(one)]


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
    # A zombie is as good as gone: it only waits for its parent to reap it.
    return "" if fields[0] in "ZX" else fields[19]
