"""The example with a welcome mail: it is sent once for a user who is stored, and never for one who is not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.caller_connections import place_of

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=("sqlite", "postgres"))
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'onward.db'}"
        return
    url = str(request.getfixturevalue("postgres_store_url"))
    yield url
    with psycopg.connect(place_of(url).conninfo) as connection:
        connection.execute("DROP TABLE IF EXISTS public.users")


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
