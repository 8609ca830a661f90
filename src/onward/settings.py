"""The settings, from the environment and from `onward.toml`; the environment wins.

A key of `onward.toml` is the variable's name in lower case and without `ONWARD_`. Tables only save typing:
their names are joined to their keys by an underscore. These three mean the same as `RETRY_MAX_ATTEMPTS=5`:

    retry_max_attempts = 5          [retry]                 retry = { max_attempts = 5 }
                                    max_attempts = 5

The value of any variable may be in a file, as secrets are: `ONWARD_STORE_FILE=/run/secrets/store`.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from onward.retry.errors import OnwardError
from onward.retry.policy import Exponential, Ladder, RetryConfig, RetryPolicy
from onward.retry.redact import redact
from onward.setting_types import (
    Address,
    BlobStore,
    BusUrl,
    ChunkTokens,
    Contact,
    Count,
    CountOrNone,
    Embedder,
    Factor,
    Folder,
    HttpUrl,
    ListenAddress,
    Model,
    NotNegative,
    OCRLanguages,
    OutgoingTypes,
    Port,
    Positive,
    Reference,
    ReplicaUrl,
    Secret,
    StoreUrl,
    TimeZone,
)

FILE = "onward.toml"
PREFIX = "ONWARD_"  # the prefix of the variables that only Onward uses
IN_FILE = "_FILE"  # the suffix of a variable that names the file with the value
MAX_FILE_BYTES = 65_536


class SettingsError(OnwardError):
    """A setting is invalid; the message names it, its value and the allowed values."""


class MissingExtra(OnwardError):
    """A package is not installed that comes with an extra; the message says how to install it."""

    exit_code = 2

    def __init__(self, feature: str, package: str, extra: str) -> None:
        super().__init__(f"{feature} needs the package {package!r}, run: pip install 'onward[{extra}]'")


class _Shared(BaseModel):
    """Settings whose variables have no prefix, because other programs know them too."""

    retry_max_attempts: CountOrNone = 8
    retry_base_delay_ms: Positive = 250.0
    retry_backoff_factor: Factor = 2.0
    retry_max_delay_seconds: Positive = 60.0
    retry_ttl_minutes: NotNegative = 30.0

    retry_job_interval_seconds: Positive = 900.0
    retry_job_base_delay_seconds: Positive = 300.0
    retry_job_max_delay_seconds: Positive = 3600.0
    retry_job_stuck_threshold_hours: Positive = 24.0
    retry_job_max_attempts_archives: Count = 3
    retry_job_max_attempts_messages: Count = 3
    retry_job_max_attempts_chunks: Count = 5
    retry_job_max_attempts_threads: Count = 5

    metrics_backend: Literal["prometheus", "prometheus_pushgateway", "noop"] = "prometheus"
    pushgateway_url: HttpUrl | None = None
    error_reporter_type: Literal["store", "http", "sentry", "noop"] = "store"
    error_reporter_url: HttpUrl | None = None
    sentry_dsn: Secret | None = None

    rabbitmq_host: str | None = None
    rabbitmq_port: Port = 5672
    rabbitmq_username: str = "guest"
    rabbitmq_password: Secret = SecretStr("guest")


class Settings(_Shared):
    """Everything that can be set; made by `load_settings`."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, validate_default=True)

    home: Folder = Path("onward-data")
    store: StoreUrl = Field(default_factory=lambda data: f"sqlite:///{data.get('home')}/onward.db")
    store_replica: ReplicaUrl | None = None
    gateway: BusUrl | None = None
    gateway_out: OutgoingTypes = "all"
    bus: BusUrl | None = None
    blobs: BlobStore | None = None
    vectors: str | None = None
    embedder: Embedder = "static"
    embedder_model: str = ""
    embedder_key: Secret | None = None
    embedder_timeout_seconds: Positive = 60.0
    embedder_max_tokens: Count = 512
    embedder_batch: Count = 64
    embedder_threads: Count | None = None
    embedder_download: bool = False
    embedder_upgrade: Embedder | None = None
    embedder_upgrade_model: str = ""
    embedder_upgrade_key: Secret | None = None
    summarizer: Model = "extractive"
    summarizer_model: str = ""
    summarizer_key: Secret | None = None
    summarizer_timeout_seconds: Positive = 300.0
    reranker: Reference | None = None
    chunk_tokens: ChunkTokens = 384
    chunk_overlap: CountOrNone = 40

    concurrency: Count = 3
    max_retries: Count = 3
    retry_backoff_seconds: Positive = 5.0
    breaker_failures: Count = 5
    breaker_documents: Count = 3
    breaker_probe_seconds: Positive = 10.0
    breaker_probe_max_seconds: Positive = 300.0
    breaker_restart_seconds: NotNegative = 0.0
    time_limit_seconds: Positive = 600.0
    keep_completed_seconds: Positive = 3600.0
    keep_completed_count: CountOrNone = 1000

    fetch_allow_private: bool = False
    fetch_proxy: Literal["none", "environment"] = "none"
    fetch_contact: Contact = ""
    fetch_max_bytes: Count = 2_000_000_000
    fetch_seconds: Positive = 300.0
    fetch_backoff_seconds: Positive = 2.0
    fetch_max_redirects: CountOrNone = 10
    unpack_max_bytes: Count = 50_000_000_000
    attachments_max_bytes: CountOrNone = 50_000_000
    ocr: Literal["off", "auto", "on"] = "auto"
    ocr_languages: OCRLanguages = "eng"
    ocr_seconds: Positive = 600.0
    read_seconds: Positive = 60.0
    read_max_memory_bytes: Count = 2_000_000_000
    log_format: Literal["auto", "text", "json"] = "auto"
    metrics_address: Address = "127.0.0.1:9464"
    metrics_instance: str = ""
    redact_addresses: bool = False
    serve_address: ListenAddress = "127.0.0.1:8321"
    serve_hosts: str = ""
    serve_max_upload_bytes: Count = 200_000_000
    serve_requests_per_second: Positive = 50.0
    serve_time_zone: TimeZone = "UTC"
    token: Secret | None = None

    @property
    def gateway_url(self) -> str | None:
        """Return the URL of the broker: `ONWARD_GATEWAY` (once `ONWARD_BUS`), or made of `RABBITMQ_…`, or None."""
        url = self.gateway or self.bus
        if url is not None or self.rabbitmq_host is None:
            return url
        password = quote(self.rabbitmq_password.get_secret_value(), safe="")
        user = quote(self.rabbitmq_username, safe="")
        return f"amqp://{user}:{password}@{self.rabbitmq_host}:{self.rabbitmq_port}/"

    @property
    def outgoing_types(self) -> frozenset[str] | None:
        """Return the event types that leave for other programs; None: all."""
        types = frozenset(one.strip() for one in self.gateway_out.split(","))
        if self.gateway_url is None or types == {"none"}:
            return frozenset()
        return None if types == {"all"} else types

    def ladder(self) -> Ladder:
        """Return the retry ladder with these numbers."""
        usual = Ladder()
        not_ready = {one.name: getattr(self, f"retry_{one.name}") for one in fields(RetryConfig)}
        rounds = Exponential(self.retry_job_base_delay_seconds, cap=self.retry_job_max_delay_seconds)
        return Ladder(
            not_ready=RetryPolicy(RetryConfig(**not_ready)),
            # The name `max_retries` is older than its meaning: it counts the first try too.
            transient=RetryPolicy(Exponential(self.retry_backoff_seconds), self.max_retries, name="transient"),
            fetching=RetryPolicy(Exponential(self.fetch_backoff_seconds), self.max_retries, name="fetching"),
            retry_job=RetryPolicy(rounds, name="retry job"),
            rounds={name: getattr(self, f"retry_job_max_attempts_{name}") for name in usual.rounds},
        )

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        # A URL may carry a password; SecretStr hides itself.
        for name, value in super().__repr_args__():
            yield name, redact(value) if isinstance(value, str) else value


