"""Plain tasks: functions whose calls are documents, each with an event that names them and a service for them."""

from __future__ import annotations

import asyncio
import functools
import inspect
import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypedDict, TypeVar, cast

from pydantic import PydanticSchemaGenerationError, PydanticUserError, ValidationError, create_model

from onward.model.documents import Document, DocumentState, Status, UnserialisableDocument
from onward.model.events import Event, names, new_id
from onward.model.ledger import MAX_COMMIT_BYTES, MAX_COMMIT_DOCUMENTS
from onward.retry import OnwardError, Permanent
from onward.runtime.publisher import publish
from onward.runtime.service import RegistrationError
from onward.runtime.task_parameters import ArgumentsRefused, Parameters, TypedDocument, described_problems
from onward.runtime.work import Work

if TYPE_CHECKING:
    from onward.ledger.store import Store
    from onward.runtime.document_access import DocumentAccess

P = ParamSpec("P")
T = TypeVar("T")  # What the function returns where it is called directly
R = TypeVar("R")  # The result of one of its calls

KEEP_SECONDS = 7 * 86_400.0  # How long a call that is done is kept, by default
MAX_REMOVED_CALLS = 400  # Calls of one transaction, which removes their results, too
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.01, 0.5  # Of a caller that waits for a result
_DONE = (Status.PROCESSED, Status.DISCARDED)


class CallFailed(OnwardError):
    """A call of a task was given up: its last error, and where to look.

    `state` is what the ledger knows of the call: status, rounds, history.
    """

    def __init__(self, message: str, state: DocumentState | None = None) -> None:
        super().__init__(message)
        self.state = state


class CallNotFound(OnwardError, LookupError):
    """There is no call with this id, or not any more."""


@dataclass(frozen=True, slots=True)
class TaskCall(Generic[R]):
    """One call of a task: where it stands, and what it returned.

    call = add.delay(2, 3)
    call.result(timeout=30)      # or `await call`
    """

    task: Task[..., Any, R]
    id: str

    @property
    def document(self) -> str:
        """The collection and id of the call's document, as commands take them."""
        return f"{self.task.call_document.collection}/{self.id}"

    def state(self) -> DocumentState:
        """Return what the ledger knows of the call: status, rounds, errors."""
        found = self.task.access.state(self.task.call_document, self.id)
        if found is None:
            kept = self.task.keep_seconds
            days = "for ever" if kept is None else f"{kept / 86_400:g} days"
            raise CallNotFound(
                f"there is no call {self.id} of task {self.task.name!r} (any more); calls that are done are "
                f"kept {days}"
            )
        return found

    def done(self) -> bool:
        """Return whether the call has ended: it is done, or was given up."""
        return self.state().final

    def result(self, timeout: float | None = None) -> R:
        """Wait for the call to end, at most `timeout` seconds, and return what the function returned.

        Raises `CallFailed` if it was given up, `TimeoutError` if it has not ended in time.
        """
        for pause in self._pauses(timeout):
            if (state := self.state()).final:
                return self._result(state)
            if pause is None:
                raise self._timeout(state, timeout)
            time.sleep(pause)
        raise AssertionError("the loop returns or raises")

    async def aresult(self) -> R:
        """Wait as `result` does, without blocking the event loop; `asyncio.timeout` limits it."""
        for pause in self._pauses(None):
            if (state := await asyncio.to_thread(self.state)).final:
                return await asyncio.to_thread(self._result, state)
            await asyncio.sleep(pause or 0.0)
        raise AssertionError("the loop returns or raises")

    def __await__(self) -> Generator[Any, None, R]:
        return self.aresult().__await__()

    @staticmethod
    def _pauses(timeout: float | None) -> Iterator[float | None]:
        """Yield how long to wait before each further look; None: the time is up."""
        ends = None if timeout is None else time.monotonic() + timeout
        pause = FIRST_PAUSE_SECONDS
        while True:
            left = pause if ends is None else min(pause, ends - time.monotonic())
            yield left if left > 0 else None
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    def _result(self, state: DocumentState) -> R:
        if state.status != Status.PROCESSED:
            raise CallFailed(
                f"{self} was given up ({state.status}) in round {state.attempt_count}: {_last_error(state)}; "
                f"see it with: onward show {self.document}, and try it again with: onward retry {self.document}",
                state,
            )
        stored = self.task.access.get(self.task.result_document, self.id)
        return cast(R, None if stored is None else stored.value)  # type: ignore[attr-defined]

    def _timeout(self, state: DocumentState, timeout: float | None) -> TimeoutError:
        problem = f", its last error: {_last_error(state)}" if state.last_error else ""
        return TimeoutError(
            f"{self} has not ended within {timeout:g} s: it is {state.status}, in round "
            f"{state.attempt_count}{problem}; see it with: onward show {self.document}, "
            "and check that a worker runs: onward workers"
        )

    def __str__(self) -> str:
        return f"call {self.id} of task {self.task.name!r}"


