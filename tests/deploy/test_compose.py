"""What `deploy/` starts is what Onward accepts: commands, settings, health checks, secrets, files."""

from __future__ import annotations

import re
import shlex
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pytest
import yaml  # type: ignore[import-untyped]

from onward.cli import main
from onward.ops.text.format import duration
from onward.runtime.supervisor import DRAIN_GRACE_SECONDS, HANG_GRACE_SECONDS
from onward.settings import IN_FILE, Settings, load_settings, variable

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: one for name, one in SERVICES.items() if one["image"] == "onward"}
MONITORING = {name: one for name, one in SERVICES.items() if "profiles" in one}
PLAIN = {"ONWARD_LOG_FORMAT", "ONWARD_METRICS_ADDRESS", "PUSHGATEWAY_URL"}
"""Variables of ours that hold a value, not the name of a file."""
KNOWN = {variable(name) + end for name in Settings.model_fields for end in ("", IN_FILE)}
SERVERS, WORKERS = ("postgres",), ("worker", "retry-job")
UNITS = {"s": 1, "m": 60, "h": 3600}
DOCKERFILE = re.sub(r"\\\n\s*", "", (DEPLOY / "Dockerfile").read_text())


def parse(words: Sequence[str]) -> click.Context:
    """Read a command line of `onward` as it would read it; raises where something in it is wrong."""
    name, *args = words
    command = main.get_command(click.Context(main), name)
    assert command is not None, f"there is no command `onward {name}`"
    return command.make_context(name, list(args), parent=click.Context(main, **main.context_settings))


def seconds(text: str) -> int:
    return sum(int(count) * UNITS[unit] for count, unit in re.findall(r"(\d+)([smh])", text))


def instructions(name: str) -> list[str]:
    return re.findall(rf"^{name} (.*)$", DOCKERFILE, re.MULTILINE)


# -- compose.yml


def test_there_are_a_store_workers_a_retry_job_and_a_console() -> None:
    assert [name for name in SERVICES if name not in MONITORING] == [*SERVERS, *WORKERS, "console"]
    assert list(OURS) == [*WORKERS, "console"]


def test_monitoring_is_there_for_those_who_ask_for_it() -> None:
    assert list(MONITORING) == ["prometheus", "alertmanager", "pushgateway", "grafana"]
    assert all(one["profiles"] == ["monitoring"] for one in MONITORING.values())
    # What always runs must not wait for what may not be there.
    for name, one in SERVICES.items():
        assert name in MONITORING or not one.get("depends_on", {}).keys() & MONITORING.keys()


@pytest.mark.parametrize("name", WORKERS)
def test_metrics_are_had_inside_of_the_network_alone(name: str) -> None:
    one = OURS[name]
    settings = load_settings({key: value for key, value in one["environment"].items() if key in PLAIN})
    assert (settings.metrics_backend, settings.metrics_address) == ("prometheus", "0.0.0.0:9464")
    assert settings.pushgateway_url == "http://pushgateway:9091"
    assert one["expose"] == ["9464"]
    assert "ports" not in one


def test_prometheus_asks_where_compose_has_something_to_ask() -> None:
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    hosts: set[str] = set()
    for job in config["scrape_configs"]:
        for static in job.get("static_configs", ()):
            hosts |= set(static["targets"])
        for found in job.get("dns_sd_configs", ()):
            hosts |= {f"{name}:{found['port']}" for name in found["names"]}
    assert {"worker:9464", "retry-job:9464", "pushgateway:9091"} <= hosts
    names = {host.rpartition(":")[0] for host in hosts} - {"localhost", "127.0.0.1"}
    assert names <= SERVICES.keys()
    told = [
        host
        for one in config["alerting"]["alertmanagers"]
        for part in one["static_configs"]
        for host in part["targets"]
    ]
    assert told == ["alertmanager:9093"]


@pytest.mark.parametrize("name", list(MONITORING))
def test_what_monitoring_mounts_is_there(name: str) -> None:
    one = MONITORING[name]
    folders = dict(volume.split(":")[1::-1] for volume in one["volumes"] if volume.startswith("./"))
    for source in folders.values():
        assert any((DEPLOY / source).rglob("*.*")), f"{name} mounts {source}, which is empty"
    for option, _, path in (word.partition("=") for word in one.get("command", ())):
        if option == "--config.file":
            folder = str(Path(path).parent)
            assert (DEPLOY / folders[folder] / Path(path).name).is_file()
    written = [volume for volume in one["volumes"] if not volume.startswith("./")]
    assert [volume.partition(":")[0] for volume in written] == [name]