def variable(field: str) -> str:
    """Return the environment variable of a setting."""
    return field.upper() if field in _Shared.model_fields else PREFIX + field.upper()


_NEEDS = (
    ("metrics_backend", "prometheus_pushgateway", "pushgateway_url"),
    ("error_reporter_type", "http", "error_reporter_url"),
    ("error_reporter_type", "sentry", "sentry_dsn"),
)


class _RawSetting(NamedTuple):
    """A value and the place that sets it."""

    value: object
    where: str
    secret: bool = False  # it was read from a file, and is never shown


def load_settings(environ: Mapping[str, str] | None = None, path: str | Path | None = None) -> Settings:
    """Read the settings from the environment and from `path`, or `onward.toml` here if there is one.

    An empty variable counts as not set. A variable that ends with `_FILE` names the file with the value.
    """
    environ = os.environ if environ is None else environ
    values = _read_toml(path)
    for name in Settings.model_fields:
        if (found := _read_variable(name, environ)) is not None:
            values[name] = found
    try:
        settings = Settings.model_validate({name: value.value for name, value in values.items()})
    except ValidationError as error:
        # Not raised from it: the message of pydantic would show the value, which may be a secret.
        # A problem with a default value only follows from a problem with a value that was set.
        wrong = dict.fromkeys(str(problem["loc"][0]) for problem in error.errors())
        lines = [_problem(name, values[name]) for name in wrong if name in values]
        raise SettingsError("\n".join(lines)) from None
    if settings.chunk_overlap > settings.chunk_tokens // 2:
        where = values["chunk_overlap"].where if "chunk_overlap" in values else variable("chunk_overlap")
        raise SettingsError(
            f"{where} is {settings.chunk_overlap}, but must be at most half of "
            f"{variable('chunk_tokens')}, which is {settings.chunk_tokens}."
        )
    if settings.gateway and settings.bus and settings.gateway != settings.bus:
        where = " and ".join(values[name].where for name in ("gateway", "bus"))
        raise SettingsError(
            f"{where} name different brokers. Keep {variable('gateway')}; the other is its older name."
        )
    _check_home(settings.home, values.get("home"))
    for name, value, needed in _NEEDS:
        if getattr(settings, name) == value and getattr(settings, needed) is None:
            raise SettingsError(
                f"{values[name].where} is {value!r}, which needs {variable(needed)}: {_allowed(needed)}."
            )
    return settings


