"""A place of its own for a run: whatever is there already is neither read nor changed."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from onward.retry import OnwardError, redact
from onward.settings import Settings, variable
from onward.torture.mischief import Server
from onward.torture.workload import DIARY, PREFIX, build

_HURRIED = {
    "retry_backoff_seconds": "0.2",
    "retry_job_interval_seconds": "10",
    "retry_job_base_delay_seconds": "0.1",
    "retry_job_max_delay_seconds": "0.8",
    "time_limit_seconds": "120",
    "metrics_backend": "noop",
}
"""The same ladder, climbed faster: nobody wants to wait five minutes for the second round."""


class ScratchError(OnwardError):
    """There is no place for a run."""


@dataclass
class Scratch:
    """Where a run takes place."""

    name: str
    folder: Path
    store: str
    bus: str | None = None
    servers: Sequence[Server] = ()
    """Those that are private, and may be killed."""
    kept: list[str] = field(default_factory=list)
    """What was left behind, because somebody wants to look at it."""

    @property
    def settings(self) -> Settings:
        return Settings.model_validate(self._chosen)

    @property
    def _chosen(self) -> dict[str, str]:
        bus = {"bus": self.bus} if self.bus else {}
        return {**_HURRIED, "home": str(self.folder), "store": self.store, **bus}

    @property
    def environ(self) -> Mapping[str, str]:
        """What tells worker processes where they are."""
        settings = {variable(field): value for field, value in self._chosen.items()}
        return {**settings, DIARY: str(self.diary), PREFIX: self.prefix}

    @property
    def prefix(self) -> str:
        """How the names of services begin: a broker has one name space for all that use it."""
        return f"{self.name}." if self.bus else ""

    @property
    def diary(self) -> Path:
        return self.folder / "refused"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def where(self) -> str:
        """The store and the bus, without passwords."""
        return redact(self.store) + (f" with {redact(self.bus)}" if self.bus else "")


@contextmanager
def open_scratch(
    store: str | None = None, bus: str | None = None, *, private: str | None = None, keep: bool = False
) -> Iterator[Scratch]:
    """Make a place for a run, and remove it at the end unless it is to be kept.

    Without a store it is a new SQLite file. In PostgreSQL it is a new schema, on RabbitMQ it is queues with
    names of their own. `private` starts a PostgreSQL server (`postgresql`), or one and RabbitMQ (`rabbitmq`).
    """
    name = f"onward_torture_{secrets.token_hex(4)}"
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix=f"{name}_"))
        folder.chmod(0o711)  # a server may have to run as another user
        if not keep:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        servers: list[Server] = []
        if private:
            store, bus = _start_private(stack, folder, private, servers)
        scratch = Scratch(name, folder, store or "", bus, servers)
        if not store or store.startswith("sqlite:"):
            scratch.store = f"sqlite:///{_folder_of(store, folder) / name}.db"
            if keep:
                scratch.kept.append(scratch.store.removeprefix("sqlite:///"))
            else:
                stack.callback(_remove_file, scratch.store)
        elif store.startswith(("postgresql:", "postgres:")):
            scratch.store = _with_schema(store, name)
            if keep and not private:
                scratch.kept.append(f"schema {name} of {redact(store)}")
            elif not private:
                stack.push(partial(_leave_schema, store, name))
        else:
            raise ScratchError(
                f"the store {redact(store)!r} is neither sqlite:///… nor postgresql://…; give one of these"
            )
        if bus and not private:
            from onward.torture.queues import check_bus, delete_queues

            check_bus(bus)
            if keep:
                scratch.kept.append(f"queues {name}.* of {redact(bus)}")
            else:
                services = build(scratch.settings, scratch.prefix).registry.services.values()
                queues = [queue for one in services for queue in (one.name, one.subscription().failed_queue)]
                stack.callback(delete_queues, bus, queues)
        if keep:
            scratch.kept.append(str(folder))
        yield scratch


def _folder_of(store: str | None, folder: Path) -> Path:
    """Beside the file that was named: that is the disk to be tried."""
    rest = (store or "").partition("://")[2].removeprefix("/")
    if not rest or rest == ":memory:":
        return folder
    beside = Path(rest).expanduser().parent
    if not beside.is_dir():
        raise ScratchError(f"there is no folder {beside}; make it, or name a file in another one")
    return beside.absolute()


def _remove_file(store: str) -> None:
    file = Path(store.removeprefix("sqlite:///"))
    for one in file.parent.glob(f"{file.name}*"):
        one.unlink(missing_ok=True)


def _with_schema(url: str, schema: str) -> str:
    parts = urlsplit(url)
    query = [(key, value) for key, value in parse_qsl(parts.query) if key != "schema"]
    return urlunsplit(parts._replace(query=urlencode([*query, ("schema", schema)])))


def _leave_schema(url: str, schema: str, kind: type[BaseException] | None, *_: object) -> None:
    """Drop the schema; where the run has failed, that is what there is to say."""
    with suppress(ScratchError, ModuleNotFoundError) if kind is not None else nullcontext():
        _drop_schema(url, schema)


def _drop_schema(url: str, schema: str) -> None:
    import psycopg
    from psycopg import sql

    parts = urlsplit(url)
    query = [(key, value) for key, value in parse_qsl(parts.query) if key != "schema"]
    plain = urlunsplit(parts._replace(query=urlencode(query)))
    try:
        with psycopg.connect(plain, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))
    except psycopg.Error as error:
        raise ScratchError(
            f"the schema of this run is still in {redact(url)}: {redact(str(error))}\n"
            f"Drop it there: DROP SCHEMA {schema} CASCADE"
        ) from error


def _start_private(stack: ExitStack, folder: Path, private: str, servers: list[Server]) -> tuple[str, str | None]:
    from onward.torture.servers import PostgresServer, RabbitServer

    postgres = stack.enter_context(PostgresServer(folder / "postgres"))
    servers.append(postgres)
    if private != "rabbitmq":
        return postgres.url(), None
    rabbit = stack.enter_context(RabbitServer(folder / "rabbitmq"))
    servers.append(rabbit)
    return postgres.url(), rabbit.url()
