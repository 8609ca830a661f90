"""A run has a place of its own; what is there already stays as it is."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from onward.app import App
from onward.torture.torture_run import ScratchError, open_scratch
from onward.torture.workload import build


def test_by_default_it_is_a_file_in_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with open_scratch() as scratch:
        app = build(scratch.settings)
        assert app.store.subscriptions()
        app.close()
        assert list(scratch.folder.glob("*.db"))
        assert scratch.folder.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_a_sqlite_store_is_tried_on_its_disk_and_not_in_its_file(tmp_path: Path) -> None:
    mine = tmp_path / "mine.db"
    App(store=f"sqlite:///{mine}").close()
    mine.touch()
    with open_scratch(f"sqlite:///{mine}") as scratch:
        app = build(scratch.settings)
        assert app.store.subscriptions()
        app.close()
        assert len(list(tmp_path.glob("onward_torture_*.db"))) == 1
    assert [one.name for one in tmp_path.iterdir()] == ["mine.db"]
    assert mine.read_bytes() == b""


def test_what_is_kept_is_named(tmp_path: Path) -> None:
    with open_scratch(f"sqlite:///{tmp_path / 'mine.db'}", keep=True) as scratch:
        build(scratch.settings).store.close()
    (file,) = tmp_path.glob("onward_torture_*.db")
    assert scratch.kept == [str(file), str(scratch.folder)]
    assert scratch.folder.is_dir()
    scratch.folder.rmdir()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(ScratchError, match=r"there is no folder .*/nowhere; make it"),
        open_scratch(f"sqlite:///{tmp_path}/nowhere/mine.db"),
    ):
        pass


def test_in_postgresql_it_is_a_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://me:secret@db.example.org/test?sslmode=require&schema=mine"
    with open_scratch(url, keep=True) as scratch:
        asked = parse_qs(urlsplit(scratch.store).query)
        assert asked == {"sslmode": ["require"], "schema": [scratch.name]}
        assert "secret" not in scratch.where
        assert not any("secret" in one for one in scratch.kept)
    scratch.folder.rmdir()


def test_any_other_store_is_refused_without_its_password() -> None:
    with (
        pytest.raises(ScratchError, match=r"neither sqlite:///… nor postgresql://…") as refused,
        open_scratch("mysql://me:secret@db.example.org/test"),
    ):
        pass
    assert "secret" not in str(refused.value)


def test_worker_processes_take_no_settings_that_are_meant_for_other_apps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONWARD_CONCURRENCY", "17")
    monkeypatch.setenv("RETRY_TTL_MINUTES", "1")
    with open_scratch() as scratch:
        environ = scratch.environ
        assert environ["ONWARD_STORE"] == scratch.store
    assert not {"ONWARD_CONCURRENCY", "RETRY_TTL_MINUTES"} & environ.keys()
