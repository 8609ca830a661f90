"""The checks of `onward doctor`; one that fails does not stop the others."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr, ValidationError

from onward.ops.lookup import is_server, store_file
from onward.ops.text.format import moment, size
from onward.retry.errors import OnwardError
from onward.retry.redact import redact
from onward.settings import (
    FILE,
    Settings,
    SettingsError,
    from_environ,
    load_settings,
    named_by,
    unknown_variables,
    variable,
)

if TYPE_CHECKING:
    from onward.ledger.postgres.inspection import ServerInspection
    from onward.ledger.sqlite.inspection import FileInspection

LOW_FREE_BYTES = 1_000_000_000
"""With less free disk space there is a warning."""
MIN_FREE_BYTES = 100_000_000
"""With less, a commit, the write-ahead log or a fetched file may not fit."""
LARGE_WAL_BYTES = 200_000_000
MAX_SKEW_SECONDS = 60.0
"""A time may be this far in the future."""
EARLIEST_TIME = 1_704_067_200.0
"""2024: an earlier clock is wrong."""
PLACES = ("home", "store", "bus", "blobs")


class Level(StrEnum):
    """How serious a finding is."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check, and what to do about it."""

    name: str
    level: Level
    text: str
    remedy: str = ""


def ok(name: str, text: str) -> Check:
    return Check(name, Level.OK, redact(text))


def warning(name: str, text: str, remedy: str) -> Check:
    return Check(name, Level.WARNING, redact(text), redact(remedy))


def wrong(name: str, text: str, remedy: str) -> Check:
    return Check(name, Level.WRONG, redact(text), redact(remedy))


def check_everything() -> list[Check]:
    """Return the results of all checks, each after those that it depends on."""
    from onward.cli.doctor.model_checks import check_models
    from onward.cli.doctor.store_checks import check_contents

    found = [*_guarded("versions", check_versions)]
    settings, about = read_settings()
    found += about
    found += _guarded("folder", lambda: check_folder("data folder", settings.home, "ONWARD_HOME"))
    examined: list[FileInspection | ServerInspection] = []
    found += _guarded("store", lambda: check_store(settings, examined))
    found += _guarded("disk", lambda: check_disk(settings))
    found += _guarded("clock", check_clock)
    usable = bool(examined) and examined[0].schema == examined[0].known_schema and examined[0].usable
    found += _guarded("bus", lambda: check_bus(settings))
    found += _guarded("blobs", lambda: check_blobs(settings))
    found += _guarded("models", lambda: check_models(settings))
    if usable:
        found += _guarded("contents", lambda: check_contents(settings, examined[0]))
    return found


def _guarded(name: str, check: Callable[[], Iterator[Check]]) -> list[Check]:
    """Return the results of a check; if it raises, that is a result, too."""
    found: list[Check] = []
    try:
        found.extend(check())
    except Exception as error:
        found.append(wrong(name, f"could not be checked: {type(error).__name__}: {error}", "repair that first"))
    return found


