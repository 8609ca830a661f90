"""Shared by all tests: private servers, counts shown at the end of the run, parameters whose names stay."""

from __future__ import annotations

import gc
import os
import secrets
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
from hypothesis import is_hypothesis_test

from onward.backend_urls import open_store
from tests.support import kustomize, minilm
from tests.support.servers import (
    Dovecot,
    ObjectServer,
    PgBouncer,
    PostgresServer,
    Proxy,
    RabbitServer,
    dovecot,
    missing,
    pgbouncer,
    postgres,
    rabbitmq,
)
from tests.support.servers.__main__ import missing_browser, missing_monitoring, missing_programs
from tests.support.servers.objects import CREDENTIALS
from tests.support.store_cleanup import end_holders, sweep_store
from tests.support.store_template import copied_stores

REPORT = "report"
QUICK = "not prove"  # as `make test` selects
LEFT_OUT = "left out: "

LONG_PROOF_FIXTURES = {"needs_rabbitmq", "needs_dovecot", "needs_monitoring", "browser", "object_server"}
"""Fixtures that take seconds to start: each test that uses one is marked `prove`."""

SLOWLY_COLLECTED = {"test_api_schema.py"}
"""Files of long proofs only, whose collection takes seconds: each process of `make test` would spend them."""

# No deadline: how long an example takes depends on the machine. State machines run a fraction of `max_examples`.
for name, max_examples in (("quick", 100), ("prove", 500), ("nightly", 10_000)):
    hypothesis.settings.register_profile(name, deadline=None, max_examples=max_examples)
hypothesis.settings.load_profile("quick")

os.environ.setdefault("ONWARD_OCR", "off")  # the results must not depend on whether tesseract is installed

if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    # Tests start hundreds of processes: each would compile every module again, and do little else.
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(Path(__file__).parents[1] / ".pytest_cache" / "compiled")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix


def pytest_configure(config: pytest.Config) -> None:
    # What is imported and collected stays: to look through it for garbage takes a tenth of a quick run.
    if config.option.markexpr == QUICK:
        gc.disable()


def pytest_collection_finish() -> None:
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files that have no quick test, where only quick tests are selected."""
    quick = config.option.markexpr == QUICK
    return True if quick and collection_path.name in SLOWLY_COLLECTED else None


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the long proofs, and with more examples than usual all tests that Hypothesis makes examples for."""
    more_examples = hypothesis.settings.get_current_profile_name() != "quick"
    for item in items:
        made = is_hypothesis_test(getattr(item, "obj", None))
        if LONG_PROOF_FIXTURES.intersection(getattr(item, "fixturenames", ())) or (made and more_examples):
            item.add_marker("prove")


@pytest.fixture(scope="session", autouse=True)
def new_stores_are_copies() -> Iterator[None]:
    with copied_stores():
        yield


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Says a line at the end of the run's summary."""
    # Properties travel from the processes that run tests to the one that prints.
    return lambda line: request.node.user_properties.append((REPORT, line))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for outcome in ("passed", "failed"):
        for test in terminalreporter.stats.get(outcome, []):
            lines = [line for name, line in getattr(test, "user_properties", []) if name == REPORT]
            if lines and test.when == "call":
                terminalreporter.section(test.nodeid.rpartition("::")[2])
            for line in lines if test.when == "call" else []:
                terminalreporter.line(str(line))
    left_out = [test for test in terminalreporter.stats.get("skipped", []) if LEFT_OUT in str(test.longrepr)]
    if left_out:
        terminalreporter.section(f"{len(left_out)} tests were left out", sep="!", red=True, bold=True)
        for reason in missing() + missing_monitoring() + missing_browser() + missing_programs() + missing_tools():
            terminalreporter.line(reason, red=True, bold=True)


def missing_tools() -> list[str]:
    return [reason for reason in (minilm.why_missing(), kustomize.why_missing()) if reason]


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    # Packed files hold the time they were packed at: as names, they differ between the processes of one run.
    return argname if isinstance(val, bytes) else None


def need_server(why_missing: str) -> None:
    """Leaves a test out where its server is not installed; fails it where all of them have to be."""
    if why_missing and os.environ.get("WANT_ALL_SERVERS") == "1":
        pytest.fail(f"{why_missing} (WANT_ALL_SERVERS=1 wants every server)", pytrace=False)
    if why_missing:
        pytest.skip(LEFT_OUT + why_missing)