def _check_home(home: Path, value: _RawSetting | None) -> None:
    """Raise if the data folder, or a folder above it, is a file."""
    try:
        existing = next(path for path in (home, *home.absolute().parents) if path.exists())
    except OSError:
        return  # the error when it is opened has the details
    if not existing.is_dir():
        named = f"{value.where} names" if value else f"{variable('home')} is not set, and its default is"
        raise SettingsError(
            f"{named} the data folder {str(home)!r}, but {str(existing)!r} is a file. Name a folder, or move the "
            "file away."
        )


def from_environ(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the value of a setting from the environment or the file that it names; None if it is not set."""
    value = _read_variable(name, environ)
    return None if value is None else str(value.value)


# Passwords of accounts are no settings: there may be one for each account, and none belongs in onward.toml.
_OF_ACCOUNTS = re.compile(r"ONWARD_(?:NETRC|IMAP_(?:PASSWORD|TOKEN_COMMAND)(?:_[A-Z0-9_]+)?)")


def unknown_variables(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return variables that begin with `ONWARD_` and set nothing, each with the nearest known one, if any."""
    variables = [variable(name) + end for name in Settings.model_fields for end in ("", IN_FILE)]
    unknown = sorted(name for name, value in environ.items() if name.startswith(PREFIX) and value)
    return [
        (name, _nearest(name, variables))
        for name in unknown
        if name not in variables and not _OF_ACCOUNTS.fullmatch(name)
    ]


def _nearest(name: str, variables: Iterable[str]) -> str:
    return next(iter(difflib.get_close_matches(name, variables, n=1)), "")


def named_by(name: str, environ: Mapping[str, str]) -> str:
    """Return the variable that sets a setting, or names the file with its value; empty if there is none."""
    return next((var for var in (variable(name), variable(name) + IN_FILE) if environ.get(var)), "")


def _read_variable(name: str, environ: Mapping[str, str]) -> _RawSetting | None:
    var, in_file = variable(name), variable(name) + IN_FILE
    value, path = environ.get(var), environ.get(in_file)
    if value and path:
        raise SettingsError(f"{var} and {in_file} are both set. Keep one: the value, or the file that holds it.")
    if path:
        return _RawSetting(_read_secret(in_file, path), f"{in_file} ({_redacted(path)})", secret=True)
    return _RawSetting(value, var) if value else None


def _read_secret(var: str, path: str) -> str:
    """Return the content of a file without the line end that editors add."""
    # The path is redacted: it may be the secret itself, given by mistake.
    named = f"{var} names the file {_redacted(path)}, which"
    try:
        with Path(path).expanduser().open("rb") as file:
            text = file.read(MAX_FILE_BYTES + 1).decode()
    except UnicodeDecodeError:
        raise SettingsError(f"{named} is no text. Write it in UTF-8.") from None
    except (OSError, RuntimeError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "there can be none of this name"
        raise SettingsError(
            f"{named} cannot be read: {why}. Name one that this user can read, with nothing but the value in it."
        ) from None
    if not (value := text.rstrip("\r\n")) or len(text) > MAX_FILE_BYTES or "\0" in text:
        what = "is empty" if not value else "holds more than a value"
        raise SettingsError(f"{named} {what}. Write the value into it, and nothing else.")
    return value


def _read_toml(path: str | Path | None) -> dict[str, _RawSetting]:
    file = Path(FILE if path is None else path)
    if path is None and not file.exists():
        return {}
    import tomllib  # not at the top: most commands find no such file

    try:
        tables = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror}. Name another file, or make it.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} is not valid TOML: {redact(str(error))}.") from None
    values: dict[str, _RawSetting] = {}
    for keys, value in _flatten(tables):
        name, dotted = "_".join(keys), ".".join(keys)
        if name not in Settings.model_fields:
            close = _nearest(name, Settings.model_fields)
            meant = f"Did you mean {close}?" if close else f"Known are: {', '.join(Settings.model_fields)}."
            raise SettingsError(f"{file}: there is no setting {dotted}. {meant}")
        if name in values:
            raise SettingsError(f"{file}: {dotted} is set twice, in different spellings. Keep one.")
        values[name] = _RawSetting(value, f"{file}: {dotted}")
    return values


