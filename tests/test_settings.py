"""Settings: from the environment and onward.toml, with errors that say what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onward.retry import Ladder
from onward.settings import Settings, SettingsError, load_settings, variable

NAMED_IN_THE_MANUAL = {
    "RETRY_MAX_ATTEMPTS": 8,
    "RETRY_BASE_DELAY_MS": 250,
    "RETRY_BACKOFF_FACTOR": 2.0,
    "RETRY_MAX_DELAY_SECONDS": 60,
    "RETRY_TTL_MINUTES": 30,
    "RETRY_JOB_INTERVAL_SECONDS": 900,
    "RETRY_JOB_BASE_DELAY_SECONDS": 300,
    "RETRY_JOB_MAX_DELAY_SECONDS": 3600,
    "RETRY_JOB_STUCK_THRESHOLD_HOURS": 24,
    "RETRY_JOB_MAX_ATTEMPTS_ARCHIVES": 3,
    "RETRY_JOB_MAX_ATTEMPTS_MESSAGES": 3,
    "RETRY_JOB_MAX_ATTEMPTS_CHUNKS": 5,
    "RETRY_JOB_MAX_ATTEMPTS_THREADS": 5,
    "METRICS_BACKEND": "prometheus",
    "PUSHGATEWAY_URL": None,
    "ERROR_REPORTER_TYPE": "store",
    "ERROR_REPORTER_URL": None,
    "SENTRY_DSN": None,
    "RABBITMQ_HOST": None,
    "RABBITMQ_PORT": 5672,
    "RABBITMQ_USERNAME": "guest",
    "ONWARD_HOME": Path("onward-data"),
    "ONWARD_STORE": "sqlite:///onward-data/onward.db",
    "ONWARD_STORE_REPLICA": None,
    "ONWARD_GATEWAY": None,
    "ONWARD_GATEWAY_OUT": "all",
    "ONWARD_BUS": None,
    "ONWARD_BLOBS": None,
    "ONWARD_VECTORS": None,
    "ONWARD_EMBEDDER": "static",
    "ONWARD_EMBEDDER_MODEL": "",
    "ONWARD_EMBEDDER_KEY": None,
    "ONWARD_EMBEDDER_TIMEOUT_SECONDS": 60.0,
    "ONWARD_EMBEDDER_MAX_TOKENS": 512,
    "ONWARD_EMBEDDER_BATCH": 64,
    "ONWARD_EMBEDDER_THREADS": None,
    "ONWARD_EMBEDDER_DOWNLOAD": False,
    "ONWARD_EMBEDDER_UPGRADE": None,
    "ONWARD_EMBEDDER_UPGRADE_MODEL": "",
    "ONWARD_EMBEDDER_UPGRADE_KEY": None,
    "ONWARD_SUMMARIZER": "extractive",
    "ONWARD_SUMMARIZER_MODEL": "",
    "ONWARD_SUMMARIZER_KEY": None,
    "ONWARD_SUMMARIZER_TIMEOUT_SECONDS": 300.0,
    "ONWARD_RERANKER": None,
    "ONWARD_CHUNK_TOKENS": 384,
    "ONWARD_CHUNK_OVERLAP": 40,
    "ONWARD_CONCURRENCY": 3,
    "ONWARD_MAX_RETRIES": 3,
    "ONWARD_RETRY_BACKOFF_SECONDS": 5,
    "ONWARD_FETCH_BACKOFF_SECONDS": 2,
    "ONWARD_BREAKER_FAILURES": 5,
    "ONWARD_BREAKER_DOCUMENTS": 3,
    "ONWARD_BREAKER_PROBE_SECONDS": 10.0,
    "ONWARD_BREAKER_PROBE_MAX_SECONDS": 300.0,
    "ONWARD_BREAKER_RESTART_SECONDS": 0.0,
    "ONWARD_TIME_LIMIT_SECONDS": 600,
    "ONWARD_KEEP_COMPLETED_SECONDS": 3600,
    "ONWARD_KEEP_COMPLETED_COUNT": 1000,
    "ONWARD_FETCH_ALLOW_PRIVATE": False,
    "ONWARD_FETCH_PROXY": "none",
    "ONWARD_FETCH_CONTACT": "",
    "ONWARD_FETCH_MAX_BYTES": 2_000_000_000,
    "ONWARD_FETCH_SECONDS": 300.0,
    "ONWARD_FETCH_MAX_REDIRECTS": 10,
    "ONWARD_UNPACK_MAX_BYTES": 50_000_000_000,
    "ONWARD_ATTACHMENTS_MAX_BYTES": 50_000_000,
    "ONWARD_OCR": "auto",
    "ONWARD_OCR_LANGUAGES": "eng",
    "ONWARD_OCR_SECONDS": 600.0,
    "ONWARD_READ_SECONDS": 60.0,
    "ONWARD_READ_MAX_MEMORY_BYTES": 2_000_000_000,
    "ONWARD_LOG_FORMAT": "auto",
    "ONWARD_METRICS_ADDRESS": "127.0.0.1:9464",
    "ONWARD_METRICS_INSTANCE": "",
    "ONWARD_REDACT_ADDRESSES": False,
    "ONWARD_SERVE_ADDRESS": "127.0.0.1:8321",
    "ONWARD_SERVE_HOSTS": "",
    "ONWARD_SERVE_MAX_UPLOAD_BYTES": 200_000_000,
    "ONWARD_SERVE_REQUESTS_PER_SECOND": 50.0,
    "ONWARD_SERVE_TIME_ZONE": "UTC",
    "ONWARD_TOKEN": None,
}


CONTACTS = "a URL or a mail address, such as https://example.org/bot or bot@example.org"
ESCAPED = "(in a password, / ? # @ are written %2F %3F %23 %40)"
STORES = f"a URL such as sqlite:///folder/file.db or postgresql://user@host/name {ESCAPED}"
BUSES = f"a URL such as amqp://user@host:5672/, or amqps:// with TLS {ESCAPED}"


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    return tmp_path / "onward.toml"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_every_name_and_default_is_as_documented() -> None:
    settings = load_settings({})
    defaults = {variable(name): getattr(settings, name) for name in Settings.model_fields}
    assert defaults.pop("RABBITMQ_PASSWORD").get_secret_value() == "guest"
    assert defaults == NAMED_IN_THE_MANUAL


def test_a_variable_is_read_as_what_it_is() -> None:
    settings = load_settings(
        {"RETRY_MAX_ATTEMPTS": "3", "ONWARD_FETCH_ALLOW_PRIVATE": "yes", "ONWARD_HOME": "/srv/onward"}
    )
    assert settings.retry_max_attempts == 3
    assert settings.fetch_allow_private is True
    assert settings.store == "sqlite:////srv/onward/onward.db"


def test_an_empty_variable_counts_as_not_set() -> None:
    assert load_settings({"RABBITMQ_HOST": "", "ONWARD_CONCURRENCY": ""}) == load_settings({})


@pytest.mark.parametrize(
    "text",
    (
        "retry_max_attempts = 5",
        "[retry]\nmax_attempts = 5",
        "retry = { max_attempts = 5 }",
        "retry.max_attempts = 5",
        "[retry.max]\nattempts = 5",
    ),
)
def test_a_key_of_the_file_may_be_split_into_tables(text: str, toml: Path) -> None:
    toml.write_text(text)
    assert load_settings({}).retry_max_attempts == 5


def test_every_setting_can_stand_in_the_file(toml: Path) -> None:
    toml.write_text(
        'home = "/data"\nconcurrency = 8\n'
        "[retry_job]\nmax_attempts_chunks = 7\n"
        '[metrics]\nbackend = "noop"\n[error_reporter]\ntype = "noop"\n[rabbitmq]\nhost = "mq"\n'
    )
    settings = load_settings({})
    assert (settings.home, settings.concurrency) == (Path("/data"), 8)
    assert settings.retry_job_max_attempts_chunks == 7
    assert (settings.metrics_backend, settings.error_reporter_type) == ("noop", "noop")
    assert settings.gateway_url == "amqp://guest:guest@mq:5672/"


def test_the_environment_wins_over_the_file(toml: Path) -> None:
    toml.write_text("concurrency = 8\nmax_retries = 4\n")
    settings = load_settings({"ONWARD_CONCURRENCY": "2"})
    assert (settings.concurrency, settings.max_retries) == (2, 4)


def test_another_file_can_be_named_and_must_then_exist(tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    with pytest.raises(SettingsError, match=r"other\.toml cannot be read: No such file"):
        load_settings({}, other)
    other.write_text("concurrency = 8")
    assert load_settings({}, other).concurrency == 8


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    (
        ("RETRY_MAX_ATTEMPTS", "eight", "a whole number of at least 0"),
        ("RETRY_MAX_ATTEMPTS", "-1", "a whole number of at least 0"),
        ("ONWARD_CONCURRENCY", "0", "a whole number of at least 1"),
        ("RETRY_BACKOFF_FACTOR", "0.5", "a number of at least 1"),
        ("RETRY_TTL_MINUTES", "nan", "a number of at least 0"),
        ("RETRY_TTL_MINUTES", "-1", "a number of at least 0"),
        ("ONWARD_FETCH_BACKOFF_SECONDS", "0", "a number above 0"),
        ("RETRY_JOB_MAX_DELAY_SECONDS", "inf", "a number above 0"),
        ("METRICS_BACKEND", "statsd", "one of prometheus, prometheus_pushgateway, noop"),
        ("ERROR_REPORTER_TYPE", "mail", "one of store, http, sentry, noop"),
        ("PUSHGATEWAY_URL", "pushgateway:9091", "a URL with http:// or https://"),
        ("RABBITMQ_PORT", "70000", "a port from 1 to 65535"),
        ("ONWARD_STORE", "onward.db", STORES),
        ("ONWARD_STORE_REPLICA", "sqlite:///x.db", f"a URL such as postgresql://user@standby/name {ESCAPED}"),
        ("ONWARD_STORE", "mysql://host/name", STORES),
        ("ONWARD_STORE", "postgresql://host:port/name", STORES),
        ("ONWARD_BUS", "localhost", BUSES),
        ("ONWARD_BUS", "redis://localhost/", BUSES),
        ("ONWARD_BUS", "amqp:///", BUSES),
        ("ONWARD_BUS", "amqp://host:99999/", BUSES),
        ("ONWARD_HOME", "~no-such-user/x", "the path of a folder"),
        ("ONWARD_FETCH_ALLOW_PRIVATE", "perhaps", "true or false"),
        ("ONWARD_FETCH_PROXY", "http://proxy:8080", "one of none, environment"),
        ("ONWARD_FETCH_CONTACT", "me (at home)", CONTACTS),
        ("ONWARD_FETCH_CONTACT", "a\r\nCookie:b", CONTACTS),
        ("ONWARD_LOG_FORMAT", "xml", "one of auto, text, json"),
        ("ONWARD_METRICS_ADDRESS", "9464", "a host and a port, such as 127.0.0.1:9464, or off"),
        ("ONWARD_METRICS_ADDRESS", "host:port", "a host and a port, such as 127.0.0.1:9464, or off"),
    ),
)
def test_a_value_that_makes_no_sense_is_named_with_what_is_allowed(name: str, value: str, allowed: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({name: value})
    assert str(caught.value) == f"{name} is {value!r}, but must be {allowed}."


def test_in_the_file_the_key_is_named(toml: Path) -> None:
    toml.write_text("[retry]\nmax_attempts = true\n")
    with pytest.raises(SettingsError) as caught:
        load_settings({})
    assert str(caught.value) == (
        "onward.toml: retry.max_attempts is True, but must be a whole number of at least 0."
    )


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({"ONWARD_CONCURRENCY": "0", "RETRY_MAX_ATTEMPTS": "x"})
    assert str(caught.value).splitlines() == [
        "RETRY_MAX_ATTEMPTS is 'x', but must be a whole number of at least 0.",
        "ONWARD_CONCURRENCY is '0', but must be a whole number of at least 1.",
    ]


@pytest.mark.parametrize(
    ("environ", "message"),
    (
        ({"METRICS_BACKEND": "prometheus_pushgateway"}, "METRICS_BACKEND .* needs PUSHGATEWAY_URL: a URL"),
        ({"ERROR_REPORTER_TYPE": "http"}, "ERROR_REPORTER_TYPE .* needs ERROR_REPORTER_URL: a URL"),
    ),
)
def test_a_setting_that_needs_another_says_so(environ: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load_settings(environ)


@pytest.mark.parametrize(
    ("text", "message"),
    (
        ("[retry]\nmax_atempts = 3", r"no setting retry\.max_atempts\. Did you mean retry_max_attempts\?"),
        ("zzz = 1", r"no setting zzz\. Known are: retry_max_attempts, .*token\."),
        ("retry_max_attempts = 1\n[retry]\nmax_attempts = 2", r"retry\.max_attempts is set twice"),
        ("concurrency = ", "onward.toml is not valid TOML"),
    ),
)
def test_a_mistake_in_the_file_is_explained(text: str, message: str, toml: Path) -> None:
    toml.write_text(text)
    with pytest.raises(SettingsError, match=message):
        load_settings({})


def test_rabbitmq_is_described_by_its_own_variables_unless_there_is_a_bus() -> None:
    environ = {"RABBITMQ_HOST": "mq", "RABBITMQ_USERNAME": "app", "RABBITMQ_PASSWORD": "p@ss/word"}
    assert load_settings(environ).gateway_url == "amqp://app:p%40ss%2Fword@mq:5672/"
    assert load_settings({**environ, "ONWARD_BUS": "amqp://other/"}).gateway_url == "amqp://other/"
    assert load_settings({}).gateway_url is None


SECRET = "hunter2"


def test_secrets_show_neither_in_repr_nor_in_str() -> None:
    settings = load_settings(
        {
            "ONWARD_STORE": f"postgresql://app:{SECRET}@db/onward",
            "ONWARD_BUS": f"amqp://app:{SECRET}@mq/",
            "ONWARD_TOKEN": SECRET,
            "RABBITMQ_PASSWORD": SECRET,
        }
    )
    assert SECRET not in repr(settings) + str(settings)
    assert settings.store == f"postgresql://app:{SECRET}@db/onward"


@pytest.mark.parametrize(
    ("name", "value"),
    (
        ("store", f"postgresql//app:{SECRET}@db/onward"),
        ("pushgateway_url", f"ftp://app:{SECRET}@gw"),
        ("bus", f"app:{SECRET}@mq"),
        ("token", [SECRET]),
        ("rabbitmq_password", [SECRET]),
    ),
)
def test_secrets_do_not_show_in_errors(name: str, value: Any, toml: Path) -> None:
    toml.write_text(f"{name} = {value!r}".replace("'", '"'))
    with pytest.raises(SettingsError) as caught:
        load_settings({})
    assert name in str(caught.value)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("name", "value"),
    (
        ("ONWARD_STORE", f"oracle://app:{SECRET}@db/onward"),
        ("ONWARD_STORE", f"postgresql://app:{SECRET}/1@db/onward"),
        ("ONWARD_STORE", f"postgresql://app:{SECRET}#1@db/onward"),
        ("ONWARD_STORE", f"postgresql://app:'{SECRET}\"/x@db/onward"),
        ("ONWARD_STORE", f"postgresql://db:x/onward?password={SECRET}"),
        ("ONWARD_BUS", f"http://app:{SECRET}@mq/"),
        ("ONWARD_BUS", f"amqp://app:x{SECRET}/1@mq/"),
    ),
)
def test_a_url_that_makes_no_sense_is_told_without_its_password(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"{name} is '.*, but must be a URL such as") as caught:
        load_settings({name: value})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    (
        "sqlite://:memory:",
        "sqlite:////srv/onward.db",
        "postgres://db/onward",
        "postgresql:///onward?host=/run/postgresql",
        "postgresql://app@db1:5432,db2:5433/onward?target_session_attrs=read-write",
        "postgresql://app:p%40ss@[::1]:5432/onward?schema=mail&sslmode=verify-full",
    ),
)
def test_stores_that_there_may_be(url: str) -> None:
    assert load_settings({"ONWARD_STORE": url}).store == url


# -- values that stand in files


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(f"postgresql://app:{SECRET}@db/onward\n")
    return path


def test_the_value_of_any_variable_may_stand_in_a_file(secret: Path, tmp_path: Path) -> None:
    (tmp_path / "calls").write_text("7")
    environ = {"ONWARD_STORE_FILE": str(secret), "ONWARD_CONCURRENCY_FILE": str(tmp_path / "calls")}
    settings = load_settings(environ)
    assert (settings.store, settings.concurrency) == (f"postgresql://app:{SECRET}@db/onward", 7)


def test_only_the_end_of_the_line_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "password").write_bytes(b" p w \r\n")
    settings = load_settings({"RABBITMQ_HOST": "mq", "RABBITMQ_PASSWORD_FILE": str(tmp_path / "password")})
    assert settings.rabbitmq_password.get_secret_value() == " p w "


def test_a_file_wins_over_onward_toml_as_the_variable_does(secret: Path, toml: Path) -> None:
    toml.write_text('store = "sqlite:///other.db"')
    assert load_settings({"ONWARD_STORE_FILE": str(secret)}).store.startswith("postgresql://")


def test_an_empty_variable_names_no_file() -> None:
    assert load_settings({"ONWARD_STORE_FILE": ""}) == load_settings({})


def test_a_variable_and_its_file_are_one_too_many(secret: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({"ONWARD_STORE": "sqlite:///x.db", "ONWARD_STORE_FILE": str(secret)})
    assert str(caught.value) == (
        "ONWARD_STORE and ONWARD_STORE_FILE are both set. Keep one: the value, or the file that holds it."
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    (
        (None, "which cannot be read: No such file or directory. Name one that this user can read"),
        (b"\n", "which is empty. Write the value into it"),
        (b"\xff\xfe" + SECRET.encode(), "which is no text. Write it in UTF-8"),
        (SECRET.encode() * 20_000, "which holds more than a value"),
    ),
)
def test_a_file_that_holds_no_value_is_named(content: bytes | None, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        load_settings({"ONWARD_TOKEN_FILE": str(path)})
    assert str(caught.value).startswith(f"ONWARD_TOKEN_FILE names the file '{path}', {problem}")
    assert SECRET not in str(caught.value)


def test_what_a_file_holds_is_never_shown(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(SECRET)
    with pytest.raises(SettingsError) as caught:
        load_settings({"ONWARD_STORE_FILE": str(path)})
    assert str(caught.value) == f"ONWARD_STORE_FILE ('{path}') is not shown here, but must be {STORES}."


def test_a_secret_that_was_put_in_place_of_its_file_is_not_shown_either() -> None:
    with pytest.raises(SettingsError, match=r"'postgresql://\*\*\*@db/onward'.* cannot be read") as caught:
        load_settings({"ONWARD_STORE_FILE": f"postgresql://app:{SECRET}@db/onward"})
    assert SECRET not in str(caught.value)


def test_an_empty_token_would_let_everyone_in(toml: Path) -> None:
    toml.write_text('token = ""')
    with pytest.raises(SettingsError, match="token is not shown here, but must be text that is not empty"):
        load_settings({})


def test_the_usual_settings_make_the_usual_ladder() -> None:
    assert load_settings({}).ladder() == Ladder()


def test_each_number_reaches_its_rung() -> None:
    ladder = load_settings(
        {
            "RETRY_MAX_ATTEMPTS": "2",
            "RETRY_BASE_DELAY_MS": "100",
            "RETRY_BACKOFF_FACTOR": "3",
            "RETRY_MAX_DELAY_SECONDS": "0.2",
            "RETRY_TTL_MINUTES": "1",
            "ONWARD_MAX_RETRIES": "4",
            "ONWARD_RETRY_BACKOFF_SECONDS": "1",
            "ONWARD_FETCH_BACKOFF_SECONDS": "3",
            "RETRY_JOB_BASE_DELAY_SECONDS": "10",
            "RETRY_JOB_MAX_DELAY_SECONDS": "25",
            "RETRY_JOB_MAX_ATTEMPTS_CHUNKS": "9",
        }
    ).ladder()
    assert ladder.not_ready.schedule(9) == ((0, 0.1), (0, 0.2))
    assert ladder.not_ready.max_elapsed == 60
    assert ladder.transient.schedule(9) == ((1, 1), (2, 2), (4, 4))
    assert ladder.fetching.schedule(9) == ((3, 3), (6, 6), (12, 12))
    assert [high for _, high in ladder.retry_job.schedule(3)] == [10, 20, 25]
    assert (ladder.max_rounds("chunks"), ladder.max_rounds("archives")) == (9, 3)


@pytest.mark.parametrize(
    ("environ", "words"),
    (
        ({"ONWARD_CHUNK_TOKENS": "8"}, ("ONWARD_CHUNK_TOKENS", "'8'", "at least 32")),
        ({"ONWARD_CHUNK_OVERLAP": "200"}, ("ONWARD_CHUNK_OVERLAP", "200", "half of ONWARD_CHUNK_TOKENS", "384")),
        ({"ONWARD_CHUNK_TOKENS": "40"}, ("ONWARD_CHUNK_OVERLAP", "40", "half of ONWARD_CHUNK_TOKENS", "40")),
    ),
)
def test_chunks_must_be_large_enough_for_their_overlap(environ: dict[str, str], words: tuple[str, ...]) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(environ)
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize(("given", "types"), (("ALL", None), (" none ", frozenset()), ("A, B", frozenset("AB"))))
def test_which_events_leave_for_other_programs(given: str, types: frozenset[str] | None) -> None:
    settings = load_settings({"ONWARD_GATEWAY": "amqp://mq", "ONWARD_GATEWAY_OUT": given})
    assert settings.outgoing_types == types


def test_all_and_none_do_not_go_with_event_types() -> None:
    with pytest.raises(SettingsError, match="must be all, none, or event types"):
        load_settings({"ONWARD_GATEWAY_OUT": "all,SummaryComplete"})