def test_nobody_else_on_the_network_is_let_in() -> None:
    ports = {name: one["ports"] for name, one in SERVICES.items() if "ports" in one}
    assert list(ports) == ["console", "grafana"]
    assert all(port.startswith("127.0.0.1:") for those in ports.values() for port in those)
    environment = SERVICES["grafana"]["environment"]
    assert environment["GF_SECURITY_ADMIN_PASSWORD__FILE"] == "/run/secrets/grafana_password"
    assert environment["GF_USERS_ALLOW_SIGN_UP"] == "false"


@pytest.mark.parametrize("name", list(OURS))
def test_every_command_is_one_that_onward_accepts(name: str) -> None:
    assert parse(OURS[name]["command"]).info_name == {"console": "serve"}.get(name, name)


@pytest.mark.parametrize("name", list(OURS))
def test_every_variable_is_a_setting(name: str) -> None:
    assert set(OURS[name]["environment"]) <= KNOWN


@pytest.mark.parametrize("name", list(SERVICES))
def test_every_container_is_checked_and_comes_back(name: str) -> None:
    one = SERVICES[name]
    how, *words = one["healthcheck"]["test"]
    assert (how, one["restart"]) == ("CMD", "unless-stopped")
    assert {"interval", "timeout", "retries", "start_period"} <= one["healthcheck"].keys()
    if words[0] == "onward":
        assert parse(words[1:]).info_name == "workers"
    else:
        assert words[0] in ("pg_isready", "python", "wget")


def test_only_a_worker_must_have_a_worker_to_be_healthy() -> None:
    asks = {name: parse(OURS[name]["healthcheck"]["test"][2:]).params["here"] for name in WORKERS}
    assert asks == {"worker": True, "retry-job": False}


@pytest.mark.parametrize("name", list(OURS))
def test_who_needs_another_waits_until_that_is_healthy(name: str) -> None:
    waits = OURS[name]["depends_on"]
    assert "postgres" in waits
    assert {one["condition"] for one in waits.values()} == {"service_healthy"}
    assert waits.keys() <= SERVICES.keys()


def test_the_console_wants_a_token_and_is_asked_where_it_listens() -> None:
    one = SERVICES["console"]
    address = parse(one["command"]).params["address"]
    assert one["environment"]["ONWARD_TOKEN_FILE"] == "/run/secrets/console_token"
    port = address.rpartition(":")[2]
    assert [published.rpartition(":")[2] for published in one["ports"]] == [port]
    script = one["healthcheck"]["test"][-1]
    compile(script, "healthcheck", "exec")
    assert f"http://127.0.0.1:{port}/readyz" in script


def test_a_worker_may_finish_what_it_runs_before_it_is_killed() -> None:
    longest = load_settings({}).time_limit_seconds + HANG_GRACE_SECONDS + DRAIN_GRACE_SECONDS
    allowed = seconds(SERVICES["worker"]["stop_grace_period"])
    assert longest < allowed, f"a handler may take {duration(longest)}, but is killed after {duration(allowed)}"


def test_secrets_and_volumes_are_declared_and_used() -> None:
    used = [
        secret if isinstance(secret, str) else secret["source"]
        for one in SERVICES.values()
        for secret in one.get("secrets", ())
    ]
    assert set(used) == COMPOSE["secrets"].keys()
    volumes = [volume.partition(":")[0] for one in SERVICES.values() for volume in one.get("volumes", ())]
    assert {one for one in volumes if one.isidentifier()} == COMPOSE["volumes"].keys()


@pytest.mark.parametrize("name", list(SERVICES))
def test_no_password_stands_in_a_variable_or_a_command(name: str) -> None:
    one = SERVICES[name]
    for key, value in one.get("environment", {}).items():
        if re.search("PASS|STORE|BUS|TOKEN|KEY", key):
            assert key.endswith("_FILE")
            assert Path(value).name in one["secrets"]
    assert "://" not in " ".join(one.get("command", ()))


@pytest.mark.parametrize("name", list(SERVICES))
def test_images_of_others_name_their_version(name: str) -> None:
    image, _, tag = SERVICES[name]["image"].partition(":")
    assert image == "onward" or re.match(r"v?\d+", tag)


