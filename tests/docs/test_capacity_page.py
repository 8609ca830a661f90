"""The page about planning shows what the command prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.support.command_runs import onward

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "plan-capacity.md"
SHOWN = re.findall(r"^```text\n\$ onward (.*?)\n(.*?)```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("command", "output"),
    [pytest.param(*one, marks=[pytest.mark.prove] if "--simulate" in one[0] else []) for one in SHOWN],
)
def test_the_output_is_real(tmp_path: Path, command: str, output: str) -> None:
    printed = onward(tmp_path / "home", *shlex.split(command)).stdout
    assert "\n".join(line.rstrip() for line in printed.splitlines()).strip() == output.strip()


def test_both_are_shown() -> None:
    assert len(SHOWN) == 2
