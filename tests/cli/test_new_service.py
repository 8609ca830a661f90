"""`onward new-service` writes a service that works as it is, and never overwrites a file."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest

from onward.cli.new_service import MAX_NAME, render
from tests.support.command_runs import ROOT, onward

LONG = "customer-invoice-reading-service"


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with the default settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ONWARD_", "RETRY_"))}
    environment = kept | {"ONWARD_METRICS_ADDRESS": "off", "ONWARD_LOG_FORMAT": "json"}
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def make(folder: Path, name: str) -> None:
    assert onward(folder / "home", "new-service", name, "--into", str(folder)).exit_code == 0


def files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


# -- what it writes


@pytest.mark.parametrize("name", ("invoice-reading", "invoice_reading"))
def test_three_files_are_written(tmp_path: Path, name: str) -> None:
    done = onward(tmp_path / "home", "new-service", name, "--into", str(tmp_path / "new" / "folder"), "--json")
    facts = json.loads(done.stdout)
    assert done.exit_code == 0
    assert {key: facts[key] for key in ("service", "dry_run")} == {"service": "invoice_reading", "dry_run": False}
    names = ["invoice_reading.py", "test_invoice_reading.py", "invoice_reading.dashboard.json"]
    assert [Path(file).name for file in facts["files"]] == names
    assert files(tmp_path / "new" / "folder") == sorted(names)


def test_its_names_are_those_of_the_service() -> None:
    texts = render("invoice_reading")
    assert not re.search("new_?service", "".join(texts.values()), re.IGNORECASE)
    code = texts["invoice_reading.py"]
    assert re.findall(r"class (\w+)", code) == [
        "InvoiceReadingInput",
        "InvoiceReadingResult",
        "InvoiceReadingRequested",
    ]
    board = json.loads(texts["invoice_reading.dashboard.json"])
    assert (board["uid"], board["title"]) == ("onward-invoice_reading", "invoice_reading")


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    args = ("new-service", "invoice-reading", "--into", str(tmp_path / "new"), "--dry-run")
    done = onward(tmp_path / "home", *args)
    assert done.exit_code == 0
    assert str(tmp_path / "new" / "test_invoice_reading.py") in done.stdout
    assert json.loads(onward(tmp_path / "home", *args, "--json").stdout)["dry_run"] is True
    assert files(tmp_path) == []


# -- what it refuses


@pytest.mark.parametrize(
    ("name", "remedy"),
    (
        ("InvoiceReading", "such as invoice-reading"),
        ("parsing", "such as parsing-service"),
        ("read 2 invoices", "such as read-2-invoices"),
        ("2fa", "such as invoice-reading"),
        ("Überweisung", "such as invoice-reading"),
        ("invoice.reading", "such as invoice-reading"),
        ("../reading", "such as reading"),
        ("invoice--reading", "such as invoice-reading"),
        ("a" * (MAX_NAME + 1), f"up to {MAX_NAME} lower-case letters"),
        ("", "such as invoice-reading"),
        ("class", "such as class-service"),
        ("email", "such as email-service"),
        ("onward", "such as onward-service"),
    ),
)
def test_a_bad_name_is_refused_with_a_remedy(tmp_path: Path, name: str, remedy: str) -> None:
    done = onward(tmp_path / "home", "new-service", name, "--into", str(tmp_path))
    assert done.exit_code == 2
    assert repr(name) in done.stderr
    assert remedy in done.stderr
    assert files(tmp_path) == []


def test_no_file_is_overwritten_and_then_none_is_written(tmp_path: Path) -> None:
    mine = tmp_path / "test_invoice_reading.py"
    mine.write_text("mine")
    for args in ((), ("--dry-run",)):
        done = onward(tmp_path / "home", "new-service", "invoice-reading", "--into", str(tmp_path), *args)
        assert done.exit_code == 2
        assert str(mine) in done.stderr
        assert "invoice_reading.dashboard.json" not in done.stderr
        assert (files(tmp_path), mine.read_text()) == ([mine.name], "mine")


def test_a_link_that_leads_nowhere_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "invoice_reading.py").symlink_to(tmp_path / "elsewhere")
    done = onward(tmp_path / "home", "new-service", "invoice-reading", "--into", str(tmp_path))
    assert done.exit_code == 2
    assert files(tmp_path) == ["invoice_reading.py"]


def test_what_cannot_be_written_is_named_and_nothing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def refuse_the_second(file: Path, mode: str = "r", *args: Any, **more: Any) -> IO[Any]:
        if mode == "x" and file.name.startswith("test_"):
            raise PermissionError(13, "Permission denied", str(file))
        return opened(file, mode, *args, **more)

    monkeypatch.setattr(Path, "open", refuse_the_second)
    done = onward(tmp_path / "home", "new-service", "invoice-reading", "--into", str(tmp_path))
    assert done.exit_code == 2
    assert "test_invoice_reading.py cannot be written: Permission denied" in done.stderr
    assert files(tmp_path) == []


# -- that it works


def passes(folder: Path, *check: str) -> str:
    done = run(folder, *check)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "name", ("invoice-reading", *(pytest.param(one, marks=pytest.mark.prove) for one in ("a", LONG)))
)
def test_it_passes_its_own_tests_and_ruff(tmp_path: Path, name: str) -> None:
    make(tmp_path, name)
    assert "4 passed" in passes(tmp_path, "pytest", "-q", "-p", "no:cacheprovider", "-W", "error")
    passes(tmp_path, "ruff", "check", "--isolated")
    passes(tmp_path, "ruff", "format", "--isolated", "--check")
    passes(tmp_path, "ruff", "check", "--config", str(ROOT / "pyproject.toml"), "--config", "line-length=88")


@pytest.mark.prove
@pytest.mark.parametrize("name", ("invoice-reading", LONG))
def test_it_passes_mypy(tmp_path: Path, name: str) -> None:
    make(tmp_path, name)
    passes(tmp_path, "mypy", "--strict", "--config-file", os.devnull, ".")


@pytest.mark.prove
def test_its_worker_processes_what_it_publishes(tmp_path: Path) -> None:
    make(tmp_path, "invoice-reading")
    (id,) = set(passes(tmp_path, "invoice_reading", "hello", "hello").split())
    passes(tmp_path, "onward", "worker", "--app", "invoice_reading:app", "--until-idle", "0")
    shown = json.loads(passes(tmp_path, "onward", "show", f"invoice_reading_results/{id}", "--json"))
    assert shown["body"]["text"] == "HELLO"


@pytest.mark.prove
@pytest.mark.parametrize(
    ("before", "after", "broken"),
    (
        ("id=given.id", "id=Document.make_id(work.now)", "test_idempotent_processing"),
        ("finishes=InvoiceReadingInput,\n", "finishes=InvoiceReadingInput, rung='fetching',\n", "test_retry_with"),
        ("    text = make", "    raise KeyError(given.id)\n    text = make", "test_max_retries_exceeded"),
        ("text.upper()", "text.lower()", "test_an_input_is_processed"),
    ),
)
def test_its_tests_fail_when_the_service_is_broken(tmp_path: Path, before: str, after: str, broken: str) -> None:
    make(tmp_path, "invoice-reading")
    code = tmp_path / "invoice_reading.py"
    assert before in code.read_text()
    code.write_text(code.read_text().replace(before, after))
    tested = run(tmp_path, "pytest", "-q", "-p", "no:cacheprovider")
    assert tested.returncode == 1
    assert f"FAILED test_invoice_reading.py::{broken}" in tested.stdout
