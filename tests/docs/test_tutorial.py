"""The tutorial does what it says: every command is run, its output compared, its code found in its files.

In an output, `…` stands for any text, and alone on a line for any lines. A worker may log more than is shown.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.prove

ROOT = Path(__file__).parents[2]
FILES = ROOT / "examples" / "tutorial"
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TUTORIAL, re.MULTILINE | re.DOTALL)


def commands() -> Iterator[tuple[str, str]]:
    """Each command with the output that the tutorial shows."""
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


def matches(shown: str, output: str, *, may_say_more: bool) -> bool:
    lines = [
        r"(?:.*\n)*" if line == "…" else re.escape(line).replace("…", ".*") + r"\n" for line in shown.splitlines()
    ]
    between = r"(?:.*\n)*" if may_say_more else ""
    return re.fullmatch(between + between.join(line + between for line in lines), output) is not None


def test_every_command_says_what_the_tutorial_shows(tmp_path: Path) -> None:
    here = tmp_path / "tutorial"
    shutil.copytree(FILES, here, ignore=shutil.ignore_patterns("__pycache__", "onward-data"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)  # a checkout, as readers have it: it configures pytest
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ONWARD_", "RETRY_"))}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    environment["ONWARD_LOG_FORMAT"] = "text"  # as on a terminal, where a reader has it
    for command, shown in commands():
        if command.startswith("pip install"):
            continue  # it is what runs this test
        ran = subprocess.run(
            command,
            shell=True,
            cwd=here,
            env=environment,
            text=True,
            stdout=-1,
            stderr=subprocess.STDOUT,
            check=False,
        )
        assert ran.returncode == 0, f"$ {command}\n{ran.stdout}"
        assert matches(shown, ran.stdout, may_say_more="onward worker" in command), f"$ {command}\n{ran.stdout}"


def test_every_piece_of_code_is_in_the_file_it_names() -> None:
    for block in blocks("python"):
        name, _, code = block.removeprefix("# ").partition("\n")
        assert code in (FILES / name).read_text(), f"docs/tutorial.md shows other code than {name} holds"


def test_the_tutorial_uses_all_kinds_of_blocks() -> None:
    languages = set(re.findall(r"^```(\w+)$", TUTORIAL, re.MULTILINE))
    assert languages == {"console", "python"}, "a block of another kind would not be tested"
