"""The example with a welcome mail: it is sent once for a user who is stored, and never for one who is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def sign_up(store_url: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ONWARD_")}
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    return subprocess.run(
        [sys.executable, "-m", "examples.welcome", "anna@example.org"],
        cwd=folder,
        env=environment | {"ONWARD_STORE": store_url, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.prove
def test_a_user_gets_one_mail(store_url: str, tmp_path: Path) -> None:
    first = sign_up(store_url, tmp_path)
    assert (first.returncode, first.stdout) == (0, "To anna@example.org: welcome!\n"), first.stderr
    again = sign_up(store_url, tmp_path)
    assert (again.returncode, again.stdout) == (1, ""), "the address is taken, so nothing was published"
    assert "IntegrityError" in again.stderr


def test_the_example_is_short() -> None:
    assert len((ROOT / "examples" / "welcome.py").read_text().splitlines()) < 40
