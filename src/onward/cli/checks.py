"""What `onward doctor` checks, one after the other; a check that fails stops none of the others."""

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

from onward.facts.finding import is_server, store_file
from onward.facts.wording import moment, size
from onward.retry.errors import OnwardError
from onward.retry.redact import redact
from onward.settings import FILE, Settings, SettingsError, from_environ, load_settings, named_by, variable

if TYPE_CHECKING:
    from onward.backends.postgres.examining import ExaminedServer
    from onward.backends.sqlite.examining import Examined

LEAST_FREE = 1_000_000_000
LARGE_WAL = 200_000_000
SKEW = 60.0
"""Seconds by which a time may lie ahead without being wrong."""
BEGINNING = 1_704_067_200.0
"""2024: no clock that is right is before it."""
PLACES = ("home", "store", "bus", "blobs")


class Level(StrEnum):
    """How serious a finding is."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked, what was found, and what to do about it."""

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
    """All checks, in the order in which one rests on the other."""
    from onward.cli.model_checks import check_models
    from onward.cli.store_checks import check_contents

    found = [*_guarded("versions", check_versions)]
    settings, about = read_settings()
    found += about
    found += _guarded("folder", lambda: check_folder("data folder", settings.home, "ONWARD_HOME"))
    examined: list[Examined | ExaminedServer] = []
    found += _guarded("store", lambda: check_store(settings, examined))
    found += _guarded("disk", lambda: check_disk(settings))
    found += _guarded("clock", check_clock)
    usable = bool(examined) and examined[0].schema == examined[0].known_schema and examined[0].usable
    found += _guarded("bus", lambda: check_bus(settings, usable=usable))
    found += _guarded("blobs", lambda: check_blobs(settings))
    found += _guarded("models", lambda: check_models(settings))
    if usable:
        found += _guarded("contents", lambda: check_contents(settings, examined[0]))
    return found


def _guarded(name: str, check: Callable[[], Iterator[Check]]) -> list[Check]:
    """What a check found until it failed itself, which is a finding, too."""
    found: list[Check] = []
    try:
        found.extend(check())
    except Exception as error:
        found.append(wrong(name, f"could not be checked: {type(error).__name__}: {error}", "see to that first"))
    return found


def check_versions() -> Iterator[Check]:
    from onward.backends.sqlite.examining import LEAST_SQLITE

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
    """The settings, or as many of them as make sense, and what is to be said about them."""
    try:
        settings = load_settings()
    except SettingsError as error:
        places = ", ".join(variable(name) for name in PLACES)
        remedy = f"set what is allowed; the other checks use the usual settings, with {places} as they are set"
        return _places(), [wrong("settings", line, remedy) for line in str(error).splitlines()]
    told = list(_changed(settings))
    return settings, told or [ok("settings", "all as usual")]


def _places() -> Settings:
    """The usual settings, with places as the environment has them where that makes sense."""
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
    """Whether a folder can be used, or be made when it is needed."""
    try:
        there = folder.exists()
        parent = next(one for one in (folder, *folder.absolute().parents) if one.exists())
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


def check_store(settings: Settings, examined: list[Examined | ExaminedServer]) -> Iterator[Check]:
    """Whether the store can be opened; what was found in it is left in `examined`."""
    from onward.backends.sqlite.examining import Unreadable, examine

    file = store_file(settings)
    if file is None:
        if is_server(settings.store):
            from onward.cli.server_checks import check_postgres

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
        found = examine(file, now=time.time() + SKEW)
    except Unreadable as error:
        remedy = "restore it from a copy, or move it away to begin anew"
        if "cannot be read" in str(error):
            remedy = f"let this user read and write {file}, or name another store with ONWARD_STORE"
        yield wrong("store", f"{file}: {error}", remedy)
        return
    examined.append(found)
    yield from _schema(file, found)
    yield from _file(file)


