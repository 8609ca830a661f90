"""The map in CONTRIBUTING names files and packages that exist, and every package there is."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "onward"
MAP = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_files_of_the_map_exist() -> None:
    paths = {path for path in re.findall(r"`([\w./]+)`", MAP) if path.endswith((".py", "/"))}
    assert len(paths) > 30
    missing = {path for path in paths if not (ROOT / path).exists() and not any(SOURCE.rglob(path.rstrip("/")))}
    assert missing == set()


def test_the_map_has_every_package() -> None:
    packages = {folder.name for folder in SOURCE.iterdir() if (folder / "__init__.py").exists()}
    assert {name for name in packages if f"**`{name}/`**" not in MAP} == set()
