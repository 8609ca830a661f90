"""Retrying in place: functions, coroutines and blocks of code."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from random import Random

import pytest

from onward.retry import Classified, Exponential, Kind, Permanent, RetryPolicy, Unavailable, retrying
from tests.retry.fake_time import FakeTime

POLICY = RetryPolicy(Exponential(5.0), max_tries=3)


class Flaky:
    """Fails with each of these errors in turn, then answers."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self, answer: str = "done") -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return answer


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


def test_a_function_is_retried_until_it_answers(time: FakeTime) -> None:
    flaky = Flaky(ConnectionError(), TimeoutError())
    fetch = retrying(POLICY, clock=time.clock, sleep=time.sleep)(flaky)
    assert fetch("page") == "page"
    assert time.slept == [5.0, 10.0]


def test_in_the_end_the_original_error_is_raised_with_a_note(time: FakeTime) -> None:
    last = ConnectionError("third")
    flaky = Flaky(ConnectionError("first"), ConnectionError("second"), last)
    with pytest.raises(ConnectionError) as caught:
        retrying(POLICY, clock=time.clock, sleep=time.sleep)(flaky)()
    assert caught.value is last
    assert last.__notes__ == ["Given up after 3 tries over 15 s: max_attempts_exceeded."]
    assert last.__context__ is None


def test_what_cannot_pass_is_raised_at_once(time: FakeTime) -> None:
    flaky = Flaky(Permanent("no such model"))
    with pytest.raises(Permanent) as caught:
        retrying(POLICY, clock=time.clock, sleep=time.sleep)(flaky)()
    assert (flaky.calls, time.slept) == (1, [])
    assert caught.value.__notes__ == ["Given up after 1 try over 0 s: non_retryable."]


def test_it_stops_when_the_time_is_over(time: FakeTime) -> None:
    policy = RetryPolicy(Exponential(5.0), max_elapsed=12.0)
    with pytest.raises(TimeoutError) as caught:
        retrying(policy, clock=time.clock, sleep=time.sleep)(Flaky(TimeoutError(), TimeoutError()))()
    assert caught.value.__notes__ == ["Given up after 2 tries over 5 s: ttl_exceeded."]


def test_a_dependency_s_wish_is_respected(time: FakeTime) -> None:
    flaky = Flaky(Unavailable("embedder", retry_after=33.0))
    retrying(POLICY, clock=time.clock, sleep=time.sleep)(flaky)()
    assert time.slept == [33.0]


def test_the_caller_decides_what_may_pass(time: FakeTime) -> None:
    def everything(error: BaseException) -> Classified:
        return Classified(Kind.TRANSIENT)

    flaky = Flaky(KeyError("not there yet"))
    assert retrying(POLICY, on=everything, sleep=time.sleep)(flaky)() == "done"


def test_randomness_is_passed_in(time: FakeTime) -> None:
    jittered = RetryPolicy(Exponential(5.0, jitter=True))
    for _ in range(2):
        retrying(jittered, sleep=time.sleep, random=Random(7))(Flaky(OSError(), OSError()))()
    assert time.slept[:2] == time.slept[2:]


@pytest.mark.parametrize("stop", (KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit))
def test_a_request_to_stop_passes_through_untouched(stop: type[BaseException], time: FakeTime) -> None:
    error = stop()
    with pytest.raises(stop) as caught:
        retrying(POLICY, sleep=time.sleep)(Flaky(error))()
    assert caught.value is error
    assert not hasattr(error, "__notes__")

    async def coroutine() -> None:
        raise error

    with pytest.raises(stop):
        asyncio.run(retrying(POLICY, sleep=time.sleep)(coroutine)())
    assert time.slept == []


def test_a_coroutine_is_retried_without_blocking_the_loop(time: FakeTime) -> None:
    flaky = Flaky(ConnectionError(), ConnectionError())

    @retrying(POLICY, clock=time.clock, sleep=time.sleep_async)
    async def fetch(url: str) -> str:
        """Fetch it."""
        return flaky(url)

    assert asyncio.run(fetch("page")) == "page"
    assert time.slept == [5.0, 10.0]
    assert inspect.iscoroutinefunction(fetch)


