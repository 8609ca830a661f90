"""`pip install onward` installs pydantic and click; the library and `onward worker` need nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ALLOWED = {
    *("annotated-types", "click", "colorama", "onward", "pydantic", "pydantic-core"),
    *("typing-extensions", "typing-inspection"),
}
EXTRAS = {"rich", "structlog", "prometheus_client"}
SHOP = """
import logging, multiprocessing
from onward import App, Document, Event, names

class Order(Document):
    text: str

class OrderPlaced(Event):
    order_id: str = names(Order)

app = App()

@app.service("billing", on=OrderPlaced, finishes=Order)
def bill(order, work):
    logging.getLogger("shop").info("billed %s", order.text)

if __name__ == "__main__":
    order = Order(id="1", text="tea")
    app.publish(OrderPlaced.of(order), documents=[order])
elif multiprocessing.parent_process() is None:
    app.engine(["billing"])
"""
TESTING = """
from onward.testing import Simulation
from shop import Order, OrderPlaced, app
with Simulation(app) as world:
    order = Order(id="2", text="jam")
    app.publish(OrderPlaced.of(order), documents=[order])
    world.drain()
    print(app.store.statuses(Order, ["2"]))
"""


def run(folder: Path, *command: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ONWARD_", "METRICS_"))}
    environment = kept | {"ONWARD_METRICS_ADDRESS": "127.0.0.1:0"} | environ
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def work(python: Path, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    command = ("worker", "--app", "shop:app", "--until-idle", "0")
    return run(folder, python.with_name("onward"), *command, **environ)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of a new environment with what the wheel of Onward requires, and nothing else."""
    folder = tmp_path_factory.mktemp("light")
    python = folder / "venv" / "bin" / "python"
    uv = [sys.executable, "-m", "uv"]
    wheels = ["-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run([sys.executable, *wheels], cwd=ROOT, check=True, capture_output=True)
    subprocess.run([*uv, "venv", "--python", sys.executable, python.parents[1]], check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    # The versions of the lock: what it names is there already.
    install = ["pip", "install", "--python", str(python), "--constraint", "requirements/dev.txt", str(wheel)]
    subprocess.run([*uv, *install], cwd=ROOT, check=True, capture_output=True)
    return python


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


def test_two_packages_are_required() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {name.partition(">")[0] for name in project["dependencies"]} == {"pydantic", "click"}


def test_nothing_else_is_installed(python: Path) -> None:
    listed = run(Path.cwd(), sys.executable, "-m", "uv", "pip", "list", "--python", python, "--format", "json")
    assert {package["name"] for package in json.loads(listed.stdout)} <= ALLOWED


def test_a_worker_runs_an_app_and_logs_json(python: Path, shop: Path) -> None:
    assert run(shop, python, "shop.py").returncode == 0
    done = work(python, shop, ONWARD_LOG_FORMAT="json")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    (billed,) = [line for line in lines if line["logger"] == "shop"]
    assert (billed["message"], billed["service"], billed["documents"]) == ("billed tea", "billing", ["orders/1"])


def test_a_worker_logs_text(python: Path, shop: Path) -> None:
    assert run(shop, python, "shop.py").returncode == 0
    done = work(python, shop, ONWARD_LOG_FORMAT="text")
    assert done.returncode == 0, done.stderr
    assert "INFO    billed tea (billing: orders/1)" in done.stderr


def test_an_app_can_be_tested(python: Path, shop: Path) -> None:
    done = run(shop, python, "-c", TESTING)
    assert done.stdout == "{'2': 'processed'}\n", done.stderr


def test_a_new_service_is_written_and_works(python: Path, tmp_path: Path) -> None:
    command = python.with_name("onward")
    assert run(tmp_path, command, "new-service", "invoice-reading").returncode == 0
    assert run(tmp_path, python, "invoice_reading.py", "hello").returncode == 0
    done = run(tmp_path, command, "worker", "--app", "invoice_reading:app", "--until-idle", "0")
    assert done.returncode == 0, done.stderr
    found = run(tmp_path, python, "-c", "from invoice_reading import *; print(app.store.document_counts())")
    assert "invoice_reading_results" in found.stdout, found.stderr


def test_metrics_that_are_asked_for_need_their_extra(python: Path, shop: Path) -> None:
    done = work(python, shop, METRICS_BACKEND="prometheus")
    assert (done.returncode, "pip install 'onward[metrics]'" in done.stderr) == (2, True)
    assert "METRICS_BACKEND=prometheus" in done.stderr


@pytest.mark.parametrize(
    ("command", "extra"), ((["status"], "cli"), (["serve"], "console"), (["ingest", "x"], "cli"))
)
def test_a_command_names_its_extra(python: Path, tmp_path: Path, command: list[str], extra: str) -> None:
    done = run(tmp_path, python.with_name("onward"), *command)
    assert (done.returncode, f"pip install 'onward[{extra}]'" in done.stderr) == (2, True)


def test_help_names_all_commands(python: Path, tmp_path: Path) -> None:
    done = run(tmp_path, python.with_name("onward"), "--help")
    assert (done.returncode, "retry-job" in done.stdout) == (0, True)


def imported(program: str, names: set[str]) -> set[str]:
    """Return which of these modules a program imports."""
    code = f"import atexit, sys; atexit.register(lambda: print(*({names!r} & {{*sys.modules}}), file=sys.stderr))"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{program}"], check=True, capture_output=True, text=True)
    return set(done.stderr.split())


HEAVY = {"asyncio", "fastapi", "numpy", "onward.settings", "opentelemetry", "pydantic", "sqlite3"} | EXTRAS


@pytest.mark.parametrize("program", ("import onward", "from onward.cli import main; main(['--version'])"))
def test_the_first_import_is_small(program: str) -> None:
    assert imported(program, HEAVY | {"multiprocessing"}) == set()


def test_processes_can_be_started_before_anything_large_is_imported() -> None:
    assert imported("import onward.__main__", HEAVY | {"click", "multiprocessing"}) == set()
    assert imported("import onward.cli.ingest", HEAVY) == set()


def test_a_service_is_declared_without_the_packages_of_extras() -> None:
    assert imported("from onward import App; App()", EXTRAS) == set()