def _schema(file: Path, found: Examined) -> Iterator[Check]:
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
        for one in found.missing:
            remedy = "restore it from a copy, or move it away to begin anew"
            if one.statement:
                made = " ".join(one.statement.split())
                remedy = f"stop all workers and make it: sqlite3 {shlex.quote(str(file))} {shlex.quote(made)}"
            yield wrong("store", f"{file} lacks {one.what}", remedy)
    else:
        whole = "intact" if found.damage is not None else "too large to be checked to its end in time"
        yield ok("store", f"{file}, {size(file.stat().st_size)}, schema version {found.schema}, {whole}{older}")


def _file(file: Path) -> Iterator[Check]:
    parts = [one for end in ("", "-wal", "-shm") if (one := file.with_name(file.name + end)).exists()]
    locked = [one for one in parts if not os.access(one, os.R_OK | os.W_OK)]
    if locked or not os.access(file.parent, os.W_OK | os.X_OK):
        what = locked[0] if locked else file.parent
        yield wrong("permissions", f"{what} cannot be written", f"let this user write {what}")
    elif any(one.stat().st_mode & 0o002 for one in parts):
        yield warning("permissions", f"{file} can be written by everybody", f"chmod o-w {file}*")
    else:
        yield ok("permissions", "the store can be read and written")
    wal = file.with_name(file.name + "-wal")
    length = wal.stat().st_size if wal.exists() else 0
    if length > max(LARGE_WAL, file.stat().st_size):
        remedy = "something reads for very long: end it, or stop all workers once, which merges it"
        yield warning("write-ahead log", f"{size(length)}, larger than the store", remedy)
    else:
        yield ok("write-ahead log", size(length))


def check_disk(settings: Settings) -> Iterator[Check]:
    file = store_file(settings)
    place = file.parent if file is not None else settings.home
    there = next(one for one in (place, *place.absolute().parents) if one.exists())
    free = shutil.disk_usage(there).free
    store = file.stat().st_size if file is not None and file.exists() else 0
    if free < max(LEAST_FREE, 2 * store):
        text = f"{size(free)} free at {there}"
        text += f", less than twice the store ({size(store)})" if free >= LEAST_FREE else ""
        yield warning("disk", text, "free some disk space, or move the data folder and set ONWARD_HOME")
    else:
        yield ok("disk", f"{size(free)} free at {there}")


def check_clock() -> Iterator[Check]:
    now = time.time()
    zone = datetime.now(UTC).astimezone()
    shown = f"{moment(now)} {zone.tzname()} (UTC{zone.strftime('%z')})"
    if now < BEGINNING:
        yield wrong("clock", f"it is {shown}, which cannot be", "set the clock, and let NTP keep it right")
    else:
        yield ok("clock", shown)


def check_bus(settings: Settings, *, usable: bool) -> Iterator[Check]:
    """Whether the bus can be used; the store says which queues it needs, if it is usable itself."""
    if settings.bus_url is None:
        yield ok("bus", "the store's own")
        return
    from onward.backends import open_store
    from onward.cli.server_checks import check_rabbitmq

    subscriptions = []
    if usable:
        store = open_store(settings.store)
        try:
            subscriptions = store.subscriptions()
        finally:
            store.close()
    yield from check_rabbitmq(settings.bus_url, subscriptions)


def check_blobs(settings: Settings) -> Iterator[Check]:
    """Whether fetched bytes can be kept where the settings say."""
    if not is_server(place := settings.blobs or settings.store):
        folder = Path(settings.blobs).expanduser() if settings.blobs else settings.home / "blobs"
        yield from check_folder("blobs", folder, "ONWARD_BLOBS")
    elif place == settings.store:
        yield ok("blobs", "in the store's database")
    else:
        from onward.backends.postgres.examining import exists

        try:
            made = "" if exists(place) else ", whose tables are made when they are first needed"
        except OnwardError as error:
            yield wrong("blobs", str(error), "check ONWARD_BLOBS, and that the server runs")
        else:
            yield ok("blobs", f"in the database {place}{made}")
