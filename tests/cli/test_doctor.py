"""`onward doctor` checks everything that Onward depends on, to the end, and changes nothing."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import psycopg
import pytest

from onward import App, Document
from onward.cli import doctor as checks
from onward.ledger.named_statements import load_scripts
from onward.ledger.postgres import inspection
from onward.ledger.sqlite.dialect import SCHEMA_VERSION
from onward.settings import load_settings
from onward.testing import SimulatedClock
from tests.cli import scenes
from tests.cli.scenes import write
from tests.support.command_runs import onward
from tests.support.failed_pages import stage
from tests.support.gateway_broker import RecordingGateway, by_hand
from tests.support.servers import PostgresServer, RabbitServer
from tests.support.small_models import write_onnx_model


class Note(Document):
    text: str = ""


@pytest.fixture
def store(home: Path) -> Path:
    """A store with one document."""
    scenes.one_document(home)
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


def test_a_healthy_store_passes_all_checks_and_stays_as_it_is(
    store: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "LOW_FREE_BYTES", 0)
    before = {one: one.read_bytes() for one in home.rglob("*") if one.is_file()}
    code, found = examine(home)
    assert (code, {one["level"] for one in found.values()}) == (0, {"ok"})
    assert f"version {SCHEMA_VERSION}" in found["store"]["text"]
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
    assert f"{home}/onward.db" in found["store"]["text"]
    assert not home.exists()


def test_settings_that_differ_are_shown_with_their_origin_but_no_secret(home: Path) -> None:
    more = {"ONWARD_CONCURRENCY": "7", "ONWARD_TOKEN": "sesame-open", "ONWARD_GATEWAY": "amqp://me:sesame@host/"}
    result = onward(home, "doctor", more=more)
    assert "concurrency = 7, from ONWARD_CONCURRENCY\n" in result.stdout
    assert "from ONWARD_TOKEN\n" in result.stdout
    assert "sesame" not in result.stdout


def test_a_variable_that_sets_nothing_is_worth_a_look(store: Path, home: Path) -> None:
    code, found = examine(home, ONWARD_STROE="sqlite:///other.db")
    assert (code, found["settings"]["level"]) == (0, "warning")
    assert "ONWARD_STROE" in found["settings"]["text"]
    assert found["settings"]["remedy"] == "set ONWARD_STORE"


def test_settings_of_the_file_are_shown_with_its_name(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "onward.toml").write_text("concurrency = 5\n")
    monkeypatch.chdir(tmp_path)
    assert "concurrency = 5, from onward.toml\n" in onward(home, "doctor").stdout


def test_a_wrong_setting_is_named_and_the_rest_is_checked(store: Path, home: Path) -> None:
    code, found = examine(home, ONWARD_CONCURRENCY="none")
    assert (code, found["settings"]["level"]) == (1, "wrong")
    assert "ONWARD_CONCURRENCY is 'none'" in found["settings"]["text"]
    assert found["store"]["level"] == "ok"


def test_a_settings_file_that_cannot_be_read_stops_nothing(
    store: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "onward.toml").write_text("concurrency = = 5\n")
    monkeypatch.chdir(tmp_path)
    code, found = examine(home)
    assert (code, found["settings"]["level"], found["store"]["level"]) == (1, "wrong", "ok")
    assert "TOML" in found["settings"]["text"]


def test_a_file_that_is_no_database(store: Path, home: Path) -> None:
    store.write_bytes(b"Dear diary, " * 500)
    code, found = examine(home)
    assert (code, found["store"]["level"]) == (1, "wrong")
    assert str(store) in found["store"]["text"]
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
    write(home, "PRAGMA user_version = 99")
    code, found = examine(home)
    assert (code, found["store"]["level"]) == (1, "wrong")
    assert "version 99" in found["store"]["text"]
    assert "upgrade" in found["store"]["remedy"]


def test_an_older_store_is_not_migrated_by_the_check(home: Path) -> None:
    store = home / "onward.db"
    home.mkdir()
    with closing(sqlite3.connect(store)) as older:
        for script in load_scripts("onward.ledger.sqlite", "migrations")[:2]:
            older.executescript(script)
        older.execute("PRAGMA user_version = 2")
    code, found = examine(home)
    assert (code, found["store"]["level"]) == (0, "ok")
    assert "version 2," in found["store"]["text"]
    assert f"to version {SCHEMA_VERSION}" in found["store"]["text"]
    assert sqlite3.connect(store).execute("PRAGMA user_version").fetchone() == (2,)
    assert "workers" not in found


def test_a_database_of_somebody_else(home: Path) -> None:
    home.mkdir()
    write(home, "CREATE TABLE cats (name)")
    code, found = examine(home)
    assert (code, found["store"]["level"]) == (1, "wrong")
    assert str(home / "onward.db") in found["store"]["text"]
    assert "ONWARD_STORE" in found["store"]["remedy"]


def test_a_folder_where_the_store_should_be(home: Path) -> None:
    (home / "onward.db").mkdir(parents=True)
    code, found = examine(home)
    assert (code, found["store"]["level"]) == (1, "wrong")
    assert "Is a directory" in found["store"]["text"]


def test_a_file_where_the_data_folder_should_be(home: Path) -> None:
    home.write_text("")
    code, found = examine(home)
    assert (code, found["data folder"]["level"]) == (1, "wrong")
    assert str(home) in found["data folder"]["text"]
    assert "ONWARD_HOME" in found["data folder"]["remedy"]


def test_a_backend_that_there_is_not(home: Path) -> None:
    code, found = examine(home, ONWARD_STORE="oracle://me:sesame@host/x")
    assert (code, found["settings"]["level"]) == (1, "wrong")
    assert "ONWARD_STORE is 'oracle://***@host/x'" in found["settings"]["text"]
    assert found["store"]["level"] == "ok", "the usual store is checked in its place"


def test_a_setting_from_a_file_is_shown_with_the_variable_that_names_it(home: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("sesame-open")
    result = onward(home, "doctor", more={"ONWARD_TOKEN_FILE": str(tmp_path / "secret")})
    assert "from ONWARD_TOKEN_FILE\n" in result.stdout
    assert "sesame" not in result.stdout


def test_a_file_of_a_setting_that_is_missing_stops_nothing(store: Path, home: Path, tmp_path: Path) -> None:
    code, found = examine(home, ONWARD_TOKEN_FILE=str(tmp_path / "secret"))
    assert (code, found["settings"]["level"], found["store"]["level"]) == (1, "wrong", "ok")
    assert "ONWARD_TOKEN_FILE" in found["settings"]["text"]
    assert str(tmp_path / "secret") in found["settings"]["text"]


def test_little_disk_space_is_worth_a_look(store: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "LOW_FREE_BYTES", 10**18)
    code, found = examine(home)
    assert (code, found["disk"]["level"]) == (0, "warning")
    assert "free some disk space" in found["disk"]["remedy"]


def test_a_full_disk_is_wrong_and_the_space_that_is_needed_is_named(
    store: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda place: shutil._ntuple_diskusage(10**9, 10**9 - 4096, 4096))
    code, found = examine(home)
    assert (code, found["disk"]["level"]) == (1, "wrong")
    assert "4.1 kB free" in found["disk"]["text"]
    assert "100.0 MB" in found["disk"]["text"]


def test_the_disk_of_the_blobs_is_checked_as_well(
    store: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    free = {elsewhere: 0}
    monkeypatch.setattr(
        shutil, "disk_usage", lambda place: shutil._ntuple_diskusage(0, 0, free.get(Path(place), 10**12))
    )
    monkeypatch.setattr(checks, "_device", str)
    code, found = examine(home, ONWARD_BLOBS=str(elsewhere))
    assert (code, found["disk"]["level"]) == (1, "wrong")
    assert str(elsewhere) in found["disk"]["text"]


def test_documents_that_point_to_no_row(store: Path, home: Path) -> None:
    write(home, "UPDATE documents SET row = 4711")
    code, found = examine(home)
    assert (code, found["ledger"]["level"]) == (0, "warning")
    assert "1 document " in found["ledger"]["text"]
    assert "onward worker" in found["ledger"]["remedy"]


def test_documents_that_were_changed_in_the_future(store: Path, home: Path) -> None:
    write(home, "UPDATE documents SET updated_at = ?", time.time() + 86_400)
    code, found = examine(home)
    assert (code, found["times"]["level"]) == (0, "warning")
    assert "1 document " in found["times"]["text"]


def test_a_worker_that_vanished_is_named(store: Path, home: Path) -> None:
    clock = SimulatedClock(time.time() - 3600)
    app = App(settings=load_settings({"ONWARD_HOME": str(home)}), clock=clock)
    app.store.register_worker("box:17:f00d", {})
    app.close()
    code, found = examine(home)
    assert (code, found["workers"]["level"]) == (0, "warning")
    assert "box:17" in found["workers"]["text"]


def test_an_open_breaker_is_named_with_its_remedy(store: Path, home: Path) -> None:
    app = App(settings=load_settings({"ONWARD_HOME": str(home)}))
    app.store.open_breaker("printer", "no paper", remedy="buy some")
    app.close()
    _, found = examine(home)
    assert found["dependencies"]["level"] == "warning"
    assert "printer" in found["dependencies"]["text"]
    assert found["dependencies"]["remedy"] == "buy some"


def test_a_model_that_there_is_not(home: Path) -> None:
    code, found = examine(home, ONWARD_EMBEDDER="crystal-ball")
    assert (code, found["embedder"]["level"]) == (1, "wrong")
    assert "'crystal-ball'" in found["embedder"]["text"]


def test_local_models_are_loaded_and_a_missing_one_says_where_its_files_belong(home: Path, tmp_path: Path) -> None:
    folder = write_onnx_model(tmp_path / "model")
    code, found = examine(home, ONWARD_EMBEDDER=f"local:{folder}", ONWARD_EMBEDDER_UPGRADE="local:nobody/has-it")
    assert found["embedder"]["level"] == "ok"
    assert found["embedder"]["text"].endswith(f" in {folder}")
    assert (code, found["embedder_upgrade"]["level"]) == (1, "wrong")
    assert f"{home}/models/nobody/has-it" in found["embedder_upgrade"]["text"]
    (folder / "onnx" / "model.onnx").write_bytes(b"damaged")
    _, found = examine(home, ONWARD_EMBEDDER=f"local:{folder}")
    assert found["embedder"]["level"] == "wrong"
    assert "cannot be run" in found["embedder"]["text"]


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


def test_a_reranker(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "doctored.py").write_text(
        "def some(query, texts): return [1.0]\ndef none(query, texts): return []\n"
    )
    for function, found in (("some", "scores passages"), ("none", "0 scores for 1"), ("other", "has no 'other'")):
        printed = onward(home, "doctor", more={"ONWARD_RERANKER": f"doctored:{function}"})
        assert found in printed.output
    sys.modules.pop("doctored")


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
    write(home, "DROP INDEX documents_check")
    code, found = examine(home)
    assert (code, found["store"]["level"]) == (1, "wrong")
    assert str(store) in found["store"]["text"]
    assert "documents_check" in found["store"]["text"]
    program, file, statement = shlex.split(found["store"]["remedy"].partition(": ")[2])
    assert (program, file) == ("sqlite3", str(store))
    write(home, statement)
    assert examine(home)[0] == 0


@pytest.mark.parametrize(
    ("change", "missing"),
    (
        ("DROP TABLE openings", "table openings"),
        ("ALTER TABLE workers RENAME COLUMN last_seen TO seen", "column last_seen of workers"),
    ),
)
def test_a_table_or_column_that_is_missing_is_named(store: Path, home: Path, change: str, missing: str) -> None:
    write(home, change)
    code, found = examine(home)
    assert (code, found["store"]["level"]) == (1, "wrong")
    assert missing in found["store"]["text"]
    assert "restore it from a copy" in found["store"]["remedy"]


# -- a store on PostgreSQL


@pytest.fixture
def served(postgres_url: str) -> str:
    """A store with one document, on a server."""
    app = App(settings=load_settings({"ONWARD_STORE": postgres_url}))
    app.add(Note(id="note-1"))
    app.close()
    return postgres_url


def schema_of(url: str) -> str:
    return url.rpartition("=")[2]


def test_a_healthy_store_on_a_server(home: Path, served: str) -> None:
    code, found = examine(home, ONWARD_STORE=served)
    assert code == 0, found
    names = ("server", "clocks", "store", "rights", "connections", "vacuum", "blobs", "workers")
    assert {found[name]["level"] for name in names} == {"ok"}
    assert found["server"]["text"].startswith("PostgreSQL ")
    assert schema_of(served) in found["store"]["text"]


def test_without_tables_none_are_made(home: Path, postgres_server: PostgresServer, postgres_url: str) -> None:
    code, found = examine(home, ONWARD_STORE=postgres_url)
    assert (code, found["store"]["level"]) == (0, "ok")
    assert schema_of(postgres_url) in found["store"]["text"]
    with pytest.raises(psycopg.errors.InvalidSchemaName):
        postgres_server.execute(f"DROP SCHEMA {schema_of(postgres_url)}", "app")


@pytest.mark.parametrize("command", ("status", "workers", "documents", "failed", "breakers", "doctor", "worker"))
def test_a_server_that_does_not_answer_is_reported_without_a_traceback(home: Path, command: str) -> None:
    args = [command, "list"] if command in ("failed", "documents") else [command]
    result = onward(home, *args, more={"ONWARD_STORE": "postgresql://app:sesame@127.0.0.1:9/app"})
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    assert "sesame" not in result.output
    assert "postgresql://app:***@127.0.0.1:9/app" in result.output
    assert "ONWARD_STORE" in result.output


def test_the_rights_that_a_user_lacks_are_named_as_grants(
    home: Path, postgres_server: PostgresServer, served: str
) -> None:
    schema, user = schema_of(served), f"poor_{schema_of(served)}"
    postgres_server.execute(f"CREATE ROLE {user} LOGIN PASSWORD 'sesame'", "app")
    try:
        url = f"{postgres_server.url(user=user, password='sesame')}?schema={schema}"
        code, found = examine(home, ONWARD_STORE=url)
        assert (code, found["rights"]["level"]) == (1, "wrong")
        assert user in found["rights"]["text"]
        for grant in found["rights"]["remedy"].split("; "):
            postgres_server.execute(grant, "app")
        code, found = examine(home, ONWARD_STORE=url)
        assert (code, found["rights"]["level"]) == (0, "ok")
    finally:
        postgres_server.execute(f"DROP OWNED BY {user}; DROP ROLE {user}", "app")


def test_a_user_who_may_not_make_a_schema(home: Path, postgres_server: PostgresServer, postgres_url: str) -> None:
    schema, user = schema_of(postgres_url), f"poor_{schema_of(postgres_url)}"
    postgres_server.execute(f"CREATE ROLE {user} LOGIN PASSWORD 'sesame'", "app")
    try:
        url = f"{postgres_server.url(user=user, password='sesame')}?schema={schema}"
        code, found = examine(home, ONWARD_STORE=url)
        assert (code, found["rights"]["level"]) == (1, "wrong")
        postgres_server.execute(found["rights"]["remedy"], "app")
        App(settings=load_settings({"ONWARD_STORE": url})).store.close()
        assert examine(home, ONWARD_STORE=url)[0] == 0
    finally:
        postgres_server.execute(f"DROP OWNED BY {user}; DROP ROLE {user}", "app")


def test_an_index_that_a_server_lacks_can_be_made_again(
    home: Path, postgres_server: PostgresServer, served: str
) -> None:
    postgres_server.execute(f"DROP INDEX {schema_of(served)}.ledger_due", "app")
    code, found = examine(home, ONWARD_STORE=served)
    assert (code, found["store"]["level"]) == (1, "wrong")
    assert "index ledger_due" in found["store"]["text"]
    postgres_server.execute(found["store"]["remedy"].partition("psql: ")[2], "app")
    assert examine(home, ONWARD_STORE=served)[0] == 0


def test_an_index_that_is_not_valid_is_to_be_made_anew(
    home: Path, postgres_server: PostgresServer, served: str
) -> None:
    broken = f"""
        UPDATE pg_index SET indisvalid = false
        WHERE indexrelid = '{schema_of(served)}.ledger_due'::regclass"""
    postgres_server.execute(broken, "app")
    code, found = examine(home, ONWARD_STORE=served)
    assert (code, found["store"]["level"]) == (1, "wrong")
    assert "index ledger_due" in found["store"]["text"]
    postgres_server.execute(found["store"]["remedy"].partition("psql: ")[2], "app")
    assert examine(home, ONWARD_STORE=served)[0] == 0


def test_a_table_that_a_server_lacks(home: Path, postgres_server: PostgresServer, served: str) -> None:
    postgres_server.execute(f"DROP TABLE {schema_of(served)}.openings", "app")
    code, found = examine(home, ONWARD_STORE=served)
    assert (code, found["store"]["level"]) == (1, "wrong")
    assert "table openings" in found["store"]["text"]


def test_tables_of_a_newer_version_are_left_alone(
    home: Path, postgres_server: PostgresServer, served: str
) -> None:
    postgres_server.execute(f"UPDATE {schema_of(served)}.schema_version SET version = 99, serves = 98", "app")
    code, found = examine(home, ONWARD_STORE=served)
    assert (code, found["store"]["level"]) == (1, "wrong")
    assert "version 99" in found["store"]["text"]
    assert "upgrade" in found["store"]["remedy"]


def test_tables_of_a_newer_version_that_serve_this_one_are_as_good(
    home: Path, postgres_server: PostgresServer, served: str
) -> None:
    postgres_server.execute(f"UPDATE {schema_of(served)}.schema_version SET version = 99, serves = 1", "app")
    assert examine(home, ONWARD_STORE=served)[0] == 0


def test_transactions_that_hold_back_vacuum_are_named_with_what_ends_them(
    home: Path, postgres_server: PostgresServer, served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "LONG_TRANSACTION_SECONDS", 0.0)
    with psycopg.connect(postgres_server.url(), application_name="a report") as sleeper:
        (pid,) = sleeper.execute("SELECT pg_backend_pid()").fetchone() or (0,)
        code, found = examine(home, ONWARD_STORE=served)
    assert (code, found["vacuum"]["level"]) == (0, "warning")
    for fact in (f"process {pid}", "user app", "a report"):
        assert fact in found["vacuum"]["text"]
    assert f"SELECT pg_terminate_backend({pid})" in found["vacuum"]["remedy"]


def test_few_connections_are_a_warning(home: Path, postgres_server: PostgresServer, served: str) -> None:
    postgres_server.execute("ALTER ROLE app CONNECTION LIMIT 5", "app")
    try:
        code, found = examine(home, ONWARD_STORE=served)
    finally:
        postgres_server.execute("ALTER ROLE app CONNECTION LIMIT -1", "app")
    assert (code, found["connections"]["level"]) == (0, "warning")
    assert re.match(r"\d of 5 ", found["connections"]["text"])
    assert "max_connections" in found["connections"]["remedy"]


def test_a_server_that_only_lets_read(home: Path, postgres_server: PostgresServer, served: str) -> None:
    postgres_server.execute("ALTER DATABASE app SET default_transaction_read_only = on")
    try:
        code, found = examine(home, ONWARD_STORE=served)
    finally:
        postgres_server.execute("ALTER DATABASE app RESET default_transaction_read_only")
    assert (code, found["server"]["level"]) == (1, "wrong")
    assert "default_transaction_read_only" in found["server"]["text"]


def test_documents_on_a_server_that_were_changed_in_the_future_or_point_to_no_row(
    home: Path, postgres_server: PostgresServer, served: str
) -> None:
    change = f'UPDATE {schema_of(served)}.documents SET updated_at = {time.time() + 86_400}, "row" = 4711'
    postgres_server.execute(change, "app")
    code, found = examine(home, ONWARD_STORE=served)
    assert (code, found["times"]["level"], found["ledger"]["level"]) == (0, "warning", "warning")


# -- a gateway to RabbitMQ


@pytest.fixture
def reading(home: Path) -> Path:
    """A store with a service that reads pages, and one that listens."""
    with stage(home) as on:
        assert len(on.store.subscriptions()) == 3
    return home


def test_a_healthy_gateway(reading: Path, rabbit_url: str) -> None:
    code, found = examine(reading, ONWARD_GATEWAY=rabbit_url)
    assert code == 0, found
    assert re.match(r"RabbitMQ 3\.\d+\.\d+ at 127.0.0.1:\d+", found["gateway"]["text"])
    assert "not made yet" in found["inbox"]["text"]
    assert "not made yet" in examine(reading, ONWARD_GATEWAY=rabbit_url)[1]["inbox"]["text"], (
        "a look makes nothing"
    )
    RecordingGateway(rabbit_url).check()
    code, found = examine(reading, ONWARD_GATEWAY=rabbit_url)
    assert (code, found["inbox"]["level"]) == (0, "ok")
    assert "0 messages" in found["inbox"]["text"]


def test_a_queue_that_is_not_as_it_should_be(reading: Path, rabbit_url: str) -> None:
    by_hand(rabbit_url, lambda channel: channel.queue_declare("onward.inbox", durable=False))
    code, found = examine(reading, ONWARD_GATEWAY=rabbit_url)
    assert (code, found["inbox"]["level"]) == (1, "wrong")
    assert "'onward.inbox'" in found["inbox"]["text"]
    assert "delete it" in found["inbox"]["remedy"]


def test_a_broker_that_is_short_of_space(reading: Path, rabbit_server: RabbitServer, rabbit_url: str) -> None:
    rabbit_server.evaluate("rabbit_alarm:set_alarm({{resource_limit, disk, node()}, []})")
    try:
        code, found = examine(reading, ONWARD_GATEWAY=rabbit_url)
    finally:
        rabbit_server.evaluate("rabbit_alarm:clear_alarm({resource_limit, disk, node()})")
    assert (code, found["gateway"]["level"]) == (0, "warning")
    assert "low on disk" in found["gateway"]["text"]
    assert "disk space" in found["gateway"]["remedy"]


def test_a_broker_that_does_not_answer_or_does_not_know_the_user(home: Path, rabbit_url: str) -> None:
    code, found = examine(home, ONWARD_GATEWAY="amqp://me:sesame@127.0.0.1:9/")
    assert (code, found["gateway"]["level"]) == (1, "wrong")
    assert "127.0.0.1:9" in found["gateway"]["text"]
    code, found = examine(home, ONWARD_GATEWAY=rabbit_url.replace("guest:guest", "me:sesame"))
    assert (code, found["gateway"]["level"]) == (1, "wrong")
    assert "'me'" in found["gateway"]["text"]
    assert "sesame" not in json.dumps(found)