def test_a_coroutine_that_never_succeeds_raises_its_error(time: FakeTime) -> None:
    @retrying(POLICY, clock=time.clock, sleep=time.sleep)
    async def fetch() -> None:
        raise ConnectionError("down")

    with pytest.raises(ConnectionError, match="down") as caught:
        asyncio.run(fetch())
    assert caught.value.__notes__ == ["Given up after 3 tries over 15 s: max_attempts_exceeded."]


def test_cancelling_a_wait_cancels_the_call() -> None:
    waiting = asyncio.Event()

    async def wait_for_ever(seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    @retrying(POLICY, sleep=wait_for_ever)
    async def fetch() -> None:
        raise ConnectionError

    async def cancel_it() -> None:
        task = asyncio.create_task(asyncio.wait_for(fetch(), None))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_it())


def test_callables_that_return_coroutines_are_recognised(time: FakeTime) -> None:
    class Client:
        def __init__(self) -> None:
            self.flaky = Flaky(OSError())

        async def __call__(self, answer: str) -> str:
            return self.flaky(answer)

    async def fetch(client: Client, answer: str) -> str:
        return client.flaky(answer)

    retried = retrying(POLICY, sleep=time.sleep)
    assert asyncio.run(retried(Client())("a")) == "a"
    assert asyncio.run(retried(partial(fetch, Client()))("b")) == "b"


def test_the_function_keeps_its_face() -> None:
    @retrying(POLICY)
    def fetch(url: str, *, deep: bool = False) -> str:
        """Fetch it."""
        return url

    assert (fetch.__name__, fetch.__doc__) == ("fetch", "Fetch it.")
    assert list(inspect.signature(fetch).parameters) == ["url", "deep"]


def test_methods_can_be_decorated(time: FakeTime) -> None:
    class Client:
        flaky = Flaky(OSError())

        @retrying(POLICY, sleep=time.sleep)
        def fetch(self) -> str:
            return self.flaky()

    assert Client().fetch() == "done"


def generate() -> Iterator[int]:
    yield 1


async def generate_async() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("generator", (generate, generate_async))
def test_a_generator_is_refused_because_its_body_runs_later(generator: Callable[[], object]) -> None:
    with pytest.raises(TypeError, match=generator.__name__):
        retrying(POLICY)(generator)


def test_a_block_of_code_is_retried(time: FakeTime) -> None:
    flaky = Flaky(OSError(), OSError())
    numbers = []
    for attempt in retrying(POLICY, clock=time.clock, sleep=time.sleep):
        with attempt:
            numbers.append(attempt.number)
            assert flaky() == "done"
    assert numbers == [1, 2, 3]
    assert time.slept == [5.0, 10.0]


def test_a_block_raises_what_stays(time: FakeTime) -> None:
    flaky = Flaky(OSError("1"), OSError("2"), OSError("3"))
    with pytest.raises(OSError, match="3") as caught:  # noqa: PT012 - the block is what is tested
        for attempt in retrying(POLICY, clock=time.clock, sleep=time.sleep):
            with attempt:
                flaky()
    assert caught.value.__notes__ == ["Given up after 3 tries over 15 s: max_attempts_exceeded."]


def test_a_block_in_a_coroutine(time: FakeTime) -> None:
    flaky = Flaky(OSError())

    async def run() -> None:
        async for attempt in retrying(POLICY, clock=time.clock, sleep=time.sleep_async):
            with attempt:
                flaky()

    asyncio.run(run())
    assert (flaky.calls, time.slept) == (2, [5.0])


def test_one_retrying_serves_many_calls(time: FakeTime) -> None:
    retried = retrying(POLICY, clock=time.clock, sleep=time.sleep)
    for _ in range(2):
        flaky = Flaky(OSError(), OSError())
        assert retried(flaky)() == "done"
    assert time.slept == [5.0, 10.0, 5.0, 10.0]


def test_retries_are_logged_without_secrets(time: FakeTime, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "onward.retry")
    flaky = Flaky(OSError("no answer from amqp://app:hunter2@mq"), OSError("again"))
    retrying(POLICY, clock=time.clock, sleep=time.sleep)(flaky)()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "Try 1 of 3 failed and is repeated in 5 s: OSError: no answer from amqp://app:***@mq"),
        ("WARNING", "Try 2 of 3 failed and is repeated in 10 s, for the last time: OSError: again"),
    ]
