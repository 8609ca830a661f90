"""Opening: what is wrong is said with its remedy, and without the password."""

from __future__ import annotations

import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import pytest

from onward.backend_urls import open_store
from onward.ledger.postgres import PostgresStore
from onward.ledger.store_errors import StoreError, StoreUnavailable
from tests.postgres.stage import Opener
from tests.support.command_runs import SAMPLE, onward
from tests.support.servers import PostgresServer, Proxy
from tests.support.store_pages import page

PASSWORD = "s3cret/p@ss"
INGEST = ("ingest", str(SAMPLE))
"""A command that makes a store where there is none."""
PIECES = ("s3cret", "p@ss", "p%40ss")

Role = Callable[..., str]


@pytest.fixture
def role(postgres_server: PostgresServer) -> Iterator[Role]:
    """Makes users that log in with a password: `name = role("CONNECTION LIMIT 1")`."""
    made: list[str] = []

    def make(attributes: str = "", *, create: bool = False) -> str:
        made.append(f"user_{secrets.token_hex(4)}")
        postgres_server.execute(f"CREATE ROLE {made[-1]} LOGIN PASSWORD '{PASSWORD}' {attributes}")
        if create:
            postgres_server.execute(f"GRANT CREATE ON DATABASE app TO {made[-1]}")
        return made[-1]

    yield make
    for name in made:
        postgres_server.execute(f"DROP OWNED BY {name} CASCADE", "app")
        postgres_server.execute(f"DROP ROLE {name}")


@pytest.fixture
def complaint(tmp_path: Path) -> Callable[..., str]:
    """What opening says; a command complains, too, and nobody shows a piece of the password."""

    def complain(url: str, kind: type[StoreError] = StoreError, *, command: Sequence[str] = ("status",)) -> str:
        with pytest.raises(kind) as caught:
            open_store(url).close()
        assert type(caught.value) is kind
        said = str(caught.value)
        result = onward(tmp_path / "home", *command, more={"ONWARD_STORE": url})
        assert result.exit_code == 1
        assert result.stderr.startswith("Error: ")
        assert "Traceback" not in result.output
        assert "should not have happened" not in result.output
        assert [piece for piece in PIECES if piece in said + result.output] == []
        return said

    return complain


Complaint = Callable[..., str]


# -- who and where


def test_a_wrong_password(postgres_server: PostgresServer, role: Role, complaint: Complaint) -> None:
    name = role()
    said = complaint(postgres_server.url(user=name, password="s3cret/p@ss!"))
    assert f"postgresql://{name}:***@127.0.0.1:{postgres_server.port}/app cannot be opened" in said
    assert f'password authentication failed for user "{name}"' in said
    assert "Check both in ONWARD_STORE, or give the password in PGPASSWORD" in said


def test_no_password(postgres_server: PostgresServer, role: Role, complaint: Complaint) -> None:
    assert "no password supplied" in complaint(postgres_server.url(user=role()))


def test_a_password_that_is_given_apart(postgres_server: PostgresServer, role: Role, complaint: Complaint) -> None:
    said = complaint(f"{postgres_server.url(user=role())}?password={quote(PASSWORD + '!', safe='')}")
    assert "refused the user or the password" in said


def test_a_user_who_does_not_exist(postgres_server: PostgresServer, complaint: Complaint) -> None:
    said = complaint(postgres_server.url(user="nobody", password=PASSWORD))
    assert 'for user "nobody"' in said


def test_a_user_who_may_not_log_in(postgres_server: PostgresServer, role: Role, complaint: Complaint) -> None:
    name = role()
    postgres_server.execute(f"ALTER ROLE {name} NOLOGIN")
    said = complaint(postgres_server.url(user=name, password=PASSWORD))
    assert "is not permitted to log in" in said
    assert "ALTER ROLE … LOGIN" in said


def test_a_host_that_does_not_exist(complaint: Complaint) -> None:
    said = complaint(f"postgresql://ada:{quote(PASSWORD, safe='')}@no-such-host.invalid/app")
    assert "'no-such-host.invalid'" in said
    assert "there is no host of this name. Check it in ONWARD_STORE" in said


def test_a_port_where_nothing_listens(
    postgres_server: PostgresServer, network: Callable[[int], Proxy], complaint: Complaint
) -> None:
    proxy = network(1)
    proxy.refuse()
    said = complaint(postgres_server.url(password=PASSWORD, port=proxy.port), StoreUnavailable)
    assert f"127.0.0.1:{proxy.port}/app cannot be reached" in said
    assert "Check host and port in ONWARD_STORE, and that the server runs" in said


