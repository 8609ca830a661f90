"""The parameters of a task's function: arguments become typed JSON, and arguments again."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NotRequired, TypeVar
from typing import get_args as type_args
from typing import get_type_hints as type_hints

import typing_extensions
from pydantic import BeforeValidator, ConfigDict, JsonValue, ValidationError, ValidationInfo

from onward.model.documents import Document
from onward.retry import OnwardError, Permanent, redact_error
from onward.runtime.read_back import is_same
from onward.runtime.service import RegistrationError
from onward.runtime.work import Work

T = TypeVar("T")

_TYPED_JSON = ConfigDict(ser_json_inf_nan="strings", ser_json_bytes="base64", val_json_bytes="base64")


def _without_tuples(value: Any, info: ValidationInfo) -> Any:
    """Return a value with lists in place of tuples, which JSON does not have."""
    try:
        return value if info.mode == "json" else _as_lists(value)
    except RecursionError:
        return value  # its validation says what is wrong


def _as_lists(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_as_lists(one) for one in value]
    return {name: _as_lists(one) for name, one in value.items()} if isinstance(value, dict) else value


PLAIN_JSON: Any = Annotated[JsonValue, BeforeValidator(_without_tuples)]
"""What a parameter without an annotation takes, and a function without one returns."""


class ArgumentsRefused(OnwardError, TypeError):
    """A task was called with arguments that its function does not take; nothing was stored."""


class TypedDocument(Document):
    """A document whose fields have the types of a function's parameters, or of what it returns."""

    model_config = _TYPED_JSON


class Parameters:
    """The parameters of a task's function: which of them are stored, with their types."""

    def __init__(self, function: Callable[..., Any], task: str) -> None:
        self.task = task
        self.signature = inspect.signature(function)
        hints = _hints(function, task)
        self.work = next((name for name in self.signature.parameters if _is_work(hints.get(name))), None)
        given = [one for name, one in self.signature.parameters.items() if name != self.work]
        self.given = self.signature.replace(parameters=given)
        """The signature for callers: without the work, which the runtime passes."""
        self._names = frozenset(self.signature.parameters)
        # As nearly always; then binding by `inspect`, which takes longer than all else here, is not needed.
        by_position = all(one.kind is one.POSITIONAL_OR_KEYWORD for one in given)
        self._positions = [one.name for one in given] if by_position else None
        kinds = {one.kind for one in self.signature.parameters.values()}
        self._by_name = kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
        fields = {one.name: _field_type(one, hints.get(one.name, Any)) for one in given}
        typed_dict: Any = typing_extensions.TypedDict  # pydantic takes that of `typing` from Python 3.12 on
        self.type: Any = typed_dict(f"{task}_arguments", fields)
        self.type.__pydantic_config__ = _TYPED_JSON
        self.returns = hints.get("return", Any)
        if self.returns in (Any, type(None)):
            self.returns = PLAIN_JSON

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments by the names of their parameters, or raise `ArgumentsRefused`."""
        if not kwargs and self._positions is not None and len(args) == len(self._positions):
            return dict(zip(self._positions, args, strict=True))
        try:
            return self.given.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise ArgumentsRefused(f"task {self.task!r}: {error}; it takes {self.given}") from None

    def check_read_back(self, call: Any, read: Any) -> None:
        """Raise `ArgumentsRefused` if a call does not have the same arguments when it is read back."""
        if is_same(call.arguments, read.arguments):
            return
        for name, value in call.arguments.items():
            if not is_same(value, arrived := read.arguments.get(name)):
                raise ArgumentsRefused(
                    f"task {self.task!r}: {name}={shown(value)} would be read back as {shown(arrived)}; annotate "
                    f"{name!r} with exactly the type of this value, or pass what JSON has"
                )

    def call(self, function: Callable[..., T], arguments: Mapping[str, Any], work: Work) -> T:
        """Call the function with stored arguments, and the work if it has a parameter for it."""
        values = {**arguments, self.work: work} if self.work else arguments
        if not self._names.issuperset(values):
            unknown = sorted(values.keys() - self._names)
            raise Permanent(
                f"the call has arguments that task {self.task!r} does not take (any more): {', '.join(unknown)}; "
                "give the function these parameters back until no such call waits, then retry it"
            )
        if self._by_name:
            return function(**values)
        ordered = {name: values[name] for name in self.signature.parameters if name in values}
        bound = inspect.BoundArguments(self.signature, ordered)
        return function(*bound.args, **bound.kwargs)

    def key_of(self, key: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        """Call a task's key function with stored arguments, those of the defaults included, without the work."""
        known = {name: arguments[name] for name in self.given.parameters if name in arguments}
        bound = inspect.BoundArguments(self.given, known)
        bound.apply_defaults()
        return key(*bound.args, **bound.kwargs)


def _hints(function: Callable[..., Any], task: str) -> dict[str, Any]:
    try:
        return type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise RegistrationError(
            f"task {task!r} has an annotation that cannot be resolved: {error}; import what it names when the "
            "program runs, not only for type checkers, and at the top of the module"
        ) from error


def _is_work(hint: Any) -> bool:
    return hint is Work or Work in type_args(hint)


def _field_type(parameter: inspect.Parameter, hint: Any) -> Any:
    # What has no type must be JSON already: another value would be read back as something else.
    hint = PLAIN_JSON if hint is Any else hint
    if parameter.kind is parameter.VAR_POSITIONAL:
        return NotRequired[tuple[hint, ...]]
    if parameter.kind is parameter.VAR_KEYWORD:
        return NotRequired[dict[str, hint]]
    return hint if parameter.default is parameter.empty else NotRequired[hint]


def shown(value: object) -> str:
    """Return a value as an error names it."""
    return redact_error(f"{value!r:.100}")


def described_problems(error: ValidationError) -> str:
    """Say which argument is wrong, what was given and what is allowed."""
    said = []
    for one in error.errors(include_url=False):
        place = [str(part) for part in one["loc"] if part != "arguments"]
        name = ".".join(place) or "the value"
        said.append(redact_error(f"{name}={one['input']!r:.100}: {one['msg']}"))
    return "; ".join(said)
