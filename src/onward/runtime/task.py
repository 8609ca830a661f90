"""Plain tasks: functions whose calls are documents, each with an event that names them and a service for them."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from pydantic import PydanticSchemaGenerationError, PydanticUserError, ValidationError, create_model

from onward.ledger.off_loop import off_loop
from onward.model.documents import Document, Status, UnserialisableDocument
from onward.model.events import Event, names, new_id
from onward.model.ledger import MAX_COMMIT_BYTES
from onward.retry import Permanent
from onward.runtime.publish_items import Slicer, prepare, store_items
from onward.runtime.publish_options import NO_OPTIONS, PublishOptions, PublishRefused, Seconds
from onward.runtime.publisher import publish
from onward.runtime.read_back import is_same
from onward.runtime.service import RegistrationError
from onward.runtime.task_call import R, TaskCall
from onward.runtime.task_parameters import (
    ArgumentsRefused,
    Parameters,
    TypedDocument,
    described_problems,
    shown,
)
from onward.runtime.work import Work

if TYPE_CHECKING:
    from onward.ledger.store import Store
    from onward.runtime.document_access import DocumentAccess

P = ParamSpec("P")
T = TypeVar("T")  # What the function returns where it is called directly

KEEP_SECONDS = 7 * 86_400.0  # How long a call that is done is kept, by default
MAX_REMOVED_CALLS = 400  # Calls of one transaction, which removes their results, too
_DONE = (Status.PROCESSED, Status.DISCARDED)


@dataclass(frozen=True, slots=True)
class TaskOptions(Generic[P, R]):
    """A task with options for the calls that are made with it."""

    task: Task[P, Any, R]
    id: str | None = None
    connection: object = None
    publishing: PublishOptions = NO_OPTIONS

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> TaskCall[R]:
        """Store a call with these arguments; a worker runs it."""
        return self._put([self.task.new_call(args, kwargs, self.id)])[0]

    async def adelay(self, *args: P.args, **kwargs: P.kwargs) -> TaskCall[R]:
        """Store a call as `delay` does, without blocking the event loop; the connection may be an async one."""
        call = self.task.new_call(args, kwargs, self.id)
        access = self.task.access
        if self.connection is None:
            store = await off_loop(None, lambda: access.store)
            (stored,) = await off_loop(store.db, functools.partial(self._put, [call]))
            return stored
        await access.apublish_beside(self.connection, self.task.events([call]), [call], self._options_of(call))
        return TaskCall(self.task, call.id)

    def map(self, values: Iterable[Any]) -> list[TaskCall[R]]:
        """Store one call for each of these values, as the only argument, in few transactions.

        All are checked before the first is stored.
        """
        return self.starmap((value,) for value in self._checked(values, "a list of values"))

    def starmap(self, arguments: Iterable[Sequence[Any]]) -> list[TaskCall[R]]:
        """Store one call for each of these sequences of arguments, in few transactions."""
        if self.id is not None:
            raise ArgumentsRefused(
                f"task {self.task.name!r}: one id ({self.id!r:.100}) cannot name many calls; give it "
                "to delay() for each of them"
            )
        each = "a list with the arguments of one call"
        given = (self._checked(one, each) for one in self._checked(arguments, "a list of sequences"))
        return self._put([self.task.new_call(tuple(one), {}, None) for one in given])

    def _checked(self, given: Iterable[T], wanted: str) -> Iterable[T]:
        """Return what is to be taken apart; a text would be divided into its characters."""
        if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
            raise ArgumentsRefused(
                f"task {self.task.name!r}: {given!r:.100} ({type(given).__name__}) is not {wanted}; many calls "
                "are stored by map([value, …]) or starmap([(value, …), …]), one by delay(…)"
            )
        return given

    def _put(self, calls: Sequence[Document]) -> list[TaskCall[R]]:
        task, store, options = self.task, self.task.access.store, self.publishing
        ids: list[str] = []
        for some in Slicer[Document](lambda call: len(call.to_json())).slices(calls):
            if options.unique_seconds is not None:
                ids += self._put_unique(some)
                continue
            ids += [one.id for one in some]
            if self.connection is not None:
                task.access.publish_beside(self.connection, task.events(some), some, self._options_of(some[0]))
                continue
            put = functools.partial(task.put, store, some, options)
            store.atomically(functools.partial(put, known=self.id is not None))
        return [TaskCall(task, id) for id in ids]

    def _put_unique(self, calls: Sequence[Document]) -> list[str]:
        """Store the calls that are not stored yet; return the id of each, or of the same call before it."""
        task, store, options = self.task, self.task.access.store, self.publishing
        if self.connection is not None:  # which are the same is decided when they are moved to the ledger
            for call in calls:
                task.access.publish_beside(self.connection, task.events([call]), [call], self._options_of(call))
            return [call.id for call in calls]
        now, events = store.now(), task.events(calls)
        items = [
            prepare(event, [call], options, now=now, unique=self._unique_name(call))
            for event, call in zip(events, calls, strict=True)
        ]
        return [one.document_id for one in store_items(store, items, options)[1]]

    def _unique_name(self, call: Document) -> str | None:
        """Return what makes a call unique: the name that was given, or its arguments; None: it need not be."""
        if self.publishing.unique_seconds is None or self.publishing.unique is not None:
            return self.publishing.unique
        return Document.make_id(call.model_dump_json(include={"arguments"}))

    def _options_of(self, call: Document) -> PublishOptions:
        """Return the options of a call that is stored in a transaction of the caller's."""
        return replace(self.publishing, unique=self._unique_name(call), only_new=self.id is not None)


