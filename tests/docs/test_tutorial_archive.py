"""The tutorial of the pipeline does what it says: every command is run on the sample, its output compared.

In an output, `…` stands for any text, and alone on a line for any lines. An id is made from where the source
lies: eight hexadecimal digits stand for the same id wherever they are shown.
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
SAMPLE = ROOT / "examples" / "sample" / "harbour-list.mbox"
TUTORIAL = (ROOT / "docs" / "tutorial-archive.md").read_text()
ID = re.compile(r"\b[0-9a-f]{8}\b")
SOME_FAILED = 3
"""The exit code that the tutorial explains: done, but not all of it."""


def commands() -> Iterator[tuple[str, str]]:
    """Each command with the output that the tutorial shows."""
    for block in re.findall(r"^```console\n(.*?)^```$", TUTORIAL, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


def pattern(shown: str, ids: dict[str, str]) -> str:
    """What an output must look like; an id that was not seen before may be any, but the same everywhere."""
    seen: set[str] = set()

    def group(found: re.Match[str]) -> str:
        id = found[0]
        if id in ids:
            return ids[id]
        if id in seen:
            return f"(?P=id_{id})"
        seen.add(id)
        return f"(?P<id_{id}>[0-9a-f]{{8,}})"

    lines = [
        r"(?:.*\n)*?" if line == "…" else ID.sub(group, re.escape(line)).replace("…", ".*") + r"\n"
        for line in shown.splitlines()
    ]
    return "".join(lines)


def test_every_command_says_what_the_tutorial_shows(tmp_path: Path) -> None:
    shutil.copy(SAMPLE, tmp_path)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ONWARD_", "RETRY_"))}
    environment |= {"PATH": f"{Path(sys.executable).parent}:{environment['PATH']}", "COLUMNS": "80", "TZ": "UTC"}
    ids: dict[str, str] = {}
    for shown_command, shown in commands():
        if shown_command.startswith("pip install"):
            continue  # it is what runs this test
        command = ID.sub(lambda found: ids[found[0]], shown_command)
        ran = subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, text=True, capture_output=True, check=False
        )
        told = f"$ {command}\n{ran.stdout}{ran.stderr}"
        assert ran.returncode == (SOME_FAILED if "harbour-list.mbox" in command else 0), told
        found = re.fullmatch(pattern(shown, ids), ran.stdout)
        assert found is not None, told
        ids.update({name.removeprefix("id_"): id for name, id in found.groupdict().items()})
    assert len(ids) > 3, "the tutorial opens what it has found"


def test_the_tutorial_uses_one_kind_of_block() -> None:
    languages = set(re.findall(r"^```(\w+)$", TUTORIAL, re.MULTILINE))
    assert languages == {"console"}, "a block of another kind would not be tested"
