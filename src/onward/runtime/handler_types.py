"""The types of handlers: what a decorated function is given, for type checkers and when a service is declared."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from types import SimpleNamespace, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypedDict, TypeVar

from onward.retry import Classified, RetryPolicy

if TYPE_CHECKING:
    from onward.ledger.reader import Reader
    from onward.model.documents import DocumentState
    from onward.model.events import Event
    from onward.runtime.dependency import Dependency
    from onward.runtime.work import Work

G = TypeVar("G")
R = TypeVar("R", bound=Coroutine[Any, Any, None] | None)
"""The result of a handler: None, now or when it is awaited."""

Declares: TypeAlias = "Callable[[Callable[[G, Work], R]], Callable[[G, Work], R]]"
"""A decorator of handlers that are given a `G` and a `Work`."""

Handler = Callable[..., Any]
"""A handler: `(document, work)`, `(documents, work)` or `(event, work)`, `def` or `async def`."""

Requeue: TypeAlias = "Callable[[Sequence[DocumentState], Reader], typing.Iterable[Event]]"
"""Makes the events that put documents back."""


class CallOptions(TypedDict, total=False):
    """The options that `app.service` and `app.task` share."""

    needs: str | Dependency | Sequence[str | Dependency]
    time_limit: float | None
    concurrency: int | Callable[[], int] | None
    background: bool
    policy: RetryPolicy | None
    not_ready: RetryPolicy | None
    rung: Literal["transient", "fetching"]
    classify: Callable[[BaseException], Classified]
    failed_queue: str
    notice: str
    was: str | Sequence[str]
    key: Callable[..., str | int | None] | None
    ordered: bool


class ServiceOptions(CallOptions, total=False):
    """The options of `app.service` that do not change what its handler is given."""

    sets_aside: bool
    requeue: Requeue | None


def wrong_annotation(handler: Handler, given: type, *, batch: bool) -> str:
    """Return why a handler's annotations do not fit what it is given; empty if they do, or say nothing.

    An annotation whose names cannot be resolved here, such as those imported for type checkers only, says nothing.
    """
    from onward.runtime.work import Work

    try:
        parameters = list(inspect.signature(handler).parameters.values())[:2]
    except (TypeError, ValueError):
        return ""
    expected = f"list[{given.__name__}]" if batch else given.__name__
    for parameter, kind, name in zip(parameters, (given, Work), (expected, "Work"), strict=False):
        annotation = _resolved(handler, parameter.annotation)
        fits = _accepts_list(annotation, kind) if batch and kind is given else _accepts(annotation, kind)
        if not fits:
            return (
                f"has a handler whose parameter {parameter.name!r} is {_text(annotation)}, but it is given {name}"
            )
    return ""


def _resolved(handler: Handler, annotation: Any) -> Any:
    if not isinstance(annotation, str):
        return annotation
    function = handler.func if isinstance(handler, partial) else handler
    function = inspect.unwrap(function if inspect.isroutine(function) else type(function).__call__)
    names = getattr(function, "__globals__", {})
    holder = SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(holder, globalns=names)["it"]
    except Exception:  # an annotation may be any expression, which is not ours to judge
        return Any


def _accepts(annotation: Any, kind: type) -> bool:
    """Return whether a parameter with this annotation can be given an instance of a class."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return _accepts(typing.get_args(annotation)[0], kind)
    if origin in (typing.Union, UnionType):
        return any(_accepts(one, kind) for one in typing.get_args(annotation))
    return _is_a(kind, origin or annotation)


def _accepts_list(annotation: Any, kind: type) -> bool:
    """Return whether a parameter with this annotation can be given a list of a class."""
    origin, members = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _accepts_list(members[0], kind)
    if origin in (typing.Union, UnionType):
        return any(_accepts_list(one, kind) for one in members)
    return _is_a(list, origin or annotation) and all(_accepts(member, kind) for member in members[:1])


def _is_a(kind: type, annotation: Any) -> bool:
    # Any is a class from Python 3.11 on.
    if annotation in (inspect.Parameter.empty, Any) or not isinstance(annotation, type):
        return True  # nothing that can be compared, such as Any or a type variable
    try:
        return issubclass(kind, annotation)
    except TypeError:  # a protocol that is not checked at run time
        return True


def _text(annotation: Any) -> str:
    return annotation.__qualname__.rpartition(".")[2] if isinstance(annotation, type) else str(annotation)
