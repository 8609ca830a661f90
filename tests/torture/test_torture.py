"""`onward torture` in small: whatever is killed, nothing is lost, doubled, or blamed on the innocent."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onward.torture.servers import postgres, rabbitmq
from tests.conftest import need_server
from tests.torture.stopping import environment

DOCUMENTS, KILLS = 160, 6


def onward_torture(folder: Path, *options: str, timeout: float = 550.0) -> subprocess.CompletedProcess[str]:
    """Run the command as a user would, with a temporary folder that can be looked into."""
    command = [sys.executable, "-m", "onward", "torture", *options]
    return subprocess.run(
        command, env=environment(folder), capture_output=True, text=True, check=False, timeout=timeout, cwd=folder
    )


def test_what_cannot_be_asked_for_together_is_refused(tmp_path: Path) -> None:
    ended = onward_torture(tmp_path, "--private", "--store", "sqlite:///mine.db")
    assert ended.returncode == 2
    assert "leave out --store and --bus" in ended.stderr


@pytest.mark.timeout(600)
@pytest.mark.parametrize("servers", ("sqlite", "postgresql", "rabbitmq"))
def test_nothing_is_lost_doubled_or_blamed(servers: str, tmp_path: Path, report: Callable[[str], None]) -> None:
    options = ["--documents", str(DOCUMENTS), "--kills", str(KILLS), "--server-kills", "2", "--json"]
    if servers != "sqlite":
        need_server(postgres.why_missing())
        options += ["--private", servers]
    if servers == "rabbitmq":
        need_server(rabbitmq.why_missing())
    ended = onward_torture(tmp_path, *options)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    facts: dict[str, Any] = json.loads(ended.stdout)
    report(" ".join(f"{name} {value}" for name, value in facts.items() if isinstance(value, int | float)))

    assert (facts["documents"], facts["finished"]) == (DOCUMENTS, DOCUMENTS)
    assert (facts["lost"], facts["doubled"], facts["blamed"], facts["unfinished"]) == (0, 0, 0, 0)
    assert facts["kills"] == KILLS
    assert facts["workers_killed"] + facts["supervisors_killed"] + facts["crews_killed"] == KILLS
    assert facts["server_kills"] == (0 if servers == "sqlite" else 2)
    assert facts["poison_caught"] == facts["poison"] == 2
    assert facts["set_aside"] == 4, "two that kill their process, one that cannot be read, one that always fails"
    assert facts["sent_again"] > 0
    assert facts["duplicates_reported"] <= facts["sent_again"]
    assert facts["zombies"] <= 1
    assert facts["zombies_unrefused"] == 0, "what wakes up late is refused"
    assert facts["late_works_refused"] >= facts["zombies"]
    assert facts["clean"]
    assert list(tmp_path.glob("onward_torture_*")) == [], "the scratch place is gone"
