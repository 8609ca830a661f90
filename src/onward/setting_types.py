"""The types of settings: what is allowed as a value, with the sentence that an error message has for it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from onward.s3_place import SCHEME as S3
from onward.s3_place import parse_s3_url

_AUTHORITY = re.compile(r"(?:\[[^\]]*\]|[^:\[\]]*)(?::\d*)?")  # a host and its port


def _no_bool(value: object) -> object:
    # TOML's `true` would pass for the number 1.
    if isinstance(value, bool):
        raise ValueError("a truth value is not a number")  # noqa: TRY004 - pydantic wants it so
    return value


def _is_store(value: str) -> str:
    scheme, separator, _ = value.partition("://")
    if not separator or scheme not in ("sqlite", "postgresql", "postgres"):
        raise ValueError("no URL of a store")
    if scheme != "sqlite":
        # A / or # in a password ends the host, and the rest of the password would be read as the database.
        hosts = urlsplit(value).netloc.rpartition("@")[2]
        if re.search(r"\s", value) or not all(_AUTHORITY.fullmatch(host) for host in hosts.split(",")):
            raise ValueError("no URL of a server")
    return value


def _is_blob_store(value: str) -> str:
    if value.startswith(S3):
        parse_s3_url(value)
    elif value.startswith(("postgresql://", "postgres://")):
        _is_store(value)
    elif re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", value):
        raise ValueError("no URL of a blob store")
    return value


def _is_bus(value: str) -> str:
    # `port` raises ValueError if it is not a number.
    url = urlsplit(value)
    if not value.startswith(("amqp://", "amqps://")) or not url.hostname or url.port == 0:
        raise ValueError("no URL of a broker")
    # An @ behind the host is part of a password that is not escaped.
    if re.search(r"\s", value) or "@" in value.partition("://")[2][len(url.netloc) :]:
        raise ValueError("no URL of a broker")
    return value


def _is_outgoing(value: str) -> str:
    types = [one.strip() for one in value.split(",")]
    words = {one.lower() for one in types} & {"all", "none"}
    if words and len(types) > 1:
        raise ValueError("all or none beside event types")
    return words.pop() if words else value


def _is_address(value: str) -> str:
    host, _, port = value.rpartition(":")
    if value != "off" and not (host and port.isdecimal() and 0 <= int(port) <= 65535):
        raise ValueError("no host and port")
    return value


def _is_time_zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (LookupError, OSError, ValueError):
        # UTC needs no time zone database.
        if value != "UTC":
            raise ValueError("no time zone") from None
    return value


def _expanded(folder: Path) -> Path:
    try:
        return folder.expanduser()
    except RuntimeError as error:  # ~nobody
        raise ValueError(str(error)) from None


# The description is what an error message says is allowed.
_NUMBER = BeforeValidator(_no_bool)
Count = Annotated[int, _NUMBER, Field(ge=1, description="a whole number of at least 1")]
CountOrNone = Annotated[int, _NUMBER, Field(ge=0, description="a whole number of at least 0")]
ChunkTokens = Annotated[int, _NUMBER, Field(ge=32, description="a whole number of at least 32")]
Port = Annotated[int, _NUMBER, Field(ge=1, le=65535, description="a port from 1 to 65535")]
Positive = Annotated[float, _NUMBER, Field(gt=0, allow_inf_nan=False, description="a number above 0")]
NotNegative = Annotated[float, _NUMBER, Field(ge=0, allow_inf_nan=False, description="a number of at least 0")]
Factor = Annotated[float, _NUMBER, Field(ge=1, allow_inf_nan=False, description="a number of at least 1")]
_ESCAPED = "in a password, / ? # @ are written %2F %3F %23 %40"
StoreUrl = Annotated[
    str,
    AfterValidator(_is_store),
    Field(description=f"a URL such as sqlite:///folder/file.db or postgresql://user@host/name ({_ESCAPED})"),
]
ReplicaUrl = Annotated[
    str,
    AfterValidator(_is_store),
    Field(pattern=r"^postgres(ql)?://", description=f"a URL such as postgresql://user@standby/name ({_ESCAPED})"),
]
BlobStore = Annotated[
    str,
    AfterValidator(_is_blob_store),
    Field(
        description="the path of a folder, a database as in postgresql://user@host/name, or a bucket as in "
        "s3://bucket/prefix?endpoint=https://host:9000&region=eu-central-1 (all but the bucket may be left out; "
        "addressing=path or virtual; credentials come from the environment, never from the URL)"
    ),
]
BusUrl = Annotated[
    str,
    AfterValidator(_is_bus),
    Field(description=f"a URL such as amqp://user@host:5672/, or amqps:// with TLS ({_ESCAPED})"),
]
OCRLanguages = Annotated[
    str,
    Field(pattern=r"^[A-Za-z][\w/-]*(\+[A-Za-z][\w/-]*)*$", description="languages of tesseract, such as eng+deu"),
]
OutgoingTypes = Annotated[
    str,
    AfterValidator(_is_outgoing),
    Field(pattern=r"^\s*\w+(\s*,\s*\w+)*\s*$", description="all, none, or event types with commas between them"),
]
Address = Annotated[
    str, AfterValidator(_is_address), Field(description="a host and a port, such as 127.0.0.1:9464, or off")
]
ListenAddress = Annotated[  # without `off`, which has no colon
    str, AfterValidator(_is_address), Field(pattern=":", description="a host and a port, such as 127.0.0.1:8321")
]
TimeZone = Annotated[
    str, AfterValidator(_is_time_zone), Field(description="a time zone such as UTC or Europe/Berlin")
]
HttpUrl = Annotated[str, Field(pattern=r"^https?://[^/]", description="a URL with http:// or https://")]
Contact = Annotated[
    str,
    Field(
        pattern=r"^([!-'*-;=?-~]+)?$",
        description="a URL or a mail address, such as https://example.org/bot or bot@example.org",
    ),
]
Folder = Annotated[Path, AfterValidator(_expanded), Field(description="the path of a folder")]
Secret = Annotated[SecretStr, Field(min_length=1, description="text that is not empty")]
Reference = Annotated[
    str, Field(pattern=r"^\w+(\.\w+)*:\w+$", description="a function, as in package.module:function")
]
Model = Annotated[str, Field(min_length=1, description="the name of a built-in model, or a URL")]
Embedder = Annotated[
    str,
    Field(min_length=1, description="static, local: with a folder or the name of a model, or a URL"),
]
