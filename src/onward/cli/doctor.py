"""`onward doctor`: check the installation, and say what to repair. A check that fails does not stop the others."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
from pydantic import SecretStr, ValidationError
from rich.text import Text

from onward.cli.output import Output
from onward.cli.params import json_option, print_json
from onward.ops.lookup import is_server, store_file
from onward.ops.text.format import counted, moment, one_line, size
from onward.retry.errors import OnwardError
from onward.retry.redact import redact
from onward.s3_place import SCHEME as S3
from onward.settings import FILE, Settings, SettingsError, from_environ, load_settings, named_by, unknown_variables

if TYPE_CHECKING:
    from onward.ledger.postgres.inspection import ServerInspection
    from onward.ledger.sqlite.inspection import FileInspection

    Examined = list[FileInspection | ServerInspection]

LOW_FREE_BYTES = 1_000_000_000  # with less free disk space there is a warning
MIN_FREE_BYTES = 100_000_000  # with less, a commit, the write-ahead log or a fetched file may not fit
LARGE_WAL_BYTES = 200_000_000
MAX_SKEW_SECONDS = 60.0  # a time may be this far in the future
EARLIEST_TIME = 1_704_067_200.0  # 2024: an earlier clock is wrong
PLACES = ("home", "store", "gateway", "bus", "blobs")


_MARKS = {"ok": ("ok", "green"), "warning": ("look", "yellow"), "wrong": ("wrong", "bold red")}


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check, and what to do about it."""

    name: str
    level: str  # how serious it is: a key of _MARKS
    text: str
    remedy: str = ""


Checks = Iterator[Check]


def ok(name: str, text: str) -> Check:
    return Check(name, "ok", redact(text))


def warning(name: str, text: str, remedy: str) -> Check:
    return Check(name, "warning", redact(text), redact(remedy))


