"""The page about simulated outages shows what the command prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.support.command_runs import onward

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "simulate.md"


@pytest.mark.prove
def test_the_output_is_real(tmp_path: Path) -> None:
    found = re.search(r"^```text\n\$ onward (.*?)\n(.*?)```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    printed = onward(tmp_path / "home", *shlex.split(found[1])).stdout
    lines = "\n".join(line.rstrip() for line in printed.splitlines()).strip()
    assert lines == found[2].strip()