def test_secrets_are_made_once_and_are_read_as_settings(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    made = subprocess.run([DEPLOY / "make-secrets.sh", folder], check=True, capture_output=True, text=True)
    files = {one.name: one.read_text().rstrip("\n") for one in folder.iterdir()}
    assert {Path(one["file"]).name for one in COMPOSE["secrets"].values()} == files.keys()
    environ = {
        name: str(folder / Path(value).name)
        for name, value in OURS["worker"]["environment"].items()
        if name not in PLAIN
    }
    settings = load_settings(environ, None)
    postgres = SERVICES["postgres"]["environment"]
    assert settings.store == (
        f"postgresql://{postgres['POSTGRES_USER']}:{files['postgres_password']}@postgres:5432/"
        f"{postgres['POSTGRES_DB']}"
    )
    assert len(files["postgres_password"]) == len(files["grafana_password"]) == 32
    assert files["postgres_password"] != files["grafana_password"]
    assert files["postgres_password"] not in made.stdout + made.stderr
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    again = subprocess.run([DEPLOY / "make-secrets.sh", folder], check=False, capture_output=True, text=True)
    assert (again.returncode, "exists" in again.stderr) == (1, True)
    assert (folder / "postgres_password").read_text().rstrip("\n") == files["postgres_password"]


def test_no_secret_gets_into_the_repository_or_the_image() -> None:
    folders = {Path(one["file"]).parent for one in COMPOSE["secrets"].values()}
    assert folders == {Path("secrets")}
    assert "secrets/" in (DEPLOY / ".gitignore").read_text().splitlines()
    first, *others = [
        line for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if not line.startswith("#")
    ]
    assert first == "*", "everything is left out"
    assert "!deploy" not in others


# -- Dockerfile


def test_everything_that_is_copied_is_there_and_is_not_left_out() -> None:
    kept = [line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines() if line[:1] == "!"]
    sources = [one for line in instructions("COPY") if "--from" not in line for one in line.split()[:-1]]
    assert sorted(sources) == sorted(kept)
    assert all((ROOT / one).exists() for one in sources)


def test_the_image_runs_as_nobody_special_what_onward_accepts() -> None:
    assert instructions("USER") == ["onward"]
    (entrypoint,), (command,), (health,) = (instructions(name) for name in ("ENTRYPOINT", "CMD", "HEALTHCHECK"))
    assert yaml.safe_load(entrypoint) == ["onward"]
    assert parse(yaml.safe_load(command)).info_name == "worker"
    words = yaml.safe_load(health.partition(" CMD ")[2])
    assert (words[0], parse(words[1:]).params["here"]) == ("onward", True)
    assert words == SERVICES["worker"]["healthcheck"]["test"][1:]


def test_the_image_sets_variables_that_are_settings() -> None:
    names = [one.partition("=")[0] for line in instructions("ENV") for one in shlex.split(line)]
    assert {one for one in names if one.startswith("ONWARD_")} == {"ONWARD_HOME"}
    assert set(instructions("WORKDIR")) == {"/build", "/data"}


def test_whatever_is_installed_is_known_by_its_hash() -> None:
    installs = [one for line in instructions("RUN") for one in line.split("&&") if "pip install" in one]
    assert len(installs) == 3
    for one in installs:
        assert "--require-hashes" in one or "--no-index" in one
    named = {Path(found).name for one in installs for found in re.findall(r"--requirement (\S+)", one)}
    assert named == {"requirements.txt", "requirements-build.txt"}


@pytest.mark.parametrize("name", ("requirements.txt", "requirements-build.txt"))
def test_what_is_installed_is_what_is_tested(name: str) -> None:
    installed, tested = pins(DEPLOY / name), pins(ROOT / "requirements" / "dev.txt")
    assert installed, f"{name} is empty"
    assert installed.items() <= tested.items()


def pins(file: Path) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)", file.read_text(), re.MULTILINE))


def test_the_readme_tells_to_type_what_is_accepted() -> None:
    text = (DEPLOY / "README.md").read_text()
    typed = re.findall(r"(?:exec worker onward|run --rm worker) ([^\n#`]+)", text)
    assert [parse(shlex.split(line)).info_name for line in typed] == ["ingest", "status", "workers", "doctor"]
    assert all((ROOT / file).exists() for file in re.findall(r"deploy/[\w.-]+\.(?:yml|sh)", text))
    links = re.findall(r"\]\(([^)#]+)\)", text)
    assert links
    assert all((DEPLOY / link).exists() for link in links)