def wrong(name: str, text: str, remedy: str) -> Check:
    return Check(name, "wrong", redact(text), redact(remedy))


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Check settings, folders, store, disk, clock, gateway, models and workers, and say what to repair.

    For servers (PostgreSQL, RabbitMQ) it also checks rights, latency, clocks, connections and queues.
    It changes nothing; in an object store it writes an object, and deletes it again.

    \b
    Exit codes: 0 nothing is wrong, 1 something is.

    \b
    Examples:
      onward doctor
      onward doctor --json
      ONWARD_STORE=postgresql://onward@db/onward onward doctor
    """
    checks = list(_check_everything())
    faults, looks = (sum(check.level == level for check in checks) for level in ("wrong", "warning"))
    if as_json:
        print_json({"healthy": not faults, "checks": [asdict(check) for check in checks]})
    else:
        out = Output()
        for check in checks:
            mark, style = _MARKS[check.level]
            head = Text.assemble((f"{mark:6}", style), (f"{check.name:16}", "dim"))
            out.hanging(head, Text(one_line(check.text, 400)))
            if check.remedy:
                out.hanging(Text(" " * len(head)), Text(one_line(check.remedy), "bold"))
        out.print()
        also = f"; {counted(looks, 'thing')} worth a look" if looks else ""
        if faults:
            out.write(f"{counted(faults, 'thing')} wrong{also}.", style="bold red")
        else:
            out.write(f"Nothing is wrong{also}.", style="green")
    raise SystemExit(1 if faults else 0)


def _check_everything() -> Checks:
    """Yield the results of all checks, each after those that it depends on."""
    from onward.cli.doctor_backends import check_contents, check_gateway
    from onward.cli.doctor_models import check_models
    from onward.cli.doctor_readers import check_ocr, check_readers
    from onward.cli.doctor_sources import check_source_kinds

    yield from _guarded("versions", _check_versions())
    settings, about = _read_settings()
    yield from about
    examined: Examined = []
    for name, checks in (
        ("folder", _check_folder("data folder", settings.home, "ONWARD_HOME")),
        ("store", _check_store(settings, examined)),
        ("disk", _check_disk(settings)),
        ("clock", _check_clock()),
        ("gateway", check_gateway(settings)),
        ("blobs", _check_blobs(settings)),
        ("models", check_models(settings)),
        ("ocr", check_ocr(settings)),
        ("kinds of sources", check_source_kinds()),
        ("readers", check_readers()),
        ("contents", check_contents(settings, examined)),
    ):
        yield from _guarded(name, checks)


def _guarded(name: str, checks: Checks) -> Checks:
    """Yield the results of a check; if it raises, that is a result, too."""
    try:
        yield from checks
    except Exception as error:
        yield wrong(name, f"could not be checked: {type(error).__name__}: {error}", "repair that first")


def _check_versions() -> Checks:
    from onward.ledger.sqlite.inspection import LEAST_SQLITE

    yield ok("python", f"Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    if sqlite3.sqlite_version_info < LEAST_SQLITE:
        least = ".".join(map(str, LEAST_SQLITE))
        yield wrong("sqlite", f"SQLite {sqlite3.sqlite_version}", f"install a Python with SQLite {least} or newer")
        return
    with closing(sqlite3.connect(":memory:")) as memory:
        try:
            memory.execute("CREATE VIRTUAL TABLE texts USING fts5 (text)")
        except sqlite3.OperationalError:
            yield wrong("sqlite", "it has no full-text search", "install a Python whose SQLite has FTS5")
        else:
            yield ok("sqlite", f"SQLite {sqlite3.sqlite_version}")


def _read_settings() -> tuple[Settings, list[Check]]:
    """Return the settings, or the valid ones of them, and their checks."""
    checks = [
        warning(
            "settings", f"{name} is set, but no setting has this name", f"set {close}" if close else "unset it"
        )
        for name, close in unknown_variables(os.environ)
    ]
    try:
        settings = load_settings()
    except SettingsError as error:
        places = ", ".join(f"ONWARD_{name.upper()}" for name in PLACES)
        remedy = f"set what is allowed; the other checks use the usual settings, with {places} as they are set"
        given = {}
        for name in PLACES:
            with suppress(SettingsError, ValidationError):
                if value := from_environ(name, os.environ):
                    Settings.model_validate({name: value})
                    given[name] = value
        lines = str(error).splitlines()
        return Settings.model_validate(given), [*checks, *(wrong("settings", line, remedy) for line in lines)]
    usual = Settings.model_validate({"home": settings.home})
    for name in Settings.model_fields:
        value = getattr(settings, name)
        if value != (Path("onward-data") if name == "home" else getattr(usual, name)):
            shown = "is set, but not shown" if isinstance(value, SecretStr) else f"= {value}"
            checks.append(ok("setting", f"{name} {shown}, from {named_by(name, os.environ) or FILE}"))
    return settings, checks or [ok("settings", "all have their defaults")]


# -- files and folders


def _existing(path: Path) -> Path:
    """Return a path, or the nearest folder above it that exists."""
    return next(one for one in (path, *path.absolute().parents) if one.exists())


def _check_folder(name: str, folder: Path, setting: str) -> Checks:
    """Check that a folder can be used, or created when it is needed."""
    try:
        there, parent = folder.exists(), _existing(folder)
    except OSError as error:
        yield wrong(name, f"{folder} cannot be reached: {error.strerror}", f"name another one with {setting}")
        return
    if not parent.is_dir():
        yield wrong(name, f"{parent} is not a folder", f"move it away, or name another folder with {setting}")
    elif not os.access(parent, os.W_OK | os.X_OK):
        yield wrong(name, f"{parent} cannot be written", f"make it writable, or name another with {setting}")
    elif not there:
        yield ok(name, f"{folder} is made when it is first needed")
    elif folder.stat().st_mode & 0o002 and not folder.stat().st_mode & 0o1000:
        yield warning(name, f"{folder} can be written by everybody", f"chmod o-w {folder}")
    else:
        yield ok(name, str(folder))


def _check_store(settings: Settings, examined: Examined) -> Checks:
    """Check that the store can be opened; its inspection is appended to `examined`."""
    from onward.ledger.sqlite.inspection import Unreadable, examine

    file = store_file(settings.store)
    if file is None:
        if is_server(settings.store):
            from onward.cli.doctor_backends import check_postgres, check_replica

            yield from check_postgres(settings.store, examined)
            yield from check_replica(settings)
        else:
            yield ok("store", "in memory: it is gone when the process ends")
        return
    try:
        if not file.exists():
            yield ok("store", f"there is none yet; the first `onward ingest` makes {file}")
            return
        found = examine(file, now=time.time() + MAX_SKEW_SECONDS)
    except OSError as error:
        yield wrong("store", f"{file} cannot be reached: {error.strerror}", "allow it for this user")
    except Unreadable as error:
        remedy = "restore it from a copy, or move it away to begin anew"
        if "cannot be read" in str(error):
            remedy = f"let this user read and write {file}, or name another store with ONWARD_STORE"
        yield wrong("store", f"{file}: {error}", remedy)
    else:
        examined.append(found)
        yield from _check_file_schema(file, found)
        yield from _check_file_access(file)


def _check_file_schema(file: Path, found: FileInspection) -> Checks:
    if found.schema > found.known_schema:
        text = f"{file} has schema version {found.schema}, this Onward knows {found.known_schema}"
        yield wrong("store", text, "pip install --upgrade onward")
    elif not found.schema:
        yield wrong("store", f"{file} is no store of Onward", "move it away, or name another with ONWARD_STORE")
    elif found.damage:
        remedy = "stop all workers and restore it from a copy; `sqlite3 FILE .recover` saves what can be saved"
        yield wrong("store", f"{file} is damaged: {'; '.join(found.damage)}", remedy)
    elif found.missing:
        for part in found.missing:
            remedy = "restore it from a copy, or move it away to begin anew"
            if part.statement:
                made = " ".join(part.statement.split())
                remedy = f"stop all workers and make it: sqlite3 {shlex.quote(str(file))} {shlex.quote(made)}"
            yield wrong("store", f"{file} lacks {part.what}", remedy)
    else:
        whole = "intact" if found.damage is not None else "too large to be checked to its end in time"
        if found.schema < found.known_schema:
            whole += f"; the next start brings it to version {found.known_schema}"
        yield ok("store", f"{file}, {size(file.stat().st_size)}, schema version {found.schema}, {whole}")


def _check_file_access(file: Path) -> Checks:
    wal = file.with_name(f"{file.name}-wal")
    parts = [path for path in (file, wal, file.with_name(f"{file.name}-shm")) if path.exists()]
    locked = [path for path in parts if not os.access(path, os.R_OK | os.W_OK)]
    if not os.access(file.parent, os.W_OK | os.X_OK):
        locked.append(file.parent)
    if locked:
        yield wrong("permissions", f"{locked[0]} cannot be written", f"let this user write {locked[0]}")
    elif any(path.stat().st_mode & 0o002 for path in parts):
        yield warning("permissions", f"{file} can be written by everybody", f"chmod o-w {file}*")
    else:
        yield ok("permissions", "the store can be read and written")
    length = wal.stat().st_size if wal.exists() else 0
    if length > max(LARGE_WAL_BYTES, file.stat().st_size):
        remedy = "something reads for very long: end it, or stop all workers once, which merges it"
        yield warning("write-ahead log", f"{size(length)}, larger than the store", remedy)
    else:
        yield ok("write-ahead log", size(length))


def _blob_folder(settings: Settings) -> Path | None:
    """Return the folder of blobs, unless they are in a database or a bucket."""
    if is_server(settings.blobs or settings.store) or (settings.blobs or "").startswith(S3):
        return None
    return Path(settings.blobs).expanduser() if settings.blobs else settings.home / "blobs"


def _check_disk(settings: Settings) -> Checks:
    """Check whether the disks of the store and of the blobs have room for what is written next."""
    file = store_file(settings.store)
    store_size = file.stat().st_size if file is not None and file.exists() else 0
    places = [file.parent if file is not None else settings.home, _blob_folder(settings)]
    there = [_existing(place) for place in places if place is not None]
    remedy = "free some disk space, or move the data folder and set ONWARD_HOME"
    for place in {_device(path): path for path in reversed(there)}.values():
        store = store_size if place == there[0] else 0
        free = shutil.disk_usage(place).free
        text = f"{size(free)} free at {place}"
        if free < MIN_FREE_BYTES:
            yield wrong("disk", f"{text}, and at least {size(MIN_FREE_BYTES)} is needed to go on", remedy)
        elif free < LOW_FREE_BYTES:
            yield warning("disk", text, remedy)
        elif free < 2 * store:
            yield warning("disk", f"{text}, less than twice the store ({size(store)})", remedy)
        else:
            yield ok("disk", text)


def _device(place: Path) -> int:
    return place.stat().st_dev


def _check_clock() -> Checks:
    now = time.time()
    zone = datetime.now(UTC).astimezone()
    shown = f"{moment(now)} {zone.tzname()} (UTC{zone.strftime('%z')})"
    if now < EARLIEST_TIME:
        yield wrong("clock", f"it is {shown}, which is impossible", "set the clock, and let NTP keep it right")
    else:
        yield ok("clock", shown)


def _check_blobs(settings: Settings) -> Checks:
    """Check that blobs can be stored where the settings say."""
    if (folder := _blob_folder(settings)) is not None:
        yield from _check_folder("blobs", folder, "ONWARD_BLOBS")
    elif not settings.blobs or settings.blobs == settings.store:
        yield ok("blobs", "in the store's database")
    elif settings.blobs.startswith(S3):
        from onward.cli.doctor_object_store import check_object_store

        yield from check_object_store(settings.blobs, settings.home)
    else:
        from onward.ledger.postgres.inspection import exists

        try:
            made = "" if exists(settings.blobs) else ", whose tables are made when they are first needed"
        except OnwardError as error:
            yield wrong("blobs", str(error), "check ONWARD_BLOBS, and that the server runs")
        else:
            yield ok("blobs", f"in the database {settings.blobs}{made}")
