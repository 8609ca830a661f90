"""The examples in the documentation run, and what it refers to exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import onward
from onward.cli import main
from onward.settings import Settings, load_settings, variable

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
REFERENCE = ROOT / "docs" / "reference"


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


WITH_CODE = [
    page for page in PAGES if blocks(page, "python") and page.name not in ("tutorial.md", "tutorial-archive.md")
]


@pytest.mark.parametrize("page", WITH_CODE, ids=named)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # The programs of that page need a broker, and are tested apart.
    names: dict[str, Any] = {"__name__": "example" if page.name == "other-programs.md" else "__main__"}
    for block in blocks(page, "python"):
        exec(compile(block, named(page), "exec", dont_inherit=True), names)
    for test in [value for name, value in names.items() if name.startswith("test_")]:
        test()
    if isinstance(app := names.get("app"), onward.App):
        app.close()


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    for target in re.findall(r"\]\(([^)]+)\)|(?:src|href)=\"([^\"]+)\"", text):
        path, _, anchor = "".join(target).partition("#")
        if "://" in path:
            continue
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{named(page)} links to {path}, which does not exist"
        if anchor and found.suffix == ".py":
            assert f"def {anchor}(" in found.read_text(), f"{named(page)}: {path} has no {anchor}"
        elif anchor:
            titles = re.findall(r"^#+ (.*)$", found.read_text(), re.MULTILINE)
            assert anchor in {title.lower().replace(" ", "-") for title in titles}, f"{named(page)}: #{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_the_tests_that_are_named_exist(page: Path) -> None:
    for path, name in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page.read_text()):
        assert (ROOT / path).is_file(), f"{named(page)} names {path}, which does not exist"
        assert f"def {name}(" in (ROOT / path).read_text() if name else True, f"{path} has no {name}"


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "toml")], ids=named)
def test_the_settings_files_of_a_page_are_accepted(page: Path, tmp_path: Path) -> None:
    for block in blocks(page, "toml"):
        (tmp_path / "onward.toml").write_text(block)
        assert load_settings({}, tmp_path / "onward.toml") != load_settings({}, None)


def test_all_settings_are_listed_with_their_defaults() -> None:
    listed = dict(re.findall(r"^\| `(\w+)` \| (\S+) \|", (REFERENCE / "settings.md").read_text(), re.MULTILINE))
    usual = load_settings({})
    assert listed == {variable(name): shown(getattr(usual, name)) for name in Settings.model_fields}


def shown(default: object) -> str:
    if default in (None, ""):
        return "–"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, float):
        return f"`{default:g}`"
    return f"`{getattr(default, 'get_secret_value', lambda: default)()}`"


def test_all_public_names_are_listed() -> None:
    listed = (REFERENCE / "api.md").read_text()
    missing = [name for name in onward.__all__ if not re.search(rf"`(?:[^`]*\W)?{name}\b", listed)]
    assert missing == []


def test_the_methods_of_the_reference_exist() -> None:
    page = (REFERENCE / "api.md").read_text()
    store = page[page.index("## The store") : page.index("## Errors")]
    app = onward.App(store="sqlite://:memory:")
    unknown = {name for name in re.findall(r"`app\.(\w+)", page) if not hasattr(app, name)}
    unknown |= {name for name in re.findall(r"`(\w+)\(", store) if not hasattr(app.store, name)}
    app.close()
    assert unknown == set()


def test_the_policies_are_shown_as_the_command_prints_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in Settings.model_fields:
        monkeypatch.delenv(variable(name), raising=False)
    (listed,) = blocks(REFERENCE / "policies.md", "text")
    assert CliRunner().invoke(main, ["policies"]).output.split() == listed.split()
