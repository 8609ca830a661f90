"""`onward doctor` checks what Onward stands on, changes nothing, and always checks to the end."""

from __future__ import annotations

import json
import shlex
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from onward import App, Document
from onward.cli import checks
from onward.settings import load_settings
from onward.testing import SimulatedClock
from tests.cli.stage import onward


class Note(Document):
    text: str = ""


@pytest.fixture
def store(home: Path) -> Path:
    """A store with one document."""
    app = App(settings=load_settings({"ONWARD_HOME": str(home)}))
    app.add(Note(id="note-1"))
    app.close()
    return home / "onward.db"


def examine(home: Path, **more: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit code, and the most serious finding under each name."""
    result = onward(home, "doctor", "--json", more=more)
    facts = json.loads(result.stdout)
    order = ["ok", "warning", "wrong"]
    found: dict[str, dict[str, Any]] = {}
    for one in sorted(facts["checks"], key=lambda one: order.index(one["level"])):
        found[one["name"]] = one
    assert facts["healthy"] == (result.exit_code == 0)
    assert "clock" in found, "it ended early"
    return result.exit_code, found


def write(store: Path, statement: str, *values: object) -> None:
    """Change a store as a person with an editor would."""
    eye = sqlite3.connect(store)
    with eye:
        eye.execute(statement, values)
    eye.close()


def test_a_healthy_store_is_said_to_be_so_and_stays_as_it_is(store: Path, home: Path) -> None:
    before = {one: one.read_bytes() for one in home.rglob("*") if one.is_file()}
    result = onward(home, "doctor")
    assert result.exit_code == 0
    assert "schema version 3, intact\n" in result.stdout
    assert result.stdout.endswith("Nothing is wrong.\n")
    assert {one: one.read_bytes() for one in home.rglob("*") if one.is_file()} == before


def test_a_store_is_checked_while_somebody_writes_to_it(store: Path, home: Path) -> None:
    app = App(settings=load_settings({"ONWARD_HOME": str(home)}))
    with app.transaction():
        app.add(Note(id="note-2"))
        code, found = examine(home)
    app.close()
    assert (code, found["store"]["level"], found["retry job"]["level"]) == (0, "ok", "ok")


def test_without_a_store_none_is_made(home: Path) -> None:
    code, found = examine(home)
    assert (code, found["store"]["level"]) == (0, "ok")
    assert "there is none yet" in found["store"]["text"]
    assert not home.exists()


def test_settings_that_differ_are_shown_with_their_origin_but_no_secret(home: Path) -> None:
    more = {"ONWARD_CONCURRENCY": "7", "ONWARD_TOKEN": "sesame-open", "ONWARD_BUS": "amqp://me:sesame@host/"}
    result = onward(home, "doctor", more=more)
    assert "concurrency = 7, from ONWARD_CONCURRENCY\n" in result.stdout
    assert "token is set, but not shown, from ONWARD_TOKEN\n" in result.stdout
    assert "sesame" not in result.stdout


def test_settings_of_the_file_are_told_so(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "onward.toml").write_text("concurrency = 5\n")
    monkeypatch.chdir(tmp_path)
    assert "concurrency = 5, from onward.toml\n" in onward(home, "doctor").stdout


def test_a_wrong_setting_is_named_and_the_rest_is_checked(store: Path, home: Path) -> None:
    code, found = examine(home, ONWARD_CONCURRENCY="none")
    assert (code, found["settings"]["level"]) == (1, "wrong")
    assert "ONWARD_CONCURRENCY is 'none'" in found["settings"]["text"]
    assert "intact" in found["store"]["text"]


def test_a_settings_file_that_cannot_be_read_stops_nothing(
    store: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "onward.toml").write_text("concurrency = = 5\n")
    monkeypatch.chdir(tmp_path)
    code, found = examine(home)
    assert code == 1
    assert "not valid TOML" in found["settings"]["text"]
    assert "intact" in found["store"]["text"]


def test_a_file_that_is_no_database(store: Path, home: Path) -> None:
    store.write_bytes(b"Dear diary, " * 500)
    code, found = examine(home)
    assert (code, found["store"]["level"]) == (1, "wrong")
    assert "no SQLite database" in found["store"]["text"]
    assert "move it away" in found["store"]["remedy"]


def test_a_store_that_was_cut_off(store: Path, home: Path) -> None:
    whole = store.read_bytes()
    store.write_bytes(whole[: len(whole) // 2])
    code, found = examine(home)
    assert (code, found["store"]["level"]) == (1, "wrong")
    assert "restore it from a copy" in found["store"]["remedy"]


def test_a_store_with_a_broken_page(library: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(library, copy)
    with (copy / "onward.db").open("r+b") as file:
        for page in range(40, 60):
            file.seek(page * 4096)
            file.write(b"\xff" * 4096)
    code, found = examine(copy)
    assert (code, found["store"]["level"]) == (1, "wrong")
    assert "restore it from a copy" in found["store"]["remedy"]


def test_a_store_of_a_newer_version_is_not_touched(store: Path, home: Path) -> None:
    write(store, "PRAGMA user_version = 99")
    code, found = examine(home)
    assert code == 1
    assert "schema version 99" in found["store"]["text"]
    assert "upgrade" in found["store"]["remedy"]


def test_an_older_store_is_announced_to_be_migrated_and_is_not(store: Path, home: Path) -> None:
    write(store, "PRAGMA user_version = 2")
    code, found = examine(home)
    assert code == 0
    assert "schema version 2, intact; the next start brings it to version 3" in found["store"]["text"]
    assert sqlite3.connect(store).execute("PRAGMA user_version").fetchone() == (2,)
    assert "workers" not in found


def test_a_database_of_somebody_else(home: Path) -> None:
    home.mkdir()
    write(home / "onward.db", "CREATE TABLE cats (name)")
    code, found = examine(home)
    assert (code, found["store"]["level"]) == (1, "wrong")
    assert "no store of Onward" in found["store"]["text"]


def test_a_folder_where_the_store_should_be(home: Path) -> None:
    (home / "onward.db").mkdir(parents=True)
    code, found = examine(home)
    assert (code, found["store"]["level"]) == (1, "wrong")
    assert "Is a directory" in found["store"]["text"]


def test_a_file_where_the_data_folder_should_be(home: Path) -> None:
    home.write_text("")
    code, found = examine(home)
    assert (code, found["data folder"]["level"]) == (1, "wrong")
    assert "is not a folder" in found["data folder"]["text"]


def test_a_backend_that_there_is_not(home: Path) -> None:
    code, found = examine(home, ONWARD_STORE="oracle://me:sesame@host/x")
    assert (code, found["store"]["level"]) == (1, "wrong")
    assert found["store"]["text"] == "there is no backend for oracle://me:***@host/x"


def test_little_disk_space_is_worth_a_look(store: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "LEAST_FREE", 10**18)
    code, found = examine(home)
    assert (code, found["disk"]["level"]) == (0, "warning")
    assert "free some disk space" in found["disk"]["remedy"]


def test_documents_that_point_to_no_row(store: Path, home: Path) -> None:
    write(store, "UPDATE documents SET row = 4711")
    code, found = examine(home)
    assert (code, found["ledger"]["level"]) == (0, "warning")
    assert "1 document points to ledger rows that do not exist" in found["ledger"]["text"]


def test_documents_that_were_changed_in_the_future(store: Path, home: Path) -> None:
    write(store, "UPDATE documents SET updated_at = ?", time.time() + 86_400)
    code, found = examine(home)
    assert (code, found["times"]["level"]) == (0, "warning")
    assert "1 document was changed in the future" in found["times"]["text"]


def test_workers_alive_and_vanished(store: Path, home: Path) -> None:
    clock = SimulatedClock(time.time() - 3600)
    app = App(settings=load_settings({"ONWARD_HOME": str(home)}), clock=clock)
    app.store.enlist("box:17:f00d", {})
    app.close()
    code, found = examine(home)
    assert (code, found["workers"]["level"]) == (0, "warning")
    assert found["workers"]["text"] == "1 worker vanished: box:17, last heard of 60 min ago"


def test_an_open_breaker_is_named_with_its_remedy(store: Path, home: Path) -> None:
    app = App(settings=load_settings({"ONWARD_HOME": str(home)}))
    app.store.open_breaker("printer", "no paper", remedy="buy some")
    app.close()
    _, found = examine(home)
    assert "printer is down since" in found["dependencies"]["text"]
    assert found["dependencies"]["remedy"] == "buy some"


def test_a_model_that_there_is_not(home: Path) -> None:
    code, found = examine(home, ONWARD_EMBEDDER="crystal-ball")
    assert (code, found["embedder"]["level"]) == (1, "wrong")
    assert "'crystal-ball' names no embedder" in found["embedder"]["text"]


class _Refusing(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(401)
        self.end_headers()
        self.wfile.write(b'{"error": {"message": "wrong key"}}')

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def refusing() -> Iterator[str]:
    """The address of a model's server that knows nobody's key."""
    server = HTTPServer(("127.0.0.1", 0), _Refusing)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_model_that_refuses_the_key_names_the_setting(home: Path, refusing: str) -> None:
    more = {"ONWARD_SUMMARIZER": refusing, "ONWARD_SUMMARIZER_MODEL": "m", "ONWARD_SUMMARIZER_KEY": "sesame-open"}
    code, found = examine(home, **more)
    assert (code, found["summarizer"]["level"]) == (1, "wrong")
    assert "401" in found["summarizer"]["text"]
    assert "ONWARD_SUMMARIZER_KEY" in found["summarizer"]["remedy"]
    assert "sesame" not in json.dumps(found)


def test_a_model_that_nobody_serves(home: Path) -> None:
    more = {"ONWARD_EMBEDDER": "http://127.0.0.1:9/v1", "ONWARD_EMBEDDER_MODEL": "m"}
    code, found = examine(home, **more)
    assert (code, found["embedder"]["level"]) == (1, "wrong")
    assert "ONWARD_EMBEDDER" in found["embedder"]["remedy"]
    assert found["summarizer"]["level"] == "ok"


def test_a_check_that_fails_itself_is_a_finding(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(place: object) -> None:
        raise OSError("the disk is on fire")

    monkeypatch.setattr(shutil, "disk_usage", broken)
    code, found = examine(home)
    assert (code, found["disk"]["level"]) == (1, "wrong")
    assert "the disk is on fire" in found["disk"]["text"]


def test_an_index_that_is_missing_can_be_made_again(store: Path, home: Path) -> None:
    write(store, "DROP INDEX documents_look")
    code, found = examine(home)
    assert (code, found["store"]["level"]) == (1, "wrong")
    assert found["store"]["text"] == f"{store} lacks the index documents_look"
    program, file, statement = shlex.split(found["store"]["remedy"].partition(": ")[2])
    assert (program, file) == ("sqlite3", str(store))
    write(store, statement)
    assert examine(home)[0] == 0


@pytest.mark.parametrize(
    ("change", "missing"),
    (
        ("DROP TABLE openings", "the table openings"),
        ("ALTER TABLE workers RENAME COLUMN last_seen TO seen", "the column last_seen of workers"),
    ),
)
def test_a_table_or_column_that_is_missing_is_named(store: Path, home: Path, change: str, missing: str) -> None:
    write(store, change)
    code, found = examine(home)
    assert (code, found["store"]["level"]) == (1, "wrong")
    assert found["store"]["text"] == f"{store} lacks {missing}"
    assert "restore it from a copy" in found["store"]["remedy"]