def test_a_database_that_does_not_exist(postgres_server: PostgresServer, complaint: Complaint) -> None:
    said = complaint(postgres_server.url("nowhere"))
    assert 'database "nowhere" does not exist' in said
    assert "Make it: CREATE DATABASE" in said


# -- how it is written


@pytest.mark.parametrize(
    "login", (f"ada:{PASSWORD}", "ada:s3cret?p", "ada:s3cret#p", "ada:s3cret@p", "ada:s3cret[p", "ada:12/s3cret")
)
def test_a_password_that_is_not_escaped(login: str, complaint: Complaint) -> None:
    said = complaint(f"postgresql://{login}@127.0.0.1:1/app")
    assert "It is written postgresql://user@host:5432/name, with a password after the user and a colon" in said
    assert "/ is written %2F" in said


@pytest.mark.parametrize("password", ("s3cret%", "s3cret%zz", "s3cret%00"))
def test_a_percent_sign_that_stands_for_nothing(password: str, complaint: Complaint) -> None:
    assert "a % in a user or a password is written %25" in complaint(
        f"postgresql://ada:{password}@127.0.0.1:1/app"
    )


@pytest.mark.parametrize("rest", (":port/app", ":99999/app", "/app?colour=blue"))
def test_a_url_that_makes_no_sense(rest: str, complaint: Complaint) -> None:
    said = complaint(f"postgresql://ada:s3cret@127.0.0.1{rest}")
    assert "It is written postgresql://user@host:5432/name" in said


@pytest.mark.parametrize("schema", ("", "pg_mine", "information_schema", "x" * 64, "a%00b"))
def test_a_schema_that_cannot_be(postgres_server: PostgresServer, schema: str, complaint: Complaint) -> None:
    complaint(f"{postgres_server.url()}?schema={schema}")


def test_a_schema_with_a_strange_name(postgres_server: PostgresServer, opened: Opener) -> None:
    name = """it's "mine" 100% ü"""
    store = opened(f"{postgres_server.url()}?schema={quote(name)}")
    try:
        store.add_documents([page("a")])
        assert store.document_counts() == {"pages": {"processed": 1}}
    finally:
        quoted = name.replace('"', '""')
        postgres_server.execute(f'DROP SCHEMA "{quoted}" CASCADE', "app")


# -- what one may


def test_a_user_who_may_not_create_a_schema(
    postgres_server: PostgresServer, role: Role, complaint: Complaint
) -> None:
    said = complaint(postgres_server.url(user=role(), password=PASSWORD), command=INGEST)
    assert "permission denied for database app" in said
    assert "GRANT CREATE ON DATABASE" in said


def test_a_schema_that_was_made_for_its_user(postgres_server: PostgresServer, role: Role, opened: Opener) -> None:
    name = role()
    postgres_server.execute(f"CREATE SCHEMA {name} AUTHORIZATION {name}", "app")
    store = opened(f"{postgres_server.url(user=name, password=PASSWORD)}?schema={name}")
    assert store.add_documents([page("a")]) == 1


def test_a_schema_of_something_else(
    postgres_server: PostgresServer, postgres_url: str, complaint: Complaint
) -> None:
    schema = postgres_url.rpartition("=")[2]
    postgres_server.execute(f"CREATE SCHEMA {schema}", "app")
    postgres_server.execute(f"CREATE TABLE {schema}.documents (title text)", "app")
    said = complaint(postgres_url, command=INGEST)
    assert f"schema '{schema}' has other tables" in said
    assert "?schema=" in said


def test_a_user_who_may_only_read(postgres_server: PostgresServer, role: Role, complaint: Complaint) -> None:
    name = role(create=True)
    postgres_server.execute(f"ALTER ROLE {name} SET default_transaction_read_only = on")
    said = complaint(
        f"{postgres_server.url(user=name, password=PASSWORD)}?schema={name}", StoreUnavailable, command=INGEST
    )
    assert "read-only transaction" in said
    assert "Name the server that is written to, or let the user write" in said


def test_a_store_that_may_only_be_read_is_read_and_not_written(
    postgres_server: PostgresServer, role: Role, opened: Opener
) -> None:
    name = role(create=True)
    url = f"{postgres_server.url(user=name, password=PASSWORD)}?schema={name}"
    opened(url).add_documents([page("a")])
    postgres_server.execute(f"ALTER ROLE {name} SET default_transaction_read_only = on")
    store = opened(url)
    assert store.document_counts() == {"pages": {"processed": 1}}
    with pytest.raises(StoreUnavailable, match="the server is read-only"):
        store.add_documents([page("b")])


