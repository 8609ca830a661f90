"""A temporary place for a run; existing data is neither read nor changed."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import onward
from onward.retry import OnwardError, redact
from onward.settings import Settings, variable
from onward.torture.workload import REFUSAL_LOG

# The same retry ladder with shorter delays: the second round would come after five minutes.
_SHORT_DELAYS = {
    "retry_backoff_seconds": "0.2",
    "retry_job_interval_seconds": "10",
    "retry_job_base_delay_seconds": "0.1",
    "retry_job_max_delay_seconds": "0.8",
    "time_limit_seconds": "120",
    "metrics_backend": "noop",
}


class ScratchError(OnwardError):
    """There is no place for a run."""


@dataclass
class Scratch:
    name: str
    folder: Path
    store: str
    more_settings: Mapping[str, str] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)  # what is not removed at the end

    @property
    def _chosen(self) -> dict[str, str]:
        return {**_SHORT_DELAYS, "home": str(self.folder), "store": self.store, **self.more_settings}

    @property
    def settings(self) -> Settings:
        return Settings.model_validate(self._chosen)

    @property
    def environ(self) -> dict[str, str]:
        """The environment of worker processes: this process's, without settings that are meant for other apps."""
        settings = {variable(field) for field in Settings.model_fields}
        kept = {name: value for name, value in os.environ.items() if name not in settings}
        here = str(Path(onward.__file__).parents[1])
        path = os.pathsep.join(dict.fromkeys([here, *filter(None, kept.get("PYTHONPATH", "").split(os.pathsep))]))
        chosen = {variable(field): value for field, value in self._chosen.items()}
        return {**kept, "PYTHONPATH": path, **chosen, REFUSAL_LOG: str(self.refusal_log)}

    @property
    def refusal_log(self) -> Path:
        return self.folder / "refused"

    @property
    def where(self) -> str:
        """The store, without its password."""
        return redact(self.store)


@contextmanager
def open_scratch(store: str | None = None, *, keep: bool = False) -> Iterator[Scratch]:
    """Make a place for a run, and remove it at the end unless it is to be kept.

    Without a store it is a new SQLite file. In PostgreSQL it is a new schema.
    """
    name = f"onward_torture_{secrets.token_hex(4)}"
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix=f"{name}_"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        if not store or store.startswith("sqlite:"):
            file = _folder_of(store, folder) / f"{name}.db"
            url, place = f"sqlite:///{file}", str(file)
            stack.callback(_remove_files, file)
        elif store.startswith(("postgresql:", "postgres:")):
            url, place = _with_schema(store, name), f"schema {name} of {redact(store)}"
            stack.push(lambda kind, *_: _drop_schema(store, name, after_error=kind is not None))
        else:
            raise ScratchError(
                f"the store {redact(store)!r} is neither sqlite:///… nor postgresql://…; give one of these"
            )
        if keep:
            stack.pop_all()
        yield Scratch(name, folder, url, kept=[place, str(folder)] if keep else [])


def _folder_of(store: str | None, folder: Path) -> Path:
    """Return the folder of the file that the user named: that is the disk to be tested."""
    rest = (store or "").partition("://")[2].removeprefix("/")
    if not rest or rest == ":memory:":
        return folder
    parent = Path(rest).expanduser().parent
    if not parent.is_dir():
        raise ScratchError(f"there is no folder {parent}; make it, or name a file in another one")
    return parent.absolute()


def _remove_files(file: Path) -> None:
    for found in file.parent.glob(f"{file.name}*"):
        found.unlink(missing_ok=True)


def _with_schema(url: str, schema: str | None) -> str:
    parts = urlsplit(url)
    query = [(key, value) for key, value in parse_qsl(parts.query) if key != "schema"]
    if schema is not None:
        query.append(("schema", schema))
    return urlunsplit(parts._replace(query=urlencode(query)))


def _drop_schema(url: str, schema: str, *, after_error: bool) -> None:
    """Drop the schema; after a failed run, the run's error is raised and not this one's."""
    with suppress(ModuleNotFoundError, ScratchError) if after_error else ExitStack():
        import psycopg
        from psycopg import sql

        try:
            with psycopg.connect(_with_schema(url, None), autocommit=True) as connection:
                connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))
        except psycopg.Error as error:
            raise ScratchError(
                f"the schema of this run is still in {redact(url)}: {redact(str(error))}\n"
                f"Drop it there: DROP SCHEMA {schema} CASCADE"
            ) from error