def check_versions() -> Iterator[Check]:
    from onward.ledger.sqlite.inspection import LEAST_SQLITE

    yield ok("python", f"Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    if sqlite3.sqlite_version_info < LEAST_SQLITE:
        least = ".".join(map(str, LEAST_SQLITE))
        yield wrong("sqlite", f"SQLite {sqlite3.sqlite_version}", f"install a Python with SQLite {least} or newer")
        return
    memory = sqlite3.connect(":memory:")
    try:
        memory.execute("CREATE VIRTUAL TABLE texts USING fts5 (text)")
    except sqlite3.OperationalError:
        yield wrong("sqlite", "it has no full-text search", "install a Python whose SQLite has FTS5")
    else:
        yield ok("sqlite", f"SQLite {sqlite3.sqlite_version}")
    finally:
        memory.close()


# -- settings


def read_settings() -> tuple[Settings, list[Check]]:
    """Return the settings, or the valid ones of them, and their checks."""
    unknown = [
        warning(
            "settings", f"{name} is set, but no setting has this name", f"set {close}" if close else "unset it"
        )
        for name, close in unknown_variables(os.environ)
    ]
    try:
        settings = load_settings()
    except SettingsError as error:
        places = ", ".join(variable(name) for name in PLACES)
        remedy = f"set what is allowed; the other checks use the usual settings, with {places} as they are set"
        return _places(), [*unknown, *(wrong("settings", line, remedy) for line in str(error).splitlines())]
    results = [*unknown, *_changed(settings)]
    return settings, results or [ok("settings", "all have their defaults")]


def _places() -> Settings:
    """Return the default settings, with the valid ones of `PLACES` from the environment."""
    given = {}
    for name in PLACES:
        with suppress(SettingsError, ValidationError):
            if value := from_environ(name, os.environ):
                Settings.model_validate({name: value})
                given[name] = value
    return Settings.model_validate(given)


def _changed(settings: Settings) -> Iterator[Check]:
    usual = Settings.model_validate({"home": settings.home})
    for name in Settings.model_fields:
        value = getattr(settings, name)
        default = Path("onward-data") if name == "home" else getattr(usual, name)
        if value == default:
            continue
        shown = "is set, but not shown" if isinstance(value, SecretStr) else f"= {value}"
        yield ok("setting", f"{name} {shown}, from {named_by(name, os.environ) or FILE}")


# -- files and folders


def check_folder(name: str, folder: Path, setting: str) -> Iterator[Check]:
    """Check that a folder can be used, or created when it is needed."""
    try:
        there = folder.exists()
        parent = next(path for path in (folder, *folder.absolute().parents) if path.exists())
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


def check_store(settings: Settings, examined: list[FileInspection | ServerInspection]) -> Iterator[Check]:
    """Check that the store can be opened; its inspection is appended to `examined`."""
    from onward.ledger.sqlite.inspection import Unreadable, examine

    file = store_file(settings.store)
    if file is None:
        if is_server(settings.store):
            from onward.cli.doctor.server_checks import check_postgres

            yield from check_postgres(settings.store, examined)
        else:
            yield ok("store", "in memory: it is gone when the process ends")
        return
    try:
        there = file.exists()
    except OSError as error:
        yield wrong("store", f"{file} cannot be reached: {error.strerror}", "allow it for this user")
        return
    if not there:
        yield ok("store", f"there is none yet; the first `onward ingest` makes {file}")
        return
    try:
        found = examine(file, now=time.time() + MAX_SKEW_SECONDS)
    except Unreadable as error:
        remedy = "restore it from a copy, or move it away to begin anew"
        if "cannot be read" in str(error):
            remedy = f"let this user read and write {file}, or name another store with ONWARD_STORE"
        yield wrong("store", f"{file}: {error}", remedy)
        return
    examined.append(found)
    yield from _schema(file, found)
    yield from _file(file)


def _schema(file: Path, found: FileInspection) -> Iterator[Check]:
    if found.schema > found.known_schema:
        text = f"{file} has schema version {found.schema}, this Onward knows {found.known_schema}"
        yield wrong("store", text, "pip install --upgrade onward")
        return
    if not found.schema:
        yield wrong("store", f"{file} is no store of Onward", "move it away, or name another with ONWARD_STORE")
        return
    older = ""
    if found.schema < found.known_schema:
        older = f"; the next start brings it to version {found.known_schema}"
    if found.damage:
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
        yield ok("store", f"{file}, {size(file.stat().st_size)}, schema version {found.schema}, {whole}{older}")


def _file(file: Path) -> Iterator[Check]:
    parts = [path for end in ("", "-wal", "-shm") if (path := file.with_name(file.name + end)).exists()]
    locked = [path for path in parts if not os.access(path, os.R_OK | os.W_OK)]
    if locked or not os.access(file.parent, os.W_OK | os.X_OK):
        what = locked[0] if locked else file.parent
        yield wrong("permissions", f"{what} cannot be written", f"let this user write {what}")
    elif any(path.stat().st_mode & 0o002 for path in parts):
        yield warning("permissions", f"{file} can be written by everybody", f"chmod o-w {file}*")
    else:
        yield ok("permissions", "the store can be read and written")
    wal = file.with_name(file.name + "-wal")
    length = wal.stat().st_size if wal.exists() else 0
    if length > max(LARGE_WAL_BYTES, file.stat().st_size):
        remedy = "something reads for very long: end it, or stop all workers once, which merges it"
        yield warning("write-ahead log", f"{size(length)}, larger than the store", remedy)
    else:
        yield ok("write-ahead log", size(length))


def check_disk(settings: Settings) -> Iterator[Check]:
    file = store_file(settings.store)
    store = file.stat().st_size if file is not None and file.exists() else 0
    places = [file.parent if file is not None else settings.home]
    if not is_server(settings.blobs or settings.store):
        places.append(Path(settings.blobs).expanduser() if settings.blobs else settings.home / "blobs")
    there = [next(path for path in (place, *place.absolute().parents) if path.exists()) for place in places]
    for place in {_device(path): path for path in reversed(there)}.values():
        yield _check_space(place, store if place == there[0] else 0)


def _device(place: Path) -> int:
    return place.stat().st_dev


def _check_space(there: Path, store: int) -> Check:
    """Check whether a disk has room for what is written next; `store` is the size of the store on it."""
    free = shutil.disk_usage(there).free
    remedy = "free some disk space, or move the data folder and set ONWARD_HOME"
    if free < MIN_FREE_BYTES:
        text = f"{size(free)} free at {there}, and at least {size(MIN_FREE_BYTES)} is needed to go on"
        return wrong("disk", text, remedy)
    if free < max(LOW_FREE_BYTES, 2 * store):
        text = f"{size(free)} free at {there}"
        text += f", less than twice the store ({size(store)})" if free >= LOW_FREE_BYTES else ""
        return warning("disk", text, remedy)
    return ok("disk", f"{size(free)} free at {there}")


def check_clock() -> Iterator[Check]:
    now = time.time()
    zone = datetime.now(UTC).astimezone()
    shown = f"{moment(now)} {zone.tzname()} (UTC{zone.strftime('%z')})"
    if now < EARLIEST_TIME:
        yield wrong("clock", f"it is {shown}, which is impossible", "set the clock, and let NTP keep it right")
    else:
        yield ok("clock", shown)


def check_bus(settings: Settings) -> Iterator[Check]:
    """Check the broker that other programs publish events to, if there is one."""
    if settings.bus_url is None:
        yield ok("bus", "none: no other program publishes events")
        return
    from onward.cli.doctor.server_checks import check_rabbitmq

    yield from check_rabbitmq(settings.bus_url)


def check_blobs(settings: Settings) -> Iterator[Check]:
    """Check that blobs can be stored where the settings say."""
    if not is_server(place := settings.blobs or settings.store):
        folder = Path(settings.blobs).expanduser() if settings.blobs else settings.home / "blobs"
        yield from check_folder("blobs", folder, "ONWARD_BLOBS")
    elif place == settings.store:
        yield ok("blobs", "in the store's database")
    else:
        from onward.ledger.postgres.inspection import exists

        try:
            made = "" if exists(place) else ", whose tables are made when they are first needed"
        except OnwardError as error:
            yield wrong("blobs", str(error), "check ONWARD_BLOBS, and that the server runs")
        else:
            yield ok("blobs", f"in the database {place}{made}")