def test_a_server_without_a_connection_left(
    postgres_server: PostgresServer, role: Role, opened: Opener, complaint: Complaint
) -> None:
    name = role("CONNECTION LIMIT 1", create=True)
    url = f"{postgres_server.url(user=name, password=PASSWORD)}?schema={name}"
    store = opened(url)
    said = complaint(url, StoreUnavailable)
    assert f'too many connections for role "{name}"' in said
    assert "Raise max_connections, or start fewer worker processes" in said
    assert store.counts() == {}, "whoever has one goes on"


# -- versions


def test_a_server_that_is_too_old(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, complaint: Complaint
) -> None:
    monkeypatch.setattr("onward.ledger.postgres.connections.LEAST_VERSION", 990000)
    assert "Onward needs version 99 or newer. Upgrade it" in complaint(postgres_url)


def write_version(server: PostgresServer, url: str, version: int, serves: int) -> None:
    server.execute(
        f"UPDATE {url.rpartition('=')[2]}.schema_version SET version = {version}, serves = {serves}", "app"
    )


def test_a_schema_that_is_too_new(
    postgres_server: PostgresServer, postgres_url: str, opened: Opener, complaint: Complaint
) -> None:
    opened(postgres_url)
    write_version(postgres_server, postgres_url, version=99, serves=98)
    said = complaint(postgres_url)
    assert "has schema version 99, written by a newer Onward" in said
    assert "pip install --upgrade onward" in said


def test_workers_of_two_releases_side_by_side(
    postgres_server: PostgresServer, postgres_url: str, opened: Opener
) -> None:
    old = opened(postgres_url)
    old.add_documents([page("a")])
    write_version(postgres_server, postgres_url, version=99, serves=1)
    another = opened(postgres_url)
    another.add_documents([page("b")])
    assert old.document_counts() == {"pages": {"processed": 2}}
    write_version(postgres_server, postgres_url, version=99, serves=98)
    assert old.document_counts() == {"pages": {"processed": 2}}, "what is open goes on until it is started again"
    with pytest.raises(StoreError, match="version 99"):
        PostgresStore(postgres_url)


def test_a_store_from_before_a_fork(
    opened: Opener, postgres_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(postgres_store_url)
    monkeypatch.setattr("onward.ledger.postgres.connections.os.getpid", lambda: -1)
    with pytest.raises(StoreError, match="opened before a fork cannot be used after it; open it again"):
        store.counts()


# -- TLS


@pytest.fixture(scope="module")
def tls_server(needs_postgres: None) -> Iterator[PostgresServer]:
    """A server with a certificate for this machine, that it signed itself."""
    files = {"ssl": "on", "ssl_cert_file": "../cert.pem", "ssl_key_file": "../key.pem"}
    server = PostgresServer(fsync=False, options=files)
    make_certificate(server.folder)
    if server._system_user:
        shutil.chown(server.folder / "key.pem", server._system_user)
    with server:
        yield server


def make_certificate(folder: Path) -> Path:
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost "
        "-addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem"
    )
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    (folder / "key.pem").chmod(0o600)
    return folder / "cert.pem"


def test_a_certificate_that_one_trusts(tls_server: PostgresServer, opened: Opener) -> None:
    authority = tls_server.folder / "cert.pem"
    store = opened(f"{tls_server.url()}?schema=trusted&sslmode=verify-full&sslrootcert={authority}")
    with store.db.connections.use() as connection:
        assert connection.pgconn.ssl_in_use
    assert store.add_documents([page("a")]) == 1


def test_a_certificate_that_one_does_not_trust(
    tls_server: PostgresServer, tmp_path: Path, complaint: Complaint
) -> None:
    stranger = make_certificate(tmp_path)
    said = complaint(f"{tls_server.url(password=PASSWORD)}?sslmode=verify-full&sslrootcert={stranger}")
    assert "certificate verify failed" in said
    assert "Check sslmode, sslrootcert and the server's certificate" in said


def test_a_file_of_certificates_that_does_not_exist(
    tls_server: PostgresServer, tmp_path: Path, complaint: Complaint
) -> None:
    missing = tmp_path / "missing.pem"
    said = complaint(f"{tls_server.url()}?sslmode=verify-full&sslrootcert={missing}")
    assert f'"{missing}" does not exist' in said
    assert "Check sslmode, sslrootcert" in said


def test_a_server_without_tls(postgres_server: PostgresServer, complaint: Complaint) -> None:
    said = complaint(f"{postgres_server.url()}?sslmode=require")
    assert "server does not support SSL" in said
    assert "the encrypted connection failed. Check sslmode" in said
