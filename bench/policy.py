"""A decision to retry, and a call that succeeds at once, beside tenacity and stamina."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import stamina
import tenacity

from bench.table import Row, medians
from onward.retry import Exponential, RetryPolicy, retrying

CALLS = 5_000
POLICY = RetryPolicy(Exponential(0.25, cap=60.0, jitter=True), max_tries=9, max_elapsed=1800.0)
ERROR = ConnectionError("down")
# The same policy in the words of the others.
TENACITY: dict[str, Any] = {
    "retry": tenacity.retry_if_exception_type(Exception),
    "stop": tenacity.stop_after_attempt(9) | tenacity.stop_after_delay(1800.0),
    "wait": tenacity.wait_random_exponential(multiplier=0.25, max=60.0),
    "reraise": True,
}
STAMINA: dict[str, Any] = {
    "on": Exception,
    "attempts": 9,
    "timeout": 1800.0,
    "wait_initial": 0.25,
    "wait_max": 60.0,
}


def run() -> list[Row]:
    """Measure decisions, calls and awaited calls."""
    return [*_decisions(), *_calls(), *_awaited_calls()]


def _decisions() -> list[Row]:
    random = Random(0)

    def decide() -> object:
        return POLICY.decide(2, elapsed=1.0, error=ERROR, random=random)

    return _rows(
        "decision after a failure",
        {
            "onward": _rate(decide),
            "tenacity": _rate(_tenacity_decision(TENACITY)),
            # It has no decision of its own to call: these are the parts it hands to tenacity.
            "stamina": _rate(_tenacity_decision(stamina.retry_context(**STAMINA)._t_kw)),
        },
        note={"onward": "classifies the error too"},
    )


def _tenacity_decision(parts: dict[str, Any]) -> Callable[[], object]:
    state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
    state.attempt_number = 2
    state.set_exception((ConnectionError, ERROR, None))
    retry, stop, wait = parts["retry"], parts["stop"], parts["wait"]

    def decide() -> object:
        return retry(state) and not stop(state) and wait(state)

    return decide


def _double(number: int) -> int:
    return number * 2


async def _double_async(number: int) -> int:
    return number * 2


def _calls() -> list[Row]:
    wrapped = {
        "a plain call": _double,
        "onward": retrying(POLICY)(_double),
        "tenacity": tenacity.retry(**TENACITY)(_double),
        "stamina": stamina.retry(**STAMINA)(_double),
    }
    return _rows("call that succeeds", {name: _rate(call, 21) for name, call in wrapped.items()})


def _awaited_calls() -> list[Row]:
    wrapped = {
        "a plain call": _double_async,
        "onward": retrying(POLICY)(_double_async),
        "tenacity": tenacity.retry(**TENACITY)(_double_async),
        "stamina": stamina.retry(**STAMINA)(_double_async),
    }
    return _rows("awaited call that succeeds", {name: _async_rate(call) for name, call in wrapped.items()})


def _rate(call: Callable[..., object], *args: object) -> Callable[[], float]:
    def measure() -> float:
        started = time.perf_counter()
        for _ in range(CALLS):
            call(*args)
        return CALLS / (time.perf_counter() - started)

    return measure


def _async_rate(call: Callable[[int], Awaitable[int]]) -> Callable[[], float]:
    async def repeat() -> float:
        started = time.perf_counter()
        for _ in range(CALLS):
            await call(21)
        return CALLS / (time.perf_counter() - started)

    return lambda: asyncio.run(repeat())


def _rows(
    measure: str, contestants: dict[str, Callable[[], float]], note: dict[str, str] | None = None
) -> list[Row]:
    notes = note or {}
    return [
        Row(name, name == "onward", rate, notes.get(name, ""), measure)
        for name, rate in medians(contestants).items()
    ]