class Task(Generic[P, T, R]):
    """A function of an app whose calls are stored, and run by its workers.

    Called directly, it just runs here. Its calls are documents of the collection `NAME_calls`, finished by the
    service `NAME`; what they return are documents of the collection `NAME_results`, which descend from them.
    """

    def __init__(
        self,
        function: Callable[P, T],
        name: str,
        access: DocumentAccess,
        keep_seconds: float | None = KEEP_SECONDS,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.name = name
        self.access = access  # The app, as it stores and reads documents
        self.keep_seconds = keep_seconds
        self.parameters = Parameters(function, name)
        words = "".join(word.capitalize() for word in re.split(r"[_.-]", name))
        try:
            self.call_document: type[Document] = create_model(
                f"{words}Call",
                __base__=TypedDocument,
                __cls_kwargs__={"collection": f"{name}_calls"},
                arguments=(self.parameters.type, ...),
            )
            self.result_document: type[Document] = create_model(
                f"{words}Result",
                __base__=TypedDocument,
                __cls_kwargs__={"collection": f"{name}_results"},
                value=(self.parameters.returns, ...),
            )
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            raise RegistrationError(
                f"task {name!r} has a parameter, or returns something, that cannot be written as JSON: "
                f"{str(error).splitlines()[0]} Annotate it with types that pydantic can serialise"
            ) from error
        self.event: type[Event] = create_model(
            f"{words}Called",
            __base__=Event,
            __cls_kwargs__={"type": f"{name}.called", "routing_key": f"{name}.called"},
            call_id=(str, names(self.call_document)),
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<task {self.name!r}>"

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> TaskCall[R]:
        """Store a call with these arguments; a worker runs it. Wrong arguments raise, and nothing is stored."""
        return TaskOptions(self).delay(*args, **kwargs)

    async def adelay(self, *args: P.args, **kwargs: P.kwargs) -> TaskCall[R]:
        """Store a call as `delay` does, without blocking the event loop."""
        return await TaskOptions(self).adelay(*args, **kwargs)

    def map(self, values: Iterable[Any]) -> list[TaskCall[R]]:
        """Store one call for each of these values, as the only argument, in few transactions."""
        return TaskOptions(self).map(values)

    def starmap(self, arguments: Iterable[Sequence[Any]]) -> list[TaskCall[R]]:
        """Store one call for each of these sequences of arguments, in few transactions."""
        return TaskOptions(self).starmap(arguments)

    def options(
        self,
        *,
        delay: Seconds = 0.0,
        priority: int = 0,
        id: str | None = None,
        source: str | None = None,
        expires: Seconds | None = None,
        unique_for: Seconds | None = None,
        unique: str | None = None,
        connection: object = None,
    ) -> TaskOptions[P, R]:
        """Return the task with options for its next calls.

        A call runs after `delay` seconds, and before those of lower `priority`. A call with an `id` that is
        stored already is that call: nothing is added, and its arguments stay as they were. `onward forget`
        removes all calls of a `source`. No try begins later than `expires` seconds from now. With `unique_for`, in
        seconds, a call with the same arguments (or the same name `unique`) is stored once within that time; a
        later one is the first call. With `connection`, your own connection to the store's database, calls are
        committed or rolled back with your rows.
        """
        if id is not None and unique_for is not None:
            raise PublishRefused(f"task {self.name!r}: give id= or unique_for=, not both: an id is unique already")
        options = PublishOptions(source, delay, priority, expires, unique_for, unique)
        return TaskOptions(self, id, connection, options)

    def call(self, id: str) -> TaskCall[R]:
        """Return the call with this id, which was stored before."""
        return TaskCall(self, id)

    def new_call(self, args: Sequence[Any], kwargs: Mapping[str, Any], id: str | None) -> Document:
        """Return the document of a call, or raise `ArgumentsRefused` naming what is wrong."""
        arguments = self.parameters.bind(args, kwargs)
        try:
            call = self.call_document(id=new_id() if id is None else id, arguments=arguments)  # type: ignore[call-arg]
        except ValidationError as error:
            raise ArgumentsRefused(f"task {self.name!r}: {described_problems(error)}") from None
        try:
            body = call.to_json()
            self.parameters.check_read_back(call, self.call_document.from_json(body))
        except UnserialisableDocument as error:
            raise ArgumentsRefused(f"task {self.name!r}: an argument cannot be stored: {error}") from error
        except ValidationError as error:
            problem = f"an argument would not be read back as it was given: {described_problems(error)}"
            raise ArgumentsRefused(f"task {self.name!r}: {problem}") from None
        if len(body) > MAX_COMMIT_BYTES:
            raise ArgumentsRefused(
                f"task {self.name!r}: the arguments take {len(body):,} bytes, more than {MAX_COMMIT_BYTES:,}; "
                "keep what is so large in a file, and pass its name"
            )
        return call

    def put(
        self,
        store: Store,
        calls: Sequence[Document],
        options: PublishOptions = NO_OPTIONS,
        *,
        known: bool = False,
    ) -> None:
        """Store calls with their events; with `known`, without those whose id is stored. In a transaction."""
        if known:
            stored = {state.id for state in store.states_of([(one.collection, one.id) for one in calls])}
            calls = [one for one in calls if one.id not in stored]
        publish(store, self.events(calls), list(calls), options)

    def events(self, calls: Sequence[Document]) -> list[Event]:
        """Return the events that bring these calls to a worker."""
        return [self.event(call_id=one.id) for one in calls]  # type: ignore[call-arg]

    # -- on a schedule

    def check_scheduled(self) -> None:
        """Raise `RegistrationError` if the function cannot be called with a tick alone."""
        try:
            self._scheduled_call(datetime.fromtimestamp(0, UTC))
        except ArgumentsRefused as error:
            raise RegistrationError(
                f"task {self.name!r} has a schedule, which passes no arguments but tick: {error}. Annotate the "
                "parameter as `tick: datetime`, and give the others a default"
            ) from None

    def publish_ticks(self, store: Store, ticks: Sequence[datetime]) -> None:
        """Store the calls of these ticks, those that are not stored yet. In a transaction."""
        self.put(store, [self._scheduled_call(tick) for tick in ticks], known=True)

    def _scheduled_call(self, tick: datetime) -> Document:
        given = {"tick": tick} if "tick" in self.parameters.given.parameters else {}
        return self.new_call((), given, f"tick-{tick.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}")

    # -- in a worker

    def handler(self) -> Callable[..., Any]:
        """Return the handler of the task's service."""

        def handle(call: Document, work: Work) -> None:
            self._keep_result(call.id, self._run(call, work), work)

        async def handle_async(call: Document, work: Work) -> None:
            self._keep_result(call.id, await self._run(call, work), work)

        return handle_async if inspect.iscoroutinefunction(self.function) else handle

    def _run(self, call: Document, work: Work) -> Any:
        return self.parameters.call(self.function, call.arguments, work)  # type: ignore[attr-defined]

    def _keep_result(self, id: str, returned: Any, work: Work) -> None:
        # Of an earlier run: an operator has reset the call.
        before = work.store.get(self.result_document, id) if work.round > 1 else None
        if returned is None:
            if before is not None:
                work.remove(before)
            return
        try:
            result = self.result_document(id=id, value=returned)  # type: ignore[call-arg]
            kept: Any = self.result_document.from_json(result.to_json())
        except (ValidationError, UnserialisableDocument) as error:
            problem = described_problems(error) if isinstance(error, ValidationError) else str(error)
            raise Permanent(
                f"task {self.name!r} returned something that cannot be stored: {problem}; annotate what "
                "it returns, and return a value of that type"
            ) from None
        if not is_same(value := result.value, kept.value):  # type: ignore[attr-defined]
            raise Permanent(
                f"task {self.name!r} returned {shown(value)}, which would be read back as {shown(kept.value)}; "
                "annotate what it returns with exactly that type, or return what JSON has"
            )
        work.add(result) if before is None else work.replace(result)

    # -- its key

    def check_key(self, key: Callable[..., Any]) -> None:
        """Raise `RegistrationError` if a key function cannot be called with the arguments of the task."""
        given = self.parameters.given
        arguments = inspect.BoundArguments(given, dict.fromkeys(given.parameters, ()))
        try:
            problem = "it is `async def`" if inspect.iscoroutinefunction(key) else ""
            inspect.signature(key).bind(*arguments.args, **arguments.kwargs)
        except TypeError as error:
            problem = str(error)
        except ValueError:
            return  # it has no signature, as some built-in functions
        if problem:
            raise RegistrationError(
                f"task {self.name!r} has a key that cannot be called with its arguments: {problem}; give a `def` "
                f"with the parameters {given}"
            )

    def key_of(self, key: Callable[..., Any], call: Document) -> Any:
        """Return the key of a call."""
        return self.parameters.key_of(key, call.arguments)  # type: ignore[attr-defined]

    # -- old calls

    def remove_old_calls(self, store: Store, stopped: Callable[[], bool] = lambda: False) -> int:
        """Remove calls that were done longer ago than they are kept, with their results; return how many."""
        removed = 0
        while self.keep_seconds is not None and not stopped():
            before = store.now() - self.keep_seconds
            listed = store.changed_documents(
                {self.call_document.collection: _DONE}, oldest=True, limit=MAX_REMOVED_CALLS
            )
            old = [key for (changed_at, _), key in listed if changed_at < before]
            removed += store.atomically(functools.partial(self._remove, store, old)) if old else 0
            if len(old) < MAX_REMOVED_CALLS:
                break
        return removed

    def _remove(self, store: Store, keys: Sequence[tuple[str, str]]) -> int:
        # Read again, locked: an operator may have reset one meanwhile.
        old = [(one.collection, one.id) for one in store.states_of(keys) if one.status in _DONE]
        store.remove_documents(old)
        return len(old)
