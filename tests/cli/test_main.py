"""The command itself: help, version, and errors a person can act on."""

from __future__ import annotations

import errno
import importlib.metadata
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from onward import Status, cli
from onward.cli import main
from onward.cli.params import STATUS
from onward.ops.bad_input import NotFound
from onward.retry import OnwardError


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Exception]]:
    """Make `onward fail` raise what the test puts into this list."""
    errors: list[Exception] = []

    @click.command()
    def fail() -> None:
        raise errors.pop()

    monkeypatch.setattr(cli._Commands, "get_command", lambda self, ctx, name: fail)
    yield errors
    assert errors == []


def test_every_command_can_be_found_and_explains_itself() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    for name in cli.COMMANDS:
        assert f"\n  {name} " in result.output
        assert CliRunner().invoke(main, [name, "--help"]).exit_code == 0


def test_the_version_is_the_package_s() -> None:
    assert importlib.metadata.version("onward") in CliRunner().invoke(main, ["--version"]).output


@pytest.mark.parametrize("args", (["no-such-command"], ["policies", "--no-such-option"]))
def test_wrong_usage_exits_with_2(args: list[str]) -> None:
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 2
    assert "no-such" in result.stderr


@pytest.mark.parametrize(
    ("args", "meant"),
    ((["ingst"], "ingest"), (["statu"], "status"), (["retry_job"], "retry-job"), (["failed", "lst"], "list")),
)
def test_of_a_misspelt_command_the_nearest_is_named(args: list[str], meant: str) -> None:
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 2
    assert repr(args[-1]) in result.stderr
    assert f"'{meant}'" in result.stderr


@pytest.mark.parametrize(
    ("given", "meant"),
    (
        ("ONWARD_STROE", "ONWARD_STORE"),
        ("ONWARD_TOKENFILE", "ONWARD_TOKEN_FILE"),
        ("ONWARD_RETRY_MAX_ATTEMPTS", "RETRY_MAX_ATTEMPTS"),
    ),
)
def test_a_misspelt_variable_is_warned_of_and_stops_nothing(given: str, meant: str) -> None:
    result = CliRunner().invoke(main, ["policies", "--json"], env={given: "hunter2"})
    assert result.exit_code == 0
    assert json.loads(result.stdout)
    assert f"{given} is set" in result.stderr
    assert f"{meant}?" in result.stderr
    assert "hunter2" not in result.stderr


def test_a_variable_like_no_other_is_warned_of_as_well() -> None:
    result = CliRunner().invoke(main, ["policies"], env={"ONWARD_XYZZY_QUUX": "1"})
    assert result.exit_code == 0
    assert "ONWARD_XYZZY_QUUX is set" in result.stderr
    assert "?" not in result.stderr


def test_known_variables_and_empty_ones_are_not_warned_of(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("sesame")
    env = {"ONWARD_CONCURRENCY": "2", "ONWARD_TOKEN_FILE": str(tmp_path / "token"), "ONWARD_STROE": ""}
    assert CliRunner().invoke(main, ["policies"], env=env).stderr == ""


def test_documents_can_be_listed_by_every_status() -> None:
    assert list(STATUS.choices) == list(Status)


@pytest.mark.parametrize("command", ("status", "worker", "serve", "search"))
def test_a_data_folder_that_is_a_file_is_refused(tmp_path: Path, command: str) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("a file")
    args = [command, "key"] if command == "search" else [command]
    for home in (file, file / "data"):
        result = CliRunner().invoke(main, args, env={"ONWARD_HOME": str(home)})
        assert result.exit_code == 1
        assert result.stderr.startswith("Error: ONWARD_HOME")
        assert f"{str(file)!r} is a file" in result.stderr


def test_an_error_is_a_message_on_stderr_and_exit_code_1(failing: list[Exception]) -> None:
    failing.append(OnwardError("cannot open postgres://app:hunter2@db"))
    result = CliRunner().invoke(main, ["fail"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: cannot open postgres://app:***@db\n"


def test_an_unexpected_error_is_admitted(failing: list[Exception]) -> None:
    failing.append(ZeroDivisionError("division by zero"))
    result = CliRunner().invoke(main, ["fail"])
    assert result.exit_code == 1
    assert "This should not have happened: ZeroDivisionError: division by zero" in result.stderr
    assert "--debug" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("error", (OnwardError("known"), ZeroDivisionError("unknown")))
def test_debug_lets_the_error_through(error: Exception, failing: list[Exception]) -> None:
    failing.append(error)
    assert CliRunner().invoke(main, ["--debug", "fail"]).exception is error


def test_a_bad_setting_stops_the_command_with_its_name() -> None:
    result = CliRunner().invoke(main, ["policies"], env={"RETRY_MAX_ATTEMPTS": "many"})
    assert result.exit_code == 1
    assert result.stderr == "Error: RETRY_MAX_ATTEMPTS is 'many', but must be a whole number of at least 0.\n"


def test_help_starts_without_the_pipeline() -> None:
    """It must be quick, and work where the pipeline's packages are not installed."""
    program = (
        "import sys; from onward.cli import main; main(['--help'], standalone_mode=False); "
        "print([name for name in sys.modules if name in ('numpy', 'httpx2', 'onward.pipeline', 'onward.worker')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "ingest" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_ctrl_c_ends_a_command_with_130(failing: list[Exception]) -> None:
    failing.append(KeyboardInterrupt())  # type: ignore[arg-type]  # no Exception, but it can be raised
    result = CliRunner().invoke(main, ["fail"])
    assert (result.exit_code, result.stderr) == (130, "Stopped.\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
@pytest.mark.parametrize("unbuffered", ("", "1"))
@pytest.mark.parametrize("args", ("--help", "policies", "policies --json"))
def test_output_that_cannot_be_written_is_reported(args: str, unbuffered: str) -> None:
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "onward", *args.split()]
        done = subprocess.run(command, env=env, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    expected = "Error: the output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, expected)


def test_a_closed_output_is_reported() -> None:
    command = ["sh", "-c", f"{shlex.quote(sys.executable)} -m onward policies >&-"]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "Error: the output cannot be written: it is closed\n")


def test_a_file_that_cannot_be_read_is_not_taken_for_the_output(failing: list[Exception]) -> None:
    failing.append(OSError(errno.EIO, "Input/output error", "/somewhere"))
    assert "This should not have happened: OSError" in CliRunner().invoke(main, ["fail"]).stderr


def test_what_there_is_not_exits_with_2(failing: list[Exception]) -> None:
    failing.append(NotFound("there is no such thing"))
    result = CliRunner().invoke(main, ["fail"])
    assert (result.exit_code, result.stderr) == (2, "Error: there is no such thing\n")


@pytest.mark.parametrize(
    ("package", "extra"), (("uvicorn.config", "console"), ("numpy", "pipeline"), ("rich.text", "cli"))
)
def test_the_extra_of_a_missing_package_is_named(failing: list[Exception], package: str, extra: str) -> None:
    failing.append(ModuleNotFoundError(f"No module named {package!r}", name=package))
    result = CliRunner().invoke(main, ["fail"])
    assert (result.exit_code, f"pip install 'onward[{extra}]'" in result.stderr) == (2, True)
