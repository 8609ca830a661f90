"""Middleware: code of the app that runs before and after each call of a handler."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from onward.runtime.service import RegistrationError, Service

if TYPE_CHECKING:
    from onward.runtime.work import Work

MiddlewareFunction: TypeAlias = "Callable[[Work], Iterator[None] | AsyncIterator[None]]"


@dataclass(frozen=True, slots=True)
class Middleware:
    """A generator function that runs around the calls of handlers: up to its `yield` before, the rest after."""

    function: Callable[..., Any]
    services: tuple[str, ...] = ()  # Those whose calls it runs around; empty: all

    def __post_init__(self) -> None:
        is_generator = inspect.isgeneratorfunction(self.function) or self.is_async
        if not is_generator or len(inspect.signature(self.function).parameters) != 1:
            raise RegistrationError(
                f"the middleware {self.name!r} must be a function of one parameter, `work`, with one yield: "
                "what is before the yield runs before the handler, what is after it afterwards"
            )

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    @property
    def is_async(self) -> bool:
        return inspect.isasyncgenfunction(self.function)

    def applies_to(self, service: str) -> bool:
        return not self.services or service in self.services

    def check(self, service: Service) -> None:
        """Raise if it cannot run around the calls of this service."""
        if self.is_async and self.applies_to(service.name) and not service.is_async:
            raise RegistrationError(
                f"the middleware {self.name!r} is `async def`, but the handler of service {service.name!r} is "
                "`def` and runs in a thread: write the middleware as `def`, or name the services that it is for, "
                "as in @app.middleware(services=…)"
            )


def with_middleware(service: Service, declared: Sequence[Middleware]) -> Service:
    """Return the service with its middleware around the handler, the first one outermost."""
    own = [one for one in declared if one.applies_to(service.name)]
    if not own:
        return service
    handler = service.handler

    def handle(argument: object, work: Work) -> object:
        with ExitStack() as stack:
            for one in own:
                _enter(stack, one, work)
            return handler(argument, work)

    async def handle_async(argument: object, work: Work) -> object:
        async with AsyncExitStack() as stack:
            for one in own:
                await _enter_async(stack, one, work) if one.is_async else _enter(stack, one, work)
            return await handler(argument, work)

    return replace(service, handler=handle_async if service.is_async else handle)


# What is left on the stack returns None, so that middleware cannot hide an error: half a work would be committed.


def _enter(stack: ExitStack | AsyncExitStack, middleware: Middleware, work: Work) -> None:
    manager = contextmanager(middleware.function)(work)
    manager.__enter__()

    def leave(kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        manager.__exit__(kind, error, trace)

    stack.push(leave)


async def _enter_async(stack: AsyncExitStack, middleware: Middleware, work: Work) -> None:
    manager = asynccontextmanager(middleware.function)(work)
    await manager.__aenter__()

    async def leave(
        kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await manager.__aexit__(kind, error, trace)

    stack.push_async_exit(leave)
