"""Middleware: code of the app that runs before and after each call of a handler."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias

from onward.runtime.service import Middleware, Service

if TYPE_CHECKING:
    from onward.runtime.work import Work

MiddlewareFunction: TypeAlias = "Callable[[Work], Iterator[None] | AsyncIterator[None]]"


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