def _flatten(table: Mapping[str, Any], *prefix: str) -> Iterator[tuple[tuple[str, ...], object]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(value, *prefix, key)
        else:
            yield (*prefix, key), value


def _problem(name: str, value: _RawSetting) -> str:
    shown = "not shown here" if value.secret or SecretStr in _kinds(name) else _redacted(value.value)
    return f"{value.where} is {shown}, but must be {_allowed(name)}."


def _redacted(value: object) -> str:
    """Return an invalid value without the password that it may contain."""
    # The text before an @ may be a password even if the value is not a URL.
    if not isinstance(value, str):
        return redact(re.sub(r".*@", "***@", repr(value), flags=re.DOTALL))
    return redact(repr(re.sub(r"^([a-z][a-z0-9+.-]*://)?.*@", r"\1***@", value, flags=re.DOTALL)))


def _allowed(name: str) -> str:
    if description := Settings.model_fields[name].description:
        return description
    for kind in _kinds(name):
        if get_origin(kind) is Literal:
            return "one of " + ", ".join(get_args(kind))
        if get_origin(kind) is Annotated:
            return str(get_args(kind)[-1].description)
    return "true or false" if bool in _kinds(name) else "text"


def _kinds(name: str) -> list[object]:
    """Return a setting's type, and those it is made of."""
    kinds: list[object] = [Settings.model_fields[name].annotation]
    for kind in kinds:
        kinds.extend(get_args(kind))
    return kinds


def with_value(settings: Settings, name: str, value: object, where: str) -> Settings:
    """Return the settings with another value for one of them; `where` is what an error calls it."""
    try:
        checked = getattr(Settings.model_validate({name: value}), name)
    except ValidationError:
        raise SettingsError(_problem(name, _RawSetting(value, where))) from None
    return settings.model_copy(update={name: checked})
