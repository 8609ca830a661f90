"""What the page about many machines tells to type on a database works: roles and rights, backup and restore."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from onward import App, Document
from onward.settings import load_settings
from tests.support.command_runs import onward
from tests.support.servers import PostgresServer

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "many-machines.md").read_text()


class Note(Document):
    text: str = ""


def blocks(language: str) -> list[list[str]]:
    """The lines of each block of the page."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [block.splitlines() for block in found]


OWN_DATABASE, OWN_SCHEMA, NOT_THE_OWNER = blocks("sql")


@pytest.fixture
def prepared(postgres_server: PostgresServer) -> Iterator[str]:
    """The database that the page makes, and where it is for its owner."""
    postgres_server.start()
    for line in OWN_DATABASE:
        postgres_server.execute(line)
    yield postgres_server.url("onward", user="onward", password="change-me")
    postgres_server.execute("DROP DATABASE onward WITH (FORCE)")
    for role in ("onward", "onward_worker"):
        postgres_server.execute(f"DROP ROLE IF EXISTS {role}")


def write(url: str, *ids: str) -> None:
    app = App(settings=load_settings({"ONWARD_STORE": url}))
    try:
        app.add(*(Note(id=id, text="a note") for id in ids))
    finally:
        app.close()


def read(url: str, id: str) -> str | None:
    app = App(settings=load_settings({"ONWARD_STORE": url}))
    try:
        found = app.get(Note, id)
        return found.text if found else None
    finally:
        app.close()


def problems(home: Path, url: str) -> list[str]:
    """What is wrong with the store or the user's rights; how fast the machine is, and how full, is not asked."""
    checks = json.loads(onward(home, "doctor", "--json", more={"ONWARD_STORE": url}).stdout)["checks"]
    asked = [one for one in checks if one["name"] in ("server", "store", "rights")]
    assert asked, "nothing was checked"
    return [f"{one['name']}: {one['text']}" for one in asked if one["level"] != "ok"]


def test_the_owner_of_a_database_makes_the_tables(prepared: str, tmp_path: Path) -> None:
    assert problems(tmp_path, prepared) == []
    write(prepared, "a")
    assert read(prepared, "a") == "a note"
    assert problems(tmp_path, prepared) == []


def test_a_user_with_the_rights_that_the_page_grants_can_work(
    prepared: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    write(prepared, "a")
    for line in NOT_THE_OWNER:
        postgres_server.execute(line, "onward")
    worker = postgres_server.url("onward", user="onward_worker", password="change-me-too")
    write(worker, "b")
    assert read(prepared, "b") == "a note"
    assert problems(tmp_path, worker) == []


def test_a_schema_in_a_database_of_others_is_enough(
    prepared: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    postgres_server.execute("CREATE DATABASE others")
    try:
        url = postgres_server.url("others", user="onward", password="change-me")
        assert any("may not make the schema onward" in one for one in problems(tmp_path, url))
        for line in OWN_SCHEMA:
            postgres_server.execute(line, "others")
        write(url, "a")
        assert problems(tmp_path, url) == []
    finally:
        postgres_server.execute("DROP DATABASE others WITH (FORCE)")


def test_a_copy_brings_everything_back(prepared: str, postgres_server: PostgresServer, tmp_path: Path) -> None:
    dump, restore = next(block for block in blocks("sh") if block[0].startswith("pg_dump"))
    if shutil.which("pg_dump") is None or shutil.which("pg_restore") is None:
        pytest.skip("pg_dump and pg_restore are not installed")
    write(prepared, "a")
    run(dump, prepared, tmp_path)
    write(prepared, "b")
    postgres_server.execute("DROP SCHEMA onward CASCADE", "onward")
    run(restore, prepared, tmp_path)
    assert (read(prepared, "a"), read(prepared, "b")) == ("a note", None)
    write(prepared, "b")
    assert problems(tmp_path, prepared) == []


def run(line: str, database: str, folder: Path) -> None:
    words = [word.replace("$DATABASE", database) for word in shlex.split(line)]
    subprocess.run(words, check=True, cwd=folder)