@pytest.fixture(scope="session")
def needs_postgres() -> None:
    """For tests that start a PostgreSQL of their own."""
    need_server(postgres.why_missing())


@pytest.fixture(scope="session")
def needs_source_programs() -> None:
    """For tests that run git and public-inbox."""
    need_server("; ".join(missing_programs()))


@pytest.fixture(scope="session")
def needs_rabbitmq() -> None:
    """For tests that start a RabbitMQ of their own."""
    need_server(rabbitmq.why_missing())


@pytest.fixture(scope="session")
def needs_dovecot() -> None:
    """For tests that start a Dovecot of their own."""
    need_server(dovecot.why_missing())


@pytest.fixture
def mail_server(needs_dovecot: None) -> Iterator[Dovecot]:
    """An IMAP server for one test, with the empty mailboxes of Ada and Bob."""
    with Dovecot({"ada": "ada's secret", "bob": "bob's secret"}) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server(needs_postgres: None) -> Iterator[PostgresServer]:
    """A PostgreSQL for this test process; a test that stops or kills it starts it again."""
    with PostgresServer(fsync=False, options={"max_connections": "100"}) as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A place in PostgreSQL for one test: a schema that is not there yet, and is dropped afterwards."""
    schema = f"t_{secrets.token_hex(6)}"
    postgres_server.start()
    yield f"{postgres_server.url()}?schema={schema}"
    postgres_server.start()
    postgres_server.execute(end_holders(schema), "app")
    postgres_server.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE", "app")


@pytest.fixture(scope="session")
def postgres_schema(postgres_server: PostgresServer) -> str:
    """A schema with all tables, made once: that takes longer than most tests."""
    url = f"{postgres_server.url()}?schema=t_{secrets.token_hex(6)}"
    open_store(url).close()
    return url


@pytest.fixture
def postgres_store_url(postgres_server: PostgresServer, postgres_schema: str) -> Iterator[str]:
    """A store in PostgreSQL that is empty; the one before was swept out."""
    postgres_server.start()
    yield postgres_schema
    postgres_server.start()
    sweep_store(postgres_schema)


@pytest.fixture(scope="session")
def pooler(postgres_server: PostgresServer) -> Iterator[PgBouncer]:
    """A PgBouncer in transaction mode before the PostgreSQL of this test process."""
    need_server(pgbouncer.why_missing())
    with PgBouncer(postgres_server) as server:
        yield server


@pytest.fixture(scope="session")
def object_server() -> Iterator[ObjectServer]:
    """An object store for this test process."""
    with ObjectServer() as server:
        yield server


@pytest.fixture
def pooled_store_url(pooler: PgBouncer, postgres_store_url: str) -> str:
    """The same store through the pooler; for wake-ups, the URL also names the server behind it."""
    return pooler.url(schema=postgres_store_url.rpartition("=")[2], direct=True)


@pytest.fixture
def bucket_url(object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """A bucket for one test, as ONWARD_BLOBS names it, with credentials in the environment."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    object_server.ask("requests")  # so that they are not kept for ever
    return object_server.url(object_server.create_bucket())


@pytest.fixture(scope="session")
def rabbit_server(needs_rabbitmq: None) -> Iterator[RabbitServer]:
    """A RabbitMQ for this test process; a test that stops or kills it starts it again."""
    with RabbitServer() as server:
        yield server


@pytest.fixture
def rabbit_url(rabbit_server: RabbitServer) -> Iterator[str]:
    """A virtual host for one test, with no queues in it yet; removed afterwards."""
    vhost = f"t-{secrets.token_hex(6)}"
    rabbit_server.start()
    yield rabbit_server.create_vhost(vhost)
    rabbit_server.start()
    rabbit_server.delete_vhost(vhost)


@pytest.fixture
def network() -> Iterator[Callable[[int], Proxy]]:
    """Puts a network that can be cut in front of a port: `proxy = network(server.port)`."""
    proxies: list[Proxy] = []

    def put_before(port: int) -> Proxy:
        proxies.append(Proxy(port))
        return proxies[-1]

    yield put_before
    for proxy in proxies:
        proxy.close()