def _last_error(state: DocumentState) -> str:
    error = state.last_error or {}
    return f"{error.get('error_type') or 'no error'}: {error.get('message', '')}".removesuffix(": ")


class _PublishOptions(TypedDict):
    source: str | None
    delay: float
    priority: int
    connection: object


@dataclass(frozen=True, slots=True)
class TaskOptions(Generic[P, R]):
    """A task with options for the calls that are made with it."""

    task: Task[P, Any, R]
    seconds: float = 0.0
    priority: int = 0
    id: str | None = None
    source: str | None = None
    connection: object = None

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> TaskCall[R]:
        """Store a call with these arguments; a worker runs it."""
        return self._put([self.task.new_call(args, kwargs, self.id)])[0]

    async def adelay(self, *args: P.args, **kwargs: P.kwargs) -> TaskCall[R]:
        """Store a call as `delay` does, without blocking the event loop; the connection may be an async one."""
        call = self.task.new_call(args, kwargs, self.id)
        if self.connection is None:
            await asyncio.to_thread(self._put, [call])
        else:
            await self.task.access.apublish(*self.task.events([call]), documents=[call], **self._published_with())
        return TaskCall(self.task, call.id)

    def map(self, values: Iterable[Any]) -> list[TaskCall[R]]:
        """Store one call for each of these values, as the only argument, in few transactions.

        All are checked before the first is stored.
        """
        return self.starmap((value,) for value in values)

    def starmap(self, arguments: Iterable[Sequence[Any]]) -> list[TaskCall[R]]:
        """Store one call for each of these sequences of arguments, in few transactions."""
        if self.id is not None:
            raise ArgumentsRefused(
                f"task {self.task.name!r}: one id ({self.id!r:.100}) cannot name many calls; give it "
                "to delay() for each of them"
            )
        return self._put([self.task.new_call(one, {}, None) for one in arguments])

    def _put(self, calls: Sequence[Document]) -> list[TaskCall[R]]:
        task, store = self.task, self.task.access.store
        for some in _slices(calls):
            if self.connection is not None:
                task.access.publish(*task.events(some), documents=some, **self._published_with())
                continue
            put = functools.partial(task.put, store, some, self.source, self.seconds, self.priority)
            store.atomically(functools.partial(put, known=self.id is not None))
        return [TaskCall(task, one.id) for one in calls]

    def _published_with(self) -> _PublishOptions:
        return {
            "source": self.source,
            "delay": self.seconds,
            "priority": self.priority,
            "connection": self.connection,
        }


def _slices(calls: Sequence[Document]) -> Iterator[list[Document]]:
    """Yield the calls in parts that one transaction may hold."""
    some: list[Document] = []
    size = 0
    for one in calls:
        length = len(one.to_json())
        if some and (len(some) == MAX_COMMIT_DOCUMENTS or size + length > MAX_COMMIT_BYTES):
            yield some
            some, size = [], 0
        some.append(one)
        size += length
    if some:
        yield some


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
        delay: float = 0.0,
        priority: int = 0,
        id: str | None = None,
        source: str | None = None,
        connection: object = None,
    ) -> TaskOptions[P, R]:
        """Return the task with options for its next calls.

        A call runs after `delay` seconds, and before those of lower `priority`. A call with an `id` that is
        stored already is that call: nothing is added, and its arguments stay as they were. `onward forget`
        removes all calls of a `source`. With `connection`, your own connection to the store's database, calls are
        committed or rolled back with your rows.
        """
        return TaskOptions(self, delay, priority, id, source, connection)

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
            self.call_document.from_json(body)
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
        source: str | None = None,
        delay: float = 0.0,
        priority: int = 0,
        *,
        known: bool = False,
    ) -> None:
        """Store calls with their events; with `known`, without those whose id is stored. In a transaction."""
        if known:
            stored = {state.id for state in store.states_of([(one.collection, one.id) for one in calls])}
            calls = [one for one in calls if one.id not in stored]
        publish(store, self.events(calls), list(calls), source, delay, priority)

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
                f"task {self.name!r} has a schedule, which passes no arguments but tick, a datetime: {error}. "
                "Give the other parameters a default"
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
            self.result_document.from_json(result.to_json())
        except (ValidationError, UnserialisableDocument) as error:
            problem = described_problems(error) if isinstance(error, ValidationError) else str(error)
            raise Permanent(
                f"task {self.name!r} returned something that cannot be stored: {problem}; annotate what "
                "it returns, and return a value of that type"
            ) from None
        work.add(result) if before is None else work.replace(result)

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
