"""Kinds of sources of other packages, found by their entry points."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from onward.pipeline.fetch import canonical
from onward.pipeline.fetch.fetch_errors import UnusableSource
from onward.pipeline.source_kinds import registry
from tests.support.command_runs import onward
from tests.support.pipeline_runs import Pipeline

KIND = """
from onward.pipeline.source_kinds import Entry


class Notes:
    name = "Notes"
    schemes = ("notes",)
    options = ()

    def canonical(self, location):
        return location

    def entries(self, run):
        yield Entry("1", "v1", lambda target: target.write(b"A note."), name="1.txt")
"""


@pytest.fixture(autouse=True)
def _new_caches() -> Iterator[None]:
    registry.kind_of_scheme.cache_clear()
    registry.plugins.cache_clear()
    yield
    registry.kind_of_scheme.cache_clear()
    registry.plugins.cache_clear()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    for name in ("onward_notes", "onward_broken", "onward_nothing"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return site


def install(site: Path, package: str, scheme: str, code: str, name: str) -> None:
    (site / f"{package}.py").write_text(code)
    info = site / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package.replace('_', '-')}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[onward.sources]\n{scheme} = {package}:{name}\n")


def test_an_installed_package_adds_a_kind(pipeline: Pipeline, site: Path) -> None:
    install(site, "onward_notes", "notes", KIND, "Notes")
    pipeline.ingest("notes://here")
    assert pipeline.texts() == ["A note."]


def test_a_broken_package_is_named_and_stops_no_other_source(pipeline: Pipeline, site: Path) -> None:
    install(site, "onward_notes", "notes", KIND, "Notes")
    install(site, "onward_broken", "broken", "import no_such_module", "Kind")
    install(site, "onward_nothing", "nothing", "class Kind: options = ()", "Kind")
    with pytest.raises(registry.UnusablePlugin) as refused:
        canonical("broken://here")
    assert str(refused.value) == (
        "the kind of source 'broken' of the package 'onward-broken' (onward_broken:Kind) cannot be imported: "
        "ModuleNotFoundError: No module named 'no_such_module'; update or remove the package"
    )
    with pytest.raises(registry.UnusablePlugin, match="has no name, no schemes, no canonical, no entries"):
        canonical("nothing://here")
    pipeline.ingest("notes://here")
    assert pipeline.texts() == ["A note."]


def test_an_unknown_scheme_names_those_that_are_known(site: Path) -> None:
    install(site, "onward_notes", "notes", KIND, "Notes")
    with pytest.raises(UnusableSource, match=r"'gopher', which is not fetched: .*notes://"):
        canonical("gopher://example.org/")


def test_a_package_that_is_gone_fails_its_sources_only(pipeline: Pipeline, site: Path) -> None:
    install(site, "onward_notes", "notes", KIND, "Notes")
    pipeline.submit("notes://here")
    (site / "onward_notes-1.0.dist-info" / "entry_points.txt").write_text("")
    registry.kind_of_scheme.cache_clear()
    registry.plugins.cache_clear()
    pipeline.run()
    assert pipeline.ask("SELECT status FROM documents WHERE collection = 'archives'") == [("failed",)]


def test_the_doctor_shows_each_kind(tmp_path: Path, site: Path) -> None:
    install(site, "onward_notes", "notes", KIND, "Notes")
    install(site, "onward_broken", "broken", "import no_such_module", "Kind")
    result = onward(tmp_path / "home", "doctor", "--json")
    checks = {one["text"]: one for one in json.loads(result.stdout)["checks"] if one["name"] == "kind of source"}
    assert [(one["level"], text.partition(" of ")[0]) for text, one in checks.items()] == [
        ("wrong", "the kind"),
        ("ok", "Notes, notes://,"),
    ]
    (broken,) = (one for one in checks.values() if one["level"] == "wrong")
    assert broken["remedy"] == "update or remove the package"


def test_status_and_search_do_not_look_for_kinds(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from onward.cli import main\n"
        "CliRunner().invoke(main, sys.argv[1:])\n"
        "print([name for name in sys.modules if 'source_kinds' in name])\n"
    )
    for command in (("status",), ("search", "oil")):
        ran = subprocess.run(
            [sys.executable, "-c", code, *command],
            env={**os.environ, "ONWARD_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stdout.splitlines()[-1] == "[]"
